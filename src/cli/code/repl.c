/* SPDX-License-Identifier: Apache-2.0 */
/* repl.c: see repl.h. The terminal is raw while something is typed, and the user's own while code runs. */
#include "cli/code/repl.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/code/history.h"
#include "cli/code/lineedit.h"
#include "cli/code/open_text.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/terminal.h"
#include "cli/text.h"

#define PICTURE_MAX (8u << 20)
#define ESCAPE_MS   50 /* a lone Escape: nothing follows within this */
#define SHOWN_MAX   60 /* candidates shown for Tab */

struct typing {
	struct code_repl *r;
	struct lineedit edit;
	struct history history;
	char prompt[64], further[64];
	bool is_over, is_submitted;
	/* Ctrl-R */
	bool is_searching;
	struct buf search;
	size_t found;
};

static void say(const char *p, size_t n)
{
	while (n) {
		ssize_t w = write(STDOUT_FILENO, p, n);
		if (w < 0 && errno != EINTR && errno != EAGAIN)
			return;
		if (w < 0) {
			struct pollfd fd = {.fd = STDOUT_FILENO, .events = POLLOUT};
			(void)poll(&fd, 1, -1);
			continue;
		}
		p += w;
		n -= (size_t)w;
	}
}

static void draw(struct typing *t, bool is_final)
{
	auto_buf struct buf out = BUF_INIT(PICTURE_MAX);
	auto_free char *prompt = NULL;
	uint16_t rows, cols;

	cli_terminal_size(&rows, &cols);
	if (t->is_searching)
		prompt = cli_format("(search '%s') ", buf_str(&t->search));
	(void)lineedit_draw(&t->edit, prompt ? prompt : t->prompt, t->further, cols, is_final,
		&out);
	say((const char *)out.data, out.len);
}

/* ---- Tab ---- */

static size_t shared_prefix(const json_t *matches)
{
	const char *first = json_string_value(json_array_get(matches, 0));
	size_t n = first ? strlen(first) : 0;

	for (size_t i = 1; i < json_array_size(matches); i++) {
		const char *other = json_string_value(json_array_get(matches, i));
		size_t k = 0;
		while (other && k < n && other[k] == first[k])
			k++;
		n = k;
	}
	while (n && first && ((uint8_t)first[n] & 0xc0) == 0x80)
		n--;
	return n;
}

static void show_matches(struct typing *t, const json_t *matches)
{
	auto_buf struct buf line = BUF_INIT(PICTURE_MAX);
	size_t n = json_array_size(matches), widest = 0, column = 0;
	uint16_t rows, cols;

	cli_terminal_size(&rows, &cols);
	draw(t, true);
	for (size_t i = 0; i < n && i < SHOWN_MAX; i++) {
		size_t len = strlen(json_string_value(json_array_get(matches, i)));
		widest = len > widest ? len : widest;
	}
	for (size_t i = 0; i < n && i < SHOWN_MAX; i++) {
		const char *word = json_string_value(json_array_get(matches, i));
		size_t from = line.len;
		if (column && column + widest > cols) {
			(void)buf_addz(&line, "\r\n");
			column = 0;
			from = line.len;
		}
		(void)cli_visible(word, strlen(word), &line);
		while (line.len - from < widest + 2 && i + 1 < n)
			(void)buf_addc(&line, ' ');
		column += widest + 2;
	}
	(void)buf_addz(&line, "\r\n");
	if (n > SHOWN_MAX)
		(void)buf_addf(&line, "... and %zu more\r\n", n - SHOWN_MAX);
	say((const char *)line.data, line.len);
}

/* Only words: what comes back is put into the text. */
static bool are_words(const json_t *matches)
{
	for (size_t i = 0; i < json_array_size(matches); i++) {
		const char *word = json_string_value(json_array_get(matches, i));
		if (!word || !cli_is_visible(word))
			return false;
	}
	return json_array_size(matches) > 0;
}

static void complete(struct typing *t)
{
	struct lineedit *e = &t->edit;
	auto_free char *text = NULL;
	struct cell_error ignored = {0};
	size_t begin = e->cursor;
	json_t *o;

	while (begin && lineedit_text(e)[begin - 1] != '\n')
		begin--;
	if (strspn(lineedit_text(e) + begin, " \t") >= e->cursor - begin) {
		lineedit_insert(e, "    ", 4); /* nothing to complete: indent */
		return;
	}
	if (cells->context_complete(t->r->cell, t->r->context, lineedit_text(e), e->cursor, &text,
		    &ignored) < 0)
		return;
	o = json_loads(text, 0, NULL);
	const json_t *matches = json_object_get(o, "matches");
	int64_t from = json_integer_value(json_object_get(o, "start")),
		to = json_integer_value(json_object_get(o, "end"));
	if (are_words(matches) && from >= 0 && from <= to && (size_t)to <= e->text.len) {
		size_t n = shared_prefix(matches);
		auto_free char *word =
			cli_strndup(json_string_value(json_array_get(matches, 0)), n);
		bool is_more = n > (size_t)(to - from);
		if (n && (is_more || json_array_size(matches) == 1))
			lineedit_replace(e, (size_t)from, (size_t)to, word);
		else
			show_matches(t, matches);
	}
	json_decref(o);
}

/* ---- keys that are more than editing ---- */

static void search_again(struct typing *t, size_t from)
{
	size_t i = history_search(&t->history, buf_str(&t->search), from);

	if (i == SIZE_MAX)
		return;
	t->found = i;
	lineedit_set(&t->edit, t->history.entries[i]);
}

/* While searching: true when the byte was part of it. */
static bool search_feed(struct typing *t, uint8_t byte)
{
	if (byte == 0x12) { /* Ctrl-R again: an older one */
		search_again(t, t->found);
		return true;
	}
	if (byte == 0x7f || byte == 0x08) {
		if (t->search.len) {
			t->search.data[--t->search.len] = 0;
			search_again(t, SIZE_MAX);
		}
		return true;
	}
	if (byte >= 0x20) {
		(void)buf_addc(&t->search, (char)byte);
		search_again(t, SIZE_MAX);
		return true;
	}
	t->is_searching = false;
	if (byte == 0x07 || byte == 0x03) { /* Ctrl-G, Ctrl-C: never mind */
		lineedit_set(&t->edit, "");
		return true;
	}
	return false;
}

static void enter(struct typing *t)
{
	struct open_text o = open_text_look(t->r->language, lineedit_text(&t->edit));

	if (o.is_open || !lineedit_is_at_end(&t->edit))
		lineedit_newline(&t->edit, o.n_indent);
	else
		t->is_submitted = true;
}

static void act(struct typing *t, enum lineedit_wish wish)
{
	const char *entry = NULL;

	switch (wish) {
	case LINEEDIT_ENTER:
		enter(t);
		break;
	case LINEEDIT_EOF:
		t->is_over = true;
		break;
	case LINEEDIT_INTERRUPT:
		t->edit.cursor = t->edit.text.len;
		draw(t, true);
		lineedit_set(&t->edit, "");
		t->history.at = t->history.n;
		break;
	case LINEEDIT_SUSPEND:
		draw(t, true);
		cli_signals_suspend();
		(void)cli_terminal_raw();
		break;
	case LINEEDIT_COMPLETE:
		complete(t);
		break;
	case LINEEDIT_OLDER:
		entry = history_older(&t->history, lineedit_text(&t->edit));
		break;
	case LINEEDIT_NEWER:
		entry = history_newer(&t->history);
		break;
	case LINEEDIT_CLEAR:
		say("\x1b[H\x1b[2J", 7);
		lineedit_moved(&t->edit);
		break;
	case LINEEDIT_SEARCH:
		t->is_searching = true;
		buf_reset(&t->search);
		t->found = t->history.n;
		break;
	case LINEEDIT_MORE:
		break;
	}
	if (entry)
		lineedit_set(&t->edit, entry);
}

static void take_signals(struct typing *t)
{
	for (int signal; (signal = cli_signals_next()) != 0;) {
		if (signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT)
			t->is_over = true;
		else if (signal == SIGCONT)
			(void)cli_terminal_raw();
	}
}

/* One text, typed. 1: it is to be run; 0: the user leaves. */
static int type(struct typing *t)
{
	char piece[1024];

	lineedit_set(&t->edit, "");
	lineedit_moved(&t->edit);
	t->is_submitted = t->is_searching = false;
	if (cli_terminal_raw() < 0)
		return 0;
	say("\x1b[?2004h", 8); /* pasted text comes marked as such */
	draw(t, false);
	while (!t->is_over && !t->is_submitted) {
		bool is_waiting = lineedit_is_waiting(&t->edit);
		struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
			{.fd = cli_signals_fd(), .events = POLLIN}};
		int n = poll(fds, 2, is_waiting ? ESCAPE_MS : 1000);
		take_signals(t);
		if (n == 0 && is_waiting)
			lineedit_settle(&t->edit);
		if (cells->tick)
			cells->tick(t->r->cell);
		if (n <= 0 || !fds[0].revents)
			continue;
		/* One key at a time: what follows the return key is for the code, or for the next text. */
		ssize_t got = read(STDIN_FILENO, piece, 1);
		if (got <= 0 && errno != EINTR && errno != EAGAIN)
			t->is_over = true;
		if (got <= 0)
			continue;
		if (!t->is_searching || !search_feed(t, (uint8_t)piece[0]))
			act(t, lineedit_feed(&t->edit, (uint8_t)piece[0]));
		struct pollfd more = {.fd = STDIN_FILENO, .events = POLLIN};
		if (!t->is_submitted && poll(&more, 1, 0) == 0)
			draw(t, false);
	}
	t->edit.cursor = t->edit.text.len;
	say("\x1b[?2004l", 8);
	draw(t, true);
	cli_terminal_restore();
	return t->is_submitted;
}

/* ---- running it ---- */

static int run_once(struct code_repl *r, const char *text, struct code_input *input,
	bool *ret_is_over, struct cell_error *err)
{
	struct code_job j = {.cli = r->cli,
		.cell = r->cell,
		.opts = r->opts,
		.context = r->context,
		.screen = r->screen,
		.input = input};
	int code;

	j.opts.code = text;
	r->screen->is_exit = r->screen->has_error = false;
	code = code_job_run(&j, err);
	if (code == 0) {
		(void)code_job_exit(&j, false);
		*ret_is_over = r->screen->is_exit || j.done.state == CELL_CODE_ENDED || j.is_broken;
		if (r->screen->is_exit)
			code = r->screen->exit_code;
		else if (*ret_is_over)
			code = j.done.exit_code;
		if (j.stop_signal && j.stop_signal != SIGINT) {
			*ret_is_over = true;
			code = CLI_EXIT_SIGNAL + j.stop_signal;
		}
	}
	code_job_done(&j);
	return code;
}

static void greet(const struct code_repl *r)
{
	if (r->cli->is_quiet)
		return;
	auto_free char *text =
		cli_format("%s in cell %s (%s). Tab completes, Ctrl-C interrupts, Ctrl-D leaves.",
			r->language, cells->name(r->cell), cells->backend_of(r->cell));
	cli_print_line(text);
	(void)fflush(stdout);
}

int code_repl_run(struct code_repl *r, struct cell_error *err)
{
	struct typing t = {.r = r, .search = BUF_INIT(4096)};
	struct code_input input = {.ahead = BUF_INIT(1u << 20)};
	const char *sign = !strcmp(r->language, "shell") ? "$" : ">>>";
	bool is_over = false;
	int code = 0;

	(void)snprintf(t.prompt, sizeof t.prompt, "%s%s%s ", cli_style(r->cli->color_out, CLI_GOOD),
		sign, cli_style(r->cli->color_out, CLI_PLAIN));
	(void)snprintf(t.further, sizeof t.further, "%.*s ", (int)strlen(sign), "...");
	(void)setlocale(LC_CTYPE, ""); /* how wide characters are; nothing else asks for it */
	lineedit_init(&t.edit);
	history_open(&t.history, r->language);
	greet(r);
	while (!is_over && type(&t)) {
		auto_free char *text = cli_strdup(lineedit_text(&t.edit));
		history_add(&t.history, text);
		if (!text[strspn(text, " \t\n")])
			continue;
		code = run_once(r, text, &input, &is_over, err);
		if (code < 0)
			break;
		if (input.is_over && !isatty(STDIN_FILENO))
			break;
		input.is_over = false; /* Ctrl-D answered one input() */
	}
	history_close(&t.history);
	lineedit_done(&t.edit);
	buf_done(&t.search);
	buf_done(&input.ahead);
	return code < 0 || is_over ? code : 0;
}
