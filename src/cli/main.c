/* SPDX-License-Identifier: Apache-2.0 */
/* main.c: finds the verb, reads the options every verb has, hands over. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/help.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/remote/remote.h"
#include "cli/signals.h"
#include "cli/spec.h"
#include "server/fetch.h"

/* A descriptor among the first three that is closed would be taken by the next file we open, and
 * output meant for the user would end up in it. */
static void open_standard_fds(void)
{
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
			(void)open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
}

/* How is a mistake to be reported that kept us from reading the options to their end? */
static bool mentions_json(int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (!strcmp(argv[i], "--json"))
			return true;
	return false;
}

static int take_globals(struct cli *cli, const struct cli_args *args, struct cell_error *err)
{
	const char *color = cli_args_value(args, "color"), *dir = cli_args_value(args, "state-dir");
	const char *config = cli_args_value(args, "config");

	cli->is_json |= cli_args_has(args, "json");
	cli->is_quiet |= cli_args_has(args, "quiet");
	cli->is_verbose |= cli_args_has(args, "verbose");
	cli->no_config |= cli_args_has(args, "no-config");
	if (config)
		cli->config_path = config;
	if (cli_args_value(args, "server"))
		cli->server = cli_args_value(args, "server");
	if (cli_args_value(args, "token-file"))
		cli->token_file = cli_args_value(args, "token-file");
	if (cli_args_value(args, "ca"))
		cli->ca_file = cli_args_value(args, "ca");
	if (color && cli_color_set(cli, color) < 0) {
		cell_fail(err, CELL_EINVAL, 0, "option '--color': '%.40s' is not known", color);
		return cell_error_hint(err, -EINVAL, "write auto, always or never");
	}
	if (dir) {
		/* The library reads it where it needs it, and so does every process it starts. */
		auto_free char *path = cli_absolute(dir);
		if (!*dir || setenv("CELL_STATE_DIR", path, 1) < 0) {
			cell_fail(err, CELL_EINVAL, 0,
				"option '--state-dir': '%.100s' is no directory", dir);
			return cell_error_hint(err, -EINVAL, "give a directory of your own");
		}
	}
	return 0;
}

static const char *from_env(const char *given, const char *name)
{
	const char *value = given ? given : getenv(name);

	return value && *value ? value : NULL;
}

/* Where the cells are: here, or with a server. */
static int choose_cells(const struct cli *cli, const struct cli_verb *verb,
	const struct cli_args *args, struct cell_error *err)
{
	struct remote_settings s = {.url = from_env(cli->server, "CELL_SERVER"),
		.token_file = cli->token_file,
		.ca_file = from_env(cli->ca_file, "CELL_CA")};

	if (verb->is_here && cli->server) {
		char title[CLI_TITLE_MAX];
		cell_fail(err, CELL_EINVAL, 0, "%s: works on this machine, not on a server",
			cli_verb_title(verb, title));
		return cell_error_hint(err, -EINVAL, "leave --server out");
	}
	if (verb->is_here || !s.url)
		return 0;
	for (size_t i = 0; i < args->n_given; i++)
		s.has_server_paths |= !strcmp(args->given[i].option->name, "server-paths");
	s.has_server_paths |= from_env(NULL, "CELL_SERVER_PATHS") != NULL;
	return remote_use(cli, &s, err);
}

/* Parse the words after a verb (or after "cell") and do what they say. */
static int dispatch(struct cli *cli, const struct cli_verb *verb, int argc, char **argv)
{
	auto_(cli_args_done) struct cli_args args = {0};
	const struct cli_verb *const *verbs = verb ? verb->verbs : cli->verbs;
	const struct cli_verb *next;
	struct cell_error err = {0};
	bool is_leaf = verb && verb->run;

	/* A verb with verbs of its own takes the global options only, up to the next verb. */
	if (cli_args_parse(is_leaf ? verb : NULL, argc, argv, &args, &err) < 0) {
		cli->is_json |= mentions_json(argc, argv);
		return cli_fail(cli, &err);
	}
	if (take_globals(cli, &args, &err) < 0)
		return cli_fail(cli, &err);
	if (cli_args_has(&args, "version"))
		return cli_verb_version.run(cli, &args);
	if (cli_args_has(&args, "help"))
		return verb ? cli_help_verb(cli, verb) : cli_help_all(cli);
	if (is_leaf && choose_cells(cli, verb, &args, &err) < 0)
		return cli_fail(cli, &err);
	if (is_leaf)
		return verb->run(cli, &args);
	if (!args.n_operands) {
		char title[CLI_TITLE_MAX];
		if (!verb && !cli->is_json)
			return cli_help_all(cli);
		cell_fail(&err, CELL_EINVAL, 0, "%s: no verb given", cli_verb_title(verb, title));
		cell_error_hint(&err, 0, "'%s --help' lists them", title);
		return cli_fail(cli, &err);
	}
	if (cli_verb_find(verbs, verb, args.operands[0], &next, &err) < 0)
		return cli_fail(cli, &err);
	int skipped = argc - (int)args.n_operands;
	return dispatch(cli, next, argc - skipped, argv + skipped);
}

static bool is_stopped(void *arg)
{
	(void)arg;
	return cli_signals_stop() != 0;
}

int main(int argc, char **argv)
{
	struct cli cli = {.verbs = cli_verbs};
	char *none[] = {(char[]){"cell"}, NULL};

	open_standard_fds();
	fetch_set_cancelled(is_stopped);
	cell_deps_set_fetch(fetch_url);
	(void)cli_color_set(&cli, "auto");
	if (argc < 1) {
		argc = 1;
		argv = none;
	}
	return dispatch(&cli, NULL, argc, argv);
}
