/* SPDX-License-Identifier: Apache-2.0 */
/*
 * npm.h: JavaScript packages: npm's .tgz files, from directories or a registry, laid out as Node looks for them. Nothing of a package is run: what needs its
 * install script does not work.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "core/deps/source.h"

#define NPM_NAME_MAX 220

/* "left-pad", "@scope/name": and it is safe as a path. */
bool npm_is_name(const char *name);
/* "left-pad@^1.3" into its name and its range ("" for any). */
int npm_wish_parse(const char *text, char name[NPM_NAME_MAX], char *range, size_t size,
	struct cell_error *err);
/* As wheel_unpack(): files below "package/", manifest {format, kind, name, version, filename, requires: {name: range}, optional: {...}, os, cpu,
 * files, bins: [[name, path]]}. */
int npm_unpack(int fd, const char *filename, int dir_fd, json_t **ret, struct cell_error *err);

struct npm_node {
	char name[NPM_NAME_MAX];
	char version[128];
	char at[1024]; /* "node_modules/a/node_modules/b" */
	bool is_requested;
	struct deps_tree tree;
};
struct npm_tree {
	struct npm_node *list;
	size_t n, max;
};
void npm_tree_done(struct npm_tree *t);

struct npm_args {
	struct source *source; /* cache, find_links, progress */
	const char *registry;  /* NULL: none */
	const char *machine;   /* "x86_64" */
	const json_t *wishes;  /* texts */
	const json_t *given;   /* {name: hash}: files the user gave */
	const json_t *locked;  /* {name: {version: hash}}: these and no others. NULL: any */
	const json_t *current; /* {at: {name, version, hash}}: stays where it fits */
	bool upgrade;
};
int npm_resolve(const struct npm_args *args, struct npm_tree *ret, struct cell_error *err);
