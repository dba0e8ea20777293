/* SPDX-License-Identifier: Apache-2.0 */
/* histogram.c: see histogram.h. Values below 8 us have a bucket each; from there on each doubling
 * has eight. */
#include "server/histogram.h"

#include <errno.h>
#include <string.h>

#define SUB_BITS 3
#define LAST	 (HISTOGRAM_BUCKETS - 1)

static unsigned bucket_of(uint64_t us)
{
	if (us < HISTOGRAM_SUB)
		return (unsigned)us;
	unsigned top = 63 - (unsigned)__builtin_clzll(us);
	unsigned bucket = (top - SUB_BITS + 1) * HISTOGRAM_SUB +
			  (unsigned)(us >> (top - SUB_BITS) & (HISTOGRAM_SUB - 1));
	return bucket < LAST ? bucket : LAST;
}

uint64_t histogram_limit(unsigned bucket)
{
	if (bucket >= LAST)
		return UINT64_MAX;
	bucket++;
	if (bucket < HISTOGRAM_SUB)
		return bucket;
	unsigned shift = bucket / HISTOGRAM_SUB - 1;
	return (uint64_t)(HISTOGRAM_SUB + bucket % HISTOGRAM_SUB) << shift;
}

static void count(uint32_t *at, uint64_t n)
{
	*at = n > UINT32_MAX - *at ? UINT32_MAX : *at + (uint32_t)n;
}

static void sum(uint64_t *at, uint64_t n)
{
	*at = n > UINT64_MAX - *at ? UINT64_MAX : *at + n;
}

void histogram_add(struct histogram *h, uint64_t us)
{
	sum(&h->count, 1);
	sum(&h->sum_us, us);
	h->max_us = us > h->max_us ? us : h->max_us;
	count(&h->buckets[bucket_of(us)], 1);
}

void histogram_merge(struct histogram *into, const struct histogram *from)
{
	sum(&into->count, from->count);
	sum(&into->sum_us, from->sum_us);
	into->max_us = from->max_us > into->max_us ? from->max_us : into->max_us;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		count(&into->buckets[i], from->buckets[i]);
}

uint64_t histogram_quantile(const struct histogram *h, unsigned thousandths)
{
	uint64_t total = 0, seen = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		total += h->buckets[i];
	/* The smallest rank that covers the share; at least the first value. */
	uint64_t rank = (total / 1000) * thousandths + ((total % 1000) * thousandths + 999) / 1000;
	for (unsigned i = 0; total && i < HISTOGRAM_BUCKETS; i++) {
		seen += h->buckets[i];
		if (seen && seen >= rank) {
			uint64_t end = histogram_limit(i) - 1;
			return end < h->max_us ? end : h->max_us;
		}
	}
	return 0;
}

uint64_t histogram_below(const struct histogram *h, uint64_t us)
{
	uint64_t n = 0;

	for (unsigned i = 0; i < HISTOGRAM_BUCKETS && histogram_limit(i) - 1 <= us; i++)
		n += h->buckets[i];
	return n;
}

static int put(struct buf *out, uint64_t n)
{
	int r = 0;

	for (; r == 0 && n >= 0x80; n >>= 7)
		r = buf_addc(out, (char)(n | 0x80));
	return r < 0 ? r : buf_addc(out, (char)n);
}

int histogram_pack(const struct histogram *h, struct buf *out)
{
	unsigned last = 0;
	int r = put(out, h->count);

	if (r == 0)
		r = put(out, h->sum_us);
	if (r == 0)
		r = put(out, h->max_us);
	for (unsigned i = 0; r == 0 && i < HISTOGRAM_BUCKETS; i++) {
		if (!h->buckets[i])
			continue;
		r = put(out, i - last);
		if (r == 0)
			r = put(out, h->buckets[i]);
		last = i;
	}
	return r;
}

static int get(const uint8_t **p, const uint8_t *end, uint64_t *ret)
{
	*ret = 0;
	for (unsigned shift = 0; *p < end && shift < 64; shift += 7) {
		uint8_t byte = *(*p)++;
		if (shift == 63 && byte > 1)
			return -EINVAL;
		*ret |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return 0;
	}
	return -EINVAL;
}

int histogram_unpack(struct histogram *h, const void *bytes, size_t len)
{
	const uint8_t *p = bytes, *end = p + len;
	uint64_t bucket = 0, n, step;

	memset(h, 0, sizeof *h);
	if (!len)
		return 0;
	if (get(&p, end, &h->count) < 0 || get(&p, end, &h->sum_us) < 0 ||
		get(&p, end, &h->max_us) < 0)
		return -EINVAL;
	while (p < end) {
		if (get(&p, end, &step) < 0 || step > LAST || (bucket += step) > LAST ||
			get(&p, end, &n) < 0 || n > UINT32_MAX)
			return -EINVAL;
		h->buckets[bucket] = (uint32_t)n;
	}
	return 0;
}
