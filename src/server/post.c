/* SPDX-License-Identifier: Apache-2.0 */
/* post.c: see post.h. */
#include "server/post.h"

#include <string.h>

#include "base/cleanup.h"
#include "net/client.h"
#include "net/text.h"

static void client_freep(struct http_client **c)
{
	http_client_free(*c);
}

int post_json(const char *url, const char *token, const char *body, size_t len, unsigned timeout_ms,
	int *ret_status, struct buf *ret_body, struct cell_error *err)
{
	auto_(client_freep) struct http_client *client = NULL;
	struct http_client_options options = {.connect_ms = timeout_ms, .stall_ms = timeout_ms};
	auto_(http_reply_done) struct http_reply reply = {0};
	char bearer[1024];
	struct http_field headers[] = {
		{"Content-Type", "application/json"}, {NULL, NULL}, {NULL, NULL}};
	struct http_call call = {.method = "POST",
		.headers = headers,
		.body = body,
		.body_len = len,
		.max_body = ret_body ? ret_body->max : 65536,
		.timeout_ms = timeout_ms};

	if (token) {
		(void)snprintf(bearer, sizeof bearer, "Bearer %s", token);
		headers[1] = (struct http_field){"Authorization", bearer};
	}
	struct net_url u;
	char base[400];
	int r = net_url_parse(url, &u, err);
	if (r < 0)
		return r;
	if (u.scheme == NET_UNIX)
		(void)snprintf(base, sizeof base, "unix:%s", u.host);
	else
		(void)snprintf(base, sizeof base, "%s://%s",
			u.scheme == NET_HTTPS ? "https" : "http", u.authority);
	call.target = u.path;
	r = http_client_new(base, &options, &client, err);
	if (r == 0)
		r = http_client_call(client, &call, &reply, err);
	explicit_bzero(bearer, sizeof bearer);
	if (r < 0)
		return r;
	*ret_status = reply.status;
	if (ret_body && buf_add(ret_body, reply.body.data, reply.body.len) < 0)
		return cell_fail_errno(err, ENOMEM, "read the answer of '%s'", url);
	return 0;
}
