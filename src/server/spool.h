/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spool.h: what one command wrote, on the host: a file of records in the order they came, each with its
 * byte offset in its stream, and at last how the command ended. Readers come at any time, from any
 * offset, and go at their own pace; a writer that is killed loses nothing that a reader has seen.
 *
 * The file is bounded: past its maximum the oldest records are given back to the disk (a hole), and a
 * reader from there is told of the gap. One thread.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

#define SPOOL_MAX_META (1u << 20)
#define SPOOL_MAX_DATA (128u * 1024) /* bytes of one record */
#define SPOOL_MIN_MAX  (4u * SPOOL_MAX_DATA)

struct spool;
struct spool_spares;

enum spool_kind {
	SPOOL_NONE = 0, /* nothing more yet */
	SPOOL_OUT = 1,
	SPOOL_ERR = 2,
	SPOOL_GAP = 3, /* bytes of `stream` before `offset` are not kept */
	SPOOL_END = 4, /* data: what spool_finish was given */
};

struct spool_event {
	enum spool_kind kind;
	int stream; /* 1, 2 */
	uint64_t offset;
	const uint8_t *data; /* valid until the next call on any spool */
	size_t len;
	bool is_begin; /* something of the writer's begins with the first byte: see spool_append_begin() */
};

/* Make the file `name` in dir_fd, of a spare one where there is one (spares may be NULL); CELL_EEXISTS when it is there. meta says
 * what it is of. max_bytes bounds its size on disk (at least SPOOL_MIN_MAX). */
int spool_create(struct spool_spares *spares, int dir_fd, const char *name, const void *meta,
	size_t meta_len, uint64_t max_bytes, struct spool **ret, struct cell_error *err);
/* Open one made earlier, perhaps by a writer that was killed: a torn last record is cut off.
 * CELL_ENOTFOUND; -EBADMSG when it is no spool. */
int spool_open(int dir_fd, const char *name, uint64_t max_bytes, struct spool **ret,
	struct cell_error *err);
void spool_free(struct spool *s); /* takes NULL; the file stays */
/* Everything about it is done: a look at its mode tells, without opening it. Only when it has ended. */
void spool_seal(struct spool *s);
struct stat;
bool spool_is_sealed(const struct stat *st);

/* What spool_create was given. Valid until the next call on any spool. */
int spool_meta(struct spool *s, const uint8_t **ret, size_t *ret_len, struct cell_error *err);

/* Bytes of stream 1 or 2; offset must be the stream's next, or later (a gap). At most SPOOL_MAX_DATA. On
 * failure (a full disk) nothing was added, and the same call may be made again. */
int spool_append(struct spool *s, int stream, uint64_t offset, const void *p, size_t n,
	struct cell_error *err);
/* The same, and says that something which readers must have from its first byte on begins here. */
int spool_append_begin(struct spool *s, int stream, uint64_t offset, const void *p, size_t n,
	struct cell_error *err);
/* The last record. */
int spool_finish(struct spool *s, const void *p, size_t n, struct cell_error *err);

uint64_t spool_next(const struct spool *s, int stream);	  /* bytes so far: where it goes on */
uint64_t spool_oldest(const struct spool *s, int stream); /* oldest byte kept */
bool spool_has_ended(const struct spool *s);
uint64_t spool_bytes(const struct spool *s); /* on disk, about */

/* Where a reader is. Zeroed and set to the offsets it wants, it begins there. */
struct spool_cursor {
	uint64_t want[3]; /* [1] stdout, [2] stderr: the next byte to be given */
	uint64_t at;	  /* position in the file; 0: not looked for yet */
	bool is_whole; /* records are given from their first byte, also those it wants the end of */
};
/* The next event for this reader: 0 with SPOOL_NONE when there is nothing yet. */
int spool_read(struct spool *s, struct spool_cursor *c, struct spool_event *ret,
	struct cell_error *err);
/* How much of the file a reader has before it, on disk. */
uint64_t spool_behind(const struct spool *s, const struct spool_cursor *c);
/* A reader of what comes from now on. */
struct spool_cursor spool_at_end(const struct spool *s);
