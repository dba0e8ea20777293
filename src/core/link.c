/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link.c: see link.h. Frames are parsed in place in the receive buffer; one that belongs to the
 * stream being asked is given out from there without a copy, others are put aside in their stream's
 * inbox, which its window bounds.
 */
#include "core/link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"

#define RX_MAX	  (WIRE_HEADER_SIZE + WIRE_MAX_PAYLOAD + 256u * 1024)
#define RX_FIRST  4096u
#define TX_MAX	  (2 * WIRE_MAX_MESSAGE)
#define INBOX_MAX (WIRE_MAX_WINDOW + 65536u)
#define ACK_EVERY (WIRE_DEFAULT_WINDOW / 4)

struct link_stream {
	uint32_t id;
	struct link *link;
	struct link_stream *next;
	struct buf inbox; /* whole frames */
	size_t inbox_at;
	uint64_t received[WIRE_CHAN_COUNT]; /* offset behind the last byte given out */
	uint64_t acked[WIRE_CHAN_COUNT];
	uint64_t sent, sent_acked; /* of stdin */
	bool has_room_news;
	bool is_ending; /* its END waits in the inbox */
	bool has_ended;
};

struct link {
	int fd;
	struct buf rx;
	size_t rx_at;
	bool is_rx_full; /* the last receive filled it */
	struct buf tx;
	size_t tx_at;
	struct link_stream *streams;
	struct link_stream *holder; /* whose event is still being looked at */
	uint8_t held_chan;
	bool is_held_data;
	size_t held_rx; /* bytes of rx it occupies; 0: it is in the inbox */
	size_t held_inbox;
	uint32_t last_id;
	bool is_greeted;
	char boot_id[64];
	struct cell_error broken; /* code != 0: the link is dead, and why */
};

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

static int fail_broken(const struct link *l, struct cell_error *err)
{
	if (err)
		*err = l->broken;
	return -(l->broken.sys_errno ? l->broken.sys_errno : EPIPE);
}

static void break_link(struct link *l, enum cell_code code, int sys_errno, const char *what)
{
	if (l->broken.code)
		return;
	(void)cell_fail(&l->broken, code, sys_errno, "talk to the guest: %s", what);
	if (code == CELL_EGONE)
		(void)cell_error_hint(&l->broken, 0,
			"the cell died or was removed; make a new one ('cell ls' shows what is "
			"there)");
}

/* ---- out ---- */

static void flush(struct link *l)
{
	while (!l->broken.code && l->tx_at < l->tx.len) {
		ssize_t n = send(l->fd, l->tx.data + l->tx_at, l->tx.len - l->tx_at,
			MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0) {
			/* its last words may still be readable: parsing goes on until end of file
			 */
			l->tx_at = l->tx.len;
			break;
		}
		l->tx_at += (size_t)n;
	}
	buf_reset(&l->tx);
	l->tx_at = 0;
}

/* Queue one frame. It leaves with the next flush. */
static int put_frame(struct link *l, unsigned type, unsigned chan, unsigned flags, uint32_t stream,
	const void *head, size_t head_len, const void *body, size_t body_len,
	struct cell_error *err)
{
	uint8_t header[WIRE_HEADER_SIZE];
	const struct wire_header h = {
		.len = (uint32_t)(head_len + body_len),
		.type = (uint8_t)type,
		.chan = (uint8_t)chan,
		.flags = (uint16_t)flags,
		.stream = stream,
	};

	if (l->broken.code)
		return fail_broken(l, err);
	int r = buf_reserve(&l->tx, sizeof header + head_len + body_len);
	if (r < 0)
		return cell_fail(err, r == -ENOMEM ? CELL_ENOSPACE : CELL_EBUSY, -r,
			"queue a frame for the guest");
	wire_header_put(header, &h);
	(void)buf_add(&l->tx, header, sizeof header);
	(void)buf_add(&l->tx, head, head_len);
	return buf_add(&l->tx, body, body_len);
}

static void put_ack(struct link_stream *s, uint8_t chan)
{
	uint8_t at[8];

	wire_u64_put(at, s->received[chan]);
	if (put_frame(s->link, WIRE_ACK, chan, 0, s->id, at, sizeof at, NULL, 0, NULL) == 0)
		s->acked[chan] = s->received[chan];
}

/* ---- in ---- */

static struct link_stream *find_stream(const struct link *l, uint32_t id)
{
	struct link_stream *s = l->streams;

	while (s && s->id != id)
		s = s->next;
	return s;
}

static void on_goaway(struct link *l, const uint8_t *p, size_t n)
{
	auto_free char *why = wire_find_str(p, n, WIRE_T_MESSAGE, 300);

	if (wire_find_u64(p, n, WIRE_T_CODE, 0) == CELL_ELIMIT)
		break_link(l, CELL_ELIMIT, EAGAIN, why ? why : "it has reached a limit");
	else
		break_link(l, CELL_EPROTOCOL, EPROTO, why ? why : "it refused to go on");
}

static void on_hello(struct link *l, const uint8_t *p, size_t n)
{
	struct wire_field f;

	if (wire_find_u64(p, n, WIRE_T_MAGIC, 0) != WIRE_MAGIC ||
		wire_find_u64(p, n, WIRE_T_VERSION, 0) != WIRE_VERSION) {
		break_link(l, CELL_EPROTOCOL, EPROTO, "its hello is not one of this protocol's");
		return;
	}
	if (wire_find(p, n, WIRE_T_BOOT_ID, &f) && f.len < sizeof l->boot_id) {
		memcpy(l->boot_id, f.p, f.len);
		l->boot_id[f.len] = '\0';
	}
	l->is_greeted = true;
}

static void on_ack(struct link_stream *s, uint64_t offset)
{
	if (offset > s->sent) {
		break_link(s->link, CELL_EPROTOCOL, EPROTO,
			"it acknowledged bytes that were never sent");
		return;
	}
	if (offset > s->sent_acked)
		s->sent_acked = offset;
	s->has_room_news = true;
}

/* The next whole frame in rx; false when more bytes are needed or the link broke. */
static bool next_frame(struct link *l, struct wire_header *h, const uint8_t **ret)
{
	const char *why;
	size_t have = l->rx.len - l->rx_at;
	const uint8_t *p = l->rx.data + l->rx_at;

	if (l->broken.code || have < WIRE_HEADER_SIZE)
		return false;
	if (wire_header_get(p, h, &why) < 0) {
		break_link(l, CELL_EPROTOCOL, EPROTO, why);
		return false;
	}
	if (!l->is_greeted && h->type != WIRE_HELLO && h->type != WIRE_GOAWAY) {
		break_link(l, CELL_EPROTOCOL, EPROTO, "it did not say hello first");
		return false;
	}
	if (have - WIRE_HEADER_SIZE < h->len)
		return false;
	*ret = p + WIRE_HEADER_SIZE;
	return true;
}

static bool is_for_caller(unsigned type)
{
	return type == WIRE_DATA || type == WIRE_REPLY || type == WIRE_END;
}

/* Frames that need no caller. True when it was one of them. */
static bool handle_quietly(struct link *l, const struct wire_header *h, const uint8_t *p)
{
	if (h->type == WIRE_HELLO) {
		on_hello(l, p, h->len);
	} else if (h->type == WIRE_GOAWAY) {
		on_goaway(l, p, h->len);
	} else if (h->type == WIRE_PING) {
		(void)put_frame(l, WIRE_PONG, 0, 0, 0, p, h->len, NULL, 0, NULL);
	} else if (h->type == WIRE_ACK) {
		struct link_stream *s = find_stream(l, h->stream);

		if (s && h->chan == WIRE_CHAN_IN)
			on_ack(s, wire_u64_get(p));
	} else if (is_for_caller(h->type)) {
		return false;
	} else if (h->type != WIRE_PONG && h->type != WIRE_EOF) {
		break_link(l, CELL_EPROTOCOL, EPROTO,
			"it sent a frame that only a client may send");
	}
	return true;
}

/* Put a frame aside for its stream; one for a stream that was freed is dropped. */
static void put_aside(struct link *l, const struct wire_header *h, const uint8_t *frame)
{
	struct link_stream *s = find_stream(l, h->stream);

	if (!s)
		return;
	s->is_ending |= h->type == WIRE_END;
	/* a reader of several streams may never see this one's empty: what it has taken must not count */
	if (s->inbox_at && s->inbox_at >= s->inbox.len / 2) {
		buf_consume(&s->inbox, s->inbox_at);
		s->inbox_at = 0;
	}
	if (buf_add(&s->inbox, frame, WIRE_HEADER_SIZE + h->len) < 0)
		break_link(l, CELL_EPROTOCOL, EPROTO, "it sent more than its window allows");
}

/* Sort out everything in rx up to the first frame for `s` (NULL: everything). */
static bool sort_frames(struct link *l, const struct link_stream *s)
{
	struct wire_header h;
	const uint8_t *p;

	while (next_frame(l, &h, &p)) {
		if (!handle_quietly(l, &h, p)) {
			if (s && h.stream == s->id)
				return true;
			put_aside(l, &h, p - WIRE_HEADER_SIZE);
		}
		l->rx_at += WIRE_HEADER_SIZE + h.len;
	}
	return false;
}

static void receive(struct link *l)
{
	buf_consume(&l->rx, l->rx_at);
	l->rx_at = 0;
	/* grow only while the peer fills what there is: an idle link stays small */
	size_t more = l->is_rx_full ? l->rx.cap : RX_FIRST;
	if (more > RX_MAX - l->rx.len)
		more = RX_MAX - l->rx.len;
	if (buf_reserve(&l->rx, more) < 0) {
		break_link(l, CELL_ENOSPACE, ENOMEM, "receive");
		return;
	}
	size_t room = l->rx.cap - 1 - l->rx.len;
	ssize_t n = recv(l->fd, l->rx.data + l->rx.len, room, MSG_DONTWAIT);
	l->is_rx_full = n > 0 && (size_t)n == room;
	if (n > 0)
		l->rx.len += (size_t)n;
	else if (n == 0)
		break_link(l, CELL_EGONE, EPIPE, "the connection ended");
	else if (errno != EAGAIN && errno != EINTR)
		break_link(l, CELL_EGONE, errno, "receive");
}

/* Wait for bytes either way. False when time is up. */
static bool wait_for_bytes(struct link *l, uint64_t deadline_ms)
{
	for (;;) {
		int timeout = -1;

		flush(l);
		if (deadline_ms != UINT64_MAX) {
			uint64_t now = now_ms();
			uint64_t left = deadline_ms > now ? deadline_ms - now : 0;

			timeout = left > 1000000000u ? 1000000000 : (int)left;
		}
		struct pollfd pfd = {.fd = l->fd, .events = link_events(l)};
		int r = poll(&pfd, 1, timeout);

		if (r < 0 && errno == EINTR)
			continue;
		if (r == 0)
			return false;
		if (r < 0) {
			break_link(l, CELL_EINTERNAL, errno, "poll");
			return true;
		}
		if (pfd.revents & (POLLIN | POLLHUP | POLLERR)) {
			receive(l);
			return true;
		}
	}
}

static uint64_t deadline_of(int timeout_ms)
{
	return timeout_ms < 0 ? UINT64_MAX : now_ms() + (uint64_t)timeout_ms;
}

/* The event given out last has been looked at: release its bytes and acknowledge them. */
static void release_held(struct link *l)
{
	struct link_stream *s = l->holder;

	l->rx_at += l->held_rx;
	l->held_rx = 0;
	if (s) {
		s->inbox_at += l->held_inbox;
		if (s->inbox_at == s->inbox.len) {
			buf_done(&s->inbox);
			s->inbox_at = 0;
		}
		if (l->is_held_data && !s->has_ended &&
			s->received[l->held_chan] - s->acked[l->held_chan] >= ACK_EVERY) {
			put_ack(s, l->held_chan);
			flush(l);
		}
	}
	l->held_inbox = 0;
	l->holder = NULL;
}

/* ---- opening and closing ---- */

int link_open(int fd, int timeout_ms, struct link **ret, struct cell_error *err)
{
	auto_buf struct buf hello = BUF_INIT(WIRE_MAX_REPLY);
	struct link *l = calloc(1, sizeof *l);
	int flags = fcntl(fd, F_GETFL);

	if (!l || flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		int e = l ? errno : ENOMEM;

		free(l);
		close(fd);
		return cell_fail_errno(err, e, "connect to the guest");
	}
	l->fd = fd;
	l->rx.max = RX_MAX;
	l->tx.max = TX_MAX;
	(void)wire_put_u64(&hello, WIRE_T_MAGIC, WIRE_MAGIC);
	(void)wire_put_u64(&hello, WIRE_T_VERSION, WIRE_VERSION);
	(void)wire_put_str(&hello, WIRE_T_SOFTWARE, "cell " CELL_VERSION);
	int r = put_frame(l, WIRE_HELLO, 0, 0, 0, hello.data, hello.len, NULL, 0, err);
	uint64_t deadline = deadline_of(timeout_ms);

	while (r == 0 && timeout_ms && !l->is_greeted && !l->broken.code) {
		if (now_ms() >= deadline || !wait_for_bytes(l, deadline))
			r = cell_fail(err, CELL_ETIMEOUT, ETIMEDOUT,
				"connect to the guest: no answer in %d ms", timeout_ms);
		(void)sort_frames(l, NULL);
	}
	if (r == 0 && l->broken.code)
		r = fail_broken(l, err);
	if (r < 0) {
		link_free(l);
		return r;
	}
	*ret = l;
	return 0;
}

void link_free(struct link *l)
{
	if (!l)
		return;
	while (l->streams)
		link_stream_free(l->streams);
	flush(l);
	close(l->fd);
	buf_done(&l->rx);
	buf_done(&l->tx);
	free(l);
}

int link_fd(const struct link *l)
{
	return l->fd;
}

short link_events(const struct link *l)
{
	return (short)(POLLIN | (l->tx_at < l->tx.len ? POLLOUT : 0));
}

const char *link_boot_id(const struct link *l)
{
	return l->boot_id;
}

/* ---- streams ---- */

int link_request(struct link *l, uint16_t op, const struct buf *fields, struct link_stream **ret,
	struct cell_error *err)
{
	uint8_t head[2];
	size_t at = 0, len = fields ? fields->len : 0;
	size_t head_len = sizeof head;
	int r = 0;

	release_held(l);
	if (len > WIRE_MAX_MESSAGE - sizeof head)
		return cell_fail(err, CELL_EINVAL, E2BIG,
			"ask the guest: the request is larger than %u bytes", WIRE_MAX_MESSAGE);
	struct link_stream *s = calloc(1, sizeof *s);
	if (!s)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "ask the guest");
	s->inbox.max = INBOX_MAX;
	s->link = l;
	do {
		s->id = ++l->last_id ? l->last_id : ++l->last_id;
	} while (find_stream(l, s->id));
	s->next = l->streams;
	l->streams = s;
	wire_u16_put(head, op);
	do {
		size_t n = len - at < WIRE_MAX_DATA ? len - at : WIRE_MAX_DATA;

		r = put_frame(l, WIRE_REQUEST, 0, at + n < len ? WIRE_MORE : 0, s->id, head,
			head_len, fields ? fields->data + at : NULL, n, err);
		at += n;
		head_len = 0;
	} while (r == 0 && at < len);
	if (r < 0) {
		s->has_ended = true;
		link_stream_free(s);
		return r;
	}
	flush(l);
	*ret = s;
	return 0;
}

void link_stream_free(struct link_stream *s)
{
	if (!s)
		return;
	struct link *l = s->link;
	struct link_stream **at = &l->streams;

	release_held(l);
	if (!s->has_ended) {
		(void)put_frame(l, WIRE_CANCEL, 0, 0, s->id, NULL, 0, NULL, 0, NULL);
		flush(l);
	}
	while (*at && *at != s)
		at = &(*at)->next;
	if (*at)
		*at = s->next;
	buf_done(&s->inbox);
	free(s);
}

/* Turn the frame at p into an event of s. */
static int give(struct link_stream *s, const struct wire_header *h, const uint8_t *p,
	struct link_event *ret, struct cell_error *err)
{
	struct link *l = s->link;

	*ret = (struct link_event){.chan = h->chan, .p = p, .len = h->len};
	l->holder = s;
	l->is_held_data = h->type == WIRE_DATA;
	l->held_chan = h->chan;
	if (h->type == WIRE_REPLY) {
		ret->type = LINK_REPLY;
	} else if (h->type == WIRE_END) {
		ret->type = LINK_END;
		s->has_ended = true;
	} else {
		ret->type = LINK_DATA;
		ret->offset = wire_u64_get(p);
		ret->p = p + 8;
		ret->len = h->len - 8;
		if (h->chan == WIRE_CHAN_IN || ret->offset < s->received[h->chan]) {
			break_link(l, CELL_EPROTOCOL, EPROTO, "it sent bytes twice");
			return fail_broken(l, err);
		}
		if (ret->offset > s->received[h->chan])
			s->acked[h->chan] = ret->offset; /* a gap: older bytes are gone */
		s->received[h->chan] = ret->offset + ret->len;
	}
	return 0;
}

static int give_from_inbox(struct link_stream *s, struct link_event *ret, struct cell_error *err)
{
	struct wire_header h;
	const char *why;
	const uint8_t *p = s->inbox.data + s->inbox_at;

	(void)wire_header_get(p, &h, &why); /* it was checked on its way in */
	s->link->held_inbox = WIRE_HEADER_SIZE + h.len;
	return give(s, &h, p + WIRE_HEADER_SIZE, ret, err);
}

int link_next(struct link_stream *s, int timeout_ms, struct link_event *ret, struct cell_error *err)
{
	struct link *l = s->link;
	uint64_t deadline = UINT64_MAX;
	bool is_timed = false;

	release_held(l);
	*ret = (struct link_event){.type = LINK_NONE};
	for (;;) {
		if (s->inbox_at < s->inbox.len)
			return give_from_inbox(s, ret, err);
		if (s->has_ended)
			return 0;
		if (sort_frames(l, s)) {
			struct wire_header h = {0};
			const uint8_t *p = NULL;

			(void)next_frame(l, &h, &p);
			l->held_rx = WIRE_HEADER_SIZE + h.len;
			return give(s, &h, p, ret, err);
		}
		if (s->has_room_news) {
			s->has_room_news = false;
			ret->type = LINK_ROOM;
			return 0;
		}
		if (l->broken.code)
			return fail_broken(l, err);
		if (!is_timed) {
			deadline = deadline_of(timeout_ms);
			is_timed = true;
		} else if (now_ms() >= deadline) { /* what came meanwhile was not for us */
			return 0;
		}
		if (!wait_for_bytes(l, deadline))
			return 0;
	}
}

bool link_has_news(const struct link_stream *s)
{
	return !s->has_ended && (s->inbox_at < s->inbox.len || s->has_room_news);
}

int link_idle(struct link *l, struct cell_error *err)
{
	release_held(l);
	(void)wait_for_bytes(l, 0);
	(void)sort_frames(l, NULL);
	return l->broken.code ? fail_broken(l, err) : 0;
}

ssize_t link_send(struct link_stream *s, const void *p, size_t n, int timeout_ms,
	struct cell_error *err)
{
	struct link *l = s->link;
	uint64_t deadline = deadline_of(timeout_ms);
	size_t done = 0;

	release_held(l);
	while (done < n) {
		uint64_t room = WIRE_STDIN_WINDOW - (s->sent - s->sent_acked);
		uint8_t offset[8];

		if (l->broken.code)
			return fail_broken(l, err);
		if (s->has_ended || s->is_ending)
			break;
		if (room == 0) {
			/* polling never reads: what came would wait unseen behind a quiet fd */
			if (done || timeout_ms == 0)
				break;
			if (!wait_for_bytes(l, deadline))
				break;
			(void)sort_frames(l, NULL);
			continue;
		}
		size_t take = n - done < room ? n - done : (size_t)room;
		if (take > WIRE_MAX_DATA)
			take = WIRE_MAX_DATA;
		wire_u64_put(offset, s->sent);
		int r = put_frame(l, WIRE_DATA, WIRE_CHAN_IN, 0, s->id, offset, sizeof offset,
			(const uint8_t *)p + done, take, err);
		if (r < 0)
			return r;
		s->sent += take;
		done += take;
	}
	flush(l);
	return (ssize_t)done;
}

int link_send_eof(struct link_stream *s, struct cell_error *err)
{
	uint8_t at[8];

	release_held(s->link);
	if (s->has_ended)
		return 0;
	wire_u64_put(at, s->sent);
	int r = put_frame(s->link, WIRE_EOF, WIRE_CHAN_IN, 0, s->id, at, sizeof at, NULL, 0, err);
	flush(s->link);
	return r;
}

void link_set_send_offset(struct link_stream *s, uint64_t offset)
{
	s->sent = s->sent_acked = offset;
}

int link_control(struct link_stream *s, uint16_t op, const struct buf *fields,
	struct cell_error *err)
{
	uint8_t head[2];

	release_held(s->link);
	if (s->has_ended)
		return 0;
	wire_u16_put(head, op);
	int r = put_frame(s->link, WIRE_CONTROL, 0, 0, s->id, head, sizeof head,
		fields ? fields->data : NULL, fields ? fields->len : 0, err);
	flush(s->link);
	return r;
}

/* ---- answers ---- */

int link_end_error(const struct link_event *end, struct cell_error *err)
{
	uint64_t code = wire_find_u64(end->p, end->len, WIRE_T_CODE, CELL_EPROTOCOL);
	uint64_t sys_errno = wire_find_u64(end->p, end->len, WIRE_T_ERRNO, 0);

	if (code == CELL_OK)
		return 0;
	if (code >= CELL_CODE_COUNT)
		code = CELL_EBACKEND;
	if (sys_errno > 4095)
		sys_errno = 0;
	auto_free char *msg = wire_find_str(end->p, end->len, WIRE_T_MESSAGE, sizeof err->msg - 1);
	auto_free char *hint = wire_find_str(end->p, end->len, WIRE_T_HINT, sizeof err->hint - 1);
	(void)cell_fail(err, (enum cell_code)code, 0, "%s", msg ? msg : "the guest gave no reason");
	if (hint)
		(void)cell_error_hint(err, 0, "%s", hint);
	if (err)
		err->sys_errno = (int)sys_errno;
	return -(sys_errno ? (int)sys_errno : cell_code_to_errno((enum cell_code)code));
}

int link_call(struct link *l, uint16_t op, const struct buf *fields, struct buf *ret_end,
	struct cell_error *err)
{
	struct link_stream *s;
	struct link_event ev = {0};
	int r = link_request(l, op, fields, &s, err);

	if (r < 0)
		return r;
	while (r == 0 && ev.type != LINK_END)
		r = link_next(s, -1, &ev, err);
	if (r == 0)
		r = link_end_error(&ev, err);
	if (r == 0 && ret_end && buf_add(ret_end, ev.p, ev.len) < 0)
		r = cell_fail(err, CELL_ENOSPACE, ENOMEM, "read the guest's answer");
	link_stream_free(s);
	return r;
}
