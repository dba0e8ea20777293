/* SPDX-License-Identifier: Apache-2.0 */
/* enter.h: going into a root tree with a mount namespace of its own. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define CHROOT_MOUNTS_MAX 64
#define CHROOT_WORKSPACE  "/workspace"
#define CHROOT_SPOOL	  "/dev/.cell/spool" /* in a tmpfs of ours: no name taken in the tree */

/* Filled by the parent; all paths are the host's and absolute unless said otherwise. */
struct chroot_plan {
	const char *root;
	const char *workspace;
	const char *spool;
	struct chroot_mount {
		const char *source;
		const char *target; /* in the cell */
		bool is_read_only;
	} mounts[CHROOT_MOUNTS_MAX];
	size_t n_mounts;

	const char *failed; /* what was attempted when chroot_enter failed, and */
	const char *failed_path;
};

/* In the child, before exec; async-signal-safe. 0 or a negative errno. Everything mounted lives in a mount
 * namespace that ends with its last process; the host sees none of it. */
int chroot_enter(void *plan);
