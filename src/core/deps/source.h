/* SPDX-License-Identifier: Apache-2.0 */
/* source.h: where packages come from: directories of the host, a simple index there or behind HTTP (PEP 503, 691). */
#pragma once
#include <stdbool.h>

#include "cell/deps.h"

#include "core/deps/cache.h"
#include "core/deps/tags.h"
#include "core/deps/version.h"

struct candidate {
	char *filename;
	char *at; /* a path of the host or a URL */
	bool is_remote;
	bool is_given; /* named by the user, not found */
	bool is_yanked;
	char hash[DIGEST_HEX + 1]; /* "" when the index does not say */
	char *requires_python;	   /* "" when not known */
	struct wheel_name wheel;
	struct version version;
	unsigned fitness;
};

/* All files of one package, in no order. */
struct candidates {
	char name[REQUIREMENT_NAME_MAX];
	struct candidate *list;
	size_t n, n_max;
	/* what was seen but is of no use, for messages */
	unsigned n_source, n_other;
	char other[256]; /* one of the others */
	struct candidates *next;
};

struct source {
	const struct deps_cache *cache;
	const char *index;	       /* NULL: none */
	const char *const *find_links; /* NULL: none */
	const struct interpreter *interpreter;
	cell_deps_progress_fn progress; /* may be NULL */
	void *user;
	struct candidates *known; /* asked for before, and files that were given */
};

void source_done(struct source *s);
/* The files of a package; asks each place once. */
int source_find(struct source *s, const char *name, struct candidates **ret,
	struct cell_error *err);
/* A file that the user gave: the only candidate of its package from now on. fd is read, not kept; hash is its tree's. */
int source_give(struct source *s, const char *filename, const char *hash, struct candidates **ret,
	struct cell_error *err);
/* Its tree, fetched and unpacked where it is not there yet. hash: one that it must have, or NULL. */
int source_get(struct source *s, struct candidate *c, struct deps_tree *ret,
	struct cell_error *err);
/* Tell the user; non-zero stops. */
int source_tell(const struct source *s, enum cell_deps_step step, const char *name, uint64_t bytes,
	uint64_t total);
int source_stopped(struct cell_error *err);

/* http(s) only, body bounded. */
int source_fetch(const char *url, const char *accept, cell_data_fn sink, void *user, char type[64],
	struct cell_error *err);
