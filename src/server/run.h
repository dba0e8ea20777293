/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run.h: runs of code. A run is a durable command (exec.h) whose stdout is a stream of records: what is there is read as events, from any
 * offset that an event ended at.
 */
#pragma once
#include <jansson.h>

#include "cell/code.h"

#include "base/error.h"
#include "core/code_event.h"
#include "server/spool.h"

struct exec;

enum run_news {
	RUN_NOTHING, /* nothing more yet */
	RUN_EVENT,
	RUN_GAP, /* events before `next` are not kept */
	RUN_END,
};

struct run_reader {
	struct code_reader records;
	uint8_t *piece;	 /* what `records` looks at */
	uint64_t from;	 /* events that end before are not wanted */
	bool is_aligned; /* what was given to `records` began with a record */
};

struct run_item {
	enum run_news news;
	struct cell_code_event event; /* until the next call */
	uint64_t next;		      /* where the event after it begins */
};

/* -ENOMEM. c is set to begin there. */
int run_reader_init(struct run_reader *r, uint64_t from, struct spool_cursor *c);
void run_reader_done(struct run_reader *r);
/* The next one for this reader; the DONE of the guest is left out, since how it ended is told by its end. -EIO, -EPROTO. */
int run_reader_next(struct run_reader *r, struct spool *s, struct spool_cursor *c,
	struct run_item *ret);

/* A line for the code that waits for one. CELL_EINVAL when it is more than one. */
int run_answer(struct exec *e, const char *line, struct cell_error *err);

/* One event for a client, with a "type"; a new reference. */
json_t *run_item_json(struct exec *e, const struct run_item *item, const char **ret_type);
/* {id, session, status, language, context, code, started_at ...}; a new reference. */
json_t *run_json(struct exec *e);
/* All of it: what run_json() says, value, stdout, stderr, error, results. Of one that has ended. */
json_t *run_result_json(struct exec *e, uint64_t max_output);
