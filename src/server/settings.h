/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h: keys of the configuration as plain values, for the server's modules. cfg may be
 * NULL: nothing is set. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "core/config/config.h"

const struct node *setting(const struct cell_config *cfg, const char *path); /* NULL: not set */
const char *setting_text(const struct cell_config *cfg, const char *path, const char *otherwise);
uint64_t setting_number(const struct cell_config *cfg, const char *path, uint64_t otherwise);
bool setting_bool(const struct cell_config *cfg, const char *path, bool otherwise);
/* A list of texts, NULL-terminated, the texts borrowed; caller frees the array. NULL on no
 * memory. */
const char **setting_list(const struct cell_config *cfg, const char *path);

struct audit_settings;
/* The keys below server.audit, with what is usual for the rest. dir, key_path and redact are the
 * caller's. */
void audit_settings_read(const struct cell_config *cfg, struct audit_settings *ret);
/* server.audit.redact as rules; *ret is NULL when there are none. */
struct redact;
int audit_redact_read(const struct cell_config *cfg, struct redact **ret, struct cell_error *err);
