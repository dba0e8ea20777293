/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file_transfer.c: directories between host and cell as a tar stream, made and taken apart on the way; what
 * comes out of a cell is taken apart as any foreign archive is. The rest is transfer.c's.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/tartree.h"
#include "base/untar.h"
#include "core/file_call.h"
#include "core/transfer.h"

#define SEND_MAX (64u * 1024)

/* ---- up ---- */

struct upload {
	struct link_stream *stream;
	struct transfer_meter *meter;
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
			r = transfer_meter_add(u->meter, part);
		if (r < 0)
			return r;
		done += part;
	}
	return 0;
}

static int put_tree(struct cell *c, int dir, const char *host_path, const char *path,
	struct transfer_meter *m, struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;
	struct upload u = {.meter = m, .waiting = BUF_INIT(SEND_MAX)};
	struct tar_writer w = {.fn = upload_write, .user = &u};

	file_put_str(&q, WIRE_T_PATH, path);
	int r = file_open(c, WIRE_OP_UNTAR, &q, &s, err);
	if (r < 0)
		return r;
	u.stream = s;
	r = tartree_write(dir, host_path, &w, -1, err);
	if (r == 0 && upload_flush(&u) == 0)
		r = file_finish(s, NULL, err);
	buf_done(&u.waiting);
	if (u.failed < 0) {
		if (err)
			*err = u.why;
		return u.failed;
	}
	return r;
}

/* ---- down ---- */

struct download {
	struct link_stream *stream;
	struct transfer_meter *meter;
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
			r = transfer_meter_add(d->meter, d->left);
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

static int get_tree(struct cell *c, const char *path, int dir, struct transfer_meter *m,
	struct cell_error *err)
{
	struct download d = {.meter = m};
	auto_(tar_reader_done) struct tar_reader in = TAR_READER_INIT(download_read, &d);
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;

	file_put_str(&q, WIRE_T_PATH, path);
	int r = file_open(c, WIRE_OP_TAR, &q, &s, err);
	if (r < 0)
		return r;
	d.stream = s;
	r = untar(&in, dir, UNTAR_FILES, 0, NULL, err);
	/* The archive's end is not the operation's: the guest may still say that it failed. */
	while (r == 0 && !d.has_ended) {
		char waste[512];
		ssize_t n = download_read(waste, sizeof waste, &d);
		r = n < 0 ? (int)n : 0;
	}
	if (d.failed < 0) {
		if (err)
			*err = d.why;
		return d.failed;
	}
	return r < 0 ? cell_error_prefix(err, r, "download '%.100s'", path) : r;
}

static const struct transfer_ops ops = {.stat = cell_file_stat,
	.mkdir = cell_file_mkdir,
	.read = cell_file_read,
	.write = cell_file_write,
	.put_tree = put_tree,
	.get_tree = get_tree};

int cell_file_upload(struct cell *c, const char *host_path, const char *path,
	cell_progress_fn progress, void *user, struct cell_error *err)
{
	return transfer_upload(&ops, c, host_path, path, progress, user, err);
}

int cell_file_download(struct cell *c, const char *path, const char *host_path,
	cell_progress_fn progress, void *user, struct cell_error *err)
{
	return transfer_download(&ops, c, path, host_path, progress, user, err);
}
