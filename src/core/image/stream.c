/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: see stream.h. */
#include "core/image/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define CHUNK		 65536
#define ZSTD_WINDOW_LOG	 27 /* 128 MiB: what zstd itself takes without being asked for more */
#define GZIP_WINDOW_BITS (15 + 16)

enum kind {
	PLAIN,
	GZIP,
	ZSTD,
};

struct stream {
	int fd;
	enum kind kind;
	uint64_t left, out;
	uint8_t buf[CHUNK];
	size_t at, len; /* of buf, not yet used */
	bool is_input_done, is_inside, has_ended;
	z_stream gz;
	ZSTD_DStream *zs;
	struct digest packed, plain;
	const char *why;
};

static int fill(struct stream *s)
{
	ssize_t n;

	do {
		n = read(s->fd, s->buf, sizeof s->buf);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	digest_add(&s->packed, s->buf, (size_t)n);
	s->at = 0;
	s->len = (size_t)n;
	s->is_input_done = n == 0;
	return 0;
}

static int choose_kind(struct stream *s, struct cell_error *err)
{
	static const uint8_t gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
	static const struct {
		const char *magic, *name;
	} others[] = {{"BZh", "bzip2"},
		{"\xfd"
		 "7zXZ",
			"xz"},
		{"PK\3\4", "zip"}};

	if (s->len >= sizeof gzip && memcmp(s->buf, gzip, sizeof gzip) == 0) {
		s->kind = GZIP;
		return inflateInit2(&s->gz, GZIP_WINDOW_BITS) == Z_OK ? 0 : -ENOMEM;
	}
	if (s->len >= sizeof zstd && memcmp(s->buf, zstd, sizeof zstd) == 0) {
		s->kind = ZSTD;
		s->zs = ZSTD_createDStream();
		if (!s->zs)
			return -ENOMEM;
		(void)ZSTD_DCtx_setParameter(s->zs, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
		return 0;
	}
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		size_t n = strlen(others[i].magic);
		if (s->len >= n && memcmp(s->buf, others[i].magic, n) == 0) {
			int r = cell_fail(err, CELL_ENOTSUP, 0, "read an archive: it is %s",
				others[i].name);
			return cell_error_hint(err, r, "repack it as tar, tar.gz or tar.zst");
		}
	}
	return 0;
}

int stream_open(struct stream **ret, int fd, uint64_t max_bytes, struct cell_error *err)
{
	struct stream *s = calloc(1, sizeof *s);

	if (!s)
		return cell_fail_errno(err, ENOMEM, "read an archive");
	s->fd = fd;
	s->left = max_bytes;
	digest_init(&s->packed);
	digest_init(&s->plain);
	int r = fill(s);
	if (r < 0)
		r = cell_fail_errno(err, -r, "read an archive");
	else if ((r = choose_kind(s, err)) == -ENOMEM)
		r = cell_fail_errno(err, ENOMEM, "read an archive");
	if (r < 0) {
		stream_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void stream_free(struct stream *s)
{
	if (!s)
		return;
	if (s->kind == GZIP)
		(void)inflateEnd(&s->gz);
	(void)ZSTD_freeDStream(s->zs);
	free(s);
}

static ssize_t bad(struct stream *s, const char *why)
{
	s->why = why;
	return -EBADMSG;
}

/* Some bytes out, or 0 when more input is needed first or a member ended. */
static ssize_t step_gzip(struct stream *s, void *p, size_t n)
{
	if (s->has_ended && inflateReset(&s->gz) != Z_OK)
		return bad(s, "the gzip data is damaged");
	s->has_ended = false;
	s->is_inside = true;
	s->gz.next_in = s->buf + s->at;
	s->gz.avail_in = (uInt)s->len;
	s->gz.next_out = p;
	s->gz.avail_out = (uInt)n;
	int z = inflate(&s->gz, Z_NO_FLUSH);
	s->at += s->len - s->gz.avail_in;
	s->len = s->gz.avail_in;
	if (z == Z_STREAM_END) {
		s->is_inside = false;
		s->has_ended = true; /* another member may follow */
	}
	if (z == Z_MEM_ERROR)
		return -ENOMEM;
	if (z != Z_OK && z != Z_BUF_ERROR && z != Z_STREAM_END)
		return bad(s, "the gzip data is damaged");
	return (ssize_t)(n - s->gz.avail_out);
}

static ssize_t step_zstd(struct stream *s, void *p, size_t n)
{
	ZSTD_inBuffer in = {s->buf + s->at, s->len, 0};
	ZSTD_outBuffer out = {p, n, 0};

	size_t z = ZSTD_decompressStream(s->zs, &out, &in);
	if (ZSTD_isError(z))
		return bad(s, "the zstd data is damaged or asks for too large a window");
	s->at += in.pos;
	s->len -= in.pos;
	s->is_inside = z != 0;
	return (ssize_t)out.pos;
}

static ssize_t step_plain(struct stream *s, void *p, size_t n)
{
	n = n < s->len ? n : s->len;
	memcpy(p, s->buf + s->at, n);
	s->at += n;
	s->len -= n;
	return (ssize_t)n;
}

ssize_t stream_read(void *p, size_t n, void *user)
{
	struct stream *s = user;
	ssize_t got = 0;

	if (n > CHUNK * 16)
		n = CHUNK * 16;
	while (got == 0 && n > 0) {
		if (s->len == 0 && !s->is_input_done) {
			int r = fill(s);
			if (r < 0)
				return r;
		}
		bool is_last = s->len == 0 && s->is_input_done;
		if (is_last && !s->is_inside)
			break;
		got = s->kind == GZIP	? step_gzip(s, p, n)
		      : s->kind == ZSTD ? step_zstd(s, p, n)
					: step_plain(s, p, n);
		if (got < 0)
			return got;
		if (got == 0 && is_last && s->is_inside)
			return bad(s, "the compressed data is cut short");
	}
	if ((uint64_t)got > s->left) {
		s->why = "it unpacks to more than is allowed";
		return -EFBIG;
	}
	s->left -= (uint64_t)got;
	s->out += (uint64_t)got;
	digest_add(&s->plain, p, (size_t)got);
	return got;
}

int stream_fail(const struct stream *s, int r, struct cell_error *err)
{
	if (r == -EFBIG)
		return cell_fail(err, CELL_ELIMIT, 0, "read an archive: %s", s->why);
	if (s->why)
		return cell_fail(err, CELL_EINVAL, 0, "read an archive: %s", s->why);
	return cell_fail_errno(err, -r, "read an archive");
}

int stream_finish(struct stream *s, char packed[DIGEST_HEX + 1], char plain[DIGEST_HEX + 1],
	struct cell_error *err)
{
	char waste[16384];
	ssize_t n;

	do {
		n = stream_read(waste, sizeof waste, s);
	} while (n > 0);
	if (n < 0)
		return stream_fail(s, (int)n, err);
	digest_hex(&s->packed, packed);
	digest_hex(&s->plain, plain);
	return 0;
}

uint64_t stream_bytes(const struct stream *s)
{
	return s->out;
}
