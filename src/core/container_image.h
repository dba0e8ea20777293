/* SPDX-License-Identifier: Apache-2.0 */
/* container_image.h: which image a cell in a container begins with: the one its spec names, pulled as its policy says, or a snapshot's. */
#pragma once
#include "core/backend.h"

/* Whose images they are, and how they are had. */
struct container_images {
	const char *backend;
	const char *owner; /* "the Docker engine" */
	const char *fix;   /* when there is none and none may be pulled */
	/* -ENOENT, *err untouched: there is none of that name. */
	int (*find)(void *user, const char *name, struct cell_error *err);
	/* Fetches the one that the spec names. 0: it is to be found by that name; 1: it has been. */
	int (*pull)(void *user, const struct cell_spec *spec, struct cell_error *err);
	void *user;
};
/* find or pull have found it. */
int container_image(const struct cell_spec *spec, const struct container_images *of,
	struct cell_error *err);
/* There is no image of that name. */
int container_image_missing(const struct container_images *of, const char *name,
	struct cell_error *err);
