/* SPDX-License-Identifier: Apache-2.0 */
/* run_record.h: where the records of a run's output (wire.h) begin and end, and words for what they are. Pure: no I/O, and nothing is
 * trusted. core/code_event.h makes events of them. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/code.h"

#include "wire/wire.h"

#define RUN_ENDING_MAX 4096 /* bytes of a DONE's payload */

/* Where records begin and end, without keeping them; and the payload of the last DONE, which is small. */
struct run_splitter {
	uint8_t head[WIRE_RUN_HEADER];
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
