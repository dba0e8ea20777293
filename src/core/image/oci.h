/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci.h: the JSON of images: OCI index, manifest and configuration, `docker save`'s manifest.json,
 * and our own record. Texts in, structures out: no file is opened here, and nothing is believed
 * about sizes and digests but their form.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/image/digest.h"

#define OCI_MAX_JSON (4u * 1024 * 1024)

struct oci_blob {
	char hex[DIGEST_HEX + 1];
	uint64_t size;
};

/* Which manifest (is_index: again an index) is for this machine. Attestations are passed over; two
 * that fit are an error, since nobody said which. */
int oci_index_parse(const char *text, size_t len, struct oci_blob *ret, bool *is_index,
	struct cell_error *err);

struct oci_manifest {
	struct oci_blob config;
	struct oci_blob *layers;
	size_t n_layers;
};
int oci_manifest_parse(const char *text, size_t len, struct oci_manifest *ret,
	struct cell_error *err);
void oci_manifest_done(struct oci_manifest *m);

/* manifest.json of `docker save`: exactly one image. Paths are as they are written there. */
struct docker_manifest {
	char *config;
	char **layers; /* NULL-terminated */
	size_t n_layers;
};
int docker_manifest_parse(const char *text, size_t len, struct docker_manifest *ret,
	struct cell_error *err);
void docker_manifest_done(struct docker_manifest *m);

struct oci_config {
	char **env, **entrypoint, **cmd; /* NULL-terminated, or NULL */
	char *cwd, *user;		 /* or NULL */
	char (*layers)[DIGEST_HEX + 1];	 /* of the tars, lowest first */
	size_t n_layers;
	bool is_user_xattr; /* records only */
};
/* An image for another system or architecture is CELL_ENOTSUP. */
int oci_config_parse(const char *text, size_t len, struct oci_config *ret, struct cell_error *err);
void oci_config_done(struct oci_config *c);
/* Its settings alone, as engines tell them with the same words. */
int oci_settings_read(json_t *config, struct oci_config *ret, struct cell_error *err);

/* The same as we keep it. */
int image_record_write(const struct oci_config *c, char **ret, struct cell_error *err);
int image_record_parse(const char *text, size_t len, struct oci_config *ret,
	struct cell_error *err);
