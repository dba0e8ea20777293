/* SPDX-License-Identifier: Apache-2.0 */
/* table.c: columns of text for people, and wrapped paragraphs. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/text.h"

#define COLUMNS	 80
#define CELL_MAX 65536

void cli_table_init(struct cli_table *t, const char *const *titles)
{
	*t = (struct cli_table){.titles = titles};
	while (titles[t->n_columns])
		t->n_columns++;
}

void cli_table_add_styled(struct cli_table *t, enum cli_style style, const char *text)
{
	struct buf b = BUF_INIT(CELL_MAX);
	char *cell;

	if (cli_visible(text, strnlen(text, CELL_MAX / 8), &b) < 0)
		buf_reset(&b);
	cell = buf_steal(&b);
	t->cells = cli_realloc(t->cells, t->n_cells + 1, sizeof(*t->cells));
	t->styles = cli_realloc(t->styles, t->n_cells + 1, sizeof(*t->styles));
	t->cells[t->n_cells] = cell ? cell : cli_strdup("");
	t->styles[t->n_cells++] = style;
}

void cli_table_add(struct cli_table *t, const char *text)
{
	cli_table_add_styled(t, CLI_PLAIN, text);
}

void cli_table_addf(struct cli_table *t, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	cli_table_add(t, text);
}

/* Characters, near enough for padding: bytes that do not continue a UTF-8 sequence. */
static size_t width_of(const char *s)
{
	size_t n = 0;

	for (; *s; s++)
		n += ((unsigned char)*s & 0xc0) != 0x80;
	return n;
}

static void print_cell(const struct cli *cli, const char *text, enum cli_style style, size_t width,
	bool is_last)
{
	size_t used = width_of(text);
	bool is_styled = style != CLI_PLAIN;

	fputs(is_styled ? cli_style(cli->color_out, style) : "", stdout);
	fputs(text, stdout);
	fputs(is_styled ? cli_style(cli->color_out, CLI_PLAIN) : "", stdout);
	if (is_last)
		putchar('\n');
	else
		printf("%*s", (int)(width - used + 2), "");
}

void cli_table_print(struct cli_table *t, const struct cli *cli)
{
	auto_free size_t *widths = cli_calloc(t->n_columns, sizeof(*widths));

	if (!t->n_columns)
		return;

	for (size_t i = 0; i < t->n_columns; i++)
		widths[i] = width_of(t->titles[i]);
	for (size_t i = 0; i < t->n_cells; i++) {
		size_t *w = &widths[i % t->n_columns], width = width_of(t->cells[i]);
		*w = width > *w ? width : *w;
	}
	for (size_t i = 0; i < t->n_columns; i++)
		print_cell(cli, t->titles[i], CLI_BOLD, widths[i], i + 1 == t->n_columns);
	for (size_t i = 0; i < t->n_cells; i++)
		print_cell(cli, t->cells[i], t->styles[i], widths[i % t->n_columns],
			i % t->n_columns + 1 == t->n_columns);
	cli_table_done(t);
}

void cli_table_done(struct cli_table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t->styles);
	t->cells = NULL;
	t->styles = NULL;
	t->n_cells = 0;
}

static void print_line_wrapped(const char *line, size_t len, size_t indent)
{
	size_t column = 0;

	while (len) {
		size_t word = 0;
		while (word < len && line[word] != ' ')
			word++;
		if (column == 0)
			printf("%*s", (int)indent, "");
		else if (indent + column + 1 + word > COLUMNS)
			printf("\n%*s", (int)indent, "");
		else
			putchar(' ');
		column = column == 0 || indent + column + 1 + word > COLUMNS ? word
									     : column + 1 + word;
		fwrite(line, 1, word, stdout);
		while (word < len && line[word] == ' ')
			word++;
		line += word;
		len -= word;
	}
	putchar('\n');
}

void cli_print_wrapped(const char *text, size_t indent)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		if (*text == ' ')
			printf("%*s%.*s\n", (int)indent, "", (int)len, text);
		else
			print_line_wrapped(text, len, indent);
		text += len + (text[len] == '\n');
	}
}
