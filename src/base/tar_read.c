/* SPDX-License-Identifier: Apache-2.0 */
/* tar_read.c: the reading half of tar.h. Its input is hostile until proven otherwise. */
#include <errno.h>
#include <string.h>

#include "base/tar.h"

#define NS_PER_S INT64_C(1000000000)

/* What the extensions before a header say of it. */
struct extension {
	bool has_name, has_link, has_size, has_uid, has_gid, has_mtime;
	uint64_t size, uid, gid;
	int64_t mtime_ns;
};

static int bad(struct tar_reader *r, const char *why)
{
	r->why = why;
	return -EBADMSG;
}

static int read_full(struct tar_reader *r, void *p, size_t n)
{
	size_t have = 0;

	while (have < n) {
		ssize_t got = r->fn((char *)p + have, n - have, r->user);
		if (got == -EINTR)
			continue;
		if (got < 0)
			return (int)got;
		if (got == 0)
			return bad(r, "the archive is cut short");
		have += (size_t)got;
	}
	return 0;
}

static int skip(struct tar_reader *r, uint64_t n)
{
	char waste[4096];

	while (n > 0) {
		size_t part = n < sizeof waste ? (size_t)n : sizeof waste;
		int e = read_full(r, waste, part);
		if (e < 0)
			return e;
		n -= part;
	}
	return 0;
}

static unsigned padding(uint64_t size)
{
	return (unsigned)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

/* An octal field, or GNU's base 256. False when it is neither or too big for 63 bits. */
static bool get_number(const uint8_t *f, size_t width, int64_t *ret)
{
	size_t i = 0;
	uint64_t v = 0;

	if (f[0] == 0x80 || f[0] == 0xff) {
		bool is_negative = f[0] == 0xff;
		for (i = 1; i < width; i++) {
			uint8_t byte = is_negative ? (uint8_t)~f[i] : f[i];
			if (v >> 55)
				return false;
			v = v << 8 | byte;
		}
		*ret = is_negative ? -(int64_t)v - 1 : (int64_t)v;
		return true;
	}
	while (i < width && f[i] == ' ')
		i++;
	for (; i < width && f[i] >= '0' && f[i] <= '7'; i++)
		v = v << 3 | (unsigned)(f[i] - '0');
	for (; i < width; i++) {
		if (f[i] != ' ' && f[i] != '\0')
			return false;
	}
	*ret = (int64_t)v;
	return true;
}

static bool is_checksum_right(const uint8_t h[TAR_BLOCK])
{
	unsigned sum = 0;
	int signed_sum = 0;
	int64_t want;

	for (size_t i = 0; i < TAR_BLOCK; i++) {
		uint8_t c = i >= 148 && i < 156 ? ' ' : h[i];
		sum += c;
		signed_sum += (int8_t)c;
	}
	return get_number(h + 148, 8, &want) && (want == (int64_t)sum || want == signed_sum);
}

static bool is_zero(const uint8_t h[TAR_BLOCK])
{
	for (size_t i = 0; i < TAR_BLOCK; i++) {
		if (h[i])
			return false;
	}
	return true;
}

static bool get_decimal(const char *p, size_t n, uint64_t *ret)
{
	uint64_t v = 0;

	if (n == 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9' || v > (INT64_MAX - 9) / 10)
			return false;
		v = v * 10 + (unsigned)(p[i] - '0');
	}
	*ret = v;
	return true;
}

/* "[-]S[.FRACTION]" */
static bool get_time(const char *p, size_t n, int64_t *ret)
{
	bool is_negative = n > 0 && p[0] == '-';
	uint64_t s, ns = 0;

	if (is_negative)
		p++, n--;
	const char *dot = memchr(p, '.', n);
	size_t whole = dot ? (size_t)(dot - p) : n;
	if (!get_decimal(p, whole, &s) || s > (uint64_t)(INT64_MAX / NS_PER_S) - 1)
		return false;
	unsigned digits = 0;
	for (size_t i = whole + 1; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		if (digits < 9) {
			ns = ns * 10 + (unsigned)(p[i] - '0');
			digits++;
		}
	}
	for (; digits > 0 && digits < 9; digits++)
		ns *= 10;
	int64_t v = (int64_t)s * NS_PER_S + (int64_t)ns;
	*ret = is_negative ? -v : v;
	return true;
}

static int set_text(struct tar_reader *r, struct buf *b, const void *p, size_t n)
{
	if (n && memchr(p, 0, n))
		return bad(r, "a name has a NUL byte");
	buf_reset(b);
	int e = buf_add(b, p, n);
	return e == -ENOBUFS ? bad(r, "a name is too long") : e;
}

static bool is_key(const char *key, size_t n, const char *want)
{
	return n == strlen(want) && memcmp(key, want, n) == 0;
}

static int take_record(struct tar_reader *r, struct extension *x, const char *key, size_t key_len,
	const char *value, size_t n)
{
	if (is_key(key, key_len, "path")) {
		x->has_name = true;
		return set_text(r, &r->name, value, n);
	}
	if (is_key(key, key_len, "linkpath")) {
		x->has_link = true;
		return set_text(r, &r->link, value, n);
	}
	bool is_good = true;
	if (is_key(key, key_len, "size"))
		is_good = x->has_size = get_decimal(value, n, &x->size);
	else if (is_key(key, key_len, "uid"))
		is_good = x->has_uid = get_decimal(value, n, &x->uid);
	else if (is_key(key, key_len, "gid"))
		is_good = x->has_gid = get_decimal(value, n, &x->gid);
	else if (is_key(key, key_len, "mtime"))
		is_good = x->has_mtime = get_time(value, n, &x->mtime_ns);
	else if (key_len > 10 && memcmp(key, "GNU.sparse", 10) == 0)
		return bad(r, "sparse files in archives are not supported");
	return is_good ? 0 : bad(r, "an extended header has a bad number");
}

static int take_records(struct tar_reader *r, struct extension *x)
{
	const char *p = buf_str(&r->extension);
	size_t left = r->extension.len;

	while (left > 0) {
		const char *space = memchr(p, ' ', left < 20 ? left : 20);
		uint64_t len;

		if (!space || !get_decimal(p, (size_t)(space - p), &len) || len > left ||
			len < (size_t)(space - p) + 4 || p[len - 1] != '\n')
			return bad(r, "an extended header is malformed");
		const char *key = space + 1, *end = p + len - 1;
		const char *equals = memchr(key, '=', (size_t)(end - key));
		if (!equals)
			return bad(r, "an extended header is malformed");
		int e = take_record(r, x, key, (size_t)(equals - key), equals + 1,
			(size_t)(end - equals - 1));
		if (e < 0)
			return e;
		p += len;
		left -= len;
	}
	return 0;
}

/* The data of a header that describes the next one. */
static int read_extension(struct tar_reader *r, uint64_t size)
{
	if (size > TAR_MAX_EXTENSION - TAR_BLOCK)
		return bad(r, "an extended header is too long");
	buf_reset(&r->extension);
	int e = buf_reserve(&r->extension, (size_t)size + 1);
	if (e < 0)
		return e;
	e = read_full(r, r->extension.data, (size_t)size);
	if (e < 0)
		return e;
	r->extension.len = (size_t)size;
	r->extension.data[size] = 0;
	return skip(r, padding(size));
}

static int take_gnu_name(struct tar_reader *r, struct buf *b)
{
	size_t n = r->extension.len;

	while (n > 0 && r->extension.data[n - 1] == 0)
		n--;
	return set_text(r, b, r->extension.data, n);
}

static int take_header_name(struct tar_reader *r, const uint8_t *h)
{
	bool is_ustar = memcmp(h + 257, "ustar", 6) == 0;

	buf_reset(&r->name);
	int e = 0;
	if (is_ustar && h[345]) {
		e = buf_add(&r->name, h + 345, strnlen((const char *)h + 345, 155));
		if (e == 0)
			e = buf_addc(&r->name, '/');
	}
	return e < 0 ? e : buf_add(&r->name, h, strnlen((const char *)h, 100));
}

static int fill_entry(struct tar_reader *r, const uint8_t *h, const struct extension *x,
	struct tar_entry *e)
{
	int64_t mode, uid, gid, size, mtime;
	int err = 0;

	if (!get_number(h + 100, 8, &mode) || !get_number(h + 108, 8, &uid) ||
		!get_number(h + 116, 8, &gid) || !get_number(h + 124, 12, &size) ||
		!get_number(h + 136, 12, &mtime) || size < 0)
		return bad(r, "a header has a bad number");
	if (!x->has_name)
		err = take_header_name(r, h);
	if (err == 0 && !x->has_link)
		err = set_text(r, &r->link, h + 157, strnlen((const char *)h + 157, 100));
	if (err < 0)
		return err;

	char type = (char)h[156];
	if (type == '\0' || type == '7')
		type = TAR_FILE;
	size_t n = r->name.len;
	if (type == TAR_FILE && n > 0 && r->name.data[n - 1] == '/')
		type = TAR_DIRECTORY;
	while (n > 1 && r->name.data[n - 1] == '/')
		n--;
	r->name.len = n;
	if (r->name.data)
		r->name.data[n] = 0;

	*e = (struct tar_entry){
		.type = type,
		.name = buf_str(&r->name),
		.link = buf_str(&r->link),
		.size = x->has_size ? x->size : (uint64_t)size,
		.mode = (uint32_t)mode & 07777,
		.uid = x->has_uid ? x->uid : (uint64_t)uid,
		.gid = x->has_gid ? x->gid : (uint64_t)gid,
	};
	if (x->has_mtime)
		e->mtime_ns = x->mtime_ns;
	else if (mtime < INT64_MAX / NS_PER_S && mtime > INT64_MIN / NS_PER_S)
		e->mtime_ns = mtime * NS_PER_S;
	/* Links and directories have no data, whatever some writers put in the field; a directory
	 * that calls itself a file may. */
	r->left = h[156] >= TAR_HARDLINK && h[156] <= TAR_FIFO ? 0 : e->size;
	r->pad = padding(r->left);
	if (type != TAR_FILE)
		e->size = 0;
	return 1;
}

int tar_read_entry(struct tar_reader *r, struct tar_entry *e)
{
	struct extension x = {0};
	uint8_t h[TAR_BLOCK];
	int64_t size;

	r->why = NULL;
	if (r->is_ended)
		return 0;
	int err = skip(r, r->left);
	if (err == 0)
		err = skip(r, r->pad);
	r->left = r->pad = 0;
	while (err == 0) {
		err = read_full(r, h, sizeof h);
		if (err < 0)
			break;
		if (is_zero(h)) {
			r->is_ended = true;
			return 0;
		}
		if (!is_checksum_right(h))
			return bad(r, "a header's checksum is wrong");
		if (!get_number(h + 124, 12, &size) || size < 0)
			return bad(r, "a header has a bad number");
		switch (h[156]) {
		case 'x':
			err = read_extension(r, (uint64_t)size);
			if (err == 0)
				err = take_records(r, &x);
			break;
		case 'L':
		case 'K':
			err = read_extension(r, (uint64_t)size);
			if (err == 0)
				err = take_gnu_name(r, h[156] == 'L' ? &r->name : &r->link);
			*(h[156] == 'L' ? &x.has_name : &x.has_link) = true;
			break;
		case 'g':
		case 'V':
			err = skip(r, (uint64_t)size + padding((uint64_t)size));
			break;
		case 'S':
			return bad(r, "sparse files in archives are not supported");
		default:
			return fill_entry(r, h, &x, e);
		}
	}
	return err;
}

ssize_t tar_read_data(struct tar_reader *r, void *p, size_t n)
{
	if (n > r->left)
		n = (size_t)r->left;
	if (n == 0)
		return 0;
	ssize_t got;
	do {
		got = r->fn(p, n, r->user);
	} while (got == -EINTR);
	if (got == 0)
		return bad(r, "the archive is cut short");
	if (got > 0)
		r->left -= (uint64_t)got;
	return got;
}

void tar_reader_done(struct tar_reader *r)
{
	buf_done(&r->name);
	buf_done(&r->link);
	buf_done(&r->extension);
}
