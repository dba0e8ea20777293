/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_http: a hostile client. The input's first byte says in how large pieces the rest arrives at a server
 * that echoes bodies (collected, streamed, or not read) and WebSocket messages. Whatever comes, the server
 * answers or closes, and nothing is left.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/http.h"
#include "net/loop.h"
#include "net/ws.h"

static void collected(struct http_exchange *x, int result, void *arg)
{
	size_t n;
	const void *p = http_body(x, &n);

	(void)arg;
	if (result < 0)
		http_fail_body(x, result);
	else
		http_respond(x, 200, "text/plain", p, n);
}

static void on_data(struct http_exchange *x, const void *p, size_t n, void *arg)
{
	(void)arg;
	(void)http_write(x, p, n);
}

static void on_end(struct http_exchange *x, int result, void *arg)
{
	(void)arg;
	(void)result;
	http_end(x);
}

static void on_message(struct ws *w, enum ws_type type, const void *p, size_t n, void *arg)
{
	(void)arg;
	(void)ws_send(w, type, p, n);
}

static void on_closed(struct ws *w, unsigned code, const char *reason, void *arg)
{
	(void)w;
	(void)code;
	(void)arg;
	if (strlen(reason) > 125)
		abort();
}

static void handler(struct http_exchange *x, void *arg)
{
	static const struct http_body_events body = {.data = on_data, .end = on_end};
	static const struct ws_events events = {.message = on_message, .closed = on_closed};
	const char *path = http_path(x), *name, *value;
	struct ws *w;

	(void)arg;
	for (unsigned i = 0; http_query_at(x, i, &name, &value); i++)
		if (!http_query(x, name))
			abort();
	for (unsigned i = 0; http_header_at(x, i, &name, &value); i++)
		if (!http_header(x, name) && strcasecmp(name, "host") != 0)
			abort();
	if (path[0] != '/' && path[0] != '*')
		abort();
	if (ws_is_asked(x) && ws_accept(x, &(struct ws_options){.max_message = 1000}, &events, NULL,
				      &w, NULL) == 0)
		return;
	if (path[1] == 'c') {
		http_collect(x, 1000, collected, NULL);
	} else if (path[1] == 's') {
		http_read_body(x, 1000, &body, NULL);
		(void)http_begin(x, 200, "text/plain", -1);
	} else {
		http_respond(x, 200, "text/plain", "hello", 5);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct http_options o = {.handler = handler,
		.limits = {.head_bytes = 2048, .target_bytes = 512, .headers = 20}};
	struct net_loop *loop;
	struct http_server *server;
	char answer[4096];
	int sv[2];

	if (size < 1 || size > 65536 || net_loop_new(NULL, &loop, NULL) < 0)
		return 0;
	if (http_server_new(loop, &o, &server, NULL) < 0 ||
		socketpair(AF_UNIX, SOCK_STREAM, 0, sv) < 0)
		abort();
	if (http_serve_fd(server, sv[0]) < 0)
		abort();
	size_t step = data[0] == 0 ? size : data[0];
	for (size_t at = 1; at < size; at += step) {
		size_t n = size - at < step ? size - at : step;
		if (send(sv[1], data + at, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
			break;
		net_loop_step(loop, false);
		net_loop_step(loop, false);
		while (recv(sv[1], answer, sizeof answer, MSG_DONTWAIT) > 0)
			continue;
	}
	(void)shutdown(sv[1], SHUT_WR);
	struct http_stats stats;
	for (int i = 0; i < 20; i++) {
		net_loop_step(loop, false);
		while (recv(sv[1], answer, sizeof answer, MSG_DONTWAIT) > 0)
			continue;
	}
	close(sv[1]);
	for (int i = 0; i < 5; i++)
		net_loop_step(loop, false);
	http_stats(server, &stats);
	/* With the peer gone, nothing may be left waiting. */
	if (stats.connections || stats.exchanges)
		abort();
	http_server_free(server);
	net_loop_free(loop);
	return 0;
}
