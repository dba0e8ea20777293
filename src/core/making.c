/* SPDX-License-Identifier: Apache-2.0 */
#include "core/making.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MAX 1000u

struct making_layer *making_layer(struct making *m, const char *id)
{
	for (size_t i = 0; i < m->n; i++)
		if (!strcmp(m->layers[i].id, id))
			return &m->layers[i];
	void *more = m->n < LAYERS_MAX ? realloc(m->layers, (m->n + 1) * sizeof *m->layers) : NULL;
	if (!more)
		return NULL;
	m->layers = more;
	struct making_layer *l = &m->layers[m->n++];
	*l = (struct making_layer){0};
	(void)snprintf(l->id, sizeof l->id, "%s", id);
	return l;
}

void making_tell(struct making *m, const char *layer, const char *status)
{
	struct cell_making told = {.image = m->spec->image,
		.layer = layer,
		.status = status,
		.layers = (unsigned)m->n};

	for (size_t i = 0; i < m->n; i++) {
		told.bytes += m->layers[i].bytes;
		told.total_bytes += m->layers[i].total;
		told.layers_done += m->layers[i].is_done;
	}
	if (m->spec->making && !m->stopped)
		m->stopped = m->spec->making(&told, m->spec->making_user);
}

void making_done(struct making *m)
{
	free(m->layers);
	*m = (struct making){.spec = m->spec, .stopped = m->stopped};
}
