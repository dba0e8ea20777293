/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c: what flows from a job to one request of a client, and how that request ends. */
#include <stdlib.h>

#include "guest/guest.h"

int stream_reply(struct stream *s, const struct buf *fields)
{
	return conn_send(s->conn, WIRE_REPLY, 0, s->id, fields->data, fields->len, NULL, 0);
}

void stream_end(struct stream *s, const struct buf *end)
{
	if (end)
		(void)conn_send(s->conn, WIRE_END, 0, s->id, end->data, end->len, NULL, 0);
	stream_free(s);
}

void stream_fail(struct stream *s, const struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

	(void)wire_put_u64(&b, WIRE_T_CODE, err->code ? err->code : CELL_EINTERNAL);
	(void)wire_put_u64(&b, WIRE_T_ERRNO, (uint64_t)err->sys_errno);
	(void)wire_put_str(&b, WIRE_T_MESSAGE, err->msg);
	if (err->hint[0])
		(void)wire_put_str(&b, WIRE_T_HINT, err->hint);
	stream_end(s, &b);
}

static void pump_channel(struct stream *s, int i)
{
	const struct ring *ring = &s->job->out[i].ring;
	struct stream_chan *c = &s->chan[1 + i];

	if (c->sent < job_oldest(s->job, i)) /* a reader that does not hold fell behind */
		c->sent = c->acked = job_oldest(s->job, i);
	while (conn_backlog(s->conn) == 0 && c->sent - c->acked < s->window) {
		const uint8_t *p;
		uint8_t offset[8];
		size_t n = ring_view(ring, c->sent, &p);
		uint64_t allowed = s->window - (c->sent - c->acked);

		if (n == 0)
			return;
		if (n > WIRE_MAX_DATA)
			n = WIRE_MAX_DATA;
		if (n > allowed)
			n = (size_t)allowed;
		wire_u64_put(offset, c->sent);
		if (conn_send(s->conn, WIRE_DATA, (unsigned)(1 + i), s->id, offset, sizeof offset,
			    p, n) < 0)
			return;
		c->sent += n;
	}
}

static bool has_seen_all(const struct stream *s)
{
	for (int i = 0; i < 2; i++) {
		if (s->chan[1 + i].sent != s->job->out[i].ring.head)
			return false;
	}
	return true;
}

/* Is all that is left to say its end and a little before it? */
static bool is_nearly_over(const struct stream *s)
{
	uint64_t rest = 0;

	if (s->job->is_worker || !job_is_settled(s->job) || conn_backlog(s->conn))
		return false;
	for (int i = 0; i < 2; i++)
		rest += s->job->out[i].ring.head - s->chan[1 + i].sent;
	return rest > 0 && rest <= 16384;
}

static void say_end(struct stream *s)
{
	struct job *j = s->job;

	if (!has_seen_all(s) || conn_backlog(s->conn))
		return;
	if (j->is_worker ? j->is_gone && job_is_settled(j)
			 : job_is_settled(j) || !s->is_following) {
		auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

		(void)job_end_fields(j, &b);
		if (s->is_holding && job_is_settled(j))
			job_tell(j);
		stream_end(s, &b);
	}
}

void stream_pump(struct stream *s)
{
	struct conn *c = is_nearly_over(s) ? s->conn : NULL;

	if (c)
		conn_gather(c);
	for (int i = 0; i < 2; i++)
		pump_channel(s, i);
	say_end(s);
	if (c)
		conn_release(c);
}
