/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h: an outside opinion. The request goes to a URL as JSON by POST, {"decision":
 * "allow"|"deny", "reason": "..."} comes back. Anything else, an error, a wait too long, is deny:
 * a guard that cannot be asked has not agreed.
 *
 *	server:
 *	  guard: {url: "https://guard.example/decide", timeout: 2s, token: "...", on: ask} # on:
 *	  ask | all
 *
 * The call itself is a function of the caller's, so that this knows nothing of networks.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "server/policy.h"

#define GUARD_ANSWER_MAX (64u * 1024)

struct guard_settings {
	char *url, *token;
	uint64_t timeout_ms;
	bool asks_all; /* also what the rules allow, not only `ask` */
};
/* *ret is NULL when no guard is configured. */
int guard_settings_new(struct cell_config *cfg, struct guard_settings **ret,
	struct cell_error *err);
void guard_settings_free(struct guard_settings *g);

/* POST body to url with Content-Type application/json and, when token is set, Authorization:
 * Bearer. The answer's status and body. Must give up after timeout_ms and never follow a
 * redirect. Negative with err when there is no answer. */
typedef int (*guard_call_fn)(const struct guard_settings *g, const char *body, size_t len,
	int *ret_status, struct buf *ret_body, void *user, struct cell_error *err);

/* Does this decision go to the guard? g may be NULL. */
bool guard_is_asked(const struct guard_settings *g, const struct policy_decision *d);

/* What is sent. Negative when it cannot be said, which is deny: *d says so then. */
int guard_body(const struct policy_request *q, struct policy_decision *d, struct buf *ret);
/* Send it and judge the answer into *d, rule "guard"; blocking. */
void guard_ask(const struct guard_settings *g, const struct buf *body, guard_call_fn call,
	void *user, struct policy_decision *d);
/* What an answer means. status 0: there was none, `body` says why. */
void guard_judge(int status, const char *body, size_t len, struct policy_decision *d);
/* Not allowed, by "guard". */
void guard_refuse(struct policy_decision *d, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
