/* SPDX-License-Identifier: Apache-2.0 */
/* cell top: what each cell takes now, again and again; here, where sessions of a server are cells like any other, or of a server. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cellinfo.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/units.h"

#define DEFAULT_INTERVAL_S 2

/* One cell as it was when last looked at. */
struct sample {
	char name[CELL_NAME_MAX], backend[64];
	uint64_t created_unix_ms;
	uint64_t cpu_ns, at_ns, memory_bytes;
	uint32_t processes, commands;
	double cpu_percent; /* since the time before; negative: not known yet */
	bool is_there, is_paused;
};

struct samples {
	struct sample *list;
	size_t n;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int note_cell(const struct cell_info *info, void *user)
{
	struct samples *s = user;

	if ((info->state != CELL_STATE_READY && info->state != CELL_STATE_PAUSED) ||
		info->is_ephemeral)
		return 0;
	s->list = cli_realloc(s->list, s->n + 1, sizeof *s->list);
	struct sample *one = &s->list[s->n++];
	*one = (struct sample){.created_unix_ms = info->created_unix_ms,
		.cpu_percent = -1,
		.is_paused = info->state == CELL_STATE_PAUSED};
	(void)snprintf(one->name, sizeof one->name, "%s", info->name);
	(void)snprintf(one->backend, sizeof one->backend, "%s",
		info->backend ? info->backend : "?");
	return 0;
}

static int take(const struct cell_platform *p, void *user)
{
	struct sample *s = user;

	s->commands = p->execs_running;
	s->is_there = true;
	return 0;
}

/* The numbers are counted by what makes the cell, where it can; how many commands there are only the guest knows, and that of a
 * paused cell tells nothing. */
static void sample(struct sample *s)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	struct cell_stats stats = {0};

	if (s->is_paused)
		s->is_there = true;
	else if (cli_cell_open(s->name, &c, NULL) == 0)
		(void)cells->platform(c, take, s, NULL);
	if (!s->is_there || cells->stats(s->name, &stats, NULL) < 0)
		return;
	s->cpu_ns = stats.cpu_ns;
	s->memory_bytes = stats.memory_bytes;
	s->processes = stats.processes;
	s->at_ns = now_ns();
}

static void compare(struct sample *now, const struct samples *before)
{
	for (size_t i = 0; i < before->n; i++) {
		const struct sample *b = &before->list[i];
		if (!b->is_there || !now->is_there || !now->processes ||
			strcmp(b->name, now->name) != 0 ||
			b->created_unix_ms != now->created_unix_ms || now->at_ns <= b->at_ns)
			continue;
		/* a process that nobody waited for takes its time along when it goes */
		uint64_t used = now->cpu_ns > b->cpu_ns ? now->cpu_ns - b->cpu_ns : 0;
		now->cpu_percent = 100.0 * (double)used / (double)(now->at_ns - b->at_ns);
	}
}

/* A cell that goes away while it is looked at is left out. */
static int look(struct samples *ret, const struct samples *before, struct cell_error *err)
{
	int r = cells->list(note_cell, ret, err);

	for (size_t i = 0; i < ret->n; i++) {
		sample(&ret->list[i]);
		compare(&ret->list[i], before);
	}
	return r;
}

/* Busiest first. */
static int by_use(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	if (x->cpu_percent != y->cpu_percent)
		return x->cpu_percent > y->cpu_percent ? -1 : 1;
	if (x->memory_bytes != y->memory_bytes)
		return x->memory_bytes > y->memory_bytes ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void add_row(struct cli_table *t, const struct sample *s)
{
	uint64_t now_ms = (uint64_t)time(NULL) * 1000;
	char text[CLI_UNIT_MAX];
	bool is_known = s->processes > 0;

	cli_table_add(t, s->name);
	cli_table_add(t, s->backend);
	cli_table_add(t,
		cli_format_age(text,
			now_ms > s->created_unix_ms ? (now_ms - s->created_unix_ms) / 1000 : 0));
	if (s->cpu_percent < 0)
		cli_table_add(t, "-");
	else
		cli_table_addf(t, "%.1f", s->cpu_percent);
	if (is_known)
		cli_table_addf(t, "%.2f", (double)s->cpu_ns / 1e9);
	else
		cli_table_add(t, "-");
	cli_table_add(t, is_known ? cli_format_size(text, s->memory_bytes) : "-");
	if (is_known)
		cli_table_addf(t, "%" PRIu32, s->processes);
	else
		cli_table_add(t, "-");
	if (s->is_paused)
		cli_table_add(t, "paused");
	else
		cli_table_addf(t, "%" PRIu32, s->commands);
}

static void show(const struct cli *cli, const struct samples *s, bool is_screen)
{
	static const char *const titles[] = {
		"NAME", "BACKEND", "AGE", "CPU%", "CPU-S", "MEMORY", "PROCS", "COMMANDS", NULL};
	struct cli_table table;

	cli_table_init(&table, titles);
	for (size_t i = 0; i < s->n; i++)
		if (s->list[i].is_there)
			add_row(&table, &s->list[i]);
	if (is_screen)
		(void)fputs("\033[H\033[J", stdout);
	cli_table_print(&table, cli);
}

static json_t *sample_json(const struct sample *s)
{
	bool is_known = s->processes > 0;
	json_t *o = json_object();

	cli_json_string(o, "name", s->name);
	cli_json_string(o, "backend", s->backend);
	json_object_set_new(o, "cpu_percent",
		s->cpu_percent < 0 ? json_null() : json_real(s->cpu_percent));
	json_object_set_new(o, "cpu_us",
		is_known ? json_integer((json_int_t)(s->cpu_ns / 1000)) : json_null());
	json_object_set_new(o, "memory_bytes",
		is_known ? json_integer((json_int_t)s->memory_bytes) : json_null());
	json_object_set_new(o, "processes", is_known ? json_integer(s->processes) : json_null());
	json_object_set_new(o, "commands", s->is_paused ? json_null() : json_integer(s->commands));
	json_object_set_new(o, "is_paused", json_boolean(s->is_paused));
	return o;
}

static int show_json(struct cli *cli, const struct samples *s)
{
	json_t *list = json_array();

	for (size_t i = 0; i < s->n; i++)
		if (s->list[i].is_there)
			json_array_append_new(list, sample_json(&s->list[i]));
	return cli_print_json(cli, json_pack("{s:o}", "cells", list));
}

/* False when the user has had enough. */
static bool wait_for_next(double seconds)
{
	struct pollfd p = {.fd = cli_signals_fd(), .events = POLLIN};

	(void)poll(&p, 1, (int)(seconds * 1000));
	while (cli_signals_next())
		;
	return !cli_signals_stop();
}

static int top(struct cli *cli, const struct cli_args *args)
{
	struct samples now = {0}, before = {0};
	struct cell_error err = {0};
	const char *text = cli_args_value(args, "interval");
	char *end = NULL;
	double interval = text ? strtod(text, &end) : DEFAULT_INTERVAL_S;
	bool is_once = cli_args_has(args, "once") || cli->is_json || !isatty(STDOUT_FILENO);
	int code = CLI_EXIT_OK;

	if (cli_args_count(args, 0, 0, &err) < 0)
		return cli_fail(cli, &err);
	if (text && (*end || !(interval >= 0.1) || interval > 3600)) {
		(void)cell_fail(&err, CELL_EINVAL, 0,
			"--interval '%.32s' is no number of seconds from 0.1 to 3600", text);
		return cli_fail(cli, &err);
	}
	cli_signals_catch();
	/* what is used per second needs a second look */
	for (int round = 0;; round++) {
		now = (struct samples){0};
		if (look(&now, &before, &err) < 0) {
			code = cli_fail(cli, &err);
			break;
		}
		free(before.list);
		before = now;
		qsort(now.list, now.n, sizeof *now.list, by_use);
		if (is_once && round == 1) {
			if (cli->is_json)
				code = show_json(cli, &now);
			else
				show(cli, &now, false);
			break;
		}
		if (!is_once) {
			show(cli, &now, true);
			(void)fflush(stdout);
		}
		if (!wait_for_next(is_once ? 0.5 : interval))
			break;
	}
	free(before.list);
	return code == CLI_EXIT_OK && !cli->is_json ? cli_flush(cli) : code;
}

static const struct cli_option options[] = {
	{"interval", 'i', "SECONDS", "between two looks (default: 2)"},
	{"once", .help = "one table, then leave; so it is too when the output is no terminal"},
	{0},
};

const struct cli_verb cli_verb_top = {
	.name = "top",
	.usage = "[OPTION...]",
	.summary = "show what each cell takes now",
	.about = "Shows CPU, memory, processes and commands of every named cell of this user, "
		 "sessions of a server on this machine among "
		 "them, the busiest first, until it is interrupted. With --server those of your "
		 "tenant; looking does not keep them from ending when idle. CPU% is of one CPU, "
		 "since the look before; what a back end "
		 "without a pid namespace of its own cannot tell is '-', and so is what nobody "
		 "counts of a "
		 "paused cell.",
	.examples = "cell top\n"
		    "cell top --once\n"
		    "cell top --json",
	.groups = {options},
	.head = CLI_NO_COMMAND,
	.run = top,
};
