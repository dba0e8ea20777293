/* SPDX-License-Identifier: Apache-2.0 */
/*
 * price.h: what usage costs. Prices are in billionths of the currency, so that sums are exact;
 * cost is too.
 *
 *	server:
 *	  currency: EUR
 *	  prices:
 *	    jail:    {cpu_second: 0.00001, gib_second: 0.000002, session: 0, gib_egress: 0.05}
 *	    "*":     {...}      # back ends that are not named
 */
#pragma once
#include <stdint.h>

#include "base/error.h"

struct cell_config;
struct usage_total;

struct price {
	uint64_t cpu_second, gib_second, session, gib_egress; /* billionths */
};
struct prices;
int prices_new(struct cell_config *cfg, struct prices **ret, struct cell_error *err);
void prices_free(struct prices *p);
const char *prices_currency(const struct prices *p); /* "USD" unless set */
/* Of a back end; all zero when it has none and "*" neither. p may be NULL. */
struct price prices_of(const struct prices *p, const char *backend);
/* Billionths, rounded up; stops at the largest number. */
uint64_t price_cost(const struct price *price, const struct usage_total *total);
/* "0.000120", at least two digits behind the point, no more than needed. */
#define PRICE_TEXT_MAX 32
const char *price_text(uint64_t billionths, char out[PRICE_TEXT_MAX]);
