/* SPDX-License-Identifier: Apache-2.0 */
#include "scratch.h"
#include "server/clock.h"
#include "server/token.h"

#define NOW (1000 * NS_PER_S)

static struct db *fresh(void)
{
	struct db *db = NULL;
	struct cell_error err = {0};

	ASSERT_OK(db_open(":memory:", &db, &err));
	ASSERT_OK(db_migrate(db, &tenant_module, &err));
	ASSERT_OK(db_migrate(db, &token_module, &err));
	return db;
}

static struct token make(struct db *db, struct token_spec spec, char text[TOKEN_TEXT_MAX])
{
	struct token t;
	struct cell_error err = {0};

	CHECK_(token_create(db, &spec, NOW, &t, text, &err) == 0, "%s", err.msg);
	return t;
}

static bool is_valid(struct db *db, const char *text, int64_t now)
{
	struct token t;
	struct cell_error err = {0};
	int r = token_check(db, text, NULL, now, &t, &err);

	if (r < 0) {
		ASSERT_EQ(err.code, CELL_EDENIED);
		ASSERT_STR(err.msg, "the token is not valid here");
	}
	return r == 0;
}

TEST(a_token_is_good_for_its_tenant_and_role)
{
	struct db *db = fresh();
	char text[TOKEN_TEXT_MAX];
	struct token t = make(db,
			     (struct token_spec){
				     .tenant = "acme", .role = TOKEN_USER, .label = "ci"},
			     text),
		     got;
	struct cell_error err = {0};

	ASSERT_EQ(strlen(text), TOKEN_TEXT_MAX - 1);
	ASSERT_OK(token_check(db, text, NULL, NOW, &got, &err));
	ASSERT_STR(got.id, t.id);
	ASSERT_STR(got.tenant, "acme");
	ASSERT_STR(got.label, "ci");
	ASSERT_EQ(got.role, TOKEN_USER);
	db_free(db);
}

TEST(the_secret_is_nowhere_in_the_database)
{
	struct db *db = NULL;
	struct cell_error err = {0};
	char text[TOKEN_TEXT_MAX];
	static char file[1 << 20];

	scratch_make();
	ASSERT_OK(db_open(scratch_path("t.db"), &db, &err));
	ASSERT_OK(db_migrate(db, &tenant_module, &err));
	ASSERT_OK(db_migrate(db, &token_module, &err));
	struct token t = make(db, (struct token_spec){0}, text);
	db_free(db);
	int fd = open(scratch_path("t.db"), O_RDONLY);
	ssize_t n = read(fd, file, sizeof file);
	close(fd);
	ASSERT(memmem(file, (size_t)n, t.id, strlen(t.id))); /* the control */
	ASSERT(!memmem(file, (size_t)n, text + 5 + TOKEN_ID_LEN + 1, 20));
}

TEST(anything_else_is_refused_in_the_same_words)
{
	struct db *db = fresh();
	char text[TOKEN_TEXT_MAX], other[TOKEN_TEXT_MAX + 10];

	(void)make(db, (struct token_spec){0}, text);
	ASSERT(is_valid(db, text, NOW));
	for (size_t i = 0; i < strlen(text); i++) {
		memcpy(other, text, sizeof text);
		other[i] = other[i] == 'a' ? 'b' : 'a';
		CHECK_(!is_valid(db, other, NOW), "byte %zu", i);
	}
	static const char *const bad[] = {
		"", "x", "cell_", "cell_aaaaaaaaaaaa_", "Bearer x", "cell__"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		ASSERT(!is_valid(db, bad[i], NOW));
	(void)snprintf(other, sizeof other, "%sx", text);
	ASSERT(!is_valid(db, other, NOW));
	(void)snprintf(other, sizeof other, " %s", text);
	ASSERT(!is_valid(db, other, NOW));
	db_free(db);
}

TEST(expired_revoked_and_disabled_tokens_are_refused)
{
	struct db *db = fresh();
	char text[TOKEN_TEXT_MAX];
	struct cell_error err = {0};
	struct token t =
		make(db, (struct token_spec){.tenant = "acme", .expires_ns = NOW + 5}, text);

	ASSERT(is_valid(db, text, NOW + 4));
	ASSERT(!is_valid(db, text, NOW + 5));
	ASSERT_OK(tenant_disable(db, "acme", true, &err));
	ASSERT(!is_valid(db, text, NOW));
	ASSERT_OK(tenant_disable(db, "acme", false, &err));
	ASSERT(is_valid(db, text, NOW));
	ASSERT_OK(token_revoke(db, t.id, NOW + 1, &err));
	ASSERT_OK(token_revoke(db, t.id, NOW + 2, &err));
	ASSERT(!is_valid(db, text, NOW));
	ASSERT_ERR(token_revoke(db, "zzzzzzzzzzzz", NOW, &err), -ENOENT);
	db_free(db);
}

TEST(the_configured_token_is_an_admin_and_an_empty_one_is_none)
{
	struct db *db = fresh();
	struct token t;
	struct cell_error err = {0};

	ASSERT_OK(token_check(db, "your-secret-token", "your-secret-token", NOW, &t, &err));
	ASSERT_EQ(t.role, TOKEN_ADMIN);
	ASSERT_STR(t.tenant, "default");
	ASSERT(token_check(db, "your-secret-tokeX", "your-secret-token", NOW, &t, &err) < 0);
	ASSERT(token_check(db, "", "", NOW, &t, &err) < 0);
	ASSERT(token_check(db, "", NULL, NOW, &t, &err) < 0);
	db_free(db);
}

TEST(use_is_remembered_to_the_minute)
{
	struct db *db = fresh();
	char text[TOKEN_TEXT_MAX];
	struct token t;
	struct cell_error err = {0};

	(void)make(db, (struct token_spec){0}, text);
	ASSERT_OK(token_check(db, text, NULL, NOW, &t, &err));
	ASSERT_OK(token_check(db, text, NULL, NOW + NS_PER_S, &t, &err));
	ASSERT_EQ(t.last_used_ns, NOW - NOW % (60 * NS_PER_S));
	db_free(db);
}

static int count(const struct token *t, void *user)
{
	(void)t;
	++*(int *)user;
	return 0;
}

TEST(tokens_are_listed_by_tenant_and_names_are_checked)
{
	struct db *db = fresh();
	char text[TOKEN_TEXT_MAX];
	struct token t;
	struct cell_error err = {0};
	int n = 0;

	(void)make(db, (struct token_spec){.tenant = "a"}, text);
	(void)make(db, (struct token_spec){.tenant = "b"}, text);
	ASSERT_OK(token_each(db, NULL, count, &n, &err));
	ASSERT_EQ(n, 2);
	ASSERT_OK(token_each(db, "a", count, &n, &err));
	ASSERT_EQ(n, 3);
	static const char *const bad[] = {"", "A", "a b", "../x", "-a",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct token_spec spec = {.tenant = bad[i]};
		CHECK_(token_create(db, &spec, NOW, &t, text, &err) == -EINVAL, "%s", bad[i]);
	}
	struct token_spec late = {.expires_ns = NOW};
	ASSERT(token_create(db, &late, NOW, &t, text, &err) < 0);
	struct token_spec label = {.label = "a\nb"};
	ASSERT(token_create(db, &label, NOW, &t, text, &err) < 0);
	ASSERT_EQ(token_role_find("read-only"), TOKEN_READ_ONLY);
	ASSERT_EQ(token_role_find("root"), -1);
	db_free(db);
}
