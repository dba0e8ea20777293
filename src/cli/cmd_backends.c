/* SPDX-License-Identifier: Apache-2.0 */
/* cell backends: how cells can be made here, and what each way promises. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cellinfo.h"
#include "cli/cells.h"
#include "cli/output.h"

static void print_lack(const struct cli *cli, const char *title, const char *reason,
	const char *fix)
{
	printf("  %s%-22s%s ", cli_style(cli->color_out, CLI_WARN), title,
		cli_style(cli->color_out, CLI_PLAIN));
	cli_print_line(reason);
	if (!*fix)
		return;
	printf("  %-22s fix: ", "");
	cli_print_line(fix);
}

static const struct cell_lack *find_lack(const struct cell_backend_info *info, int cap)
{
	for (size_t i = 0; i < info->n_lacks && i < CELL_LACKS_MAX; i++)
		if ((int)info->lacks[i].cap == cap)
			return &info->lacks[i];
	return NULL;
}

static void print_advice(const char *what, const char *text)
{
	if (!text || !*text)
		return;
	printf("%s: ", what);
	cli_print_line(text);
}

/* What no machine could make it promise. */
static void print_never(const struct cell_backend_info *info)
{
	const char *between = "\nnever promised: ";

	for (int cap = 0; cap < CELL_CAP_COUNT; cap++) {
		if (info->declared & CELL_CAP_BIT(cap))
			continue;
		printf("%s%s", between, cell_cap_name(cap));
		between = ", ";
	}
	if (*between == ',')
		printf("\n");
}

static void print_one(const struct cli *cli, const struct cell_backend_info *info)
{
	(void)fputs(cli_style(cli->color_out, CLI_BOLD), stdout);
	cli_print_name(info->name);
	printf("%s: ", cli_style(cli->color_out, CLI_PLAIN));
	cli_print_line(info->summary ? info->summary : "");
	print_advice("walls", info->wall);
	print_advice("needs", info->needs);
	print_advice("take it for", info->take_for);
	print_advice("not for", info->not_for);
	printf("tier: %d\nusable: %s\n", info->tier, cli_backend_state(info));
	print_advice("reason", info->is_usable ? "" : info->reason);
	print_advice("fix", info->is_usable ? "" : info->fix);
	if (!info->is_built)
		return;
	printf("\npromised here:\n");
	for (int cap = 0; cap < CELL_CAP_COUNT; cap++)
		if (info->is_usable && (info->caps & CELL_CAP_BIT(cap)))
			printf("  %s%-22s%s %s\n", cli_style(cli->color_out, CLI_GOOD),
				cell_cap_name(cap), cli_style(cli->color_out, CLI_PLAIN),
				cell_cap_meaning(cap));
	if (info->declared & ~info->caps)
		printf("\nmissing on this machine:\n");
	for (int cap = 0; cap < CELL_CAP_COUNT; cap++) {
		const struct cell_lack *lack = find_lack(info, cap);
		if (!(info->declared & ~info->caps & CELL_CAP_BIT(cap)))
			continue;
		print_lack(cli, cell_cap_name(cap), lack ? lack->reason : info->reason,
			lack ? lack->fix : info->fix);
	}
	print_never(info);
}

static void print_table(const struct cli *cli, const struct cell_backend_info *list, size_t n)
{
	static const char *const titles[] = {"NAME", "TIER", "USABLE", "SUMMARY", NULL};
	struct cli_table t;

	cli_table_init(&t, titles);
	for (size_t i = 0; i < n; i++) {
		cli_table_add(&t, list[i].name);
		cli_table_addf(&t, "%d", list[i].tier);
		cli_table_add_styled(&t,
			list[i].is_usable  ? CLI_GOOD
			: list[i].is_built ? CLI_WARN
					   : CLI_DIM,
			cli_backend_state(&list[i]));
		cli_table_add(&t, list[i].is_usable || !*list[i].reason || !list[i].is_built
					  ? list[i].summary
					  : list[i].reason);
	}
	cli_table_print(&t, cli);
}

static int show_one(const struct cli *cli, const char *name)
{
	struct cell_backend_info info;
	struct cell_error err = {0};

	if (cells->backend_probe(name, &info, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->is_json)
		return cli_print_json(cli, cli_backend_json(&info));
	print_one(cli, &info);
	return cli_flush(cli);
}

static int backends(struct cli *cli, const struct cli_args *args)
{
	auto_free struct cell_backend_info *list = NULL;
	struct cell_error err = {0};
	size_t n;
	json_t *all;

	if (cli_args_count(args, 0, 1, &err) < 0)
		return cli_fail(cli, &err);
	if (args->n_operands)
		return show_one(cli, args->operands[0]);
	if (cli_backends(&list, &n, &err) < 0)
		return cli_fail(cli, &err);
	if (!cli->is_json) {
		if (cli->is_quiet) {
			for (size_t i = 0; i < n; i++)
				if (list[i].is_usable)
					cli_print_line(list[i].name);
		} else {
			print_table(cli, list, n);
		}
		return cli_flush(cli);
	}
	all = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(all, cli_backend_json(&list[i]));
	return cli_print_json(cli, json_pack("{s:o}", "backends", all));
}

const struct cli_verb cli_verb_backends = {
	.name = "backends",
	.usage = "[NAME]",
	.summary = "list the ways cells can be made, and what each promises here",
	.about =
		"Lists every back end with its isolation tier and whether it works on this "
		"machine. "
		"With NAME, shows what it promises here, and for everything missing the reason and "
		"what would fix it. With --quiet only the names of those that work.",
	.examples = "cell backends\n"
		    "cell backends subprocess\n"
		    "cell backends --json",
	.operands = {CLI_BACKEND},
	.head = CLI_NO_COMMAND,
	.run = backends,
};
