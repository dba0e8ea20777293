/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.h: one repository of a registry that speaks the OCI distribution API (docker.io, ghcr.io, Harbor,
 * docker-registry ...). Blocking. Answers to challenges by itself, follows redirects of blobs without taking the credentials along.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cell/error.h"

#include "base/buf.h"
#include "distribution/reference.h"

struct registry;

struct registry_options {
	bool is_insecure;    /* plain HTTP, or a certificate nobody vouches for */
	const char *ca_file; /* PEM; NULL: the system's */
	bool (*is_cancelled)(void *arg);
	void *arg;
};

int registry_open(const struct reference *ref, const struct registry_options *o,
	struct registry **ret, struct cell_error *err);
void registry_free(struct registry *r); /* NULL is fine */

/* A manifest or index by tag or "sha256:...": its bytes. CELL_ENOTFOUND. */
int registry_manifest(struct registry *r, const char *which, struct buf *ret,
	struct cell_error *err);
/* A blob, piece by piece; nothing about it is believed. */
typedef int (*registry_sink)(void *arg, const void *p, size_t n);
int registry_blob(struct registry *r, const char *hex, registry_sink sink, void *arg,
	struct cell_error *err);
