/* SPDX-License-Identifier: Apache-2.0 */
/* cell ps: the commands of one cell, or of all. */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/units.h"

struct listing {
	const struct cli *cli;
	const struct cell *cell;
	struct cli_table table;
	json_t *list;
	bool is_all; /* those that ended too */
};

static const char *state_name(enum cell_exec_state state)
{
	switch (state) {
	case CELL_EXEC_RUNNING:
		return "running";
	case CELL_EXEC_EXITED:
		return "exited";
	case CELL_EXEC_LINGERING:
		return "lingering";
	}
	return "unknown";
}

static void add_json(json_t *list, const struct cell *c, const struct cell_exec_info *info)
{
	bool is_running = info->state == CELL_EXEC_RUNNING;
	const struct cell_exit *e = &info->exit;
	json_t *o = json_object();

	cli_json_string(o, "cell", cells->name(c));
	cli_json_string(o, "id", info->id);
	cli_json_string(o, "command", info->command);
	cli_json_string(o, "state", state_name(info->state));
	json_object_set_new(o, "pid", info->pid ? json_integer(info->pid) : json_null());
	json_object_set_new(o, "tty", json_boolean(info->is_tty));
	json_object_set_new(o, "started_unix_ms", json_integer((json_int_t)info->started_unix_ms));
	json_object_set_new(o, "exit_code", is_running ? json_null() : json_integer(e->exit_code));
	json_object_set_new(o, "signal", e->signal ? json_integer(e->signal) : json_null());
	json_object_set_new(o, "timed_out", json_boolean(e->timed_out));
	json_object_set_new(o, "stdout_bytes", json_integer((json_int_t)info->out_bytes));
	json_object_set_new(o, "stderr_bytes", json_integer((json_int_t)info->err_bytes));
	json_object_set_new(o, "stdout_oldest", json_integer((json_int_t)info->out_oldest));
	json_object_set_new(o, "stderr_oldest", json_integer((json_int_t)info->err_oldest));
	json_object_set_new(o, "label", *info->label ? json_string(info->label) : json_null());
	json_array_append_new(list, o);
}

static void add_row(struct listing *l, const struct cell_exec_info *info)
{
	uint64_t now_ms = (uint64_t)time(NULL) * 1000;
	uint64_t age_s =
		now_ms > info->started_unix_ms ? (now_ms - info->started_unix_ms) / 1000 : 0;
	bool is_running = info->state == CELL_EXEC_RUNNING;
	char text[CLI_UNIT_MAX];

	cli_table_add(&l->table, cells->name(l->cell));
	cli_table_add(&l->table, info->id);
	cli_table_add_styled(&l->table, is_running ? CLI_GOOD : CLI_PLAIN, state_name(info->state));
	if (is_running)
		cli_table_add(&l->table, "-");
	else
		cli_table_addf(&l->table, "%d", info->exit.exit_code);
	if (info->pid)
		cli_table_addf(&l->table, "%" PRId64, info->pid);
	else
		cli_table_add(&l->table, "-");
	cli_table_add(&l->table, cli_format_age(text, age_s));
	cli_table_add(&l->table, cli_format_size(text, info->out_bytes + info->err_bytes));
	cli_table_add(&l->table, info->command);
}

static int add(const struct cell_exec_info *info, void *user)
{
	struct listing *l = user;

	if (!l->is_all && info->state == CELL_EXEC_EXITED)
		return 0;
	if (l->cli->is_json)
		add_json(l->list, l->cell, info);
	else if (l->cli->is_quiet)
		cli_print_line(info->id);
	else
		add_row(l, info);
	return 0;
}

static int list_cell(struct listing *l, const char *name, struct cell_error *err)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	int r = cli_cell_open(name, &c, err);

	l->cell = c;
	return r < 0 ? r : cells->ps(c, add, l, err);
}

struct names {
	char **list;
	size_t n;
};

static int note_name(const struct cell_info *info, void *user)
{
	struct names *names = user;

	if (info->state == CELL_STATE_READY && !info->is_ephemeral) {
		names->list = cli_realloc(names->list, names->n + 1, sizeof(*names->list));
		names->list[names->n++] = cli_strdup(info->name);
	}
	return 0;
}

/* A cell that goes away while it is looked at is told of, and the others are shown. */
static int list_all(struct listing *l, struct cell_error *err)
{
	struct names names = {0};
	int r = cells->list(note_name, &names, err);

	for (size_t i = 0; i < names.n; i++) {
		struct cell_error one = {0};
		if (list_cell(l, names.list[i], &one) < 0)
			cli_note(l->cli, "%s", one.msg);
		free(names.list[i]);
	}
	free(names.list);
	return r;
}

static int ps(struct cli *cli, const struct cli_args *args)
{
	static const char *const titles[] = {
		"CELL", "ID", "STATE", "EXIT", "PID", "AGE", "OUTPUT", "COMMAND", NULL};
	struct listing l = {.cli = cli, .is_all = cli_args_has(args, "all")};
	struct cell_error err = {0};
	int r;

	if (cli_args_count(args, 0, 1, &err) < 0)
		return cli_fail(cli, &err);
	cli_table_init(&l.table, titles);
	l.list = json_array();
	r = args->n_operands ? list_cell(&l, args->operands[0], &err) : list_all(&l, &err);
	if (r < 0) {
		cli_table_done(&l.table);
		json_decref(l.list);
		return cli_fail(cli, &err);
	}
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:o}", "commands", l.list));
	json_decref(l.list);
	if (!cli->is_quiet)
		cli_table_print(&l.table, cli);
	return cli_flush(cli);
}

static const struct cli_option options[] = {
	{"all", 'a', NULL, "those that have ended too"},
	{0},
};

const struct cli_verb cli_verb_ps = {
	.name = "ps",
	.usage = "[OPTION...] [CELL]",
	.summary = "list the commands of a cell, or of all cells",
	.about = "Lists commands that run, and those whose own process has ended while others it "
		 "started run on (lingering). With --all those that have ended are listed too, as "
		 "long "
		 "as the cell keeps their output. With --quiet only the ids.",
	.examples = "cell ps\n"
		    "cell ps --all web\n"
		    "cell ps --json web",
	.groups = {options},
	.operands = {CLI_CELL},
	.head = CLI_NO_COMMAND,
	.run = ps,
};
