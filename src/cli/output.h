/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output.h: how verbs speak. Text for people on a terminal, plain text when piped, one JSON object
 * with
 * --json; errors the same way everywhere.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "cli/cli.h"

/* Say the error: "cell: message" and "hint: ..." on stderr, or {"error": ...} on stdout with
 * --json. Returns CLI_EXIT_FAILED. */
int cli_fail(const struct cli *cli, const struct cell_error *err);
/* A remark on stderr, "cell: ..."; nothing with --json or --quiet. */
void cli_note(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same, only with --verbose. */
void cli_tell(const struct cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Print and release. Indented on a terminal, else one line. Returns 0, or CLI_EXIT_FAILED when
 * stdout could not take it. */
int cli_print_json(const struct cli *cli, json_t *value);
/* Everything said so far has reached stdout: 0, else CLI_EXIT_FAILED after saying why. Every verb
 * that printed ends with it. */
int cli_flush(const struct cli *cli);

/* obj[key] = the bytes as text, or obj[key_base64] when they are no UTF-8. */
void cli_json_bytes(json_t *obj, const char *key, const void *p, size_t n);
void cli_json_string(json_t *obj, const char *key, const char *s); /* NULL becomes null */
/* A new array of the words of a set of capabilities. */
json_t *cli_json_caps(cell_caps caps);
/* The JSON as text that is fit for what fd is: on a terminal nothing in it is obeyed. Caller frees; NULL without memory. `flags` are jansson's. */
char *cli_json_text(const json_t *value, size_t flags, int fd);

/* A file name or other text that is not ours (an engine's, a server's, a guest's) on stdout: on a terminal with control bytes visible. */
void cli_print_name(const char *s);
/* The same, and the end of the line. */
void cli_print_line(const char *s);
/* The same of several lines, the last with or without its end. */
void cli_print_lines(const char *s);

enum cli_style {
	CLI_PLAIN,
	CLI_BOLD,
	CLI_DIM,
	CLI_GOOD,
	CLI_WARN,
	CLI_BAD,
};
/* The sequence that begins a style (CLI_PLAIN ends it), or "" when colours are off. */
const char *cli_style(bool has_color, enum cli_style style);
/* Decide cli->color_out and color_err from --color, NO_COLOR, TERM and what stdout and stderr are.
 * -EINVAL for a word that is not known. */
int cli_color_set(struct cli *cli, const char *when);

/* A table for people: columns padded to the widest cell, no padding after the last. */
struct cli_table {
	const char *const *titles; /* NULL-terminated */
	size_t n_columns;
	char **cells; /* owned */
	size_t n_cells;
	enum cli_style *styles; /* of each cell */
};
void cli_table_init(struct cli_table *t, const char *const *titles);
/* The next cell, left to right, row by row; copied, control bytes made visible. */
void cli_table_add(struct cli_table *t, const char *text);
void cli_table_addf(struct cli_table *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void cli_table_add_styled(struct cli_table *t, enum cli_style style, const char *text);
/* Print to stdout and empty it. */
void cli_table_print(struct cli_table *t, const struct cli *cli);
void cli_table_done(struct cli_table *t);

/* Print text wrapped at 80 columns, each line after `indent` spaces; "\n" in it ends a line and
 * lines that begin with a space are left alone. */
void cli_print_wrapped(const char *text, size_t indent);
