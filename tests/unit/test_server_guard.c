/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "config_helper.h"
#include "server/guard.h"

struct fake {
	int result, status;
	const char *answer;
	char asked[2000];
};

static int call(const struct guard_settings *g, const char *body, size_t len, int *ret_status,
	struct buf *ret_body, void *user, struct cell_error *err)
{
	struct fake *f = user;

	ASSERT_STR(g->url, "https://guard/x");
	ASSERT_EQ(g->timeout_ms, 500);
	(void)snprintf(f->asked, sizeof f->asked, "%.*s", (int)len, body);
	if (f->result < 0)
		return cell_fail(err, CELL_ETIMEOUT, ETIMEDOUT, "asking the guard");
	*ret_status = f->status;
	return buf_addz(ret_body, f->answer);
}

static struct guard_settings *settings(const char *text)
{
	struct cell_config *cfg = config_of(text);
	struct guard_settings *g = NULL;
	struct cell_error err = {0};

	CHECK_(guard_settings_new(cfg, &g, &err) == 0, "%s", err.msg);
	cell_config_free(cfg);
	return g;
}

static void decide(const struct guard_settings *g, const struct policy_request *q, struct fake *f,
	struct policy_decision *d)
{
	struct buf body = {0};

	if (guard_body(q, d, &body) == 0)
		guard_ask(g, &body, call, f, d);
	buf_done(&body);
}

static struct policy_decision ask(struct fake *f)
{
	struct guard_settings *g =
		settings("server: {guard: {url: 'https://guard/x', timeout: 500ms, token: t}}");
	struct policy_request q = {.tenant = "acme",
		.action = "exec.start",
		.argv = (const char *const[]){"ls", "-l", NULL}};
	struct policy_decision d = {POLICY_ASK, "rule 2", ""};

	decide(g, &q, f, &d);
	guard_settings_free(g);
	ASSERT_STR(d.rule, "guard");
	return d;
}

TEST(the_guards_word_counts)
{
	struct fake f = {
		.status = 200, .answer = "{\"decision\":\"allow\",\"reason\":\"fine\\n\"}"};
	struct policy_decision d = ask(&f);

	ASSERT_EQ(d.effect, POLICY_ALLOW);
	ASSERT_STR(d.reason, "fine ");
	json_t *o = json_loads(f.asked, 0, NULL);
	ASSERT_STR(json_string_value(json_object_get(o, "action")), "exec.start");
	ASSERT_STR(json_string_value(json_array_get(json_object_get(o, "argv"), 1)), "-l");
	ASSERT_STR(json_string_value(json_object_get(o, "rule")), "rule 2");
	json_decref(o);
	f.answer = "{\"decision\":\"deny\",\"reason\":\"no\"}";
	d = ask(&f);
	ASSERT_EQ(d.effect, POLICY_DENY);
	ASSERT_STR(d.reason, "no");
}

TEST(whatever_is_not_a_clear_yes_is_no)
{
	static const struct {
		int result, status;
		const char *answer;
	} cases[] = {{-1, 0, ""}, {0, 500, "{\"decision\":\"allow\"}"},
		{0, 302, "{\"decision\":\"allow\"}"}, {0, 204, ""}, {0, 200, ""}, {0, 200, "allow"},
		{0, 200, "\"allow\""}, {0, 200, "{}"}, {0, 200, "{\"decision\":true}"},
		{0, 200, "{\"decision\":\"ALLOW\"}"},
		{0, 200, "{\"decision\":\"allow\",\"decision\":\"allow\"}"},
		{0, 200, "{\"decision\":\"allow\"} trailing"},
		{0, 200, "{\"decision\":\"allow\",\"reason\":1}"},
		{0, 200, "[{\"decision\":\"allow\"}]"}};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct fake f = {cases[i].result, cases[i].status, cases[i].answer, ""};
		struct policy_decision d = ask(&f);
		CHECK_(d.effect == POLICY_DENY && *d.reason, "case %zu", i);
	}
}

TEST(who_is_asked_is_configured)
{
	struct policy_decision allow = {POLICY_ALLOW, "", ""}, deny = {POLICY_DENY, "", ""},
			       may = {POLICY_ASK, "", ""};
	struct guard_settings *g = settings("server: {guard: {url: 'http://g'}}");

	ASSERT(guard_is_asked(g, &may) && !guard_is_asked(g, &allow) && !guard_is_asked(g, &deny));
	ASSERT(!guard_is_asked(NULL, &may));
	ASSERT_EQ(g->timeout_ms, 2000);
	guard_settings_free(g);
	g = settings("server: {guard: {url: 'http://g', on: all}}");
	ASSERT(guard_is_asked(g, &may) && guard_is_asked(g, &allow) && !guard_is_asked(g, &deny));
	guard_settings_free(g);
	ASSERT(!settings("backend: jail"));
	struct cell_config *cfg = config_of("server: {guard: {url: 'ftp://g'}}");
	struct cell_error err = {0};
	ASSERT(guard_settings_new(cfg, &g, &err) < 0);
	ASSERT_STR(err.msg, "cell.yaml:1:23: 'server.guard.url' takes a URL, not 'ftp://g'");
	cell_config_free(cfg);
}

TEST(a_request_that_is_no_text_is_denied)
{
	struct guard_settings *g =
		settings("server: {guard: {url: 'https://guard/x', timeout: 500ms}}");
	struct policy_request q = {.shell = "\xff\xfe"};
	struct policy_decision d = {POLICY_ASK, "x", ""};
	struct fake f = {.status = 200, .answer = "{\"decision\":\"allow\"}"};

	decide(g, &q, &f, &d);
	ASSERT_EQ(d.effect, POLICY_DENY);
	guard_settings_free(g);
}
