/* SPDX-License-Identifier: Apache-2.0 */
/* code.h: what the core's own files, and the server, ask of runs besides include/cell/code.h. */
#pragma once
#include "cell/code.h"

/* The run as a command whose stdout are records (core/code_event.h): its spool, its adoption, its re-attachment are a
 * command's. kind NULL is "run"; else a question, whose text is the code. is_waiting: for the guest's word that it runs. */
int cell_code_exec(struct cell *c, const struct cell_code_opts *opts, const char *kind,
	bool is_waiting, struct cell_exec **ret, struct cell_error *err);
/* Ask a context something; the answer as text. Caller frees. */
int cell_code_ask(struct cell *c, const char *context, const char *kind, const char *text,
	size_t len, char **ret, struct cell_error *err);
/* Start without waiting for the word that it runs: an error comes with the first event. kind as above. */
int cell_code_begin(struct cell *c, const struct cell_code_opts *opts, const char *kind,
	struct cell_code_run **ret, struct cell_error *err);
