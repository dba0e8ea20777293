/* SPDX-License-Identifier: Apache-2.0 */
/* cell doctor: what works on this machine, what does not, why, and what would fix it. */
#include <stdio.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/cellinfo.h"
#include "cli/cells.h"
#include "cli/doctor.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/remote/remote.h"

#define CHECKS_MAX 32

static const char *const words[] = {
	[CLI_HEALTH_OK] = "ok", [CLI_HEALTH_WARN] = "warn", [CLI_HEALTH_BAD] = "bad"};
static const enum cli_style styles[] = {
	[CLI_HEALTH_OK] = CLI_GOOD, [CLI_HEALTH_WARN] = CLI_WARN, [CLI_HEALTH_BAD] = CLI_BAD};

/* A line below what it is about. Both may quote a server or an engine. */
static void print_more(const char *what, const char *text)
{
	if (!text || !*text)
		return;
	printf("  %-5s %-16s %s: ", "", "", what);
	cli_print_line(text);
}

static void print_line(const struct cli *cli, enum cli_health health, const char *name,
	const char *detail, const char *fix)
{
	printf("  %s%-5s%s %-16s ", cli_style(cli->color_out, styles[health]), words[health],
		cli_style(cli->color_out, CLI_PLAIN), name);
	cli_print_line(detail);
	print_more("fix", fix);
}

static void print_backend(const struct cli *cli, const struct cell_backend_info *b)
{
	print_line(cli, b->is_usable ? CLI_HEALTH_OK : CLI_HEALTH_WARN, b->name,
		b->is_usable ? b->summary : b->reason, b->is_usable ? "" : b->fix);
	for (size_t i = 0; b->is_usable && i < b->n_lacks && i < CELL_LACKS_MAX; i++) {
		printf("  %-5s %-16s without %s: ", "", "", cell_cap_name(b->lacks[i].cap));
		cli_print_line(b->lacks[i].reason);
		print_more("fix", b->lacks[i].fix);
	}
}

struct wall_printer {
	const struct cli *cli;
	const char *backend;
	bool has_title;
};

static int print_wall(const struct cell_wall *w, void *user)
{
	struct wall_printer *p = user;

	if (!p->has_title)
		printf("\n%swalls of the %s%s\n", cli_style(p->cli->color_out, CLI_BOLD),
			p->backend, cli_style(p->cli->color_out, CLI_PLAIN));
	p->has_title = true;
	print_line(p->cli, w->is_weak ? CLI_HEALTH_WARN : CLI_HEALTH_OK, w->name, w->how, NULL);
	print_more("better", w->better);
	print_more("fix", w->fix);
	return 0;
}

static void print_text(const struct cli *cli, const struct cli_check *checks, size_t n_checks,
	const struct cell_backend_info *backends, size_t n_backends)
{
	size_t n_planned = 0;

	printf("%sthis machine%s\n", cli_style(cli->color_out, CLI_BOLD),
		cli_style(cli->color_out, CLI_PLAIN));
	for (size_t i = 0; i < n_checks; i++)
		print_line(cli, checks[i].health, checks[i].name, checks[i].detail, checks[i].fix);
	printf("\n%sback ends%s\n", cli_style(cli->color_out, CLI_BOLD),
		cli_style(cli->color_out, CLI_PLAIN));
	for (size_t i = 0; i < n_backends; i++) {
		/* Wrappers are nothing by themselves: that they are not usable is no finding. */
		if (backends[i].is_built && (backends[i].is_usable || backends[i].tier > 0))
			print_backend(cli, &backends[i]);
		n_planned += !backends[i].is_built;
	}
	if (n_planned)
		printf("  %zu more are known but not in this build: cell backends\n", n_planned);
	for (size_t i = 0; i < n_backends; i++) {
		struct wall_printer p = {.cli = cli, .backend = backends[i].name};

		if (backends[i].is_usable)
			(void)cell_backend_walls(backends[i].name, print_wall, &p, NULL);
	}
}

static json_t *checks_json(const struct cli_check *checks, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *o = json_object();
		cli_json_string(o, "name", checks[i].name);
		cli_json_string(o, "status", words[checks[i].health]);
		cli_json_string(o, "detail", checks[i].detail);
		cli_json_string(o, "fix", *checks[i].fix ? checks[i].fix : NULL);
		json_array_append_new(list, o);
	}
	return list;
}

static int wall_json(const struct cell_wall *w, void *user)
{
	json_t *list = user, *o = json_object();

	cli_json_string(o, "name", w->name);
	cli_json_string(o, "status", words[w->is_weak ? CLI_HEALTH_WARN : CLI_HEALTH_OK]);
	cli_json_string(o, "how", w->how);
	cli_json_string(o, "better", w->better);
	cli_json_string(o, "fix", w->fix);
	json_array_append_new(list, o);
	return 0;
}

static json_t *backend_json(const struct cell_backend_info *info)
{
	json_t *o = cli_backend_json(info), *walls = json_array();

	if (info->is_usable)
		(void)cell_backend_walls(info->name, wall_json, walls, NULL);
	json_object_set_new(o, "walls", walls);
	return o;
}

/* Fine: nothing is bad and at least one back end can make cells. The null back end makes none worth
 * the name, so it does not count. */
static bool is_fine(const struct cli_check *checks, size_t n_checks,
	const struct cell_backend_info *backends, size_t n_backends)
{
	bool has_backend = cells->server != NULL;

	for (size_t i = 0; i < n_checks; i++)
		if (checks[i].health == CLI_HEALTH_BAD)
			return false;
	/* With a server this machine makes no cells, and need not be able to. */
	for (size_t i = 0; i < n_backends; i++)
		has_backend |=
			backends[i].is_usable && (backends[i].caps & CELL_CAP_BIT(CELL_CAP_EXEC));
	return has_backend;
}

static int doctor(struct cli *cli, const struct cli_args *args)
{
	auto_free struct cell_backend_info *backends = NULL;
	struct cli_check checks[CHECKS_MAX];
	size_t n_checks, n_machine, n_backends;
	struct cell_error err = {0};
	bool fine;
	int r;

	if (cli_args_count(args, 0, 0, &err) < 0)
		return cli_fail(cli, &err);
	n_checks = cli_doctor_system(checks, CHECKS_MAX);
	n_machine = n_checks;
	if (cells->server)
		n_checks += remote_doctor(checks + n_checks, CHECKS_MAX - n_checks);
	/* Those of this machine, also when a server is used. */
	backends = cli_calloc(CLI_BACKENDS_MAX, sizeof(*backends));
	n_backends = cell_backends_probe(backends, CLI_BACKENDS_MAX);
	fine = is_fine(checks, n_checks, backends, n_backends);
	if (cli->is_json) {
		json_t *list = json_array();
		for (size_t i = 0; i < n_backends; i++)
			json_array_append_new(list, backend_json(&backends[i]));
		r = cli_print_json(cli, json_pack("{s:b, s:o, s:o}", "ok", fine, "checks",
						checks_json(checks, n_checks), "backends", list));
	} else {
		print_text(cli, checks, n_machine, backends, n_backends);
		if (n_checks > n_machine)
			printf("\n%sthe server%s\n", cli_style(cli->color_out, CLI_BOLD),
				cli_style(cli->color_out, CLI_PLAIN));
		for (size_t i = n_machine; i < n_checks; i++)
			print_line(cli, checks[i].health, checks[i].name, checks[i].detail,
				checks[i].fix);
		r = cli_flush(cli);
	}
	return r ? r : fine ? CLI_EXIT_OK : CLI_EXIT_NO;
}

const struct cli_verb cli_verb_doctor = {
	.name = "doctor",
	.usage = "",
	.summary = "tell what works on this machine, what not, why, and what would fix it",
	.about =
		"Looks at the kernel, the state directory and every back end. What is missing is "
		"shown with its reason and one command that would fix it. Each wall of the jail is "
		"listed with how it is provided here and what another kernel or setting would "
		"give. Exits with 0 when cells can be made here, else with 1.\n"
		"\n"
		"With --json one object is printed: ok, checks (name, status, detail, fix) and "
		"backends, each as in 'cell backends --json' and with walls (name, status, how, "
		"better, fix).\n"
		"\n"
		"With --server it also tells whether the server is reached, its version, and "
		"whether it takes "
		"the token, and exits with 0 when the server can be used.",
	.examples = "cell doctor\n"
		    "cell doctor --json",
	.head = CLI_NO_COMMAND,
	.run = doctor,
};
