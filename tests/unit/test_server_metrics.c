/* SPDX-License-Identifier: Apache-2.0 */
#include "server/ledger.h"
#include "test.h"

static const struct metrics_family families[] = {
	{METRICS_COUNTER, "a_total", "Things.", {"who", "what"}},
	{METRICS_GAUGE, "b", "A level.", {NULL}},
	{METRICS_SECONDS, "c_seconds", "Times.", {"x"}},
	{METRICS_COUNTER_SECONDS, "d_seconds_total", "Sum\nof \\ times.", {NULL}},
	{0},
};

static struct metrics *fresh(void)
{
	struct metrics *m = NULL;

	ASSERT_OK(metrics_new(families, &m));
	return m;
}

static const char *text_of(struct metrics *m)
{
	static struct buf out = BUF_INIT(METRICS_TEXT_MAX);

	buf_reset(&out);
	ASSERT_OK(metrics_text(m, &out));
	return buf_str(&out);
}

TEST(values_appear_with_their_labels)
{
	struct metrics *m = fresh();

	metrics_add(m, 0, (const char *[]){"me", "that"}, 2);
	metrics_add(m, 0, (const char *[]){"me", "that"}, 3);
	metrics_set(m, 1, NULL, -7);
	metrics_add(m, 3, NULL, 1500000);
	const char *text = text_of(m);
	ASSERT_HAS(text, "# HELP a_total Things.\n# TYPE a_total "
			 "counter\na_total{who=\"me\",what=\"that\"} 5\n");
	ASSERT_HAS(text, "# TYPE b gauge\nb -7\n");
	ASSERT_HAS(text, "# HELP d_seconds_total Sum\\nof \\\\ times.\n# TYPE d_seconds_total "
			 "counter\nd_seconds_total 1.500000\n");
	ASSERT_HAS(text, "cell_build_info{version=");
	ASSERT_HAS(text, "process_open_fds ");
	ASSERT_HAS(text, "process_start_time_seconds 1");
	metrics_free(m);
}

TEST(a_histogram_counts_upwards_to_all)
{
	struct metrics *m = fresh();

	metrics_observe(m, 2, (const char *[]){"y"}, 100);
	metrics_observe(m, 2, (const char *[]){"y"}, 1000);
	metrics_observe(m, 2, (const char *[]){"y"}, 4000000000);
	const char *text = text_of(m);
	ASSERT_HAS(text, "c_seconds_bucket{x=\"y\",le=\"0.00025\"} 1\n");
	ASSERT_HAS(text, "c_seconds_bucket{x=\"y\",le=\"0.001\"} 2\n");
	ASSERT_HAS(text, "c_seconds_bucket{x=\"y\",le=\"600\"} 2\n");
	ASSERT_HAS(text, "c_seconds_bucket{x=\"y\",le=\"+Inf\"} 3\nc_seconds_sum{x=\"y\"} "
			 "4000.001100\nc_seconds_count{x=\"y\"} 3\n");
	metrics_free(m);
}

TEST(labels_cannot_break_out_of_their_quotes)
{
	struct metrics *m = fresh();

	metrics_add(m, 0, (const char *[]){"a\"} 1\nevil 2", "b\\\x01"}, 1);
	ASSERT_HAS(text_of(m), "a_total{who=\"a\\\"} 1\\nevil 2\",what=\"b\\\\?\"} 1\n");
	metrics_free(m);
}

TEST(a_client_cannot_make_series_without_end)
{
	struct metrics *m = fresh();
	char name[32];

	for (int i = 0; i < METRICS_SERIES_MAX + 100; i++) {
		(void)snprintf(name, sizeof name, "t%d", i);
		metrics_add(m, 0, (const char *[]){name, "x"}, 1);
	}
	const char *text = text_of(m);
	ASSERT_HAS(text, "a_total{who=\"other\",what=\"other\"} 100\n");
	int n = 0;
	for (const char *p = text; (p = strstr(p, "a_total{")); p++)
		n++;
	ASSERT_EQ(n, METRICS_SERIES_MAX + 1);
	metrics_free(m);
}

TEST(the_ledgers_families_fit_the_table)
{
	for (int i = 0; i < LEDGER_METRIC_COUNT; i++)
		ASSERT(ledger_families[i].name && ledger_families[i].labels[0]);
}
