/* SPDX-License-Identifier: Apache-2.0 */
/* test_env.c: what of the host's environment reaches a command. */
#include "core/env.h"
#include "test.h"

static char *host[] = {(char[]){"PATH=/opt/bin:/usr/bin"}, (char[]){"HOME=/home/me"},
	(char[]){"LANG=de_DE.UTF-8"}, (char[]){"LC_TIME=C"}, (char[]){"TERM=xterm"},
	(char[]){"USER=me"}, (char[]){"FOO=bar"}, (char[]){"OPENAI_API_KEY=hush"},
	(char[]){"DB_PASSWORD=hush"}, (char[]){"http_proxy=http://u:hush@proxy:3128"},
	(char[]){"HTTPS_PROXY=http://proxy:3128"},
	(char[]){"PEM=-----BEGIN RSA PRIVATE KEY-----hush"}, (char[]){"LD_PRELOAD=/x.so"},
	(char[]){"PWD=/somewhere"}, (char[]){"TMPDIR=/somewhere"},
	(char[]){"XDG_RUNTIME_DIR=/run/user/1"}, (char[]){"broken"}, (char[]){"=odd"}, NULL};

static char **compose(enum cell_env_from from, char *const *env, const char *const *extra)
{
	char **out = NULL;
	struct cell_error err = {0};
	ASSERT_OK(cell_env_compose(from, env, extra, &out, &err));
	return out;
}

/* The whole environment in one string, sorted as it stands. */
static const char *joined(char **env)
{
	static char buf[2000];
	size_t n = 0;
	buf[0] = '\0';
	for (char **p = env; *p; p++)
		n += (size_t)snprintf(buf + n, sizeof buf - n, "%s%s", p == env ? "" : " ", *p);
	cell_env_free(env);
	return buf;
}

TEST(none_gives_the_cells_own_path_and_language)
{
	ASSERT_STR(joined(compose(CELL_ENV_NONE, host, NULL)),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8");
}

TEST(core_gives_what_describes_user_and_terminal)
{
	ASSERT_STR(joined(compose(CELL_ENV_CORE, host, NULL)),
		"PATH=/opt/bin:/usr/bin LANG=de_DE.UTF-8 LC_TIME=C TERM=xterm USER=me");
}

TEST(all_gives_everything_but_secrets_and_the_callers_place)
{
	const char *got = joined(compose(CELL_ENV_ALL, host, NULL));
	ASSERT_STR(got,
		"PATH=/opt/bin:/usr/bin LANG=de_DE.UTF-8 LC_TIME=C TERM=xterm USER=me FOO=bar "
		"HTTPS_PROXY=http://proxy:3128");
	ASSERT(!strstr(got, "hush"));
}

TEST(what_is_named_outright_wins_even_a_secret)
{
	const char *extra[] = {
		"DB_PASSWORD=x", "FOO=1", "FOO=2", "HOME=/h", "LD_PRELOAD=y", "E=", "Q=a=b", NULL};
	ASSERT_STR(joined(compose(CELL_ENV_NONE, host, extra)),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "
		"DB_PASSWORD=x FOO=2 HOME=/h LD_PRELOAD=y E= Q=a=b");
	ASSERT_STR(joined(compose(CELL_ENV_ALL, (char *[]){(char[]){"FOO=host"}, NULL}, extra)),
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 "
		"DB_PASSWORD=x FOO=2 HOME=/h LD_PRELOAD=y E= Q=a=b");
	const char *path[] = {"PATH=/mine", NULL};
	ASSERT_STR(joined(compose(CELL_ENV_CORE, host, path)),
		"LANG=de_DE.UTF-8 LC_TIME=C TERM=xterm USER=me PATH=/mine");
}

TEST(names_that_are_prefixes_of_each_other_stay_apart)
{
	const char *extra[] = {"A=1", "AB=2", "A=3", "B=4", NULL};
	ASSERT_STR(joined(compose(CELL_ENV_NONE, NULL, extra)) +
			   strlen("PATH=" CELL_ENV_PATH " LANG=C.UTF-8 "),
		"AB=2 A=3 B=4");
}

TEST(an_extra_without_a_name_or_value_is_refused)
{
	static const char *const bad[] = {"FOO", "", "=x"};
	for (size_t i = 0; i < 3; i++) {
		const char *extra[] = {bad[i], NULL};
		char **out = NULL;
		struct cell_error err = {0};
		ASSERT(cell_env_compose(CELL_ENV_NONE, NULL, extra, &out, &err) < 0);
		ASSERT(err.code == CELL_EINVAL && !out);
	}
}

TEST(secrets_are_known_by_name)
{
	static const char *const secret[] = {"OPENAI_API_KEY", "openai_api_key", "API_KEY",
		"APIKEY", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN",
		"CLIENT_SECRET", "SECRET", "MY_SECRETS", "SECRET_KEY_BASE", "GITHUB_TOKEN",
		"GH_TOKEN", "TOKEN", "npm_config__authToken", "NPM_TOKEN", "HF_TOKEN",
		"DB_PASSWORD", "PASSWORD", "PGPASSWORD", "MYSQL_PWD", "DB_PASS", "FOO_PASSWD",
		"SSH_PASSPHRASE", "GOOGLE_APPLICATION_CREDENTIALS", "SOME_CREDENTIAL",
		"DEPLOY_PRIVATE_KEY", "STRIPE_KEY", "ANTHROPIC_API_KEY_2", "GITHUB_PAT",
		"DATABASE_URL", "SENTRY_DSN", "AZURE_STORAGE_CONNECTION_STRING", "SSH_AUTH_SOCK",
		"LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "BASH_FUNC_x%%", "VAULT_TOKEN",
		"KUBECONFIG", "SLACK_WEBHOOK_URL", "REFRESH_TOKEN_V2"};
	static const char *const open_names[] = {"PATH", "FOO", "HOME", "LANG", "TERM", "EDITOR",
		"MAX_TOKENS", "TOKENIZERS_PARALLELISM", "KEYBOARD", "PASSENGER_COUNT", "PWD",
		"OLDPWD", "MONKEY", "AUTHOR", "GIT_AUTHOR_NAME", "DISPLAY", "NODE_ENV", "CC",
		"CFLAGS", "VIRTUAL_ENV", "COMPASS", "LDFLAGS", "PYTHONPATH", "GOPATH",
		"AWS_REGION"};

	for (size_t i = 0; i < sizeof secret / sizeof *secret; i++)
		CHECK_(cell_env_is_secret(secret[i]), "%s passes", secret[i]);
	for (size_t i = 0; i < sizeof open_names / sizeof *open_names; i++)
		CHECK_(!cell_env_is_secret(open_names[i]), "%s does not pass", open_names[i]);
}

TEST(a_huge_environment_is_composed_quickly)
{
	size_t n = 100000;
	const char **extra = calloc(n + 1, sizeof(char *));
	char *text = calloc(n, 16);
	ASSERT(extra && text);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(text + i * 16, 16, "V%zu=%zu", i / 2, i);
		extra[i] = text + i * 16;
	}
	char **env = compose(CELL_ENV_NONE, NULL, extra);
	size_t count = 0;
	while (env[count])
		count++;
	ASSERT(count == n / 2 + 2);
	ASSERT_STR(env[2], "V0=1");
	cell_env_free(env);
	free(extra);
	free(text);
}
