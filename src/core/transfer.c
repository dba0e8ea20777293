/* SPDX-License-Identifier: Apache-2.0 */
/* transfer.c: see transfer.h. */
#include "core/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fdcopy.h"
#include "base/newfile.h"
#include "core/host_path.h"

int transfer_meter_add(struct transfer_meter *m, size_t n)
{
	m->bytes += n;
	if (m->fn && !m->stop)
		m->stop = m->fn(m->bytes, m->user);
	if (m->stop)
		return -ECANCELED;
	return m->room.fd < 0 ? 0 : room_take(&m->room, n, &m->why);
}

static int join(struct buf *b, const char *dir, const char *name)
{
	size_t n = strlen(dir);
	int r = buf_add(b, dir, n);

	if (r == 0 && n > 0 && dir[n - 1] != '/')
		r = buf_addc(b, '/');
	return r < 0 ? r : buf_addz(b, name);
}

static int keep_type(const struct cell_file_info *info, void *user)
{
	struct cell_file_info *to = user;

	to->type = info->type;
	to->mode = info->mode;
	return 0;
}

/* What a path in the cell is behind its links. */
static int stat_followed(const struct transfer_ops *ops, struct cell *c, const char *path,
	struct cell_file_info *ret, struct cell_error *err)
{
	auto_buf struct buf inside = BUF_INIT(2 * PATH_MAX);
	int r = ops->stat(c, path, keep_type, ret, err);

	if (r < 0 || ret->type != CELL_FILE_SYMLINK)
		return r;
	struct cell_file_info dir;
	if (join(&inside, path, ".") == 0 &&
		ops->stat(c, buf_str(&inside), keep_type, &dir, NULL) == 0) {
		*ret = dir;
		return 0;
	}
	ret->type = CELL_FILE_REGULAR;
	ret->mode = 0644;
	return 0;
}

/* A file of the host on its way, in either direction. */
struct host_file {
	int fd;
	struct transfer_meter *meter;
};

/* ---- up ---- */

static ssize_t from_host(void *p, size_t n, void *user)
{
	struct host_file *f = user;
	ssize_t got;

	do {
		got = read(f->fd, p, n);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	int r = got > 0 ? transfer_meter_add(f->meter, (size_t)got) : 0;
	return r < 0 ? r : got;
}

static int upload_file(const struct transfer_ops *ops, struct cell *c, int fd,
	const struct stat *st, const char *host_path, const char *path,
	struct transfer_meter *meter, struct cell_error *err)
{
	auto_buf struct buf inside = BUF_INIT(2 * PATH_MAX);
	struct host_file f = {.fd = fd, .meter = meter};
	struct cell_file_info there;
	size_t n = strlen(path);
	bool is_dir = n > 0 && path[n - 1] == '/';

	if (!is_dir && stat_followed(ops, c, path, &there, NULL) == 0)
		is_dir = there.type == CELL_FILE_DIRECTORY;
	if (is_dir) {
		auto_free char *name = host_last_name(host_path);
		if (!name || join(&inside, path, name) < 0)
			return cell_fail(err, CELL_EINVAL, EINVAL,
				"upload '%.150s' into '%.150s': it has no name of its own",
				host_path, path);
		path = buf_str(&inside);
	}
	return ops->write(c, path, st->st_mode & 0777, CELL_WRITE_PARENTS, from_host, &f, NULL,
		err);
}

int transfer_upload(const struct transfer_ops *ops, struct cell *c, const char *host_path,
	const char *path, cell_progress_fn progress, void *user, struct cell_error *err)
{
	struct transfer_meter meter = {.fn = progress, .user = user, .room.fd = -1};
	struct stat st;
	int r;

	/* Not blocking: a fifo must not hold us up before it is seen to be one. */
	auto_fd int fd = open(host_path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "upload '%.256s'", host_path);
	if (S_ISDIR(st.st_mode)) {
		r = ops->mkdir(c, path, (st.st_mode & 0777) | 0700, true, err);
		if (r == 0)
			r = ops->put_tree(c, fd, host_path, path, &meter, err);
	} else if (S_ISREG(st.st_mode)) {
		r = upload_file(ops, c, fd, &st, host_path, path, &meter, err);
	} else {
		r = cell_fail(err, CELL_EINVAL, EINVAL,
			"upload '%.256s': it is neither a regular file nor a directory", host_path);
	}
	return meter.stop ? meter.stop : r;
}

/* ---- down ---- */

static int download_dir(const struct transfer_ops *ops, struct cell *c, const char *path,
	const char *host_path, mode_t mode, struct transfer_meter *meter, struct cell_error *err)
{
	int r = host_make_dirs(host_path, (mode & 0777) | 0700);

	if (r < 0)
		return cell_fail_errno(err, -r, "make '%.256s'", host_path);
	auto_fd int dir = open(host_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return cell_fail_errno(err, errno, "download into '%.256s'", host_path);
	meter->room.fd = dir;
	return ops->get_tree(c, path, dir, meter, err);
}

static int to_host(const void *p, size_t n, void *user)
{
	struct host_file *f = user;
	int r = fd_write_holes(f->fd, p, n);

	return r < 0 ? r : transfer_meter_add(f->meter, n);
}

static int download_file(const struct transfer_ops *ops, struct cell *c, const char *path,
	const char *host_path, mode_t mode, struct transfer_meter *meter, struct cell_error *err)
{
	auto_(newfile_done) struct newfile f = NEWFILE_INIT;
	auto_free char *name = NULL;
	auto_fd int dir = host_open_target(path, host_path, &name, err);

	if (dir < 0)
		return dir;
	int r = newfile_open(&f, dir);
	if (r < 0)
		return cell_fail_errno(err, -r, "write '%.256s'", host_path);
	struct host_file to = {.fd = f.fd, .meter = meter};
	struct cell_error why = {0};
	meter->room.fd = f.fd;
	r = ops->read(c, path, 0, 0, to_host, &to, &why);
	if (r < 0 && why.code) {
		if (err)
			*err = why;
		return r;
	}
	if (r == 0)
		r = fd_end_holes(f.fd);
	if (r == 0 && fchmod(f.fd, mode & 0777) < 0)
		r = -errno;
	if (r == 0)
		r = newfile_commit(&f, name, true);
	return r < 0 ? cell_fail_errno(err, -r, "write '%.256s'", host_path) : 0;
}

int transfer_download(const struct transfer_ops *ops, struct cell *c, const char *path,
	const char *host_path, cell_progress_fn progress, void *user, struct cell_error *err)
{
	struct transfer_meter meter = {.fn = progress, .user = user, .room.fd = -1};
	struct cell_file_info info = {0};
	int r = stat_followed(ops, c, path, &info, err);

	if (r < 0)
		return r;
	if (info.type == CELL_FILE_DIRECTORY)
		r = download_dir(ops, c, path, host_path, info.mode, &meter, err);
	else
		r = download_file(ops, c, path, host_path, info.mode, &meter, err);
	if (r < 0 && meter.why.code) { /* why it was cut off, not what that looked like */
		if (err)
			*err = meter.why;
		return cell_error_prefix(err, r, "download '%.100s'", path);
	}
	return meter.stop ? meter.stop : r;
}
