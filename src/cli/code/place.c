/* SPDX-License-Identifier: Apache-2.0 */
/* place.c: see place.h. */
#include "cli/code/place.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/spec.h"

/* Walls that were asked for and that the cell may not have are an error, not a remark. */
static int check_options(const struct cli_args *args, const char *name, struct cell_error *err)
{
	for (size_t i = 0; i < args->n_given; i++) {
		const struct cli_option *o = args->given[i].option;
		if (!o->key || !strcmp(o->name, "timeout"))
			continue;
		cell_fail(err, CELL_EINVAL, 0,
			"code: --%s is for a fresh cell, but '%.64s' is there already", o->name,
			name);
		return cell_error_hint(err, -EINVAL,
			"leave it out, or remove the cell first: cell rm %.64s", name);
	}
	return 0;
}

static int make(const struct cli *cli, const struct cli_args *args, const char *name,
	struct code_place *p, struct cell_error *err)
{
	const struct cell_spec *spec;
	int r = cli_spec_load(cli, args, &p->cfg, &spec, err);

	if (r == 0 && name) {
		r = cell_config_set(p->cfg, "name", name, "--session", err);
		if (r == 0)
			r = cell_config_spec(p->cfg, &spec, err);
	}
	if (r == 0)
		r = cli_cell_make(cli, spec, &p->cell, err);
	if (r == 0)
		cli_tell_degraded(cli, p->cell);
	return r;
}

int code_place_open(const struct cli *cli, const struct cli_args *args, struct code_place *ret,
	struct cell_error *err)
{
	const char *name = cli_args_value(args, "session");
	struct cell_error why = {0};
	int r;

	*ret = (struct code_place){.is_kept = name != NULL};
	if (!name)
		return make(cli, args, NULL, ret, err);
	if (cli_args_value(args, "name")) {
		cell_fail(err, CELL_EINVAL, 0, "code: --session and --name exclude each other");
		return cell_error_hint(err, -EINVAL, "--session names a cell that stays");
	}
	r = cells->reopen(name, &ret->cell, &why);
	if (r < 0 && why.code == CELL_ENOTFOUND) {
		why = (struct cell_error){0};
		r = make(cli, args, name, ret, &why);
		if (r == 0)
			cli_note(cli, "made cell '%s'; 'cell rm %s' removes it", name, name);
		/* somebody else was faster */
		if (r < 0 && why.code == CELL_EEXISTS)
			r = cells->reopen(name, &ret->cell, &why);
	} else if (r == 0) {
		r = check_options(args, name, &why);
	}
	if (r < 0 && err)
		*err = why;
	return r;
}

void code_place_close(const struct cli *cli, struct code_place *p)
{
	struct cell_error err = {0};
	int r = 0;

	cli_signals_patience(1);
	if (p->cell)
		r = p->is_kept ? cells->close(p->cell, &err) : cells->destroy(p->cell, &err);
	p->cell = NULL;
	if (r < 0)
		cli_fail(&(struct cli){.color_err = cli->color_err}, &err);
	cell_config_free(p->cfg);
	p->cfg = NULL;
}
