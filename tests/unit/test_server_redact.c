/* SPDX-License-Identifier: Apache-2.0 */
#include "server/redact.h"
#include "test.h"

static void becomes(const char *text, const char *want)
{
	struct buf out = BUF_INIT(4096);

	ASSERT_OK(redact_text(NULL, text, &out));
	CHECK_(!strcmp(buf_str(&out), want), "%s\n  is   %s\n  want %s", text, buf_str(&out), want);
	buf_done(&out);
}

TEST(values_under_a_secret_name_go)
{
	becomes("PASSWORD=hunter2 ls", "PASSWORD=*** ls");
	becomes("export AWS_SECRET_ACCESS_KEY='a b c'; ls",
		"export AWS_SECRET_ACCESS_KEY='***'; ls");
	becomes("x --password=abc -v", "x --password=*** -v");
	becomes("x --api-key abc -v", "x --api-key *** -v");
	becomes("x --token \"a b\" -v", "x --token \"***\" -v");
	becomes("{\"token\": \"abc\", \"n\": 1}", "{\"token\": \"***\", \"n\": 1}");
	becomes("apiKey: abc", "apiKey: ***");
	becomes("http://h/x?token=abc&y=1", "http://h/x?token=***&y=1");
	becomes("curl -u me:secret http://h", "curl -u me:*** http://h");
	becomes("curl --user=me:secret x", "curl --user=me:*** x");
}

TEST(credentials_are_known_by_their_form)
{
	becomes("curl -H 'Authorization: Bearer abc.def' http://h",
		"curl -H 'Authorization: ***' http://h");
	becomes("Authorization: Basic dXNlcjpwYXNz", "Authorization: ***");
	becomes("say bearer abcdefgh12345 twice", "say bearer *** twice");
	becomes("psql postgres://me:pw@db/x", "psql postgres://me:***@db/x");
	becomes("git clone https://ghp_0123456789abcdefghijklmnopqrstuvwxyz@github.com/x",
		"git clone https://***@github.com/x");
	becomes("AKIAIOSFODNN7EXAMPLE", "***");
	becomes("t cell_abcdefghijkl_abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnopqrst t",
		"t *** t");
	becomes("a -----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY----- b",
		"a *** b");
	becomes("-----BEGIN PRIVATE KEY-----\nabc", "***");
}

TEST(ordinary_commands_stay_as_they_are)
{
	static const char *const texts[] = {"ls -l /tmp", "python3 -c 'print(1)'", "echo a=b c:d",
		"git log --author=me", "make token_test", "a basic idea", "http://host:80/x@y",
		"grep -n password file", "cat --show-ends x", "", "-", "--", "a --", "=", ":",
		"x=\xff\xfe"};

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		becomes(texts[i], texts[i]);
}

TEST(json_is_redacted_by_name_by_form_and_as_an_argv)
{
	json_t *v = json_pack("{s:s, s:{s:s, s:s}, s:[s,s,s,s,s,s], s:i, s:b}", "password", "x",
		"env", "A", "b", "GITHUB_TOKEN", "y", "argv", "tool", "--token", "zzz", "--user",
		"me:pw", "a=b", "secret", 42, "has_token", 1);
	char *text;

	ASSERT_OK(redact_json(NULL, v));
	text = json_dumps(v, JSON_COMPACT | JSON_SORT_KEYS);
	ASSERT_STR(text, "{\"argv\":[\"tool\",\"--token\",\"***\",\"--user\",\"me:***\",\"a=b\"],"
			 "\"env\":{\"A\":\"b\",\"GITHUB_TOKEN\":\"***\"},\"has_token\":true,"
			 "\"password\":\"***\",\"secret\":\"***\"}");
	free(text);
	json_decref(v);
}

TEST(patterns_of_the_configuration_count_too)
{
	static const char *const patterns[] = {"^ACME-[0-9]+$", "internal\\.example", NULL};
	struct redact *r = NULL;
	struct cell_error err = {0};
	struct buf out = BUF_INIT(400);

	ASSERT_OK(redact_new(patterns, &r, &err));
	ASSERT_OK(redact_text(r, "use ACME-123 at http://internal.example/x and ACME-x", &out));
	ASSERT_STR(buf_str(&out), "use *** at *** and ACME-x");
	buf_done(&out);
	redact_free(r);
	static const char *const bad[] = {"(", NULL};
	ASSERT(redact_new(bad, &r, &err) < 0);
	ASSERT_EQ(err.code, CELL_EINVAL);
}
