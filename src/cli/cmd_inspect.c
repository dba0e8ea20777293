/* SPDX-License-Identifier: Apache-2.0 */
/* cell inspect: everything known of one cell. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cellinfo.h"
#include "cli/cells.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/units.h"

static int keep_info(const struct cell_info *info, void *user)
{
	json_t **o = user;

	*o = cli_cell_json(info);
	return 0;
}

static int keep_platform(const struct cell_platform *p, void *user)
{
	json_t *o = json_object();

	cli_json_string(o, "os", p->os);
	cli_json_string(o, "os_version", p->os_version);
	cli_json_string(o, "kernel", p->kernel);
	cli_json_string(o, "arch", p->arch);
	cli_json_string(o, "hostname", p->hostname);
	cli_json_string(o, "workspace", p->workspace);
	cli_json_string(o, "user", p->user);
	json_object_set_new(o, "uid", json_integer(p->uid));
	json_object_set_new(o, "cpus", json_integer(p->cpus));
	json_object_set_new(o, "memory_bytes", json_integer((json_int_t)p->memory_bytes));
	cli_json_string(o, "guest_version", p->guest_version);
	json_object_set_new(o, "guest_pid", json_integer(p->guest_pid));
	json_object_set_new(o, "guest_rss_bytes", json_integer((json_int_t)p->guest_rss_bytes));
	json_object_set_new(o, "commands_running", json_integer(p->execs_running));
	json_object_set_new(o, "clients", json_integer(p->clients));
	json_object_set_new(user, "platform", o);
	return 0;
}

/* What only a running guest can say. A cell that is dead is described by its record alone. */
static void ask_guest(json_t *o, const char *name)
{
	auto_(cli_cell_close) struct cell *c = NULL;
	cell_caps caps = 0;

	if (cells->reopen(name, &c, NULL) < 0)
		return;
	for (int cap = 0; cap < CELL_CAP_COUNT; cap++)
		caps |= cells->supports(c, cap) ? CELL_CAP_BIT(cap) : 0;
	json_object_set_new(o, "capabilities", cli_json_caps(caps));
	json_object_set_new(o, "degraded", cli_json_caps(cells->degraded(c)));
	(void)cells->platform(c, keep_platform, o, NULL);
}

static void print_value(const json_t *value)
{
	char *text;

	if (json_is_string(value)) {
		cli_print_name(json_string_value(value));
	} else if (json_is_array(value)) {
		for (size_t i = 0; i < json_array_size(value); i++) {
			(void)fputs(i ? " " : "", stdout);
			cli_print_name(json_string_value(json_array_get(value, i)));
		}
	} else if (!json_is_null(value)) {
		text = json_dumps(value, JSON_ENCODE_ANY);
		(void)fputs(text ? text : "", stdout);
		free(text);
	}
}

static void print_object(const struct cli *cli, json_t *o, int indent)
{
	const char *key;
	json_t *value;

	json_object_foreach (o, key, value) {
		char text[CLI_UNIT_MAX];
		printf("%*s%s%-*s%s ", indent, "", cli_style(cli->color_out, CLI_BOLD), 18 - indent,
			key, cli_style(cli->color_out, CLI_PLAIN));
		if (json_is_object(value)) {
			(void)putchar('\n');
			print_object(cli, value, indent + 2);
			continue;
		}
		print_value(value);
		if (strstr(key, "_bytes"))
			printf(" (%s)", cli_format_size(text, (uint64_t)json_integer_value(value)));
		else if (strstr(key, "_unix_ms"))
			printf(" (%s)", cli_format_time(text, (uint64_t)json_integer_value(value)));
		(void)putchar('\n');
	}
}

static int inspect(struct cli *cli, const struct cli_args *args)
{
	struct cell_error err = {0};
	json_t *o = NULL;

	if (cli_args_count(args, 1, 1, &err) < 0 ||
		cells->inspect(args->operands[0], keep_info, &o, &err) < 0) {
		json_decref(o);
		if (err.code == CELL_ENOTFOUND && !*err.hint)
			cell_error_hint(&err, 0, "'cell ls' lists the cells");
		return cli_fail(cli, &err);
	}
	ask_guest(o, args->operands[0]);
	if (cli->is_json)
		return cli_print_json(cli, o);
	print_object(cli, o, 0);
	json_decref(o);
	return cli_flush(cli);
}

const struct cli_verb cli_verb_inspect = {
	.name = "inspect",
	.usage = "CELL",
	.summary = "show everything known of a cell",
	.about = "Shows the cell's record, what its back end promised, limits that are not "
		 "enforced, "
		 "and the platform as seen from inside.",
	.examples = "cell inspect web\n"
		    "cell inspect --json web | jq .platform.os_version",
	.operands = {CLI_CELL},
	.head = CLI_NO_COMMAND,
	.run = inspect,
};
