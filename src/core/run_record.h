/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_record.h: what a run of code gives, as bytes. Its output is one stream of records (docs/protocol.md):
 *
 *	u8 type (enum cell_code_event_type), u8 flags, u16 0, u32 length (little endian), payload
 *
 * stdout and stderr carry raw bytes, everything else JSON text; a long event is several records. Pure: no I/O, and nothing is trusted.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "cell/code.h"

#include "base/buf.h"

#define RUN_HEAD	8
#define RUN_PAYLOAD_MAX (64u << 20)
#define RUN_FLAG_LATE	1
#define RUN_FLAG_MORE	2    /* the event goes on in the next record */
#define RUN_FLAG_REST	4    /* and began in the one before */
#define RUN_ENDING_MAX	4096 /* bytes of a DONE's payload */
#define RUN_DECODER_INIT                             \
	{                                            \
		.payload = BUF_INIT(RUN_PAYLOAD_MAX) \
	}

/* Events out of pieces that are cut anywhere. */
struct run_decoder {
	uint8_t head[RUN_HEAD];
	size_t n_head;
	uint32_t left; /* of the record's payload */
	struct buf payload;
	bool is_inside;	  /* an event has begun */
	bool is_skipping; /* the rest of one whose beginning is not there */
	bool is_given;	  /* the event of the last call is still in payload */
};
void run_decoder_done(struct run_decoder *d);
/* Something is missing: forget what was begun. */
void run_decoder_reset(struct run_decoder *d);
/* Takes bytes up to the end of one event: how many of the n. ret->type is CELL_CODE_NONE while it is not complete. What ret
 * points to is valid until the next call. -EBADMSG: that is no record. */
ssize_t run_decoder_feed(struct run_decoder *d, const void *p, size_t n,
	struct cell_code_event *ret);

/* Where records begin and end, without keeping them; and the payload of the last DONE, which is small. */
struct run_splitter {
	uint8_t head[RUN_HEAD];
	size_t n_head;
	uint64_t left; /* of the payload */
	char ending[RUN_ENDING_MAX];
	size_t n_ending;
};
/* Inside of a record? */
bool run_splitter_is_inside(const struct run_splitter *s);
/* Bytes up to the end of the record it is in, at most n; 0 when it is in none. */
size_t run_splitter_rest(const struct run_splitter *s, const void *p, size_t n);
/* Goes over all n bytes. -EBADMSG: those are no records. */
int run_splitter_feed(struct run_splitter *s, const void *p, size_t n);

/* "stdout", "display" ...; "" for none. */
const char *run_event_name(enum cell_code_event_type type);
enum cell_code_event_type run_event_type(const char *name);
const char *run_state_name(enum cell_code_state state);

/* The payload of a DONE and back. What is missing is zero; *ret is_ok is false then. */
void run_done_read(const json_t *o, struct cell_code_done *ret);
json_t *run_done_json(const struct cell_code_done *d);
