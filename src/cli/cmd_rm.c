/* SPDX-License-Identifier: Apache-2.0 */
/* cell rm: remove cells and everything that runs in them. */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/signals.h"

static int count_running(const struct cell_exec_info *info, void *user)
{
	unsigned *n = user;

	*n += info->state != CELL_EXEC_EXITED;
	return 0;
}

/* Without --force a cell with work in it is not removed. One that cannot be asked is dead. */
static int check_idle(const char *name, struct cell_error *err)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	unsigned n = 0;

	if (cells->reopen(name, &c, NULL) < 0 || cells->ps(c, count_running, &n, NULL) < 0 || !n)
		return 0;
	cell_fail(err, CELL_EBUSY, 0, "remove cell '%s': %u %s in it", name, n,
		n == 1 ? "command runs" : "commands run");
	return cell_error_hint(err, -EBUSY, "'cell ps %s' lists them; 'cell rm -f %s' ends them",
		name, name);
}

static int remove_one(const char *name, bool is_forced, struct cell_error *err)
{
	int r = is_forced ? 0 : check_idle(name, err);

	if (r == 0)
		r = cells->remove(name, err);
	if (r < 0 && is_forced && err->code == CELL_ENOTFOUND)
		return 0;
	if (r < 0 && err->code == CELL_ENOTFOUND && !*err->hint)
		return cell_error_hint(err, r, "'cell ls --all' lists the cells");
	return r;
}

struct names {
	char **list;
	size_t n;
};

static int note_name(const struct cell_info *info, void *user)
{
	struct names *names = user;

	if (!info->is_ephemeral) {
		names->list = cli_realloc(names->list, names->n + 1, sizeof(*names->list));
		names->list[names->n++] = cli_strdup(info->name);
	}
	return 0;
}

static int choose(const struct cli_args *args, struct names *names, struct cell_error *err)
{
	if (cli_args_has(args, "all")) {
		if (args->n_operands) {
			cell_fail(err, CELL_EINVAL, 0, "rm: --all and names exclude each other");
			return cell_error_hint(err, -EINVAL, "give one or the other");
		}
		return cells->list(note_name, names, err);
	}
	if (cli_args_count(args, 1, CLI_MANY, err) < 0)
		return -EINVAL;
	names->list = cli_calloc(args->n_operands, sizeof(*names->list));
	for (size_t i = 0; i < args->n_operands; i++)
		names->list[names->n++] = cli_strdup(args->operands[i]);
	return 0;
}

/* One that fails does not save the others; every failure is said, the first one is the answer. */
static int rm(struct cli *cli, const struct cli_args *args)
{
	struct cell_error err = {0};
	struct names names = {0};
	json_t *removed = json_array();
	bool is_failed = choose(args, &names, &err) < 0;

	cli_signals_catch();
	cli_signals_patience(1);
	if (is_failed)
		cli_fail(cli, &err);
	for (size_t i = 0; i < names.n; i++) {
		struct cell_error one = {0};
		if (is_failed && cli->is_json) {
			/* one object only */
		} else if (remove_one(names.list[i], cli_args_has(args, "force"), &one) < 0) {
			cli_fail(cli, &one);
			is_failed = true;
		} else {
			json_array_append_new(removed, json_string(names.list[i]));
			cli_tell(cli, "removed %s", names.list[i]);
		}
	}
	for (size_t i = 0; i < names.n; i++)
		free(names.list[i]);
	free(names.list);
	if (cli->is_json && !is_failed)
		return cli_print_json(cli, json_pack("{s:o}", "removed", removed));
	json_decref(removed);
	return is_failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

static const struct cli_option options[] = {
	{"force", 'f', NULL, "end what runs in it, and do not mind cells that are not there"},
	{"all", 'a', NULL, "every named cell"},
	{0},
};

const struct cli_verb cli_verb_rm = {
	.name = "rm",
	.usage = "[OPTION...] CELL...",
	.summary = "remove cells",
	.about = "Ends every process of each cell and removes what the back end made for it. A "
		 "workspace of the host stays. A cell in which commands run is removed only with "
		 "--force.",
	.examples = "cell rm web db\n"
		    "cell rm -f --all",
	.groups = {options},
	.operands = {CLI_CELL},
	.head = CLI_NO_COMMAND,
	.run = rm,
};
