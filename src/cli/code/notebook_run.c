/* SPDX-License-Identifier: Apache-2.0 */
/* notebook_run.c: see notebook_run.h. The tags are those of Jupyter's own tools. */
#include "cli/code/notebook_run.h"

#include <string.h>

#include "base/cleanup.h"
#include "cli/output.h"

static int take(const struct cell_code_event *e, void *user)
{
	return notebook_add(user, e);
}

static int run_cell(struct notebook_run *r, struct notebook *nb, size_t i, const char *source,
	bool *ret_is_over, struct cell_error *err)
{
	json_t *cell = json_array_get(nb->cells, i);
	bool is_error_wanted = notebook_has_tag(cell, "raises-exception");
	struct notebook_outputs outputs;
	struct code_job j = {.cli = r->cli,
		.cell = r->cell,
		.opts = r->opts,
		.context = r->context,
		.take = take,
		.user = &outputs,
		.is_sole = r->is_sole};
	int code;

	j.opts.code = source;
	cli_tell(r->cli, "cell %zu of %zu", i + 1, json_array_size(nb->cells));
	notebook_begin(nb, cell, &outputs);
	code = code_job_run(&j, err);
	notebook_end(&outputs, j.has_done ? j.done.execution_count : 0);
	if (code == 0)
		code = code_job_exit(&j, outputs.has_error);
	*ret_is_over = j.stop_signal || !j.has_done || j.n_stops;
	r->n_run++;
	if (code == CLI_EXIT_NO && is_error_wanted)
		code = CLI_EXIT_OK;
	if (code > 0) {
		r->n_failed++;
		*ret_is_over |= !r->goes_on;
		cli_note(r->cli, "cell %zu of the notebook failed", i + 1);
	}
	code_job_done(&j);
	return code;
}

int notebook_run(struct notebook_run *r, struct notebook *nb, struct cell_error *err)
{
	bool is_over = false;
	int first = 0;

	for (size_t i = 0; i < json_array_size(nb->cells); i++) {
		json_t *cell = json_array_get(nb->cells, i);
		auto_free char *source = NULL;
		if (!notebook_is_code(cell))
			continue;
		source = notebook_source(cell);
		if (is_over || notebook_has_tag(cell, "skip-execution") ||
			!source[strspn(source, " \t\r\n")]) {
			notebook_clear(cell);
			continue;
		}
		int code = run_cell(r, nb, i, source, &is_over, err);
		if (code < 0)
			return code;
		first = first ? first : code;
	}
	return first;
}
