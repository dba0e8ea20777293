/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backends/oci/oci.h"
#include "base/error.h"

int oci_walls(const struct cell_backend *self, cell_wall_fn fn, void *user)
{
	struct cell_error err;
	struct oci_runtime runtime = {0};
	struct oci_ids ids;
	struct oci_groups groups;
	char how[600];

	if (oci_runtime_find(NULL, &runtime, &err) < 0)
		return 0;
	oci_ids_find(&ids);
	oci_groups_find(&groups);
	bool is_runsc = runtime.kind == OCI_RUNSC;
	bool has_groups = groups.is_there && (!ids.is_rootless || !is_runsc);
	bool has_all = has_groups && groups.has_memory && groups.has_cpu && groups.has_pids;
	(void)snprintf(how, sizeof how, "%s; no daemon, state in the cell's directory",
		runtime.program);
	free(runtime.program);
	const struct container_walls w = {.maker = "runtime",
		.how = how,
		.kernel = is_runsc ? "gVisor's, a program of an ordinary user: the host's sees "
				     "few of a cell's system calls"
				   : "the host's",
		.kernel_better = is_runsc ? NULL : "--runtime runsc: a kernel of its own",
		.ids = !ids.is_rootless ? NULL
		       : ids.has_range
			       ? "a user namespace; without files of yours a cell is one of "
				 "your subordinate ids, else it is you"
			       : "a user namespace of its own, in which there is one id: "
				 "yours",
		.ids_better = ids.is_rootless && !ids.has_range ? "a range in /etc/subuid" : NULL,
		.files = "overlay of the image in a mount namespace of its own; no devices but the "
			 "usual ones",
		.limits = has_all      ? NULL
			  : has_groups ? "what your delegated cgroup has: see cell backends"
				       : "processes by RLIMIT_NPROC; no memory, no cpus",
		.is_unlimited = !has_all,
		.disk = "size and number of files of its scratch space in memory"};
	(void)self;
	return container_walls_tell(&w, fn, user);
}
