/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_policy.c: a configuration with rules, prices, quotas; what is accepted decides. */
#include <stdlib.h>

#include "core/config/config.h"
#include "server/guard.h"
#include "server/policy.h"
#include "server/price.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cell_config *cfg = NULL;
	struct policy *p = NULL;
	struct guard_settings *g = NULL;
	struct prices *prices = NULL;
	struct cell_error err = {0};
	struct policy_request q = {.tenant = "acme",
		.role = "user",
		.action = "exec.start",
		.backend = "jail",
		.argv = (const char *const[]){"/usr/bin/curl", "http://x/y", NULL},
		.labels = (const char *const[]){"a=b", NULL},
		.unix_ns = 1700000000000000000};
	struct policy_decision d;

	if (cell_config_load_text("f", (const char *)data, size, &cfg, &err) < 0)
		return 0;
	if (policy_new(cfg, &p, &err) == 0) {
		policy_decide(p, &q, &d);
		if (!*d.rule || d.effect > POLICY_ASK)
			abort();
	} else if (err.code == CELL_OK) {
		abort();
	}
	(void)guard_settings_new(cfg, &g, &err);
	(void)prices_new(cfg, &prices, &err);
	char *text = NULL;
	if (cell_config_dump(cfg, CELL_CONFIG_YAML, false, &text, &err) == 0) {
		struct cell_config *again = NULL;
		size_t n = 0;
		while (text[n])
			n++;
		/* What is shown loads again. */
		if (cell_config_load_text("again", text, n, &again, &err) < 0)
			abort();
		cell_config_free(again);
	}
	free(text);
	policy_free(p);
	guard_settings_free(g);
	prices_free(prices);
	cell_config_free(cfg);
	return 0;
}
