/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env.h: the environment of commands. What of the host's passes is decided by name, and for
 *credentials inside a value by their form; what is named outright always passes.
 *
 *	none	PATH and LANG, both the cell's own.
 *	core	also what describes the user and the terminal: PATH LANG LANGUAGE LC_* TZ TERM
 *COLORTERM NO_COLOR SHELL USER LOGNAME. all	everything but secrets, what would load code into
 *programs (LD_*, BASH_ENV, ...), and what describes the caller's place and not the command's (PWD,
 *HOME, TMPDIR, XDG_*).
 *
 * HOME and TMPDIR never come from the host: a back end that promises a private home would break its
 *word. The guest sets both, unless they are named outright.
 */
#pragma once
#include <stdbool.h>

#include "cell/spec.h"

#include "base/error.h"

#define CELL_ENV_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define CELL_ENV_LANG "C.UTF-8"

/* Is a variable of this name likely to hold a secret, or to be a way to one? Case does not matter.
 * Also true for LD_* and its like, which would make programs load code. */
bool cell_env_is_secret(const char *name);

/* Compose "K=V" strings. host_env and extra are NULL-terminated and may be NULL. Extras win, over
 * the host and over earlier extras, secret or not. *ret is NULL-terminated; free it with
 * cell_env_free. */
int cell_env_compose(enum cell_env_from from, char *const *host_env, const char *const *extra,
	char ***ret, struct cell_error *err);
void cell_env_free(char **env); /* takes NULL */
