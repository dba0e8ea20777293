/* SPDX-License-Identifier: Apache-2.0 */
/* each.c: see each.h. */
#include "cli/each.h"

#include "cli/args.h"
#include "cli/output.h"
#include "cli/signals.h"

int cli_each(const struct cli *cli, const char *const *names, size_t n, cli_each_fn fn,
	const char *done)
{
	json_t *list = json_array();
	bool is_failed = false;

	cli_signals_catch();
	cli_signals_patience(1);
	for (size_t i = 0; i < n && !(is_failed && cli->is_json); i++) {
		struct cell_error err = {0};
		if (fn(names[i], &err) < 0) {
			cli_fail(cli, &err);
			is_failed = true;
			continue;
		}
		json_array_append_new(list, json_string(names[i]));
		cli_tell(cli, "%s %s", done, names[i]);
	}
	if (cli->is_json && !is_failed)
		return cli_print_json(cli, json_pack("{s:o}", done, list));
	json_decref(list);
	return is_failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}

int cli_each_operand(const struct cli *cli, const struct cli_args *args, cli_each_fn fn,
	const char *done)
{
	struct cell_error err = {0};

	if (cli_args_count(args, 1, CLI_MANY, &err) < 0)
		return cli_fail(cli, &err);
	return cli_each(cli, args->operands, args->n_operands, fn, done);
}
