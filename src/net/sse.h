/* SPDX-License-Identifier: Apache-2.0 */
/* sse.h: the text of server-sent events. The answer's type is "text/event-stream", with
 * Cache-Control: no-store and X-Accel-Buffering: no. */
#pragma once
#include "base/buf.h"

/* Appends one event. id and event may be NULL; line ends in them are refused (-EINVAL). data may have
 * any bytes but NUL; each of its lines (CR, LF, CRLF) becomes a data: line. */
int sse_event(struct buf *b, const char *id, const char *event, const char *data, size_t len);

/* A comment, as a heartbeat. */
int sse_comment(struct buf *b, const char *text);
