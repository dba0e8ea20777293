/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_gather.h: the events of a run as one result: what it wrote, what it showed, the value of its last expression, its error. Bounded:
 * what does not fit is counted and left out.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"
#include "core/run_record.h"

#define RUN_RESULTS_MAX (64u << 20) /* bytes of what is shown that are kept */

struct run_gather {
	struct buf out, err;
	uint64_t out_bytes, err_bytes;
	uint64_t shown_bytes;
	bool is_truncated;
	bool is_clearing; /* with the next output, what there is is forgotten */
	bool has_done;
	json_t *results; /* [{"type": "display" or "result", "data", "metadata"}] */
	json_t *error;	 /* {"name", "message", "traceback"} */
	json_t *answer;
	struct cell_code_done done;
};

/* max_output: bytes kept of stdout and of stderr. */
int run_gather_init(struct run_gather *g, size_t max_output);
void run_gather_done(struct run_gather *g);
/* 0, or -ENOMEM. */
int run_gather_add(struct run_gather *g, const struct cell_code_event *e);

/* Borrowed: the text of the last expression's value; NULL: none. */
const char *run_gather_value(const struct run_gather *g);
/* {value, error, results, truncated, stdout_bytes, stderr_bytes} and what DONE says. The texts of stdout and stderr are for the caller
 * to add: bytes that are no UTF-8 have different forms in different places. */
json_t *run_gather_json(const struct run_gather *g);

/* A MIME type's text in a bundle: a string, or a list of lines as in notebooks. *ret_own (to be freed) when it was put together. */
const char *run_bundle_text(const json_t *data, const char *mime, char **ret_own);
