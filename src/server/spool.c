/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.c: see spool.h. The file:
 *
 *	head     64 bytes: what it is, and where the first record that is kept begins
 *	meta     as given
 *	records  16 bytes of head (length, kind, offset in the stream), then the bytes
 *
 * A record is written by one call behind the last one. One that is cut short by a crash is not a record:
 * its bytes were not acknowledged, so they come again.
 */
#include "server/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "server/spool_spare.h"

#define MAGIC	    UINT64_C(0x316c6f6f70736c63) /* "clspool1" */
#define RECORD_MARK 0xce11u
#define BEGIN_MARK  0xce12u /* of spool_append_begin() */
#define INDEX_EVERY (256u * 1024)
#define DROP_STEP   (1024u * 1024)

struct head {
	uint64_t magic;
	uint32_t meta_len, unused;
	uint64_t first;	    /* position of the first record kept */
	uint64_t oldest[3]; /* [1], [2]: offsets of the first bytes kept */
	uint64_t reserved[2];
};
_Static_assert(sizeof(struct head) == 64, "on disk");

struct record {
	uint32_t len;
	uint8_t kind, stream;
	uint16_t mark;
	uint64_t offset;
};
_Static_assert(sizeof(struct record) == 16, "on disk");

/* At `at` begins a record, and this is what the streams had before it. */
struct mark {
	uint64_t at, next[3];
};

struct spool {
	int fd;
	struct head head;
	uint64_t max_bytes;
	uint64_t end; /* where the next record goes */
	uint64_t next[3];
	bool has_ended;
	struct mark *marks; /* every INDEX_EVERY bytes or so */
	size_t n_marks, marks_room;
};

static uint8_t buffer[SPOOL_MAX_META > SPOOL_MAX_DATA ? SPOOL_MAX_META : SPOOL_MAX_DATA];

void spool_free(struct spool *s)
{
	if (!s)
		return;
	if (s->fd >= 0)
		close(s->fd);
	free(s->marks);
	free(s);
}

static void spool_freep(struct spool **s)
{
	spool_free(*s);
}
#define auto_spool __attribute__((cleanup(spool_freep)))

static struct spool *spool_new(uint64_t max_bytes)
{
	struct spool *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	s->fd = -1;
	s->max_bytes = max_bytes < SPOOL_MIN_MAX ? SPOOL_MIN_MAX : max_bytes;
	return s;
}

/* Without memory for it, finding a place takes longer: nothing else. */
static void note_place(struct spool *s)
{
	if (s->n_marks && s->end - s->marks[s->n_marks - 1].at < INDEX_EVERY)
		return;
	if (s->n_marks == s->marks_room) {
		size_t room = s->marks_room ? 2 * s->marks_room : 8;
		struct mark *more = realloc(s->marks, room * sizeof *more);
		if (!more)
			return;
		s->marks = more;
		s->marks_room = room;
	}
	struct mark *m = &s->marks[s->n_marks++];
	m->at = s->end;
	memcpy(m->next, s->next, sizeof m->next);
}

int spool_create(struct spool_spares *spares, int dir_fd, const char *name, const void *meta,
	size_t meta_len, uint64_t max_bytes, struct spool **ret, struct cell_error *err)
{
	auto_spool struct spool *s = spool_new(max_bytes);

	if (!s)
		return cell_fail_errno(err, ENOMEM, "spool '%s'", name);
	if (meta_len > SPOOL_MAX_META)
		return cell_fail(err, CELL_EINVAL, 0, "spool '%s': the description has %zu bytes",
			name, meta_len);
	s->fd = spool_spare_take(spares, dir_fd, name);
	if (s->fd < 0)
		s->fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			0600);
	if (s->fd < 0)
		return cell_fail_errno(err, errno, "make the spool '%s'", name);
	s->head = (struct head){.magic = MAGIC,
		.meta_len = (uint32_t)meta_len,
		.first = sizeof(struct head) + meta_len};
	union {
		const void *in;
		void *out;
	} m = {.in = meta};
	struct iovec v[] = {{&s->head, sizeof s->head}, {m.out, meta_len}};
	ssize_t n = writev(s->fd, v, 2);
	if (n != (ssize_t)s->head.first) {
		int e = n < 0 ? errno : ENOSPC;
		(void)unlinkat(dir_fd, name, 0);
		return cell_fail_errno(err, e, "write the spool '%s'", name);
	}
	s->end = s->head.first;
	note_place(s);
	*ret = steal_ptr(s);
	return 0;
}

static bool is_record(const struct record *r)
{
	if ((r->mark != RECORD_MARK && r->mark != BEGIN_MARK) || r->len > SPOOL_MAX_META)
		return false;
	if (r->kind == SPOOL_END)
		return true;
	return (r->kind == SPOOL_OUT || r->kind == SPOOL_ERR) && r->stream == r->kind && r->len &&
	       r->len <= SPOOL_MAX_DATA;
}

static void account(struct spool *s, const struct record *r)
{
	note_place(s);
	if (r->kind == SPOOL_END)
		s->has_ended = true;
	else
		s->next[r->stream] = r->offset + r->len;
	s->end += sizeof *r + r->len;
}

/* All records there are; what is no whole record ends it. */
static int scan(struct spool *s, uint64_t size)
{
	struct record r;

	s->end = s->head.first;
	memcpy(s->next, s->head.oldest, sizeof s->next);
	while (!s->has_ended && s->end + sizeof r <= size) {
		if (pread(s->fd, &r, sizeof r, (off_t)s->end) != (ssize_t)sizeof r)
			return -EIO;
		if (!is_record(&r) || s->end + sizeof r + r.len > size ||
			(r.kind != SPOOL_END && r.offset < s->next[r.stream]))
			break;
		account(s, &r);
	}
	return 0;
}

/* The first n bytes of its head are there, and not all of the head and meta. */
static bool is_begun(const struct head *h, size_t n, uint64_t size)
{
	const uint64_t magic = MAGIC;

	if (n < sizeof *h)
		return !memcmp(h, &magic, n < sizeof magic ? n : sizeof magic);
	return h->magic == MAGIC && h->meta_len <= SPOOL_MAX_META && size < sizeof *h + h->meta_len;
}

int spool_open(int dir_fd, const char *name, uint64_t max_bytes, struct spool **ret,
	struct cell_error *err)
{
	struct stat st;
	auto_spool struct spool *s = spool_new(max_bytes);

	if (!s)
		return cell_fail_errno(err, ENOMEM, "spool '%s'", name);
	s->fd = openat(dir_fd, name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
	if (s->fd < 0 && errno == EACCES) /* sealed: nothing is to be repaired in it */
		s->fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (s->fd < 0 || fstat(s->fd, &st) < 0)
		return cell_fail_errno(err, errno, "open the spool '%s'", name);
	uint64_t size = (uint64_t)st.st_size;
	ssize_t n = pread(s->fd, &s->head, sizeof s->head, 0);
	/* Its maker was killed in the middle: nobody was told of it, and the name is free again. */
	if (S_ISREG(st.st_mode) && n >= 0 && is_begun(&s->head, (size_t)n, size)) {
		(void)unlinkat(dir_fd, name, 0);
		return cell_fail(err, CELL_ENOTFOUND, 0, "the spool '%s' was never written", name);
	}
	if (!S_ISREG(st.st_mode) || n != (ssize_t)sizeof s->head || s->head.magic != MAGIC ||
		s->head.meta_len > SPOOL_MAX_META || s->head.first > size ||
		s->head.first < sizeof s->head + s->head.meta_len)
		return cell_fail(err, CELL_EINTERNAL, 0, "the spool '%s' is damaged", name);
	if (scan(s, size) < 0)
		return cell_fail_errno(err, EIO, "read the spool '%s'", name);
	if (s->end < size && ftruncate(s->fd, (off_t)s->end) < 0)
		return cell_fail_errno(err, errno, "repair the spool '%s'", name);
	*ret = steal_ptr(s);
	return 0;
}

void spool_seal(struct spool *s)
{
	if (s->has_ended)
		(void)fchmod(s->fd, 0400);
}

bool spool_is_sealed(const struct stat *st)
{
	return !(st->st_mode & 0200);
}

int spool_meta(struct spool *s, const uint8_t **ret, size_t *ret_len, struct cell_error *err)
{
	ssize_t n = pread(s->fd, buffer, s->head.meta_len, sizeof s->head);

	if (n != (ssize_t)s->head.meta_len)
		return cell_fail_errno(err, n < 0 ? errno : EIO, "read a spool");
	*ret = buffer;
	*ret_len = (size_t)n;
	return 0;
}

/* Give the oldest records back. The head says so before the hole is made: a crash in between leaves a
 * little more on disk than needed, never a hole that a reader takes for records. */
static void drop_oldest(struct spool *s)
{
	struct head h = s->head;
	struct record r;

	if (s->end - s->head.first < s->max_bytes)
		return;
	uint64_t step = s->max_bytes / 4 < DROP_STEP ? s->max_bytes / 4 : DROP_STEP;
	uint64_t until = s->end - s->max_bytes + step;
	if (until > s->end)
		until = s->end;
	while (h.first < until && pread(s->fd, &r, sizeof r, (off_t)h.first) == sizeof r &&
		is_record(&r) && r.kind != SPOOL_END) {
		h.oldest[r.stream] = r.offset + r.len;
		h.first += sizeof r + r.len;
	}
	if (h.first == s->head.first || pwrite(s->fd, &h, sizeof h, 0) != (ssize_t)sizeof h)
		return;
	uint64_t from = (sizeof h + h.meta_len + 4095) & ~UINT64_C(4095);
	s->head = h;
	if (h.first > from)
		(void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
			(off_t)(h.first - from));
	size_t n = 0;
	while (n < s->n_marks && s->marks[n].at < h.first)
		n++;
	memmove(s->marks, s->marks + n, (s->n_marks - n) * sizeof *s->marks);
	s->n_marks -= n;
}

static int add(struct spool *s, struct record *r, const void *p, struct cell_error *err)
{
	union {
		const void *in;
		void *out;
	} data = {.in = p};
	struct iovec v[] = {{r, sizeof *r}, {data.out, r->len}};
	ssize_t n;

	do
		n = pwritev(s->fd, v, 2, (off_t)s->end);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)(sizeof *r + r->len)) {
		int e = n < 0 ? errno : ENOSPC;
		if (ftruncate(s->fd, (off_t)s->end) < 0)
			e = errno; /* what stands behind the end is cut off when it is opened again */
		int code = cell_fail_errno(err, e, "write a command's output to the spool");
		return cell_error_hint(err, code,
			"make room on the disk of the state directory; the command waits");
	}
	account(s, r);
	return 0;
}

static int append(struct spool *s, int stream, uint64_t offset, const void *p, size_t n,
	unsigned mark, struct cell_error *err)
{
	struct record r = {.len = (uint32_t)n,
		.kind = (uint8_t)stream,
		.stream = (uint8_t)stream,
		.mark = (uint16_t)mark,
		.offset = offset};

	if (n == 0)
		return 0;
	if ((stream != 1 && stream != 2) || n > SPOOL_MAX_DATA || offset < s->next[stream] ||
		s->has_ended)
		return cell_fail(err, CELL_EINTERNAL, 0, "spool bytes out of order");
	int code = add(s, &r, p, err);
	if (code == 0)
		drop_oldest(s);
	return code;
}

int spool_append(struct spool *s, int stream, uint64_t offset, const void *p, size_t n,
	struct cell_error *err)
{
	return append(s, stream, offset, p, n, RECORD_MARK, err);
}

int spool_append_begin(struct spool *s, int stream, uint64_t offset, const void *p, size_t n,
	struct cell_error *err)
{
	return append(s, stream, offset, p, n, BEGIN_MARK, err);
}

int spool_finish(struct spool *s, const void *p, size_t n, struct cell_error *err)
{
	struct record r = {.len = (uint32_t)n, .kind = SPOOL_END, .mark = RECORD_MARK};

	if (n > SPOOL_MAX_DATA || s->has_ended)
		return cell_fail(err, CELL_EINTERNAL, 0, "end a spool twice");
	return add(s, &r, p, err);
}

uint64_t spool_next(const struct spool *s, int stream)
{
	return s->next[stream];
}

uint64_t spool_oldest(const struct spool *s, int stream)
{
	return s->head.oldest[stream];
}

bool spool_has_ended(const struct spool *s)
{
	return s->has_ended;
}

uint64_t spool_bytes(const struct spool *s)
{
	return s->end - s->head.first + sizeof s->head + s->head.meta_len;
}

uint64_t spool_behind(const struct spool *s, const struct spool_cursor *c)
{
	uint64_t at = c->at > s->head.first ? c->at : s->head.first;

	return s->end > at ? s->end - at : 0;
}

struct spool_cursor spool_at_end(const struct spool *s)
{
	return (struct spool_cursor){.want = {0, s->next[1], s->next[2]}, .at = s->end};
}

/* The last noted place with nothing behind it that the reader wants before it. */
static uint64_t find_place(const struct spool *s, const struct spool_cursor *c)
{
	uint64_t at = s->head.first;

	for (size_t i = 0; i < s->n_marks; i++) {
		const struct mark *m = &s->marks[i];
		if (m->next[1] > c->want[1] || m->next[2] > c->want[2])
			break;
		if (m->at >= at)
			at = m->at;
	}
	return at;
}

static bool tell_gap(const struct spool *s, struct spool_cursor *c, struct spool_event *ret)
{
	for (int i = 1; i <= 2; i++) {
		if (c->want[i] >= s->head.oldest[i])
			continue;
		c->want[i] = s->head.oldest[i];
		*ret = (struct spool_event){.kind = SPOOL_GAP, .stream = i, .offset = c->want[i]};
		return true;
	}
	return false;
}

int spool_read(struct spool *s, struct spool_cursor *c, struct spool_event *ret,
	struct cell_error *err)
{
	struct record r;

	*ret = (struct spool_event){.kind = SPOOL_NONE};
	if (!c->at || c->at < s->head.first) {
		if (tell_gap(s, c, ret))
			return 0;
		c->at = c->at ? s->head.first : find_place(s, c);
	}
	while (c->at < s->end) {
		if (pread(s->fd, &r, sizeof r, (off_t)c->at) != (ssize_t)sizeof r || !is_record(&r))
			return cell_fail(err, CELL_EINTERNAL, EIO, "read a spool");
		uint64_t skip = 0;
		if (r.kind != SPOOL_END) {
			if (r.offset + r.len <= c->want[r.stream]) {
				c->at += sizeof r + r.len;
				continue;
			}
			if (r.offset > c->want[r.stream]) { /* the guest no longer had them */
				c->want[r.stream] = r.offset;
				*ret = (struct spool_event){
					.kind = SPOOL_GAP, .stream = r.stream, .offset = r.offset};
				return 0;
			}
			skip = c->is_whole ? 0 : c->want[r.stream] - r.offset;
		}
		size_t n = r.len - (size_t)skip;
		if (pread(s->fd, buffer, n, (off_t)(c->at + sizeof r + skip)) != (ssize_t)n)
			return cell_fail(err, CELL_EINTERNAL, EIO, "read a spool");
		c->at += sizeof r + r.len;
		*ret = (struct spool_event){.kind = (enum spool_kind)r.kind,
			.stream = r.stream,
			.offset = r.offset + skip,
			.data = buffer,
			.len = n,
			.is_begin = r.mark == BEGIN_MARK && !skip};
		if (r.kind != SPOOL_END)
			c->want[r.stream] = r.offset + r.len;
		return 0;
	}
	return 0;
}
