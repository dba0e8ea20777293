/* SPDX-License-Identifier: Apache-2.0 */
/*
 * histogram.h: how long things took, in fixed memory. Buckets are log-linear: eight to each
 * doubling, so a value is known to within an eighth. From 1 us to 4.7 hours; what is beyond
 * counts in the last bucket. Two can be added. Pure.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define HISTOGRAM_SUB	  8 /* buckets a doubling */
#define HISTOGRAM_BUCKETS 257

struct histogram {
	uint64_t count;
	uint64_t sum_us;
	uint64_t max_us;
	uint32_t buckets[HISTOGRAM_BUCKETS]; /* stop at their largest value */
};

void histogram_add(struct histogram *h, uint64_t us);
void histogram_merge(struct histogram *into, const struct histogram *from);
/* The value that this many thousandths are not above (500: the median): the upper end of its
 * bucket, never more than the largest seen. 0 when empty. */
uint64_t histogram_quantile(const struct histogram *h, unsigned thousandths);
/* Values at or below us, counting whole buckets. */
uint64_t histogram_below(const struct histogram *h, uint64_t us);
/* The smallest value beyond bucket i. */
uint64_t histogram_limit(unsigned bucket);

/* A few bytes: only buckets that hold something. */
int histogram_pack(const struct histogram *h, struct buf *out);
/* -EINVAL when it is none. */
int histogram_unpack(struct histogram *h, const void *bytes, size_t len);
