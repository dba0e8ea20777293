/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bundle.h: a cell as the OCI runtime specification says it. No back end of its own: what `oci` and whoever else hands a
 * config.json to a runtime share. Nothing here runs a program or makes a file.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "core/container.h"

struct bundle {
	struct cell *c;
	const struct cell_spec *spec;
	const char *root; /* of the container, as the runtime sees it */
	const char *door; /* directory of the host with the guest's program */
	const char *tmp;  /* directory of the host that is /tmp; NULL: the root's own */
	uid_t uid;
	gid_t gid;
	bool is_alone; /* the guest leaves root for uid:gid, in a user namespace of its own that has nobody else */
	enum container_reach reach;
	bool has_hold_fd;		     /* the guest keeps fd 3 */
	bool has_floor;			     /* its filter is the user's own */
	bool has_cgroups;		     /* it has some of its own */
	bool has_memory, has_cpus, has_pids; /* with limits of these */
	bool has_nproc; /* processes are counted by RLIMIT_NPROC: their user has a namespace of its own */
	const char *group; /* name of its cgroup; NULL: as the runtime likes */
};

/* config.json; the caller's. */
int bundle_config(const struct bundle *b, json_t **ret, struct cell_error *err);

/* The ids of `name` in /etc/passwd of the topmost of these directories that has one (lowest first). */
int bundle_find_user(const char *const *layers, size_t n, const char *name, uid_t *ret_uid,
	gid_t *ret_gid, struct cell_error *err);

/* What runtimes are known to refuse a bundle with, for cell_error_known(). */
extern const struct cell_known_words bundle_words[];
