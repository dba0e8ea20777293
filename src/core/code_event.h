/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code_event.h: the events of a run, out of the bytes that came for it. The bytes are a stream of records (wire.h); where
 * they come from, a guest or a spool, is all the same here.
 */
#pragma once
#include "cell/code.h"

#include "base/buf.h"

struct code_reader {
	const uint8_t *p; /* bytes not looked at yet; borrowed */
	size_t n;
	struct buf held; /* the beginning of a record whose rest has not come */
	struct buf
		whole; /* an event put together from several records, or a copy with a NUL behind it */
	unsigned whole_type;
	bool is_whole_open; /* more of it is to come */
	uint64_t at;	    /* offset of p */
	uint64_t next;	    /* where the next event begins: the place to go on from */
	bool is_held_used;  /* the last event points into held */
};

void code_reader_init(struct code_reader *r, uint64_t offset);
void code_reader_done(struct code_reader *r);
/* The next bytes, from this offset on. Only when code_reader_next() wants more; they must stay until then. A gap is
 * allowed if it ends where a record begins. */
void code_reader_feed(struct code_reader *r, const void *p, size_t n, uint64_t offset);
/* 1: an event. 0: more bytes are needed. -EPROTO: these are no records; -ENOMEM. */
int code_reader_next(struct code_reader *r, struct cell_code_event *ret);
