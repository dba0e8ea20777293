/* SPDX-License-Identifier: Apache-2.0 */
/*
 * json_call.h: a call to a service that speaks JSON: what is sent, what is answered, and what an answer says in words. What a
 * refusal means is the caller's to tell, who knows what was asked for.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "net/client.h"

#define JSON_SAID_SIZE 1000

struct json_reply {
	struct http_reply http;
	json_t *json; /* the body; NULL: it is none, or broken */
	/* Its message, where services put one ({"message"}, {"error"}, {"error": {"message"}}, {"errors": [{"message"}]}), else the body as it
	 * is; of one line, and not ours: quote it. */
	char said[JSON_SAID_SIZE];
	bool has_message;
};

/* http_client_call() with `body`, borrowed, as its body; NULL: the call's own, or none. */
int json_call(struct http_client *c, const struct http_call *call, const json_t *body,
	struct json_reply *ret, struct cell_error *err);
/* Of an answer that came in another way. Takes r->http as it is, fills the rest. */
void json_reply_read(struct json_reply *r);
void json_reply_done(struct json_reply *r);

/* What a status that is no success means, when nothing else is known. */
enum cell_code json_reply_code(const struct json_reply *r);
