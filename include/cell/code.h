/* SPDX-License-Identifier: Apache-2.0 */
/*
 * code.h: code that remembers. A *context* is an interpreter in the cell that keeps its variables from one
 * run to the next; a *run* is one piece of code given to it. Runs of one context are done one after the
 * other, different contexts work side by side.
 *
 *	struct cell_code_result r;
 *	cell_code(c, &(struct cell_code_opts){.code = "x = 40"}, &r, &err);
 *	cell_code_result_done(&r);
 *	cell_code(c, &(struct cell_code_opts){.code = "x + 2"}, &r, &err);	r.value is "42"
 *
 * An error in the code is a result, not a failure of the call.
 */
#ifndef CELL_CODE_H
#define CELL_CODE_H

#include <cell/error.h>
#include <cell/exec.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct cell;
struct cell_code_run;

#define CELL_CONTEXT_MAX 64 /* bytes of a context's name, with the NUL: A-Za-z0-9._- */

/* What becomes of the context's variables. */
enum cell_code_state {
	CELL_CODE_KEPT = 1, /* as the code left them */
	CELL_CODE_LOST,	    /* the interpreter died or was killed; the next run starts afresh */
	CELL_CODE_ENDED,    /* the code itself asked to end (sys.exit, exit): starts afresh, too */
};

/* Zeroed means default. Pointers are borrowed for the call. */
struct cell_code_opts {
	const char *code;
	size_t code_len; /* 0: code is a string */
	const char *
		language; /* "python" (the default), "javascript", "shell", "sql", or an alias ("py",
				 "js", "node", "bash", "sh", "sqlite"). Of the context, when that is there */
	const char *context; /* NULL: the one named like the language. Made when it is not there */
	const char *id;	     /* the caller's own id of the run, as in struct cell_exec_opts */
	uint64_t
		timeout_ms; /* 0: the context's, then the spec's. Interrupts first; what does not stop
				 within grace_ms is killed, and the state lost */
	uint64_t grace_ms; /* 0: 2 s */
	bool with_input; /* input() is answered with cell_code_answer(); otherwise it is an EOFError */
	bool is_detached; /* cell_code_start: goes on without a client; attach to it by its id */
	bool is_durable; /* as CELL_EXEC_DURABLE: with no reader the code waits when keep_bytes are full;
				 otherwise what has no place is dropped, and counted */
	uint64_t keep_bytes; /* as in struct cell_exec_opts */
	const char *label;   /* likewise: kept with the run and shown by cell_ps() */
	size_t max_output;   /* cell_code: bytes collected of stdout and of stderr; 0: 1 MiB */
};

enum cell_code_event_type {
	CELL_CODE_NONE = 0, /* nothing within the time given */
	CELL_CODE_STDOUT,   /* bytes */
	CELL_CODE_STDERR,
	CELL_CODE_DISPLAY, /* {"data": {MIME: ...}, "metadata": {...}, "id": ..., "update": true} as JSON.
			      Binary MIME types are base64, as in a notebook */
	CELL_CODE_RESULT, /* the value of the last expression: {"data": ..., "metadata": ...} */
	CELL_CODE_ERROR,  /* {"name", "message", "traceback": [lines]} */
	CELL_CODE_INPUT,  /* it waits for a line: {"prompt", "password"}; cell_code_answer() */
	CELL_CODE_CLEAR,  /* forget the output so far: {"wait"} */
	CELL_CODE_ANSWER, /* of a question (cell_context_vars and others): JSON */
	CELL_CODE_DONE,	  /* `done` is filled; the last */
	CELL_CODE_END,	  /* only of a look: that is all so far; the last */
};

struct cell_code_done {
	bool is_ok; /* it ended without an error */
	enum cell_code_state state;
	uint64_t execution_count; /* of its context, from 1; begins anew with a new interpreter */
	double execution_time_ms;
	bool timed_out;	  /* it was interrupted or killed at its deadline */
	bool interrupted; /* by cell_context_interrupt */
	bool restarted; /* the variables of earlier runs were gone: the interpreter had died in between */
	bool oom;
	int signal;		/* 0, or what killed the interpreter */
	int exit_code;		/* of an interpreter that ended */
	uint64_t dropped_bytes; /* of output that nobody was there to read and that had no place */
};

struct cell_code_event {
	enum cell_code_event_type type;
	bool is_late; /* output of something that an earlier run of this context left running */
	const char *
		data; /* valid until the next call on this cell. JSON has a NUL behind it, STDOUT and
			     STDERR have none */
	size_t len;
	struct cell_code_done done;
};

struct cell_code_result {
	char id[CELL_EXEC_ID_MAX];
	char *value; /* text of the last expression's value; NULL: none */
	char *out, *err;
	size_t out_len, err_len;
	uint64_t out_bytes, err_bytes; /* in all */
	bool truncated;
	char *results; /* JSON: a list of what was displayed, and last the result, in order. Never NULL */
	char *error_name, *error_message, *error_traceback; /* NULL without one */
	struct cell_code_done done;
};

/* Run to the end and collect. 0 also when the code fails. Free with cell_code_result_done(), also after an error. */
int cell_code(struct cell *c, const struct cell_code_opts *opts, struct cell_code_result *ret,
	struct cell_error *err);
void cell_code_result_done(struct cell_code_result *r);

/* Start; events are taken one at a time. */
int cell_code_start(struct cell *c, const struct cell_code_opts *opts, struct cell_code_run **ret,
	struct cell_error *err);
/* To a run started before, from this byte of its events on (cell_code_offset()). */
int cell_code_attach(struct cell *c, const char *id, uint64_t offset, struct cell_code_run **ret,
	struct cell_error *err);
/* As attach, but only to see: holds nothing back, answers nothing. Without is_following it ends with what is there. */
int cell_code_look(struct cell *c, const char *id, uint64_t offset, bool is_following,
	struct cell_code_run **ret, struct cell_error *err);
/* The next event. timeout_ms: -1 waits, 0 polls (cell_poll_fd() tells when). After DONE: NONE. */
int cell_code_next(struct cell_code_run *x, int timeout_ms, struct cell_code_event *ret,
	struct cell_error *err);
/* A line for the code that waits for one; NULL: end of file. */
int cell_code_answer(struct cell_code_run *x, const char *line, struct cell_error *err);
/* As cell_context_interrupt(), for the context of this run. Does not wait. */
int cell_code_interrupt(struct cell_code_run *x, struct cell_error *err);
const char *cell_code_id(const struct cell_code_run *x);
/* Of the event to come: a later attach goes on there. */
uint64_t cell_code_offset(const struct cell_code_run *x);
/* Let go. The run goes on. */
void cell_code_free(struct cell_code_run *x);

/* ---- contexts ---- */

struct cell_context_opts {
	const char *name;	    /* NULL: one is made up */
	const char *language;	    /* NULL: python */
	const char *interpreter;    /* a program in the cell; NULL: what is found there */
	const char *cwd;	    /* relative to the workspace; NULL: the cell's */
	const char *const *env;	    /* "K=V" over the cell's, NULL-terminated */
	const char *const *preload; /* modules to import at the start, NULL-terminated */
	const char *database;	    /* sql: a file in the workspace; NULL: in memory */
	uint64_t timeout_ms;	    /* default of its runs; 0: the spec's */
};

struct cell_context_info {
	const char *name;
	const char *language;
	const char *version; /* of the interpreter: "3.11.2"; "" when it has not started */
	int64_t pid;	     /* as the guest sees it; 0: not running */
	bool is_busy;
	uint32_t waiting; /* runs in its queue */
	uint64_t execution_count;
	uint64_t started_unix_ms;
	uint64_t rss_bytes;
};

/* Make one, and start its interpreter. ret_name gets its name. CELL_EEXISTS; CELL_ENOTFOUND when the cell has no
 * interpreter of the language: the hint says which there are. */
int cell_context_create(struct cell *c, const struct cell_context_opts *opts,
	char ret_name[CELL_CONTEXT_MAX], struct cell_error *err);
typedef int (*cell_context_fn)(const struct cell_context_info *info, void *user);
/* Calls fn for each; a non-zero return stops and is returned. */
int cell_context_list(struct cell *c, cell_context_fn fn, void *user, struct cell_error *err);
/* Forget all variables: a new interpreter. What runs or waits ends with state LOST. */
int cell_context_reset(struct cell *c, const char *name, struct cell_error *err);
/* KeyboardInterrupt for what runs; what waits in its queue goes on. */
int cell_context_interrupt(struct cell *c, const char *name, struct cell_error *err);
int cell_context_delete(struct cell *c, const char *name, struct cell_error *err);
/* Its variables as JSON: [{"name", "type", "shape", "size", "repr"}]. Caller frees. */
int cell_context_vars(struct cell *c, const char *name, char **ret_json, struct cell_error *err);
/* One by name: {"type", "data": {MIME: ...}, "value": JSON where it can be said in it}. */
int cell_context_get(struct cell *c, const char *name, const char *variable, char **ret_json,
	struct cell_error *err);
int cell_context_set(struct cell *c, const char *name, const char *variable, const char *json,
	struct cell_error *err);
/* What may follow at byte `cursor` of the code: {"matches": [...], "start", "end"}. */
int cell_context_complete(struct cell *c, const char *name, const char *code, size_t cursor,
	char **ret_json, struct cell_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
