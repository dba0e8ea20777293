/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_transfer.c: files and directories between host and cell, whole. A file goes as it is, a directory
 * as a tar stream made and taken apart on the way; what comes out of a cell is taken apart as any
 * foreign archive is.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "base/newfile.h"
#include "base/tartree.h"
#include "base/untar.h"
#include "core/file_call.h"
#include "core/host_path.h"

#define SEND_MAX (64u * 1024)

/* Bytes moved so far, and whom to tell. */
struct meter {
	cell_progress_fn fn;
	void *user;
	uint64_t bytes;
	int stop; /* what fn returned when not 0 */
};

static int meter_add(struct meter *m, size_t n)
{
	m->bytes += n;
	if (m->fn)
		m->stop = m->fn(m->bytes, m->user);
	return m->stop ? -ECANCELED : 0;
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
static int stat_followed(struct cell *c, const char *path, struct cell_file_info *ret,
	struct cell_error *err)
{
	auto_buf struct buf inside = BUF_INIT(2 * PATH_MAX);
	int r = cell_file_stat(c, path, keep_type, ret, err);

	if (r < 0 || ret->type != CELL_FILE_SYMLINK)
		return r;
	struct cell_file_info dir;
	if (join(&inside, path, ".") == 0 &&
		cell_file_stat(c, buf_str(&inside), keep_type, &dir, NULL) == 0) {
		*ret = dir;
		return 0;
	}
	ret->type = CELL_FILE_REGULAR;
	ret->mode = 0644;
	return 0;
}

/* ---- up ---- */

struct upload {
	struct link_stream *stream;
	struct meter meter;
	struct buf waiting; /* small pieces gathered */
	int failed;	    /* what sending returned */
	struct cell_error why;
};

static int upload_flush(struct upload *u)
{
	if (u->failed == 0)
		u->failed = file_send(u->stream, u->waiting.data, u->waiting.len, &u->why);
	buf_reset(&u->waiting);
	return u->failed;
}

static int upload_write(const void *p, size_t n, void *user)
{
	struct upload *u = user;

	for (size_t done = 0; done < n;) {
		size_t part = SEND_MAX - u->waiting.len;
		if (part > n - done)
			part = n - done;
		int r = buf_add(&u->waiting, (const uint8_t *)p + done, part);
		if (r == 0 && u->waiting.len == SEND_MAX)
			r = upload_flush(u);
		if (r == 0)
			r = meter_add(&u->meter, part);
		if (r < 0)
			return r;
		done += part;
	}
	return 0;
}

static int upload_dir(struct cell *c, int fd, const struct stat *st, const char *host_path,
	const char *path, struct upload *u, struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;
	struct tar_writer w = {.fn = upload_write, .user = u};

	int r = cell_file_mkdir(c, path, (st->st_mode & 0777) | 0700, true, err);
	if (r < 0)
		return r;
	file_put_str(&q, WIRE_T_PATH, path);
	r = file_open(c, WIRE_OP_UNTAR, &q, &s, err);
	if (r < 0)
		return r;
	u->stream = s;
	r = tartree_write(fd, host_path, &w, -1, err);
	if (r == 0 && upload_flush(u) == 0)
		r = file_finish(s, NULL, err);
	if (u->failed < 0) {
		if (err)
			*err = u->why;
		return u->failed;
	}
	return r;
}

struct host_file {
	int fd;
	struct meter *meter;
};

static ssize_t from_host_file(void *p, size_t n, void *user)
{
	struct host_file *f = user;
	ssize_t got;

	do {
		got = read(f->fd, p, n);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	int r = got > 0 ? meter_add(f->meter, (size_t)got) : 0;
	return r < 0 ? r : got;
}

static int upload_file(struct cell *c, int fd, const struct stat *st, const char *host_path,
	const char *path, struct meter *meter, struct cell_error *err)
{
	auto_buf struct buf inside = BUF_INIT(2 * PATH_MAX);
	struct host_file f = {.fd = fd, .meter = meter};
	struct cell_file_info there;
	size_t n = strlen(path);
	bool is_dir = n > 0 && path[n - 1] == '/';

	if (!is_dir && stat_followed(c, path, &there, NULL) == 0)
		is_dir = there.type == CELL_FILE_DIRECTORY;
	if (is_dir) {
		auto_free char *name = host_last_name(host_path);
		if (!name || join(&inside, path, name) < 0)
			return cell_fail(err, CELL_EINVAL, EINVAL,
				"upload '%.150s' into '%.150s': it has no name of its own",
				host_path, path);
		path = buf_str(&inside);
	}
	return cell_file_write(c, path, st->st_mode & 0777, CELL_WRITE_PARENTS, from_host_file, &f,
		NULL, err);
}

int cell_file_upload(struct cell *c, const char *host_path, const char *path,
	cell_progress_fn progress, void *user, struct cell_error *err)
{
	struct upload u = {.meter = {.fn = progress, .user = user}, .waiting = BUF_INIT(SEND_MAX)};
	struct stat st;
	int r;

	/* Not blocking: a fifo must not hold us up before it is seen to be one. */
	auto_fd int fd = open(host_path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "upload '%.256s'", host_path);
	if (S_ISDIR(st.st_mode))
		r = upload_dir(c, fd, &st, host_path, path, &u, err);
	else if (S_ISREG(st.st_mode))
		r = upload_file(c, fd, &st, host_path, path, &u.meter, err);
	else
		r = cell_fail(err, CELL_EINVAL, EINVAL,
			"upload '%.256s': it is neither a regular file nor a directory", host_path);
	buf_done(&u.waiting);
	return u.meter.stop ? u.meter.stop : r;
}

/* ---- down ---- */

struct download {
	struct link_stream *stream;
	struct meter meter;
	const uint8_t *p; /* bytes not yet taken */
	size_t left;
	bool has_ended;
	int failed;
	struct cell_error why;
};

static ssize_t download_read(void *p, size_t n, void *user)
{
	struct download *d = user;

	if (d->left == 0 && !d->has_ended) {
		int r = file_next(d->stream, -1, &d->p, &d->left, NULL, &d->why);
		if (r < 0)
			d->failed = r;
		if (r <= 0)
			d->has_ended = true;
		if (r > 0)
			r = meter_add(&d->meter, d->left);
		if (r < 0)
			return r;
	}
	if (n > d->left)
		n = d->left;
	if (n)
		memcpy(p, d->p, n);
	d->p += n;
	d->left -= n;
	return (ssize_t)n;
}

static int download_dir(struct cell *c, const char *path, const char *host_path, mode_t mode,
	struct download *d, struct cell_error *err)
{
	auto_(tar_reader_done) struct tar_reader in = TAR_READER_INIT(download_read, d);
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;

	int r = host_make_dirs(host_path, (mode & 0777) | 0700);
	if (r < 0)
		return cell_fail_errno(err, -r, "make '%.256s'", host_path);
	auto_fd int dir = open(host_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return cell_fail_errno(err, errno, "download into '%.256s'", host_path);
	file_put_str(&q, WIRE_T_PATH, path);
	r = file_open(c, WIRE_OP_TAR, &q, &s, err);
	if (r < 0)
		return r;
	d->stream = s;
	r = untar(&in, dir, UNTAR_FILES, 0, NULL, err);
	/* The archive's end is not the operation's: the guest may still say that it failed. */
	while (r == 0 && !d->has_ended) {
		char waste[512];
		ssize_t n = download_read(waste, sizeof waste, d);
		r = n < 0 ? (int)n : 0;
	}
	if (d->failed < 0) {
		if (err)
			*err = d->why;
		return d->failed;
	}
	return r < 0 ? cell_error_prefix(err, r, "download '%.100s'", path) : r;
}

struct host_target {
	int fd;
	struct meter *meter;
};

static int to_host_file(const void *p, size_t n, void *user)
{
	struct host_target *t = user;
	int r = fd_write_all(t->fd, p, n);

	return r < 0 ? r : meter_add(t->meter, n);
}

static int download_file(struct cell *c, const char *path, const char *host_path, mode_t mode,
	struct meter *meter, struct cell_error *err)
{
	auto_(newfile_done) struct newfile f = NEWFILE_INIT;
	auto_free char *name = NULL;
	auto_fd int dir = host_open_target(path, host_path, &name, err);

	if (dir < 0)
		return dir;
	int r = newfile_open(&f, dir);
	if (r < 0)
		return cell_fail_errno(err, -r, "write '%.256s'", host_path);
	struct host_target t = {.fd = f.fd, .meter = meter};
	struct cell_error why = {0};
	r = cell_file_read(c, path, 0, 0, to_host_file, &t, &why);
	if (r < 0 && why.code) {
		if (err)
			*err = why;
		return r;
	}
	if (r == 0 && fchmod(f.fd, mode & 0777) < 0)
		r = -errno;
	if (r == 0)
		r = newfile_commit(&f, name, true);
	return r < 0 ? cell_fail_errno(err, -r, "write '%.256s'", host_path) : 0;
}

int cell_file_download(struct cell *c, const char *path, const char *host_path,
	cell_progress_fn progress, void *user, struct cell_error *err)
{
	struct download d = {.meter = {.fn = progress, .user = user}};
	struct cell_file_info info = {0};
	int r = stat_followed(c, path, &info, err);

	if (r < 0)
		return r;
	if (info.type == CELL_FILE_DIRECTORY)
		r = download_dir(c, path, host_path, info.mode, &d, err);
	else
		r = download_file(c, path, host_path, info.mode, &d.meter, err);
	return d.meter.stop ? d.meter.stop : r;
}
