/* SPDX-License-Identifier: Apache-2.0 */
/* cell create: make a named cell that stays. */
#include <errno.h>
#include <stdio.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/spec.h"

/* A name nobody has. 40 random bits: enough that two of a user's cells never meet. */
static int random_name(char out[CELL_NAME_MAX], struct cell_error *err)
{
	unsigned char bytes[5];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return cell_fail_errno(err, errno, "make up a name");
	(void)snprintf(out, CELL_NAME_MAX, "cell-%02x%02x%02x%02x%02x", bytes[0], bytes[1],
		bytes[2], bytes[3], bytes[4]);
	return 0;
}

static int choose_name(const struct cli_args *args, struct cell_config *cfg,
	const struct cell_spec **spec, struct cell_error *err)
{
	char name[CELL_NAME_MAX];
	int r = 0;

	if (args->n_operands && cli_args_value(args, "name")) {
		cell_fail(err, CELL_EINVAL, 0,
			"create: the name is given twice, '%.64s' and --name '%.64s'",
			args->operands[0], cli_args_value(args, "name"));
		return cell_error_hint(err, -EINVAL, "give it once");
	}
	if (args->n_operands) {
		r = cell_config_set(cfg, "name", args->operands[0], "NAME", err);
	} else if (!(*spec)->name) {
		r = random_name(name, err);
		if (r == 0)
			r = cell_config_set(cfg, "name", name, "a random name", err);
	}
	if (r < 0 && !*err->hint)
		return cell_error_hint(err, r, "example: cell create web-1");
	return r < 0 ? r : cell_config_spec(cfg, spec, err);
}

static int create(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_config_freep) struct cell_config *cfg = NULL;
	auto_(cli_cell_close) struct cell *c = NULL;
	const struct cell_spec *spec;
	struct cell_error err = {0};
	json_t *o;

	if (cli_args_count(args, 0, 1, &err) < 0 ||
		cli_spec_load(cli, args, &cfg, &spec, &err) < 0 ||
		choose_name(args, cfg, &spec, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_catch();
	cli_signals_patience(1);
	if (cli_cell_make(cli, spec, &c, &err) < 0)
		return cli_fail(cli, &err);
	if (cli_signals_stop()) {
		(void)cells->destroy(steal_ptr(c), NULL);
		return CLI_EXIT_SIGNAL + cli_signals_stop();
	}
	cli_tell_degraded(cli, c);
	if (!cli->is_json) {
		cli_print_line(cells->name(c));
		return cli_flush(cli);
	}
	o = json_object();
	cli_json_string(o, "name", cells->name(c));
	cli_json_string(o, "backend", cells->backend_of(c));
	json_object_set_new(o, "degraded", cli_json_caps(cells->degraded(c)));
	return cli_print_json(cli, o);
}

const struct cli_verb cli_verb_create = {
	.name = "create",
	.usage = "[OPTION...] [NAME]",
	.summary = "make a named cell that stays until it is removed",
	.about = "Makes a cell that outlives this command; no daemon is needed. Prints its name. "
		 "Without NAME one is made up. Other commands use the cell by its name: exec, "
		 "shell, "
		 "cp, file, logs, rm.",
	.examples = "cell create web\n"
		    "cell create --backend subprocess --memory 1g --limits best-effort web\n"
		    "cell create -w ./project --label team=data analysis",
	.groups = {cli_spec_options},
	.operands = {CLI_ANY},
	.head = CLI_NO_COMMAND,
	.run = create,
};
