/* SPDX-License-Identifier: Apache-2.0 */
/* service.c: see service.h. */
#include "service.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- its process ---- */

static void make_token(struct service *s)
{
	char line[512] = "";
	int out[2], status = 0;

	pid_t pid = pipe(out) < 0 ? -1 : fork();
	if (pid == 0) {
		(void)setenv("CELL_STATE_DIR", s->state, 1);
		(void)dup2(out[1], STDOUT_FILENO);
		execl(s->program, "cell", "--json", "token", "create", "--role", "admin",
			(char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status ||
		read(out[0], line, sizeof line - 1) <= 0)
		bench_die("serve: no token");
	close(out[0]);
	close(out[1]);
	const char *at = strstr(line, "\"token\"");
	at = at ? strchr(at, ':') : NULL;
	if (!at || sscanf(at, ": \"%120[^\"]", s->token) != 1)
		bench_die("serve: no token in '%s'", line);
}

void service_make(const struct bench *b, struct service *s)
{
	*s = (struct service){0};
	(void)snprintf(s->program, sizeof s->program, "%s/../cell", b->programs);
	(void)snprintf(s->state, sizeof s->state, "%s/serve", b->scratch);
	(void)snprintf(s->log, sizeof s->log, "%s/serve.log", b->scratch);
	make_token(s);
}

static bool read_port(struct service *s)
{
	char text[8192];
	FILE *f = fopen(s->log, "r");
	size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;

	text[n] = '\0';
	if (f)
		(void)fclose(f);
	const char *at = strstr(text, "address=http://127.0.0.1:");
	return at && strchr(at, '\n') && sscanf(at, "address=http://127.0.0.1:%hu", &s->port) == 1;
}

double service_start(struct service *s)
{
	uint64_t begin = bench_now_ns();

	(void)unlink(s->log);
	s->pid = fork();
	if (s->pid == 0) {
		(void)setenv("CELL_STATE_DIR", s->state, 1);
		if (!freopen(s->log, "w", stderr) || !freopen("/dev/null", "w", stdout))
			_exit(127);
		execl(s->program, "cell", "serve", "--listen", "127.0.0.1:0", (char *)NULL);
		_exit(127);
	}
	while (!read_port(s)) {
		if (waitpid(s->pid, NULL, WNOHANG) == s->pid)
			bench_die("serve: the server ended: see %s", s->log);
		(void)usleep(500);
	}
	return (double)(bench_now_ns() - begin) / 1e6;
}

void service_end(struct service *s, int sig)
{
	(void)kill(s->pid, sig);
	(void)waitpid(s->pid, NULL, 0);
}

/* ---- asking it ---- */

int service_join(const struct service *s)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons(s->port)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
		bench_die("serve: cannot connect");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

size_t service_request(const struct service *s, char *text, size_t max, const char *method,
	const char *path, const char *accept, const char *body)
{
	int n = snprintf(text, max,
		"%s %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: "
		"%s\r\nContent-Length: %zu\r\n\r\n%s",
		method, path, s->token, accept, strlen(body), body);

	return (size_t)n;
}

void service_put(int fd, const char *text, size_t n)
{
	if (send(fd, text, n, MSG_NOSIGNAL) != (ssize_t)n)
		bench_die("serve: cannot send");
}

int service_answer(int fd, char *text, size_t max)
{
	size_t have = 0, want = 0;

	while (!want || have < want) {
		ssize_t n = recv(fd, text + have, max - 1 - have, 0);
		if (n <= 0)
			bench_die("serve: the answer broke off");
		have += (size_t)n;
		text[have] = '\0';
		const char *head = strstr(text, "\r\n\r\n"),
			   *len = strcasestr(text, "\r\nContent-Length:");
		if (!want && head)
			want = (size_t)(head - text) + 4 +
			       (len && len < head ? strtoul(len + 17, NULL, 10) : 0);
		if (want >= max)
			bench_die("serve: an answer of %zu bytes", want);
	}
	return (int)strtol(text + 9, NULL, 10);
}

int service_ask(const struct service *s, int fd, const char *method, const char *path,
	const char *body, char *text)
{
	char out[2048];

	service_put(fd, out,
		service_request(s, out, sizeof out, method, path, "application/json", body));
	return service_answer(fd, text, SERVICE_TEXT);
}

void service_session(const struct service *s, int fd, char id[64])
{
	static char text[SERVICE_TEXT];

	if (service_ask(s, fd, "POST", "/v1/sessions", "{\"idle_timeout\":0}", text) != 201)
		bench_die("serve: no session: %.300s", strstr(text, "\r\n\r\n"));
	if (sscanf(strstr(text, "\"id\":"), "\"id\":\"%60[^\"]", id) != 1)
		bench_die("serve: a session without id");
}
