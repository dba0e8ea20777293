/* SPDX-License-Identifier: Apache-2.0 */
/* fs_tar.c: a directory out as a tar stream, and a tar stream in. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "base/tartree.h"
#include "base/untar.h"
#include "guest/fs_op.h"

static int write_out(const void *p, size_t n, void *user)
{
	const struct fs_call *call = user;

	return fd_write_all(call->out_fd, p, n);
}

static ssize_t read_in(void *p, size_t n, void *user)
{
	const struct fs_call *call = user;
	ssize_t got = read(call->in_fd, p, n);

	return got < 0 ? -errno : got;
}

static int open_home(const struct fs_call *call, struct cell_error *err)
{
	int fd = call->home ? open(call->home, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (!call->home)
		return cell_fail(err, CELL_ENOTSUP, 0, "this cell has no home of its own");
	return fd < 0 ? fs_fail(err, -errno, "open", call->home) : fd;
}

int fs_tar(struct fs_call *call, struct cell_error *err)
{
	struct tar_writer w = {.fn = write_out, .user = call};
	struct fs_path path;

	int r = fs_get_path(call, WIRE_T_PATH, "tar", &path, err);
	if (r < 0)
		return r;
	auto_fd int dir = fs_get_u64(call, WIRE_T_FLAGS, 0) & WIRE_TREE_HOME
				  ? open_home(call, err)
				  : fs_open_dir(call, "tar", path.text, err);
	return dir < 0 ? dir : tartree_write(dir, path.text, &w, call->out_fd, err);
}

int fs_untar(struct fs_call *call, struct cell_error *err)
{
	auto_(tar_reader_done) struct tar_reader in = TAR_READER_INIT(read_in, call);
	struct untar_result res = {0};
	struct fs_path path;

	int r = fs_get_path(call, WIRE_T_PATH, "untar", &path, err);
	if (r < 0)
		return r;
	uint64_t flags = fs_get_u64(call, WIRE_T_FLAGS, 0);
	bool is_home = flags & WIRE_TREE_HOME;
	auto_fd int dir =
		is_home ? open_home(call, err) : beneath_mkdirs(call->root_fd, path.text, 0755);
	if (dir < 0)
		return is_home ? dir : fs_fail(err, dir, "untar into", path.text);
	r = untar(&in, dir, flags & WIRE_TREE_LINKS ? UNTAR_ROOT_TREE : UNTAR_FILES, 0, &res, err);
	/* Writers fill up the last block of an archive: take that too, so that they end in peace.
	 */
	while (r == 0) {
		char waste[4096];
		ssize_t n = read(call->in_fd, waste, sizeof waste);
		if (n == 0 || (n < 0 && errno != EINTR))
			break;
	}
	return r < 0 ? r : wire_put_u64(&call->reply, WIRE_T_COUNT, res.entries);
}
