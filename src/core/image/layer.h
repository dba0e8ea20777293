/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layer.h: take one layer of an image out of its tar, trusting nothing in it.
 *
 * Not base/untar.h, whose archives end up where people work: a layer is only ever a lower directory
 * of an overlay inside a cell, so its symbolic links may point anywhere and are kept as they are;
 * nobody follows them here. Nothing is made or changed outside dir_fd: names with '..', entries
 * that would go through a link (also one of the same archive), hard links to what is not in the
 * layer are errors, and so is the whole layer then. Devices and fifos are passed over, set-id bits
 * and extended attributes dropped. A leading '/' means the root of the layer.
 *
 * Whiteouts become what overlay reads: ".wh.NAME" a character device 0:0, ".wh..wh..opq" the
 * attribute overlay.opaque (user.*, as root trusted.* too). They hide what lower layers have, never
 * what this one has.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/tar.h"

#define LAYER_OPAQUE_USER    "user.overlay.opaque"
#define LAYER_OPAQUE_TRUSTED "trusted.overlay.opaque"

struct layer_limits {
	uint64_t max_bytes; /* of file data */
	uint64_t max_entries;
};

struct layer_result {
	uint64_t bytes, entries, skipped;
};

/* dir_fd (O_PATH will do) is an empty directory, borrowed. Reads up to the end mark. */
int layer_unpack(struct tar_reader *in, int dir_fd, const struct layer_limits *limits,
	struct layer_result *ret, struct cell_error *err);

/* Can overlay's trusted attributes be set there, or only those of `userxattr`? */
bool layer_has_trusted(int dir_fd);
/* Does the layer hide everything below it? Overlay does not look at its roots. */
bool layer_is_opaque(int dir_fd);
