/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c: does the jail hold here? Nothing is concluded from version numbers: the launcher is started
 * and makes a cell up to the step before the guest would run. What that cell could not have is a lack.
 */
#include "backends/jail/probe.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "backends/jail/client.h"
#include "backends/jail/settings.h"
#include "base/cleanup.h"
#include "base/error.h"

#define TRIAL_TIMEOUT_MS 10000

static struct {
	pthread_mutex_t lock;
	pid_t pid; /* who looked, as whom: another must look for itself; 0: nobody yet */
	uid_t uid;
	bool is_usable;
	uint32_t can;
	struct launcher_reply hello;
	char reason[240], fix[240];
} found = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int try_cell(struct launcher_reply *ret, struct cell_error *err)
{
	struct launcher_request rq = {.head = {.op = LAUNCHER_CREATE, .flags = LAUNCHER_TRIAL},
		.stream_fd = -1,
		.guest_fd = -1,
		.hold_fd = -1,
		.workspace_fd = -1,
		.filter_fd = -1,
		.scratch_fd = -1};
	auto_fd int control = jail_client_send(&rq, err);

	return control < 0 ? control
			   : jail_client_receive(control, TRIAL_TIMEOUT_MS, ret, NULL, err);
}

static void look(void)
{
	struct launcher_reply hello = {0}, trial = {0};
	struct cell_error err = {0};
	int r = jail_client_hello(&hello, &err);

	found.hello = hello;
	if (r == 0)
		r = try_cell(&trial, &err);
	found.pid = getpid();
	found.uid = geteuid();
	found.is_usable = r == 0 && trial.answer == LAUNCHER_READY;
	found.can = hello.can | (trial.can & LAUNCHER_CAN_FULL_PROC);
	found.hello.can = found.can;
	if (found.is_usable)
		return;
	if (hello.answer == LAUNCHER_FAILED)
		jail_explain_parts(&hello, found.reason, found.fix);
	else if (trial.answer == LAUNCHER_FAILED)
		jail_explain_parts(&trial, found.reason, found.fix);
	else {
		(void)snprintf(found.reason, sizeof found.reason, "%.239s", err.msg);
		(void)snprintf(found.fix, sizeof found.fix, "%.239s", err.hint);
	}
}

static void lack_limit(struct cell_probe *p, uint32_t bit, enum cell_cap cap,
	const char *controller)
{
	char reason[160];

	if (found.can & bit)
		return;
	if (jail_cgroups_are_read_only())
		(void)snprintf(reason, sizeof reason, "/sys/fs/cgroup is mounted read-only");
	else
		(void)snprintf(reason, sizeof reason,
			"no cgroup with the %s controller in which we may make groups", controller);
	cell_probe_lack(p, cap, reason,
		jail_fix_limits(found.can & LAUNCHER_IS_ROOTFUL, cap != CELL_CAP_LIMIT_CPUS));
}

const struct launcher_reply *jail_found(void)
{
	return &found.hello;
}

void jail_probe(struct cell_probe *p)
{
	static const enum cell_cap images[] = {
		CELL_CAP_ROOT_DIR, CELL_CAP_ROOT_TAR, CELL_CAP_IMAGE};

	(void)pthread_mutex_lock(&found.lock);
	if (found.pid != getpid() || found.uid != geteuid())
		look();
	(void)pthread_mutex_unlock(&found.lock);
	if (!found.is_usable) {
		cell_probe_refuse(p, found.reason, found.fix);
		return;
	}
	lack_limit(p, LAUNCHER_CAN_MEMORY, CELL_CAP_LIMIT_MEMORY, "memory");
	lack_limit(p, LAUNCHER_CAN_CPU, CELL_CAP_LIMIT_CPUS, "cpu");
	/* counted by RLIMIT_NPROC where there is no such cgroup, which is per user namespace */
	lack_limit(p, LAUNCHER_CAN_PIDS, CELL_CAP_LIMIT_PIDS, "pids");
	if (!(found.can & LAUNCHER_CAN_IO))
		cell_probe_lack(p, CELL_CAP_LIMIT_IO,
			"no cgroup with I/O weights: no disk here has a scheduler that knows them",
			"use the bfq scheduler: echo bfq > /sys/block/DISK/queue/scheduler");
	if (!(found.can & LAUNCHER_CAN_OVERLAY))
		for (size_t i = 0; i < sizeof images / sizeof *images; i++)
			cell_probe_lack(p, images[i], "the kernel has no overlayfs",
				"as root: modprobe overlay");
}
