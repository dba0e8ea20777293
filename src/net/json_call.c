/* SPDX-License-Identifier: Apache-2.0 */
#include "net/json_call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"

#define HEADERS_MAX 8

static const char *text_at(const json_t *j, const char *key)
{
	return json_string_value(json_object_get(j, key));
}

static const char *find_message(const json_t *j)
{
	const json_t *error = json_object_get(j, "error");
	const json_t *first = json_array_get(json_object_get(j, "errors"), 0);
	const char *const places[] = {text_at(j, "message"), json_string_value(error),
		text_at(error, "message"), text_at(first, "message")};

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (places[i])
			return places[i];
	return NULL;
}

void json_reply_read(struct json_reply *r)
{
	const struct buf *body = &r->http.body;

	r->json = body->len ? json_loadb((const char *)body->data, body->len,
				      JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL)
			    : NULL;
	const char *message = find_message(r->json);
	r->has_message = message != NULL;
	(void)snprintf(r->said, sizeof r->said, "%s", message ? message : buf_str(body));
	for (char *p = r->said; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = p[1] ? ' ' : '\0';
}

void json_reply_done(struct json_reply *r)
{
	http_reply_done(&r->http);
	json_decref(r->json);
	r->json = NULL;
}

int json_call(struct http_client *c, const struct http_call *call, const json_t *body,
	struct json_reply *ret, struct cell_error *err)
{
	auto_free char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct http_field headers[HEADERS_MAX + 2] = {{0}};
	struct http_call with = *call;
	size_t n = 0;

	*ret = (struct json_reply){0};
	if (body && !text)
		return cell_fail_errno(err, ENOMEM, "write a request");
	for (const struct http_field *f = call->headers; f && f->name && n < HEADERS_MAX; f++)
		headers[n++] = *f;
	if (text) {
		headers[n] = (struct http_field){"Content-Type", "application/json"};
		with.body = text;
		with.body_len = strlen(text);
	}
	with.headers = headers;
	int r = http_client_call(c, &with, &ret->http, err);
	if (r == 0)
		json_reply_read(ret);
	return r;
}

enum cell_code json_reply_code(const struct json_reply *r)
{
	static const struct {
		int status;
		enum cell_code code;
	} known[] = {{400, CELL_EINVAL}, {401, CELL_EDENIED}, {403, CELL_EDENIED},
		{404, CELL_ENOTFOUND}, {409, CELL_EBUSY}, {410, CELL_EGONE}, {429, CELL_ELIMIT},
		{501, CELL_ENOTSUP}, {504, CELL_ETIMEOUT}, {507, CELL_ENOSPACE}};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (r->http.status == known[i].status)
			return known[i].code;
	return CELL_EBACKEND;
}
