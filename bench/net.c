/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net-bench: requests a second of the HTTP server with a trivial handler, keep-alive, over 1 and 64 connections,
 * beside a floor in the same run: a bare libuv server that reads something and writes the same canned bytes,
 * without looking at either. Rounds alternate; the best of each is taken, for the machine has other things to do.
 *
 *	net-bench [ROUNDS [MILLISECONDS]]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "net/http.h"
#include "net/loop.h"

#define REQUEST                                                                              \
	"GET /v1/sessions/abc?fields=state HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: " \
	"net-bench\r\nAuthorization: Bearer 0123456789abcdef\r\nAccept: */*\r\n\r\n"
#define BODY "{\"id\":\"abc\",\"state\":\"running\"}"

static double now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* --- the floor --- */

static const char canned[] =
	"HTTP/1.1 200 OK\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nX-Request-Id: "
	"0123456789abcdef0123456789abcdef\r\nContent-Type: application/json\r\nContent-Length: "
	"30\r\n\r\n" BODY;

static void on_alloc(uv_handle_t *h, size_t n, uv_buf_t *b)
{
	static char bytes[65536];

	(void)h;
	(void)n;
	*b = uv_buf_init(bytes, sizeof bytes);
}

static void on_closed(uv_handle_t *h)
{
	free(h);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	uv_buf_t out = uv_buf_init((char *)(uintptr_t)canned, sizeof canned - 1);

	(void)b;
	if (n < 0)
		uv_close((uv_handle_t *)s, on_closed);
	else if (n > 0 && uv_try_write(s, &out, 1) != (int)out.len)
		abort();
}

static void on_connection(uv_stream_t *listener, int status)
{
	uv_tcp_t *c = malloc(sizeof *c);

	if (status < 0 || !c || uv_tcp_init(listener->loop, c) < 0 ||
		uv_accept(listener, (uv_stream_t *)c) < 0)
		abort();
	(void)uv_tcp_nodelay(c, 1);
	(void)uv_read_start((uv_stream_t *)c, on_alloc, on_read);
}

static void serve_bare(int fd)
{
	uv_loop_t *loop = uv_default_loop();
	uv_tcp_t listener;

	(void)uv_tcp_init(loop, &listener);
	if (uv_tcp_open(&listener, fd) < 0 ||
		uv_listen((uv_stream_t *)&listener, 128, on_connection) < 0)
		abort();
	(void)uv_run(loop, UV_RUN_DEFAULT);
}

/* --- ours --- */

static void handler(struct http_exchange *x, void *arg)
{
	(void)arg;
	http_respond(x, 200, "application/json", BODY, sizeof BODY - 1);
}

static void serve_ours(int fd)
{
	struct http_options o = {.handler = handler};
	struct http_server *s;
	struct net_loop *loop;

	if (net_loop_new(NULL, &loop, NULL) < 0 || http_server_new(loop, &o, &s, NULL) < 0 ||
		http_listen_fd(s, fd, NULL, NULL) < 0)
		abort();
	net_loop_run(loop);
}

/* --- load --- */

static int listen_somewhere(struct sockaddr_in *a)
{
	socklen_t len = sizeof *a;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	*a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	if (fd < 0 || bind(fd, (struct sockaddr *)a, sizeof *a) < 0 || listen(fd, 128) < 0 ||
		getsockname(fd, (struct sockaddr *)a, &len) < 0)
		die("listen");
	return fd;
}

static void ask(int fd)
{
	if (send(fd, REQUEST, sizeof REQUEST - 1, MSG_NOSIGNAL) != sizeof REQUEST - 1)
		die("send");
}

/* The size of an answer: all have the same. */
static size_t answer_size(int fd)
{
	char b[4096];

	ask(fd);
	ssize_t n = recv(fd, b, sizeof b - 1, 0);
	if (n <= 0 || strncmp(b, "HTTP/1.1 200", 12) != 0)
		die("no answer");
	return (size_t)n;
}

/* Requests a second over n connections. */
static double load(const struct sockaddr_in *a, int n, int ms)
{
	struct epoll_event events[64];
	int ep = epoll_create1(EPOLL_CLOEXEC), *fds = calloc((size_t)n, sizeof *fds);
	size_t *have = calloc((size_t)n, sizeof *have), size = 0;
	long done = 0;
	const int on = 1;

	for (int i = 0; i < n; i++) {
		fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fds[i] < 0 || connect(fds[i], (const struct sockaddr *)a, sizeof *a) < 0)
			die("connect");
		(void)setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		size = answer_size(fds[i]);
		struct epoll_event e = {.events = EPOLLIN, .data.u32 = (uint32_t)i};
		if (epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e) < 0)
			die("epoll");
		ask(fds[i]);
	}
	double begin = now_s(), end = begin + ms / 1e3;
	while (now_s() < end) {
		int k = epoll_wait(ep, events, 64, 1000);
		for (int i = 0; i < k; i++) {
			uint32_t c = events[i].data.u32;
			char b[4096];
			ssize_t got = recv(fds[c], b, sizeof b, 0);
			if (got <= 0)
				die("recv");
			have[c] += (size_t)got;
			if (have[c] >= size) {
				have[c] -= size;
				done++;
				ask(fds[c]);
			}
		}
	}
	double rate = (double)done / (now_s() - begin);
	for (int i = 0; i < n; i++)
		close(fds[i]);
	close(ep);
	free(fds);
	free(have);
	return rate;
}

static double measure(void (*serve)(int fd), int n, int ms)
{
	struct sockaddr_in a;
	int fd = listen_somewhere(&a);
	pid_t pid = fork();

	if (pid == 0) {
		serve(fd);
		_exit(0);
	}
	close(fd);
	double rate = load(&a, n, ms);
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
	return rate;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 5;
	int ms = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 1000;
	static const int connections[] = {1, 64};

	printf("%-12s %14s %14s %8s\n", "connections", "bare uv /s", "http /s", "ratio");
	for (size_t i = 0; i < sizeof connections / sizeof connections[0]; i++) {
		double bare = 0, ours = 0;
		for (int r = 0; r < rounds; r++) {
			double b = measure(serve_bare, connections[i], ms);
			double o = measure(serve_ours, connections[i], ms);
			bare = b > bare ? b : bare;
			ours = o > ours ? o : ours;
		}
		printf("%-12d %14.0f %14.0f %8.2f\n", connections[i], bare, ours, ours / bare);
	}
	return 0;
}
