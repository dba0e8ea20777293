/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/reply.h"

#include <stdint.h>
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
