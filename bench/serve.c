/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c: the server beside the library: what HTTP, authentication, the audit log and the spool cost a command; cheap requests a
 * second; how long they take while output flows to many; and how soon a killed server has taken over its cells.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "service.h"

#define CONNECTIONS 16
#define SPEAKERS    10
#define STREAMS	    500

/* ---- a command ---- */

static void measure_exec(struct bench *b, const struct service *s, struct bench_row *ret)
{
	size_t n = b->rounds / 2;
	double *bare = calloc(n, sizeof *bare), *ours = calloc(n, sizeof *ours);
	struct cell_exec_opts opts = {.argv = (const char *[]){BENCH_TRUE, NULL}};
	struct cell_error err = {0};
	struct cell *cell = NULL;
	static char text[SERVICE_TEXT];
	char id[64], path[128];
	int fd = service_join(s);

	if (!bare || !ours || cell_open(&(struct cell_spec){.backend = "jail"}, &cell, &err) < 0)
		bench_die_err("open a jail", &err);
	service_session(s, fd, id);
	(void)snprintf(path, sizeof path, "/v1/sessions/%s/exec", id);
	for (size_t i = 0; i < n + 20; i++) {
		struct cell_result r = {0};
		bench_progress("serve, exec", i, n + 20);
		uint64_t t0 = bench_now_ns();
		if (cell_run(cell, &opts, NULL, 0, &r, &err) < 0)
			bench_die_err("run in a jail", &err);
		uint64_t t1 = bench_now_ns();
		cell_result_done(&r);
		uint64_t t2 = bench_now_ns();
		int status =
			service_ask(s, fd, "POST", path, "{\"argv\":[\"" BENCH_TRUE "\"]}", text);
		uint64_t t3 = bench_now_ns();
		if (status != 200 || !strstr(text, "\"exit_code\":0"))
			bench_die("serve: exec: %.300s", text);
		if (i < 20)
			continue;
		bare[i - 20] = (double)(t1 - t0) / 1e3;
		ours[i - 20] = (double)(t3 - t2) / 1e3;
	}
	bench_progress("serve, exec", 1, 1);
	(void)cell_close(cell, &err);
	(void)snprintf(path, sizeof path, "/v1/sessions/%s", id);
	if (service_ask(s, fd, "DELETE", path, "", text) != 204)
		bench_die("serve: %.300s", text);
	close(fd);
	*ret = (struct bench_row){.what = "exec of true over HTTP (bare: library)",
		.unit = "us",
		.floor = bench_quantile(bare, n, 0.5),
		.ours = bench_quantile(ours, n, 0.5),
		.floor_p99 = bench_quantile(bare, n, 0.99),
		.ours_p99 = bench_quantile(ours, n, 0.99),
		.budget = 3};
	free(bare);
	free(ours);
}

/* ---- cheap requests ---- */

static double measure_rate(const struct service *s, const char *path, double seconds)
{
	int ep = epoll_create1(EPOLL_CLOEXEC), fds[CONNECTIONS];
	size_t have[CONNECTIONS] = {0}, size, done = 0, out;
	static char text[SERVICE_TEXT], line[2048];
	struct epoll_event events[CONNECTIONS];

	out = service_request(s, line, sizeof line, "GET", path, "*/*", "");
	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
		fds[i] = service_join(s);
		if (epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e) < 0)
			bench_die("serve: epoll");
	}
	service_put(fds[0], line, out);
	if (service_answer(fds[0], text, sizeof text) != 200)
		bench_die("serve: %s: %.300s", path, text);
	size = strlen(text);
	for (int i = 0; i < CONNECTIONS; i++)
		service_put(fds[i], line, out);
	uint64_t begin = bench_now_ns(), until = begin + (uint64_t)(seconds * 1e9);
	while (bench_now_ns() < until) {
		int k = epoll_wait(ep, events, CONNECTIONS, 1000);
		for (int i = 0; i < k; i++) {
			uint32_t c = events[i].data.u32;
			ssize_t n = recv(fds[c], text, sizeof text, 0);
			if (n <= 0)
				bench_die("serve: an answer broke off");
			have[c] += (size_t)n;
			if (have[c] < size)
				continue;
			have[c] = 0; /* one at a time on each */
			done++;
			service_put(fds[c], line, out);
		}
	}
	double rate = (double)done / ((double)(bench_now_ns() - begin) / 1e9);
	for (int i = 0; i < CONNECTIONS; i++)
		close(fds[i]);
	close(ep);
	return rate;
}

static void start_speaker(const struct service *s, int fd, const char *session, char ret[160])
{
	static char text[SERVICE_TEXT];
	char path[128], id[64];

	(void)snprintf(path, sizeof path, "/v1/sessions/%s/exec", session);
	if (service_ask(s, fd, "POST", path,
		    "{\"command\":\"while :; do echo 0123456789012345678901234567890; sleep 0.1; "
		    "done\",\"background\":true}",
		    text) != 202 ||
		sscanf(strstr(text, "\"id\":"), "\"id\":\"%60[^\"]", id) != 1)
		bench_die("serve: no speaker: %.300s", text);
	(void)snprintf(ret, 160, "/v1/sessions/%s/execs/%s/output", session, id);
}

/* Somebody who reads all of it, so that streams flow. */
static pid_t start_reader(const struct service *s, char paths[SPEAKERS][160], int n)
{
	static char out[2048], in[SERVICE_TEXT];
	struct epoll_event events[64];
	pid_t pid = fork();

	if (pid)
		return pid;
	int ep = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < n; i++) {
		int fd = service_join(s);
		struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
		service_put(fd, out,
			service_request(s, out, sizeof out, "GET", paths[i % SPEAKERS],
				"application/x-ndjson", ""));
		(void)epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
	}
	for (;;) {
		int k = epoll_wait(ep, events, 64, -1);
		for (int i = 0; i < k; i++)
			if (recv(events[i].data.fd, in, sizeof in, 0) <= 0)
				_exit(1);
	}
}

static void measure_streams(struct bench *b, const struct service *s, struct bench_row *ret)
{
	static char text[SERVICE_TEXT];
	char paths[SPEAKERS][160], id[64], path[128];
	size_t n = b->rounds;
	double *took = calloc(n, sizeof *took);
	int fd = service_join(s);

	service_session(s, fd, id);
	for (int i = 0; i < SPEAKERS; i++)
		start_speaker(s, fd, id, paths[i]);
	pid_t reader = start_reader(s, paths, STREAMS);
	(void)sleep(1);
	(void)snprintf(path, sizeof path, "/v1/sessions/%s", id);
	for (size_t i = 0; took && i < n; i++) {
		bench_progress("serve, streams", i, n);
		uint64_t begin = bench_now_ns();
		if (service_ask(s, fd, "GET", path, "", text) != 200)
			bench_die("serve: %.300s", text);
		took[i] = (double)(bench_now_ns() - begin) / 1e6;
		(void)usleep(1000);
	}
	if (waitpid(reader, NULL, WNOHANG) != 0)
		bench_die("serve: the streams broke off");
	(void)kill(reader, SIGKILL);
	(void)waitpid(reader, NULL, 0);
	if (service_ask(s, fd, "DELETE", path, "", text) != 204)
		bench_die("serve: %.300s", text);
	close(fd);
	*ret = (struct bench_row){.what = "GET session while 500 streams flow, p99",
		.unit = "ms",
		.ours = bench_quantile(took, n, 0.99),
		.budget = 50};
	free(took);
}

/* ---- many ---- */

static void each_of_many(const struct service *s, size_t n, char (*ids)[64], bool is_making)
{
	static char text[SERVICE_TEXT];
	char path[128];
	int fd = service_join(s);

	for (size_t i = 0; i < n; i++) {
		bench_progress(is_making ? "serve, making" : "serve, ending", i, n);
		if (is_making) {
			service_session(s, fd, ids[i]);
			continue;
		}
		(void)snprintf(path, sizeof path, "/v1/sessions/%s?wait=false", ids[i]);
		if (service_ask(s, fd, "DELETE", path, "", text) != 202)
			bench_die("serve: %.300s", text);
	}
	bench_progress("serve, making", n, n);
	close(fd);
}

static void wait_for_none(const struct service *s)
{
	static char text[SERVICE_TEXT];
	int fd = service_join(s);

	for (int i = 0; i < 6000; i++) {
		if (service_ask(s, fd, "GET", "/v1/sessions?limit=1", "", text) == 200 &&
			strstr(text, "\"sessions\":[]")) {
			close(fd);
			return;
		}
		(void)usleep(10000);
	}
	bench_die("serve: sessions do not end");
}

size_t bench_serve(struct bench *b, struct bench_row *ret)
{
	struct service s;
	size_t many = b->is_quick ? 100 : 1000, k = 0;
	char(*ids)[64] = calloc(many, sizeof *ids);
	struct rlimit files;
	char id[64], path[128];

	if (!ids || !bench_has_jail()) {
		free(ids);
		return 0;
	}
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
	service_make(b, &s);
	(void)service_start(&s);
	measure_exec(b, &s, &ret[k++]);
	int fd = service_join(&s);
	service_session(&s, fd, id);
	close(fd);
	(void)snprintf(path, sizeof path, "/v1/sessions/%s", id);
	ret[k++] = (struct bench_row){.what = "GET session, requests over 16 connections",
		.unit = "/s",
		.ours = measure_rate(&s, path, b->is_quick ? 1 : 3),
		.budget = 5000,
		.better = BENCH_MORE};
	measure_streams(b, &s, &ret[k++]);
	each_of_many(&s, many, ids, true);
	service_end(&s, SIGKILL);
	ret[k++] = (struct bench_row){.what = b->is_quick ? "killed server: 100 cells taken over"
							  : "killed server: 1,000 cells taken over",
		.unit = "ms",
		.ours = service_start(&s),
		.budget = 2000};
	each_of_many(&s, many, ids, false);
	each_of_many(&s, 1, &id, false);
	wait_for_none(&s);
	service_end(&s, SIGTERM);
	free(ids);
	return k;
}
