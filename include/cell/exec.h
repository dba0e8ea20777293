/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exec.h: running commands in a cell.
 *
 * Two ways. cell_run() collects everything and returns a result. cell_exec_start() gives a handle
 * whose events are taken one at a time with cell_exec_next(), which blocks, or polls when its
 * timeout is 0; cell_poll_fd() of the cell says when there may be something to take.
 */
#ifndef CELL_EXEC_H
#define CELL_EXEC_H

#include <cell/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct cell;
struct cell_exec;

#define CELL_EXEC_ID_MAX    64	/* bytes, with the NUL */
#define CELL_EXEC_LABEL_MAX 128 /* likewise */

enum cell_exec_flags {
	CELL_EXEC_STDIN = 1 << 0,   /* the command reads what cell_exec_write() sends; otherwise
				      its stdin is empty */
	CELL_EXEC_TTY = 1 << 1,	    /* in a terminal; implies STDIN, stderr comes as stdout */
	CELL_EXEC_MERGE = 1 << 2,   /* stderr into stdout, in the order written */
	CELL_EXEC_DETACH = 1 << 3,  /* goes on without a client; output is kept */
	CELL_EXEC_SOLE = 1 << 4,    /* an ephemeral cell made for this command alone: its deadline
				      is the cell's. What is not over then, for whatever reason,
				      is ended from outside, and the cell with it */
	CELL_EXEC_DURABLE = 1 << 5, /* what no holding reader has taken is never dropped: with
				       keep_bytes of it waiting, the command waits */
};

/* Zeroed means default. Pointers are borrowed for the call. */
struct cell_exec_opts {
	const char *const *argv; /* NULL-terminated; or */
	const char *shell;	 /* a command line for /bin/sh -c */
	const char *id;		 /* the caller's own id for it (1 to 63 of A-Za-z0-9._-, the first a
				    letter or digit); a second start with the same id is
				    CELL_EEXISTS, so a retry never runs twice */
	const char *cwd;	 /* relative to the workspace, or absolute in the cell */
	const char *const *env;	 /* "K=V" over the cell's own, NULL-terminated */
	const char *user;	 /* name or uid[:gid] in the cell */
	uint32_t flags;		 /* enum cell_exec_flags */
	uint16_t rows, cols;	 /* of the terminal */
	uint64_t timeout_ms;	 /* 0: the spec's; TERM, grace_ms, then KILL of every descendant */
	uint64_t grace_ms;	 /* 0: 2 s, with CELL_EXEC_SOLE half a second */
	uint64_t keep_bytes;	 /* output kept for later readers, per stream; 0: default: 16 MiB
					in a named cell; in an ephemeral one 256 KiB, and
					nothing that a reader has already taken */
	size_t max_output;	 /* cell_run: bytes collected per stream; 0: 1 MiB */
	bool no_wait;		 /* cell_exec_start: do not wait for the guest's word that it runs;
				    a failure to start comes from cell_exec_next */
	const char *label;	 /* kept with the command and shown by cell_ps(): whose it is, which
				    request began it; printable ASCII, need not be unique */
};

struct cell_usage {
	uint64_t cpu_ns;	/* user and system, of the command and what it waited for */
	uint64_t max_rss_bytes; /* largest process */
	uint64_t wall_ns;
};

/* How a command ended. */
struct cell_exit {
	int exit_code; /* 0..255 as a shell would say it: 124 timed out, 126 not executable,
			  127 not found, 128+n killed by signal n */
	int signal;    /* 0, or what killed it */
	bool timed_out;
	bool oom;
	struct cell_usage usage;
};

struct cell_result {
	char id[CELL_EXEC_ID_MAX];
	struct cell_exit exit;
	char *out, *err; /* collected, NUL-terminated behind their length */
	size_t out_len, err_len;
	uint64_t out_bytes, err_bytes; /* written by the command in all */
	bool truncated;		       /* more was written than was collected */
};

/* Run to the end and collect. `input` (may be NULL) is its stdin. 0 even when the command fails:
 * a non-zero exit is a result. Free with cell_result_done(), also after an error. */
int cell_run(struct cell *c, const struct cell_exec_opts *opts, const void *input, size_t input_len,
	struct cell_result *ret, struct cell_error *err);
void cell_result_done(struct cell_result *r);

/* Start. The handle belongs to the caller until cell_exec_free(). */
int cell_exec_start(struct cell *c, const struct cell_exec_opts *opts, struct cell_exec **ret,
	struct cell_error *err);

/* Attach to a command started before, by this client or another, reading from the given offsets. An
 * offset older than what is kept starts at the oldest byte kept (an event of type GAP says so).
 * hold: a slow reader holds the command back instead of missing output. follow: false stops at
 * what is there now. */
struct cell_attach_opts {
	uint64_t out_offset, err_offset;
	bool hold;
	bool no_follow;
	bool with_stdin; /* take over writing stdin */
	bool no_wait;	 /* do not wait for the guest's answer; failure comes from cell_exec_next */
};
int cell_exec_attach(struct cell *c, const char *id, const struct cell_attach_opts *opts,
	struct cell_exec **ret, struct cell_error *err);

enum cell_event_type {
	CELL_EVENT_NONE = 0, /* nothing within the time given */
	CELL_EVENT_STDOUT,
	CELL_EVENT_STDERR,
	CELL_EVENT_GAP,	 /* bytes before `offset` of stream `stream` are no longer kept */
	CELL_EVENT_EXIT, /* exit is filled; further output of descendants may follow on attach */
	CELL_EVENT_END,	 /* attach without follow: everything there was has been given */
};

struct cell_event {
	enum cell_event_type type;
	int stream;	     /* 1 stdout, 2 stderr */
	const uint8_t *data; /* valid until the next call on this cell */
	size_t len;
	uint64_t offset; /* of data[0] in its stream */
	struct cell_exit exit;
};

/* The next event. timeout_ms: -1 waits, 0 polls. 0 with NONE when nothing came in time. After EXIT
 * or END the stream is over: further calls give NONE. A guest that should long have ended a command with a
 * deadline, and says nothing, is given up: CELL_ETIMEOUT. */
int cell_exec_next(struct cell_exec *x, int timeout_ms, struct cell_event *ret,
	struct cell_error *err);
/* For an event loop: call cell_exec_next() after this many milliseconds even when nothing arrives, so
 * that a deadline is kept when the guest does not; -1: no need. */
int cell_exec_patience_ms(const struct cell_exec *x);

/* Does it have events that were read while another of its cell was asked? The descriptor tells of those no more: ask before waiting for
 * it. */
bool cell_exec_has_news(const struct cell_exec *x);

/* Queue bytes for stdin. Blocks (pumping the connection) while the command does not read; with
 * timeout_ms 0 takes what fits and returns how much. */
ssize_t cell_exec_write(struct cell_exec *x, const void *p, size_t n, int timeout_ms,
	struct cell_error *err);
int cell_exec_close_stdin(struct cell_exec *x, struct cell_error *err);
int cell_exec_resize(struct cell_exec *x, uint16_t rows, uint16_t cols, struct cell_error *err);
/* To the command's process group. */
int cell_exec_signal(struct cell_exec *x, int signal, struct cell_error *err);
/* SIGKILL for it and every descendant. Like cell_exec_signal it does not wait for the guest. */
int cell_exec_kill(struct cell_exec *x, struct cell_error *err);
const char *cell_exec_id(const struct cell_exec *x);
/* Let go of the handle, before its cell is closed. The command goes on; its output is kept as far as its keep_bytes reach. */
void cell_exec_free(struct cell_exec *x);

/* By id, without a handle. tree: every descendant; otherwise its process group. */
int cell_signal(struct cell *c, const char *id, int signal, bool tree, struct cell_error *err);

enum cell_exec_state {
	CELL_EXEC_RUNNING = 1,
	CELL_EXEC_EXITED = 2,	 /* and nothing of it is left */
	CELL_EXEC_LINGERING = 3, /* the command exited, descendants run on */
};

/* One line of `ps`. Strings are valid during the callback. */
struct cell_exec_info {
	const char *id;
	const char *command; /* as started, joined for display, cut at 200 bytes */
	enum cell_exec_state state;
	int64_t pid; /* as the guest sees it */
	bool is_tty;
	bool is_code; /* a run of code: its stdout is a stream of events; cell_code_look() */
	uint64_t started_unix_ms;
	struct cell_exit exit;		 /* when not RUNNING */
	uint64_t out_bytes, err_bytes;	 /* written so far */
	uint64_t out_oldest, err_oldest; /* oldest offset still kept */
	const char *label;		 /* "" without one */
};
typedef int (*cell_exec_info_fn)(const struct cell_exec_info *info, void *user);
/* Calls fn for each; a non-zero return stops and is returned. */
int cell_ps(struct cell *c, cell_exec_info_fn fn, void *user, struct cell_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
