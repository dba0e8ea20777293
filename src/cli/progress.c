/* SPDX-License-Identifier: Apache-2.0 */
/* progress.c: a bar on stderr for copies that take a while. */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "cli/units.h"

#define QUIET_MS 500
#define STEP_MS	 100
#define BAR_MAX	 40
#define LINE_MAX 512

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void format_bar(char *out, unsigned width, unsigned percent)
{
	unsigned filled = width * percent / 100;

	for (unsigned i = 0; i < width; i++)
		out[i] = i < filled ? '=' : i == filled ? '>' : ' ';
	out[width] = 0;
}

const char *cli_progress_line(char *out, size_t size, const char *title, uint64_t bytes,
	uint64_t total, uint64_t elapsed_ms, unsigned columns)
{
	uint64_t rate = elapsed_ms ? (uint64_t)((double)bytes * 1000 / (double)elapsed_ms) : 0;
	char done[CLI_UNIT_MAX], speed[CLI_UNIT_MAX], left[CLI_UNIT_MAX] = "", bar[BAR_MAX + 1];
	unsigned percent = 0, width, name;
	struct buf shown = BUF_INIT(LINE_MAX * 8);

	(void)cli_visible(title, strnlen(title, LINE_MAX), &shown);
	cli_format_size(done, bytes);
	cli_format_size(speed, rate);
	name = columns / 4;
	if (!total) {
		(void)snprintf(out, size, "%-*.*s  %s  %s/s", (int)name, (int)name, buf_str(&shown),
			done, speed);
	} else {
		percent = bytes >= total ? 100 : (unsigned)((double)bytes * 100 / (double)total);
		if (rate && bytes < total)
			cli_format_age(left, (total - bytes) / rate);
		width = columns > name + 50 ? columns - name - 46 : 4;
		format_bar(bar, width > BAR_MAX ? BAR_MAX : width, percent);
		(void)snprintf(out, size, "%-*.*s %3u%% [%s] %s  %s/s  %s", (int)name, (int)name,
			buf_str(&shown), percent, bar, done, speed, left);
	}
	if (strlen(out) >= columns && columns < size)
		out[columns ? columns - 1 : 0] = 0;
	buf_done(&shown);
	return out;
}

void cli_progress_init(struct cli_progress *p, const struct cli *cli, const char *title,
	uint64_t total)
{
	*p = (struct cli_progress){.title = title, .total = total, .began_ms = now_ms()};
	p->is_shown = !cli->is_json && !cli->is_quiet && isatty(STDERR_FILENO);
}

void cli_progress_update(struct cli_progress *p, uint64_t bytes)
{
	uint64_t now;
	uint16_t rows, cols;
	char line[LINE_MAX];

	if (!p->is_shown)
		return;
	now = now_ms();
	if (now - p->began_ms < QUIET_MS || now - p->drawn_ms < STEP_MS)
		return;
	cli_terminal_size(&rows, &cols);
	(void)fprintf(stderr, "\r%s\x1b[K",
		cli_progress_line(line, sizeof(line), p->title, bytes, p->total, now - p->began_ms,
			cols));
	(void)fflush(stderr);
	p->drawn_ms = now;
	p->is_drawn = true;
}

void cli_progress_end(struct cli_progress *p)
{
	if (!p->is_drawn)
		return;
	(void)fputs("\r\x1b[K", stderr);
	(void)fflush(stderr);
	p->is_drawn = false;
}
