/* SPDX-License-Identifier: Apache-2.0 */
/* options.c: the option tables several verbs share. An option with a `key` does nothing but set
 * that configuration key (docs/configuration.md), so a flag and a line of cell.yaml cannot differ.
 */
#include <stddef.h>

#include "cli/cli.h"

const struct cli_option cli_global_options[] = {
	{"json", 0, NULL, "print one JSON object instead of text"},
	{"state-dir", 0, "DIR", "where cells are kept (default: $CELL_STATE_DIR)",
		.kind = CLI_DIRECTORY},
	{"config", 0, "FILE", "read this configuration file over the others", .kind = CLI_FILE},
	{"no-config", 0, NULL, "read no configuration files but the one of --config"},
	{"quiet", 'q', NULL, "say only what was asked for"},
	{"verbose", 0, NULL, "say what is being done"},
	{"color", 0, "WHEN", "colours: auto, always or never", .kind = CLI_CHOICE,
		.choices = "auto always never"},
	{"help", 'h', NULL, "show help"},
	{"version", 'V', NULL, "show the version"},
	{0},
};

const struct cli_option cli_spec_options[] = {
	{"backend", 'b', "NAME", "how the cell is made (default: the strongest usable here)",
		.key = "backend", .kind = CLI_BACKEND},
	{"tier", 0, "N", "refuse walls weaker than this: 1 trusted ... 4 maximum", .key = "tier",
		.kind = CLI_CHOICE, .choices = "1 2 3 4"},
	{"name", 'n', "NAME", "name the cell, so that other commands can use it", .key = "name"},
	{"image", 0, "IMAGE", "container image", .key = "image"},
	{"root", 0, "PATH", "root tree: a directory or a tar archive", .key = "root",
		.kind = CLI_FILE},
	{"workspace", 'w', "DIR",
		"directory of the host to work in (default: the current one; a jail has a private "
		"one)",
		.key = "workspace", .kind = CLI_DIRECTORY},
	{"mount", 'v', "SRC:DST[:ro]", "a further directory of the host; may be repeated",
		.key = "mounts", .kind = CLI_DIRECTORY},
	{"env", 'e', "NAME[=VALUE]", "set a variable, or pass on the host's; may be repeated",
		.key = "env"},
	{"env-from", 0, "POLICY",
		"what of the host's environment passes: all, core or none; secrets never do",
		.key = "env_from", .kind = CLI_CHOICE, .choices = "all core none"},
	{"cwd", 'C', "DIR", "directory of commands, relative to the workspace", .key = "cwd"},
	{"user", 'u', "USER", "user of commands: a name or UID[:GID] in the cell", .key = "user"},
	{"timeout", 0, "TIME", "end a command after this: TERM, then KILL (1s, 5m); see --grace",
		.key = "timeout"},
	{"memory", 'm', "SIZE", "memory of the whole cell (512m, 2g)", .key = "limits.memory"},
	{"cpus", 0, "N", "CPUs of the whole cell (0.5, 2)", .key = "limits.cpus"},
	{"pids", 0, "N", "number of processes", .key = "limits.pids"},
	{"disk", 0, "SIZE", "bytes the cell may write", .key = "limits.disk"},
	{"files", 0, "N", "open files of each process", .key = "limits.files"},
	{"file-size", 0, "SIZE", "size of any one file", .key = "limits.file_size"},
	{"process-memory", 0, "SIZE", "address space of each process",
		.key = "limits.process_memory"},
	{"cpu-time", 0, "TIME", "CPU time of each process (30s, 5m)", .key = "limits.cpu_time"},
	{"io-weight", 0, "N", "share of disk input and output, 100 is normal",
		.key = "limits.io_weight"},
	{"limits", 0, "MODE",
		"strict (default), or best-effort: take what can be enforced and report the rest",
		.key = "limits.best_effort", .kind = CLI_CHOICE, .choices = "strict best-effort"},
	{"resources", 0, "MODEL", "shared, limited, burstable or dedicated", .key = "resources",
		.kind = CLI_CHOICE, .choices = "shared limited burstable dedicated"},
	{"network", 0, "MODE", "none, open, or allow: only the domains of --allow",
		.key = "network.mode", .kind = CLI_CHOICE, .choices = "none open allow"},
	{"allow", 0, "DOMAIN", "a domain that may be reached; may be repeated",
		.key = "network.allow"},
	{"gpus", 0, "N", "number of GPUs", .key = "gpus"},
	{"lifecycle", 0, "KIND", "persistent, workspace, session, ephemeral or scheduled",
		.key = "lifecycle", .kind = CLI_CHOICE,
		.choices = "persistent workspace session ephemeral scheduled"},
	{"label", 'l', "KEY=VALUE", "attach a label; may be repeated", .key = "labels"},
	{"need", 0, "CAPABILITY", "refuse back ends without it; may be repeated", .key = "needs",
		.kind = CLI_CAP},
	{0},
};

const struct cli_option cli_command_options[] = {
	{"interactive", 'i', NULL, "pass stdin on even when it is a terminal"},
	{"tty", 't', NULL, "give the command a terminal"},
	{"shell", 'c', "LINE", "run a command line with /bin/sh instead of a program"},
	{"merge", 0, NULL, "stderr into stdout, in the order written"},
	{"grace", 0, "TIME", "between TERM and KILL at the deadline (default: run 500ms, exec 2s)"},
	{"max-output", 0, "SIZE", "keep at most this much of each stream (with --json: 1M)"},
	{"raw", 0, NULL, "do not neutralise control sequences on a terminal"},
	{0},
};
