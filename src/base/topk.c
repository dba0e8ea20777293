/* SPDX-License-Identifier: Apache-2.0 */
/* topk.c: a binary heap with the last item on top, sorted in place at the end. */
#include "base/topk.h"

#include <errno.h>
#include <stdlib.h>

static void swap(struct topk *k, size_t a, size_t b)
{
	struct topk_item *t = k->items[a];

	k->items[a] = k->items[b];
	k->items[b] = t;
}

static void sift_up(struct topk *k, size_t i)
{
	while (i > 0 && k->compare(k->items[i], k->items[(i - 1) / 2]) > 0) {
		swap(k, i, (i - 1) / 2);
		i = (i - 1) / 2;
	}
}

static void sift_down(struct topk *k, size_t n)
{
	size_t i = 0;

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= n)
			return;
		if (child + 1 < n && k->compare(k->items[child + 1], k->items[child]) > 0)
			child++;
		if (k->compare(k->items[child], k->items[i]) <= 0)
			return;
		swap(k, i, child);
		i = child;
	}
}

static bool is_over(const struct topk *k)
{
	return k->n > 1 && (k->n > k->max_items || k->bytes > k->max_bytes);
}

bool topk_has_room(const struct topk *k, const struct topk_item *item)
{
	if (k->n == 0 || (k->n < k->max_items && k->bytes + item->size <= k->max_bytes))
		return true;
	return k->compare(item, k->items[0]) < 0;
}

int topk_add(struct topk *k, struct topk_item *item)
{
	int is_dropped = 0;

	if (k->n == k->cap) {
		size_t cap = k->cap ? 2 * k->cap : 64;
		struct topk_item **items = realloc(k->items, cap * sizeof(struct topk_item *));
		if (!items) {
			free(item);
			return -ENOMEM;
		}
		k->items = items;
		k->cap = cap;
	}
	k->items[k->n++] = item;
	k->bytes += item->size;
	sift_up(k, k->n - 1);
	while (is_over(k)) {
		struct topk_item *last = k->items[0];
		k->items[0] = k->items[--k->n];
		sift_down(k, k->n);
		k->bytes -= last->size;
		free(last);
		is_dropped = 1;
	}
	return is_dropped;
}

void topk_sort(struct topk *k)
{
	for (size_t n = k->n; n > 1;) {
		swap(k, 0, --n);
		sift_down(k, n);
	}
}

void topk_done(struct topk *k)
{
	for (size_t i = 0; i < k->n; i++)
		free(k->items[i]);
	free(k->items);
	k->items = NULL;
	k->n = k->cap = k->bytes = 0;
}
