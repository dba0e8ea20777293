/* SPDX-License-Identifier: Apache-2.0 */
/* test_config_layers.c: which files and variables are read, and which of them wins. */
#include <limits.h>

#include "config_helper.h"

static char top[PATH_MAX];

/* A fresh tree with nothing of this machine's configuration in sight; the test's cwd is top/ws/a/b. */
static void fresh(void)
{
	char path[PATH_MAX + 32];

	(void)snprintf(top, sizeof top, "/tmp/cell-layers.XXXXXX");
	ASSERT(mkdtemp(top));
	static const char *const dirs[] = {
		"etc", "home", "home/.config", "home/.config/cell", "ws", "ws/a", "ws/a/b", NULL};
	for (size_t i = 0; dirs[i]; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", top, dirs[i]);
		ASSERT_OK(mkdir(path, 0700));
	}
	ASSERT_OK(chdir(path));
	(void)snprintf(path, sizeof path, "%s/home", top);
	ASSERT_OK(setenv("HOME", path, 1));
	(void)snprintf(path, sizeof path, "%s/etc", top);
	for (char **e = environ; *e;)
		if (!strncmp(*e, "CELL_", 5)) {
			char name[256];
			(void)snprintf(name, sizeof name, "%.*s", (int)strcspn(*e, "="), *e);
			ASSERT_OK(unsetenv(name));
			e = environ;
		} else {
			e++;
		}
	ASSERT_OK(setenv("CELL_CONFIG_SYSTEM_DIR", path, 1));
	ASSERT_OK(unsetenv("XDG_CONFIG_HOME"));
}

static void put(const char *relative, const char *text)
{
	char path[PATH_MAX + 64];
	(void)snprintf(path, sizeof path, "%s/%s", top, relative);
	write_whole(path, text);
}

static void clean_up(void)
{
	char command[] = "rm", flags[] = "-rf";
	ASSERT_OK(chdir("/"));
	pid_t pid = fork();
	if (pid == 0) {
		char *argv[] = {command, flags, top, NULL};
		execvp(command, argv);
		_exit(127);
	}
	int st;
	waitpid(pid, &st, 0);
}

static struct cell_config *load(const struct cell_config_args *args)
{
	struct cell_config *cfg = NULL;
	struct cell_error err = {0};
	int r = cell_config_load(args, &cfg, &err);
	CHECK_(r == 0, "%s (%s)", err.msg, err.hint);
	return cfg;
}

static void load_fails(const struct cell_config_args *args, const char *part, enum cell_code code)
{
	struct cell_config *cfg = NULL;
	struct cell_error err = {0};
	ASSERT(cell_config_load(args, &cfg, &err) < 0);
	CHECK_(strstr(err.msg, part), "'%s' is not in '%s'", part, err.msg);
	ASSERT_NUM(err.code, code);
}

TEST(each_layer_stands_over_the_one_below)
{
	struct cell_error err = {0};
	fresh();
	put("etc/cell.yaml",
		"image: system\nuser: system\ncwd: system\nname: system\nlabels: {a: s, b: s}\n");
	put("home/.config/cell/cell.yaml",
		"image: user\nuser: user\ncwd: user\nlabels: {b: u, c: u}\n");
	put("ws/cell.yaml", "image: workspace\nuser: workspace\nneeds: [pty]\n");
	put("given.yaml", "image: given\nneeds: [exec]\n");
	char given[PATH_MAX + 16];
	(void)snprintf(given, sizeof given, "%s/given.yaml", top);
	ASSERT_OK(setenv("CELL_TIMEOUT", "5s", 1));
	ASSERT_OK(setenv("CELL_LABELS", "c=e", 1));

	struct cell_config *cfg = load(&(struct cell_config_args){.path = given});
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->image, "given");
	ASSERT_STR(s->user, "workspace");
	ASSERT_STR(s->cwd, "user");
	ASSERT_STR(s->name, "system");
	ASSERT_STR(s->labels[0], "a=s");
	ASSERT_STR(s->labels[1], "b=u");
	ASSERT_STR(s->labels[2], "c=e");
	ASSERT_STR(s->needs[0], "exec");
	ASSERT(!s->needs[1]);
	ASSERT_NUM(s->timeout_ms, 5000);
	const char *const *files = cell_config_files(cfg);
	ASSERT(strstr(files[0], "/etc/cell.yaml") &&
		strstr(files[1], "/home/.config/cell/cell.yaml") &&
		strstr(files[2], "/ws/cell.yaml") && strstr(files[3], "/given.yaml") && !files[4]);
	ASSERT_OK(cell_config_set(cfg, "timeout", "1s", "--timeout", &err));
	ASSERT_NUM(spec_from(cfg)->timeout_ms, 1000);
	cell_config_free(cfg);

	cfg = load(&(struct cell_config_args){.no_env = true});
	ASSERT_NUM(spec_from(cfg)->timeout_ms, 0);
	ASSERT_STR(spec_from(cfg)->image, "workspace");
	cell_config_free(cfg);

	cfg = load(&(struct cell_config_args){.no_files = true, .path = given});
	ASSERT_STR(spec_from(cfg)->image, "given");
	ASSERT(!spec_from(cfg)->user);
	cell_config_free(cfg);
	clean_up();
}

TEST(no_configuration_at_all_is_fine)
{
	fresh();
	struct cell_config *cfg = load(NULL);
	ASSERT(!cell_config_files(cfg)[0]);
	ASSERT(!spec_from(cfg)->backend);
	cell_config_free(cfg);
	clean_up();
}

TEST(null_takes_away_what_a_weaker_layer_set)
{
	fresh();
	put("etc/cell.yaml", "image: x\nenv: {A: 1, B: 2}\ntimeout: 5\n");
	put("ws/cell.yaml", "image: null\nenv: {A: null, C: null}\n");
	struct cell_config *cfg = load(NULL);
	const struct cell_spec *s = spec_from(cfg);
	ASSERT(!s->image);
	ASSERT_STR(s->env[0], "B=2");
	ASSERT(!s->env[1]);
	ASSERT_NUM(s->timeout_ms, 5000);
	cell_config_free(cfg);
	clean_up();
}

TEST(the_search_goes_upwards_to_home_and_no_further)
{
	fresh();
	char home[PATH_MAX + 16];
	(void)snprintf(home, sizeof home, "%s/ws/a", top);
	put("ws/cell.yaml", "image: above\n");
	struct cell_config *cfg = load(NULL);
	ASSERT_STR(spec_from(cfg)->image, "above");
	cell_config_free(cfg);

	ASSERT_OK(setenv("HOME", home, 1));
	cfg = load(NULL);
	ASSERT(!spec_from(cfg)->image);
	cell_config_free(cfg);

	put("ws/a/cognition.yaml", "image: home\n");
	cfg = load(NULL);
	ASSERT_STR(spec_from(cfg)->image, "home");
	cell_config_free(cfg);
	clean_up();
}

TEST(the_nearest_file_wins_and_cell_yaml_before_cognition_yaml)
{
	fresh();
	put("ws/cell.yaml", "image: far\nuser: far\n");
	put("ws/a/cognition.yaml", "image: cognition\n");
	struct cell_config *cfg = load(NULL);
	ASSERT_STR(spec_from(cfg)->image, "cognition");
	ASSERT(!spec_from(cfg)->user);
	cell_config_free(cfg);
	put("ws/a/cell.yaml", "image: cell\n");
	cfg = load(NULL);
	ASSERT_STR(spec_from(cfg)->image, "cell");
	cell_config_free(cfg);
	clean_up();
}

TEST(the_search_can_begin_elsewhere)
{
	char start[PATH_MAX + 16];
	fresh();
	put("ws/cell.yaml", "image: x\n");
	(void)snprintf(start, sizeof start, "%s/ws", top);
	ASSERT_OK(chdir("/"));
	struct cell_config *cfg = load(&(struct cell_config_args){.directory = start});
	ASSERT_STR(spec_from(cfg)->image, "x");
	cell_config_free(cfg);
	load_fails(&(struct cell_config_args){.directory = "/nonexistent-dir"},
		"look for cell.yaml in '/nonexistent-dir': No such file", CELL_ENOTFOUND);
	clean_up();
}

TEST(xdg_config_home_is_honoured_when_absolute)
{
	char path[PATH_MAX + 16];
	fresh();
	put("home/.config/cell/cell.yaml", "image: home\n");
	(void)snprintf(path, sizeof path, "%s/xdg", top);
	ASSERT_OK(mkdir(path, 0700));
	(void)snprintf(path, sizeof path, "%s/xdg/cell", top);
	ASSERT_OK(mkdir(path, 0700));
	put("xdg/cell/cell.yaml", "image: xdg\n");
	(void)snprintf(path, sizeof path, "%s/xdg", top);
	ASSERT_OK(setenv("XDG_CONFIG_HOME", path, 1));
	struct cell_config *cfg = load(NULL);
	ASSERT_STR(spec_from(cfg)->image, "xdg");
	cell_config_free(cfg);
	ASSERT_OK(setenv("XDG_CONFIG_HOME", "relative", 1));
	cfg = load(NULL);
	ASSERT_STR(spec_from(cfg)->image, "home");
	cell_config_free(cfg);
	clean_up();
}

TEST(relative_paths_are_relative_to_the_file)
{
	char want[PATH_MAX + 32];
	fresh();
	put("ws/cell.yaml",
		"workspace: ./src\nmounts: ['.:/w', '../data:/d', '~:/h']\nroot: ~/root.tar\n");
	struct cell_config *cfg = load(NULL);
	const struct cell_spec *s = spec_from(cfg);
	(void)snprintf(want, sizeof want, "%s/ws/src", top);
	ASSERT_STR(s->workspace, want);
	(void)snprintf(want, sizeof want, "%s/ws", top);
	ASSERT_STR(s->mounts[0].source, want);
	(void)snprintf(want, sizeof want, "%s/ws/../data", top);
	ASSERT_STR(s->mounts[1].source, want);
	(void)snprintf(want, sizeof want, "%s/home", top);
	ASSERT_STR(s->mounts[2].source, want);
	(void)snprintf(want, sizeof want, "%s/home/root.tar", top);
	ASSERT_STR(s->root, want);
	cell_config_free(cfg);

	ASSERT_OK(setenv("CELL_WORKSPACE", "here", 1));
	cfg = load(&(struct cell_config_args){.path = "../../cell.yaml"});
	(void)snprintf(want, sizeof want, "%s/ws/a/b/here", top);
	ASSERT_STR(spec_from(cfg)->workspace, want);
	(void)snprintf(want, sizeof want, "%s/ws/a/b/../..", top);
	ASSERT_STR(spec_from(cfg)->mounts[0].source, want);
	cell_config_free(cfg);
	clean_up();
}

TEST(variables_set_keys_by_their_names)
{
	fresh();
	ASSERT_OK(setenv("CELL_BACKEND", "aws_ecs", 1));
	ASSERT_OK(setenv("CELL_LIMITS_MEMORY", "1g", 1));
	ASSERT_OK(setenv("CELL_LIMITS_BEST_EFFORT", "1", 1));
	ASSERT_OK(setenv("CELL_NETWORK_ALLOW", "a.org,b.org", 1));
	ASSERT_OK(setenv("CELL_MOUNTS", "[/a:/b, '/c:/d:ro']", 1));
	ASSERT_OK(setenv("CELL_ENV", "{A: 'x,y', B: z}", 1));
	ASSERT_OK(setenv("CELL_LABELS", "k=v,l=w", 1));
	ASSERT_OK(setenv("CELL_IMAGE", "", 1));
	ASSERT_OK(setenv("CELL_SANDBOX_CLUSTER", "c", 1));
	ASSERT_OK(setenv("CELL_SANDBOX_PRIMARY_TYPE", "lambda", 1));
	ASSERT_OK(setenv("CELL_SOMETHING_ELSE_ALTOGETHER", "x", 1));
	ASSERT_OK(unsetenv("CELL_SANDBOX_PRIMARY_TYPE"));
	struct cell_config *cfg = load(NULL);
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->backend, "ecs_fargate");
	ASSERT_NUM(s->limits.memory_bytes, 1 << 30);
	ASSERT(s->limits.is_best_effort);
	ASSERT_NUM(s->network, CELL_NETWORK_ALLOW);
	ASSERT_STR(s->network_allow[1], "b.org");
	ASSERT(s->mounts[1].is_read_only);
	ASSERT_STR(s->env[0], "A=x,y");
	ASSERT_STR(s->labels[1], "l=w");
	ASSERT(!s->image);
	ASSERT_STR(value_text(cfg, "sandbox.cluster"), "c");
	cell_config_free(cfg);
	clean_up();
}

TEST(the_back_end_called_null_can_be_asked_for)
{
	struct cell_error err = {0};
	fresh();
	ASSERT_OK(setenv("CELL_BACKEND", "null", 1));
	struct cell_config *cfg = load(NULL);
	ASSERT_STR(spec_from(cfg)->backend, "null");
	ASSERT_OK(cell_config_set(cfg, "backend", "trace:null", "--backend", &err));
	ASSERT_STR(spec_from(cfg)->backend, "trace:null");
	cell_config_free(cfg);
	ASSERT_OK(unsetenv("CELL_BACKEND"));
	put("ws/cell.yaml", "backend: \"null\"\n");
	cfg = load(NULL);
	ASSERT_STR(spec_from(cfg)->backend, "null");
	cell_config_free(cfg);
	clean_up();
}

TEST(a_bad_variable_names_itself)
{
	fresh();
	ASSERT_OK(setenv("CELL_LIMITS_MEMORY", "lots", 1));
	load_fails(NULL, "CELL_LIMITS_MEMORY: 'limits.memory' takes a size, not 'lots'",
		CELL_EINVAL);
	ASSERT_OK(unsetenv("CELL_LIMITS_MEMORY"));
	ASSERT_OK(setenv("CELL_BAKEND", "local", 1));
	load_fails(NULL, "CELL_BAKEND: no key belongs to this variable", CELL_EINVAL);
	ASSERT_OK(unsetenv("CELL_BAKEND"));
	ASSERT_OK(setenv("CELL_BACKEND", "local", 1));
	ASSERT_OK(setenv("CELL_RUN_MODE", "docker", 1));
	load_fails(NULL, "says", CELL_EINVAL);
	clean_up();
}

TEST(the_unit_of_a_plain_number_follows_the_back_end_of_a_weaker_layer)
{
	fresh();
	put("etc/cell.yaml", "backend: lambda\n");
	put("ws/cell.yaml", "memory: 256\n");
	struct cell_config *cfg = load(NULL);
	ASSERT_NUM(spec_from(cfg)->limits.memory_bytes, 256 << 20);
	cell_config_free(cfg);
	clean_up();
}

TEST(a_stronger_layer_replaces_the_network_of_a_weaker_one)
{
	fresh();
	put("etc/cell.yaml", "network: {allow: [a.org]}\n");
	put("ws/cell.yaml", "network: none\n");
	struct cell_config *cfg = load(NULL);
	ASSERT_NUM(spec_from(cfg)->network, CELL_NETWORK_NONE);
	ASSERT(!spec_from(cfg)->network_allow);
	cell_config_free(cfg);
	put("etc/cell.yaml", "network: none\n");
	put("ws/cell.yaml", "network: {allow: [b.org]}\n");
	cfg = load(NULL);
	ASSERT_NUM(spec_from(cfg)->network, CELL_NETWORK_ALLOW);
	cell_config_free(cfg);
	clean_up();
}

TEST(options_of_another_back_end_in_another_layer_do_no_harm)
{
	fresh();
	put("home/.config/cell/cell.yaml", "sandbox: {cluster: mine}\n");
	put("ws/cell.yaml", "backend: local\n");
	struct cell_config *cfg = load(NULL);
	ASSERT_STR(spec_from(cfg)->backend, "local");
	cell_config_free(cfg);
	clean_up();
}

TEST(layers_that_only_together_make_no_sense_are_refused_with_the_spec)
{
	struct cell_error err = {0};
	const struct cell_spec *s;
	fresh();
	put("etc/cell.yaml", "timeout: 20m\n");
	put("ws/cell.yaml", "backend: lambda\n");
	struct cell_config *cfg = load(NULL);
	ASSERT(cell_config_spec(cfg, &s, &err) < 0);
	ASSERT(strstr(err.msg, "etc/cell.yaml:1:10: 'timeout' is 20m; for lambda"));
	ASSERT_OK(cell_config_set(cfg, "backend", "local", "--backend", &err));
	spec_from(cfg);
	cell_config_free(cfg);
	clean_up();
}

TEST(what_is_no_readable_file_is_a_clear_error)
{
	char path[PATH_MAX + 16];
	fresh();
	load_fails(&(struct cell_config_args){.path = "nowhere.yaml"},
		"open the configuration 'nowhere.yaml': No such file", CELL_ENOTFOUND);
	load_fails(&(struct cell_config_args){.path = "/tmp"},
		"read the configuration '/tmp': Is a dir", CELL_EINVAL);
	(void)snprintf(path, sizeof path, "%s/ws/cell.yaml", top);
	ASSERT_OK(mkfifo(path, 0600));
	load_fails(NULL, "not a regular file", CELL_EINVAL);
	ASSERT_OK(unlink(path));
	ASSERT_OK(mkdir(path, 0700));
	load_fails(NULL, "Is a directory", CELL_EINVAL);
	ASSERT_OK(rmdir(path));
	char *big = malloc((1 << 20) + 2);
	ASSERT(big);
	memset(big, '#', (1 << 20) + 1);
	big[(1 << 20) + 1] = '\0';
	put("ws/cell.yaml", big);
	free(big);
	load_fails(NULL, "larger than 1 MiB", CELL_EINVAL);
	put("ws/cell.yaml", "imge: x\n");
	load_fails(NULL, "/ws/cell.yaml:1:1: unknown key 'imge'", CELL_EINVAL);
	clean_up();
}

TEST(a_pipe_given_by_path_is_read)
{
	int fds[2];
	char path[40];
	fresh();
	ASSERT_OK(pipe(fds));
	ASSERT(write(fds[1], "image: x\n", 9) == 9);
	ASSERT_OK(close(fds[1]));
	(void)snprintf(path, sizeof path, "/dev/fd/%d", fds[0]);
	struct cell_config *cfg = load(&(struct cell_config_args){.path = path});
	ASSERT_STR(spec_from(cfg)->image, "x");
	cell_config_free(cfg);
	clean_up();
}

TEST(a_file_above_that_belongs_to_a_stranger_is_refused)
{
	char path[PATH_MAX + 16];
	fresh();
	put("ws/cell.yaml", "image: planted\n");
	(void)snprintf(path, sizeof path, "%s/ws/cell.yaml", top);
	if (geteuid() != 0) {
		clean_up();
		SKIP("needs root to give a file away");
	}
	struct cell_config *cfg = load(NULL);
	ASSERT_STR(spec_from(cfg)->image, "planted");
	cell_config_free(cfg);
	ASSERT_OK(unsetenv("SUDO_UID"));
	ASSERT_OK(chown(path, 12345, 12345));
	load_fails(NULL, "it belongs to another user (uid 12345)", CELL_EDENIED);
	ASSERT_OK(setenv("SUDO_UID", "12345", 1));
	cfg = load(NULL);
	cell_config_free(cfg);
	ASSERT_OK(unsetenv("SUDO_UID"));
	cfg = load(&(struct cell_config_args){.path = path, .no_files = true});
	ASSERT_STR(spec_from(cfg)->image, "planted");
	cell_config_free(cfg);
	clean_up();
}

TEST(a_directory_that_is_gone_is_an_error_not_a_crash)
{
	fresh();
	char path[PATH_MAX + 16];
	(void)snprintf(path, sizeof path, "%s/ws/a/b", top);
	ASSERT_OK(rmdir(path));
	load_fails(NULL, "look for cell.yaml in '.'", CELL_ENOTFOUND);
	struct cell_config *cfg = load(&(struct cell_config_args){.no_files = true});
	struct cell_error err = {0};
	ASSERT(cell_config_set(cfg, "workspace", "x", "--workspace", &err) < 0);
	ASSERT(strstr(err.msg, "relative to a directory that is not known"));
	cell_config_free(cfg);
	clean_up();
}
