/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli.h: what every verb shares. A verb is one const table (struct cli_verb) at the bottom of its
 * cmd_<verb>.c; main.c lists them. Parsing, help, completion and the man pages are made from the
 * same tables, so an option is written down once.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/cell.h"
#include "cell/config.h"

/* Exit codes. Verbs that run a command give the command's own; the rest is as a shell does it. */
enum cli_exit {
	CLI_EXIT_OK = 0,
	CLI_EXIT_NO = 1, /* the answer is no: a file that is not there, a pattern without a match */
	CLI_EXIT_TIMEOUT = 124,
	CLI_EXIT_FAILED = 125, /* Cell failed, or was called wrongly */
	CLI_EXIT_SIGNAL = 128, /* + the signal's number */
};

/* What a word on the command line stands for; completion offers such words. */
enum cli_kind {
	CLI_ANY = 0,
	CLI_FILE,
	CLI_DIRECTORY,
	CLI_CHOICE,  /* one of `choices` */
	CLI_CELL,    /* the name of a cell */
	CLI_EXEC,    /* the id of a command in the cell named before */
	CLI_BACKEND, /* a back end */
	CLI_CAP,     /* a capability word */
	CLI_SIGNAL,
	CLI_VERB,
	CLI_COPY, /* a file of the host, or CELL:PATH */
	CLI_COMMAND,
};

struct cli_option {
	const char *name;    /* without the dashes; NULL ends a table */
	char letter;	     /* short form, or 0 */
	const char *arg;     /* what its argument is called; NULL: takes none */
	const char *help;    /* one sentence, small first letter, no full stop */
	const char *key;     /* the configuration key it sets; NULL: the verb's own business */
	const char *fixed;   /* value given to `key` by an option without argument */
	enum cli_kind kind;  /* of the argument */
	const char *choices; /* words separated by spaces; CLI_FILE: those that are no file */
};

#define CLI_GROUPS_MAX	 5
#define CLI_OPERANDS_MAX 4

struct cli;
struct cli_args;

struct cli_verb {
	const char *name;
	const char *of;	      /* the verb it belongs to ("file" for "read"), or NULL */
	const char *usage;    /* what follows the name, for the synopsis */
	const char *summary;  /* one line, as cli_option.help */
	const char *about;    /* paragraphs, separated by empty lines */
	const char *examples; /* lines "command" or "# remark" */
	const struct cli_option *groups[CLI_GROUPS_MAX]; /* option tables, NULL-terminated */
	/* What the operands are, for completion; the last one repeats. */
	enum cli_kind operands[CLI_OPERANDS_MAX];
	const char *choices; /* for an operand of kind CLI_CHOICE */
	/* How many operands come before a command line: after them, the first word that is no
	 * option ends our options and the rest is the command's. -1: no command line, options may
	 * stand anywhere. */
	int head;
	bool is_hidden;
	bool is_here;			     /* works on this machine whatever --server says */
	const struct cli_verb *const *verbs; /* verbs of its own (file, config); NULL-terminated */
	/* Do it. Returns the exit code. NULL when it only has verbs of its own. */
	int (*run)(struct cli *cli, const struct cli_args *args);
};

#define CLI_NO_COMMAND (-1)

struct cli {
	bool is_json;
	bool is_quiet;
	bool is_verbose;
	bool color_out, color_err; /* may colours be used on stdout, stderr */
	const char *config_path;   /* --config */
	bool no_config;
	const char *server, *token_file, *ca_file; /* --server, --token-file, --ca */
	const struct cli_verb *const *verbs;	   /* all of them */
	const struct cli_verb *verb;		   /* the one running; its parent when it has one */
	const struct cli_verb *parent;
};

extern const struct cli_option cli_global_options[];  /* every verb */
extern const struct cli_option cli_spec_options[];    /* what a cell should be: run, create ... */
extern const struct cli_option cli_command_options[]; /* how a command is run: run, exec */

extern const struct cli_verb cli_verb_run, cli_verb_code, cli_verb_context, cli_verb_create,
	cli_verb_exec, cli_verb_attach, cli_verb_logs, cli_verb_ps, cli_verb_signal, cli_verb_shell,
	cli_verb_cp, cli_verb_file, cli_verb_deps, cli_verb_ls, cli_verb_inspect, cli_verb_rm,
	cli_verb_pause, cli_verb_resume, cli_verb_snapshot, cli_verb_prune, cli_verb_backends,
	cli_verb_doctor, cli_verb_config, cli_verb_token, cli_verb_audit, cli_verb_usage,
	cli_verb_serve, cli_verb_image, cli_verb_top, cli_verb_version, cli_verb_help,
	cli_verb_completion, cli_verb_complete;

/* The table of verbs, NULL-terminated. */
extern const struct cli_verb *const cli_verbs[];
