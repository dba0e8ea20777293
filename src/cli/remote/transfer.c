/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.c: files and directories between this machine and a server's cell. A directory goes as a tar stream, which one thread makes or takes
 * apart while the other talks to the server; a pipe is between them, so neither runs ahead. What comes from a server is taken apart as any
 * foreign archive is.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "base/newfile.h"
#include "base/tartree.h"
#include "base/untar.h"
#include "cli/memory.h"
#include "cli/remote/remote.h"
#include "core/host_path.h"

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
	if (m->fn && !m->stop)
		m->stop = m->fn(m->bytes, m->user);
	return m->stop ? -ECANCELED : 0;
}

static int keep_info(const struct cell_file_info *info, void *user)
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
	struct cell_file_info dir;
	int r = remote_file_stat(c, path, keep_info, ret, err);

	if (r < 0 || ret->type != CELL_FILE_SYMLINK)
		return r;
	auto_free char *inside = cli_format("%s/.", path);
	if (remote_file_stat(c, inside, keep_info, &dir, NULL) == 0) {
		*ret = dir;
		return 0;
	}
	ret->type = CELL_FILE_REGULAR;
	ret->mode = 0644;
	return 0;
}

/* ---- the other thread ---- */

struct worker {
	pthread_t thread;
	int fd;		  /* its end of the pipe */
	int dir;	  /* the directory of the host */
	const char *path; /* for messages */
	int result;
	struct cell_error err;
};

static int to_pipe(const void *p, size_t n, void *user)
{
	return fd_write_all(*(int *)user, p, n);
}

static void *pack(void *arg)
{
	struct worker *w = arg;
	struct tar_writer tar = {.fn = to_pipe, .user = &w->fd};

	w->result = tartree_write(w->dir, w->path, &tar, -1, &w->err);
	close(w->fd);
	return NULL;
}

static ssize_t from_pipe(void *p, size_t n, void *user)
{
	ssize_t got;

	do {
		got = read(*(int *)user, p, n);
	} while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static void *unpack(void *arg)
{
	struct worker *w = arg;
	struct tar_reader in = TAR_READER_INIT(from_pipe, &w->fd);
	char waste[4096];

	w->result = untar(&in, w->dir, UNTAR_FILES, 0, NULL, &w->err);
	/* the rest, or the sender would take our leaving for a failure */
	while (w->result == 0 && from_pipe(waste, sizeof waste, &w->fd) > 0)
		;
	tar_reader_done(&in);
	close(w->fd);
	return NULL;
}

static int start(struct worker *w, bool is_packing, int *ret_fd, struct cell_error *err)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return cell_fail_errno(err, errno, "copy '%.200s'", w->path);
	w->fd = fds[is_packing ? 1 : 0];
	*ret_fd = fds[is_packing ? 0 : 1];
	int r = pthread_create(&w->thread, NULL, is_packing ? pack : unpack, w);
	if (r == 0)
		return 0;
	close(fds[0]);
	close(fds[1]);
	return cell_fail_errno(err, r, "copy '%.200s'", w->path);
}

/* ---- up ---- */

struct upload {
	int fd; /* a file of the host, or the pipe */
	struct meter *meter;
	struct worker *worker;
	bool is_joined;
};

static void end_worker(struct upload *u)
{
	if (u->worker && !u->is_joined)
		(void)pthread_join(u->worker->thread, NULL);
	u->is_joined = true;
}

static ssize_t from_host(void *p, size_t n, void *user)
{
	struct upload *u = user;
	ssize_t got = from_pipe(p, n, &u->fd);

	if (got == 0 && u->worker) {
		/* an archive that was not finished must not look like one that was */
		end_worker(u);
		if (u->worker->result < 0)
			return u->worker->result;
	}
	int r = got > 0 ? meter_add(u->meter, (size_t)got) : 0;
	return r < 0 ? r : got;
}

static int upload_dir(struct cell *c, int dir, const struct stat *st, const char *host_path,
	const char *path, struct meter *meter, struct cell_error *err)
{
	struct worker w = {.dir = dir, .path = host_path};
	struct upload u = {.meter = meter, .worker = &w};
	int r = remote_file_mkdir(c, path, (st->st_mode & 0777) | 0700, true, err);

	if (r == 0)
		r = start(&w, true, &u.fd, err);
	if (r < 0)
		return r;
	r = remote_file_untar(c, path, from_host, &u, err);
	close(u.fd);
	end_worker(&u);
	if (r < 0 && w.result < 0 && w.result != -EPIPE && err)
		*err = w.err;
	return r;
}

static int upload_file(struct cell *c, int fd, const struct stat *st, const char *host_path,
	const char *path, struct meter *meter, struct cell_error *err)
{
	struct upload u = {.fd = fd, .meter = meter};
	struct cell_file_info there;
	size_t n = strlen(path);
	bool is_dir = n > 0 && path[n - 1] == '/';
	auto_free char *inside = NULL;

	if (!is_dir && stat_followed(c, path, &there, NULL) == 0)
		is_dir = there.type == CELL_FILE_DIRECTORY;
	if (is_dir) {
		auto_free char *name = host_last_name(host_path);
		if (!name)
			return cell_fail(err, CELL_EINVAL, EINVAL,
				"upload '%.150s' into '%.150s': it has no name of its own",
				host_path, path);
		inside = cli_format("%s%s%s", path, path[n - 1] == '/' ? "" : "/", name);
		path = inside;
	}
	return remote_file_write(c, path, st->st_mode & 0777, CELL_WRITE_PARENTS, from_host, &u,
		NULL, err);
}

int remote_file_upload(struct cell *c, const char *host_path, const char *path,
	cell_progress_fn progress, void *user, struct cell_error *err)
{
	struct meter meter = {.fn = progress, .user = user};
	struct stat st;
	int r;

	/* Not blocking: a fifo must not hold us up before it is seen to be one. */
	auto_fd int fd = open(host_path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "upload '%.256s'", host_path);
	if (S_ISDIR(st.st_mode))
		r = upload_dir(c, fd, &st, host_path, path, &meter, err);
	else if (S_ISREG(st.st_mode))
		r = upload_file(c, fd, &st, host_path, path, &meter, err);
	else
		r = cell_fail(err, CELL_EINVAL, EINVAL,
			"upload '%.256s': it is neither a regular file nor a directory", host_path);
	return meter.stop ? meter.stop : r;
}

/* ---- down ---- */

struct download {
	int fd;
	struct meter *meter;
};

static int to_host(const void *p, size_t n, void *user)
{
	struct download *d = user;
	int r = fd_write_all(d->fd, p, n);

	return r < 0 ? r : meter_add(d->meter, n);
}

static int download_dir(struct cell *c, const char *path, const char *host_path, mode_t mode,
	struct meter *meter, struct cell_error *err)
{
	struct worker w = {.path = path};
	struct download d = {.meter = meter};
	struct cell_error why = {0};
	int r = host_make_dirs(host_path, (mode & 0777) | 0700);

	if (r < 0)
		return cell_fail_errno(err, -r, "make '%.256s'", host_path);
	auto_fd int dir = open(host_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return cell_fail_errno(err, errno, "download into '%.256s'", host_path);
	w.dir = dir;
	r = start(&w, false, &d.fd, err);
	if (r < 0)
		return r;
	r = remote_file_tar(c, path, to_host, &d, &why);
	close(d.fd);
	(void)pthread_join(w.thread, NULL);
	/* A transfer that was cut makes the archive look torn: the first reason counts. */
	if (r < 0 && why.code) {
		if (err)
			*err = why;
		return r;
	}
	if (w.result < 0) {
		if (err)
			*err = w.err;
		return cell_error_prefix(err, w.result, "download '%.100s'", path);
	}
	return r;
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
	struct download d = {.fd = f.fd, .meter = meter};
	struct cell_error why = {0};
	r = remote_file_read(c, path, 0, 0, to_host, &d, &why);
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

int remote_file_download(struct cell *c, const char *path, const char *host_path,
	cell_progress_fn progress, void *user, struct cell_error *err)
{
	struct meter meter = {.fn = progress, .user = user};
	struct cell_file_info info = {0};
	int r = stat_followed(c, path, &info, err);

	if (r < 0)
		return r;
	if (info.type == CELL_FILE_DIRECTORY)
		r = download_dir(c, path, host_path, info.mode, &meter, err);
	else
		r = download_file(c, path, host_path, info.mode, &meter, err);
	return meter.stop ? meter.stop : r;
}
