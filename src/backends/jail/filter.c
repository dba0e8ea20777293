/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filter.c: see filter.h. The file is read and compiled here, with the client's rights and outside of
 * the launcher: no parser of foreign bytes runs with privileges.
 */
#include "backends/jail/filter.h"

#include <linux/filter.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/seccomp_file.h"

int jail_filter_compile(const char *path, struct cell_error *err)
{
	struct sock_fprog program = {0};
	int r = seccomp_file_compile(path, &program, err);

	if (r < 0)
		return r;
	auto_free struct sock_filter *instructions = program.filter;
	size_t size = program.len * sizeof *instructions;
	auto_fd int fd = memfd_create("cell-filter", MFD_CLOEXEC);
	if (fd < 0 || write(fd, instructions, size) != (ssize_t)size)
		return cell_fail_errno(err, errno, "hand over the syscall filter '%s'", path);
	return steal_fd(fd);
}
