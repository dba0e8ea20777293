/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest.h: the guest's own types. One process, one thread, one loop.
 *
 *	client --frames--> conn -> stream -> job -> keeper -> the command
 *	                                         \-> worker   (a file operation)
 *
 * A conn is a connected client. A stream is one request of it. A job is something that runs and has
 * channels: a command (kept, can be attached to), a worker for one file operation (bound to its
 * stream), a run of code, which has no process, or the interpreter that such runs are given to (kernel.h).
 * Streams look at jobs; jobs never wait for a stream that is gone.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "cell/exec.h"

#include "base/buf.h"
#include "base/error.h"
#include "guest/loop.h"
#include "guest/ring.h"
#include "wire/wire.h"

#define GUEST_MAX_JOBS	   1024	       /* running at once */
#define GUEST_MAX_FINISHED 128	       /* remembered after their end */
#define GUEST_DEFAULT_KEEP (16u << 20) /* output kept per stream of a command */
#define GUEST_MAX_KEEP	   (1u << 30)
#define GUEST_GRACE_MS	   2000 /* between TERM and KILL, when the client does not say */
#define GUEST_MAX_GRACE_MS (3600u * 1000)
#define GUEST_GIVE_UP_MS   10000 /* of killing what does not die */
#define GUEST_MAX_RLIMITS  16
#define GUEST_TX_LIMIT	   (2u << 20) /* replies a client may leave unread */

struct conn;
struct job;
struct job_chan;
struct kernel;
struct run;

/* What the command line said. */
struct guest_rlimit {
	int resource;
	uint64_t value;
};
struct guest {
	const char *workspace; /* as the cell sees it */
	int workspace_fd;
	int spool_fd; /* -1: memory */
	const char *home, *tmp;
	struct guest_rlimit rlimits[GUEST_MAX_RLIMITS];
	size_t n_rlimits;
	struct rlimit open_files; /* as it was before the guest raised its own; commands get it */
	char boot_id[33];
	bool has_listener;
	int null_fd;   /* /dev/null, for commands without stdin */
	int report_fd; /* keepers write their reports here */
};
extern struct guest guest;

/* ---- streams: requests of a client ---- */

struct stream_chan {
	uint64_t sent, acked;
	bool is_over; /* EOF was sent */
};

struct stream {
	uint32_t id;
	struct conn *conn;
	struct stream *next;	  /* of the conn */
	struct job *job;	  /* what it looks at */
	struct stream *next_peer; /* of the job */
	struct stream_chan chan[WIRE_CHAN_COUNT];
	uint64_t window;
	bool is_holding;   /* the job may not run ahead of this reader's acknowledgements */
	bool is_following; /* wait for more; else end at what is there */
	bool has_stdin;	   /* its DATA goes to the job */
};

/* Close it: END with the fields in `end` (may be NULL), or silently when the client cancelled. */
void stream_end(struct stream *s, const struct buf *end);
void stream_fail(struct stream *s, const struct cell_error *err);
void stream_free(struct stream *s);
int stream_reply(struct stream *s, const struct buf *fields);
/* Send what its job has for it, as far as window and socket allow; ends it when all is said. */
void stream_pump(struct stream *s);

/* ---- connections ---- */

/* Serve a connected socket; closes it on failure. is_only: its end is the guest's end. */
int conn_start(int fd, bool is_only);
int conn_listen(int fd);
/* One frame. `head` and `body` together are its payload. Queues what the socket does not take. */
int conn_send(struct conn *c, unsigned type, unsigned chan, uint32_t stream, const void *head,
	size_t head_len, const void *body, size_t body_len);
/* A DATA frame of n bytes that are in a pipe now, moved to the socket without a copy. Only with no
 * backlog. 0, or negative errno when nothing was sent. What the socket does not take at once is owed: the
 * channel is not read by anybody else until it is paid. */
int conn_send_pipe(struct stream *s, unsigned chan, uint64_t offset, struct job_chan *from,
	size_t n);
bool conn_can_splice(const struct conn *c);
/* What is sent until the other one leaves together: one system call, one wake-up. Only with no backlog, and for little. */
void conn_gather(struct conn *c);
void conn_release(struct conn *c);
/* Bytes waiting to leave: no more DATA is made while there are any. */
size_t conn_backlog(const struct conn *c);
/* The peer broke the rules: say why and close. */
void conn_abort(struct conn *c, const char *why);
uint32_t conn_count(void);

/* ---- jobs: what runs ---- */

struct job_chan {
	struct source src;
	struct job *job;
	struct ring ring;
	bool is_eof;
	bool is_owed;	  /* a connection is moving bytes out of it: hands off */
	bool is_enlarged; /* its pipe */
	bool is_drained;  /* everything written before the exit has been read */
	uint64_t spooled; /* of a durable job: bytes below it were taken by a holding reader */
};

struct job_exit {
	int status; /* as wait4 gave it */
	uint64_t cpu_ns, max_rss, wall_ns;
	bool timed_out;
};

struct job {
	struct job *next, *prev, *next_in_chain; /* jobs.c */
	char id[CELL_EXEC_ID_MAX];
	char command[200];
	char label[CELL_EXEC_LABEL_MAX]; /* what the client calls it, besides its id */
	uint32_t number;		 /* names it in a keeper's report */
	bool is_worker;
	bool is_host;	       /* an interpreter's process: nobody's to look at */
	struct kernel *kernel; /* whose interpreter; NULL when that has let go of it */
	struct run *run;       /* of a run of code, until its end */
	bool is_run;
	uint64_t keep;	      /* of a run: how large its ring may grow */
	uint64_t first_event; /* of a run: offset of the oldest event that is kept whole */
	bool is_tty;
	bool is_durable; /* what no holding reader has taken stays */
	bool is_told;	 /* a holding reader was given its end */
	pid_t minder;	 /* keeper or worker process; 0 when reaped */
	uint64_t started_unix_ms;
	bool has_exited;     /* exit is valid */
	uint64_t started_ns; /* monotonic; only with a deadline */
	uint64_t overdue_ns; /* when its keeper should have ended it, monotonic; 0: no deadline */
	bool is_overdue;     /* its keeper did not */
	bool is_oom;	     /* ended because the cell had no memory left */
	bool is_gone;	     /* nothing of it is left */
	struct job_exit exit;
	struct job_chan out[2]; /* stdout, stderr */
	struct source in;	/* stdin's write end, -1 when closed */
	struct buf in_queue;	/* taken from the client, not yet by the command */
	uint64_t in_taken;	/* bytes received */
	uint64_t in_written;	/* bytes handed to the command */
	bool in_eof;
	int status_fd; /* a worker's reply */
	struct stream *streams;
};

/* A new, empty job in the table; NULL with err when there are too many. */
struct job *job_new(struct cell_error *err);
void job_name(struct job *j, const char *id); /* once, and with an id that is free */
void job_be_host(struct job *j);
void job_tell(struct job *j); /* a holding reader was given its end */
void jobs_close(void);	      /* from now on job_new() refuses */
/* For job.c alone. */
void jobs_note_gone(struct job *j);
void jobs_remove(struct job *j);
struct job *job_find(const char *id);
struct job *job_by_minder(pid_t pid);
struct job *job_by_number(uint32_t number);
struct job *job_first(void);
size_t job_running(void);
size_t job_hosts(void); /* how many of them are interpreters' processes */
/* The oldest offset that can be read of channel i. */
uint64_t job_oldest(const struct job *j, int i);
/* The oldest offset of channel i that must not be overwritten. */
uint64_t job_held(const struct job *j, int i);
bool job_has_holder(const struct job *j);
/* What is new in its rings, to all that look at it. */
void job_pump(struct job *j);
/* Start reading fd as channel i (0 stdout, 1 stderr), keeping `keep` bytes. Takes the fd. */
int job_open_out(struct job *j, int i, int fd, uint64_t keep);
int job_open_in(struct job *j, int fd);
void job_attach(struct job *j, struct stream *s);
void job_detach(struct job *j, struct stream *s);
/* Bytes for its stdin; -EPROTO when the client overran its window or left a gap. */
int job_input(struct job *j, struct stream *s, uint64_t offset, const uint8_t *p, size_t n);
void job_input_eof(struct job *j);
/* Tell who sends its input how much of it was used (in_written). */
void job_ack_input(struct job *j);
/* A holding reader has these bytes: a durable job may let go of them. */
void job_taken(struct job *j, const struct stream *s);
/* Acknowledgements moved: perhaps there is room to read on. */
void job_resume(struct job *j);
/* It has exited (j->exit is set): say so once its output is read. */
void job_exited(struct job *j);
/* And nothing of it is left. */
void job_gone(struct job *j);
/* Has everything that will be said been read? */
bool job_is_settled(const struct job *j);
void job_free(struct job *j);
/* The END fields of a finished job. */
int job_end_fields(struct job *j, struct buf *b);
void job_put_state(const struct job *j, struct buf *b);
/* SIGKILL everything; the guest leaves when all are gone. */
void job_kill_all(void);

/* ---- operations ---- */

struct request {
	uint16_t op;
	const uint8_t *fields;
	size_t len;
};
void ops_end_ok(struct stream *s);
/* Answer a request; the stream is the callee's to end. */
void ops_handle(struct stream *s, const struct request *rq);
void ops_control(struct stream *s, uint16_t op, const uint8_t *fields, size_t len);
/* EXEC and ATTACH. 0, or negative errno with err. */
int exec_start(struct stream *s, const struct request *rq, struct cell_error *err);
int exec_attach(struct stream *s, const struct request *rq, struct cell_error *err);
int exec_signal(struct job *j, int sig, bool tree, struct cell_error *err);
/* A file operation in a process of its own. */
int worker_start(struct stream *s, const struct request *rq, struct cell_error *err);
/* Reap children and read keepers' reports. */
int reaper_init(void);
/* Its keeper ends it within this time from now, or the guest does. */
void overdue_expect(struct job *j, uint64_t within_ms);
uint64_t overdue_age(const struct job *j); /* ns; 0: unknown */
/* Nothing is kept any more: see off what escaped by killing its keeper. */
void reaper_end_orphans(void);
/* parked.c: wait for the lease; the client's stream, or with guest.has_listener where clients come from.
 * Leaves when there will be none. */
int guest_await_lease(int wait_fd, char *argv0);
/* reach.c: where no fd can be passed. A socket on which the lease comes; a listening one; the one client of an ephemeral
 * cell, waited for. Negative errno. */
int guest_call(const char *path);
int guest_listen(const char *path);
int guest_first_client(const char *path);
/* Between stdin, stdout and a guest that listens, until that one ends: an exit status. */
int guest_relay(const char *path);
/* filter.c: take the syscall filter in this file upon us; 0 or negative errno. */
int guest_filter(const char *path);
/* alone.c: from now on uid:gid and nobody else, in a user namespace of its own, without any capability: starts this program anew with
 * argv. Negative errno. */
int guest_be_alone(const char *ids, char **argv);
/* Leave once nothing runs any more. `s` (may be NULL) gets its END then. */
void guest_shutdown(struct stream *s);
void guest_forget(const struct stream *s); /* it is gone: no END for it */
void guest_maybe_leave(void);
