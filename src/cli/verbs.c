/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.c: the table of verbs, in the order help shows them, and finding one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/args.h"
#include "cli/help.h"
#include "core/nearest.h"

const struct cli_verb *const cli_verbs[] = {
	&cli_verb_run,
	&cli_verb_code,
	&cli_verb_context,
	&cli_verb_create,
	&cli_verb_exec,
	&cli_verb_shell,
	&cli_verb_attach,
	&cli_verb_logs,
	&cli_verb_ps,
	&cli_verb_signal,
	&cli_verb_top,
	&cli_verb_cp,
	&cli_verb_file,
	&cli_verb_deps,
	&cli_verb_ls,
	&cli_verb_inspect,
	&cli_verb_rm,
	&cli_verb_pause,
	&cli_verb_resume,
	&cli_verb_snapshot,
	&cli_verb_prune,
	&cli_verb_image,
	&cli_verb_backends,
	&cli_verb_doctor,
	&cli_verb_serve,
	&cli_verb_config,
	&cli_verb_token,
	&cli_verb_audit,
	&cli_verb_usage,
	&cli_verb_version,
	&cli_verb_help,
	&cli_verb_completion,
	&cli_verb_complete,
	NULL,
};

int cli_verb_find(const struct cli_verb *const *verbs, const struct cli_verb *of, const char *name,
	const struct cli_verb **ret, struct cell_error *err)
{
	size_t distance = NEAREST_START;
	const char *best = NULL;
	char title[CLI_TITLE_MAX];

	for (const struct cli_verb *const *v = verbs; v && *v; v++) {
		if (!strcmp((*v)->name, name)) {
			*ret = *v;
			return 0;
		}
		if (!(*v)->is_hidden)
			best = cell_nearest(name, (*v)->name, best, &distance);
	}
	cli_verb_title(of, title);
	cell_fail(err, CELL_EINVAL, 0, "there is no verb '%s%s%.40s'", of ? of->name : "",
		of ? " " : "", name);
	if (best)
		return cell_error_hint(err, -EINVAL, "did you mean '%s %s'? '%s --help' lists all",
			title, best, title);
	return cell_error_hint(err, -EINVAL, "'%s --help' lists them", title);
}
