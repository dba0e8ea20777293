/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot_part.c: see snapshot_part.h. */
#include "core/snapshot_part.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fdcopy.h"
#include "base/untar.h"
#include "core/file_call.h"
#include "core/room.h"

#define LOOK_STEP (1u << 20)   /* bytes between two looks at what the file takes */
#define REST_MAX  (64u * 1024) /* behind an archive's end mark */

/* ---- to disk ---- */

/* What comes is written down, then read: the archive is checked while it is saved. */
struct taking {
	tar_read_fn fn;
	void *user;
	int fd;
	uint64_t total, max_space, unlooked;
	struct room room;
	size_t at, len; /* of the chunk */
	uint8_t chunk[65536];
	struct cell_error why; /* of a failure here, not of the archive or its source */
};

static int check_space(struct taking *t, size_t n)
{
	struct stat st;

	t->unlooked += n;
	if (t->unlooked >= LOOK_STEP && t->max_space != UINT64_MAX && fstat(t->fd, &st) == 0) {
		t->unlooked = 0;
		if ((uint64_t)st.st_blocks * 512 > t->max_space) {
			int r = cell_fail(&t->why, CELL_ELIMIT, 0,
				"it takes more than the %llu bytes that are left for it",
				(unsigned long long)t->max_space);
			return cell_error_hint(&t->why, r,
				"remove files from the cell, or snapshots that nobody needs");
		}
	}
	return room_take(&t->room, n, &t->why);
}

static int too_much(struct cell_error *err, const char *name)
{
	int r = cell_fail(err, CELL_ELIMIT, 0, "with '%.100s' it has more than %llu GiB", name,
		(unsigned long long)(SNAPSHOT_PART_MAX >> 30));

	return cell_error_hint(err, r,
		"remove that file, or keep such data in a workspace or mount of the host");
}

static int refill(struct taking *t)
{
	ssize_t got = t->fn(t->chunk, sizeof t->chunk, t->user);

	if (got <= 0)
		return (int)got;
	t->at = 0;
	t->len = (size_t)got;
	t->total += t->len;
	if (t->total > SNAPSHOT_PART_MAX)
		return too_much(&t->why, "all its names");
	int r = fd_write_holes(t->fd, t->chunk, t->len);
	if (r < 0)
		return cell_fail_errno(&t->why, -r, "write it down");
	r = check_space(t, t->len);
	return r < 0 ? r : 1;
}

static ssize_t take(void *p, size_t n, void *user)
{
	struct taking *t = user;

	if (t->at == t->len) {
		int r = refill(t);
		if (r <= 0)
			return r;
	}
	if (n > t->len - t->at)
		n = t->len - t->at;
	memcpy(p, t->chunk + t->at, n);
	t->at += n;
	return (ssize_t)n;
}

static int take_archive(struct taking *t, struct cell_error *err)
{
	auto_(tar_reader_done) struct tar_reader in = TAR_READER_INIT(take, t);
	struct tar_entry e = {0};
	uint64_t entries = 0;
	int r;

	while ((r = tar_read_entry(&in, &e)) > 0) {
		if (e.size > SNAPSHOT_PART_MAX - t->total)
			return too_much(err, e.name);
		if (++entries > UNTAR_MAX_ENTRIES)
			return cell_fail(err, CELL_ELIMIT, 0, "it has more than %u files",
				UNTAR_MAX_ENTRIES);
	}
	if (r < 0 && in.why && !t->why.code)
		return cell_fail(err, CELL_EPROTOCOL, EPROTO, "what the guest sent: %s", in.why);
	/* What fills the last block; and the guest's word on how it went. */
	uint64_t end = t->total + REST_MAX;
	while (r == 0 && (r = refill(t)) > 0)
		r = t->total > end ? cell_fail(err, CELL_EPROTOCOL, EPROTO,
					     "the guest went on behind the end of the archive")
				   : 0;
	return r;
}

int snapshot_part_take(tar_read_fn fn, void *user, int fd, uint64_t max_space,
	struct cell_error *err)
{
	struct taking t = {
		.fn = fn, .user = user, .fd = fd, .max_space = max_space, .room = {.fd = fd}};
	int r = take_archive(&t, err);

	if (r == 0)
		r = check_space(&t, LOOK_STEP);
	if (r == 0 && ((r = fd_end_holes(fd)) < 0 || fsync(fd) < 0))
		r = cell_fail_errno(&t.why, r < 0 ? -r : errno, "write it down");
	if (r < 0 && t.why.code && err)
		*err = t.why;
	return r;
}

/* ---- from the guest and back ---- */

struct arriving {
	struct link_stream *stream;
	const uint8_t *p; /* bytes not yet taken */
	size_t left;
	bool has_ended;
	struct cell_error why;
};

static ssize_t next_bytes(void *p, size_t n, void *user)
{
	struct arriving *a = user;

	if (a->left == 0 && !a->has_ended) {
		int r = file_next(a->stream, -1, &a->p, &a->left, NULL, &a->why);
		a->has_ended = r <= 0;
		if (r < 0)
			return r;
	}
	if (n > a->left)
		n = a->left;
	if (n)
		memcpy(p, a->p, n);
	a->p += n;
	a->left -= n;
	return (ssize_t)n;
}

uint64_t snapshot_space(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

int snapshot_part_save(struct cell *c, int dir, const char *name, unsigned from, uint64_t *space,
	struct cell_error *err)
{
	auto_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;
	struct arriving a = {0};
	struct cell_error why = {0};

	if (fd < 0)
		return cell_fail_errno(err, errno, "make '%s' of the snapshot", name);
	file_put_u64(&q, WIRE_T_FLAGS, from);
	int r = file_open(c, WIRE_OP_TAR, &q, &s, err);
	if (r < 0)
		return r;
	a.stream = s;
	r = snapshot_part_take(next_bytes, &a, fd, space ? *space : UINT64_MAX, &why);
	if (r < 0) {
		/* a guest that fails tears its archive: its own reason counts */
		if (err)
			*err = a.why.code ? a.why : why;
		return cell_error_prefix(err, r, "save '%s' of the snapshot", name);
	}
	uint64_t taken = snapshot_space(dir, name);
	if (space && *space != UINT64_MAX)
		*space -= taken < *space ? taken : *space;
	return 0;
}

static ssize_t from_file(void *p, size_t n, int fd)
{
	ssize_t got;

	do
		got = read(fd, p, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

int snapshot_part_restore(struct cell *c, int dir, const char *name, unsigned from,
	struct cell_error *err)
{
	auto_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;
	char chunk[65536];
	ssize_t n = 0;

	if (fd < 0)
		return cell_fail_errno(err, errno, "open '%s' of the snapshot", name);
	file_put_u64(&q, WIRE_T_FLAGS, from | WIRE_TREE_LINKS);
	int r = file_open(c, WIRE_OP_UNTAR, &q, &s, err);
	while (r >= 0 && (n = from_file(chunk, sizeof chunk, fd)) > 0)
		r = file_send(s, chunk, (size_t)n, err);
	if (r >= 0 && n < 0)
		r = cell_fail_errno(err, (int)-n, "read '%s' of the snapshot", name);
	return r < 0 ? r : file_finish(s, NULL, err);
}
