/* SPDX-License-Identifier: Apache-2.0 */
/* cell snapshot: saved cells. */
#include <stdio.h>
#include <time.h>

#include "cli/args.h"
#include "cli/cells.h"
#include "cli/each.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/units.h"

static int save(struct cli *cli, const struct cli_args *args)
{
	struct cell_error err = {0};

	if (cli_args_count(args, 2, 2, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_catch();
	cli_signals_patience(1);
	if (cells->snapshot(args->operands[0], args->operands[1], &err) < 0)
		return cli_fail(cli, &err);
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:s, s:s}", "name", args->operands[1],
						   "cell", args->operands[0]));
	cli_print_line(args->operands[1]);
	return cli_flush(cli);
}

struct listing {
	const struct cli *cli;
	struct cli_table table;
	json_t *list;
};

static int add(const struct cell_snapshot_info *info, void *user)
{
	struct listing *l = user;
	uint64_t now_s = (uint64_t)time(NULL), made_s = info->created_unix_ms / 1000;
	char text[CLI_UNIT_MAX];

	if (l->cli->is_json) {
		json_t *o = json_object();
		cli_json_string(o, "name", info->name);
		cli_json_string(o, "cell", info->cell);
		cli_json_string(o, "from", info->from);
		cli_json_string(o, "backend", info->backend);
		json_object_set_new(o, "created_unix_ms",
			json_integer((json_int_t)info->created_unix_ms));
		json_object_set_new(o, "size_bytes", json_integer((json_int_t)info->size_bytes));
		json_array_append_new(l->list, o);
		return 0;
	}
	if (l->cli->is_quiet) {
		cli_print_line(info->name);
		return 0;
	}
	cli_table_add(&l->table, info->name);
	cli_table_add(&l->table, info->backend);
	cli_table_add(&l->table, info->cell);
	cli_table_add(&l->table, cli_format_age(text, now_s > made_s ? now_s - made_s : 0));
	cli_table_add(&l->table, cli_format_size(text, info->size_bytes));
	cli_table_add(&l->table, info->from);
	return 0;
}

static int ls(struct cli *cli, const struct cli_args *args)
{
	static const char *const titles[] = {
		"NAME", "BACKEND", "CELL", "AGE", "SIZE", "FROM", NULL};
	struct listing l = {.cli = cli, .list = json_array()};
	struct cell_error err = {0};

	cli_table_init(&l.table, titles);
	if (cli_args_count(args, 0, 0, &err) < 0 || cells->snapshot_list(add, &l, &err) < 0) {
		json_decref(l.list);
		return cli_fail(cli, &err);
	}
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:o}", "snapshots", l.list));
	json_decref(l.list);
	if (!cli->is_quiet)
		cli_table_print(&l.table, cli);
	return cli_flush(cli);
}

static int rm(struct cli *cli, const struct cli_args *args)
{
	return cli_each_operand(cli, args, cells->snapshot_remove, "removed");
}

static const struct cli_verb verb_save = {
	.name = "save",
	.of = "snapshot",
	.usage = "CELL NAME",
	.summary = "save a cell's files under a name",
	.about = "Saves what the cell has changed of its image, its home, and its workspace where "
		 "that "
		 "is not a directory of the host. The cell goes on; what is written meanwhile may "
		 "be "
		 "saved or not. Processes, /tmp and environment are not saved.",
	.examples = "cell snapshot save web web-with-deps\n"
		    "cell create --from web-with-deps web-2",
	.operands = {CLI_CELL, CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = save,
};

static const struct cli_verb verb_ls = {
	.name = "ls",
	.of = "snapshot",
	.usage = "",
	.summary = "list the snapshots",
	.about = "Lists the snapshots there are, and the image or snapshot that each saved cell "
		 "had begun "
		 "with. SIZE is what they take in the state directory; what an engine keeps for "
		 "them is "
		 "not in it.",
	.examples = "cell snapshot ls",
	.head = CLI_NO_COMMAND,
	.run = ls,
};

static const struct cli_verb verb_rm = {
	.name = "rm",
	.of = "snapshot",
	.usage = "NAME...",
	.summary = "remove snapshots",
	.about = "Removes snapshots. One that a cell was made from can be removed when that cell "
		 "is gone.",
	.examples = "cell snapshot rm web-with-deps",
	.operands = {CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = rm,
};

static const struct cli_verb *const verbs[] = {&verb_save, &verb_ls, &verb_rm, NULL};

const struct cli_verb cli_verb_snapshot = {
	.name = "snapshot",
	.usage = "VERB [ARGUMENT...]",
	.summary = "save cells, and make others from what was saved",
	.about = "A snapshot is a saved cell. 'cell create --from NAME' and 'cell run --from NAME' "
		 "begin "
		 "with one, on the back end that made it; such a cell can be saved again, so they "
		 "stack: base, project, branch. Needs a back end that promises 'snapshot': see "
		 "'cell "
		 "backends'.",
	.examples = "cell snapshot save web ready\n"
		    "cell run --from ready -- ls\n"
		    "cell snapshot ls",
	.operands = {CLI_VERB},
	.head = CLI_NO_COMMAND,
	.verbs = verbs,
};
