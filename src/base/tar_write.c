/* SPDX-License-Identifier: Apache-2.0 */
/* tar_write.c: the writing half of tar.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/tar.h"

#define NS_PER_S   1000000000
#define OCTAL_7	   07777777ull
#define OCTAL_11   077777777777ull
#define NAME_FIELD 100

static unsigned padding(uint64_t size)
{
	return (unsigned)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

static int write_zeros(struct tar_writer *w, uint64_t n)
{
	char zeros[4096] = {0};

	while (n > 0) {
		size_t part = n < sizeof zeros ? (size_t)n : sizeof zeros;
		int r = w->fn(zeros, part, w->user);
		if (r < 0)
			return r;
		n -= part;
	}
	return 0;
}

/* `width` octal digits and a NUL. */
static void put_octal(char *field, unsigned width, uint64_t v)
{
	for (unsigned i = width; i-- > 0; v >>= 3)
		field[i] = (char)('0' + (v & 7));
}

static bool is_plain(const char *s)
{
	for (; *s; s++) {
		if ((unsigned char)*s >= 0x80)
			return false;
	}
	return true;
}

static void put_text(char *field, const char *s)
{
	size_t n = strlen(s);

	memcpy(field, s, n < NAME_FIELD ? n : NAME_FIELD);
}

/* The layout of a header block: name 0, mode 100, uid 108, gid 116, size 124, mtime 136, checksum
 * 148, type 156, link 157, magic 257, version 263, prefix 345. */
static int write_header(struct tar_writer *w, char type, const char *name, const char *link,
	const struct tar_entry *e, uint64_t size)
{
	char h[TAR_BLOCK] = {0};
	int64_t mtime_s = e->mtime_ns / NS_PER_S;

	put_text(h, name);
	put_octal(h + 100, 7, e->mode & 07777);
	put_octal(h + 108, 7, e->uid <= OCTAL_7 ? e->uid : 0);
	put_octal(h + 116, 7, e->gid <= OCTAL_7 ? e->gid : 0);
	put_octal(h + 124, 11, size <= OCTAL_11 ? size : 0);
	put_octal(h + 136, 11,
		mtime_s >= 0 && (uint64_t)mtime_s <= OCTAL_11 ? (uint64_t)mtime_s : 0);
	memset(h + 148, ' ', 8);
	h[156] = type;
	put_text(h + 157, link);
	memcpy(h + 257, "ustar\00000", 8);
	unsigned sum = 0;
	for (size_t i = 0; i < sizeof h; i++)
		sum += (unsigned char)h[i];
	put_octal(h + 148, 6, sum);
	h[154] = '\0';
	return w->fn(h, sizeof h, w->user);
}

/* "LEN key=value\n", where LEN counts itself. */
static int add_record(struct buf *b, const char *key, const char *value, size_t value_len)
{
	size_t body = 1 + strlen(key) + 1 + value_len + 1;
	size_t digits = 1;

	for (size_t limit = 10; body + digits >= limit; limit *= 10)
		digits++;
	int r = buf_addf(b, "%zu %s=", body + digits, key);
	if (r == 0)
		r = buf_add(b, value, value_len);
	return r < 0 ? r : buf_addc(b, '\n');
}

static int add_number(struct buf *b, const char *key, uint64_t v)
{
	char text[24];
	int n = snprintf(text, sizeof text, "%llu", (unsigned long long)v);

	return add_record(b, key, text, (size_t)n);
}

static int add_time(struct buf *b, int64_t ns)
{
	/* Away from zero by hand: -1.5 s is written "-1.5". */
	uint64_t abs = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	char text[40];
	int n = snprintf(text, sizeof text, "%s%llu.%09llu", ns < 0 ? "-" : "",
		(unsigned long long)(abs / NS_PER_S), (unsigned long long)(abs % NS_PER_S));

	return add_record(b, "mtime", text, (size_t)n);
}

static int write_extension(struct tar_writer *w, const struct tar_entry *e, const char *name)
{
	auto_buf struct buf b = BUF_INIT(TAR_MAX_EXTENSION);
	int r = 0;

	if (strlen(name) > NAME_FIELD || !is_plain(name))
		r = add_record(&b, "path", name, strlen(name));
	if (r == 0 && (strlen(e->link) > NAME_FIELD || !is_plain(e->link)))
		r = add_record(&b, "linkpath", e->link, strlen(e->link));
	if (r == 0 && e->size > OCTAL_11)
		r = add_number(&b, "size", e->size);
	if (r == 0 && e->uid > OCTAL_7)
		r = add_number(&b, "uid", e->uid);
	if (r == 0 && e->gid > OCTAL_7)
		r = add_number(&b, "gid", e->gid);
	if (r == 0 && (e->mtime_ns < 0 || e->mtime_ns % NS_PER_S ||
			      (uint64_t)e->mtime_ns / NS_PER_S > OCTAL_11))
		r = add_time(&b, e->mtime_ns);
	if (r < 0 || b.len == 0)
		return r == -ENOBUFS ? -EINVAL : r;
	const struct tar_entry head = {.mode = 0644};
	r = write_header(w, 'x', "@PaxHeader", "", &head, b.len);
	if (r == 0)
		r = w->fn(b.data, b.len, w->user);
	return r < 0 ? r : write_zeros(w, padding(b.len));
}

int tar_write_entry(struct tar_writer *w, const struct tar_entry *e)
{
	auto_buf struct buf name = BUF_INIT(TAR_MAX_NAME);
	uint64_t size = e->type == TAR_FILE ? e->size : 0;

	if (w->left > 0 || !e->name[0])
		return -EINVAL;
	int r = buf_addz(&name, e->name);
	if (r == 0 && e->type == TAR_DIRECTORY)
		r = buf_addc(&name, '/');
	if (r == 0)
		r = write_extension(w, e, buf_str(&name));
	if (r == 0)
		r = write_header(w, e->type, buf_str(&name), e->link, e, size);
	if (r < 0)
		return r == -ENOBUFS ? -EINVAL : r;
	w->left = size;
	w->pad = padding(size);
	return 0;
}

int tar_written_aside(struct tar_writer *w, uint64_t n)
{
	if (n > w->left)
		return -EFBIG;
	w->left -= n;
	if (w->left > 0 || w->pad == 0)
		return 0;
	unsigned pad = w->pad;
	w->pad = 0;
	return write_zeros(w, pad);
}

int tar_write_data(struct tar_writer *w, const void *p, size_t n)
{
	if (n > w->left)
		return -EFBIG;
	int r = w->fn(p, n, w->user);
	return r < 0 ? r : tar_written_aside(w, n);
}

int tar_write_fill(struct tar_writer *w)
{
	uint64_t n = w->left;

	int r = write_zeros(w, n);
	return r < 0 ? r : tar_written_aside(w, n);
}

int tar_write_end(struct tar_writer *w)
{
	return w->left > 0 ? -EINVAL : write_zeros(w, 2 * (uint64_t)TAR_BLOCK);
}
