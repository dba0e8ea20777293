/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transfer.c: directories between this machine and a server's cell. One goes as a tar stream, which one thread makes or takes apart while the
 * other talks to the server; a pipe is between them, so neither runs ahead. What comes from a server is taken apart as any foreign
 * archive is. The rest is core/transfer.c's.
 */
#include "core/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include "base/fdcopy.h"
#include "base/tartree.h"
#include "base/untar.h"
#include "cli/remote/remote.h"

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
	int fd; /* of the pipe */
	struct transfer_meter *meter;
	struct worker *worker;
	bool is_joined;
};

static void end_worker(struct upload *u)
{
	if (!u->is_joined)
		(void)pthread_join(u->worker->thread, NULL);
	u->is_joined = true;
}

static ssize_t from_pack(void *p, size_t n, void *user)
{
	struct upload *u = user;
	ssize_t got = from_pipe(p, n, &u->fd);

	if (got == 0) {
		/* an archive that was not finished must not look like one that was */
		end_worker(u);
		if (u->worker->result < 0)
			return u->worker->result;
	}
	int r = got > 0 ? transfer_meter_add(u->meter, (size_t)got) : 0;
	return r < 0 ? r : got;
}

static int put_tree(struct cell *c, int dir, const char *host_path, const char *path,
	struct transfer_meter *m, struct cell_error *err)
{
	struct worker w = {.dir = dir, .path = host_path};
	struct upload u = {.meter = m, .worker = &w};
	int r = start(&w, true, &u.fd, err);

	if (r < 0)
		return r;
	r = remote_file_untar(c, path, from_pack, &u, err);
	close(u.fd);
	end_worker(&u);
	if (r < 0 && w.result < 0 && w.result != -EPIPE && err)
		*err = w.err;
	return r;
}

/* ---- down ---- */

struct download {
	int fd; /* of the pipe */
	struct transfer_meter *meter;
};

static int to_unpack(const void *p, size_t n, void *user)
{
	struct download *d = user;
	int r = fd_write_all(d->fd, p, n);

	return r < 0 ? r : transfer_meter_add(d->meter, n);
}

static int get_tree(struct cell *c, const char *path, int dir, struct transfer_meter *m,
	struct cell_error *err)
{
	struct worker w = {.dir = dir, .path = path};
	struct download d = {.meter = m};
	struct cell_error why = {0};
	int r = start(&w, false, &d.fd, err);

	if (r < 0)
		return r;
	r = remote_file_tar(c, path, to_unpack, &d, &why);
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

static const struct transfer_ops ops = {.stat = remote_file_stat,
	.mkdir = remote_file_mkdir,
	.read = remote_file_read,
	.write = remote_file_write,
	.put_tree = put_tree,
	.get_tree = get_tree};

int remote_file_upload(struct cell *c, const char *host_path, const char *path,
	cell_progress_fn progress, void *user, struct cell_error *err)
{
	return transfer_upload(&ops, c, host_path, path, progress, user, err);
}

int remote_file_download(struct cell *c, const char *path, const char *host_path,
	cell_progress_fn progress, void *user, struct cell_error *err)
{
	return transfer_download(&ops, c, path, host_path, progress, user, err);
}
