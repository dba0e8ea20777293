/* SPDX-License-Identifier: Apache-2.0 */
/*
 * yaml.h: YAML text to nodes. The plain part of YAML 1.2 that configuration needs: mappings, lists
 * and scalars of the core schema. Refused, with the place: anchors, aliases, tags, duplicate keys,
 * keys that are not scalars, further documents, NUL bytes, and whatever passes a limit below.
 */
#pragma once
#include "core/config/node.h"

#define YAML_MAX_BYTES (1024u * 1024)
#define YAML_MAX_DEPTH 32u
#define YAML_MAX_NODES 50000u

/* The document of `text`; *ret is NULL when it is empty. */
int yaml_parse(const char *text, size_t len, const struct source *source, struct node **ret,
	struct cell_error *err);
