/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port.h: programs that listen in a cell. A connection goes through the guest to the cell's own loopback, whatever network the cell has
 * or has not; it is used like a command: from one thread, with cell_poll_fd() for an event loop.
 */
#ifndef CELL_PORT_H
#define CELL_PORT_H

#include <cell/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct cell;
struct cell_conn;

/* Ask for a connection to 127.0.0.1 or ::1, this port, inside of the cell. It does not wait: whether somebody listens there is told by
 * cell_conn_next(). The handle is the caller's until cell_conn_free(), which closes the connection. */
int cell_connect(struct cell *c, unsigned port, struct cell_conn **ret, struct cell_error *err);
void cell_conn_free(struct cell_conn *x); /* before its cell is closed; takes NULL */

enum cell_conn_type {
	CELL_CONN_NONE = 0, /* nothing within the time given */
	CELL_CONN_OPEN,	    /* once, first; may have data already */
	CELL_CONN_DATA,
	CELL_CONN_ROOM, /* cell_conn_write() may take more */
	CELL_CONN_END,	/* the other side has closed its direction: nothing follows */
};
struct cell_conn_event {
	enum cell_conn_type type;
	const uint8_t *data; /* valid until the next call on this cell */
	size_t len;
};
/* The next event. timeout_ms: -1 waits, 0 polls. CELL_EBACKEND: nobody listens there; CELL_ETIMEOUT: nobody accepts. */
int cell_conn_next(struct cell_conn *x, int timeout_ms, struct cell_conn_event *ret,
	struct cell_error *err);
/* As cell_exec_has_news(). */
bool cell_conn_has_news(const struct cell_conn *x);
/* How many of the bytes were taken, at least one within timeout_ms (-1 waits), or 0. Also before it is open. */
ssize_t cell_conn_write(struct cell_conn *x, const void *p, size_t n, int timeout_ms,
	struct cell_error *err);
/* Nothing more will be written. */
int cell_conn_close_write(struct cell_conn *x, struct cell_error *err);

struct cell_port {
	const char *address; /* "127.0.0.1", "::" ... */
	uint16_t port;
	uint32_t uid; /* of the listener, as the cell sees it */
};
typedef int (*cell_port_fn)(const struct cell_port *p, void *user);
/* Every TCP socket that listens; a non-zero return stops and is returned. */
int cell_ports(struct cell *c, cell_port_fn fn, void *user, struct cell_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
