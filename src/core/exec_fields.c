/* SPDX-License-Identifier: Apache-2.0 */
#include "core/exec_fields.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "core/cell.h"
#include "wire/wire.h"

#define GRACE_MS       2000u
#define SOLE_GRACE_MS  500u	     /* with the rest the cell is gone within a second */
#define EPHEMERAL_KEEP (256u * 1024) /* nobody comes back for it: only what is under way */

uint64_t exec_grace_ms(const struct cell_exec_opts *o)
{
	if (o->grace_ms)
		return o->grace_ms;
	return o->flags & CELL_EXEC_SOLE ? SOLE_GRACE_MS : GRACE_MS;
}

static size_t name_length(const char *variable)
{
	return (size_t)(strchrnul(variable, '=') - variable);
}

/* Is it set again further on? */
static bool is_overridden(const char *variable, const char *const *later)
{
	size_t n = name_length(variable);

	for (; later && *later; later++) {
		if (name_length(*later) == n && strncmp(variable, *later, n) == 0)
			return true;
	}
	return false;
}

static int put_env(const struct cell *c, const struct cell_exec_opts *o, struct buf *b,
	struct cell_error *err)
{
	int r = 0;

	for (char **v = c->env; r == 0 && v && *v; v++) {
		if (!is_overridden(*v, o->env))
			r = wire_put_str(b, WIRE_T_ENV, *v);
	}
	for (const char *const *v = o->env; r == 0 && v && *v; v++) {
		if (!strchr(*v, '=') || **v == '=')
			return cell_fail(err, CELL_EINVAL, EINVAL,
				"run a command: environment '%.100s' is not NAME=VALUE", *v);
		if (!is_overridden(*v, v + 1))
			r = wire_put_str(b, WIRE_T_ENV, *v);
	}
	return r;
}

static int put_command(const struct cell_exec_opts *o, struct buf *b, struct cell_error *err)
{
	int r = 0;

	if (o->shell && o->argv)
		return cell_fail(err, CELL_EINVAL, EINVAL,
			"run a command: both argv and a shell line are given");
	if (o->shell)
		return wire_put_str(b, WIRE_T_SHELL, o->shell);
	if (!o->argv || !o->argv[0])
		return cell_fail(err, CELL_EINVAL, EINVAL, "run a command: no command given");
	for (const char *const *a = o->argv; r == 0 && *a; a++)
		r = wire_put_str(b, WIRE_T_ARG, *a);
	return r;
}

static int put_rest(const struct cell *c, const struct cell_exec_opts *o, bool is_quiet,
	struct buf *b)
{
	uint64_t timeout_ms = o->timeout_ms ? o->timeout_ms : c->timeout_ms;
	uint64_t keep = o->keep_bytes ? o->keep_bytes : c->is_ephemeral ? EPHEMERAL_KEEP : 0;
	int r = wire_put_str(b, WIRE_T_CWD, o->cwd ? o->cwd : c->cwd);

	if (r == 0)
		r = wire_put_str(b, WIRE_T_USER | WIRE_CRITICAL, o->user ? o->user : c->user);
	if (r == 0)
		r = wire_put_str(b, WIRE_T_ID, o->id);
	if (r == 0)
		r = wire_put_str(b, WIRE_T_LABEL, o->label);
	if (r == 0)
		r = wire_put_u64(b, WIRE_T_FLAGS,
			(o->flags & ~(uint32_t)CELL_EXEC_SOLE) | (is_quiet ? WIRE_EXEC_QUIET : 0u));
	if (r == 0 && timeout_ms)
		r = wire_put_u64(b, WIRE_T_TIMEOUT_MS | WIRE_CRITICAL, timeout_ms);
	if (r == 0 && timeout_ms)
		r = wire_put_u64(b, WIRE_T_GRACE_MS, exec_grace_ms(o));
	if (r == 0 && keep)
		r = wire_put_u64(b, WIRE_T_KEEP, keep);
	if (r == 0 && o->flags & CELL_EXEC_TTY && o->rows && o->cols) {
		r = wire_put_u64(b, WIRE_T_ROWS, o->rows);
		if (r == 0)
			r = wire_put_u64(b, WIRE_T_COLS, o->cols);
	}
	return r ? r : wire_put_u64(b, WIRE_T_WINDOW, WIRE_DEFAULT_WINDOW);
}

static int too_large(int r, struct cell_error *err)
{
	if (r == -ENOBUFS) {
		r = cell_fail(err, CELL_EINVAL, E2BIG,
			"run a command: arguments and environment are too "
			"large");
		return cell_error_hint(err, r,
			"together they may have 4 MiB; pass large data by stdin "
			"or a file");
	}
	if (r == -ENOMEM)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "run a command");
	return r;
}

int exec_surroundings(const struct cell *c, const struct cell_exec_opts *o, bool is_quiet,
	struct buf *b, struct cell_error *err)
{
	int r = put_env(c, o, b, err);

	if (r == 0)
		r = put_rest(c, o, is_quiet, b);
	return too_large(r, err);
}

_Static_assert(WIRE_MAX_ID == CELL_EXEC_ID_MAX - 1, "an id fits where it is kept");

int exec_id_check(const char *id, const char *what, struct cell_error *err)
{
	if (!id || wire_is_id(id))
		return 0;
	int r = cell_fail(err, CELL_EINVAL, 0, "%s: id '%.64s' is not " WIRE_ID_RULE, what, id);
	return cell_error_hint(err, r, "leave it out to get one");
}

int exec_fields(const struct cell *c, const struct cell_exec_opts *o, bool is_quiet, struct buf *b,
	struct cell_error *err)
{
	if (err)
		err->code = CELL_OK;
	int r = exec_id_check(o->id, "run a command", err);
	if (r < 0)
		return r;
	if (o->label && strlen(o->label) >= CELL_EXEC_LABEL_MAX)
		return cell_fail(err, CELL_EINVAL, EINVAL,
			"run a command: label '%.64s...' is too long", o->label);
	if (o->user && !cell_supports(c, CELL_CAP_USER)) {
		r = cell_fail(err, CELL_ENOTSUP, 0,
			"run a command as user '%.64s': commands of this cell have one user",
			o->user);
		return cell_error_hint(err, r, "leave the user out");
	}
	r = put_command(o, b, err);
	return r < 0 ? too_large(r, err) : exec_surroundings(c, o, is_quiet, b, err);
}
