/* SPDX-License-Identifier: Apache-2.0 */
#include "config_helper.h"
#include "server/audit.h"
#include "server/settings.h"

static const char text[] = "auth_token: hush\n"
			   "server:\n"
			   "  quotas: {cells: 5, cpus: 1.5, memory: 2g}\n"
			   "  tenants: {acme: {cells: 7}, beta: {memory: 1g}}\n"
			   "  policy:\n"
			   "    default: deny\n"
			   "    rules:\n"
			   "      - {name: 'a, b', effect: allow, tenant: [x, y], labels: {k: v}}\n"
			   "      - effect: ask\n"
			   "  guard: {url: 'http://g', token: secret, timeout: 3s}\n"
			   "  audit: {sync: always, file_size: 1m, keep_age: 30d, redact: ['a+']}\n"
			   "  prices: {jail: {cpu_second: 0.000010}}\n";

TEST(what_is_shown_loads_again_to_the_same)
{
	struct cell_config *cfg = config_of(text), *again;
	char *one = NULL, *two = NULL, *json = NULL;
	struct cell_error err = {0};

	ASSERT_OK(cell_config_dump(cfg, CELL_CONFIG_YAML, false, &one, &err));
	ASSERT_HAS(one, "    - {name: \"a, b\", effect: allow, tenant: [x, y], labels: {k: v}}\n");
	ASSERT_HAS(one, "    acme: {cells: 7}\n");
	ASSERT_HAS(one, "    jail: {cpu_second: 0.00001}\n");
	ASSERT(!strstr(one, "secret") && !strstr(one, "hush"));
	again = config_of(one);
	ASSERT_OK(cell_config_dump(again, CELL_CONFIG_YAML, false, &two, &err));
	ASSERT_STR(one, two);
	ASSERT_OK(cell_config_dump(cfg, CELL_CONFIG_JSON, false, &json, &err));
	ASSERT_HAS(json, "\"acme\": {\n        \"cells\": 7\n      }");
	ASSERT(!strstr(json, "secret") && !strstr(json, "hush"));
	free(json);
	ASSERT_OK(cell_config_dump(cfg, CELL_CONFIG_JSON, true, &json, &err));
	ASSERT_HAS(json, "\"server.tenants.acme\"");
	free(json);
	free(one);
	free(two);
	cell_config_free(cfg);
	cell_config_free(again);
}

TEST(a_stronger_layer_adds_tenants_and_replaces_rules)
{
	struct cell_config *cfg = config_of(text);
	char variables[][80] = {"CELL_SERVER_TENANTS={beta: null, gamma: {cells: 1}}",
		"CELL_SERVER_POLICY_RULES=[{effect: deny}]", "CELL_SERVER=http://somewhere"};
	char *list[] = {variables[0], variables[1], variables[2], NULL};
	struct cell_error err = {0};

	CHECK_(config_read_variables(cfg, list, &err) == 0, "%s", err.msg);
	const struct node *tenants = setting(cfg, "server.tenants");
	ASSERT_EQ(tenants->n_items, 2);
	ASSERT(node_get(tenants, "acme") && node_get(tenants, "gamma") &&
		!node_get(tenants, "beta"));
	ASSERT_EQ(setting(cfg, "server.policy.rules")->n_items, 1);
	cell_config_free(cfg);
}

TEST(settings_are_plain_values)
{
	struct cell_config *cfg = config_of(text);
	struct audit_settings a = {0};
	const char **list = setting_list(cfg, "server.audit.redact");

	audit_settings_read(cfg, &a);
	ASSERT_EQ(a.sync, AUDIT_SYNC_ALWAYS);
	ASSERT_EQ(a.file_bytes, 1 << 20);
	ASSERT_EQ(a.keep_age_s, 30 * 86400);
	ASSERT_EQ(setting_number(cfg, "server.quotas.cpus", 0), 1500);
	ASSERT_EQ(setting_number(cfg, "server.quotas.streams", 9), 9);
	ASSERT_STR(setting_text(cfg, "server.guard.url", NULL), "http://g");
	ASSERT_STR(list[0], "a+");
	ASSERT(!list[1] && !setting(NULL, "backend"));
	ASSERT(!setting_bool(cfg, "auth_disabled", false));
	free(list);
	audit_settings_read(NULL, &a);
	ASSERT_EQ(a.sync, AUDIT_SYNC_SECOND);
	cell_config_free(cfg);
	cfg = config_of("server: {audit: {redact: ['(']}}");
	struct redact *r;
	struct cell_error err = {0};
	ASSERT(audit_redact_read(cfg, &r, &err) < 0);
	ASSERT_HAS(err.msg, "cell.yaml:1:26: ");
	cell_config_free(cfg);
}

TEST(the_token_of_the_seeds_may_stand_in_server_too)
{
	struct cell_config *cfg = config_of("server: {auth_token: x}");

	ASSERT_STR(value_text(cfg, "auth_token"), "x");
	cell_config_free(cfg);
}
