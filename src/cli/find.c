/* SPDX-License-Identifier: Apache-2.0 */
/* find.c: which of a cell's commands is meant: by id, by the beginning of an id, or by being the
 * only one. */
#include "cli/find.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/signals.h"

struct search {
	const char *word;
	struct cli_found exact, prefix, running, latest;
	unsigned n_prefix, n_running, n_all;
	bool is_exact;
	uint64_t latest_ms;
};

static struct cli_found found_of(const struct cell_exec_info *info)
{
	struct cli_found f = {
		.is_tty = info->is_tty, .is_code = info->is_code, .state = info->state};

	(void)snprintf(f.id, sizeof(f.id), "%s", info->id);
	return f;
}

static int look(const struct cell_exec_info *info, void *user)
{
	struct search *s = user;

	s->n_all++;
	if (s->word && !strcmp(info->id, s->word)) {
		s->exact = found_of(info);
		s->is_exact = true;
	}
	/* no word at all is no beginning: a variable without a value must not end a command */
	if (s->word && *s->word && !strncmp(info->id, s->word, strlen(s->word))) {
		s->prefix = found_of(info);
		s->n_prefix++;
	}
	if (info->state == CELL_EXEC_RUNNING) {
		s->running = found_of(info);
		s->n_running++;
	}
	if (info->started_unix_ms >= s->latest_ms) {
		s->latest_ms = info->started_unix_ms;
		s->latest = found_of(info);
	}
	return 0;
}

int cli_find_exec(struct cell *c, const char *word, bool is_running_wanted, struct cli_found *ret,
	struct cell_error *err)
{
	struct search s = {.word = word};
	int r = cells->ps(c, look, &s, err);

	if (r < 0)
		return r;
	if (word && (s.is_exact || s.n_prefix == 1)) {
		*ret = s.is_exact ? s.exact : s.prefix;
		return 0;
	}
	if (!word && s.n_running == 1) {
		*ret = s.running;
		return 0;
	}
	if (!word && !s.n_running && !is_running_wanted && s.n_all) {
		*ret = s.latest;
		return 0;
	}
	if (word)
		r = cell_fail(err, CELL_ENOTFOUND, 0, "cell '%s': %s '%.64s'", cells->name(c),
			s.n_prefix ? "several commands begin with" : "no command with the id",
			word);
	else if (s.n_running)
		r = cell_fail(err, CELL_EINVAL, 0,
			"cell '%s': %u commands run, and no id was given", cells->name(c),
			s.n_running);
	else
		r = cell_fail(err, CELL_ENOTFOUND, 0, "cell '%s': no command %s", cells->name(c),
			is_running_wanted ? "runs" : "has been started");
	return cell_error_hint(err, r, "'cell ps %s' lists them", cells->name(c));
}

int cli_on_exec(struct cli *cli, const struct cli_args *args, bool is_running_wanted,
	cli_exec_fn fn)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_error err = {0};
	struct cli_found found;

	if (cli_args_count(args, 1, 2, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_catch();
	cli_signals_patience(1);
	if (cli_cell_open(args->operands[0], &c, &err) < 0 ||
		cli_find_exec(c, args->operands[1], is_running_wanted, &found, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_patience(CLI_PATIENT);
	int code = fn(cli, args, c, &found, &err);
	return code < 0 ? cli_fail(cli, &err) : code;
}
