/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env.h: an environment as files. A virtual environment is made by hand: a few links and pyvenv.cfg; `python -m venv`
 * would take seconds. Each change makes a new one beside the old (of links to the same files) and then puts it in its place at once, so a
 * reader sees one or the other, and whoever is killed half-way leaves nothing that counts.
 */
#pragma once
#include <jansson.h>

#include "core/deps/cache.h"
#include "core/deps/place.h"

struct env {
	const struct deps_place *place;
	int dir_fd, lock_fd;
	/* What it is: {format, python, describe, requested: {language: [text]}, packages: {language: {name: {version, hash, file, requested}}}}.
	 * Never NULL when open. */
	json_t *state;
};
#define ENV_INIT                            \
	{                                   \
		.dir_fd = -1, .lock_fd = -1 \
	}

/* Hold it for ourselves; somebody else who does not let go for a minute is CELL_EBUSY. lock_dir_fd: the cell's directory. */
int env_open(struct env *e, const struct deps_place *place, int lock_dir_fd,
	struct cell_error *err);
/* For a look: no lock, state only. */
int env_look(struct env *e, const struct deps_place *place, struct cell_error *err);
void env_done(struct env *e);
#define auto_env __attribute__((cleanup(env_done)))

struct env_package {
	const char *language; /* "python", "javascript" */
	const char *name;
	const char *at; /* javascript: below the environment, "node_modules/a"; else NULL */
	const struct deps_tree *tree;
};

/* Make a new one with these, and e->state as its state, and put it in place of the old. */
int env_switch(struct env *e, const struct env_package *packages, size_t n, struct cell_error *err);
