/* SPDX-License-Identifier: Apache-2.0 */
/* fs_stat.c: what a path names. A link at its end is told of itself, not followed. */
#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"
#include "guest/fs_op.h"

int fs_stat(struct fs_call *call, struct cell_error *err)
{
	struct fs_path path;
	struct stat st;
	int r = fs_get_path(call, WIRE_T_PATH, "stat", &path, err);

	if (r < 0)
		return r;
	auto_fd int fd = beneath_open(call->root_fd, path.text, O_PATH | O_NOFOLLOW, 0);
	if (fd < 0)
		return fs_fail(err, fd, "stat", path.text);
	if (fstat(fd, &st) < 0)
		return fs_fail(err, -errno, "stat", path.text);
	r = fs_put_file(&call->reply, NULL, &st, fd, "");
	return r < 0 ? fs_fail(err, r, "stat", path.text) : 0;
}
