/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "distribution/challenge.h"
#include "distribution/reference.h"
#include "distribution/refusal.h"
#include "test.h"

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(references_are_read_as_docker_reads_them)
{
	static const struct {
		const char *text, *host, *path, *tag, *digest;
	} all[] = {
		{"python", "docker.io", "library/python", "latest", ""},
		{"python:3.11-slim", "docker.io", "library/python", "3.11-slim", ""},
		{"owner/name", "docker.io", "owner/name", "latest", ""},
		{"docker.io/python", "docker.io", "library/python", "latest", ""},
		{"ghcr.io/a/b/c:v1", "ghcr.io", "a/b/c", "v1", ""},
		{"localhost/x", "localhost", "x", "latest", ""},
		{"host:5000/x", "host:5000", "x", "latest", ""},
		{"host:5000/x:5000", "host:5000", "x", "5000", ""},
		{"[::1]:5000/x", "[::1]:5000", "x", "latest", ""},
		{"x@sha256:" HEX, "docker.io", "library/x", "", HEX},
		{"host.y/x:t@sha256:" HEX, "host.y", "x", "t", HEX},
		{"a__b-c/d.e---f", "docker.io", "a__b-c/d.e---f", "latest", ""},
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct reference r;
		struct cell_error err = {0};

		CHECK_(reference_parse(all[i].text, &r, &err) == 0, "%s: %s", all[i].text, err.msg);
		ASSERT_STR(r.host, all[i].host);
		ASSERT_STR(r.path, all[i].path);
		ASSERT_STR(r.tag, all[i].tag);
		ASSERT_STR(r.digest, all[i].digest);
	}
}

TEST(what_is_no_reference_is_refused)
{
	static const char *const all[] = {"", "/", "A", "a/", "a//b", "/a", "a:", "a@",
		"a@sha256:", "a@sha256:" HEX "0", "a@sha512:" HEX, "a:b/c:d:e", "..", "a/../b",
		"a._b", "host.x/", "a b", "a\nb", "a%2fb", "ho st.x/a", "host.x/A", "a:-t",
		"a@sha256:" HEX "@sha256:" HEX};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct reference r;
		struct cell_error err = {0};

		CHECK_(reference_parse(all[i], &r, &err) < 0, "'%s' was taken", all[i]);
		ASSERT_EQ(err.code, CELL_EINVAL);
	}
}

TEST(only_this_machine_is_spoken_to_without_tls)
{
	static const struct {
		const char *text;
		bool is_loopback;
	} all[] = {{"localhost/x", true}, {"localhost:5000/x", true}, {"127.0.0.1:5000/x", true},
		{"127.1.2.3/x", true}, {"[::1]:5000/x", true}, {"localhost.evil.com/x", false},
		{"localhost.:5000/x", false}, {"python", false}, {"10.0.0.1/x", false}};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct reference r;

		ASSERT_OK(reference_parse(all[i].text, &r, NULL));
		CHECK_(reference_is_loopback(&r) == all[i].is_loopback, "%s", all[i].text);
	}
}

TEST(challenges_are_read)
{
	struct challenge c;

	ASSERT(challenge_parse(
		"Bearer realm=\"https://auth/token\",service=\"reg\",scope=\"a:b:c\"", &c));
	ASSERT(c.is_bearer);
	ASSERT_STR(c.realm, "https://auth/token");
	ASSERT_STR(c.service, "reg");
	ASSERT_STR(c.scope, "a:b:c");
	ASSERT(challenge_parse("basic realm=\"x \\\" y\"", &c));
	ASSERT(!c.is_bearer);
	ASSERT_STR(c.realm, "x \" y");
	ASSERT(challenge_parse("Negotiate, Basic realm=x", &c));
	ASSERT_STR(c.realm, "x");
	ASSERT(challenge_parse("Digest qop=\"a, b\", nonce=1 , Bearer service=s , realm=\"r\"",
		&c));
	ASSERT_STR(c.realm, "r");
	ASSERT_STR(c.service, "s");
}

TEST(what_is_no_challenge_is_none)
{
	static const char *const all[] = {"", ",,,", "Negotiate", "Bearer",
		"Bearer realm=", "Bearer realm=\"x", "Bearer service=\"x\"", "=", "\"",
		"Bearer realm=\"\\"};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct challenge c;

		CHECK_(!challenge_parse(all[i], &c), "'%s'", all[i]);
	}
	/* one that does not fit would mean something else if it were cut */
	char text[3000] = "Bearer realm=\"";
	memset(text + 14, 'a', 2000);
	memcpy(text + 2014, "\"", 2);
	struct challenge c;
	ASSERT(!challenge_parse(text, &c));
}

TEST(a_name_says_which_image_it_is_or_not)
{
	ASSERT(reference_is_exact("a:1") && reference_is_exact("h:5/a:1"));
	ASSERT(reference_is_exact("a@sha256:" HEX) && reference_is_exact("h:5/a@sha256:" HEX));
	ASSERT(!reference_is_exact("a") && !reference_is_exact("h:5/a"));
}

TEST(the_words_of_registries_are_known)
{
	static const struct {
		const char *said;
		enum cell_code code;
	} all[] = {{"manifest for x not found: manifest unknown", CELL_ENOTFOUND},
		{"pull access denied, repository does not exist: not found", CELL_EDENIED},
		{"unauthorized: authentication required", CELL_EDENIED},
		{"toomanyrequests: You have reached your pull rate limit", CELL_ELIMIT},
		{"connection refused", CELL_EBACKEND}};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct cell_error err = {0};
		int r = cell_fail(&err, CELL_EBACKEND, 0, "pull");

		(void)cell_error_known(&err, r, all[i].said, refusal_words);
		CHECK_(err.code == all[i].code, "%s: %d", all[i].said, err.code);
	}
}
