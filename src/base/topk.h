/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topk.h: the first few of many, in order, in bounded memory.
 *
 * Items are added one by one; when there are more than max_items, or more than max_bytes of them,
 * the ones that come last in the order are freed. libc only.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

/* First member of every item; items come from malloc. */
struct topk_item {
	size_t size; /* what it counts against max_bytes */
};

struct topk {
	struct topk_item **items; /* a heap, the last in order on top; sorted after topk_sort */
	size_t n, cap;
	size_t bytes;
	size_t max_items, max_bytes;
	int (*compare)(const struct topk_item *a, const struct topk_item *b);
};

/* Takes the item over, also on failure. 0, 1 when one (this or another) was dropped for lack of
 * room, -ENOMEM. One item is always kept, whatever its size. */
int topk_add(struct topk *k, struct topk_item *item);
/* Put the items in order, first first. Nothing can be added afterwards until topk_done. */
void topk_sort(struct topk *k);
/* Would an item that compares like this one be kept if added now? Saves making it. */
bool topk_has_room(const struct topk *k, const struct topk_item *item);
/* Frees all items; k is empty and usable again. */
void topk_done(struct topk *k);
