/* SPDX-License-Identifier: Apache-2.0 */
/* fs_op.c: what the file operations share; see fs_op.h. */
#include "guest/fs_op.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"

int fs_fail(struct cell_error *err, int r, const char *verb, const char *path)
{
	if (r == -EXDEV) {
		(void)cell_fail(err, CELL_EDENIED, 0, "%s '%.256s': the path leaves the workspace",
			verb, path);
		return cell_error_hint(err, r,
			"paths and the symbolic links on their way must stay below the workspace; "
			"absolute links count as leaving it");
	}
	r = cell_fail_errno(err, -r, "%s '%.256s'", verb, path);
	if (r == -ENOSPC || r == -EDQUOT)
		return cell_error_hint(err, r, "free some space in the cell, or give it more");
	if (r == -EFBIG)
		return cell_error_hint(err, r, "the cell's limit on the size of a file is reached");
	return r;
}

int fs_get_path(const struct fs_call *call, unsigned tag, const char *verb, struct fs_path *ret,
	struct cell_error *err)
{
	char given[BENEATH_PATH_MAX + 1];
	const char *relative;
	struct wire_field f;

	if (!wire_find(call->fields, call->fields_len, tag, &f)) {
		(void)snprintf(ret->text, sizeof ret->text, ".");
		return 0;
	}
	if (f.len == 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "%s: the path is empty", verb),
			"the workspace itself is '.'");
	if (f.len > BENEATH_PATH_MAX)
		return cell_fail(err, CELL_EINVAL, ENAMETOOLONG, "%s: the path has %u bytes", verb,
			f.len);
	if (memchr(f.p, 0, f.len))
		return cell_fail(err, CELL_EINVAL, 0, "%s: the path has a NUL byte", verb);
	memcpy(given, f.p, f.len);
	given[f.len] = '\0';
	int r = beneath_relative(call->root_path, given, &relative);
	if (r < 0)
		return fs_fail(err, r, verb, given);
	(void)snprintf(ret->text, sizeof ret->text, "%s", relative);
	return 0;
}

uint64_t fs_get_u64(const struct fs_call *call, unsigned tag, uint64_t otherwise)
{
	return wire_find_u64(call->fields, call->fields_len, tag, otherwise);
}

int fs_get_text(const struct fs_call *call, unsigned tag, size_t max, const char *verb,
	const char *what, char **ret, struct cell_error *err)
{
	struct wire_field f;
	int r = -EINVAL;

	if (wire_find(call->fields, call->fields_len, tag, &f) && f.len > 0)
		r = wire_field_str(&f, max, ret);
	if (r == -ENOMEM)
		return cell_fail_errno(err, ENOMEM, "%s", verb);
	if (r < 0)
		return cell_fail(err, CELL_EINVAL, 0,
			"%s: the %s must have 1 to %zu bytes, none of them NUL", verb, what, max);
	return 0;
}

int fs_open_dir(const struct fs_call *call, const char *verb, const char *path,
	struct cell_error *err)
{
	int fd = beneath_open(call->root_fd, path, O_PATH | O_DIRECTORY, 0);

	return fd < 0 ? fs_fail(err, fd, verb, path) : fd;
}

int fs_check_regular(const struct stat *st, const char *verb, const char *path,
	struct cell_error *err)
{
	if (S_ISREG(st->st_mode))
		return 0;
	if (S_ISDIR(st->st_mode))
		return fs_fail(err, -EISDIR, verb, path);
	return cell_fail(err, CELL_EINVAL, 0, "%s '%.256s': it is not a regular file", verb, path);
}

int fs_file_open(const struct fs_call *call, const char *verb, const char *path, int flags,
	struct fs_file *ret, struct cell_error *err)
{
	ret->dir_fd = beneath_open_parent(call->root_fd, path, true, ret->name);
	if (ret->dir_fd == -EINVAL)
		return fs_fail(err, -EISDIR, verb, path);
	if (ret->dir_fd < 0)
		return fs_fail(err, ret->dir_fd, verb, path);
	/* Looked at before it is opened: opening a fifo or a device can have effects of its own. */
	if (fstatat(ret->dir_fd, ret->name, &ret->st, AT_SYMLINK_NOFOLLOW) < 0)
		return fs_fail(err, -errno, verb, path);
	int r = fs_check_regular(&ret->st, verb, path, err);
	if (r < 0)
		return r;
	ret->fd = openat(ret->dir_fd, ret->name,
		flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (ret->fd < 0 || fstat(ret->fd, &ret->st) < 0)
		return fs_fail(err, -errno, verb, path);
	return fs_check_regular(&ret->st, verb, path, err);
}

void fs_file_done(struct fs_file *f)
{
	if (f->fd >= 0)
		close(steal_fd(f->fd));
	if (f->dir_fd >= 0)
		close(steal_fd(f->dir_fd));
}

static enum cell_file_type type_of(mode_t mode)
{
	if (S_ISREG(mode))
		return CELL_FILE_REGULAR;
	if (S_ISDIR(mode))
		return CELL_FILE_DIRECTORY;
	return S_ISLNK(mode) ? CELL_FILE_SYMLINK : CELL_FILE_OTHER;
}

int fs_put_file(struct buf *b, const char *path, const struct stat *st, int dir_fd,
	const char *name)
{
	int64_t mtime_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;
	int r = wire_put_str(b, WIRE_T_PATH, path);

	if (r == 0)
		r = wire_put_u64(b, WIRE_T_TYPE, type_of(st->st_mode));
	if (r == 0)
		r = wire_put_u64(b, WIRE_T_SIZE, (uint64_t)st->st_size);
	if (r == 0)
		r = wire_put_u64(b, WIRE_T_MODE, st->st_mode & 07777);
	if (r == 0)
		r = wire_put_u64(b, WIRE_T_UID, st->st_uid);
	if (r == 0)
		r = wire_put_u64(b, WIRE_T_GID, st->st_gid);
	if (r == 0)
		r = wire_put_u64(b, WIRE_T_MTIME_NS, (uint64_t)mtime_ns);
	if (r == 0 && S_ISLNK(st->st_mode)) {
		char target[PATH_MAX];
		ssize_t n = readlinkat(dir_fd, name, target, sizeof target);
		if (n >= 0)
			r = wire_put(b, WIRE_T_TARGET, target, (size_t)n);
	}
	return r;
}

int fs_out_flush(struct fs_out *o)
{
	int r = fd_write_all(o->fd, o->waiting.data, o->waiting.len);

	buf_reset(&o->waiting);
	return r;
}

int fs_out_record(struct fs_out *o, const struct buf *record)
{
	uint8_t len[4];
	int r = 0;

	if (record->len > WIRE_MAX_RECORD)
		return -EMSGSIZE;
	wire_u32_put(len, (uint32_t)record->len);
	if (o->waiting.len + record->len > WIRE_MAX_RECORD)
		r = fs_out_flush(o);
	if (r == 0)
		r = buf_add(&o->waiting, len, sizeof len);
	return r < 0 ? r : buf_add(&o->waiting, record->data, record->len);
}

void fs_out_done(struct fs_out *o)
{
	buf_done(&o->waiting);
}

int fs_walk_failed(const struct treewalk_entry *e, const char *verb, struct cell_error *err)
{
	if (e->error == EACCES || e->error == ENOENT || e->error == ENOTDIR || e->error == ELOOP)
		return 0;
	if (e->error == EOVERFLOW)
		return cell_fail(err, CELL_ELIMIT, 0,
			"%s: '%.200s...' is nested deeper than %d levels or %d bytes of path", verb,
			e->path, TREEWALK_MAX_DEPTH, TREEWALK_MAX_PATH);
	return fs_fail(err, -e->error, verb, e->path);
}

void fs_walk_freep(struct treewalk **w)
{
	treewalk_free(*w);
}
