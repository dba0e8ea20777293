/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h: uthash that does not end the process when memory is out. After HASH_ADD ask table_has():
 * false means that the element is not in the table and still the caller's.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* FNV-1a. uthash's own is a macro that compilers complain about wherever it is used. */
static inline unsigned table_hash(const void *key, size_t n)
{
	const uint8_t *p = key;
	uint32_t h = 2166136261u;

	for (size_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 16777619u;
	return h ^ h >> 15;
}

#define HASH_FUNCTION(key, n, ret) ((ret) = table_hash(key, n))
#define HASH_NONFATAL_OOM	   1
#include <uthash.h>

#define table_has(element) ((element)->hh.tbl != NULL)
