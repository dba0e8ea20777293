/* SPDX-License-Identifier: Apache-2.0 */
/* zip.c: see zip.h. */
#include "core/deps/zip.h"

#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"

#define EOCD_SIZE    22
#define COMMENT_MAX  65535
#define CENTRAL_SIZE 46
#define LOCAL_SIZE   30
#define CENTRAL_MAX  (64u << 20)
#define CHUNK	     65536

#define UNIX_LINK    0120000u
#define UNIX_TYPE    0170000u
#define UNIX_REGULAR 0100000u
#define UNIX_DIR     0040000u

static uint16_t u16(const uint8_t *p)
{
	return (uint16_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const uint8_t *p)
{
	return (uint32_t)u16(p) | (uint32_t)u16(p + 2) << 16;
}

static int bad(struct cell_error *err, const char *why)
{
	return cell_fail(err, CELL_EINVAL, 0, "the zip archive is refused: %s", why);
}

static int bad_entry(struct cell_error *err, const char *name, const char *why)
{
	return cell_fail(err, CELL_EINVAL, 0, "the zip archive is refused: '%.200s' %s", name, why);
}

static int read_at(int fd, void *p, size_t n, uint64_t at, struct cell_error *err)
{
	uint8_t *to = p;

	while (n) {
		ssize_t got = pread(fd, to, n, (off_t)at);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return cell_fail_errno(err, errno, "read the zip archive");
		if (got == 0)
			return bad(err, "it ends too early");
		to += got;
		at += (uint64_t)got;
		n -= (size_t)got;
	}
	return 0;
}

/* The last record of the file; its comment may not have another one in it that fits as well. */
static int find_end(int fd, uint64_t size, uint8_t ret[EOCD_SIZE], uint64_t *ret_at,
	struct cell_error *err)
{
	size_t n = size < EOCD_SIZE + COMMENT_MAX ? (size_t)size : EOCD_SIZE + COMMENT_MAX;
	auto_free uint8_t *tail = malloc(n ? n : 1);
	bool is_found = false;

	if (!tail)
		return cell_fail_errno(err, ENOMEM, "read the zip archive");
	if (size < EOCD_SIZE)
		return bad(err, "it is no zip archive");
	int r = read_at(fd, tail, n, size - n, err);
	if (r < 0)
		return r;
	for (size_t i = n - EOCD_SIZE + 1; i-- > 0;) {
		if (u32(tail + i) != 0x06054b50 || i + EOCD_SIZE + u16(tail + i + 20) != n)
			continue;
		if (is_found)
			return bad(err, "it has two directories");
		memcpy(ret, tail + i, EOCD_SIZE);
		*ret_at = size - n + i;
		is_found = true;
	}
	return is_found ? 0 : bad(err, "it is no zip archive, or cut off");
}

static int take_entry(struct zip *z, const uint8_t *p, size_t left, size_t *ret_used,
	struct cell_error *err)
{
	struct zip_entry *e = &z->entries[z->n];

	if (left < CENTRAL_SIZE || u32(p) != 0x02014b50)
		return bad(err, "its directory is damaged");
	size_t name_len = u16(p + 28), used = CENTRAL_SIZE + name_len + u16(p + 30) + u16(p + 32);
	if (used > left || !name_len || name_len > ZIP_NAME_MAX)
		return bad(err, "its directory is damaged");
	if (memchr(p + CENTRAL_SIZE, 0, name_len))
		return bad(err, "a name has a NUL in it");
	unsigned flags = u16(p + 8), host = p[5], mode = u32(p + 38) >> 16;
	e->name = strndup((const char *)p + CENTRAL_SIZE, name_len);
	if (!e->name)
		return cell_fail_errno(err, ENOMEM, "read the zip archive");
	z->n++;
	e->method = u16(p + 10);
	e->crc = u32(p + 16);
	e->packed = u32(p + 20);
	e->size = u32(p + 24);
	e->offset = u32(p + 42);
	e->is_directory = e->name[name_len - 1] == '/';
	e->is_executable = host == 3 && (mode & 0111) && !e->is_directory;
	if (flags & (1u << 0 | 1u << 5 | 1u << 6 | 1u << 13))
		return bad_entry(err, e->name, "is encrypted or patched");
	if (host == 3 && (mode & UNIX_TYPE) == UNIX_LINK)
		return bad_entry(err, e->name, "is a symbolic link");
	if (host == 3 && (mode & UNIX_TYPE) && (mode & UNIX_TYPE) != UNIX_REGULAR &&
		(mode & UNIX_TYPE) != UNIX_DIR)
		return bad_entry(err, e->name, "is neither a file nor a directory");
	if (e->method != 0 && e->method != 8)
		return bad_entry(err, e->name, "is packed in a way other than deflate");
	if (e->packed == UINT32_MAX || e->size == UINT32_MAX || e->offset == UINT32_MAX)
		return bad_entry(err, e->name, "needs zip64, which is for more than 4 GiB");
	if ((e->method == 0 && e->packed != e->size) || (e->is_directory && e->size))
		return bad_entry(err, e->name, "has two sizes");
	/* deflate cannot do better than 1032 to 1 */
	if (e->size > e->packed * 1032 + 1024)
		return bad_entry(err, e->name, "claims to be larger than its bytes can hold");
	z->total += e->size;
	if (z->total > ZIP_TOTAL_MAX)
		return cell_fail(err, CELL_ELIMIT, 0,
			"the zip archive is refused: unpacked it is more than 4 GiB");
	*ret_used = used;
	return 0;
}

static int by_offset(const void *a, const void *b)
{
	const struct zip_entry *x = *(struct zip_entry *const *)a,
			       *y = *(struct zip_entry *const *)b;

	return (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct zip_entry *const *)a)->name, (*(struct zip_entry *const *)b)->name);
}

/* The same bytes named again and again is how a small archive becomes a huge tree. */
static int check_apart(const struct zip *z, struct cell_error *err)
{
	auto_free struct zip_entry **sorted = calloc(z->n + 1, sizeof *sorted);

	if (!sorted)
		return cell_fail_errno(err, ENOMEM, "read the zip archive");
	for (size_t i = 0; i < z->n; i++)
		sorted[i] = &z->entries[i];
	qsort(sorted, z->n, sizeof *sorted, by_offset);
	for (size_t i = 0; i < z->n; i++) {
		uint64_t least = sorted[i]->offset + LOCAL_SIZE + strlen(sorted[i]->name) +
				 sorted[i]->packed;
		if (least > (i + 1 < z->n ? sorted[i + 1]->offset : z->end))
			return bad_entry(err, sorted[i]->name, "shares bytes with another");
	}
	qsort(sorted, z->n, sizeof *sorted, by_name);
	for (size_t i = 1; i < z->n; i++)
		if (!strcmp(sorted[i]->name, sorted[i - 1]->name))
			return bad_entry(err, sorted[i]->name, "is there twice");
	return 0;
}

int zip_open(struct zip *z, int fd, struct cell_error *err)
{
	uint8_t end[EOCD_SIZE] = {0};
	uint64_t end_at = 0;
	struct stat st;

	*z = (struct zip){.fd = fd};
	if (fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "look at the zip archive");
	int r = find_end(fd, (uint64_t)st.st_size, end, &end_at, err);
	if (r < 0)
		return r;
	size_t n = u16(end + 10), size = u32(end + 12);
	z->end = u32(end + 16);
	if (u16(end + 4) || u16(end + 6) || u16(end + 8) != n)
		return bad(err, "it is in several parts");
	if (n == UINT16_MAX || size == UINT32_MAX || z->end == UINT32_MAX)
		return bad(err, "it needs zip64: more than 65,534 files or 4 GiB");
	if (n > ZIP_ENTRIES_MAX || size > CENTRAL_MAX)
		return cell_fail(err, CELL_ELIMIT, 0,
			"the zip archive is refused: it has too many files");
	if (z->end + size != end_at)
		return bad(err, "there are bytes where none belong");
	auto_free uint8_t *central = malloc(size ? size : 1);
	z->entries = calloc(n ? n : 1, sizeof *z->entries);
	if (!central || !z->entries)
		return cell_fail_errno(err, ENOMEM, "read the zip archive");
	r = read_at(fd, central, size, z->end, err);
	for (size_t i = 0, at = 0; r == 0 && i < n; i++) {
		size_t used = 0;
		r = take_entry(z, central + at, size - at, &used, err);
		at += used;
		if (r == 0 && i + 1 == n && at != size)
			r = bad(err, "its directory is damaged");
	}
	return r < 0 ? r : check_apart(z, err);
}

void zip_done(struct zip *z)
{
	for (size_t i = 0; i < z->n; i++)
		free(z->entries[i].name);
	free(z->entries);
	z->entries = NULL;
	z->n = 0;
}

/* Where the bytes begin; the header before them must tell the same as the directory. */
static int data_offset(const struct zip *z, const struct zip_entry *e, uint64_t *ret,
	struct cell_error *err)
{
	uint8_t head[LOCAL_SIZE];
	char name[ZIP_NAME_MAX];
	size_t n = strlen(e->name);

	if (e->offset + LOCAL_SIZE > z->end)
		return bad_entry(err, e->name, "is outside of the archive");
	int r = read_at(z->fd, head, sizeof head, e->offset, err);
	if (r < 0)
		return r;
	if (u32(head) != 0x04034b50 || u16(head + 26) != n || u16(head + 8) != e->method)
		return bad_entry(err, e->name, "is told of in two ways");
	uint64_t at = e->offset + LOCAL_SIZE + n + u16(head + 28);
	if (at + e->packed > z->end)
		return bad_entry(err, e->name, "is outside of the archive");
	r = read_at(z->fd, name, n, e->offset + LOCAL_SIZE, err);
	if (r < 0)
		return r;
	if (memcmp(name, e->name, n) != 0)
		return bad_entry(err, e->name, "is told of in two ways");
	*ret = at;
	return 0;
}

struct unpacking {
	zip_sink fn;
	void *user;
	uint64_t done;
	uLong crc;
};

static int give(struct unpacking *u, const struct zip_entry *e, const uint8_t *p, size_t n,
	struct cell_error *err)
{
	u->done += n;
	if (u->done > e->size)
		return bad_entry(err, e->name, "is larger than the directory says");
	u->crc = crc32(u->crc, p, (uInt)n);
	return n ? u->fn(p, n, u->user) : 0;
}

static int inflate_all(const struct zip *z, const struct zip_entry *e, uint64_t at,
	struct unpacking *u, struct cell_error *err)
{
	uint64_t left = e->packed;
	z_stream s = {0};
	int r = 0, state = Z_OK;
	auto_free uint8_t *in = malloc(CHUNK);
	auto_free uint8_t *out = malloc(CHUNK);

	if (!in || !out || inflateInit2(&s, -MAX_WBITS) != Z_OK)
		return cell_fail_errno(err, ENOMEM, "unpack '%.200s'", e->name);
	while (r == 0 && state != Z_STREAM_END) {
		if (!s.avail_in && left) {
			size_t n = left < CHUNK ? (size_t)left : CHUNK;
			r = read_at(z->fd, in, n, at, err);
			if (r < 0)
				break;
			at += n;
			left -= n;
			s.next_in = in;
			s.avail_in = (uInt)n;
		}
		s.next_out = out;
		s.avail_out = CHUNK;
		state = inflate(&s, Z_NO_FLUSH);
		if (state != Z_OK && state != Z_STREAM_END) {
			r = bad_entry(err, e->name, "cannot be unpacked");
			break;
		}
		r = give(u, e, out, CHUNK - s.avail_out, err);
	}
	if (r == 0 && (left || s.avail_in))
		r = bad_entry(err, e->name, "has bytes behind its end");
	(void)inflateEnd(&s);
	return r;
}

static int copy_all(const struct zip *z, const struct zip_entry *e, uint64_t at,
	struct unpacking *u, struct cell_error *err)
{
	auto_free uint8_t *in = malloc(CHUNK);
	int r = 0;

	if (!in)
		return cell_fail_errno(err, ENOMEM, "unpack '%.200s'", e->name);
	for (uint64_t left = e->size; r == 0 && left;) {
		size_t n = left < CHUNK ? (size_t)left : CHUNK;
		r = read_at(z->fd, in, n, at, err);
		if (r == 0)
			r = give(u, e, in, n, err);
		at += n;
		left -= n;
	}
	return r;
}

int zip_read(const struct zip *z, const struct zip_entry *e, zip_sink fn, void *user,
	struct cell_error *err)
{
	struct unpacking u = {.fn = fn, .user = user, .crc = crc32(0, NULL, 0)};
	uint64_t at = 0;
	int r = data_offset(z, e, &at, err);

	if (r == 0)
		r = e->method == 8 ? inflate_all(z, e, at, &u, err) : copy_all(z, e, at, &u, err);
	if (r == 0 && u.done != e->size)
		r = bad_entry(err, e->name, "is smaller than the directory says");
	if (r == 0 && u.crc != e->crc)
		r = bad_entry(err, e->name, "is damaged: its checksum differs");
	return r;
}

static int to_buf(const void *p, size_t n, void *user)
{
	return buf_add(user, p, n);
}

int zip_load(const struct zip *z, const struct zip_entry *e, size_t max, char **ret,
	size_t *ret_len, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(max);

	if (e->size > max)
		return cell_fail(err, CELL_ELIMIT, 0, "'%.200s' has more than %zu bytes", e->name,
			max);
	int r = zip_read(z, e, to_buf, &b, err);
	if (r < 0)
		return r;
	*ret_len = b.len;
	*ret = buf_steal(&b);
	return *ret ? 0 : cell_fail_errno(err, ENOMEM, "unpack '%.200s'", e->name);
}

const struct zip_entry *zip_find(const struct zip *z, const char *name)
{
	for (size_t i = 0; i < z->n; i++)
		if (!strcmp(z->entries[i].name, name))
			return &z->entries[i];
	return NULL;
}
