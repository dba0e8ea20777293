/* SPDX-License-Identifier: Apache-2.0 */
/* code_flow.h: what the tests of code are written with. */
#pragma once
#include "cell/code.h"

#include "suite.h"

#define auto_code __attribute__((cleanup(cell_code_result_done)))
#define auto_run  __attribute__((cleanup(free_run)))
void free_run(struct cell_code_run **x);

bool has_python(struct cell *c);
/* A cell that has one, or skip. */
struct cell *open_python(const struct suite *s);
struct cell *open_python_named(const struct suite *s, const char *name);

/* Run to the end. */
struct cell_code_result code(struct cell *c, const char *text);
struct cell_code_result code_in(struct cell *c, const char *context, const char *text);
/* The last expression must be this. */
void expect_value(struct cell *c, const char *text, const char *value);

/* A run as a list of events, in short: "o:text|e:text|R|E:Name|D". Texts of one stream that follow each other are one. */
struct flow {
	struct cell_code_run *x;
	char log[4096];
	enum cell_code_event_type last;
	uint64_t bytes[2]; /* of stdout and stderr */
	uint64_t hash;	   /* of stdout */
	uint64_t late_bytes;
	size_t largest; /* event */
	struct cell_code_done done;
	bool is_over;
};
#define auto_flow __attribute__((cleanup(flow_free)))
void flow_start(struct flow *f, struct cell *c, const struct cell_code_opts *o);
/* Take events until one of this type, or the last. */
void flow_until(struct flow *f, enum cell_code_event_type type);
void flow_end(struct flow *f);
void flow_free(struct flow *f);
void note_event(struct flow *f, const struct cell_code_event *ev);

/* Of a context: its pid, -1 when there is none of the name. */
struct wanted {
	const char *name;
	struct cell_context_info info;
	char version[32];
	int found, all;
};
struct wanted context(struct cell *c, const char *name);
