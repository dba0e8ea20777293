/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.h: configuration. Layers, weakest first: the system's (/etc/cell/cell.yaml), the user's
 * ($XDG_CONFIG_HOME/cell/cell.yaml), the workspace's (cell.yaml or cognition.yaml, found from the
 * current directory upwards), a file given by path, CELL_* environment variables, then what the
 * caller sets. docs/configuration.md lists every key.
 */
#ifndef CELL_CONFIG_H
#define CELL_CONFIG_H

#include <cell/error.h>
#include <cell/spec.h>
#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct cell_config;

struct cell_config_args {
	const char *path;      /* an explicit file, over the discovered ones; NULL: none */
	const char *directory; /* where discovery begins; NULL: the current directory */
	bool no_files;	       /* only `path` and what is set */
	bool no_env;	       /* ignore CELL_* variables */
};

/* Read, merge and validate all layers. An unknown key or a bad value is CELL_EINVAL with
 * "file:line:column: ..." and the nearest known key as the hint. */
int cell_config_load(const struct cell_config_args *args, struct cell_config **ret,
	struct cell_error *err);
void cell_config_free(struct cell_config *cfg);

/* Set one key over all layers: "limits.memory", "512m". `origin` names where it came from in errors
 * ("--memory"). Lists (env, mounts, network.allow, labels, needs) are added to. */
int cell_config_set(struct cell_config *cfg, const char *key, const char *value, const char *origin,
	struct cell_error *err);

/* The cell it describes. Valid until the next set or free. */
int cell_config_spec(struct cell_config *cfg, const struct cell_spec **ret, struct cell_error *err);

/* The merged configuration, canonical names, secrets as "***"; with_origin adds where each value
 * came from. Caller frees. */
enum cell_config_format {
	CELL_CONFIG_YAML,
	CELL_CONFIG_JSON,
};
int cell_config_dump(struct cell_config *cfg, enum cell_config_format format, bool with_origin,
	char **ret, struct cell_error *err);

/* The files that were read, weakest first, NULL-terminated. */
const char *const *cell_config_files(const struct cell_config *cfg);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
