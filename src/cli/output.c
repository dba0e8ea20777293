/* SPDX-License-Identifier: Apache-2.0 */
/* output.c: errors, remarks, JSON and colours; tables are in table.c. */
#include "cli/output.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "cli/memory.h"
#include "cli/text.h"

#define LINE_MAX_BYTES (1u << 20)

/* Text that may hold foreign bytes, as valid UTF-8 without control bytes. Caller frees. */
static char *presentable(const char *s)
{
	struct buf b = BUF_INIT(LINE_MAX_BYTES);
	char *text;

	if (cli_visible(s, strlen(s), &b) < 0)
		buf_reset(&b);
	text = buf_steal(&b);
	return text ? text : cli_strdup("");
}

static void fail_json(const struct cell_error *err)
{
	auto_free char *msg = presentable(err->msg), *hint = presentable(err->hint);
	json_t *e = json_object(), *top = json_object();

	cli_json_string(e, "code", cell_code_name(err->code));
	cli_json_string(e, "message", msg);
	cli_json_string(e, "hint", *hint ? hint : NULL);
	cli_json_string(e, "backend", *err->backend ? err->backend : NULL);
	json_object_set_new(top, "error", e);
	json_dumpf(top, stdout, JSON_ENSURE_ASCII);
	putchar('\n');
	fflush(stdout);
	json_decref(top);
}

int cli_fail(const struct cli *cli, const struct cell_error *err)
{
	auto_free char *msg = presentable(*err->msg ? err->msg : cell_code_name(err->code));
	auto_free char *hint = presentable(err->hint), *backend = presentable(err->backend);
	bool is_named = *err->backend && !strstr(err->msg, err->backend);

	if (cli->is_json) {
		fail_json(err);
		return CLI_EXIT_FAILED;
	}
	fflush(stdout);
	fprintf(stderr, "%scell:%s %s%s%s%s\n", cli_style(cli->color_err, CLI_BAD),
		cli_style(cli->color_err, CLI_PLAIN), msg, is_named ? " (back end " : "",
		is_named ? backend : "", is_named ? ")" : "");
	if (*hint)
		fprintf(stderr, "%shint:%s %s\n", cli_style(cli->color_err, CLI_BOLD),
			cli_style(cli->color_err, CLI_PLAIN), hint);
	return CLI_EXIT_FAILED;
}

__attribute__((format(printf, 1, 0))) static void remark(const char *fmt, va_list ap)
{
	char line[1024];

	vsnprintf(line, sizeof(line), fmt, ap);
	auto_free char *text = presentable(line);
	fflush(stdout);
	fprintf(stderr, "cell: %s\n", text);
}

void cli_note(const struct cli *cli, const char *fmt, ...)
{
	va_list ap;

	if (cli->is_json || cli->is_quiet)
		return;
	va_start(ap, fmt);
	remark(fmt, ap);
	va_end(ap);
}

void cli_tell(const struct cli *cli, const char *fmt, ...)
{
	va_list ap;

	if (!cli->is_verbose || cli->is_json)
		return;
	va_start(ap, fmt);
	remark(fmt, ap);
	va_end(ap);
}

int cli_flush(const struct cli *cli)
{
	struct cell_error err = {0};

	if (fflush(stdout) == 0 && !ferror(stdout))
		return CLI_EXIT_OK;
	if (errno == EPIPE)
		return CLI_EXIT_SIGNAL + 13; /* what a tool killed by SIGPIPE would give */
	cell_fail_errno(&err, errno, "write to stdout");
	cell_error_hint(&err, 0, "send it to a place that can take it");
	/* stdout is what failed: the error goes to stderr, JSON or not */
	struct cli plain = *cli;
	plain.is_json = false;
	return cli_fail(&plain, &err);
}

char *cli_json_text(const json_t *value, size_t flags, int fd)
{
	auto_buf struct buf b = BUF_INIT(SIZE_MAX / 2);
	auto_free char *text = json_dumps(value, flags);

	if (!text || !isatty(fd))
		return steal_ptr(text);
	return cli_visible_json(text, strlen(text), &b) < 0 ? NULL : buf_steal(&b);
}

int cli_print_json(const struct cli *cli, json_t *value)
{
	if (isatty(STDOUT_FILENO)) {
		auto_free char *text = cli_json_text(value,
			JSON_REAL_PRECISION(15) | JSON_INDENT(2), STDOUT_FILENO);
		(void)puts(text ? text : "");
	} else if (json_dumpf(value, stdout, JSON_REAL_PRECISION(15)) == 0) {
		putchar('\n');
	}
	json_decref(value);
	return cli_flush(cli);
}

void cli_json_string(json_t *obj, const char *key, const char *s)
{
	if (!s)
		json_object_set_new(obj, key, json_null());
	else
		cli_json_bytes(obj, key, s, strlen(s));
}

void cli_json_bytes(json_t *obj, const char *key, const void *p, size_t n)
{
	if (utf8_is_valid(p, n)) {
		json_object_set_new(obj, key, json_stringn_nocheck(n ? p : "", n));
		return;
	}
	auto_buf struct buf b = BUF_INIT(SIZE_MAX / 2);
	auto_free char *name = cli_format("%s_base64", key);
	if (cli_base64(p, n, &b) == 0)
		json_object_set_new(obj, name, json_stringn_nocheck(buf_str(&b), b.len));
}

json_t *cli_json_caps(cell_caps caps)
{
	json_t *words = json_array();

	for (int cap = 0; cap < CELL_CAP_COUNT; cap++)
		if (caps & CELL_CAP_BIT(cap))
			json_array_append_new(words, json_string(cell_cap_name(cap)));
	return words;
}

void cli_print_name(const char *s)
{
	if (!isatty(STDOUT_FILENO)) {
		fputs(s, stdout);
		return;
	}
	auto_free char *text = presentable(s);
	fputs(text, stdout);
}

void cli_print_line(const char *s)
{
	cli_print_name(s);
	putchar('\n');
}

void cli_print_lines(const char *s)
{
	for (size_t len; *s; s += len + (s[len] == '\n')) {
		len = strcspn(s, "\n");
		auto_free char *line = cli_strndup(s, len);
		cli_print_line(line);
	}
}

const char *cli_style(bool has_color, enum cli_style style)
{
	static const char *const sequences[] = {[CLI_PLAIN] = "\x1b[0m",
		[CLI_BOLD] = "\x1b[1m",
		[CLI_DIM] = "\x1b[2m",
		[CLI_GOOD] = "\x1b[32m",
		[CLI_WARN] = "\x1b[33m",
		[CLI_BAD] = "\x1b[31m"};

	return has_color ? sequences[style] : "";
}

int cli_color_set(struct cli *cli, const char *when)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
	bool is_auto = !strcmp(when, "auto"), is_always = !strcmp(when, "always");
	bool is_wanted = !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;

	if (!is_auto && !is_always && strcmp(when, "never") != 0)
		return -EINVAL;
	cli->color_out = is_always || (is_auto && is_wanted && isatty(STDOUT_FILENO));
	cli->color_err = is_always || (is_auto && is_wanted && isatty(STDERR_FILENO));
	return 0;
}
