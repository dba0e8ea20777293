/* SPDX-License-Identifier: Apache-2.0 */
#include "core/silence.h"

#include <errno.h>

int silence_explain(const struct silence *s, int r, struct cell_error *err)
{
	if (r == -EACCES || r == -EPERM)
		return cell_error_hint(err, r, "%s", s->denied);
	if (r == -ENOENT || r == -ECONNREFUSED) {
		(void)cell_fail(err, CELL_EBACKEND, -r, "no %s answers at '%s'", s->who, s->where);
		r = -ECONNREFUSED;
	}
	return cell_error_hint(err, r, "%s", s->fix);
}
