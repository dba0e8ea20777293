/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h: the frame protocol between host and guest. docs/protocol.md is the full text.
 *
 * A connection is a byte stream. It carries frames: a 12-byte header and a payload. Frames belong
 * to streams; each request opens one and its END closes it. Requests and answers are lists of
 * tagged fields; bulk data goes in DATA frames that carry the byte offset of their first byte, so
 * that both sides agree on what has arrived, across reconnects too. A sender never has more than
 * the agreed window of unacknowledged bytes under way on a channel.
 *
 * libc only; shared by host and guest. Integers are little-endian on the wire.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define WIRE_VERSION	 1
#define WIRE_MAGIC	 0x4c4c4543u /* "CELL" */
#define WIRE_HEADER_SIZE 12u

/* Limits. Each side drops a peer that passes one. */
#define WIRE_MAX_DATA	    (128u * 1024)	/* bytes of data in one DATA frame */
#define WIRE_MAX_PAYLOAD    (WIRE_MAX_DATA + 8) /* payload of any frame */
#define WIRE_MAX_MESSAGE    (4u * 1024 * 1024)	/* a request put together from MORE frames */
#define WIRE_MAX_STREAMS    1024u		/* open at once on one connection */
#define WIRE_MAX_CLIENTS    256u		/* connections to one guest */
#define WIRE_MAX_RECORD	    (64u * 1024)	/* one record of a record stream */
#define WIRE_MAX_REPLY	    8192u		/* fields of an END of a file operation */
#define WIRE_MAX_WINDOW	    (8u * 1024 * 1024)
#define WIRE_DEFAULT_WINDOW (256u * 1024)
#define WIRE_STDIN_WINDOW   (256u * 1024) /* taken by a guest unacknowledged */

enum wire_type {
	WIRE_HELLO = 1, /* both ways, first frame, stream 0: fields MAGIC VERSION ... */
	WIRE_REQUEST,	/* client: opens the stream; u16 op, then fields; may have MORE */
	WIRE_REPLY,	/* guest: fields; zero or more before END (the exec's STARTED) */
	WIRE_DATA,	/* both: u64 offset, then bytes; `chan` says which channel */
	WIRE_ACK,	/* both: u64 = all bytes of `chan` below it are consumed */
	WIRE_EOF,	/* both: u64 = final length of `chan` */
	WIRE_CONTROL,	/* client: u16 op (enum wire_control), then fields */
	WIRE_END,	/* guest: closes the stream; fields CODE (0 is success) MESSAGE ... */
	WIRE_CANCEL, /* client: closes the stream, no END follows; an exec goes on, a file op stops
		      */
	WIRE_PING,   /* both, stream 0: answered by PONG with the same payload (<= 8 bytes) */
	WIRE_PONG,
	WIRE_GOAWAY, /* both, stream 0: fields CODE MESSAGE; the sender closes after it */
	WIRE_TYPE_COUNT
};

enum wire_flags {
	WIRE_MORE = 1 << 0, /* the message goes on in the next frame of this stream; only REQUEST */
};

enum wire_chan {
	WIRE_CHAN_IN = 0,
	WIRE_CHAN_OUT = 1,
	WIRE_CHAN_ERR = 2,
	WIRE_CHAN_COUNT
};

enum wire_op {
	WIRE_OP_EXEC = 1, /* ARG... or SHELL, ENV... CWD USER ID FLAGS ... -> REPLY, DATA, END */
	WIRE_OP_ATTACH,	  /* ID OUT_OFFSET ERR_OFFSET FLAGS(1 hold, 2 no follow, 4 stdin) */
	WIRE_OP_SIGNAL,	  /* ID SIGNAL TREE */
	WIRE_OP_PS,	  /* a REPLY for each command */
	WIRE_OP_INFO,
	WIRE_OP_TOOLS,	  /* NAME... PATH -> a REPLY for each: NAME PATH */
	WIRE_OP_SHUTDOWN, /* end every process, then the guest */

	/* code that remembers: contexts hold an interpreter each */
	WIRE_OP_RUN =
		16, /* TEXT KIND CONTEXT LANGUAGE, and EXEC's ENV CWD USER ID FLAGS ... -> as EXEC;
			     OUT is a stream of events (below), IN lines for input() */
	WIRE_OP_CONTEXT_CREATE, /* CONTEXT LANGUAGE INTERPRETER PRELOAD... DATABASE ENV... CWD USER
				   TIMEOUT_MS -> END CONTEXT */
	WIRE_OP_CONTEXT_LIST,	/* a REPLY for each */
	WIRE_OP_CONTEXT_RESET,	/* CONTEXT */
	WIRE_OP_CONTEXT_INTERRUPT,
	WIRE_OP_CONTEXT_DELETE,
	WIRE_OP_WARM, /* TEXT(as --warm), EXEC's ENV CWD USER: start interpreters ahead, as contexts
			 with this environment will want them */

	/* files: each runs in a worker process of the guest */
	WIRE_OP_STAT = 32, /* PATH -> END with the file's fields */
	WIRE_OP_READ,	   /* PATH OFFSET LIMIT -> bytes on OUT */
	WIRE_OP_WRITE,	   /* PATH MODE FLAGS, bytes on IN -> END SIZE */
	WIRE_OP_MKDIR,	   /* PATH MODE FLAGS(1 = parents) */
	WIRE_OP_REMOVE,	   /* PATH FLAGS(1 = recursive) */
	WIRE_OP_MOVE,	   /* PATH TARGET FLAGS(1 = replace) */
	WIRE_OP_LIST,	   /* PATH DEPTH -> records of file fields */
	WIRE_OP_GLOB,	   /* PATH PATTERN LIMIT -> records; END TRUNCATED */
	WIRE_OP_GREP,	   /* PATH PATTERN GLOB LIMIT FLAGS(1 fixed, 2 ignore case) -> records
			      PATH LINE TEXT; END TRUNCATED */
	WIRE_OP_EDIT,	   /* PATH OLD NEW FLAGS(1 = all) -> END COUNT */
	WIRE_OP_TAR,	   /* PATH FLAGS(WIRE_TREE_HOME) -> tar bytes on OUT */
	WIRE_OP_UNTAR,	   /* PATH FLAGS(WIRE_TREE_*), tar bytes on IN -> END COUNT */
	WIRE_OP_WATCH,	   /* PATH FLAGS(1 = recursive) -> records EVENT PATH TYPE, until CANCEL */

	/* ports: each in a worker process, too */
	WIRE_OP_CONNECT = 64, /* PORT -> OUT: a NUL byte, then what comes from 127.0.0.1:PORT or
				 [::1]:PORT; IN goes there */
	WIRE_OP_PORTS,	      /* records PORT NAME(address) UID of what listens */
};

/* FLAGS of WIRE_OP_TAR and WIRE_OP_UNTAR. */
enum wire_tree {
	WIRE_TREE_HOME = 1 << 0, /* the cell's home, whole: PATH is left out */
	/* what was saved of this cell's like is put back: symbolic links may say anything */
	WIRE_TREE_LINKS = 1 << 1,
};

/* EXEC's FLAGS: enum cell_exec_flags, and: */
enum wire_exec_flags {
	WIRE_EXEC_QUIET = 1 << 16, /* no REPLY at the start; END has the id too */
	WIRE_RUN_DEFAULT_TIMEOUT =
		1 << 17,       /* of RUN: the timeout is the context's, if that has one */
	WIRE_PS_RUN = 1 << 18, /* in PS: a run of code */
};

/* The events of a run: a header of 8 bytes (u8 type, enum cell_code_event_type; u8 flags; u16 0; u32 length)
 * and that many bytes. An attach goes on at a header. */
#define WIRE_RUN_HEADER	   8u
#define WIRE_RUN_MAX	   (64u * 1024)	       /* bytes of one record; a longer event is several */
#define WIRE_RUN_MAX_WHOLE (64u * 1024 * 1024) /* of one event, put together */
enum wire_run_flags {
	WIRE_RUN_LATE = 1 << 0,	     /* of something that an earlier run left behind */
	WIRE_RUN_MORE = 1 << 1,	     /* the event goes on in the next record */
	WIRE_RUN_CONTINUED = 1 << 2, /* and began in the one before */
};

enum wire_control {
	WIRE_CTL_SIGNAL = 1, /* SIGNAL */
	WIRE_CTL_RESIZE,     /* ROWS COLS */
};

/* Field tags. A receiver ignores tags it does not know, unless WIRE_CRITICAL is set: then it
 * answers CELL_ENOTSUP. What a request asks for in the way of walls and limits is critical. */
#define WIRE_CRITICAL 0x8000u
enum wire_tag {
	WIRE_T_MAGIC = 1,
	WIRE_T_VERSION,	 /* u64, highest spoken; the answer has the one to use */
	WIRE_T_SOFTWARE, /* "cell 0.1.0" */
	WIRE_T_BOOT_ID,	 /* random, new for each start of the guest */
	WIRE_T_WINDOW,	 /* u64: how much of each channel the sender of it takes unacknowledged */
	WIRE_T_CODE,	 /* enum cell_code */
	WIRE_T_ERRNO,
	WIRE_T_MESSAGE,
	WIRE_T_HINT,

	WIRE_T_ARG = 32, /* repeated */
	WIRE_T_SHELL,
	WIRE_T_ENV, /* repeated "K=V" */
	WIRE_T_CWD,
	WIRE_T_USER,
	WIRE_T_ID,
	WIRE_T_FLAGS, /* u64, of the op */
	WIRE_T_TIMEOUT_MS,
	WIRE_T_KEEP, /* bytes kept per channel */
	WIRE_T_ROWS,
	WIRE_T_COLS,
	WIRE_T_SIGNAL,
	WIRE_T_TREE,
	WIRE_T_PID,
	WIRE_T_EXIT_CODE,
	WIRE_T_TIMED_OUT,
	WIRE_T_OOM,
	WIRE_T_CPU_NS,
	WIRE_T_MAX_RSS,
	WIRE_T_WALL_NS,
	WIRE_T_OUT_OFFSET, /* attach: from; started: next to come */
	WIRE_T_ERR_OFFSET,
	WIRE_T_IN_OFFSET,
	WIRE_T_OUT_OLDEST,
	WIRE_T_ERR_OLDEST,
	WIRE_T_STATE,	/* enum cell_exec_state */
	WIRE_T_STARTED, /* unix ms */
	WIRE_T_COMMAND,
	WIRE_T_GRACE_MS, /* between TERM and KILL at the deadline */
	WIRE_T_LABEL,	 /* the client's own words about a command; PS gives them back */

	WIRE_T_PATH = 96,
	WIRE_T_TARGET,
	WIRE_T_TYPE, /* enum cell_file_type */
	WIRE_T_SIZE,
	WIRE_T_MODE,
	WIRE_T_UID,
	WIRE_T_GID,
	WIRE_T_MTIME_NS, /* i64 as u64 */
	WIRE_T_OFFSET,
	WIRE_T_LIMIT,
	WIRE_T_DEPTH,
	WIRE_T_PATTERN,
	WIRE_T_GLOB,
	WIRE_T_LINE,
	WIRE_T_TEXT,
	WIRE_T_TRUNCATED,
	WIRE_T_OLD,
	WIRE_T_NEW,
	WIRE_T_COUNT,
	WIRE_T_EVENT, /* enum cell_watch_type */

	WIRE_T_OS = 160,
	WIRE_T_OS_VERSION,
	WIRE_T_KERNEL,
	WIRE_T_ARCH,
	WIRE_T_HOSTNAME,
	WIRE_T_WORKSPACE,
	WIRE_T_CPUS,
	WIRE_T_MEMORY,
	WIRE_T_RSS,
	WIRE_T_RUNNING,
	WIRE_T_CLIENTS,
	WIRE_T_NAME, /* repeated, of TOOLS */
	WIRE_T_PORT,
	WIRE_T_USED_MEMORY, /* of the whole cell, now */
	WIRE_T_PROCESSES,

	WIRE_T_LANGUAGE = 192,
	WIRE_T_CONTEXT,
	WIRE_T_KIND, /* of RUN: "run" (when absent), "vars", "get", "set", "complete" */
	WIRE_T_INTERPRETER,
	WIRE_T_PRELOAD, /* repeated */
	WIRE_T_DATABASE,
	WIRE_T_RELEASE, /* of the interpreter: "3.11.2" */
	WIRE_T_BUSY,
	WIRE_T_WAITING,
};

struct wire_header {
	uint32_t len; /* of the payload */
	uint8_t type;
	uint8_t chan;
	uint16_t flags;
	uint32_t stream;
};

void wire_header_put(uint8_t out[WIRE_HEADER_SIZE], const struct wire_header *h);
/* 0, or -EPROTO when the header breaks the rules (unknown type, channel or flag, length over the
 * limit, wrong stream for its type); then *why says which. Reads exactly WIRE_HEADER_SIZE bytes. */
int wire_header_get(const uint8_t in[WIRE_HEADER_SIZE], struct wire_header *h, const char **why);

uint64_t wire_u64_get(const uint8_t in[8]);
void wire_u64_put(uint8_t out[8], uint64_t v);
uint32_t wire_u32_get(const uint8_t in[4]);
void wire_u32_put(uint8_t out[4], uint32_t v);
uint16_t wire_u16_get(const uint8_t in[2]);
void wire_u16_put(uint8_t out[2], uint16_t v);

/* Writing fields: u16 tag, u32 length, bytes. Errors stick in the buffer's return: each gives 0,
 * -ENOBUFS or -ENOMEM. */
int wire_put(struct buf *b, unsigned tag, const void *p, size_t n);
int wire_put_str(struct buf *b, unsigned tag, const char *s); /* NULL writes nothing */
int wire_put_u64(struct buf *b, unsigned tag, uint64_t v);

/* Reading fields. */
struct wire_field {
	uint16_t tag; /* without WIRE_CRITICAL */
	bool is_critical;
	const uint8_t *p;
	uint32_t len;
};
struct wire_reader {
	const uint8_t *p;
	size_t len;
};
/* 1 and the next field; 0 at the end; -EPROTO when the bytes are no field list. */
int wire_next(struct wire_reader *r, struct wire_field *f);
/* The field's integer: -EPROTO unless its length is 8. */
int wire_field_u64(const struct wire_field *f, uint64_t *ret);
/* A copy as a string; -EPROTO with a NUL in it, -EINVAL over max bytes, -ENOMEM. Caller frees. */
int wire_field_str(const struct wire_field *f, size_t max, char **ret);

/* First field of a tag in a whole field list (REQUEST fields, END fields, a record). */
bool wire_find(const void *p, size_t len, unsigned tag, struct wire_field *ret);
/* Its integer, or `otherwise` when absent or malformed. */
uint64_t wire_find_u64(const void *p, size_t len, unsigned tag, uint64_t otherwise);
/* A copy, or NULL when absent, malformed or out of memory. */
char *wire_find_str(const void *p, size_t len, unsigned tag, size_t max);
/* 0 when the list parses whole and every critical tag is listed in `known`; else -EPROTO or
 * -EOPNOTSUPP with *ret_tag the one not known. */
int wire_check(const void *p, size_t len, const uint16_t *known, size_t n_known, unsigned *ret_tag);

/* Whether a caller may give this id to a command: 1 to 63 of A-Za-z0-9._-, the first no sign. It becomes a file's name and an argument. */
bool wire_is_id(const char *id);
#define WIRE_MAX_ID  63
#define WIRE_ID_RULE "1 to 63 letters, digits and . _ -, beginning with a letter or digit"

/* Record streams: u32 length, then fields. wire_record_next gives 1 and the record when one is
 * complete at the front of the n bytes (*ret_used says how many it took), 0 when more bytes are
 * needed, -EPROTO when its length passes WIRE_MAX_RECORD. */
int wire_record_next(const uint8_t *p, size_t n, const uint8_t **ret, size_t *ret_len,
	size_t *ret_used);
