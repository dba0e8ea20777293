/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/reply.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int reply_send(int fd, const struct launcher_reply *r, int attach_fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)r, .iov_len = sizeof *r};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (attach_fd >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof control;
		control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.head), &attach_fd, sizeof attach_fd);
	}
	return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)sizeof *r ? 0 : -1;
}

void reply_answer(int fd, struct launcher_reply *r)
{
	r->magic = LAUNCHER_MAGIC;
	if (fd >= 0)
		(void)reply_send(fd, r, -1);
}

void reply_failure(int fd, const struct failure *f)
{
	struct launcher_reply r = {
		.answer = LAUNCHER_FAILED, .step = f->step, .sys_errno = f->sys_errno};

	(void)snprintf(r.text, sizeof r.text, "%s", f->text);
	reply_answer(fd, &r);
}
