/* SPDX-License-Identifier: Apache-2.0 */
/* cell version. */
#include <stdio.h>
#include <sys/utsname.h>

#include "cli/args.h"
#include "cli/output.h"

static int version(struct cli *cli, const struct cli_args *args)
{
	struct cell_error err = {0};
	struct utsname u = {0};

	if (args->verb == &cli_verb_version && cli_args_count(args, 0, 0, &err) < 0)
		return cli_fail(cli, &err);
	(void)uname(&u);
	if (cli->is_json)
		return cli_print_json(cli,
			json_pack("{s:s, s:s, s:s, s:s}", "version", cell_version(), "os",
				u.sysname, "kernel", u.release, "arch", u.machine));
	printf("cell %s\n", cell_version());
	if (cli->is_verbose)
		printf("%s %s %s\n", u.sysname, u.release, u.machine);
	return cli_flush(cli);
}

const struct cli_verb cli_verb_version = {
	.name = "version",
	.usage = "",
	.summary = "show the version",
	.about = "Shows the version of Cell; with --verbose the system's too.",
	.examples = "cell version\n"
		    "cell version --json",
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = version,
};
