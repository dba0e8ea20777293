/* SPDX-License-Identifier: Apache-2.0 */
/*
 * walls.c: each wall of the jail as this machine provides it, in words, and what another kernel or another
 * setting would give. From what the launcher found and a trial cell had, not from version numbers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "backends/jail/probe.h"
#include "backends/jail/settings.h"

struct teller {
	const struct launcher_reply *found;
	cell_wall_fn fn;
	void *user;
	int result; /* of fn: not 0 stops */
};

static bool can(const struct teller *t, uint32_t bits)
{
	return (t->found->can & bits) == bits;
}

static void tell(struct teller *t, const struct cell_wall *w)
{
	if (!t->result)
		t->result = t->fn(w, t->user);
}

/* A wall that is the same everywhere: a machine that cannot have it has no jail. */
static void tell_given(struct teller *t, const char *name, const char *how)
{
	tell(t, &(struct cell_wall){.name = name, .how = how});
}

static void tell_ids(struct teller *t)
{
	char how[160];

	if (!can(t, LAUNCHER_CAN_UNIQUE_IDS)) {
		tell(t, &(struct cell_wall){.name = "ids",
				.how = "own user namespace with one id, which is yours outside",
				.better = "an id for each cell: quotas of the kernel that count by "
					  "user are then the cell's own",
				.fix = "run as root",
				.is_weak = true});
		return;
	}
	(void)snprintf(how, sizeof how,
		"own user namespace with one id; unique for each cell, %" PRIu32 " from 0x%" PRIx32,
		t->found->n_uids, t->found->first_uid);
	tell_given(t, "ids", how);
}

static void tell_kill(struct teller *t)
{
	if (can(t, LAUNCHER_CAN_CGROUP_KILL))
		tell_given(t, "kill", "pidfd of pid 1; cgroup2: cgroup.kill");
	else if (can(t, LAUNCHER_CAN_CLONE_INTO) || t->found->v1_controllers)
		tell(t, &(struct cell_wall){.name = "kill",
				.how = "pidfd of pid 1; every process of its cgroup, one by one",
				.better = "cgroup.kill, all at once",
				.fix = "use Linux 5.14 or later with cgroup2 mounted"});
	else
		tell(t, &(struct cell_wall){.name = "kill",
				.how = "pidfd of pid 1, which takes all others with it",
				.better = "a second, independent way: cgroup.kill",
				.fix = jail_fix_limits(can(t, LAUNCHER_IS_ROOTFUL), true)});
}

static void tell_files(struct teller *t)
{
	if (can(t, LAUNCHER_CAN_NEW_MOUNTS))
		tell_given(t, "files",
			"own mount namespace; root assembled by descriptors (open_tree, "
			"move_mount); nosuid, nodev");
	else
		tell(t, &(struct cell_wall){.name = "files",
				.how = "own mount namespace; root assembled by mount(2) on "
				       "descriptors; nosuid, nodev",
				.better = "cells begin faster, and root may give them any files",
				.fix = "use Linux 5.12 or later, or allow open_tree, move_mount "
				       "and "
				       "mount_setattr in the container's seccomp profile"});
	if (can(t, LAUNCHER_CAN_IDMAP))
		tell_given(t, "workspace", "idmapped: files keep their owner on the host");
	else if (can(t, LAUNCHER_IS_ROOTFUL))
		tell(t, &(struct cell_wall){.name = "workspace",
				.how = "the cell has its owner's id outside; root's only read-only",
				.better = "idmapped mounts: root's files, and an id of its own",
				.fix = "use Linux 5.12 or later, or allow mount_setattr in the "
				       "container's seccomp profile"});
	else
		tell(t, &(struct cell_wall){.name = "workspace",
				.how = "files in it are yours, inside and outside",
				.better = "idmapped mounts: files of other owners too",
				.fix = "run as root on Linux 5.12 or later"});
	if (can(t, LAUNCHER_CAN_OVERLAY))
		tell_given(t, "images", "overlayfs: changes stay in the cell");
	else
		tell(t, &(struct cell_wall){.name = "images",
				.how = "only the host's own programs",
				.better = "root trees and images",
				.fix = "use Linux 5.11 or later; as root: modprobe overlay",
				.is_weak = true});
}

static void tell_proc(struct teller *t)
{
	if (can(t, LAUNCHER_CAN_FULL_PROC))
		tell_given(t, "/proc", "own, /proc/sys read-only, what tells of the host covered");
	else
		tell(t, &(struct cell_wall){.name = "/proc",
				.how = "own, only processes (subset=pid): the /proc around us is "
				       "masked",
				.better = "programs that read /proc/meminfo or /proc/cpuinfo",
				.fix = "start the container around us with --security-opt "
				       "systempaths=unconfined"});
}

static void tell_syscalls(struct teller *t)
{
	uint32_t abi = t->found->landlock_abi;
	char how[160];

	(void)snprintf(how, sizeof how, "seccomp: profile default, %" PRIu32 " instructions",
		t->found->filter_len);
	tell_given(t, "syscalls", how);
	if (abi >= 6)
		(void)snprintf(how, sizeof how,
			"ABI %" PRIu32 ": signals and abstract sockets stay inside", abi);
	else if (abi)
		(void)snprintf(how, sizeof how,
			"ABI %" PRIu32 ": has no scopes; the namespaces alone keep signals and "
			"abstract sockets",
			abi);
	else
		(void)snprintf(how, sizeof how,
			"none; the namespaces alone keep signals and abstract sockets");
	tell(t, &(struct cell_wall){.name = "landlock",
			.how = how,
			.better = abi >= 6 ? NULL : "a second wall behind the namespaces",
			.fix = abi >= 6 ? NULL
			       : abi	? "use Linux 6.12 or later"
					: "use Linux 6.12 or later with landlock in lsm= on its "
					  "command line"});
}

static void tell_network(struct teller *t)
{
	const struct cell_backend *chain[] = {&cell_backend_jail, NULL};
	const struct cell_lack *lack = NULL;
	struct cell_probe p;

	cell_probe_run(chain, &p);
	for (size_t i = 0; i < p.n_lacks; i++)
		if (p.lacks[i].cap == CELL_CAP_NET_OPEN)
			lack = &p.lacks[i];
	if (p.caps & CELL_CAP_BIT(CELL_CAP_NET_OPEN))
		tell_given(t, "network",
			can(t, LAUNCHER_IS_ROOTFUL)
				? "none: an empty namespace; open: veth and nftables, no way to "
				  "the host"
				: "none: an empty namespace; open: pasta, no way to the host");
	else
		tell(t, &(struct cell_wall){.name = "network",
				.how = "none: an empty namespace with its own loopback",
				.better = lack ? lack->reason : NULL,
				.fix = lack && *lack->fix ? lack->fix : NULL});
}

static void add_controllers(char *how, size_t size, const char *version, uint32_t bits)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} names[] = {{LAUNCHER_CAN_MEMORY, "memory"}, {LAUNCHER_CAN_CPU, "cpu"},
		{LAUNCHER_CAN_PIDS, "pids"}, {LAUNCHER_CAN_IO, "io"},
		{LAUNCHER_CAN_CPUSET, "cpuset"}};
	const char *before = *how ? "; " : "";
	size_t at = strlen(how);

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (!(bits & names[i].bit))
			continue;
		int n = snprintf(how + at, size - at, "%s%s%s", before, version, names[i].name);
		if (n < 0 || (size_t)n >= size - at)
			return;
		at += (size_t)n;
		before = ", ";
		version = "";
	}
}

static void tell_limits(struct teller *t)
{
	const struct launcher_reply *f = t->found;
	const uint32_t all = LAUNCHER_CAN_MEMORY | LAUNCHER_CAN_CPU | LAUNCHER_CAN_PIDS;
	uint32_t have = f->v1_controllers | f->v2_controllers;
	bool has_weights = can(t, LAUNCHER_CAN_IO);
	char how[240] = "";

	/* without a scheduler that knows weights the controller is of no use to us */
	add_controllers(how, sizeof how, "cgroup v2 ",
		f->v2_controllers & ~(has_weights ? 0u : (uint32_t)LAUNCHER_CAN_IO));
	add_controllers(how, sizeof how, "cgroup v1 ",
		f->v1_controllers & ~(has_weights ? 0u : (uint32_t)LAUNCHER_CAN_IO));
	if (!(have & LAUNCHER_CAN_PIDS) && can(t, LAUNCHER_CAN_PIDS))
		(void)snprintf(how + strlen(how), sizeof how - strlen(how),
			"%spids by RLIMIT_NPROC", *how ? "; " : "");
	(void)snprintf(how + strlen(how), sizeof how - strlen(how), "%sfiles by RLIMIT_NOFILE",
		*how ? "; " : "");
	struct cell_wall w = {.name = "limits", .how = how, .is_weak = (have & all) != all};
	if (w.is_weak) {
		w.better = "limits of memory and cpu for the whole cell";
		w.fix = jail_fix_limits(can(t, LAUNCHER_IS_ROOTFUL), false);
	} else if (f->v1_controllers) {
		w.better =
			"cgroup v2 alone: entered by clone3 in one step, buffered writes counted, "
			"limits for users without root";
		w.fix = jail_fix_unified();
	}
	tell(t, &w);
	if (have & LAUNCHER_CAN_IO && !has_weights)
		tell(t, &(struct cell_wall){.name = "I/O weight",
				.how = "none: no disk here has a scheduler that knows weights",
				.better = "a share of the disk for each cell",
				.fix = "as root: echo bfq >/sys/block/DISK/queue/scheduler",
				.is_weak = true});
}

static void tell_memory(struct teller *t)
{
	const struct launcher_reply *f = t->found;

	if (!can(t, LAUNCHER_CAN_MEMORY))
		return; /* there is no limit to speak of: `limits` says so */
	if (can(t, LAUNCHER_CAN_SWAP))
		tell_given(t, "swap", "counted with memory, or there is none");
	else
		tell(t, &(struct cell_wall){.name = "swap",
				.how = "not counted: a cell may swap beyond its limit",
				.better = "swap within the limit",
				.fix = "as root: swapoff -a; or boot with swapaccount=1",
				.is_weak = true});
	tell_given(t, "out of memory",
		f->v2_controllers & LAUNCHER_CAN_MEMORY
			? "told by memory.events of cgroup v2; the guest ends the whole cell"
			: "told by an eventfd of cgroup v1; the guest ends the whole cell");
}

static void tell_time(struct teller *t)
{
	tell_given(t, "time",
		can(t, LAUNCHER_CAN_TIME_NS)
			? "own time namespace"
			: "the host's clocks: a cell sees how long the machine has been up");
	tell_given(t, "deadline", "by the guest, and from outside: nothing inside can delay it");
}

int jail_walls(const struct cell_backend *self, cell_wall_fn fn, void *user)
{
	struct teller t = {.found = jail_found(), .fn = fn, .user = user};

	(void)self;
	tell_ids(&t);
	tell_given(&t, "privileges",
		"no capability in any of five sets, no_new_privs, secure bits locked");
	tell_given(&t, "processes",
		"own pid namespace; pid 1 is the guest, which nobody may trace");
	tell_kill(&t);
	tell_files(&t);
	tell_proc(&t);
	tell_given(&t, "devices", "own /dev with null, zero, full, random, urandom and terminals");
	tell_syscalls(&t);
	tell_network(&t);
	tell_given(&t, "ipc", "own ipc, uts and cgroup namespaces, own session keyring");
	tell_limits(&t);
	tell_memory(&t);
	tell_given(&t, "disk", "size and number of files of its private file system");
	tell_time(&t);
	return t.result;
}
