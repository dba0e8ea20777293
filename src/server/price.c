/* SPDX-License-Identifier: Apache-2.0 */
/* price.c: see price.h. */
#include "server/price.h"

#include <stdio.h>
#include <string.h>

#include "server/settings.h"
#include "server/usage.h"

#define UNIT 1000000000u

struct prices {
	char currency[8];
	size_t n;
	struct {
		char backend[64];
		struct price price;
	} of[];
};

static uint64_t field(const struct node *map, const char *name)
{
	const struct node *n = node_get(map, name);

	return n ? n->number : 0;
}

int prices_new(struct cell_config *cfg, struct prices **ret, struct cell_error *err)
{
	const struct node *list = setting(cfg, "server.prices");
	size_t count = list ? list->n_items : 0;
	struct prices *p = calloc(1, sizeof *p + count * sizeof p->of[0]);

	if (!p)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "reading the prices");
	(void)snprintf(p->currency, sizeof p->currency, "%s",
		setting_text(cfg, "server.currency", "USD"));
	for (size_t i = 0; i < count; i++) {
		const struct node *row = list->items[i];
		/* Any of a back end's names will do. */
		const char *name = backend_canonical(row->key);
		(void)snprintf(p->of[i].backend, sizeof p->of[i].backend, "%s",
			name ? name : row->key);
		p->of[i].price = (struct price){.cpu_second = field(row, "cpu_second"),
			.gib_second = field(row, "gib_second"),
			.session = field(row, "session"),
			.gib_egress = field(row, "gib_egress")};
	}
	p->n = count;
	*ret = p;
	return 0;
}

void prices_free(struct prices *p)
{
	free(p);
}

const char *prices_currency(const struct prices *p)
{
	return p ? p->currency : "USD";
}

struct price prices_of(const struct prices *p, const char *backend)
{
	struct price found = {0};

	for (size_t i = 0; p && i < p->n; i++) {
		if (!strcmp(p->of[i].backend, backend))
			return p->of[i].price;
		if (!strcmp(p->of[i].backend, "*"))
			found = p->of[i].price;
	}
	return found;
}

uint64_t price_cost(const struct price *price, const struct usage_total *total)
{
	/* 128 bits: no product of two numbers of 64 is lost, and three sums of them fit once
	 * divided. */
	unsigned __int128 cost = (unsigned __int128)price->session * total->sessions;
	unsigned __int128 gib_ms = (unsigned __int128)total->mib_ms * price->gib_second;

	cost += ((unsigned __int128)total->cpu_us * price->cpu_second + 999999) / 1000000;
	cost += (gib_ms + 1024 * 1000 - 1) / (1024 * 1000);
	cost += ((unsigned __int128)total->bytes_out * price->gib_egress + (1u << 30) - 1) >> 30;
	return cost > UINT64_MAX ? UINT64_MAX : (uint64_t)cost;
}

const char *price_text(uint64_t billionths, char out[PRICE_TEXT_MAX])
{
	int n = snprintf(out, PRICE_TEXT_MAX, "%llu.%09llu",
		(unsigned long long)(billionths / UNIT), (unsigned long long)(billionths % UNIT));

	while (out[n - 1] == '0' && out[n - 3] != '.')
		out[--n] = '\0';
	return out;
}
