/* SPDX-License-Identifier: Apache-2.0 */
/* json_at.h: what stands at a path in a JSON value that others wrote. Where something is missing or of another type there is nothing. */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* "State/Running", "Names/0": keys of objects, numbers of lists. NULL: nothing. */
const json_t *json_at(const json_t *j, const char *path);
const char *json_text_at(const json_t *j, const char *path); /* NULL: no text */
uint64_t json_count_at(const json_t *j, const char *path);   /* 0: no number, or one below it */
bool json_is_true_at(const json_t *j, const char *path);
