/* SPDX-License-Identifier: Apache-2.0 */
/* env_test.c: what of the host's environment a command sees, and what it never sees. */
#include <limits.h>

#include "suite.h"

static void set_host_environment(void)
{
	setenv("OPENAI_API_KEY", "sk-hidden", 1);
	setenv("DB_PASSWORD", "hidden", 1);
	setenv("GITHUB_TOKEN", "hidden", 1);
	setenv("MY_SECRET", "hidden", 1);
	setenv("AWS_CREDENTIAL", "hidden", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "hidden", 1);
	setenv("FOO", "bar", 1);
	setenv("LC_TIME", "C.UTF-8", 1);
	setenv("TZ", "Europe/Oslo", 1);
}

static struct cell_result env_of(struct suite *s, enum cell_env_from from,
	const char *const *spec_env, const char *const *exec_env)
{
	struct cell_spec spec = suite_spec(s);

	spec.env_from = from;
	spec.env = spec_env;
	auto_cell struct cell *c = open_spec(&spec);
	put_probe(s, c);
	struct cell_exec_opts o = {.argv = ARGV("./probe", "env"), .env = exec_env};
	struct cell_result r = run_opts(c, &o, NULL, 0);
	ASSERT_INT(r.exit.exit_code, 0);
	return r;
}

static bool has_line(const char *text, const char *line)
{
	size_t n = strlen(line);

	for (const char *at = text; at; at = strchr(at, '\n')) {
		at += *at == '\n';
		if (!strncmp(at, line, n) && (at[n] == '\n' || at[n] == '\0'))
			return true;
		if (!*at)
			break;
	}
	return false;
}

TEST(nothing_of_the_host_is_seen_by_default)
{
	set_host_environment();
	auto_result struct cell_result r = env_of(s, CELL_ENV_NONE, NULL, NULL);

	ASSERT(!strstr(r.out, "hidden"));
	ASSERT(!strstr(r.out, "FOO="));
	ASSERT(!strstr(r.out, "TZ="));
	ASSERT(!strstr(r.out, "CELL_STATE_DIR"));
	ASSERT_HAS(r.out, "PATH=");
	ASSERT_HAS(r.out, "HOME=");
}

TEST(core_brings_the_core_and_no_more)
{
	set_host_environment();
	auto_result struct cell_result r = env_of(s, CELL_ENV_CORE, NULL, NULL);

	ASSERT(has_line(r.out, "TZ=Europe/Oslo"));
	ASSERT(has_line(r.out, "LC_TIME=C.UTF-8"));
	ASSERT(!strstr(r.out, "FOO="));
	ASSERT(!strstr(r.out, "hidden"));
}

TEST(all_brings_everything_but_secrets)
{
	set_host_environment();
	auto_result struct cell_result r = env_of(s, CELL_ENV_ALL, NULL, NULL);

	ASSERT(has_line(r.out, "FOO=bar"));
	ASSERT(has_line(r.out, "TZ=Europe/Oslo"));
	ASSERT(!strstr(r.out, "hidden"));
}

TEST(a_secret_that_is_named_is_given)
{
	set_host_environment();
	auto_result struct cell_result none =
		env_of(s, CELL_ENV_NONE, ARGV("DB_PASSWORD=x"), ARGV("MY_TOKEN=y"));
	auto_result struct cell_result all =
		env_of(s, CELL_ENV_ALL, ARGV("DB_PASSWORD=x"), ARGV("MY_TOKEN=y"));

	ASSERT(has_line(none.out, "DB_PASSWORD=x"));
	ASSERT(has_line(none.out, "MY_TOKEN=y"));
	ASSERT(has_line(all.out, "DB_PASSWORD=x"));
	ASSERT(has_line(all.out, "MY_TOKEN=y"));
	ASSERT(!strstr(all.out, "hidden"));
}

TEST(the_command_s_variables_go_over_the_cell_s)
{
	auto_result struct cell_result r = env_of(s, CELL_ENV_NONE, ARGV("A=cell", "B=cell"),
		ARGV("B=command", "C=", "D=a=b c\nd", "E=\xff"));

	ASSERT(has_line(r.out, "A=cell"));
	ASSERT(has_line(r.out, "B=command"));
	ASSERT(!strstr(r.out, "B=cell"));
	ASSERT(has_line(r.out, "C="));
	ASSERT_HAS(r.out, "D=a=b c\nd\n");
	ASSERT(has_line(r.out, "E=\xff"));
}

TEST(a_variable_without_a_name_or_value_is_refused)
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_result r = {0};

	FAILS(INVALID,
		cell_run(c, &(struct cell_exec_opts){.shell = "true", .env = ARGV("NOVALUE")}, NULL,
			0, &r, &E));
	cell_result_done(&r);
	FAILS(INVALID, cell_run(c, &(struct cell_exec_opts){.shell = "true", .env = ARGV("=x")},
			       NULL, 0, &r, &E));
	cell_result_done(&r);
}

TEST(a_large_environment_arrives)
{
	enum {
		N = 2000
	};
	auto_cell struct cell *c = open_cell(s);
	auto_free char *text = calloc(N, 512);
	auto_free const char **env = calloc(N + 1, sizeof(*env));

	ASSERT(text && env);
	for (size_t i = 0; i < N; i++) {
		char *at = text + i * 512;
		int n = snprintf(at, 512, "VAR_%zu=", i);
		memset(at + n, 'v', 400);
		env[i] = at;
	}
	auto_result struct cell_result r = run_opts(c,
		&(struct cell_exec_opts){
			.argv = ARGV("./probe", "env"), .env = env, .max_output = 8 << 20},
		NULL, 0);
	ASSERT_HAS(r.out, "VAR_0=vvv");
	ASSERT_HAS(r.out, "VAR_1999=vvv");
	ASSERT(r.out_len > (size_t)N * 400);
}

static void strcat_path(char path[PATH_MAX], const char *more)
{
	size_t n = strlen(path);

	ASSERT(n + strlen(more) < PATH_MAX);
	memcpy(path + n, more, strlen(more) + 1);
}

TEST_NEEDS(home_and_tmpdir_are_private_and_gone_afterwards, NEEDS(PRIVATE_HOME))
{
	char home[PATH_MAX] = "", tmp[PATH_MAX] = "";

	{
		auto_cell struct cell *c = open_cell(s);
		auto_result struct cell_result r =
			sh(c, "touch \"$HOME/was-in-a-cell\" \"$TMPDIR/was-in-a-cell\" && printf "
			      "'%s\\n%s\\n' \"$HOME\" "
			      "\"$TMPDIR\"");
		ASSERT_INT(r.exit.exit_code, 0);
		ASSERT_INT(sscanf(r.out, "%4095[^\n]\n%4095[^\n]", home, tmp), 2);
	}
	const char *host_home = getenv("HOME"), *host_tmp = getenv("TMPDIR");
	ASSERT(host_home && strcmp(home, host_home) != 0);
	ASSERT(host_tmp && strcmp(tmp, host_tmp) != 0);
	/* where files of the host are hidden the same names may mean something else there */
	strcat_path(home, "/was-in-a-cell");
	strcat_path(tmp, "/was-in-a-cell");
	ASSERT(access(home, F_OK) < 0);
	ASSERT(access(tmp, F_OK) < 0);
}

TEST_NEEDS(two_cells_do_not_share_a_home, NEEDS(PRIVATE_HOME))
{
	auto_cell struct cell *a = open_cell(s);
	auto_cell struct cell *b = open_cell(s);
	auto_result struct cell_result ra = sh(a, "echo a > \"$HOME/who\"; cat \"$HOME/who\"");
	auto_result struct cell_result rb = sh(b, "cat \"$HOME/who\" 2>/dev/null || echo nobody");

	ASSERT_STR(ra.out, "a\n");
	ASSERT_STR(rb.out, "nobody\n");
}
