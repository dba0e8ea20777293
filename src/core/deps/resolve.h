/* SPDX-License-Identifier: Apache-2.0 */
/*
 * resolve.h: which versions of which packages satisfy all requirements. The newest that fits is taken; when it turns out not to fit what
 * another package asks for, that is remembered and everything is chosen again. This finds what nearly every real set of packages
 * needs, and it ends; it is no complete search: where only an older version of one package would let another in, the two must be named with
 * versions.
 */
#pragma once
#include <jansson.h>

#include "core/deps/source.h"

struct pick {
	char name[REQUIREMENT_NAME_MAX];
	char extras[512];
	char version[128];
	char filename[256];
	bool is_requested;
	struct deps_tree tree;
};

struct resolution {
	struct pick *list;
	size_t n, max;
};
void resolution_done(struct resolution *r);
#define auto_resolution __attribute__((cleanup(resolution_done)))

struct resolve_args {
	struct source *source;
	const struct requirement *roots;
	size_t n_roots;
	/* {name: [hash, ...]}: a file must have one of these. NULL: any. */
	const json_t *hashes;
	/* {name: {version, hash, file}}: what is installed, and stays where it fits. May be NULL. */
	const json_t *current;
	bool upgrade;
};
int resolve(const struct resolve_args *args, struct resolution *ret, struct cell_error *err);
