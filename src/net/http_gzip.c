/* SPDX-License-Identifier: Apache-2.0 */
/* http_gzip.c: compresses whole answers. One compressor for the server, on the loop's thread: bodies so
 * large that it would hold the others up are left as they are. */
#include "net/http_internal.h"

#define MAX_BYTES (1024u * 1024)
#define LEVEL	  3

const struct buf *gzip_body(struct http_server *s, const void *p, size_t n)
{
	if (n < GZIP_MIN_BYTES || n > MAX_BYTES)
		return NULL;
	if (!s->has_gzip) {
		/* 15 + 16: the largest window, with gzip's header and not zlib's */
		if (deflateInit2(&s->gzip, LEVEL, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) !=
			Z_OK)
			return NULL;
		s->has_gzip = true;
	}
	size_t bound = deflateBound(&s->gzip, n);
	s->gzipped.max = 2 * MAX_BYTES;
	buf_reset(&s->gzipped);
	if (deflateReset(&s->gzip) != Z_OK || buf_reserve(&s->gzipped, bound) < 0)
		return NULL;
	s->gzip.next_in = (Bytef *)(uintptr_t)p;
	s->gzip.avail_in = (uInt)n;
	s->gzip.next_out = s->gzipped.data;
	s->gzip.avail_out = (uInt)bound;
	if (deflate(&s->gzip, Z_FINISH) != Z_STREAM_END)
		return NULL;
	s->gzipped.len = bound - s->gzip.avail_out;
	return s->gzipped.len + s->gzipped.len / 8 < n ? &s->gzipped : NULL;
}
