/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.h: reading http(s) URLs for the library, which opens no connections itself: where packages come from. */
#pragma once
#include "cell/deps.h"

/* A cell_deps_fetch_fn. Follows a few redirects, to http(s) only and never from https to http. */
int fetch_url(const char *url, const char *accept, cell_data_fn sink, void *user, char ret_type[64],
	struct cell_error *err);
/* Asked while waiting: true gives up. Before the first fetch; may be NULL. */
void fetch_set_cancelled(bool (*is_cancelled)(void *arg));
