/* SPDX-License-Identifier: Apache-2.0 */
/* post.h: JSON to a URL, blocking: for the guard and the export of traces, on a worker thread. */
#pragma once
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"

/* token may be NULL. The whole call ends after timeout_ms. ret_body may be NULL. */
int post_json(const char *url, const char *token, const char *body, size_t len, unsigned timeout_ms,
	int *ret_status, struct buf *ret_body, struct cell_error *err);
