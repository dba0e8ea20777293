/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alone.c: a guest that was started as root of somebody's user namespace leaves it for one of its own, which knows one user and
 * one group. For places made without privileges: their root is the ordinary user who made them, has rights over the place's mounts,
 * network and processes, and may have other ids mapped beside its own. Nobody in the new namespace has any of that.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/capsets.h"
#include "base/cleanup.h"
#include "guest/guest.h"

static int put(const char *path, const char *text)
{
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		return -errno;
	return 0;
}

static int leave_for(const char *ids)
{
	unsigned uid, gid, old_uid = geteuid(), old_gid = getegid();
	char text[40], end;

	if (sscanf(ids, "%u:%u%c", &uid, &gid, &end) != 2)
		return -EINVAL;
	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	int r = put("/proc/self/setgroups", "deny");
	if (r == -ENOENT) /* gVisor has no such thing */
		r = 0;
	(void)snprintf(text, sizeof text, "%u %u 1", gid, old_gid);
	if (r == 0)
		r = put("/proc/self/gid_map", text);
	(void)snprintf(text, sizeof text, "%u %u 1", uid, old_uid);
	if (r == 0)
		r = put("/proc/self/uid_map", text);
	/* all that came with the new namespace */
	if (r == 0)
		r = capsets_drop_bounding();
	return r == 0 ? capsets_drop_own() : r;
}

/* Whom the memory of a process that may not be looked into belongs to is decided by exec: without it that would be the root we were, and
 * that is us. */
int guest_be_alone(const char *ids, char **argv)
{
	int r = leave_for(ids);

	if (r < 0)
		return r;
	execv("/proc/self/exe", argv);
	return -errno;
}
