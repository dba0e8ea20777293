/* SPDX-License-Identifier: Apache-2.0 */
#include "server/histogram.h"
#include "test.h"

TEST(every_value_lies_in_its_bucket_and_buckets_grow)
{
	for (unsigned i = 1; i < HISTOGRAM_BUCKETS; i++)
		ASSERT(histogram_limit(i) > histogram_limit(i - 1));
	for (uint64_t v = 0; v < UINT64_C(1) << 33; v = v * 9 / 8 + 1) {
		struct histogram h = {0};
		unsigned i = 0;
		histogram_add(&h, v);
		while (!h.buckets[i])
			i++;
		ASSERT(v < histogram_limit(i) && (i == 0 || v >= histogram_limit(i - 1)));
		/* Known to within an eighth. */
		ASSERT(i < HISTOGRAM_SUB || (histogram_limit(i) - histogram_limit(i - 1)) * 8 <= v);
	}
}

TEST(quantiles_are_near_the_true_ones)
{
	struct histogram h = {0};

	ASSERT_EQ(histogram_quantile(&h, 500), 0);
	for (uint64_t i = 1; i <= 10000; i++)
		histogram_add(&h, i);
	for (unsigned q = 10; q <= 1000; q += 10) {
		uint64_t want = (uint64_t)q * 10, is = histogram_quantile(&h, q);
		CHECK_(is >= want && is <= want + want / 8 + 1, "%u: %llu", q,
			(unsigned long long)is);
	}
	ASSERT_EQ(histogram_quantile(&h, 1000), 10000);
	ASSERT_EQ(h.sum_us, 50005000);
	ASSERT_EQ(histogram_below(&h, 1023), 1023);
}

TEST(two_added_are_as_one_that_saw_both)
{
	struct histogram a = {0}, b = {0}, both = {0};

	for (uint64_t i = 0; i < 1000; i++) {
		histogram_add(i % 3 ? &a : &b, i * i);
		histogram_add(&both, i * i);
	}
	histogram_merge(&a, &b);
	ASSERT_MEM(&a, sizeof a, &both, sizeof both);
}

TEST(packed_and_unpacked_it_is_the_same_and_junk_is_refused)
{
	struct histogram h = {0}, again;
	struct buf out = BUF_INIT(8192);

	for (uint64_t i = 0; i < 300; i++)
		histogram_add(&h, i * i * i * i);
	histogram_add(&h, UINT64_MAX);
	ASSERT_OK(histogram_pack(&h, &out));
	ASSERT_OK(histogram_unpack(&again, out.data, out.len));
	ASSERT_MEM(&again, sizeof again, &h, sizeof h);
	ASSERT_OK(histogram_unpack(&again, "", 0));
	ASSERT_EQ(again.count, 0);
	for (size_t n = 1; n < 4; n++)
		ASSERT_ERR(histogram_unpack(&again, "\xff\xff\xff\xff", n), -EINVAL);
	ASSERT_ERR(histogram_unpack(&again, "\1\1\1\xff\x7f\1", 6), -EINVAL);
	buf_done(&out);
}
