/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/oci/oci.h"
#include "base/error.h"

static const char *ids_wall(const struct oci_ids *ids)
{
	if (!ids->is_rootless)
		return "root of a container would be root outside: cells are another user";
	return ids->has_range ? "a user namespace; without files of yours a cell is one of your "
				"subordinate ids, else it is you"
			      : "a user namespace of its own, in which there is one id: yours";
}

int oci_walls(const struct cell_backend *self, cell_wall_fn fn, void *user)
{
	struct cell_error err;
	struct oci_runtime runtime = {0};
	struct oci_ids ids;
	char how[600];

	if (oci_runtime_find(NULL, &runtime, &err) < 0)
		return 0;
	oci_ids_find(&ids);
	bool is_runsc = runtime.kind == OCI_RUNSC;
	(void)snprintf(how, sizeof how, "%s; no daemon, state in the cell's directory",
		runtime.program);
	free(runtime.program);
	const struct cell_wall walls[] = {
		{.name = "runtime", .how = how},
		{.name = "kernel",
			.how = is_runsc
				       ? "gVisor's, a program of an ordinary user: the host's sees "
					 "few of a cell's system calls"
				       : "the host's",
			.better = is_runsc ? NULL : "--runtime runsc: a kernel of its own"},
		{.name = "ids",
			.how = ids_wall(&ids),
			.better = ids.is_rootless ? ids.has_range ? NULL : "a range in /etc/subuid"
						  : "an id for each cell, as in the jail"},
		{.name = "privileges", .how = "no capability, no_new_privs"},
		{.name = "processes", .how = "own pid, ipc, uts and cgroup namespaces"},
		{.name = "syscalls", .how = "seccomp: Cell's profile, taken by the guest"},
		{.name = "files",
			.how = "overlay of the image in a mount namespace of its own; no "
			       "devices but the usual ones"},
		{.name = "network", .how = "none: an empty namespace"},
		{.name = "limits",
			.how = ids.is_rootless
				       ? "processes by RLIMIT_NPROC; no memory, no cpus"
				       : "memory with swap, cpus, pids by the runtime's cgroups",
			.is_weak = ids.is_rootless},
		{.name = "disk", .how = "size and number of files of its scratch space in memory"},
	};
	(void)self;
	return cell_walls_tell(walls, sizeof walls / sizeof *walls, fn, user);
}
