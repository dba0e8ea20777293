/* SPDX-License-Identifier: Apache-2.0 */
/* upstream.c: see upstream.h. */
#include "net/upstream.h"

#include <errno.h>
#include <llhttp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/text.h"

#define HEAD_MAX   (64u * 1024)
#define FIELDS_MAX 200

struct upstream {
	llhttp_t parser;
	const struct upstream_events *events;
	void *arg;
	struct buf head; /* name, NUL, value, NUL ... */
	unsigned n_fields;
	size_t n_head; /* bytes of heads so far, 1xx too */
	bool is_head, has_head, is_keeping, is_complete;
	int error;
};

static int on_text(llhttp_t *p, const char *at, size_t n)
{
	struct upstream *u = p->data;

	if (u->has_head)
		return 0; /* trailers are dropped */
	u->n_head += n;
	return memchr(at, '\0', n) || u->n_head > HEAD_MAX || buf_add(&u->head, at, n) < 0 ? -1 : 0;
}

static int on_text_end(llhttp_t *p)
{
	struct upstream *u = p->data;

	return !u->has_head && buf_addc(&u->head, '\0') < 0 ? -1 : 0;
}

static int on_field_end(llhttp_t *p)
{
	struct upstream *u = p->data;

	if (!u->has_head && ++u->n_fields > FIELDS_MAX)
		return -1;
	return on_text_end(p);
}

/* Names and values lie one behind the other: point at them. False: a name or value that would not survive being sent again. */
static bool index_fields(const struct upstream *u, struct http_field *ret)
{
	const char *s = u->n_fields ? (const char *)u->head.data : "";

	for (unsigned i = 0; i < u->n_fields; i++) {
		ret[i].name = s;
		s += strlen(s) + 1;
		ret[i].value = s;
		s += strlen(s) + 1;
		if (!net_is_token(ret[i].name, strlen(ret[i].name)) ||
			!net_is_field_value(ret[i].value, strlen(ret[i].value)))
			return false;
	}
	ret[u->n_fields].name = NULL;
	return true;
}

static int64_t length_of(const struct upstream *u)
{
	return u->parser.flags & F_CONTENT_LENGTH ? (int64_t)u->parser.content_length
						  : UPSTREAM_CLOSE;
}

/* Ends with its head whatever that says (RFC 9112, 6.3). What some programs send behind it all the same is not the answer's. */
static bool is_bodiless(const struct upstream *u)
{
	return u->is_head || u->parser.status_code == 204 || u->parser.status_code == 304;
}

static int on_head(llhttp_t *p)
{
	struct upstream *u = p->data;
	struct http_field fields[FIELDS_MAX + 1];

	if (p->status_code / 100 == 1 && p->status_code != 101) {
		buf_reset(&u->head);
		u->n_fields = 0;
		return 0;
	}
	u->has_head = true;
	u->is_keeping = llhttp_should_keep_alive(p);
	if (!index_fields(u, fields))
		return -1;
	u->error = u->events->head(u->arg, p->status_code, fields, length_of(u));
	if (u->error < 0)
		return -1;
	u->error = 0;
	if (p->status_code == 101)
		return 2; /* what follows is no HTTP any more */
	return is_bodiless(u) ? 1 : 0;
}

static int on_body(llhttp_t *p, const char *at, size_t n)
{
	struct upstream *u = p->data;

	u->error = u->events->body(u->arg, at, n);
	if (u->error < 0)
		return -1;
	u->error = 0;
	return 0;
}

static int on_complete(llhttp_t *p)
{
	struct upstream *u = p->data;

	if (!u->has_head)
		return 0; /* 100 Continue and the like */
	u->is_complete = true;
	return HPE_PAUSED;
}

struct upstream *upstream_new(bool is_head, const struct upstream_events *events, void *arg)
{
	static const llhttp_settings_t settings = {
		.on_header_field = on_text,
		.on_header_field_complete = on_field_end,
		.on_header_value = on_text,
		.on_header_value_complete = on_text_end,
		.on_headers_complete = on_head,
		.on_body = on_body,
		.on_message_complete = on_complete,
	};
	struct upstream *u = calloc(1, sizeof *u);

	if (!u)
		return NULL;
	u->head.max = HEAD_MAX + 2 * FIELDS_MAX + 16;
	u->events = events;
	u->arg = arg;
	u->is_head = is_head;
	llhttp_init(&u->parser, HTTP_RESPONSE, &settings);
	u->parser.data = u;
	return u;
}

void upstream_free(struct upstream *u)
{
	if (!u)
		return;
	buf_done(&u->head);
	free(u);
}

int upstream_feed(struct upstream *u, const void *p, size_t n, size_t *ret_used)
{
	*ret_used = 0;
	if (u->is_complete)
		return 0;
	enum llhttp_errno e = llhttp_execute(&u->parser, p, n);
	if (u->error < 0)
		return u->error;
	if (u->is_complete) {
		const char *at = llhttp_get_error_pos(&u->parser);
		*ret_used = at ? (size_t)(at - (const char *)p) : n;
		return 0;
	}
	*ret_used = n;
	return e == HPE_OK ? 0 : -EPROTO;
}

int upstream_finish(struct upstream *u)
{
	if (!u->is_complete && u->has_head)
		(void)llhttp_finish(&u->parser);
	return u->is_complete ? 0 : -EPROTO;
}

bool upstream_is_complete(const struct upstream *u)
{
	return u->is_complete;
}

bool upstream_is_keeping(const struct upstream *u)
{
	return u->is_keeping;
}

void upstream_take_head(struct upstream *u, struct buf *ret)
{
	*ret = u->head;
	u->head = (struct buf)BUF_INIT(0);
}

bool upstream_has_head(const struct upstream *u)
{
	return u->has_head;
}

const char *upstream_field(const struct http_field *fields, const char *name)
{
	for (; fields->name; fields++)
		if (!strcasecmp(fields->name, name))
			return fields->value;
	return NULL;
}

bool upstream_list_has(const char *list, const char *token)
{
	size_t want = strlen(token);

	while (list && *list) {
		list += strspn(list, ", \t");
		size_t n = strcspn(list, ", \t");
		if (n == want && !strncasecmp(list, token, n))
			return true;
		list += n;
	}
	return false;
}

bool upstream_is_hop_by_hop(const char *name)
{
	static const char *const names[] = {"connection", "keep-alive", "proxy-authenticate",
		"proxy-authorization", "proxy-connection", "te", "trailer", "transfer-encoding",
		"upgrade", "http2-settings"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcasecmp(name, names[i]))
			return true;
	return false;
}
