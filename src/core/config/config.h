/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h: the configuration from the inside. A configuration is one value for each key of the
 * schema, in canonical form, each with the place it came from; a layer is the same, and merging is
 * taking the stronger one.
 */
#pragma once
#include "cell/config.h"

#include "core/config/schema.h"

struct spec_store;

struct cell_config {
	struct source *sources;
	struct node *values[CONFIG_KEYS_MAX]; /* by index in config_keys; NULL: not set */
	char **files;			      /* NULL-terminated */
	size_t n_files;
	struct spec_store *spec; /* made on demand, dropped by every set */
};

/* A new source, owned by cfg. directory may be NULL. NULL: no memory. */
struct source *config_source(struct cell_config *cfg, enum source_kind kind, const char *name,
	const char *directory);

/* The value of a canonical path; NULL when not set. */
const struct node *config_value(struct node *const *values, const char *path);

/* apply.c: check the keys and values of a document (a map) and lay it over cfg. */
int config_apply(struct cell_config *cfg, const struct node *document, struct cell_error *err);
/* One value, by any spelling; lists are added to. */
int config_apply_one(struct cell_config *cfg, const char *spelling, const struct node *value,
	struct cell_error *err);

/* check.c: do the values go together? A layer is also checked for keys of other back ends. */
int config_check(struct node *const *values, bool is_layer, struct cell_error *err);

/* layers.c */
int config_read_layers(struct cell_config *cfg, const struct cell_config_args *args,
	struct cell_error *err);
/* env_layer.c */
int config_read_variables(struct cell_config *cfg, char *const *variables, struct cell_error *err);

/* spec_build.c */
int spec_build(struct node *const *values, struct spec_store **ret, struct cell_error *err);
const struct cell_spec *spec_of(const struct spec_store *store);
void spec_store_free(struct spec_store *store);

/* A configuration from text alone: no files, no variables. For tests, fuzzers, and whoever has a
 * document in hand. */
int cell_config_load_text(const char *name, const char *text, size_t len, struct cell_config **ret,
	struct cell_error *err);
/* Is this value not to be shown? */
bool config_is_secret(const struct config_key *key, const char *pair_name);
