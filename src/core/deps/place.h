/* SPDX-License-Identifier: Apache-2.0 */
/*
 * place.h: where a cell's environment is: a directory of the host, in the cell's own or the spec's venv_dir. A cell with files of its own
 * (jail, chroot) has it mounted read-only; for others it is the same path.
 *
 *	DIR/current -> gen-N	 what counts; replaced at once
 *	DIR/gen-N/		 pyvenv.cfg bin/ lib/ node_modules/ state.json
 *	DIR/refuse/		 what stands in pip's and npm's place when nothing may be installed
 *	DIR/user/		 without a private home: where code's own pip installs
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/error.h"
#include "cell/spec.h"

struct cell;

#define DEPS_MOUNT_AT	"/opt/cell/env"
#define DEPS_MODULES	"modules" /* in DIR; mounted at */
#define DEPS_MODULES_AT "/node_modules"

struct deps_place {
	const char *dir;   /* on the host */
	const char *at;	   /* in the cell */
	bool is_mounted;   /* the cell sees it through a read-only mount */
	bool is_kept;	   /* venv_dir: it outlives the cell */
	bool is_forbidden; /* allow_runtime_deps: false */
	const char *python_version, *index, *npm_registry; /* NULL: not given */
	uint64_t cache_bytes;				   /* 0: the usual */
	char **find_links;				   /* NULL-terminated */
};

bool deps_are_wanted(const struct cell_spec *spec);

/* Mounts with ours added, for as long as the cell is being made. */
struct deps_mounts {
	struct cell_mount *list;
	char **owned;
	size_t n, n_owned;
};
void deps_mounts_done(struct deps_mounts *m);
#define auto_deps_mounts __attribute__((cleanup(deps_mounts_done)))

/* Before the place is made: the directory, the record, and the mounts in *spec. Nothing when no packages are asked for. */
int deps_place_make(struct cell *c, struct cell_spec *spec, struct deps_mounts *m,
	struct cell_error *err);
/* When the guest answers: variables for commands, an empty environment, what is to be preinstalled. */
int deps_place_open(struct cell *c, const struct cell_spec *spec, struct cell_error *err);

/* What the record says; texts are the record's. CELL_ENOTSUP when the cell has no environment. */
int deps_place_of(const struct cell *c, struct deps_place *ret, struct cell_error *err);
void deps_place_done(struct deps_place *p);
#define auto_place __attribute__((cleanup(deps_place_done)))
