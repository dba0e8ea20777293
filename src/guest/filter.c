/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter.c: a syscall filter that the guest takes upon itself, and so upon all it will ever start. For places made by others,
 * whose own filters are theirs: the built-in profiles hold there too, behind whatever is there.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/guest.h"

int guest_filter(const char *path)
{
	static struct sock_filter code[BPF_MAXINSNS];
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, code, sizeof code);

	if (n < 0)
		return -errno;
	if (n == 0 || n % (ssize_t)sizeof *code || n == (ssize_t)sizeof code)
		return -EINVAL;
	const struct sock_fprog program = {
		.len = (unsigned short)((size_t)n / sizeof *code), .filter = code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0)
		return -errno;
	return 0;
}
