/* SPDX-License-Identifier: Apache-2.0 */
/* screen.h: the events of a run for the one who waits: text on stdout and stderr, pictures shown or saved; or each event as a line of JSON. */
#pragma once
#include <jansson.h>

#include "cell/code.h"

#include "cli/cli.h"
#include "cli/code/picture.h"
#include "cli/sink.h"

struct code_screen {
	const struct cli *cli;
	struct cli_sink out, err;
	enum picture_way way;
	const char *
		directory; /* where pictures are saved; NULL: here, and only when they cannot be shown */
	bool is_lines; /* JSON, one event a line */
	/* how it ended */
	bool has_error;
	bool is_exit; /* the code asked to end: SystemExit */
	int exit_code;
};

void code_screen_init(struct code_screen *s, const struct cli *cli, bool is_lines, bool is_raw);
void code_screen_done(struct code_screen *s);
/* Call only when it is not full. */
int code_screen_event(struct code_screen *s, const struct cell_code_event *e,
	struct cell_error *err);
bool code_screen_is_full(const struct code_screen *s);
int code_screen_flush(struct code_screen *s, struct cell_error *err);

/* sys.exit(3) ends a program with 3 and says nothing; sys.exit("why") says why and ends with 1. True: the error is such an end. */
bool code_error_is_exit(const json_t *error, int *ret_code);
/* An event as JSON, as the server's streams have it; a new reference. */
json_t *code_event_json(const struct cell_code_event *e);
