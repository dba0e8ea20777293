/* SPDX-License-Identifier: Apache-2.0 */
/*
 * untar.h: take a tar stream out below a directory, trusting nothing in it.
 *
 * Nothing is ever made, changed or followed outside dir_fd. Refused: absolute names, '..', devices,
 * fifos and whatever tar may know besides; symbolic links that are absolute, that climb above
 * dir_fd or have a '..' behind a name (what it means would depend on other links); hard links to
 * anything but a regular file below dir_fd; any entry that would go through a symbolic link, there
 * before or from the archive. A refused entry is passed over, the rest is taken out, and the call
 * then fails with CELL_EDENIED naming the first. Set-id bits are dropped, owners are not restored.
 *
 * Files and links replace what has their name, a link itself never its target; a directory is never
 * replaced. Each file appears whole or not at all, with holes for blocks of zeros: what took no space
 * where the archive was made takes none here. Existing directories are merged into. libc only.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"
#include "base/tar.h"

#define UNTAR_MAX_ENTRIES 4000000u
#define UNTAR_MAX_DEPTH	  256

struct untar_result {
	uint64_t entries; /* taken out, or passed over in a root tree */
	uint64_t refused;
	uint64_t bytes; /* of file data */
};

/* What is taken out, and how. */
enum untar_kind {
	UNTAR_FILES, /* as above */
	/* A root tree: its links are meant for whoever has it as /, so they may say anything (and
	 * are followed here as little as others); devices and fifos are passed over, a tree gets a
	 * /dev; owners are restored where we may. */
	UNTAR_ROOT_TREE,
};

/* dir_fd (O_PATH will do) is borrowed. *ret (may be NULL) is filled on failure too. Reads up to the
 * end mark; max_entries 0 means UNTAR_MAX_ENTRIES, more is CELL_ELIMIT. */
int untar(struct tar_reader *in, int dir_fd, enum untar_kind kind, uint64_t max_entries,
	struct untar_result *ret, struct cell_error *err);
