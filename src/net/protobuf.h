/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protobuf.h: protocol buffers by the number of the field: no descriptions, no generated code. Enough for APIs of which one uses a
 * few messages. Pure.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Writing: 0 and "" are left out, as proto3 does. 0 or negative errno. */
int pb_add_uint(struct buf *b, unsigned field, uint64_t value);
int pb_add_bytes(struct buf *b, unsigned field, const void *p, size_t n);
int pb_add_str(struct buf *b, unsigned field, const char *text); /* NULL is "" */
int pb_add_message(struct buf *b, unsigned field,
	const struct buf *message); /* also an empty one */
int pb_add_pair(struct buf *b, unsigned field, const char *key,
	const char *value); /* of a map of texts */

/* Reading. */
struct pb_field {
	unsigned number;
	uint64_t value;	     /* of a number */
	const uint8_t *data; /* of everything else; not terminated */
	size_t size;
};
struct pb_reader {
	const uint8_t *p, *end;
	bool is_broken;
};
struct pb_reader pb_read(const void *p, size_t n);
/* False at the end, or at what is no field: then is_broken. */
bool pb_next(struct pb_reader *r, struct pb_field *ret);
/* The last field of that number, as proto3 says; false: there is none. */
bool pb_find(const void *p, size_t n, unsigned number, struct pb_field *ret);
/* Its text, cut to size; "" when there is none. */
void pb_find_str(const void *p, size_t n, unsigned number, char *ret, size_t size);
void pb_text(const struct pb_field *f, char *ret, size_t size);
