/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c: does the jail hold here? Nothing is concluded from version numbers: the launcher is started
 * and makes a cell up to the step before the guest would run. What that cell could not have is a lack.
 * Whoever makes a real cell next is spared the rehearsal.
 */
#include "backends/jail/probe.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "backends/jail/client.h"
#include "backends/jail/disk.h"
#include "backends/jail/net.h"
#include "backends/jail/settings.h"
#include "base/cleanup.h"
#include "base/error.h"

#define TRIAL_TIMEOUT_MS 30000

static struct {
	pthread_mutex_t lock;
	pid_t pid; /* who looked, as whom: another must look for itself; 0: nobody yet */
	uid_t uid;
	bool is_usable, is_tried;
	int broken; /* errno: there was no answer at all, so whoever comes next asks again */
	uint32_t can;
	struct launcher_reply hello;
	char reason[240], fix[240];
	bool has_tried_network;
	char net_reason[240], net_fix[240]; /* empty: it can be had */
} found = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int try_cell(uint32_t flags, struct launcher_reply *ret, struct cell_error *err)
{
	struct launcher_request rq = LAUNCHER_REQUEST_INIT(LAUNCHER_CREATE);

	rq.head.flags = LAUNCHER_TRIAL | flags;
	auto_fd int control = jail_client_send(&rq, err);

	return control < 0 ? control
			   : jail_client_receive(control, TRIAL_TIMEOUT_MS, ret, NULL, err);
}

static void look(bool is_hasty)
{
	struct launcher_reply hello = {0}, trial = {0};
	struct cell_error err = {0};
	int r = jail_client_hello(&hello, &err);

	found.hello = hello;
	if (r == 0 && !is_hasty)
		r = try_cell(0, &trial, &err);
	found.has_tried_network = false;
	found.net_reason[0] = '\0';
	found.pid = getpid();
	found.uid = geteuid();
	found.is_tried = r < 0 || !is_hasty;
	found.is_usable = r == 0 && (is_hasty || trial.answer == LAUNCHER_READY);
	/* what only a trial shows is taken for granted until it fails */
	found.can = hello.can |
		    (is_hasty ? LAUNCHER_CAN_OVERLAY
			      : trial.can & (LAUNCHER_CAN_FULL_PROC | LAUNCHER_CAN_OVERLAY));
	found.hello.can = found.can;
	found.broken = 0;
	if (found.is_usable)
		return;
	if (hello.answer == LAUNCHER_FAILED)
		jail_explain_parts(&hello, found.reason, found.fix);
	else if (trial.answer == LAUNCHER_FAILED)
		jail_explain_parts(&trial, found.reason, found.fix);
	else {
		(void)snprintf(found.reason, sizeof found.reason, "%.239s", err.msg);
		(void)snprintf(found.fix, sizeof found.fix, "%.239s", err.hint);
		/* a launcher that dies, or a machine that is short of something for now, is no lack */
		if (r < 0 && err.code != CELL_ENOTSUP && err.code != CELL_EDENIED)
			found.broken = -r;
	}
}

/* The filter, the rules of the host and a pair of interfaces, all in a namespace of its own. */
static void try_network(void)
{
	struct launcher_reply trial = {0};
	struct cell_error err = {0};

	found.net_reason[0] = found.net_fix[0] = '\0';
	found.has_tried_network = try_cell(LAUNCHER_NET_OPEN, &trial, &err) == 0;
	if (found.has_tried_network && trial.answer == LAUNCHER_READY)
		return;
	if (trial.answer == LAUNCHER_FAILED) {
		jail_explain_parts(&trial, found.net_reason, found.net_fix);
	} else {
		(void)snprintf(found.net_reason, sizeof found.net_reason, "%.239s", err.msg);
		(void)snprintf(found.net_fix, sizeof found.net_fix, "%.239s", err.hint);
	}
}

static void lack_network(struct cell_probe *p)
{
	const char *fix = "", *lack = found.can & LAUNCHER_IS_ROOTFUL ? NULL : jail_net_lack(&fix);

	if (!lack && found.net_reason[0]) {
		lack = found.net_reason;
		fix = found.net_fix;
	}
	if (lack) {
		cell_probe_lack(p, CELL_CAP_NET_OPEN, lack, fix);
		cell_probe_lack(p, CELL_CAP_NET_PRIVATE, lack, fix);
	}
}

static void lack_limit(struct cell_probe *p, uint32_t bit, enum cell_cap cap,
	const char *controller)
{
	char reason[160];

	if (found.can & bit)
		return;
	if (found.hello.withheld & bit) {
		/* who hands cpuset down moves every process in the group, which takes leave to schedule each */
		(void)snprintf(reason, sizeof reason,
			"our cgroup has the %s controller, but the kernel does not let us hand it "
			"down",
			controller);
		cell_probe_lack(p, cap, reason,
			"a process of another user's, perhaps root's, is in it: move that out "
			"(cgroup.procs), or start Cell in a group of its own");
		return;
	}
	if (jail_cgroups_are_read_only())
		(void)snprintf(reason, sizeof reason, "/sys/fs/cgroup is mounted read-only");
	else
		(void)snprintf(reason, sizeof reason,
			"no cgroup with the %s controller in which we may make groups", controller);
	cell_probe_lack(p, cap, reason,
		jail_fix_limits(found.can & LAUNCHER_IS_ROOTFUL, cap != CELL_CAP_LIMIT_CPUS));
}

/* What a group is promised holds only if every group above is promised it too. */
static void lack_reserve(struct cell_probe *p)
{
	const char *reason, *fix;

	if (found.can & LAUNCHER_CAN_RESERVE)
		return;
	if (!(found.can & LAUNCHER_IS_ROOTFUL)) {
		reason = "memory can be reserved only by the machine's root";
		fix = "run it as root, or leave limits.memory out of a dedicated cell";
	} else if (!(found.hello.v2_controllers & LAUNCHER_CAN_MEMORY)) {
		reason = "memory can be reserved only with the memory controller of cgroup v2";
		fix = "boot with cgroup v2 (systemd.unified_cgroup_hierarchy=1), or leave "
		      "limits.memory out of a dedicated cell";
	} else {
		reason = "memory can be reserved only in a group directly below the machine's top "
			 "one, and that is not to be seen from here, as in a container";
		fix = "run it outside of the container, or leave limits.memory out of a dedicated "
		      "cell";
	}
	cell_probe_lack(p, CELL_CAP_RESERVED_MEMORY, reason, fix);
}

const struct launcher_reply *jail_found(void)
{
	return &found.hello;
}

/* What it found, with the lock held: somebody else may be looking again. */
static void tell(struct cell_probe *p)
{
	static const enum cell_cap images[] = {
		CELL_CAP_ROOT_DIR, CELL_CAP_ROOT_TAR, CELL_CAP_IMAGE};

	lack_limit(p, LAUNCHER_CAN_MEMORY, CELL_CAP_LIMIT_MEMORY, "memory");
	lack_limit(p, LAUNCHER_CAN_CPU, CELL_CAP_LIMIT_CPUS, "cpu");
	/* counted by RLIMIT_NPROC where there is no such cgroup, which is per user namespace */
	lack_limit(p, LAUNCHER_CAN_PIDS, CELL_CAP_LIMIT_PIDS, "pids");
	if (!(found.can & LAUNCHER_CAN_IO))
		cell_probe_lack(p, CELL_CAP_LIMIT_IO,
			"no cgroup with I/O weights: no disk here has a scheduler that knows them",
			"use the bfq scheduler: echo bfq > /sys/block/DISK/queue/scheduler");
	lack_network(p);
	if (!(found.can & LAUNCHER_CAN_FREEZE))
		cell_probe_lack(p, CELL_CAP_PAUSE,
			"no cgroup of version 2 in which we may make groups, and freeze them",
			jail_fix_limits(found.can & LAUNCHER_IS_ROOTFUL, true));
	lack_limit(p, LAUNCHER_CAN_CPUSET, CELL_CAP_DEDICATED, "cpuset");
	lack_reserve(p);
	char missing[200];
	if ((found.can & LAUNCHER_IS_ROOTFUL) && !jail_disk_has_images(missing))
		cell_probe_lack(p, CELL_CAP_SCRATCH_DISK, missing, "or use --scratch memory");
	if (!(found.can & LAUNCHER_CAN_OVERLAY))
		for (size_t i = 0; i < sizeof images / sizeof *images; i++)
			cell_probe_lack(p, images[i],
				"no overlay can be mounted in a user namespace here",
				"use Linux 5.11 or later; as root: modprobe overlay");
}

void jail_probe(struct cell_probe *p)
{
	(void)pthread_mutex_lock(&found.lock);
	if (found.broken || found.pid != getpid() || found.uid != geteuid() ||
		(!found.is_tried && !p->is_hasty))
		look(p->is_hasty);
	if (found.is_usable && p->is_thorough && !found.has_tried_network)
		try_network();
	if (found.is_usable)
		tell(p);
	else if (found.broken)
		cell_probe_break(p, found.broken, found.reason, found.fix);
	else
		cell_probe_refuse(p, found.reason, found.fix);
	(void)pthread_mutex_unlock(&found.lock);
}
