/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.h: what token, audit and usage share: finding the server's files. */
#pragma once
#include "cli/args.h"
#include "cli/cli.h"
#include "server/audit.h"
#include "server/place.h"

/* The configuration in force and the server's directory; free both (cli_config_freep,
 * place_done). is_made: make the directory. */
int cli_place_find(const struct cli *cli, bool is_made, struct cell_config **ret_cfg,
	struct place *ret, struct cell_error *err);
/* --since, --until: a time, or how long ago. 0 when not given. */
int cli_time_option(const struct cli_args *args, const char *name, int64_t *ret_ns,
	struct cell_error *err);
