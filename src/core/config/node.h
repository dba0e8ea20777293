/* SPDX-License-Identifier: Apache-2.0 */
/*
 * node.h: a value together with the place it came from. YAML files, environment variables and flags
 * all become nodes, so that every error and every line of `cell config show` can say where a value
 * stands. Knows nothing of what keys mean.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

enum source_kind {
	SOURCE_FILE,
	SOURCE_ENV, /* a CELL_* variable */
	SOURCE_SET, /* cell_config_set() */
};

/* Where values come from. Lives as long as the nodes that point to it. */
struct source {
	struct source *next;
	enum source_kind kind;
	char *name;	 /* as errors show it: "cell.yaml", "CELL_BACKEND", "--memory" */
	char *directory; /* what relative paths are relative to; NULL: nothing known */
};

enum node_kind {
	NODE_NULL,
	NODE_BOOL,
	NODE_INT,
	NODE_REAL,
	NODE_STRING,
	NODE_LIST,
	NODE_MAP,
};

struct node {
	enum node_kind kind;
	bool is_quoted; /* a scalar in quotes, or a block scalar */
	const struct source *source;
	unsigned line, column;	       /* of the value, from 1; 0: the source has no lines */
	unsigned key_line, key_column; /* of the key, in a map */
	char *key;		       /* in a map */
	char *text;		       /* scalars: as written */
	uint64_t number;	       /* what value.c made of the text, in the key's base unit */
	struct node **items;
	size_t n_items, cap_items;
};

struct node *node_new(enum node_kind kind, const struct source *source); /* NULL: no memory */
/* A scalar of the first n bytes at text; the kind stays what YAML 1.2 calls a plain scalar, or
 * string when quoted. */
struct node *node_new_scalar(const char *text, size_t n, bool is_quoted,
	const struct source *source);
void node_free(struct node *n);
void node_freep(struct node **n);
#define auto_node auto_(node_freep)

/* Append; takes the child over, also on failure, and takes NULL for -ENOMEM. */
int node_add(struct node *parent, struct node *child);
/* The same under a key, which is copied. */
int node_add_key(struct node *parent, const char *key, struct node *child);
/* NULL when absent. */
struct node *node_get(const struct node *map, const char *key);
void node_remove(struct node *parent, size_t index); /* and free */
bool node_equal(const struct node *a, const struct node *b);
static inline bool node_is_scalar(const struct node *n)
{
	return n->kind != NODE_LIST && n->kind != NODE_MAP;
}
const char *node_kind_name(enum node_kind kind); /* "a list", "true or false", ... */
/* Copy the place, not the value. */
void node_place(struct node *n, const struct node *from);

/* What YAML 1.2's core schema makes of a plain scalar. */
enum node_kind scalar_kind(const char *text);

/* "cell.yaml:3:7", or the source's name where there are no lines. */
#define WHERE_MAX 200
const char *node_where(const struct node *n, char buf[WHERE_MAX]);
#define WHERE(n) node_where((n), (char[WHERE_MAX]){0})

/* Untrusted text for a message: quoted, control characters escaped, shortened. */
#define QUOTE_MAX 72
const char *quote_text(const char *s, char buf[QUOTE_MAX]);
#define QUOTE(s) quote_text((s), (char[QUOTE_MAX]){0})

/* CELL_EINVAL with "place: message": the place of the value, or of the key. */
int node_fail(struct cell_error *err, const struct node *n, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), cold));
int node_fail_key(struct cell_error *err, const struct node *n, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), cold));
/* Out of memory while reading the configuration. */
int config_no_memory(struct cell_error *err);
