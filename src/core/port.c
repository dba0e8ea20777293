/* SPDX-License-Identifier: Apache-2.0 */
/* port.c: connections into a cell, as include/cell/port.h promises them, over a link to the guest. */
#include "cell/port.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "core/cell.h"
#include "core/contract.h"
#include "core/file_call.h"
#include "core/link.h"

struct cell_conn {
	struct link_stream *stream;
	bool is_open, has_ended;
};

int cell_connect(struct cell *c, unsigned port, struct cell_conn **ret, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);
	int r = cell_contract_require(c, CELL_CAP_BIT(CELL_CAP_PORTS), "connect to a port", err);

	if (r == 0 && (port < 1 || port > 65535))
		r = cell_fail(err, CELL_EINVAL, EINVAL,
			"connect: a port is a number from 1 to 65535");
	if (r == 0 && !c->link)
		r = cell_fail(err, CELL_EGONE, EPIPE,
			"connect: there is no connection to the guest");
	if (r < 0)
		return r;
	struct cell_conn *x = calloc(1, sizeof *x);
	if (!x || wire_put_u64(&b, WIRE_T_PORT | WIRE_CRITICAL, port) < 0) {
		free(x);
		return cell_fail_errno(err, ENOMEM, "connect");
	}
	r = link_request(c->link, WIRE_OP_CONNECT, &b, &x->stream, err);
	if (r < 0) {
		free(x);
		return r;
	}
	*ret = x;
	return 0;
}

void cell_conn_free(struct cell_conn *x)
{
	if (!x)
		return;
	link_stream_free(x->stream);
	free(x);
}

/* 1: *ret is filled; 0: nothing to tell of it. */
static int take_data(struct cell_conn *x, const struct link_event *ev, struct cell_conn_event *ret,
	struct cell_error *err)
{
	if (ev->chan != WIRE_CHAN_OUT)
		return cell_fail(err, CELL_EPROTOCOL, EPROTO,
			"connect: the guest sent bytes on a channel it does not have");
	if (ev->len == 0)
		return 0;
	*ret = (struct cell_conn_event){CELL_CONN_DATA, ev->p, ev->len};
	if (x->is_open)
		return 1;
	/* the first byte says that it is open; what came along with it is given with that */
	if (ev->p[0] != 0)
		return cell_fail(err, CELL_EPROTOCOL, EPROTO,
			"connect: the guest did not say that the connection is open");
	x->is_open = true;
	ret->type = CELL_CONN_OPEN;
	ret->data++;
	ret->len--;
	return 1;
}

int cell_conn_next(struct cell_conn *x, int timeout_ms, struct cell_conn_event *ret,
	struct cell_error *err)
{
	*ret = (struct cell_conn_event){0};
	if (x->has_ended)
		return 0;
	for (;;) {
		struct link_event ev;
		int r = link_next(x->stream, timeout_ms, &ev, err);

		if (r < 0)
			return r;
		switch (ev.type) {
		case LINK_NONE:
			return 0;
		case LINK_ROOM:
			ret->type = CELL_CONN_ROOM;
			return 0;
		case LINK_END:
			x->has_ended = true;
			ret->type = CELL_CONN_END;
			return link_end_error(&ev, err);
		case LINK_DATA:
			r = take_data(x, &ev, ret, err);
			if (r != 0)
				return r < 0 ? r : 0;
			break;
		case LINK_REPLY:
			break;
		}
	}
}

bool cell_conn_has_news(const struct cell_conn *x)
{
	return !x->has_ended && link_has_news(x->stream);
}

ssize_t cell_conn_write(struct cell_conn *x, const void *p, size_t n, int timeout_ms,
	struct cell_error *err)
{
	return x->has_ended ? 0 : link_send(x->stream, p, n, timeout_ms, err);
}

int cell_conn_close_write(struct cell_conn *x, struct cell_error *err)
{
	return x->has_ended ? 0 : link_send_eof(x->stream, err);
}

struct ports_call {
	cell_port_fn fn;
	void *user;
};

static int on_port(const uint8_t *p, size_t len, void *user, struct cell_error *err)
{
	const struct ports_call *call = user;
	auto_free char *address = wire_find_str(p, len, WIRE_T_NAME, 64);
	uint64_t port = wire_find_u64(p, len, WIRE_T_PORT, 0);

	if (!address || port < 1 || port > 65535)
		return cell_fail(err, CELL_EPROTOCOL, EPROTO,
			"list ports: the guest described no port");
	return call->fn(&(struct cell_port){address, (uint16_t)port,
				(uint32_t)wire_find_u64(p, len, WIRE_T_UID, 0)},
		call->user);
}

int cell_ports(struct cell *c, cell_port_fn fn, void *user, struct cell_error *err)
{
	struct ports_call call = {fn, user};
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;
	int r = file_open(c, WIRE_OP_PORTS, &q, &s, err);

	return r < 0 ? r : file_records(s, -1, on_port, &call, NULL, err);
}
