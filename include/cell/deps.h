/* SPDX-License-Identifier: Apache-2.0 */
/*
 * deps.h: packages for the code of a cell. A cell whose spec asks for it (struct cell_spec_deps) has an environment of its own: a
 * virtual environment for Python, a node_modules directory for JavaScript. It is made when the cell is, is empty but for what the
 * spec lists, and goes with the cell.
 *
 *	cell_deps_add(c, &(struct cell_deps_opts){.packages = (const char *[]){"six>=1.16", NULL}}, &err);
 *
 * Packages come from where the spec says (index, find_links) or from files. They are fetched, checked and unpacked by this library,
 * outside of the cell, which needs no network for it; nothing of a package is run. Only wheels, and npm's .tgz files, are installed:
 * nothing is built from source.
 */
#ifndef CELL_DEPS_H
#define CELL_DEPS_H

#include <cell/error.h>
#include <cell/file.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct cell;

enum cell_deps_step {
	CELL_DEPS_RESOLVE = 1, /* looking for it */
	CELL_DEPS_FETCH,       /* bytes of it have come; `total` is 0 when not known */
	CELL_DEPS_UNPACK,
	CELL_DEPS_INSTALL, /* all is there: the environment is made */
};

/* Strings are valid during the callback. A non-zero return stops; the environment stays as it was. */
struct cell_deps_progress {
	enum cell_deps_step step;
	const char *name; /* of the package, or of its file; "" for CELL_DEPS_INSTALL */
	uint64_t bytes, total;
};
typedef int (*cell_deps_progress_fn)(const struct cell_deps_progress *p, void *user);

/* Zeroed means default. Pointers are borrowed for the call. */
struct cell_deps_opts {
	const char *language; /* "python" (the default) or "javascript" */
	const char *const *
		packages; /* requirements: "six", "six==1.16.0", "left-pad@^1.3"; NULL-terminated */
	const char *const *files;  /* packages as files of this machine; NULL-terminated */
	const char *const *inside; /* packages as files of the cell's workspace; NULL-terminated */
	const char *
		requirements; /* text of a requirements file, or of what cell_deps_lock() gave. With a hash for one
					it must have one for every package, also those that others need */
	bool upgrade; /* newer versions also of what is there already */
	cell_deps_progress_fn progress;
	void *user;
};

/* Add these and what they need. All or nothing. CELL_EDENIED when the spec forbids it (allow_runtime_deps: false);
 * CELL_ENOTFOUND names the package that is nowhere, or nowhere in a fitting version. */
int cell_deps_add(struct cell *c, const struct cell_deps_opts *opts, struct cell_error *err);
/* These and what they need, and nothing else. */
int cell_deps_sync(struct cell *c, const struct cell_deps_opts *opts, struct cell_error *err);
/* Remove these, and what only they needed. CELL_EBUSY for one that another needs. */
int cell_deps_remove(struct cell *c, const char *language, const char *const *names,
	struct cell_error *err);

/* Strings are valid during the callback. */
struct cell_dep {
	const char *language;
	const char *name, *version;
	const char *hash;  /* SHA-256 of its file, in hex */
	const char *file;  /* its name */
	bool is_requested; /* false: something else needs it */
};
typedef int (*cell_dep_fn)(const struct cell_dep *d, void *user);
/* What this library installed, by name; a non-zero return stops and is returned. language NULL: all. What code installed
 * by itself, with pip or npm, is not told of. */
int cell_deps_list(struct cell *c, const char *language, cell_dep_fn fn, void *user,
	struct cell_error *err);
/* All packages with versions and hashes, as text that cell_deps_sync() and pip take. Caller frees. */
int cell_deps_lock(struct cell *c, const char *language, char **ret, struct cell_error *err);

/* How http:// and https:// are read; the library itself opens no connection, and without this takes packages from files and
 * directories only. Called from any thread that calls the functions above, and cell_open(). Gives the body to sink, piece by piece; a
 * non-zero return of that stops and is returned. ret_type: the content type, lower case, without parameters. Set it once, first. */
typedef int (*cell_deps_fetch_fn)(const char *url, const char *accept, cell_data_fn sink,
	void *user, char ret_type[64], struct cell_error *err);
void cell_deps_set_fetch(cell_deps_fetch_fn fn);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
