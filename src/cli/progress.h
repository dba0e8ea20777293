/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h: a bar on stderr for copies that take a while. Silent unless stderr is a terminal. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "cli/cli.h"

struct cli_progress {
	const char *title; /* borrowed */
	uint64_t total;	   /* 0: not known */
	bool is_shown;	   /* may it be shown at all */
	bool is_drawn;
	uint64_t began_ms, drawn_ms;
};

/* Nothing is drawn for the first half second: short copies stay quiet. */
void cli_progress_init(struct cli_progress *p, const struct cli *cli, const char *title,
	uint64_t total);
void cli_progress_update(struct cli_progress *p, uint64_t bytes);
/* Wipe the line. */
void cli_progress_end(struct cli_progress *p);

/* The line for `columns` columns, without any control byte: "name  45%  [====>    ]  1.2 GiB  80
 * MiB/s". Pure. */
const char *cli_progress_line(char *out, size_t size, const char *title, uint64_t bytes,
	uint64_t total, uint64_t elapsed_ms, unsigned columns);
