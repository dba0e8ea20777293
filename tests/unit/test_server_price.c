/* SPDX-License-Identifier: Apache-2.0 */
#include "config_helper.h"
#include "server/price.h"
#include "server/usage.h"

static struct prices *prices_from(const char *text)
{
	struct cell_config *cfg = config_of(text);
	struct prices *p = NULL;
	struct cell_error err = {0};

	ASSERT_OK(prices_new(cfg, &p, &err));
	cell_config_free(cfg);
	return p;
}

TEST(a_price_is_that_of_the_back_end_or_of_all_others)
{
	struct prices *p = prices_from("server:\n  currency: EUR\n  prices:\n"
				       "    '*': {cpu_second: 0.000001}\n"
				       "    aws_ecs: {cpu_second: 0.00001, session: 0.5}\n");

	ASSERT_STR(prices_currency(p), "EUR");
	ASSERT_EQ(prices_of(p, "ecs_fargate").cpu_second, 10000);
	ASSERT_EQ(prices_of(p, "jail").cpu_second, 1000);
	ASSERT_EQ(prices_of(NULL, "jail").cpu_second, 0);
	prices_free(p);
}

TEST(cost_is_exact_and_rounds_up)
{
	struct price p = {.cpu_second = 10000,
		.gib_second = 2000,
		.session = 500000000,
		.gib_egress = 50000000};
	struct usage_total t = {.cpu_us = 2500000,
		.mib_ms = 512 * 10000,
		.sessions = 3,
		.bytes_out = UINT64_C(2) << 30};

	/* 25000 + 5 GiB-seconds * 2000 + 1.5e9 + 1e8 */
	ASSERT_EQ(price_cost(&p, &t), 25000 + 10000 + 1500000000 + 100000000);
	ASSERT_EQ(price_cost(&p, &(struct usage_total){.cpu_us = 1}), 1);
	ASSERT_EQ(price_cost(&p, &(struct usage_total){0}), 0);
	p.cpu_second = UINT64_MAX;
	ASSERT(price_cost(&p, &(struct usage_total){.cpu_us = UINT64_MAX}) == UINT64_MAX);
}

TEST(money_is_shown_without_needless_digits)
{
	char text[PRICE_TEXT_MAX];

	ASSERT_STR(price_text(0, text), "0.00");
	ASSERT_STR(price_text(1500000000, text), "1.50");
	ASSERT_STR(price_text(120000, text), "0.00012");
	ASSERT_STR(price_text(1, text), "0.000000001");
}

TEST(a_price_that_is_none_is_refused_with_its_place)
{
	refuses("server:\n  prices:\n    jail: {cpu_second: cheap}\n",
		"cell.yaml:3:24: 'cpu_second' takes a price, not 'cheap'", NULL);
	refuses("server:\n  prices:\n    jail: {cpu_secnd: 1}\n",
		"cell.yaml:3:12: 'server.prices' has no field 'cpu_secnd'",
		"did you mean 'cpu_second'?");
	refuses("server:\n  prices: [1]\n",
		"cell.yaml:2:11: 'server.prices' takes a mapping of names to mappings, not a list",
		NULL);
	refuses("server:\n  prices: {jail: 1}\n",
		"cell.yaml:2:18: 'server.prices': an entry is a number; it should be a mapping",
		NULL);
}
