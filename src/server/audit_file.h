/* SPDX-License-Identifier: Apache-2.0 */
/* audit_file.h: what audit.c, audit_verify.c and audit_query.c share: names of files, the form of
 * a line, marks with an HMAC. Nobody else includes it. */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "server/audit.h"

#define AUDIT_HEAD	"audit.head"
#define AUDIT_ANCHOR	"audit.anchor"
#define AUDIT_LOCK	"lock"
#define AUDIT_KEY_BYTES 32
#define AUDIT_NAME_MAX	64
#define AUDIT_MARK_MAX	256 /* bytes of a mark's file, always the same */
#define AUDIT_BOOT_MAX	40
#define AUDIT_NO_HASH	"0000000000000000000000000000000000000000000000000000000000000000"

/* A line taken apart; nothing is copied. */
struct audit_line {
	uint64_t seq;
	const char *prev, *hash; /* 64 hex digits each, not terminated */
	size_t hashed;		 /* how many bytes the hash covers */
};
/* The fixed beginning and end only, the hash is not checked. -EINVAL. len without the newline. */
int audit_line_parse(const char *line, size_t len, struct audit_line *ret);
void audit_hash(const void *p, size_t n, char out[AUDIT_HASH_TEXT]);

const char *audit_file_name(uint64_t first_seq, char out[AUDIT_NAME_MAX]);
/* The first seqs that the names in the directory promise, sorted; caller frees. */
int audit_files(int dir_fd, uint64_t **ret, size_t *ret_n);

struct audit_mark {
	uint64_t seq;
	char hash[AUDIT_HASH_TEXT];
	char boot[AUDIT_BOOT_MAX]; /* of the kernel it was written under */
};
/* 0, -ENOENT, -EBADMSG when it is no mark or the HMAC is wrong. */
int audit_mark_read(int dir_fd, const char *name, const uint8_t key[AUDIT_KEY_BYTES],
	struct audit_mark *ret);
/* Its bytes, AUDIT_MARK_MAX of them. */
void audit_mark_format(const struct audit_mark *m, const char *name,
	const uint8_t key[AUDIT_KEY_BYTES], char out[AUDIT_MARK_MAX + 1]);
/* The id of this boot; "" where there is none. */
void audit_boot(char out[AUDIT_BOOT_MAX]);

/* 0, -ENOENT, -EBADMSG. */
int audit_key_read(const char *path, uint8_t ret[AUDIT_KEY_BYTES]);

/* Lines of a file, one after the other. */
struct audit_reader {
	int fd; /* borrowed */
	char *data;
	size_t cap, begin, end;
	uint64_t line; /* number of the last one given */
	bool is_cut;   /* the file ends without a newline */
};
/* 1: a line, valid until the next call; 0: the end; -EFBIG: a line longer than any record; or the
 * error of read(). */
int audit_reader_next(struct audit_reader *r, const char **ret, size_t *ret_len);
void audit_reader_done(struct audit_reader *r);
#define auto_audit_reader auto_(audit_reader_done)
