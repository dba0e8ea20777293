/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.h: the host's end of a connection to a guest. Knows frames and streams, nothing of cells.
 *
 * Non-blocking inside; link_pump() is the one place that waits. Each stream has a small inbox
 * bounded by its window. Not thread-safe.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "wire/wire.h"

struct link;
struct link_stream;

/* Takes the fd over, also on failure. Says hello and waits up to timeout_ms for the guest's; with 0
 * it does not wait: the first call will. */
int link_open(int fd, int timeout_ms, struct link **ret, struct cell_error *err);
void link_free(struct link *l);

int link_fd(const struct link *l);
short link_events(const struct link *l); /* POLLIN, and POLLOUT when bytes wait to leave */
const char *link_boot_id(const struct link *l);

/* Open a stream with a request. `fields` is a field list. */
int link_request(struct link *l, uint16_t op, const struct buf *fields, struct link_stream **ret,
	struct cell_error *err);
/* Cancel if it has not ended, and free. Takes NULL. */
void link_stream_free(struct link_stream *s);

enum link_event_type {
	LINK_NONE = 0, /* nothing in time */
	LINK_REPLY,    /* fields */
	LINK_DATA,     /* bytes of a channel */
	LINK_ROOM,     /* the peer acknowledged: link_send may take more */
	LINK_END,      /* fields; the last */
};
struct link_event {
	enum link_event_type type;
	uint8_t chan;
	uint64_t offset;
	const uint8_t *p; /* valid until the next call on this link */
	size_t len;
};
/* The next event of this stream, waiting up to timeout_ms (-1: forever) and serving all other
 * streams meanwhile. Taking DATA acknowledges it. -EPIPE with CELL_EGONE when the guest is gone. */
int link_next(struct link_stream *s, int timeout_ms, struct link_event *ret,
	struct cell_error *err);

/* Is there something for it that was read while another stream was asked? Then the descriptor does not tell. */
bool link_has_news(const struct link_stream *s);

/* Move what there is, without waiting and for no stream in particular: an idle link notices that its guest is gone. */
int link_idle(struct link *l, struct cell_error *err);

/* Send bytes on WIRE_CHAN_IN; returns how many the window took (waits up to timeout_ms for room for
 * at least one). 0 when the stream has ended meanwhile or nothing fitted in time. */
ssize_t link_send(struct link_stream *s, const void *p, size_t n, int timeout_ms,
	struct cell_error *err);
int link_send_eof(struct link_stream *s, struct cell_error *err);
int link_control(struct link_stream *s, uint16_t op, const struct buf *fields,
	struct cell_error *err);
/* Where the peer's stdin goes on, after an attach. */
void link_set_send_offset(struct link_stream *s, uint64_t offset);

/* Turn an END's fields into an error when CODE is not 0; 0 otherwise. */
int link_end_error(const struct link_event *end, struct cell_error *err);

/* A request answered by END alone: waits for it; *ret_end (may be NULL) gets a copy of its fields.
 */
int link_call(struct link *l, uint16_t op, const struct buf *fields, struct buf *ret_end,
	struct cell_error *err);
