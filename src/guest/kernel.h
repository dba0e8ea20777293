/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel.h: interpreters that keep their variables. docs/kernels.md tells the whole story.
 *
 *	stream -> job (a run: no process, its ring holds events) -> kernel's queue
 *	kernel -> host (a job: the interpreter's process under a keeper), its control socket and two pipes
 *
 * A kernel is a context: a name, a language and at most one interpreter. It outlives interpreters. Runs wait in
 * its queue; the first one is the current one. What the interpreter writes becomes events in the ring of
 * the current run, or waits as late output for the next.
 *
 * The guest never trusts a driver: the code it runs can write to the same socket.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cell/code.h"

#include "base/buf.h"
#include "guest/guest.h"
#include "guest/kernel_channel.h"
#include "guest/order.h"
#include "guest/waker.h"

#define KERNEL_MAX	 64 /* contexts in one cell */
#define KERNEL_MAX_QUEUE 64
#define KERNEL_LATE_MAX	 (64u * 1024)
#define KERNEL_START_MS	 60000 /* an interpreter that has not begun by then never will */
#define KERNEL_TX_MAX	 (WIRE_MAX_MESSAGE + (1u << 20))

/* ---- languages ---- */

struct language {
	const char *name;
	const char *const *aliases; /* NULL-terminated */
	const char *const *programs;
	const unsigned char *text, *text_end; /* of the driver */
	const char *const *flags;	      /* between program and boot text */
	const char *boot;		      /* argument that starts the driver */
	const char *needs;		      /* a program that has to be there, too, or NULL */
	const struct language *instead;	      /* what runs it where this one has no program */
	bool may_exec; /* its code may become another program, whose output and end are the run's */
};
/* NULL: no such language. NULL or "" is python. */
const struct language *language_find(const char *name);
/* The program that runs it, in this PATH, and how: l, or what there is instead. NULL and "" when there is none. */
const struct language *language_program(const struct language *l, const char *path, char *ret,
	size_t ret_size);
/* "javascript, shell": those that a program is there for. */
void language_list(const char *path, struct buf *ret);

/* ---- runs ---- */

enum run_kind {
	RUN_CODE,
	RUN_VARS,
	RUN_GET,
	RUN_SET,
	RUN_COMPLETE,
	RUN_KIND_COUNT
};

struct run {
	struct run *next; /* of the queue */
	struct job *job;
	struct kernel *kernel;
	enum run_kind kind;
	struct buf code;
	uint64_t timeout_ms, grace_ms;
	uint64_t begun_ns; /* when it became the current one; 0: it waits */
	uint64_t sent_ns;  /* when the interpreter got it */
	uint64_t cpu_ns;   /* what the interpreter had used by then */
	uint64_t dropped;  /* bytes of output for which there was no room and no reader */
	bool has_input;
	bool is_asking; /* the code waits for a line */
	bool is_interrupted;
	bool is_timed_out;
	bool is_reminded; /* interrupted a second time, halfway through its grace */
	bool is_restarted; /* the interpreter was begun anew for it, because the one before had died */
};

int run_start(struct stream *s, const struct request *rq, struct cell_error *err);
int run_signal(struct job *j, int sig, struct cell_error *err);
pid_t run_leader(const struct job *j);
/* CPU time of the kernel's interpreter until now, without its children; 0: unknown. */
uint64_t run_cpu_ns(const struct kernel *k);
/* There may be room in its ring again. */
void run_resume(struct run *r);
/* Something came for its input, or its end. */
void run_input(struct run *r);
/* Its end. `error` (may be NULL) is why it did not end by itself. */
struct run_end {
	bool is_ok;
	enum cell_code_state state;
	int signal, exit_code;
	bool is_oom;
	uint64_t cpu_ns, max_rss; /* of one that has exited */
	const char *error_name, *error_message;
};
void run_finish(struct run *r, const struct run_end *end);
/* It waits in the queue, or for the interpreter to start: it will not begin. */
void run_cancel(struct run *r);

/* ---- events: kernel_event.c ---- */

/* 0: written. -EAGAIN: a reader holds it back, try again when run_resume() says so. What nobody is there to
 * read and has no place is counted and dropped: 0, too. n is at most WIRE_RUN_MAX. */
size_t event_room(struct run *r); /* for how long a record; 0: none, a reader holds it back */
int event_put(struct run *r, unsigned type, unsigned flags, const void *p, size_t n);
/* One that always has a place, if small. */
void event_put_last(struct run *r, unsigned type, const void *p, size_t n);
/* `text` as a JSON string. */
int event_add_json(struct buf *b, const char *text);

/* ---- contexts ---- */

enum kernel_state {
	KERNEL_OFF,	 /* no interpreter */
	KERNEL_STARTING, /* it has not said "ready" */
	KERNEL_IDLE,
	KERNEL_BUSY, /* it has the first run */
};

struct kernel {
	struct kernel *next;
	char name[CELL_CONTEXT_MAX];
	const struct language *language;
	struct order place; /* environment, directory, user */
	char *interpreter;  /* NULL: what is found */
	struct buf options; /* of `begin` */
	uint64_t timeout_ms;

	enum kernel_state state;
	struct job *host;
	char version[32];
	uint64_t count;
	uint64_t started_unix_ms;
	bool is_spare;	    /* nobody's yet: kernel_spare.c */
	bool is_leased;	    /* it was, and has to be told whose it is */
	unsigned n_begun;   /* times it was told to begin, and has not said "ready" yet */
	struct strings was; /* environment it was started with, until it is told of its own */
	bool was_lost;	    /* the last interpreter died; nobody was told yet */
	struct run *runs, **runs_end;

	/* the interpreter's end of things: kernel_talk.c */
	struct source control, out[2];
	bool is_enlarged[2];
	struct channel channel;
	uint8_t *rx; /* bytes from the control socket; NULL: none */
	size_t rx_at, rx_len;
	struct buf tx;
	size_t tx_at;
	size_t owed[2];	  /* bytes of each pipe that come before the message at hand */
	bool is_blocked;  /* a reader holds it back */
	bool is_skipping; /* the rest of an event that had no place */
	bool is_hung_up;  /* nothing more comes on the socket, or nothing that counts */
	bool is_kicked;
	struct buf late; /* records */

	/* its end */
	bool has_exited; /* exit is valid; there may be more to read */
	struct job_exit exit;
	bool is_oom;
	char killed_why[200]; /* by us; "": not */

	/* kernel_deadline.c */
	uint64_t deadline_ns; /* 0: none */
	uint64_t
		interrupt_ns; /* when to look again whether the driver has read its run; 0: no need */
	bool was_signalled;   /* since the last run was sent: it may not have heard of it yet */
};

struct kernel *kernel_find(const char *name);
struct kernel *kernel_first(void);
/* Make one. `place` is taken over. */
struct kernel *kernel_new(const char *name, const struct language *l, struct order *place,
	struct cell_error *err);
/* No interpreter, no runs: those end as lost. */
void kernel_clear(struct kernel *k, const char *why);
void kernel_free(struct kernel *k); /* a cleared one */
/* "key=value" for `begin`, and a value as it is written there. */
int kernel_add_option(struct kernel *k, const char *key, const char *value);
int kernel_add_encoded(struct buf *b, const char *value);
/* Move on: start what is needed, hand out the next run. */
void kernel_step(struct kernel *k);
/* At the next turn of the loop, from wherever. */
void kernel_kick(struct kernel *k);
void kernel_stop_all(void);
/* SIGINT for what runs. */
void kernel_interrupt(struct kernel *k);

int context_create(struct stream *s, const struct request *rq, struct cell_error *err);
int context_list(struct stream *s, const struct request *rq, struct cell_error *err);
int context_reset(struct stream *s, const struct request *rq, struct cell_error *err);
int context_interrupt(struct stream *s, const struct request *rq, struct cell_error *err);
int context_delete(struct stream *s, const struct request *rq, struct cell_error *err);
/* The error that says which languages there are. */
int context_lacks(const struct language *l, const struct order *place, struct cell_error *err);
/* What a request says of the context it wants: the one that is there, or, with may_make, a new one. */
int context_of(const struct request *rq, struct order *place, bool may_make, struct kernel **ret,
	struct cell_error *err);

/* ---- started ahead ---- */

/* "python=json,decimal;shell": start them. What cannot be started is left out. */
void spare_start(const char *list);
/* The same when a client asks, with the environment it names. */
int spare_warm(struct stream *s, const struct request *rq, struct cell_error *err);
/* Limits that came later (guest.rlimits, and of processes): what was started has them, too. */
void spare_limit(uint64_t pids);
/* One that can be the context of this name; takes environment and directory over. NULL: none. */
struct kernel *spare_take(const struct language *l, const char *name, struct order *place,
	const char *interpreter);
/* Tell it what it is to know, when its options are known. */
int spare_begin(struct kernel *k);

/* ---- the interpreter ---- */

/* kernel_start.c. Negative errno with err when it cannot be. */
int kernel_start(struct kernel *k, struct cell_error *err);
/* Kill it and all it started; its run hears of it when it is dead. */
void kernel_kill(struct kernel *k, const char *why);
/* It has exited and everything it said has been read. */
void kernel_buried(struct kernel *k);
/* Kill it and all it started, and have nothing to do with it any more. */
void kernel_drop(struct kernel *k);
/* Its host exited, or is gone for good (then the job is freed). */
void host_exited(struct job *j);
void host_gone(struct job *j);

/* kernel_talk.c */
int talk_open(struct kernel *k, int control, int out, int err);
void talk_close(struct kernel *k);
/* A message for the driver: "word words N\n" and the payload. */
int talk_send(struct kernel *k, const char *head, const void *p, size_t n);
/* Read and handle what there is. */
void talk_pump(struct kernel *k);
/* Is nobody at the other end any more? Its keeper may not have said so yet. */
bool talk_is_dead(const struct kernel *k);
/* What has been written until now is not of the run to come. */
void talk_settle_late(struct kernel *k);
/* And the run gets it first. */
void talk_give_late(struct kernel *k, struct run *r);

/* kernel_deadline.c */
void deadline_set(struct kernel *k, uint64_t in_ms);
void deadline_clear(struct kernel *k);
