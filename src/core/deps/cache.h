/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cache.h: packages unpacked once for all cells of a state directory.
 *
 *	<state>/deps/trees/<sha256 of the archive>/   manifest.json, and what was in it; never changed again
 *	<state>/deps/staging/<random>/		      being unpacked, locked by whoever does it
 *	<state>/deps/known/<key>		      the hash of a file of the host that was read before
 *
 * Nothing in a cell can write here: no cell has it mounted, and archives are checked and unpacked by this process from a
 * copy that nobody else can open. A tree's name is the hash of the bytes it was made from, so whoever asks for a hash gets those
 * bytes, whoever brought them. What is handed to a cell is linked only where it sees it through a read-only mount, else copied.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "cell/error.h"

#include "core/image/digest.h"

struct deps_cache {
	int fd, trees_fd, staging_fd, known_fd, lock_fd;
	uint64_t max_bytes; /* of all trees together */
};
#define DEPS_CACHE_BYTES (UINT64_C(16) << 30)
#define DEPS_CACHE_INIT                                                                   \
	{                                                                                 \
		.fd = -1, .trees_fd = -1, .staging_fd = -1, .known_fd = -1, .lock_fd = -1 \
	}

/* state_fd: the state directory. Made where missing; what dead processes left is removed. */
int deps_cache_open(struct deps_cache *c, int state_fd, uint64_t max_bytes, struct cell_error *err);
void deps_cache_done(struct deps_cache *c);

/* What the files of a tree take, about. */
uint64_t deps_manifest_bytes(const json_t *manifest);
/* A file of ours, or of the cell's; NULL when it cannot be read. The caller's. */
json_t *deps_load_json(int dir_fd, const char *path);

/* One tree; while it is looked at it is not removed. */
struct deps_tree {
	int fd;
	json_t *manifest;
	char hash[DIGEST_HEX + 1];
};
#define DEPS_TREE_INIT   \
	{                \
		.fd = -1 \
	}
void deps_tree_done(struct deps_tree *t);
#define auto_tree __attribute__((cleanup(deps_tree_done)))

/* The tree of this hash. False: there is none. */
bool deps_cache_find(const struct deps_cache *c, const char *hash, struct deps_tree *ret);

/* How an archive becomes a tree: wheel_unpack(), npm_unpack(). */
typedef int (*deps_unpack_fn)(int fd, const char *filename, int dir_fd, json_t **ret,
	struct cell_error *err);

/* An archive on its way in: bytes are added, then it is taken when it is the one expected. */
struct deps_intake {
	const struct deps_cache *cache;
	int fd; /* nameless */
	uint64_t size;
	struct digest digest;
};
#define DEPS_INTAKE_INIT \
	{                \
		.fd = -1 \
	}
#define DEPS_ARCHIVE_MAX (UINT64_C(2) << 30)
int deps_intake_begin(struct deps_intake *in, const struct deps_cache *c, struct cell_error *err);
int deps_intake_add(struct deps_intake *in, const void *p, size_t n, struct cell_error *err);
void deps_intake_done(struct deps_intake *in);
#define auto_intake __attribute__((cleanup(deps_intake_done)))
/* hash: what it must be, in hex, or NULL. CELL_EDENIED when it is not. */
int deps_intake_take(struct deps_intake *in, const char *filename, const char *hash,
	deps_unpack_fn unpack, struct deps_tree *ret, struct cell_error *err);

/* The hash of a file of the host. Remembered by what identifies it to the kernel (device, inode, size, both times), so that it is
 * read once. */
int deps_cache_hash(const struct deps_cache *c, int fd, char ret[DIGEST_HEX + 1],
	struct cell_error *err);
