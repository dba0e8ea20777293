/* SPDX-License-Identifier: Apache-2.0 */
#include "distribution/refusal.h"

#include <stddef.h>

#define LOGIN                                                                                    \
	"log in to its registry (docker login, podman login), and check that you may have this " \
	"image"

/* The last counts: a registry that does not tell whether an image is there says that it is denied, too. */
const struct cell_known_words refusal_words[] = {
	{"manifest unknown", CELL_ENOTFOUND, NULL},
	{"not found", CELL_ENOTFOUND, NULL},
	{"name unknown", CELL_ENOTFOUND, NULL},
	{"toomanyrequests", CELL_ELIMIT, "wait, or log in: registries allow known users more"},
	{"no basic auth credentials", CELL_EDENIED, LOGIN},
	{"unauthorized", CELL_EDENIED, LOGIN},
	{"authentication required", CELL_EDENIED, LOGIN},
	{"denied", CELL_EDENIED, LOGIN},
	{NULL, CELL_OK, NULL},
};
