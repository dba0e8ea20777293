/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stream.h: the bytes of a file that may be compressed (gzip, zstd), with the digest of what was
 * read and of what came out. What is in the bytes is others' business.
 */
#pragma once
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "core/image/digest.h"

struct stream;

/* fd is borrowed and read from where it is. At most max_bytes come out (CELL_ELIMIT): what a few
 * bytes can be blown up to has no bound of its own. */
int stream_open(struct stream **ret, int fd, uint64_t max_bytes, struct cell_error *err);
void stream_free(struct stream *s);

/* As tar_read_fn; user is the stream. -EBADMSG: the compressed data is damaged; -EFBIG: too much. */
ssize_t stream_read(void *p, size_t n, void *user);
/* After an error of stream_read: say what it was. Returns r. */
int stream_fail(const struct stream *s, int r, struct cell_error *err);

/* Read what is left, both sides to their end, then the two digests. */
int stream_finish(struct stream *s, char packed[DIGEST_HEX + 1], char plain[DIGEST_HEX + 1],
	struct cell_error *err);
uint64_t stream_bytes(const struct stream *s); /* that came out so far */
