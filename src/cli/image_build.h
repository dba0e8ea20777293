/* SPDX-License-Identifier: Apache-2.0 */
/* image_build.h: from a recipe to an image in the store. */
#pragma once
#include "cell/error.h"

struct cli;

struct image_build {
	const char *recipe; /* a file, or a directory with recipe.yaml */
	const char *name;   /* NULL: the recipe's */
	const char *mirror; /* NULL: this machine's own */
	const char *output; /* a tarball as well, OCI layout and `docker load` in one; NULL: none */
};

/* digest_ret takes CELL_IMAGE_DIGEST_CAP bytes. */
int image_build(const struct cli *cli, const struct image_build *b, char *digest_ret,
	struct cell_error *err);
