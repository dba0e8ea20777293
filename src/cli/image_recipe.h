/* SPDX-License-Identifier: Apache-2.0 */
/* image_recipe.h: what an image is made of, as images/<name>/recipe.yaml says it. */
#pragma once
#include <stddef.h>

#include "cell/error.h"

struct image_recipe {
	char *name, *suite, *workdir; /* workdir may be NULL */
	char *packages;		      /* separated by commas */
	char **env;		      /* "K=V", NULL-terminated */
	char **cmd;		      /* likewise */
};

/* `path` is the file, or a directory that has recipe.yaml. An unknown key is an error with its place. */
int image_recipe_read(const char *path, struct image_recipe *ret, struct cell_error *err);
void image_recipe_done(struct image_recipe *r);
