/* SPDX-License-Identifier: Apache-2.0 */
/* cell serve: sessions over HTTP. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/spec.h"
#include "server/serve.h"

static const struct cli_option options[] = {
	{"listen", 'l', "ADDRESS",
		"where to listen: 127.0.0.1:7070, *:7070, [::1]:7070 or unix:/path; may be "
		"repeated"},
	{"dev", .help = "for trying it out: loopback, a fresh token, a line of curl to paste"},
	{"tls-cert", .arg = "FILE", .help = "certificate chain (PEM); SIGHUP reads it again",
		.kind = CLI_FILE},
	{"tls-key", .arg = "FILE", .help = "its private key (PEM)", .kind = CLI_FILE},
	{"user", .arg = "USER",
		.help = "started as root, become this user; only the launcher of cells stays root"},
	{0},
};

/* What a first-time user pastes next. */
static void say_started(const char *const *addresses, const char *token, void *arg)
{
	const struct cli *cli = arg;
	const char *a = addresses[0] ? addresses[0] : "";
	bool is_unix = !strncmp(a, "unix:", 5);

	if (cli->is_quiet)
		return;
	for (size_t i = 0; addresses[i]; i++)
		fprintf(stderr, "cell: serving on %s\n", addresses[i]);
	if (!token)
		return;
	fprintf(stderr,
		"cell: this token is shown once and is good for a day\n\n"
		"  export CELL_SERVER=%s\n"
		"  export CELL_TOKEN=%s\n\n"
		"  curl -s %s%s%s/v1/sessions -H \"Authorization: Bearer $CELL_TOKEN\" -d '{}'\n\n",
		a, token, is_unix ? "--unix-socket " : "", is_unix ? a + 5 : "",
		is_unix ? " http://cell" : "$CELL_SERVER");
}

static int read_again(struct cell_config **ret, void *arg, struct cell_error *err)
{
	const struct cli *cli = arg;
	struct cell_config_args how = {.path = cli->config_path, .no_files = cli->no_config};

	return cell_config_load(&how, ret, err);
}

static int run(struct cli *cli, const struct cli_args *args)
{
	auto_(cli_config_freep) struct cell_config *cfg = NULL;
	auto_free const char **listen = cli_args_values(args, "listen");
	struct cell_error err = {0};

	struct cell_config_args how = {.path = cli->config_path, .no_files = cli->no_config};

	if (cli_args_count(args, 0, 0, &err) < 0 || cell_config_load(&how, &cfg, &err) < 0)
		return cli_fail(cli, &err);
	struct serve_options o = {.cfg = cfg,
		.listen = listen,
		.is_dev = cli_args_has(args, "dev"),
		.tls_cert = cli_args_value(args, "tls-cert"),
		.tls_key = cli_args_value(args, "tls-key"),
		.user = cli_args_value(args, "user"),
		.is_verbose = cli->is_verbose,
		.reload = read_again,
		.started = say_started,
		.arg = cli};
	return serve(&o, &err) < 0 ? cli_fail(cli, &err) : CLI_EXIT_OK;
}

const struct cli_verb cli_verb_serve = {
	.name = "serve",
	.usage = "[OPTION...]",
	.summary = "offer sessions over HTTP",
	.about = "Runs the server until it gets SIGTERM or SIGINT: sessions, commands, files over "
		 "HTTP and WebSocket, with tokens, tenants, "
		 "policy and audit. It can be killed at any time: commands run on, and the next "
		 "server takes everything over.\n\n"
		 "Without a token it refuses to start: make one with 'cell token create', set "
		 "server.auth_token, or, on loopback and unix "
		 "sockets only, server.auth_disabled. SIGHUP reads the configuration and the "
		 "certificate again: rules, quotas, prices and timeouts change, an error leaves "
		 "all as it was.\n\n"
		 "The API is described at /openapi.yaml of the running server.",
	.examples = "cell serve --dev\n"
		    "cell serve --listen unix:/run/cell/cell.sock\n"
		    "cell serve --listen '*:7070' --tls-cert cert.pem --tls-key key.pem",
	.groups = {options},
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = run,
};
