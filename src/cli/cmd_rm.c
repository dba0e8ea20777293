/* SPDX-License-Identifier: Apache-2.0 */
/* cell rm: remove cells and everything that runs in them. */
#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/each.h"
#include "cli/memory.h"
#include "cli/output.h"

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

static int remove_idle(const char *name, struct cell_error *err)
{
	int r = check_idle(name, err);

	if (r == 0)
		r = cells->remove(name, err);
	if (r < 0 && err->code == CELL_ENOTFOUND && !*err->hint)
		return cell_error_hint(err, r, "'cell ls --all' lists the cells");
	return r;
}

static int remove_forced(const char *name, struct cell_error *err)
{
	int r = cells->remove(name, err);

	return r < 0 && err->code == CELL_ENOTFOUND ? 0 : r;
}

struct names {
	char **list;
	size_t n;
};

static void names_done(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
}

static int note_name(const struct cell_info *info, void *user)
{
	struct names *names = user;

	if (!info->is_ephemeral) {
		names->list = cli_realloc(names->list, names->n + 1, sizeof(*names->list));
		names->list[names->n++] = cli_strdup(info->name);
	}
	return 0;
}

static int rm_all(struct cli *cli, const struct cli_args *args, cli_each_fn fn)
{
	auto_(names_done) struct names names = {0};
	struct cell_error err = {0};

	if (args->n_operands) {
		cell_fail(&err, CELL_EINVAL, 0, "rm: --all and names exclude each other");
		cell_error_hint(&err, 0, "give one or the other");
		return cli_fail(cli, &err);
	}
	if (cells->list(note_name, &names, &err) < 0)
		return cli_fail(cli, &err);
	return cli_each(cli, (const char *const *)names.list, names.n, fn, "removed");
}

static int rm(struct cli *cli, const struct cli_args *args)
{
	cli_each_fn fn = cli_args_has(args, "force") ? remove_forced : remove_idle;

	return cli_args_has(args, "all") ? rm_all(cli, args, fn)
					 : cli_each_operand(cli, args, fn, "removed");
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
