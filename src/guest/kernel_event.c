/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_event.c: the events of a run, in the ring of its job. A record is written whole or not at all, so readers
 * can begin at any that is still there. What a reader has not taken stays; the code waits for it. With no
 * reader the beginning stays and the rest is counted: nobody is to hang because a client died.
 */
#include <errno.h>
#include <string.h>

#include "guest/kernel.h"

/* Kept free for how the run ended. */
#define RESERVE (2u * (WIRE_RUN_HEADER + 4096u))

static void read_at(const struct ring *r, uint64_t at, uint8_t *p, size_t n)
{
	while (n) {
		const uint8_t *from;
		size_t k = ring_view(r, at, &from);

		if (k == 0)
			return;
		k = k < n ? k : n;
		memcpy(p, from, k);
		p += k;
		at += k;
		n -= k;
	}
}

/* The next n bytes take the place of the oldest ones: those begin at a record again. */
static void move_first(struct job *j, size_t n)
{
	const struct ring *ring = &j->out[0].ring;

	while (j->first_event + ring->size < ring->head + n && j->first_event < ring->head) {
		uint8_t head[WIRE_RUN_HEADER] = {0};

		read_at(ring, j->first_event, head, sizeof head);
		j->first_event += WIRE_RUN_HEADER + wire_u32_get(head + 4);
	}
}

static int write_bytes(struct ring *ring, uint64_t hold, const uint8_t *p, size_t n)
{
	while (n) {
		uint8_t *to;
		ssize_t room = ring_room(ring, hold, guest.spool_fd, &to);

		if (room <= 0)
			return -ENOMEM;
		size_t k = (size_t)room < n ? (size_t)room : n;
		memcpy(to, p, k);
		ring_wrote(ring, k);
		p += k;
		n -= k;
	}
	return 0;
}

static bool has_room(struct job *j, size_t n, size_t reserve)
{
	struct ring *ring = &j->out[0].ring;
	uint64_t hold = job_held(j, 0);
	uint64_t held = ring->head > hold ? ring->head - hold : 0;

	/* small until it has to be large: most runs say little */
	if (ring->head + n + reserve > ring->size && ring->size < j->keep)
		ring_enlarge(ring, (size_t)j->keep, guest.spool_fd);
	return held + n + reserve <= ring->size;
}

static void put(struct job *j, unsigned type, unsigned flags, const void *p, size_t n)
{
	struct ring *ring = &j->out[0].ring;
	uint8_t head[WIRE_RUN_HEADER] = {(uint8_t)type, (uint8_t)flags};
	uint64_t hold = job_held(j, 0);

	wire_u32_put(head + 4, (uint32_t)n);
	move_first(j, sizeof head + n);
	if (write_bytes(ring, hold, head, sizeof head) == 0)
		(void)write_bytes(ring, hold, p, n);
}

static bool may_drop(const struct run *r)
{
	const struct job *j = r->job;
	bool is_ending = r->is_timed_out || r->is_interrupted;

	return !job_has_holder(j) && (!j->is_durable || is_ending);
}

size_t event_room(struct run *r)
{
	return has_room(r->job, WIRE_RUN_HEADER + WIRE_RUN_MAX, RESERVE) || may_drop(r)
		       ? WIRE_RUN_MAX
		       : 0;
}

int event_put(struct run *r, unsigned type, unsigned flags, const void *p, size_t n)
{
	struct job *j = r->job;

	if (!has_room(j, WIRE_RUN_HEADER + n, RESERVE)) {
		if (!may_drop(r))
			return -EAGAIN;
		r->dropped += n;
		return 0;
	}
	put(j, type, flags, p, n);
	return 0;
}

void event_put_last(struct run *r, unsigned type, const void *p, size_t n)
{
	if (n <= RESERVE / 2 - WIRE_RUN_HEADER && has_room(r->job, WIRE_RUN_HEADER + n, 0))
		put(r->job, type, 0, p, n);
}

int event_add_json(struct buf *b, const char *text)
{
	int r = buf_addc(b, '"');

	for (const unsigned char *p = (const unsigned char *)text; r == 0 && *p; p++) {
		if (*p == '"' || *p == '\\')
			r = buf_addf(b, "\\%c", *p);
		else if (*p < 0x20 ||
			 *p >= 0x7f) /* of other bytes nobody knows whether they are UTF-8 */
			r = buf_addf(b, "\\u%04x", *p < 0x20 ? *p : '?');
		else
			r = buf_addc(b, (char)*p);
	}
	return r == 0 ? buf_addc(b, '"') : r;
}
