/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ws.h: a WebSocket (RFC 6455) on an exchange. No extensions. What breaks the protocol closes the
 * socket with the code the RFC gives it (1002, 1007 for text that is no UTF-8, 1009 for too much).
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/error.h"

struct http_exchange;
struct ws;

enum ws_type {
	WS_TEXT = 1,
	WS_BINARY = 2,
};

enum ws_code {
	WS_NORMAL = 1000,
	WS_GOING_AWAY = 1001, /* the server drains */
	WS_PROTOCOL_ERROR = 1002,
	WS_NOT_ACCEPTED = 1003,
	WS_NO_CODE = 1005,  /* the peer's close frame had none; never sent */
	WS_ABNORMAL = 1006, /* the connection ended without a close frame; never sent */
	WS_BAD_TEXT = 1007,
	WS_POLICY = 1008, /* authentication, quota */
	WS_TOO_BIG = 1009,
	WS_INTERNAL = 1011,
	WS_TRY_LATER = 1013,
};

struct ws_events {
	/* A whole message, valid during the call; a NUL is behind it. Fragments have been joined. */
	void (*message)(struct ws *w, enum ws_type type, const void *p, size_t n, void *arg);
	/* The unsent bytes fell below half the mark after ws_send() returned 1. May be NULL. */
	void (*drain)(struct ws *w, void *arg);
	/* The server began to drain; close soon. NULL: ws closes by itself with WS_GOING_AWAY. */
	void (*draining)(struct ws *w, void *arg);
	/* It is over; exactly once for each accepted ws, also after ws_close(), never from inside ws_accept(),
	 * ws_send() or ws_close(). w and the exchange are gone after this call. reason is the peer's text
	 * (UTF-8, quote it) or ours. */
	void (*closed)(struct ws *w, unsigned code, const char *reason, void *arg);
};

struct ws_options {
	size_t max_message;	 /* of a message received; 0: 1 MiB */
	unsigned ping_ms;	 /* silence before a ping; 0: 30 s */
	unsigned pong_ms;	 /* silence after it before the socket is given up; 0: 20 s */
	const char *subprotocol; /* sent back when the client offers it; NULL: none */
};

bool ws_is_asked(const struct http_exchange *x); /* GET with Upgrade: websocket */

/* Accept it: sends 101; from now on the exchange belongs to the ws (its user pointer stays). On failure nothing was
 * sent and the exchange is still the caller's; the error's text says what is wrong. -EINVAL: 400;
 * -EPROTONOSUPPORT: 426 (Sec-WebSocket-Version is added to the answer's headers already); -EACCES: 403, a web page of
 * a foreign origin. options may be NULL. events is borrowed (static). */
int ws_accept(struct http_exchange *x, const struct ws_options *options,
	const struct ws_events *events, void *arg, struct ws **ret, struct cell_error *err);

/* 0: go on; 1: taken, wait for drain; -ENOBUFS: not taken (4 times the mark are unsent); -EPIPE: closing or
 * gone. Text must be UTF-8 (-EILSEQ). Copied. */
int ws_send(struct ws *w, enum ws_type type, const void *p, size_t n);

/* No more messages until resume; the peer is held back. Pongs are not awaited meanwhile. */
void ws_pause(struct ws *w);
void ws_resume(struct ws *w);

/* Sends what is queued and a close frame, waits some seconds for the peer's. No message is delivered any
 * more. reason may be NULL, is cut to 123 bytes. Twice is fine. */
void ws_close(struct ws *w, unsigned code, const char *reason);

struct http_exchange *ws_exchange(const struct ws *w); /* for its head; do not write to it */
size_t ws_unsent(const struct ws *w);
