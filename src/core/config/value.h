/* SPDX-License-Identifier: Apache-2.0 */
/* value.h: from what was written to what it means, by the type of its key. */
#pragma once
#include "core/config/schema.h"

#define LIST_MAX   1024u
#define PAIRS_MAX  4096u
#define MOUNTS_MAX 256u

struct value_context {
	const struct config_key *key;
	const struct config_alias *alias; /* NULL: the canonical spelling */
	const char *backend;		  /* whose units count; NULL: none known */
	const char *spelling;		  /* as the user wrote the key */
};

/* A new node in canonical form, its place and key that of `in`. Scalars have `number` set; enums
 * and back ends the canonical word as text; pairs are a map of strings (null: take it away); mounts
 * a list of maps with source, target, read_only. A null stays null: "not set". */
int value_read(const struct value_context *c, const struct node *in, struct node **ret,
	struct cell_error *err);
/* The value of a scalar as the user would write it. */
#define VALUE_TEXT_MAX 64
const char *value_number_text(enum key_type type, uint64_t number, char buf[VALUE_TEXT_MAX]);
