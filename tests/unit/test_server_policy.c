/* SPDX-License-Identifier: Apache-2.0 */
#include "config_helper.h"
#include "server/clock.h"
#include "server/policy.h"

static struct policy *policy_of(const char *text)
{
	struct cell_config *cfg = config_of(text);
	struct policy *p = NULL;
	struct cell_error err = {0};

	CHECK_(policy_new(cfg, &p, &err) == 0, "%s", err.msg);
	cell_config_free(cfg);
	return p;
}

/* "effect rule" of a decision. */
static const char *says(struct policy *p, struct policy_request q)
{
	static char out[200];
	struct policy_decision d;

	policy_decide(p, &q, &d);
	(void)snprintf(out, sizeof out, "%s %s", policy_effect_name(d.effect), d.rule);
	return out;
}

#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})

TEST(the_first_rule_that_matches_decides)
{
	struct policy *p =
		policy_of("server:\n  policy:\n    default: deny\n    rules:\n"
			  "      - {name: ok, effect: allow, tenant: acme, action: 'exec.*'}\n"
			  "      - {effect: ask, action: exec.start}\n"
			  "      - {effect: allow, action: [file.read, file.list]}\n");

	ASSERT_STR(says(p, (struct policy_request){.tenant = "acme", .action = "exec.start"}),
		"allow ok");
	ASSERT_STR(says(p, (struct policy_request){.tenant = "beta", .action = "exec.start"}),
		"ask rule 2");
	ASSERT_STR(says(p, (struct policy_request){.tenant = "beta", .action = "file.list"}),
		"allow rule 3");
	ASSERT_STR(says(p, (struct policy_request){.tenant = "beta", .action = "file.write"}),
		"deny default");
	/* What is not known matches no rule that asks for it. */
	ASSERT_STR(says(p, (struct policy_request){.action = "exec.signal"}), "deny default");
	policy_free(p);
	ASSERT_STR(says(NULL, (struct policy_request){.action = "x"}), "allow default");
	p = policy_of("backend: jail\n");
	ASSERT_STR(says(p, (struct policy_request){.action = "x"}), "allow default");
	policy_free(p);
}

TEST(commands_are_compared_whole_and_without_their_directory)
{
	struct policy *p =
		policy_of("server: {policy: {rules: [\n"
			  "  {name: curl, effect: deny, command: ['curl', 'curl *']},\n"
			  "  {name: rm, effect: deny, command_regex: '^rm .*-[a-z]*r'},\n"
			  "  {name: etc, effect: deny, command: '*/etc/*'}]}}\n");

	ASSERT_STR(says(p, (struct policy_request){.argv = ARGV("curl", "http://x/y")}),
		"deny curl");
	ASSERT_STR(says(p, (struct policy_request){.argv = ARGV("/usr/bin/curl", "http://x/y")}),
		"deny curl");
	ASSERT_STR(says(p, (struct policy_request){.argv = ARGV("curl")}), "deny curl");
	ASSERT_STR(says(p, (struct policy_request){.argv = ARGV("curly", "x")}), "allow default");
	ASSERT_STR(says(p, (struct policy_request){.shell = "rm -rf x"}), "deny rm");
	ASSERT_STR(says(p, (struct policy_request){.argv = ARGV("/bin/rm", "-fr", "x")}),
		"deny rm");
	ASSERT_STR(says(p, (struct policy_request){.argv = ARGV("rm", "x")}), "allow default");
	ASSERT_STR(says(p, (struct policy_request){.shell = "cat /etc/a/b/c"}), "deny etc");
	ASSERT_STR(says(p, (struct policy_request){.action = "file.read"}), "allow default");
	policy_free(p);
}

TEST(a_long_command_does_not_slip_through)
{
	struct policy *p =
		policy_of("server: {policy: {rules: [{effect: deny, command: '*curl*'}]}}\n");
	char *big = malloc((9u << 20) + 1);

	memset(big, 'x', 9u << 20);
	big[9u << 20] = '\0';
	ASSERT_STR(says(p, (struct policy_request){.shell = big}), "deny error");
	memcpy(big + (1u << 20), "curl", 5);
	ASSERT_STR(says(p, (struct policy_request){.shell = big}), "deny rule 1");
	free(big);
	policy_free(p);
}

TEST(roles_paths_languages_back_ends_and_labels_count)
{
	struct policy *p =
		policy_of("server: {policy: {rules: [\n"
			  "  {name: a, effect: deny, role: [read-only, user], path: 'secret/**'},\n"
			  "  {name: b, effect: deny, language: 'py*', backend: local},\n"
			  "  {name: c, effect: deny, labels: {team: data, env: '*'}}]}}\n");

	ASSERT_STR(says(p, (struct policy_request){.role = "user", .path = "secret/a/b"}),
		"deny a");
	ASSERT_STR(says(p, (struct policy_request){.role = "admin", .path = "secret/a/b"}),
		"allow default");
	ASSERT_STR(says(p, (struct policy_request){.language = "python", .backend = "local"}),
		"deny b");
	ASSERT_STR(says(p, (struct policy_request){.language = "python", .backend = "jail"}),
		"allow default");
	ASSERT_STR(says(p, (struct policy_request){.labels = ARGV("env=x", "team=data")}),
		"deny c");
	ASSERT_STR(says(p, (struct policy_request){.labels = ARGV("team=data")}), "allow default");
	ASSERT_STR(says(p, (struct policy_request){.labels = ARGV("env=x", "team=dat")}),
		"allow default");
	policy_free(p);
}

static int64_t at(const char *text)
{
	int64_t ns;

	ASSERT_OK(clock_parse(text, &ns));
	return ns;
}

TEST(times_and_days_are_those_of_the_zone)
{
	struct policy *p = policy_of(
		"server: {policy: {rules: [\n"
		"  {name: night, effect: deny, time: '22:00-06:00', zone: Europe/Berlin},\n"
		"  {name: weekend, effect: ask, weekdays: [sat, sunday], zone: America/New_York},\n"
		"  {name: noon, effect: deny, time: '12:00-12:30'}]}}\n");

	ASSERT_STR(says(p, (struct policy_request){.unix_ns = at("2026-01-15T21:30:00Z")}),
		"deny night");
	ASSERT_STR(says(p, (struct policy_request){.unix_ns = at("2026-01-15T20:59:59Z")}),
		"allow default");
	ASSERT_STR(says(p, (struct policy_request){.unix_ns = at("2026-01-15T04:59:59Z")}),
		"deny night");
	ASSERT_STR(says(p, (struct policy_request){.unix_ns = at("2026-07-15T20:30:00Z")}),
		"deny night");
	ASSERT_STR(says(p, (struct policy_request){.unix_ns = at("2026-01-17T15:00:00Z")}),
		"ask weekend");
	ASSERT_STR(says(p, (struct policy_request){.unix_ns = at("2026-01-15T12:29:59Z")}),
		"deny noon");
	ASSERT_STR(says(p, (struct policy_request){.unix_ns = at("2026-01-15T12:30:00Z")}),
		"allow default");
	policy_free(p);
}

static void rejects(const char *text, const char *msg)
{
	struct cell_config *cfg = config_of(text);
	struct policy *p = NULL;
	struct cell_error err = {0};

	CHECK_(policy_new(cfg, &p, &err) < 0, "accepted: %s", text);
	ASSERT_STR(err.msg, msg);
	ASSERT(*err.hint);
	cell_config_free(cfg);
}

TEST(what_is_wrong_with_a_rule_is_said_with_its_place)
{
	refuses("server:\n  policy:\n    rules:\n      - {effect: maybe}\n",
		"cell.yaml:4:18: 'effect' has no value 'maybe'", NULL);
	refuses("server:\n  policy:\n    rules:\n      - {efect: deny}\n",
		"cell.yaml:4:10: 'server.policy.rules' has no field 'efect'",
		"did you mean 'effect'?");
	refuses("server: {policy: {rules: [deny]}}\n",
		"cell.yaml:1:27: 'server.policy.rules': an entry is text; it should be a mapping",
		NULL);
	rejects("server: {policy: {rules: [{tenant: a}]}}\n",
		"cell.yaml:1:27: rule 1 has no effect");
	rejects("server: {policy: {rules: [{effect: deny, command_regex: '('}]}}\n",
		"cell.yaml:1:57: '(' is no regular expression: a '(' has no ')'");
	rejects("server: {policy: {rules: [{effect: deny, time: noon}]}}\n",
		"cell.yaml:1:48: 'time' takes a span of the day, not 'noon'");
	rejects("server: {policy: {rules: [{effect: deny, time: '08:00-09:00', zone: "
		"Mars/Olympus}]}}\n",
		"cell.yaml:1:69: there is no time zone 'Mars/Olympus' here");
	rejects("server: {policy: {rules: [{effect: deny, zone: UTC}]}}\n",
		"cell.yaml:1:48: 'zone' without 'time' or 'weekdays'");
}

TEST(a_decision_becomes_an_error_that_names_the_rule)
{
	struct policy_decision d = {POLICY_DENY, "no-curl", "no downloads"};
	struct cell_error err = {0};

	ASSERT(policy_fail(&d, &err) < 0);
	ASSERT_EQ(err.code, CELL_EDENIED);
	ASSERT_HAS(err.msg, "it is denied by policy 'no-curl': no downloads");
	d.effect = POLICY_ASK;
	ASSERT(policy_fail(&d, &err) < 0);
	ASSERT_HAS(err.msg, "needs approval");
}
