/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c: see ledger.h. */
#include "cli/ledger.h"

#include "server/clock.h"

int cli_place_find(const struct cli *cli, bool is_made, struct cell_config **ret_cfg,
	struct place *ret, struct cell_error *err)
{
	struct cell_config_args how = {.path = cli->config_path, .no_files = cli->no_config};

	int r = cell_config_load(&how, ret_cfg, err);
	return r < 0 ? r : place_find(*ret_cfg, is_made, ret, err);
}

int cli_time_option(const struct cli_args *args, const char *name, int64_t *ret_ns,
	struct cell_error *err)
{
	const char *text = cli_args_value(args, name);

	*ret_ns = 0;
	if (!text || clock_parse_since(text, clock_unix_ns(), ret_ns) == 0)
		return 0;
	return cell_error_hint(err,
		cell_fail(err, CELL_EINVAL, 0, "--%s: '%.60s' is no time", name, text),
		"write 2026-01-31, 2026-01-31T13:05:59Z, or how long ago: 15m, 2h, 7d");
}
