/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci.h: a container by an OCI runtime alone, without a daemon.
 *
 *	oci.c      the slots
 *	plan.c     from a spec to a bundle: its directory, and a root that only the runtime sees
 *	runtime.c  finding the runtime's program and running it
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "backends/bundle/bundle.h"
#include "core/backend.h"
#include "core/image/image.h"

#define OCI_GROUP "cell-oci-" /* how its cgroups' names begin */

/* ---- runtime.c ---- */

/* The program of that name or path (NULL: the first of runc and crun there is); caller frees. */
int oci_runtime_find(const char *name, char **ret, struct cell_error *err);

struct oci_call {
	const char *program;
	const char *directory;	  /* of the cell: the runtime's state and its log are below it */
	const char *const *args;  /* behind the global options, NULL-terminated */
	int pass_fd;		  /* becomes fd 3; -1: none */
	int (*enter)(void *user); /* in the child, async-signal-safe; 0 or -errno */
	void *user;
};
/* Run it to its end. 0, or an error with the last thing it said. *ret_said (may be NULL): that, on failure. */
int oci_runtime_call(const struct oci_call *call, char *said, size_t size, struct cell_error *err);

/* ---- plan.c ---- */

struct oci_plan {
	struct cell *c;
	const struct cell_spec *spec;
	struct cell_image image;
	const char *id;
	const char *door; /* on the host */
	uid_t uid;
	gid_t gid;
	/* for oci_enter */
	char *layers;	      /* overlay's lowerdir */
	char *bundle;	      /* <cell>/bundle */
	char *root, *scratch; /* below it */
	char *overlay;	      /* mount options */
	char tmpfs[80];	      /* of scratch; "": a directory on disk */
};
#define OCI_PLAN_INIT                    \
	{                                \
		.image = CELL_IMAGE_INIT \
	}
void oci_plan_done(struct oci_plan *p);
/* The image, the user, the directories; then the file. */
int oci_plan_make(struct oci_plan *p, struct cell_error *err);
int oci_bundle_write(struct oci_plan *p, struct cell_error *err);
/* In the runtime's process before it begins: a mount namespace in which the bundle's root is the image under scratch space. It
 * goes when the runtime and the container have: nothing is ever mounted on the host. */
int oci_enter(void *plan);
