/* SPDX-License-Identifier: Apache-2.0 */
/* advice.h: which back end to take. */
#pragma once

struct cell_advice {
	const char *backend;
	const char *needs;    /* to be usable */
	const char *take_for; /* what it is the one for */
	const char *not_for;  /* what another is better for */
};

/* Never NULL; of a back end nobody has advice on, empty texts. */
const struct cell_advice *cell_advice_on(const char *backend);
