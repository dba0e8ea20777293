/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.h: durable commands. A command's output goes from the guest to its spool file, and from there to whoever reads, from any
 * offset. The guest keeps what was not spooled yet, so a killed server loses nothing: the next one goes on where the file ends.
 *
 *	running    in memory, in its seat and its session's list
 *	ended      only its spool file is left, opened when somebody asks
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cell/cell.h"
#include "cell/exec.h"

#include "base/error.h"
#include "server/spool.h"

struct call;
struct cell_code_opts;
struct run_splitter;
struct seat;
struct server;
struct session;

struct exec;
/* Told when there may be more to read, or the end. It may remove itself. */
struct exec_reader {
	struct spool_cursor at;
	void (*wake)(struct exec_reader *r);
	void *arg;
	struct exec_reader *next, *prev;
	struct exec *exec;
	bool is_holding; /* the command waits for it */
};

struct exec {
	char id[CELL_EXEC_ID_MAX];
	struct server *srv;
	struct session *session; /* a reference */
	struct seat *seat;	 /* while it runs */
	struct cell_exec *x;
	struct spool *spool;
	json_t *meta; /* what was asked for: the head of its spool */
	json_t *end;  /* how it ended; NULL while it runs */
	struct exec_reader *readers;
	unsigned refs;
	/* stdin that the guest has not taken yet */
	uint8_t *in;
	size_t in_len, in_at;
	uint64_t in_total;	      /* given to us so far */
	struct spool_cursor expected; /* where such a reader will begin */
	int64_t expect_until_ns; /* a reader that holds is expected until then: nothing is dropped meanwhile */
	bool is_adopted; /* from a server before us, and how much that one was given is not known */
	bool in_eof;
	void (*room)(struct exec *e, void *arg); /* all of it was taken */
	void *room_arg;
	/* output that the disk would not take */
	uint8_t *held;
	size_t held_len;
	int held_stream;
	uint64_t held_offset;
	struct run_splitter *split; /* a run of code: where its records begin; NULL: a command */
	bool owns_seat;		    /* an ephemeral session's: the cell ends with it */
	struct exec *next, *prev;   /* of the session */
	struct exec *seat_next, *seat_prev; /* of the seat */
};

struct exec_order {
	const char *id;
	struct cell_exec_opts opts;	   /* id, flags' durable and no_wait are set here */
	const struct cell_code_opts *code; /* instead: a run of code; meta has "kind": "run" */
	json_t *meta;			   /* borrowed */
};

/* Make its spool, then start it in the seat. A reference for the caller. CELL_EEXISTS when there is a spool of that id. */
int exec_start(struct session *s, struct seat *seat, const struct exec_order *order,
	struct exec **ret, struct cell_error *err);
/* A spool that has no end yet, found at start: go on where it stands. */
int exec_adopt(struct session *s, struct seat *seat, const char *id, struct cell_error *err);
/* Running or ended, by id. A reference for the caller. CELL_ENOTFOUND. */
int exec_find(struct session *s, const char *id, struct exec **ret, struct cell_error *err);
void exec_ref(struct exec *e);
void exec_unref(struct exec *e); /* takes NULL */

/* The cell that a command of an ephemeral session has to itself; -ENOENT: it names none. */
int exec_cell(struct session *s, const char *id, char ret[CELL_NAME_MAX]);
/* Taken over from the last server, and the cell has not said yet whether it knows it. */
bool exec_is_unsure(const struct exec *e);
/* It never began: the last server died before it handed it over. Such a command may be started again. */
bool exec_never_began(const struct exec *e);
/* Forget a command that has ended. */
void exec_forget(struct exec *e);
/* Look after commands whose guest should have ended them long ago and says nothing. */
void exec_check_deadlines(struct session *s);

void exec_reader_add(struct exec *e, struct exec_reader *r);
void exec_reader_remove(struct exec_reader *r);
/* A reader that holds will come, or come back. */
void exec_expect_reader(struct exec *e);
/* Does a reader that holds lag so far behind that nothing more is to be taken from the guest? */
bool exec_is_held(const struct exec *e);

/* Copies what the guest does not take at once; false: wait for room (e->room). At most 1 MiB at a time. */
bool exec_write(struct exec *e, const void *p, size_t n, struct cell_error *err);
int exec_close_stdin(struct exec *e, struct cell_error *err);

/* For the seat. True: there may be more at once. */
bool exec_pump(struct exec *e);
void exec_feed(struct exec *e);
/* It ended without a word of its own: why is its end. */
void exec_lose(struct exec *e, const struct cell_error *why);
/* Try again what the disk would not take; false: it still does not. */
bool exec_retry(struct exec *e);

/* {id, session, state, command, started_at, exit_code, ...}: a new reference. */
json_t *exec_json(struct exec *e);
/* Code, not a command: its output are the records of core/run_record.h. */
bool exec_is_run(const struct exec *e);
/* The directory of a session's spools; made when missing. */
int exec_directory(struct server *srv, const char *session_id, bool is_made,
	struct cell_error *err);
