/* SPDX-License-Identifier: Apache-2.0 */
/* fetch.c: see fetch.h. */
#include "server/fetch.h"

#include <ctype.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/deps/page.h"
#include "net/client.h"

#define REDIRECTS_MAX 5
#define CONNECT_MS    15000
#define STALL_MS      60000

static bool (*cancelled)(void *arg);

void fetch_set_cancelled(bool (*is_cancelled)(void *arg))
{
	cancelled = is_cancelled;
}

struct reading {
	cell_data_fn sink;
	void *user;
};

static int take(void *arg, const void *p, size_t n)
{
	struct reading *r = arg;

	return r->sink(p, n, r->user);
}

static void copy_type(const char *header, char ret[64])
{
	size_t n = 0;

	for (; header && header[n] && header[n] != ';' && n < 63; n++)
		ret[n] = (char)tolower((unsigned char)header[n]);
	while (n && isspace((unsigned char)ret[n - 1]))
		n--;
	ret[n] = '\0';
}

/* One request. The place it sends us to, the caller's, in *ret_next. */
static int ask(const char *url, const char *accept, struct reading *rd, char ret_type[64],
	char **ret_next, struct cell_error *err)
{
	const char *scheme_end = strstr(url, "://");
	const char *path = scheme_end ? scheme_end + 3 + strcspn(scheme_end + 3, "/?#") : NULL;
	auto_free char *origin = path ? strndup(url, (size_t)(path - url)) : NULL;
	const struct http_client_options o = {
		.connect_ms = CONNECT_MS, .stall_ms = STALL_MS, .is_cancelled = cancelled};
	const struct http_field headers[] = {{"Accept", accept}, {NULL, NULL}};
	const struct http_call call = {.target = path && *path == '/' ? path : "/",
		.headers = headers,
		.sink = take,
		.arg = rd};
	struct http_client *client = NULL;
	struct http_reply reply = {0};

	if (!origin)
		return cell_fail(err, CELL_EINVAL, 0, "'%.200s' is no URL", url);
	int r = http_client_new(origin, &o, &client, err);
	if (r == 0)
		r = http_client_call(client, &call, &reply, err);
	http_client_free(client);
	if (r < 0)
		return r;
	const char *location = http_reply_header(&reply, "Location");
	copy_type(http_reply_header(&reply, "Content-Type"), ret_type);
	if (reply.status >= 300 && reply.status < 400 && location)
		*ret_next = page_join(url, location);
	else if (reply.status == 404 || reply.status == 410)
		r = cell_fail(err, CELL_ENOTFOUND, 0, "'%.200s' is not there", url);
	else if (reply.status == 401 || reply.status == 403)
		r = cell_fail(err, CELL_EDENIED, 0, "'%.200s' is not for us: status %d", url,
			reply.status);
	else if (reply.status != 200)
		r = cell_fail(err, CELL_EBACKEND, 0, "'%.200s' answers with status %d", url,
			reply.status);
	http_reply_done(&reply);
	return r;
}

int fetch_url(const char *url, const char *accept, cell_data_fn sink, void *user, char ret_type[64],
	struct cell_error *err)
{
	struct reading rd = {.sink = sink, .user = user};
	auto_free char *at = strdup(url);

	for (int i = 0; at && i <= REDIRECTS_MAX; i++) {
		char *next = NULL;
		int r = ask(at, accept, &rd, ret_type, &next, err);
		if (r < 0 || !next)
			return r;
		bool is_weaker = !strncmp(at, "https:", 6) && strncmp(next, "https:", 6) != 0;
		free(at);
		at = next;
		if (is_weaker)
			return cell_fail(err, CELL_EDENIED, 0,
				"'%.200s' leads from https to '%.160s'", url, at);
	}
	return cell_fail(err, CELL_EBACKEND, 0,
		"'%.200s' leads from one place to another without end", url);
}
