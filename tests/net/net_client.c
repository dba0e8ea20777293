/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_client: src/net's client for the tests.
 *
 *	net_client [--ca FILE] [--insecure] [--timeout MS] [--header NAME VALUE] URL call METHOD TARGET [BODY]
 *	net_client ... URL upload METHOD TARGET BYTES [chunked] [expect]
 *	net_client ... URL many TARGET COUNT
 *	net_client ... URL ws TARGET MESSAGE...
 *
 * Prints the status, a line with X-Request-Id, then the body. Errors: "error CODE: message", exit 1.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/client.h"

static struct http_client_options options;
static struct http_field headers[9];
static unsigned timeout_ms = 20000;

static int fail(int r, const struct cell_error *err)
{
	printf("error %s: %s\nhint: %s\n", strerrorname_np(-r), err->msg, err->hint);
	return 1;
}

static int show(struct http_reply *r)
{
	const char *id = http_reply_header(r, "x-request-id");

	printf("%d\n%s\n", r->status, id ? id : "-");
	(void)fwrite(r->body.data, 1, r->body.len, stdout);
	http_reply_done(r);
	return 0;
}

static ssize_t source(void *arg, void *p, size_t max)
{
	long long *left = arg;
	size_t n = *left < (long long)max ? (size_t)*left : max;

	memset(p, 'u', n);
	*left -= (long long)n;
	return (ssize_t)n;
}

static int ws(struct http_client *c, char **argv)
{
	struct http_reply reply;
	struct ws_client *w;
	struct cell_error err;
	enum ws_type type;
	const void *p;
	size_t n;

	int r = ws_client_open(c, argv[0], headers, 0, &w, &reply, &err);
	if (r < 0) {
		printf("refused %d\n", reply.status);
		http_reply_done(&reply);
		return fail(r, &err);
	}
	for (int i = 1; argv[i]; i++) {
		char *big = NULL;
		const char *s = argv[i];
		size_t len = strlen(s);
		if (!strncmp(s, "big:", 4)) {
			len = strtoul(s + 4, NULL, 10);
			big = calloc(1, len + 1);
			memset(big, 'b', len);
			s = big;
		}
		r = ws_client_send(w, WS_TEXT, s, len, &err);
		free(big);
		r = r ? r : ws_client_recv(w, 10000, &type, &p, &n, &err);
		if (r < 0)
			break;
		printf("%d %zu %.40s\n", r ? (int)type : 0, r ? n : 0, r ? (const char *)p : "");
	}
	if (r >= 0)
		r = ws_client_close(w, WS_NORMAL, "done", &err);
	while (r >= 0)
		r = ws_client_recv(w, 10000, &type, &p, &n, &err);
	const char *reason;
	unsigned code = ws_client_closed(w, &reason);
	printf("closed %u '%s' %s\n", code, reason, strerrorname_np(-r));
	ws_client_free(w);
	return 0;
}

static int many(struct http_client *c, const char *target, long n)
{
	struct http_call call = {.target = target, .headers = headers, .timeout_ms = timeout_ms};
	struct http_reply reply;
	struct cell_error err;

	for (long i = 0; i < n; i++) {
		int r = http_client_call(c, &call, &reply, &err);
		if (r < 0)
			return fail(r, &err);
		if (reply.status != 200)
			return show(&reply);
		http_reply_done(&reply);
	}
	printf("%ld\n", n);
	return 0;
}

int main(int argc, char **argv)
{
	struct http_client *c;
	struct http_reply reply;
	struct cell_error err;
	int n_headers = 0, i = 1;

	for (; i < argc && !strncmp(argv[i], "--", 2); i++) {
		if (!strcmp(argv[i], "--ca"))
			options.ca_file = argv[++i];
		else if (!strcmp(argv[i], "--insecure"))
			options.is_insecure = true;
		else if (!strcmp(argv[i], "--timeout"))
			timeout_ms = (unsigned)strtoul(argv[++i], NULL, 10);
		else if (!strcmp(argv[i], "--header")) {
			headers[n_headers++] = (struct http_field){argv[i + 1], argv[i + 2]};
			i += 2;
		}
	}
	if (argc - i < 3)
		return 2;
	int r = http_client_new(argv[i], &options, &c, &err), status = 0;
	if (r < 0)
		return fail(r, &err);
	const char *verb = argv[i + 1];
	if (!strcmp(verb, "ws")) {
		status = ws(c, argv + i + 2);
	} else if (!strcmp(verb, "many")) {
		status = many(c, argv[i + 2], strtol(argv[i + 3], NULL, 10));
	} else {
		struct http_call call = {.method = argv[i + 2],
			.target = argv[i + 3],
			.headers = headers,
			.timeout_ms = timeout_ms};
		long long left = argc > i + 4 ? strtoll(argv[i + 4], NULL, 10) : 0;
		if (!strcmp(verb, "upload")) {
			call.source = source;
			call.source_len = left;
			call.arg = &left;
			for (int k = i + 5; k < argc; k++) {
				if (!strcmp(argv[k], "chunked"))
					call.source_len = -1;
				else
					call.expect_continue = true;
			}
		} else if (argc > i + 4) {
			call.body = argv[i + 4];
			call.body_len = strlen(argv[i + 4]);
		}
		r = http_client_call(c, &call, &reply, &err);
		status = r < 0 ? fail(r, &err) : show(&reply);
	}
	http_client_free(c);
	return status;
}
