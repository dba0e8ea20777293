/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.c: what lives in a slot stands still, or goes on: by the freezer of cgroup2, which needs no controller and
 * from which a process can still be killed. How long that takes is up to what the processes do in the kernel, so the
 * client gets the group's events and waits for itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/launcher.h"
#include "launcher/reply.h"

static int set(const struct launcher_request *rq, struct cgroup_slot *groups, struct failure *f)
{
	bool is_to_end = rq->head.op == LAUNCHER_RELEASE;

	/* asked with the group open: a name is there only as long as its cell's groups are, so it is that cell's */
	if ((groups->v2_fd < 0 && !is_to_end) ||
		!slot_is_owned_by(rq->head.slot, rq->texts[LAUNCHER_TEXT_TITLE]))
		return fail_with(f, LAUNCHER_STEP_FREEZE, ENOENT,
			"find the cell's cgroup below our own", NULL);
	if (is_to_end)
		cgroup_lift_quota(&host.cgroups, groups);
	if (groups->v2_fd >= 0 && !cgroup_put(groups->v2_fd, "cgroup.freeze",
					  rq->head.op == LAUNCHER_FREEZE ? "1" : "0"))
		return fail(f, LAUNCHER_STEP_FREEZE, "write to", "cgroup.freeze");
	return 0;
}

void freeze_slot(const struct launcher_request *rq, int control_fd)
{
	struct launcher_reply r = {
		.magic = LAUNCHER_MAGIC, .answer = LAUNCHER_DONE, .slot = rq->head.slot};
	struct cgroup_slot groups;
	struct failure f = {0};

	cgroup_slot_init(&groups);
	cgroup_adopt(&host.cgroups, &groups, rq->head.slot);
	if (set(rq, &groups, &f) == 0) {
		auto_fd int events = groups.v2_fd < 0 ? -1
						      : openat(groups.v2_fd, "cgroup.events",
								O_RDONLY | O_CLOEXEC);

		(void)reply_send(control_fd, &r, events);
	} else {
		reply_failure(control_fd, &f);
	}
	cgroup_close(&groups);
}
