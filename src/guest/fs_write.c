/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_write.c: write and append. A write goes to a nameless file that takes the old one's place when
 * all bytes are there, so being killed or running out of space leaves the old file as it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "base/newfile.h"
#include "guest/fs_op.h"

static int make_parents(const struct fs_call *call, const char *path)
{
	char dir[BENEATH_PATH_MAX + 1];
	const char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return 0;
	memcpy(dir, path, (size_t)(slash - path));
	dir[slash - path] = '\0';
	auto_fd int fd = beneath_mkdirs(call->root_fd, dir, 0755);
	return fd < 0 ? fd : 0;
}

static int append(struct fs_call *call, const char *path, mode_t mode, bool is_exclusive,
	struct cell_error *err)
{
	char name[NAME_MAX + 1];
	struct stat st;
	auto_fd int dir = beneath_open_parent(call->root_fd, path, !is_exclusive, name);

	if (dir < 0)
		return fs_fail(err, dir == -EINVAL ? -EISDIR : dir, "append to", path);
	if (!is_exclusive && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		int r = fs_check_regular(&st, "append to", path, err);
		if (r < 0)
			return r;
	}
	auto_fd int fd = openat(dir, name,
		O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC |
			(is_exclusive ? O_EXCL : 0),
		mode ? mode : 0644);
	if (fd < 0 || fstat(fd, &st) < 0)
		return fs_fail(err, -errno, "append to", path);
	int r = fs_check_regular(&st, "append to", path, err);
	if (r < 0)
		return r;
	if (mode && (st.st_mode & 07777) != mode && fchmod(fd, mode) < 0)
		return fs_fail(err, -errno, "set the mode of", path);
	r = fd_copy(call->in_fd, fd, UINT64_MAX, NULL);
	if (r < 0)
		return fs_fail(err, r, "append to", path);
	if (fstat(fd, &st) < 0)
		return fs_fail(err, -errno, "append to", path);
	return wire_put_u64(&call->reply, WIRE_T_SIZE, (uint64_t)st.st_size);
}

/* The new file gets the mode asked for, else the old one's, and the old one's owner where we may.
 */
static int set_mode(int fd, mode_t mode, const struct stat *old)
{
	if (!mode)
		mode = old ? old->st_mode & 01777 : 0644;
	if (old && (old->st_uid != geteuid() || old->st_gid != getegid()))
		(void)!fchown(fd, old->st_uid, old->st_gid);
	return fchmod(fd, mode) < 0 ? -errno : 0;
}

static int replace(struct fs_call *call, const char *path, mode_t mode, bool is_exclusive,
	struct cell_error *err)
{
	auto_(newfile_done) struct newfile f = NEWFILE_INIT;
	char name[NAME_MAX + 1];
	struct stat st;
	uint64_t size = 0;
	bool is_there;
	auto_fd int dir = beneath_open_parent(call->root_fd, path, !is_exclusive, name);

	if (dir < 0)
		return fs_fail(err, dir == -EINVAL ? -EISDIR : dir, "write", path);
	is_there = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!is_there && errno != ENOENT)
		return fs_fail(err, -errno, "write", path);
	if (is_there && is_exclusive)
		return fs_fail(err, -EEXIST, "write", path);
	if (is_there) {
		int r = fs_check_regular(&st, "write", path, err);
		if (r < 0)
			return r;
		if (faccessat(dir, name, W_OK, 0) < 0)
			return fs_fail(err, -errno, "write", path);
	}
	int r = newfile_open(&f, dir);
	if (r == 0)
		r = fd_copy(call->in_fd, f.fd, UINT64_MAX, &size);
	if (r == 0)
		r = set_mode(f.fd, mode, is_there ? &st : NULL);
	if (r == 0)
		r = newfile_commit(&f, name, !is_exclusive);
	if (r < 0)
		return fs_fail(err, r, "write", path);
	return wire_put_u64(&call->reply, WIRE_T_SIZE, size);
}

int fs_write(struct fs_call *call, struct cell_error *err)
{
	struct fs_path path;
	uint64_t flags = fs_get_u64(call, WIRE_T_FLAGS, 0);
	mode_t mode = fs_get_u64(call, WIRE_T_MODE, 0) & 0777;
	bool is_exclusive = flags & CELL_WRITE_EXCLUSIVE;

	int r = fs_get_path(call, WIRE_T_PATH, "write", &path, err);
	if (r < 0)
		return r;
	if (path.text[strlen(path.text) - 1] == '/')
		return fs_fail(err, -EISDIR, "write", path.text);
	if (flags & CELL_WRITE_PARENTS) {
		r = make_parents(call, path.text);
		if (r < 0)
			return fs_fail(err, r, "make the directories of", path.text);
	}
	return flags & CELL_WRITE_APPEND ? append(call, path.text, mode, is_exclusive, err)
					 : replace(call, path.text, mode, is_exclusive, err);
}
