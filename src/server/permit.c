/* SPDX-License-Identifier: Apache-2.0 */
/* permit.c: see permit.h. */
#include "server/permit.h"

#include <stdlib.h>

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

void permit_ask(struct server *srv, const struct policy_request *request,
	void (*fn)(const struct policy_decision *d, void *arg), void *arg)
{
	struct policy_decision d = {0};
	struct asking *a = NULL;

	policy_decide(srv->policy, request, &d);
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
