/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_talk.c: the bytes between the guest and an interpreter: messages on its control socket, output on its pipes.
 * Both become events of the current run in the order in which they were written: whatever was in the pipes when a
 * message is found comes before it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/kernel.h"

#define RX_SIZE	 (64u * 1024)
#define BIG_PIPE (1024 * 1024)
#define ROUNDS	 64 /* then others get their turn */
#define LATE_ONE (KERNEL_LATE_MAX / 4)

static void close_source(struct source *s)
{
	if (s->fd < 0)
		return;
	loop_remove(s);
	close(s->fd);
	s->fd = -1;
}

/* Whose output it is now. NULL: nobody's, it is late. */
static struct run *current(const struct kernel *k)
{
	return k->state == KERNEL_BUSY || k->state == KERNEL_STARTING ? k->runs : NULL;
}

/* ---- late output ---- */

static void late_add(struct kernel *k, unsigned type, const uint8_t *p, size_t n)
{
	uint8_t head[WIRE_RUN_HEADER] = {(uint8_t)type, WIRE_RUN_LATE};

	if (n > LATE_ONE) {
		p += n - LATE_ONE;
		n = LATE_ONE;
	}
	while (k->late.len + sizeof head + n > KERNEL_LATE_MAX)
		buf_consume(&k->late, WIRE_RUN_HEADER + wire_u32_get(k->late.data + 4));
	wire_u32_put(head + 4, (uint32_t)n);
	if (buf_reserve(&k->late, sizeof head + n) == 0) {
		(void)buf_add(&k->late, head, sizeof head);
		(void)buf_add(&k->late, p, n);
	}
}

static void late_give(struct kernel *k, struct run *r)
{
	size_t at = 0;

	while (at < k->late.len) {
		const uint8_t *p = k->late.data + at;
		uint32_t n = wire_u32_get(p + 4);

		(void)event_put(r, p[0], WIRE_RUN_LATE, p + WIRE_RUN_HEADER, n);
		at += WIRE_RUN_HEADER + n;
	}
	buf_done(&k->late);
}

/* ---- pipes ---- */

enum took {
	TOOK_NOTHING,
	TOOK_SOME,
	TOOK_HELD
};

/* One read, of at most `most` bytes. */
static enum took take_output(struct kernel *k, int i, size_t most, size_t *ret)
{
	static uint8_t scratch[WIRE_RUN_MAX];
	struct run *r = current(k);
	unsigned type = i == 0 ? CELL_CODE_STDOUT : CELL_CODE_STDERR;
	size_t room = r ? event_room(r) : sizeof scratch;
	ssize_t n;

	*ret = 0;
	if (k->out[i].fd < 0)
		return TOOK_NOTHING;
	if (room == 0)
		return TOOK_HELD;
	if (most < room)
		room = most;
	do
		n = read(k->out[i].fd, scratch, room < sizeof scratch ? room : sizeof scratch);
	while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EAGAIN)
		return TOOK_NOTHING;
	if (n <= 0) { /* everybody has closed it */
		close_source(&k->out[i]);
		return TOOK_NOTHING;
	}
	if (n == (ssize_t)sizeof scratch && !k->is_enlarged[i]) {
		k->is_enlarged[i] = true;
		(void)fcntl(k->out[i].fd, F_SETPIPE_SZ, BIG_PIPE); /* a busy pipe: fewer switches */
	}
	*ret = (size_t)n;
	if (!r) {
		late_add(k, type, scratch, (size_t)n);
	} else {
		(void)event_put(r, type, 0, scratch, (size_t)n);
		job_pump(r->job);
	}
	return TOOK_SOME;
}

/* As much as there was when it was counted. False when a reader holds it back. */
static bool take_owed(struct kernel *k)
{
	for (int i = 0; i < 2; i++) {
		while (k->owed[i]) {
			size_t n;
			enum took t = take_output(k, i, k->owed[i], &n);

			if (t == TOOK_HELD)
				return false;
			k->owed[i] = t == TOOK_NOTHING ? 0 : k->owed[i] - n;
		}
	}
	return true;
}

static void count_owed(struct kernel *k)
{
	for (int i = 0; i < 2; i++) {
		int there = 0;

		if (k->out[i].fd < 0 || ioctl(k->out[i].fd, FIONREAD, &there) < 0)
			there = 0;
		k->owed[i] = (size_t)there;
	}
}

void talk_settle_late(struct kernel *k)
{
	count_owed(k);
	(void)take_owed(k); /* with nobody to hold it back */
}

/* ---- messages to the driver ---- */

static void flush(struct kernel *k)
{
	while (k->control.fd >= 0 && k->tx_at < k->tx.len) {
		ssize_t n = send(k->control.fd, k->tx.data + k->tx_at, k->tx.len - k->tx_at,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break; /* it is gone; its keeper will say so */
		k->tx_at += (size_t)n;
	}
	buf_done(&k->tx);
	k->tx_at = 0;
}

static void set_wants(struct kernel *k)
{
	uint32_t in = k->is_blocked ? 0 : EPOLLIN;

	loop_want(&k->control, (k->is_hung_up ? 0 : in) | (k->tx.len ? EPOLLOUT : 0u));
	for (int i = 0; i < 2; i++)
		loop_want(&k->out[i], in);
}

int talk_send(struct kernel *k, const char *head, const void *p, size_t n)
{
	if (k->control.fd < 0)
		return -EPIPE;
	int r = buf_addf(&k->tx, "%s %zu\n", head, n);
	if (r == 0)
		r = buf_add(&k->tx, p, n);
	if (r < 0) {
		kernel_kill(k, "the interpreter does not read what it is told");
		return r;
	}
	flush(k);
	set_wants(k);
	return 0;
}

/* ---- messages from the driver ---- */

static void broken(struct kernel *k, const char *why)
{
	char text[200];

	(void)snprintf(text, sizeof text,
		"the interpreter's control channel was written to by something else: %s", why);
	k->is_hung_up = true; /* nothing of it can be trusted any more */
	k->rx_at = k->rx_len = 0;
	channel_next(&k->channel);
	kernel_kill(k, text);
}

/* More bytes behind those that are there. */
static bool fill(struct kernel *k)
{
	ssize_t n;

	if (k->is_hung_up)
		return false;
	if (k->rx_at == k->rx_len)
		k->rx_at = k->rx_len = 0;
	if (k->rx_len == RX_SIZE) {
		memmove(k->rx, k->rx + k->rx_at, k->rx_len - k->rx_at);
		k->rx_len -= k->rx_at;
		k->rx_at = 0;
	}
	do
		n = recv(k->control.fd, k->rx + k->rx_len, RX_SIZE - k->rx_len, MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n > 0) {
		k->rx_len += (size_t)n;
		return true;
	}
	if (n == 0 || errno != EAGAIN) {
		k->is_hung_up = true;
		/* it exits, or has become something that is no interpreter */
		if (!k->has_exited && !(k->language->may_exec && k->state == KERNEL_BUSY))
			kernel_kill(k, "");
	}
	return false;
}

/* Are n bytes of the payload here, in one piece? */
static bool has_bytes(struct kernel *k, size_t n)
{
	while (k->rx_len - k->rx_at < n) {
		if (!fill(k))
			return false;
	}
	return true;
}

static void took(struct kernel *k, size_t n)
{
	k->rx_at += n;
	channel_took(&k->channel, n);
}

/* The one thing of `ready` that the guest wants to know. No JSON is parsed here. */
static void take_version(struct kernel *k, const char *p, size_t n)
{
	static const char key[] = "\"version\"";
	const char *at = memmem(p, n, key, sizeof key - 1), *end = p + n;
	size_t len = 0;

	if (!at)
		return;
	for (at += sizeof key - 1; at < end && (*at == ' ' || *at == ':' || *at == '"'); at++)
		;
	while (at < end && len < sizeof k->version - 1 && *at != '"' && *at > ' ' && *at < 0x7f)
		k->version[len++] = *at++;
	k->version[len] = '\0';
}

enum handled {
	HANDLED,
	WANTS_BYTES,
	HELD
};

static enum handled on_ready(struct kernel *k)
{
	size_t n = (size_t)k->channel.len;

	if (!has_bytes(k, n))
		return WANTS_BYTES;
	if (k->n_begun == 0) {
		broken(k, "it is ready twice");
		return WANTS_BYTES;
	}
	take_version(k, (const char *)k->rx + k->rx_at, n);
	took(k, n);
	if (--k->n_begun)
		return HANDLED; /* it was leased before it was ready */
	k->state = KERNEL_IDLE;
	if (!k->runs || !k->runs->timeout_ms)
		deadline_clear(k); /* that of the start */
	return HANDLED;
}

static enum handled on_done(struct kernel *k)
{
	size_t n = (size_t)k->channel.len;
	char text[16] = "";

	if (!has_bytes(k, n))
		return WANTS_BYTES;
	if (k->state != KERNEL_BUSY) {
		broken(k, "it is done with nothing");
		return WANTS_BYTES;
	}
	memcpy(text, k->rx + k->rx_at, n < sizeof text ? n : sizeof text - 1);
	took(k, n);
	bool is_exit = k->channel.status == CHANNEL_EXIT;
	struct run *r = k->runs;
	const struct run_end end = {
		.is_ok = k->channel.status == CHANNEL_OK,
		.state = is_exit ? CELL_CODE_ENDED : CELL_CODE_KEPT,
		.exit_code = is_exit ? (int)strtol(text, NULL, 10) : 0,
	};
	deadline_clear(k);
	k->state = KERNEL_IDLE;
	channel_next(&k->channel);
	if (is_exit)
		kernel_drop(k); /* it leaves by itself, or is helped to */
	run_finish(r, &end);
	if (is_exit) {
		k->was_lost = true;
		kernel_kick(k);
	}
	return HANDLED;
}

static unsigned event_type(enum channel_word w)
{
	switch (w) {
	case CHANNEL_DISPLAY:
		return CELL_CODE_DISPLAY;
	case CHANNEL_RESULT:
		return CELL_CODE_RESULT;
	case CHANNEL_ERROR:
		return CELL_CODE_ERROR;
	case CHANNEL_CLEAR:
		return CELL_CODE_CLEAR;
	case CHANNEL_INPUT:
		return CELL_CODE_INPUT;
	default:
		return CELL_CODE_ANSWER;
	}
}

/* The whole event is here: the code may be waiting for an answer. */
static void event_ended(struct kernel *k, struct run *r)
{
	if (k->channel.word != CHANNEL_INPUT)
		return;
	if (!r || !r->has_input) {
		(void)talk_send(k, "eof", NULL, 0);
		return;
	}
	r->is_asking = true;
	run_input(r);
}

/* In records, each as soon as it is here: nothing large is ever kept in the guest's memory. */
static enum handled on_event(struct kernel *k)
{
	struct channel *c = &k->channel;
	struct run *r = current(k);

	do {
		size_t n = (size_t)(c->left < RX_SIZE ? c->left : RX_SIZE);

		if (c->len <= RX_SIZE ? !has_bytes(k, n) : !has_bytes(k, n ? 1 : 0))
			return WANTS_BYTES;
		if (k->rx_len - k->rx_at < n)
			n = k->rx_len - k->rx_at;
		const uint8_t *p = k->rx + k->rx_at;
		if (!r) {
			if (c->len <= LATE_ONE)
				late_add(k, event_type(c->word), p, n);
		} else if (!k->is_skipping) {
			uint64_t dropped = r->dropped;
			unsigned flags = (c->left > n ? WIRE_RUN_MORE : 0u) |
					 (c->left < c->len ? WIRE_RUN_CONTINUED : 0u);

			if (event_put(r, event_type(c->word), flags, p, n) < 0) {
				job_pump(r->job);
				return HELD;
			}
			if (k->rx_len - k->rx_at == n) /* else more follows at once */
				job_pump(r->job);
			k->is_skipping = r->dropped != dropped; /* half an event is none */
		}
		took(k, n);
	} while (c->left);
	k->is_skipping = false;
	event_ended(k, r);
	return HANDLED;
}

static enum handled on_message(struct kernel *k)
{
	switch (k->channel.word) {
	case CHANNEL_READY:
		return on_ready(k);
	case CHANNEL_DONE:
		return on_done(k);
	case CHANNEL_MARK:
		(void)talk_send(k, "ok", NULL, 0);
		return HANDLED;
	default:
		return on_event(k);
	}
}

/* The head of the next message. False when there is none. */
static bool next_head(struct kernel *k)
{
	while (!k->channel.word) {
		size_t used;

		if (k->rx_at == k->rx_len && !fill(k))
			return false;
		int r = channel_head(&k->channel, k->rx + k->rx_at, k->rx_len - k->rx_at, &used);
		k->rx_at += used;
		if (r < 0) {
			broken(k, k->channel.why);
			return false;
		}
	}
	count_owed(k);
	if (k->channel.word == CHANNEL_DONE)
		deadline_clear(k); /* however long its readers take */
	return true;
}

/* Messages, each behind the output that was there before it. False when a reader holds it back. */
static bool take_messages_from(struct kernel *k)
{
	for (int round = 0; round < ROUNDS && k->control.fd >= 0; round++) {
		if (!k->channel.word && !next_head(k))
			return true;
		if (!take_owed(k))
			return false;
		enum handled h = on_message(k);

		if (h != HANDLED)
			return h != HELD;
		channel_next(&k->channel);
		if (k->state == KERNEL_IDLE)
			kernel_step(k);
	}
	if (k->control.fd >= 0 && k->rx_at < k->rx_len)
		kernel_kick(k);
	return true;
}

static bool take_messages(struct kernel *k)
{
	bool is_free = take_messages_from(k);
	struct run *r = current(k);

	if (r)
		job_pump(r->job);
	return is_free;
}

static bool take_outputs(struct kernel *k, bool is_all)
{
	for (int i = 0; i < 2; i++) {
		for (int round = 0; round < ROUNDS || is_all; round++) {
			size_t n;
			enum took t = take_output(k, i, SIZE_MAX, &n);

			if (t == TOOK_HELD)
				return false;
			if (t == TOOK_NOTHING)
				break;
		}
	}
	return true;
}

bool talk_is_dead(const struct kernel *k)
{
	char c;

	return k->is_hung_up || recv(k->control.fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void talk_pump(struct kernel *k)
{
	if (k->control.fd < 0)
		return;
	bool is_held = !take_messages(k);

	if (!is_held && k->has_exited) {
		/* until nothing is left: what it started is being killed, so there is an end */
		is_held = !take_outputs(k, true);
		if (!is_held && (k->is_hung_up || (k->rx_at == k->rx_len && !fill(k)))) {
			kernel_buried(k);
			return;
		}
		if (!is_held)
			kernel_kick(k);
	}
	if (k->control.fd < 0)
		return;
	k->is_blocked = is_held;
	set_wants(k);
}

static void on_control(struct source *s, uint32_t events)
{
	struct kernel *k = (struct kernel *)((char *)s - offsetof(struct kernel, control));

	if (events & EPOLLOUT)
		flush(k);
	if (!k->is_blocked)
		talk_pump(k);
	else
		set_wants(k);
}

static void on_output(struct kernel *k)
{
	if (k->is_blocked || k->channel.word) /* a message is being read, and has its own order */
		return;
	k->is_blocked = !take_outputs(k, false);
	set_wants(k);
}

static void on_stdout(struct source *s, uint32_t events)
{
	(void)events;
	on_output((struct kernel *)((char *)s - offsetof(struct kernel, out[0])));
}

static void on_stderr(struct source *s, uint32_t events)
{
	(void)events;
	on_output((struct kernel *)((char *)s - offsetof(struct kernel, out[1])));
}

int talk_open(struct kernel *k, int control, int out, int err)
{
	int r = 0;

	k->control = (struct source){.fd = control, .events = EPOLLIN, .fn = on_control};
	k->out[0] = (struct source){.fd = out, .events = EPOLLIN, .fn = on_stdout};
	k->out[1] = (struct source){.fd = err, .events = EPOLLIN, .fn = on_stderr};
	k->rx = malloc(RX_SIZE);
	k->tx.max = KERNEL_TX_MAX;
	k->late.max = KERNEL_LATE_MAX + 4096;
	if (!k->rx || fcntl(out, F_SETFL, O_NONBLOCK) < 0 || fcntl(err, F_SETFL, O_NONBLOCK) < 0)
		r = k->rx ? -errno : -ENOMEM;
	if (r == 0)
		r = loop_add(&k->control);
	for (int i = 0; r == 0 && i < 2; i++)
		r = loop_add(&k->out[i]);
	return r;
}

void talk_close(struct kernel *k)
{
	close_source(&k->control);
	close_source(&k->out[0]);
	close_source(&k->out[1]);
	free(k->rx);
	k->rx = NULL;
	k->rx_at = k->rx_len = 0;
	buf_done(&k->tx);
	k->tx_at = 0;
	k->owed[0] = k->owed[1] = 0;
	k->is_enlarged[0] = k->is_enlarged[1] = false;
	k->is_blocked = k->is_hung_up = k->is_skipping = false;
	channel_next(&k->channel);
}

void talk_give_late(struct kernel *k, struct run *r)
{
	talk_settle_late(k);
	if (k->late.len)
		late_give(k, r);
}
