/* SPDX-License-Identifier: Apache-2.0 */
/* value_list.h: what value.c and value_list.c share; nobody else includes it. */
#pragma once
#include "core/config/value.h"

int value_read_list(const struct value_context *c, const struct node *in, struct node **ret,
	struct cell_error *err);
int value_read_pairs(const struct value_context *c, const struct node *in, struct node **ret,
	struct cell_error *err);
int value_read_records(const struct value_context *c, const struct node *in, struct node **ret,
	struct cell_error *err);
int value_read_mounts(const struct value_context *c, const struct node *in, struct node **ret,
	struct cell_error *err);

/* In place. */
int value_read_scalar(const struct value_context *c, struct node *n, struct cell_error *err);
int value_read_enum(const struct value_context *c, const char *values, struct node *n,
	struct cell_error *err);
int value_check_text(const struct value_context *c, const struct node *in, struct cell_error *err);
/* "'mounts' takes a list of mounts, not ..." */
int value_refuse(const struct value_context *c, const struct node *in, struct cell_error *err);
/* Absolute, by the directory of the source or ~. -ENOENT when that is not known. */
int value_resolve_path(const struct source *source, const char *path, char **ret);
