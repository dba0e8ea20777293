/* SPDX-License-Identifier: Apache-2.0 */
/*
 * port_head.c: what of a request's head goes into the cell, and what of an answer's head comes out. The program in the cell is a tenant's,
 * and hostile for all we know: it gets none of the caller's credentials, and cannot speak for this server's origin.
 */
#include "server/port_head.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "net/upstream.h"
#include "server/port_cookie.h"

#define COOKIES_MAX (16u * 1024)

static bool is_one_of(const char *name, const char *const *list)
{
	for (; *list; list++)
		if (!strcasecmp(name, *list))
			return true;
	return false;
}

/* Not passed on: credentials for this server, what is made anew here, and what a client could lie with. */
static bool is_kept_back(const char *name)
{
	static const char *const names[] = {"authorization", "cookie", "idempotency-key", "host",
		"content-length", "expect", "forwarded", "x-forwarded-for", "x-forwarded-host",
		"x-forwarded-proto", "x-forwarded-prefix", "x-forwarded-port", "x-real-ip",
		"x-request-id", NULL};

	return is_one_of(name, names);
}

bool port_is_asked_to_upgrade(const struct http_exchange *x)
{
	const char *protocol = http_header(x, "Upgrade");

	return protocol && http_is_upgrade(x, protocol);
}

/* One field of all its cookies. */
static int add_cookies(const struct http_exchange *x, struct buf *b)
{
	auto_buf struct buf own = BUF_INIT(COOKIES_MAX);
	const char *name, *value;
	int r = 0;

	for (unsigned i = 0; r == 0 && http_header_at(x, i, &name, &value); i++)
		if (!strcasecmp(name, "cookie"))
			r = port_cookie_in(value, &own);
	return r < 0 || !own.len ? r : buf_addf(b, "Cookie: %s\r\n", buf_str(&own));
}

static int add_fields(const struct http_exchange *x, struct buf *b)
{
	const char *connection = http_header(x, "Connection"), *name, *value;
	int r = add_cookies(x, b);

	for (unsigned i = 0; r == 0 && http_header_at(x, i, &name, &value); i++) {
		if (upstream_is_hop_by_hop(name) || is_kept_back(name) ||
			upstream_list_has(connection, name))
			continue;
		r = buf_addf(b, "%s: %s\r\n", name, value);
	}
	return r;
}

int port_request_head(const struct http_exchange *x, unsigned port, const char *prefix,
	const char *target, struct buf *b)
{
	const char *query = http_raw_query(x), *length = http_header(x, "Content-Length"),
		   *host = http_header(x, "Host");
	const struct http_peer *peer = http_peer(x);
	/* the address the program has bound to, as a browser in the cell would say it */
	int r = buf_addf(b, "%s %s%s%s HTTP/1.1\r\nHost: localhost:%u\r\n", http_method(x), target,
		*query ? "?" : "", query, port);

	if (r == 0)
		r = add_fields(x, b);
	if (r == 0)
		r = buf_addf(b,
			"X-Forwarded-For: %s\r\nX-Forwarded-Proto: %s\r\nX-Forwarded-Prefix: "
			"%s\r\nX-Request-Id: %s\r\n",
			peer->address, peer->is_tls ? "https" : "http", prefix, http_request_id(x));
	if (r == 0 && host && *host)
		r = buf_addf(b, "X-Forwarded-Host: %s\r\n", host);
	if (r == 0 && http_header(x, "Transfer-Encoding"))
		r = buf_addz(b, "Transfer-Encoding: chunked\r\n");
	else if (r == 0 && length)
		r = buf_addf(b, "Content-Length: %s\r\n", length);
	if (r == 0 && port_is_asked_to_upgrade(x))
		r = buf_addf(b, "Connection: Upgrade\r\nUpgrade: %s\r\n\r\n",
			http_header(x, "Upgrade"));
	else if (r == 0)
		r = buf_addz(b,
			"Connection: close\r\n\r\n"); /* one connection, one request: no answer of another's can follow */
	return r;
}

/* Never from a cell: they speak for the whole origin, which is the server's and every other cell's as well. */
static bool is_of_the_origin(const char *name)
{
	static const char *const names[] = {"strict-transport-security", "clear-site-data",
		"service-worker-allowed", "alt-svc", "public-key-pins", "expect-ct", "nel",
		"report-to", "reporting-endpoints", "origin-agent-cluster", "accept-ch", NULL};

	return is_one_of(name, names);
}

static void add_set_cookie(struct http_exchange *x, const char *value, const char *prefix)
{
	auto_buf struct buf b = BUF_INIT(COOKIES_MAX);

	if (port_cookie_out(value, prefix, &b) == 0)
		(void)http_add_header(x, "Set-Cookie", buf_str(&b));
}

void port_answer_fields(struct http_exchange *x, const char *prefix,
	const struct http_field *fields)
{
	const char *connection = upstream_field(fields, "Connection");

	for (const struct http_field *f = fields; f->name; f++) {
		if (upstream_is_hop_by_hop(f->name) || is_of_the_origin(f->name) ||
			upstream_list_has(connection, f->name) ||
			!strncasecmp(f->name, "access-control-", 15))
			continue;
		if (!strcasecmp(f->name, "set-cookie")) {
			add_set_cookie(x, f->value, prefix);
			continue;
		}
		(void)http_add_header(x, f->name,
			f->value); /* Date, Content-Length and so on are ours: refused */
	}
	/* A page from a cell opened in a browser gets an origin of its own: its scripts can neither read what this server's pages
	 * keep, nor ask this server in its name. */
	(void)http_add_header(x, "Content-Security-Policy",
		"sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts");
}
