/* SPDX-License-Identifier: Apache-2.0 */
/* pull.h: an image from a registry into the store, every byte checked against its digest. */
#pragma once
#include "core/image/image.h"
#include "distribution/registry.h"

struct pull_options {
	struct registry_options registry;
	struct cell_image_limits limits;
	/* Called as bytes come. total: of all layers that are fetched. May be NULL. */
	void (*progress)(void *arg, uint64_t bytes, uint64_t total);
	void *arg;
};

struct pulled {
	char manifest[DIGEST_HEX + 1]; /* digest of the manifest for this machine: what to pin */
	char image[CELL_IMAGE_DIGEST_CAP]; /* what the store calls it */
	uint64_t bytes;			   /* fetched */
	size_t n_layers, n_fetched;
};

/* The name in the store is the reference as written. */
int image_pull(const char *reference, const struct pull_options *o, struct pulled *ret,
	struct cell_error *err);
