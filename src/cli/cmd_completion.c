/* SPDX-License-Identifier: Apache-2.0 */
/* cell completion: the scripts for the shells, and the hidden verb they ask. The scripts know
 * nothing of our verbs and options, so they never go out of date. */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "cli/args.h"
#include "cli/complete.h"
#include "cli/output.h"
#include "cli/text.h"

#define REMARK_MAX 200

static const char bash_script[] =
	"# bash completion for cell: asks `cell __complete`.\n"
	"_cell() {\n"
	"\tlocal line=\"${COMP_LINE:0:COMP_POINT}\" reply word cut\n"
	"\tlocal -a words\n"
	"\tread -ra words <<<\"$line\"\n"
	"\t[[ $line == *[[:space:]] ]] && words+=(\"\")\n"
	"\tlocal cur=\"${words[${#words[@]}-1]}\"\n"
	"\tCOMPREPLY=()\n"
	"\twhile IFS= read -r reply; do\n"
	"\t\tword=\"${reply%%$'\\t'*}\"\n"
	"\t\tcase \"$word\" in\n"
	"\t\t:files) compopt -o filenames; mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY \\\n"
	"\t\t\t< <(compgen -f -- \"${cur#*=}\") ;;\n"
	"\t\t:directories) compopt -o filenames; mapfile -t -O \"${#COMPREPLY[@]}\" COMPREPLY \\\n"
	"\t\t\t< <(compgen -d -- \"${cur#*=}\") ;;\n"
	"\t\t*) [[ $word == *[:/] ]] && compopt -o nospace\n"
	"\t\t\t# a name out of a cell is put into the line: no $(...) of its may be run\n"
	"\t\t\t[[ $word == *[^[:alnum:]_./:=@%+,-]* ]] && printf -v word %q \"$word\"\n"
	"\t\t\tCOMPREPLY+=(\"$word\") ;;\n"
	"\t\tesac\n"
	"\tdone < <(\"${words[0]}\" __complete -- \"${words[@]:1}\" 2>/dev/null)\n"
	"\t# bash has already split the word at : and =, and wants only the rest back\n"
	"\tcut=\"${cur%\"${cur##*[:=]}\"}\"\n"
	"\t[[ -n $cut ]] && COMPREPLY=(\"${COMPREPLY[@]#\"$cut\"}\")\n"
	"\treturn 0\n"
	"}\n"
	"complete -F _cell cell\n";

static const char zsh_script[] =
	"#compdef cell\n"
	"# zsh completion for cell: asks `cell __complete`.\n"
	"_cell() {\n"
	"\tlocal -a found\n"
	"\tlocal line word about\n"
	"\tlocal ret=1\n"
	"\tfor line in \"${(@f)$(\"${(Q)words[1]}\" __complete -- "
	"\"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\"; do\n"
	"\t\tcase \"$line\" in\n"
	"\t\t'') ;;\n"
	"\t\t:files*) _files && ret=0 ;;\n"
	"\t\t:directories*) _files -/ && ret=0 ;;\n"
	"\t\t*) word=\"${line%%$'\\t'*}\" about=\"${line#*$'\\t'}\"\n"
	"\t\t\tfound+=(\"${word//:/\\\\:}:$about\") ;;\n"
	"\t\tesac\n"
	"\tdone\n"
	"\t(( ${#found} )) && _describe cell found && ret=0\n"
	"\treturn ret\n"
	"}\n"
	"if [[ $funcstack[1] == _cell ]]; then _cell \"$@\"; else compdef _cell cell; fi\n";

static const char fish_script[] =
	"# fish completion for cell: asks `cell __complete`.\n"
	"function __cell_complete\n"
	"\tset -l words (commandline -opc)\n"
	"\tset -l current (commandline -ct)\n"
	"\tfor line in ($words[1] __complete -- $words[2..-1] \"$current\" 2>/dev/null)\n"
	"\t\tswitch $line\n"
	"\t\t\tcase ':files*'\n"
	"\t\t\t\t__fish_complete_path (string replace -r '^--[^=]*=' '' -- \"$current\")\n"
	"\t\t\tcase ':directories*'\n"
	"\t\t\t\t__fish_complete_directories (string replace -r '^--[^=]*=' '' -- \"$current\")\n"
	"\t\t\tcase '*'\n"
	"\t\t\t\techo $line\n"
	"\t\tend\n"
	"\tend\n"
	"end\n"
	"complete -c cell -f -a '(__cell_complete)'\n";

static const struct {
	const char *shell;
	const char *script;
} scripts[] = {{"bash", bash_script}, {"zsh", zsh_script}, {"fish", fish_script}};

static int completion(struct cli *cli, const struct cli_args *args)
{
	struct cell_error err = {0};

	if (cli_args_count(args, 1, 1, &err) < 0)
		return cli_fail(cli, &err);
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		if (strcmp(scripts[i].shell, args->operands[0]) != 0)
			continue;
		if (cli->is_json)
			return cli_print_json(cli,
				json_pack("{s:s, s:s}", "shell", scripts[i].shell, "script",
					scripts[i].script));
		(void)fputs(scripts[i].script, stdout);
		return cli_flush(cli);
	}
	cell_fail(&err, CELL_EINVAL, 0, "completion: '%.40s' is no shell with a script",
		args->operands[0]);
	cell_error_hint(&err, 0, "there is one for bash, zsh and fish");
	return cli_fail(cli, &err);
}

const struct cli_verb cli_verb_completion = {
	.name = "completion",
	.usage = "bash|zsh|fish",
	.summary = "print the script that completes cell's words in a shell",
	.about = "Prints a script for the shell. It completes verbs, options, names of cells, ids "
		 "of "
		 "commands, back ends, and paths inside cells for 'cell cp'. An installed Cell has "
		 "the "
		 "scripts in place already.",
	.examples = "source <(cell completion bash)\n"
		    "cell completion zsh > ~/.zfunc/_cell\n"
		    "cell completion fish > ~/.config/fish/completions/cell.fish",
	.operands = {CLI_CHOICE},
	.choices = "bash zsh fish",
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = completion,
};

/* A newline or tab inside a candidate cannot be told from the ends of lines and words; and shells show both as they are, which may be a file's
 * name or a command line of the cell's. */
static void print_candidate(const char *word, const char *about, void *user)
{
	auto_buf struct buf shown = BUF_INIT(REMARK_MAX * 4);

	(void)user;
	if (!cli_is_visible(word))
		return;
	(void)cli_visible(about, strnlen(about, REMARK_MAX), &shown);
	printf("%s\t%s\n", word, buf_str(&shown));
}

static int complete(struct cli *cli, const struct cli_args *args)
{
	if (args->n_operands)
		cli_complete(cli->verbs, args->operands, args->n_operands, print_candidate, NULL);
	return cli_flush(cli);
}

const struct cli_verb cli_verb_complete = {
	.name = "__complete",
	.usage = "-- WORD...",
	.summary = "candidates for the last word, one a line with a tab and a remark",
	.about = "For the scripts of 'cell completion'.",
	.is_hidden = true,
	.head = 0,
	.run = complete,
};
