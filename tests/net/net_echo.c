/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_echo: a server for the tests of src/net. One route for each thing the layer can do. Prints its addresses,
 * then "ready"; ends with TERM (drain) or when its standard input is closed.
 *
 *	net_echo [--tcp HOST PORT] [--unix PATH MODE] [--fds] [--tls CERT KEY] [--cors ORIGIN] [--NAME VALUE]
 *
 * NAME is a field of struct http_limits, or workers, queue.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "net/http.h"
#include "net/loop.h"
#include "net/relay.h"
#include "net/sse.h"
#include "net/tls.h"
#include "net/ws.h"

static struct net_loop *loop;
static struct http_server *server;
static struct net_tls *tls;
static unsigned n_gone, n_half_closed, n_finished, n_refused, n_relayed, n_ws_closed;
static unsigned last_ws_code;
static struct http_options options = {.server_name = "net_echo"};

static unsigned long number(const struct http_exchange *x, const char *name, unsigned long usual)
{
	const char *s = http_query(x, name);
	return s ? strtoul(s, NULL, 10) : usual;
}

static void text(struct http_exchange *x, int status, const char *s)
{
	http_respond(x, status, "text/plain", s, strlen(s));
}

/* --- bodies --- */

static void collected(struct http_exchange *x, int result, void *arg)
{
	size_t n;
	const void *p = http_body(x, &n);

	(void)arg;
	if (result < 0)
		http_fail_body(x, result);
	else
		http_respond(x, 200, "application/octet-stream", p, n);
}

static void echo(struct http_exchange *x)
{
	http_collect(x, number(x, "max", 1024u * 1024), collected, NULL);
}

/* The body back as it comes: both directions at once, with back pressure. */
static void duplex_data(struct http_exchange *x, const void *p, size_t n, void *arg)
{
	(void)arg;
	if (http_write(x, p, n) == 1)
		http_pause(x);
}

static void duplex_end(struct http_exchange *x, int result, void *arg)
{
	(void)arg;
	if (result < 0)
		http_abort(x);
	else
		http_end(x);
}

static void duplex_drain(struct http_exchange *x, void *arg)
{
	(void)arg;
	http_resume(x);
}

static void duplex(struct http_exchange *x)
{
	static const struct http_body_events events = {.data = duplex_data, .end = duplex_end};

	http_on_drain(x, duplex_drain, NULL);
	http_read_body(x, UINT64_MAX, &events, NULL);
	(void)http_begin(x, 200, "application/octet-stream", -1);
}

/* Counts the body's bytes and says how many only at its end. */
static void count_data(struct http_exchange *x, const void *p, size_t n, void *arg)
{
	(void)x;
	(void)p;
	(void)n;
	(void)arg;
}

static void count_end(struct http_exchange *x, int result, void *arg)
{
	char s[64];

	(void)arg;
	(void)snprintf(s, sizeof s, "%llu", (unsigned long long)http_bytes_in(x));
	if (result < 0)
		http_fail_body(x, result);
	else
		text(x, 200, s);
}

static void count(struct http_exchange *x)
{
	static const struct http_body_events events = {.data = count_data, .end = count_end};

	http_read_body(x, number(x, "max", 1ul << 40), &events, NULL);
}

/* --- answers --- */

static void big(struct http_exchange *x)
{
	size_t n = number(x, "n", 100000);
	char *p = malloc(n ? n : 1);

	for (size_t i = 0; i < n; i++)
		p[i] = (char)('a' + i % 26);
	if (http_query(x, "copy")) {
		http_respond(x, 200, "text/plain", p, n);
		free(p);
	} else {
		http_respond_own(x, 200, "text/plain", p, n, free);
	}
}

struct stream {
	size_t left, size;
};

static void stream_more(struct http_exchange *x, void *arg)
{
	struct stream *s = arg;
	static char bytes[65536];

	while (s->left > 0) {
		size_t n = s->left < s->size ? s->left : s->size;
		int r = http_write(x, bytes, n);
		if (r < 0) {
			free(s);
			http_abort(x);
			return;
		}
		s->left -= n;
		if (r > 0)
			return;
	}
	free(s);
	http_end(x);
}

static void stream_gone(struct http_exchange *x, void *arg)
{
	n_gone++;
	free(arg);
	http_end(x);
}

static void stream(struct http_exchange *x)
{
	struct stream *s = malloc(sizeof *s);

	*s = (struct stream){number(x, "n", 1000), number(x, "size", 1000)};
	if (s->size > 65536)
		s->size = 65536;
	http_on_drain(x, stream_more, s);
	http_on_gone(x, stream_gone, s);
	(void)http_begin(x, 200, "application/octet-stream",
		http_query(x, "length") ? (long)s->left : -1);
	stream_more(x, s);
}

static void sse(struct http_exchange *x)
{
	struct buf b = BUF_INIT(4096);

	(void)sse_event(&b, "1", "greeting", "hello\nworld", 11);
	(void)sse_comment(&b, "beat");
	(void)http_begin(x, 200, "text/event-stream", -1);
	(void)http_write(x, b.data, b.len);
	buf_done(&b);
	http_end(x);
}

/* Holds the answer until something happens to the peer. */
static void held_gone(struct http_exchange *x, void *arg)
{
	(void)arg;
	n_gone++;
	http_end(x);
}

static void held_half_closed(struct http_exchange *x, void *arg)
{
	(void)arg;
	n_half_closed++;
	(void)http_write(x, "half closed", 11);
	http_end(x);
}

static void held_draining(struct http_exchange *x, void *arg)
{
	(void)arg;
	(void)http_write(x, "draining", 8);
	http_end(x);
}

static void hold(struct http_exchange *x)
{
	(void)http_begin(x, 200, "text/plain", -1);
	(void)http_write(x, "held ", 5);
	http_on_gone(x, held_gone, NULL);
	if (http_query(x, "half"))
		http_on_half_close(x, held_half_closed, NULL);
	if (http_query(x, "drain"))
		http_on_drain_server(x, held_draining, NULL);
}

/* --- threads --- */

static void nap(void *arg)
{
	unsigned long ms = number(arg, "ms", 10);
	struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	(void)nanosleep(&t, NULL);
}

static void nap_done(void *arg)
{
	text(arg, 200, "worked");
}

static void work(struct http_exchange *x)
{
	if (net_work(loop, nap, nap_done, x) == -EBUSY) {
		(void)http_add_header(x, "Retry-After", "1");
		http_fail(x, 503, "all workers are busy");
	}
}

/* --- websockets, tunnels --- */

static void ws_message(struct ws *w, enum ws_type type, const void *p, size_t n, void *arg)
{
	(void)arg;
	if (type == WS_TEXT && n == 5 && !memcmp(p, "close", 5)) {
		ws_close(w, 4001, "as you wish");
		return;
	}
	if (ws_send(w, type, p, n) == 1)
		ws_pause(w);
}

static void ws_drain(struct ws *w, void *arg)
{
	(void)arg;
	ws_resume(w);
}

static void ws_closed(struct ws *w, unsigned code, const char *reason, void *arg)
{
	(void)w;
	(void)reason;
	(void)arg;
	n_ws_closed++;
	last_ws_code = code;
}

static void websocket(struct http_exchange *x)
{
	static const struct ws_events events = {
		.message = ws_message, .drain = ws_drain, .closed = ws_closed};
	struct ws_options o = {.max_message = number(x, "max", 1024u * 1024),
		.ping_ms = (unsigned)number(x, "ping", 0),
		.pong_ms = (unsigned)number(x, "pong", 0),
		.subprotocol = "echo.v1"};
	struct cell_error err;
	struct ws *w;

	int r = ws_accept(x, &o, &events, NULL, &w, &err);
	if (r < 0)
		http_fail(x, r == -EACCES ? 403 : r == -EPROTONOSUPPORT ? 426 : 400, err.msg);
}

static void relayed(const struct relay_result *result, void *arg)
{
	(void)arg;
	(void)result;
	n_relayed++;
}

/* `cat` behind the connection. */
static void tunnel(struct http_exchange *x, const char *protocol)
{
	char name[] = "cat", *const argv[] = {name, NULL};
	posix_spawn_file_actions_t actions;
	struct cell_error err;
	struct relay *r;
	int sv[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) < 0)
		abort();
	(void)posix_spawn_file_actions_init(&actions);
	(void)posix_spawn_file_actions_adddup2(&actions, sv[1], 0);
	(void)posix_spawn_file_actions_adddup2(&actions, sv[1], 1);
	if (posix_spawnp(&pid, "cat", &actions, NULL, argv, environ) != 0)
		abort();
	(void)posix_spawn_file_actions_destroy(&actions);
	close(sv[1]);
	if (!protocol)
		(void)http_begin(x, 200, "application/octet-stream", -1);
	if (relay_start(x, protocol, sv[0], sv[0], (unsigned)number(x, "idle", 0), relayed, NULL,
		    &r, &err) < 0)
		http_fail(x, 400, err.msg);
}

/* --- about the server --- */

static void stats(struct http_exchange *x)
{
	char s[600];
	struct http_stats st;

	http_stats(server, &st);
	(void)snprintf(s, sizeof s,
		"connections=%u exchanges=%u accepted=%llu requests=%llu refused=%llu pauses=%llu "
		"gone=%u "
		"half=%u finished=%u refusals=%u relayed=%u ws_closed=%u ws_code=%u",
		st.connections, st.exchanges, (unsigned long long)st.accepted,
		(unsigned long long)st.requests, (unsigned long long)st.refused,
		(unsigned long long)st.accept_pauses, n_gone, n_half_closed, n_finished, n_refused,
		n_relayed, n_ws_closed, last_ws_code);
	text(x, 200, s);
}

static void show(struct http_exchange *x)
{
	struct buf b = BUF_INIT(1u << 20);
	const char *name, *value;
	const struct http_peer *p = http_peer(x);

	(void)buf_addf(&b, "method=%s\npath=%s\nraw_path=%s\nraw_query=%s\nhost=%s\n",
		http_method(x), http_path(x), http_raw_path(x), http_raw_query(x),
		http_header(x, "HOST") ? http_header(x, "HOST") : "");
	(void)buf_addf(&b, "peer=%s unix=%d loopback=%d tls=%d uid=%d pid=%d origin_ok=%d\n",
		p->address, p->is_unix, p->is_loopback, p->is_tls,
		p->has_credentials ? (int)p->uid : -1, p->has_credentials ? (int)p->pid : -1,
		http_origin_is_allowed(x));
	for (unsigned i = 0; http_query_at(x, i, &name, &value); i++)
		(void)buf_addf(&b, "query %s=%s\n", name, value);
	for (unsigned i = 0; http_header_at(x, i, &name, &value); i++)
		(void)buf_addf(&b, "header %s=%s\n", name, value);
	(void)http_set_request_id(x, http_query(x, "id") ? http_query(x, "id") : "");
	if (http_query(x, "add"))
		(void)http_add_header(x, "X-Added", http_query(x, "add"));
	http_respond(x, 200, "text/plain", b.data, b.len);
	buf_done(&b);
}

static void reload(struct http_exchange *x)
{
	struct cell_error err;

	if (net_tls_reload(tls, &err) < 0)
		http_fail(x, 500, err.msg);
	else
		text(x, 200, "reloaded");
}

static void drained(void *arg)
{
	(void)arg;
	net_loop_stop(loop);
}

static void on_term(void *arg, int signum)
{
	(void)arg;
	(void)signum;
	http_drain(server, 2000, drained, NULL);
}

static void handler(struct http_exchange *x, void *arg)
{
	static const struct {
		const char *path;
		void (*fn)(struct http_exchange *x);
	} routes[] = {{"/echo", echo}, {"/duplex", duplex}, {"/count", count}, {"/big", big},
		{"/stream", stream}, {"/sse", sse}, {"/hold", hold}, {"/work", work},
		{"/ws", websocket}, {"/stats", stats}, {"/show", show}, {"/reload", reload}};
	const char *path = http_path(x);

	(void)arg;
	for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
		if (!strcmp(path, routes[i].path)) {
			routes[i].fn(x);
			return;
		}
	}
	if (!strcmp(path, "/tunnel"))
		tunnel(x, "bytes");
	else if (!strcmp(path, "/pipe"))
		tunnel(x, NULL);
	else if (!strcmp(path, "/empty"))
		http_respond(x, 204, NULL, NULL, 0);
	else if (!strcmp(path, "/abort"))
		http_abort(x);
	else if (!strcmp(path, "/"))
		text(x, 200, "hello\n");
	else
		http_fail(x, 404, "there is no such path");
}

static const char *error_body(struct http_exchange *x, int status, const char *message,
	const char *request_id, struct buf *ret, void *arg)
{
	(void)x;
	(void)arg;
	(void)buf_addf(ret, "{\"status\":%d,\"message\":\"%s\",\"request_id\":\"%s\"}", status,
		message, request_id);
	return "application/json";
}

static void finished(struct http_exchange *x, void *arg)
{
	(void)x;
	(void)arg;
	n_finished++;
}

static void refused(int status, const char *message, const char *peer, const char *id, void *arg)
{
	(void)status;
	(void)message;
	(void)peer;
	(void)id;
	(void)arg;
	n_refused++;
}

/* --- set-up --- */

static void die(const struct cell_error *err)
{
	(void)fprintf(stderr, "net_echo: %s\nhint: %s\n", err->msg, err->hint);
	exit(1);
}

static struct net_loop_options loop_options;
static const char *cors[9];

static int set_limit(const char *name, unsigned long v)
{
	struct http_limits *l = &options.limits;
	const struct {
		const char *name;
		size_t *size;
		unsigned *number;
	} limits[] = {{"head_bytes", &l->head_bytes, NULL},
		{"target_bytes", &l->target_bytes, NULL}, {"headers", NULL, &l->headers},
		{"body_bytes", &l->body_bytes, NULL}, {"queued_bytes", &l->queued_bytes, NULL},
		{"pipelined_bytes", &l->pipelined_bytes, NULL},
		{"connections", NULL, &l->connections},
		{"connections_per_peer", NULL, &l->connections_per_peer},
		{"requests", NULL, &l->requests}, {"head_ms", NULL, &l->head_ms},
		{"idle_ms", NULL, &l->idle_ms}, {"progress_ms", NULL, &l->progress_ms},
		{"handshake_ms", NULL, &l->handshake_ms}, {"workers", NULL, &loop_options.workers},
		{"queue", NULL, &loop_options.work_queue}};

	for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
		if (strcmp(limits[i].name, name) != 0)
			continue;
		if (limits[i].size)
			*limits[i].size = v;
		else
			*limits[i].number = (unsigned)v;
		return 0;
	}
	return -1;
}

static void stdin_closed(void *arg, int events)
{
	char c;

	(void)arg;
	(void)events;
	if (read(0, &c, 1) <= 0)
		net_loop_stop(loop);
}

int main(int argc, char **argv)
{
	struct net_signal *term;
	struct net_watch *in = NULL;
	struct cell_error err;
	const char *const *tcp = NULL, *const *un = NULL;
	bool is_inheriting = false;
	int n_cors = 0;

	(void)signal(SIGCHLD, SIG_IGN);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--tcp"))
			tcp = (const char *const *)argv + i + 1, i += 2;
		else if (!strcmp(argv[i], "--unix"))
			un = (const char *const *)argv + i + 1, i += 2;
		else if (!strcmp(argv[i], "--fds"))
			is_inheriting = true;
		else if (!strcmp(argv[i], "--cors"))
			cors[n_cors++] = argv[++i];
		else if (!strcmp(argv[i], "--tls")) {
			if (net_tls_new(argv[i + 1], argv[i + 2], &tls, &err) < 0)
				die(&err);
			i += 2;
		} else if (i + 1 >= argc ||
			   set_limit(argv[i] + 2, strtoul(argv[i + 1], NULL, 10)) < 0) {
			(void)fprintf(stderr, "net_echo: what is '%s'?\n", argv[i]);
			return 2;
		} else {
			i++;
		}
	}
	options.handler = handler;
	options.error_body = error_body;
	options.finished = finished;
	options.refused = refused;
	options.cors_origins = n_cors ? cors : NULL;
	if (net_loop_new(&loop_options, &loop, &err) < 0 ||
		http_server_new(loop, &options, &server, &err) < 0)
		die(&err);
	if (tcp &&
		http_listen_tcp(server, tcp[0], (unsigned)strtoul(tcp[1], NULL, 10), tls, &err) < 0)
		die(&err);
	if (un && http_listen_unix(server, un[0], (mode_t)strtoul(un[1], NULL, 8), &err) < 0)
		die(&err);
	for (int i = 0, n = is_inheriting ? http_inherited_fds() : 0; i < n; i++)
		if (http_listen_fd(server, 3 + i, tls, &err) < 0)
			die(&err);
	if (net_signal_new(loop, SIGTERM, on_term, NULL, &term, &err) < 0 ||
		net_watch_new(loop, 0, stdin_closed, NULL, &in, &err) < 0)
		die(&err);
	(void)net_watch_set(in, NET_READABLE);
	for (unsigned i = 0; http_address(server, i); i++)
		puts(http_address(server, i));
	puts("ready");
	(void)fflush(stdout);
	net_loop_run(loop);
	net_signal_free(term);
	net_watch_free(in);
	http_server_free(server);
	net_loop_free(loop);
	net_tls_free(tls);
	return 0;
}
