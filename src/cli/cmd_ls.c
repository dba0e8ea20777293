/* SPDX-License-Identifier: Apache-2.0 */
/* cell ls: the cells there are. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cellinfo.h"
#include "cli/cells.h"
#include "cli/output.h"
#include "cli/units.h"

struct listing {
	const struct cli *cli;
	const char **labels; /* all must be there */
	bool is_all;
	struct cli_table table;
	json_t *list;
};

static bool has_label(const struct cell_info *info, const char *wanted)
{
	for (const char *const *l = info->labels; l && *l; l++) {
		size_t key = strcspn(*l, "=");
		if (!strcmp(*l, wanted) || (!strchr(wanted, '=') && strlen(wanted) == key &&
						   !strncmp(*l, wanted, key)))
			return true;
	}
	return false;
}

static void add_row(struct listing *l, const struct cell_info *info)
{
	uint64_t now_ms = (uint64_t)time(NULL) * 1000;
	uint64_t age_s =
		now_ms > info->created_unix_ms ? (now_ms - info->created_unix_ms) / 1000 : 0;
	char text[CLI_UNIT_MAX];

	cli_table_add(&l->table, info->name);
	cli_table_add(&l->table, info->backend ? info->backend : "?");
	cli_table_add_styled(&l->table, info->state == CELL_STATE_READY ? CLI_GOOD : CLI_WARN,
		cli_state_name(info->state));
	cli_table_add(&l->table, info->is_ephemeral ? "ephemeral" : "named");
	cli_table_add(&l->table, info->created_unix_ms ? cli_format_age(text, age_s) : "?");
	if (info->guest_pid)
		cli_table_addf(&l->table, "%" PRId64, info->guest_pid);
	else
		cli_table_add(&l->table, "-");
	cli_table_add(&l->table, info->workspace ? info->workspace : "");
}

static int add(const struct cell_info *info, void *user)
{
	struct listing *l = user;

	if (info->is_ephemeral && !l->is_all)
		return 0;
	for (const char **label = l->labels; *label; label++)
		if (!has_label(info, *label))
			return 0;
	if (l->cli->is_json)
		json_array_append_new(l->list, cli_cell_json(info));
	else if (l->cli->is_quiet)
		cli_print_line(info->name);
	else
		add_row(l, info);
	return 0;
}

static int ls(struct cli *cli, const struct cli_args *args)
{
	static const char *const titles[] = {
		"NAME", "BACKEND", "STATE", "KIND", "AGE", "PID", "WORKSPACE", NULL};
	auto_free const char **labels = cli_args_values(args, "label");
	struct listing l = {.cli = cli, .labels = labels, .is_all = cli_args_has(args, "all")};
	struct cell_error err = {0};

	if (cli_args_count(args, 0, 0, &err) < 0)
		return cli_fail(cli, &err);
	cli_table_init(&l.table, titles);
	l.list = json_array();
	if (cells->list(add, &l, &err) < 0) {
		cli_table_done(&l.table);
		json_decref(l.list);
		return cli_fail(cli, &err);
	}
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:o}", "cells", l.list));
	json_decref(l.list);
	if (!cli->is_quiet)
		cli_table_print(&l.table, cli);
	return cli_flush(cli);
}

static const struct cli_option options[] = {
	{"all", 'a', NULL, "those that end with the command that made them too"},
	{"label", 'l', "KEY[=VALUE]", "only cells with this label; may be repeated"},
	{0},
};

const struct cli_verb cli_verb_ls = {
	.name = "ls",
	.usage = "[OPTION...]",
	.summary = "list cells",
	.about = "Lists the named cells of this user. A cell whose guest has died is listed as "
		 "dead; "
		 "'cell prune' removes what is left of it. With --quiet only the names.",
	.examples = "cell ls\n"
		    "cell ls --label team=data\n"
		    "cell rm $(cell ls -q)",
	.groups = {options},
	.head = CLI_NO_COMMAND,
	.run = ls,
};
