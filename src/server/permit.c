/* SPDX-License-Identifier: Apache-2.0 */
/* permit.c: see permit.h. */
#include "server/permit.h"

#include <stdlib.h>
#include <string.h>

#include "server/guard.h"
#include "server/post.h"
#include "server/server.h"

/* On its way to the guard and back. */
struct asking {
	const struct guard_settings *guard; /* a reload keeps what was */
	struct buf body;
	struct policy_decision decision;
	void (*fn)(const struct policy_decision *d, void *arg);
	void *arg;
};

static void asking_free(struct asking *a)
{
	if (!a)
		return;
	buf_done(&a->body);
	free(a);
}

/* guard_call_fn over net's client. */
static int call_guard(const struct guard_settings *g, const char *body, size_t len, int *ret_status,
	struct buf *ret_body, void *user, struct cell_error *err)
{
	(void)user;
	return post_json(g->url, g->token, body, len, (unsigned)g->timeout_ms, ret_status, ret_body,
		err);
}

static void ask_work(void *arg)
{
	struct asking *a = arg;

	guard_ask(a->guard, &a->body, call_guard, NULL, &a->decision);
}

static void ask_done(void *arg)
{
	struct asking *a = arg;

	a->fn(&a->decision, a->arg);
	asking_free(a);
}

/* Code for a context that names no language: the guest knows which it is, we do not. So it is judged as every one that it could be, and the
 * strictest word counts; whoever names the language is judged by that alone, and the guest sees to it that it is true. */
static void decide(struct policy *p, const struct policy_request *request,
	struct policy_decision *ret)
{
	static const char *const languages[] = {"python", "javascript", "shell", "sql"};
	static const int strictness[] = {[POLICY_ALLOW] = 0, [POLICY_ASK] = 1, [POLICY_DENY] = 2};

	policy_decide(p, request, ret);
	for (size_t i = 0;
		request->code && !request->language && i < sizeof languages / sizeof *languages;
		i++) {
		struct policy_request q = *request;
		struct policy_decision d = {0};
		q.language = languages[i];
		q.shell = strcmp(languages[i], "shell") ? NULL : request->code;
		policy_decide(p, &q, &d);
		if (strictness[d.effect] > strictness[ret->effect])
			*ret = d;
	}
}

void permit_ask(struct server *srv, const struct policy_request *request,
	void (*fn)(const struct policy_decision *d, void *arg), void *arg)
{
	struct policy_decision d = {0};
	struct asking *a = NULL;

	decide(srv->policy, request, &d);
	if (guard_is_asked(srv->guard, &d)) {
		a = calloc(1, sizeof *a);
		if (a) {
			*a = (struct asking){.guard = srv->guard, .fn = fn, .arg = arg};
			a->decision = d;
		}
		if (a && guard_body(request, &a->decision, &a->body) < 0)
			d = a->decision;
		else if (a && net_work(srv->loop, ask_work, ask_done, a) == 0)
			return;
		else
			guard_refuse(&d, "the guard cannot be asked now: too much is under way");
	}
	asking_free(a);
	fn(&d, arg);
}
