/* SPDX-License-Identifier: Apache-2.0 */
/* making.h: how a pull goes, layer by layer, added up for the function of the spec that is told (cell_spec.making). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/spec.h"

struct making_layer {
	char id[80];
	uint64_t bytes, total;
	bool is_done;
};

struct making {
	const struct cell_spec *spec;
	struct making_layer *layers;
	size_t n;
	int stopped; /* what the caller's function returned: not 0 ends the pull */
};

/* The layer of that id, new when it is the first time; NULL: there are too many. */
struct making_layer *making_layer(struct making *m, const char *id);
/* What happens now, to which layer ("": to none in particular). */
void making_tell(struct making *m, const char *layer, const char *status);
void making_done(struct making *m);
