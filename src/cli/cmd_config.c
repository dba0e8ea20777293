/* SPDX-License-Identifier: Apache-2.0 */
/* cell config: check configuration files, show what is in force. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/output.h"
#include "cli/spec.h"

/* Load one file by itself; `path` NULL: everything that is in force here. */
static int load(const struct cli *cli, const char *path, struct cell_config **ret,
	struct cell_error *err)
{
	struct cell_config_args how = {.path = path ? path : cli->config_path,
		.no_files = path || cli->no_config,
		.no_env = path != NULL};

	return cell_config_load(&how, ret, err);
}

/* Say so when the file asks for a back end that cannot be used here: the file is right all the
 * same. */
static const char *backend_remark(const struct cell_spec *spec, char *out, size_t size)
{
	struct cell_backend_info info;

	if (!spec->backend || cell_backend_probe(spec->backend, &info, NULL) < 0 || info.is_usable)
		return NULL;
	if (!info.is_built)
		(void)snprintf(out, size, "back end '%s' is not available in this build",
			spec->backend);
	else
		(void)snprintf(out, size, "back end '%s' is not usable here: %s", spec->backend,
			info.reason);
	return out;
}

/* A file that is not valid is an answer like any other: it goes into the list. */
static bool check_one(const struct cli *cli, const char *path, json_t *list)
{
	auto_(cli_config_freep) struct cell_config *cfg = NULL;
	const struct cell_spec *spec;
	struct cell_error err = {0};
	char text[400];
	const char *remark = NULL, *title = path ? path : "configuration";
	int r = load(cli, path, &cfg, &err);
	json_t *o = json_object(), *e;

	if (r == 0)
		r = cell_config_spec(cfg, &spec, &err);
	if (r == 0)
		remark = backend_remark(spec, text, sizeof(text));
	cli_json_string(o, "file", path);
	json_object_set_new(o, "valid", json_boolean(r == 0));
	cli_json_string(o, "remark", remark);
	if (r < 0) {
		e = json_object();
		cli_json_string(e, "code", cell_code_name(err.code));
		cli_json_string(e, "message", err.msg);
		cli_json_string(e, "hint", *err.hint ? err.hint : NULL);
		json_object_set_new(o, "error", e);
	}
	json_array_append_new(list, o);
	if (cli->is_json)
		return r == 0;
	if (r < 0)
		cli_fail(cli, &err);
	else if (!cli->is_quiet)
		printf("%s: ok%s%s\n", title, remark ? ", but " : "", remark ? remark : "");
	return r == 0;
}

static int check(struct cli *cli, const struct cli_args *args)
{
	json_t *list = json_array();
	bool is_valid = true;
	int r;

	for (size_t i = 0; i == 0 || i < args->n_operands; i++)
		is_valid &= check_one(cli, args->operands[i], list);
	if (cli->is_json) {
		r = cli_print_json(cli, json_pack("{s:b, s:o}", "valid", is_valid, "files", list));
	} else {
		json_decref(list);
		r = cli_flush(cli);
	}
	return r ? r : is_valid ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

static int show(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_config_freep) struct cell_config *cfg = NULL;
	auto_free char *text = NULL;
	struct cell_error err = {0};

	if (cli_args_count(args, 0, 0, &err) < 0 ||
		cli_spec_load(cli, args, &cfg, NULL, &err) < 0 ||
		cell_config_dump(cfg, cli->is_json ? CELL_CONFIG_JSON : CELL_CONFIG_YAML,
			cli_args_has(args, "origin"), &text, &err) < 0)
		return cli_fail(cli, &err);
	for (const char *const *f = cell_config_files(cfg); f && *f; f++)
		cli_tell(cli, "read %s", *f);
	if (cli->is_json && isatty(STDOUT_FILENO))
		return cli_print_json(cli, json_loads(text, 0, NULL));
	cli_print_lines(text);
	return cli_flush(cli);
}

static const struct cli_verb check_verb = {
	.name = "check",
	.of = "config",
	.usage = "[FILE...]",
	.summary = "check configuration files",
	.about =
		"Checks each FILE by itself, or without FILE everything in force here. An unknown "
		"key "
		"or a bad value is reported with file, line and column, and the nearest known key. "
		"A "
		"file for a back end that cannot be used here is valid; that is said. Exits with 0 "
		"when every file is valid, else with 125.",
	.examples = "cell config check\n"
		    "cell config check cell.yaml other.yaml",
	.operands = {CLI_FILE},
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = check,
};

static const struct cli_option show_options[] = {
	{"origin", 0, NULL, "where each value came from"},
	{0},
};

static const struct cli_verb show_verb = {
	.name = "show",
	.of = "config",
	.usage = "[OPTION...]",
	.summary = "show the configuration in force",
	.about = "Shows the merged configuration as YAML, or with --json as JSON: the system's "
		 "file, "
		 "the user's, the workspace's, --config, CELL_* variables, and options as 'cell "
		 "run' "
		 "takes them. Secrets are shown as ***.",
	.examples = "cell config show\n"
		    "cell config show --origin --memory 1g",
	.groups = {show_options, cli_spec_options},
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = show,
};

static const struct cli_verb *const verbs[] = {&check_verb, &show_verb, NULL};

const struct cli_verb cli_verb_config = {
	.name = "config",
	.usage = "VERB [OPTION...]",
	.summary = "check and show configuration",
	.about =
		"Configuration comes, weakest first, from /etc/cell/cell.yaml, "
		"$XDG_CONFIG_HOME/cell/cell.yaml, the workspace's cell.yaml, the file of --config, "
		"CELL_* environment variables, and options. See cell.yaml(5).",
	.examples = "cell config check cell.yaml\n"
		    "cell config show --origin",
	.operands = {CLI_VERB},
	.head = CLI_NO_COMMAND,
	.verbs = verbs,
};
