/* SPDX-License-Identifier: Apache-2.0 */
/* file_call.h: how the file functions talk to the guest. Only file*.c look in here. */
#pragma once
#include "cell/file.h"

#include "base/buf.h"
#include "base/error.h"
#include "core/link.h"

/* Fields of a request. Whether they fitted is checked once, by the call that sends them. */
struct file_request {
	struct buf fields;
	int status;
};
#define FILE_REQUEST_INIT                                 \
	{                                                 \
		.fields = BUF_INIT(WIRE_MAX_MESSAGE - 16) \
	}
#define auto_request __attribute__((cleanup(file_request_done)))
void file_request_done(struct file_request *q);
void file_put(struct file_request *q, unsigned tag, const void *p, size_t n);
void file_put_str(struct file_request *q, unsigned tag, const char *s); /* NULL: nothing */
void file_put_u64(struct file_request *q, unsigned tag, uint64_t v);

/* Answered by END alone; its fields in *ret_end (may be NULL). */
int file_call(struct cell *c, uint16_t op, const struct file_request *q, struct buf *ret_end,
	struct cell_error *err);

/* A request with bytes one way. Freeing the stream before its end cancels the operation. */
int file_open(struct cell *c, uint16_t op, const struct file_request *q, struct link_stream **ret,
	struct cell_error *err);
void file_stream_freep(struct link_stream **s);
#define auto_stream __attribute__((cleanup(file_stream_freep)))

/* The next bytes of OUT: 1 and some; 0 at a good END, its fields in *ret_end (may be NULL); 2 when
 * timeout_ms (-1: none) passed; negative errno. The bytes are valid until the next call. */
int file_next(struct link_stream *s, int timeout_ms, const uint8_t **ret, size_t *ret_len,
	struct buf *ret_end, struct cell_error *err);
/* All of OUT to fn. What fn returns when not 0 is returned. */
int file_receive(struct link_stream *s, cell_data_fn fn, void *user, struct buf *ret_end,
	struct cell_error *err);
/* All n bytes to IN. When the operation ended before: its error. */
int file_send(struct link_stream *s, const void *p, size_t n, struct cell_error *err);
/* No more bytes; wait for END. */
int file_finish(struct link_stream *s, struct buf *ret_end, struct cell_error *err);

/* One record of a record stream to fn, whose non-zero return ends it and is returned. Time as in
 * file_next: 0 is returned when it passes. timeout_ms -1: none. */
typedef int (*file_record_fn)(const uint8_t *p, size_t len, void *user, struct cell_error *err);
int file_records(struct link_stream *s, int timeout_ms, file_record_fn fn, void *user,
	struct buf *ret_end, struct cell_error *err);

/* A file's fields, and what to free when done with it. */
struct file_info {
	struct cell_file_info info;
	char *path, *target;
};
/* `path` NULL: it is in the fields. -EPROTO with err when they are not a file's. */
int file_info_get(struct file_info *f, const uint8_t *p, size_t len, const char *path,
	struct cell_error *err);
void file_info_done(struct file_info *f);
