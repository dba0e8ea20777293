/* SPDX-License-Identifier: Apache-2.0 */
/* shelf.c: cells made ahead, and the interpreters that wait in them. */
#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/exec_fields.h"
#include "core/handle.h"
#include "core/link.h"
#include "core/resources.h"

#define WARM_MAX 500 /* bytes, all together */

static bool is_python(const char *language)
{
	return !strcmp(language, "python") || !strcmp(language, "py") ||
	       !strcmp(language, "python3");
}

static int add_word(struct buf *b, const char *word, const char *what, struct cell_error *err)
{
	for (const char *p = word; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return cell_fail(err, CELL_EINVAL, 0,
				"%s: '%.64s' has a character that no such name has", what, word);
	}
	return buf_addz(b, word);
}

/* "python=json,decimal;shell", as the guest takes it. */
int cell_warm_text(const struct cell_spec *spec, char **ret, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WARM_MAX);
	int r = 0;

	*ret = NULL;
	if (err)
		err->code = CELL_OK;
	for (const char *const *w = spec->warm; r == 0 && w && *w; w++) {
		if (b.len)
			r = buf_addc(&b, ';');
		if (r == 0)
			r = add_word(&b, *w, "kernels.warm", err);
		const char *const *m = is_python(*w) ? spec->preload : NULL;
		for (const char *before = "="; r == 0 && m && *m; m++, before = ",") {
			r = buf_addz(&b, before);
			if (r == 0)
				r = add_word(&b, *m, "kernels.preload", err);
		}
	}
	if (r < 0 && err && err->code)
		return r;
	if (r < 0)
		return cell_fail(err, CELL_ELIMIT, 0,
			"kernels.warm and kernels.preload: more than %d bytes together", WARM_MAX);
	if (!b.len)
		return 0;
	*ret = buf_steal(&b);
	return *ret ? 0 : cell_fail_errno(err, ENOMEM, "make a cell");
}

void cell_warm_now(struct cell *c)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_MESSAGE);
	struct cell_error ignored;

	if (wire_put_str(&b, WIRE_T_TEXT, c->warm) == 0 &&
		exec_surroundings(c, &(struct cell_exec_opts){0}, true, &b, &ignored) == 0)
		(void)link_call(c->link, WIRE_OP_WARM, &b, NULL, &ignored);
}

int cell_shelf_fill(const struct cell_spec *spec, unsigned n, struct cell_error *err)
{
	auto_cell struct cell *c = NULL;
	struct cell_spec own = *spec;
	int r = cell_resources_complete(&own, err);

	if (r >= 0)
		r = cell_prepare(&own, &c, err);
	if (r < 0)
		return r;
	const struct cell_backend *b = c->chain[0];
	return b->shelf ? b->shelf(c, &own, n, err) : cell_next_shelf(c, &own, n, err);
}
