/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit.h: what happened, in files that cannot be changed unnoticed. One JSON object a line:
 *
 *	{"seq":7,"time":"...","kind":"intent|result","action":"exec.start","tenant":...,
 *	 "actor":...,"session":...,"backend":...,"exec":...,"request_id":...,"trace":...,
 *	 "decision":{"effect":...,"rule":...},"details":{...},"outcome":{...},"usage":{...},
 *	 "prev":"<hash of record 6>","hash":"<SHA-256 of this line up to here>"}
 *
 * What is not known is left out. The hash covers the very bytes of the line before `,"hash"`.
 *
 *	<dir>/audit-<first seq, 20 digits>.jsonl   records; the chain goes on from file to file
 *	<dir>/audit.head      seq and hash of the last record, with an HMAC: cutting off the end shows
 *	<dir>/audit.anchor    where the chain begins since old files were removed, with an HMAC
 *	<dir>/torn-*          the beginning of a record that a crash or a full disk cut off
 *	<dir>/lock            held by the one process that writes
 *	<key>                 32 random bytes in hex, mode 0600, not in <dir>
 *
 * Whoever can write the files but not read the key cannot change, cut, reorder or append
 * unnoticed. Whoever has the key, or an old copy of the whole directory, can: keep copies
 * elsewhere (cell audit export). docs/audit.md has the whole story.
 *
 * Thread-safe. A record is written before audit_write returns, with one system call.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "server/redact.h"

#define AUDIT_RECORD_MAX (256u * 1024) /* bytes of a line; longer details are cut and say so */
#define AUDIT_HASH_TEXT	 65	       /* hex and NUL */

enum audit_sync {
	AUDIT_SYNC_ALWAYS, /* on disk before audit_write returns */
	AUDIT_SYNC_SECOND, /* once a second: audit_tick() */
	AUDIT_SYNC_NEVER,  /* when the kernel likes: survives a kill, not a power cut */
};

struct audit_settings {
	const char *dir, *key_path; /* made where missing */
	enum audit_sync sync;
	uint64_t file_bytes;   /* begin a new file after so much; 0: 64 MiB */
	uint64_t file_age_s;   /* or when its first record is so old; 0: a day */
	uint64_t keep_age_s;   /* remove files whose last record is older; 0: keep */
	uint64_t keep_bytes;   /* remove the oldest while there is more; 0: keep */
	struct redact *redact; /* borrowed; NULL: built-in rules only */
};

struct audit;
/* Take the lock (CELL_EBUSY when another process has it), see how far the log goes, put a torn
 * end aside. What is missing or was put aside is recorded. */
int audit_open(const struct audit_settings *settings, struct audit **ret, struct cell_error *err);
void audit_free(struct audit *a);

enum audit_kind {
	AUDIT_INTENT,
	AUDIT_RESULT,
};

/* What an operation took; see usage.h. */
struct usage_sample {
	bool is_error;
	uint64_t wall_us;
	uint64_t cpu_us;
	uint64_t mib_ms; /* memory held, MiB times milliseconds */
	uint64_t bytes_in, bytes_out;
};

/* Everything is borrowed; NULL is left out. */
struct audit_event {
	enum audit_kind kind;
	const char *action; /* "exec.start", "file.write", "session.create", "token.create" ... */
	const char *tenant, *actor, *session, *backend, *exec, *request_id, *trace;
	const char *effect, *rule; /* of the decision */
	json_t *details, *outcome; /* objects; a redacted copy is written */
	const struct usage_sample *usage;
	const char *operation; /* with usage: what it counts as, when that is not the action */
};

/* CELL_ENOSPACE when the disk is full: then nothing was written, and the next call tries again.
 * ret_seq may be NULL. */
int audit_write(struct audit *a, const struct audit_event *event, uint64_t *ret_seq,
	struct cell_error *err);
/* Once a second: sync, and remove what is too old. */
int audit_tick(struct audit *a, struct cell_error *err);
uint64_t audit_last_seq(struct audit *a);

/* audit_verify.c: is the chain whole? Works beside a running writer and on a copy. */
struct audit_verdict {
	uint64_t records, files;
	uint64_t first_seq, last_seq;
	uint64_t gaps;	    /* losses that the writer itself recorded */
	uint64_t repairs;   /* torn ends that were put aside */
	bool is_head_known; /* the key was there, so the end was checked too */
	/* The first thing that is wrong; reason is "" when nothing is. */
	char reason[200];
	char file[64]; /* name within dir */
	uint64_t line; /* from 1; 0: the file as a whole */
	uint64_t seq;  /* of the record that is bad or missing; 0: not known */
};
/* key_path NULL: without the key, the end and the beginning cannot be vouched for. 0 also when
 * something is wrong: the verdict says so. Negative only when the files cannot be read. */
int audit_verify(const char *dir, const char *key_path, bool allow_gaps, struct audit_verdict *ret,
	struct cell_error *err);

/* audit_query.c: records that match, oldest first. */
struct audit_filter {
	uint64_t after_seq;
	int64_t since_ns, until_ns; /* 0: open */
	const char *tenant, *actor, *session, *backend, *exec, *request_id, *trace;
	const char *action; /* a glob: "exec.*" */
	const char *kind;   /* "intent" or "result" */
	const char *effect; /* of the decision */
	uint64_t limit;	    /* 0: all */
	uint64_t last;	    /* only the last so many; 0: from the beginning */
};
/* line is the record as it stands in the file, without its newline. Non-zero ends the walk and is
 * returned. */
typedef int (*audit_record_fn)(json_t *record, const char *line, size_t len, void *user);
/* Lines that are no records are passed over: audit_verify is for those. A half-written last line
 * is left alone. */
int audit_query(const char *dir, const struct audit_filter *filter, audit_record_fn fn, void *user,
	struct cell_error *err);
/* Is this the filter's? For whoever has records already. */
bool audit_matches(const struct audit_filter *filter, json_t *record);

/* audit_export.c: a record as an OCSF 1.3 event: process activity (1007), file system activity
 * (1001), API activity (6003), authentication (3002). A new reference; NULL: no memory. */
json_t *audit_to_ocsf(json_t *record);
