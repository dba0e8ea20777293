/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h: one request under way: who asks, for what, and how it is answered and put on record. A handler gets a call, and ends it exactly
 * once with call_json(), call_empty(), call_fail() or by answering the exchange itself and then call_done().
 *
 * Mutating handlers begin with call_permit(): policy, then the audit record of the intent. call_*() at the end writes the
 * record of the result.
 */
#pragma once
#include <jansson.h>

#include "server/server.h"
#include "server/token.h"

#define CALL_PARAMS_MAX 3

struct call;
struct seat;
struct route {
	const char *method;
	const char *
		pattern; /* "/v1/sessions/{id}/execs/{exec}"; a last "*" takes the rest of the path */
	enum token_role role;
	bool is_public;	    /* no token asked for */
	const char *action; /* for policy and audit: "session.create"; NULL: only looked at */
	bool has_json; /* its body is a JSON object (may be empty), collected before the handler */
	bool is_replayable; /* an Idempotency-Key makes its answer be kept and given again */
	void (*handler)(struct call *c);
};

struct call {
	struct server *srv;
	struct http_exchange *x;
	const struct route *route;
	struct token who;
	char params[CALL_PARAMS_MAX][512]; /* in the order of the pattern, decoded */
	const char *rest;		   /* what "*" took, as sent */
	struct session *session;	   /* referenced when the handler looked it up */
	json_t *body;
	struct trace_span span;
	int64_t started_ns;
	/* for the record */
	char action[48];
	char exec_id[64];
	char backend[32];
	json_t *details;
	struct policy_decision decision;
	struct usage_sample usage;
	bool has_intent;
	unsigned retry_after_s; /* of a 429 or 503; 0: a second */
	/* api_exec_calls.c: begins what the call asks for, in the session's cell or in one of its own */
	void (*begin)(struct call *c, struct seat *seat, bool owns_seat);
	/* idempotency.c */
	char key[256];
	char fingerprint[65];
	bool is_keyed;
};

/* May it? Rules, then the guard (which may answer later: then go() is called from the loop; before this returns when nobody is
 * asked), then the record of the intent. When it may not, the call is answered and ended, and go() not called. request's
 * tenant, role, actor and ids are filled in here. */
void call_permit(struct call *c, struct policy_request *request, void (*go)(struct call *c));

/* The answers. json is stolen. */
void call_json(struct call *c, int status, json_t *json);
void call_empty(struct call *c, int status);
void call_fail(struct call *c, const struct cell_error *err);
void call_failf(struct call *c, enum cell_code code, const char *hint, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The exchange is answered by other means: the record of the result, and the end of the call. Before the exchange is
 * ended, which stays the caller's to do. err may be NULL. */
void call_done(struct call *c, int status, const struct cell_error *err);

/* {code, message, hint, backend, request_id}; a new reference. */
json_t *call_error_json(const struct cell_error *err, const char *request_id);
int call_status_of(enum cell_code code);

/* Blocking work on a thread of the pool, then done on the loop. When the queue is full the call is answered 503 and
 * ended, and free_fn(arg) called. */
struct call_work {
	struct call *call;
	void (*work)(struct call_work *w);
	void (*done)(struct call_work *w); /* ends the call and frees w */
	struct cell_error err;
	int result;
};
bool call_start_work(struct net_pool *pool, struct call_work *w);

/* Members of the body. NULL or the default when absent; -EINVAL (the call is not ended) when of another type. */
int call_text(struct call *c, const char *name, const char **ret, struct cell_error *err);
int call_bool(struct call *c, const char *name, bool *ret, struct cell_error *err);
int call_uint(struct call *c, const char *name, uint64_t max, uint64_t *ret,
	struct cell_error *err);
/* "30s", "5m" or a number of seconds, as milliseconds. */
int call_duration(struct call *c, const char *name, uint64_t *ret_ms, struct cell_error *err);
/* A list of strings, NULL-terminated; the array is the caller's, the texts are the body's. NULL when absent. */
int call_texts(struct call *c, const char *name, const char ***ret, struct cell_error *err);
/* Only these names may be there; NULL-terminated. */
int call_known(struct call *c, const char *const *names, struct cell_error *err);
/* A query parameter as a number. */
int call_query_uint(struct call *c, const char *name, uint64_t otherwise, uint64_t *ret,
	struct cell_error *err);

/* router.c */
extern const struct route *const api_tables[]; /* each ended by a NULL method */
void router_handle(struct http_exchange *x, void *server);
/* Called by idempotency.c and router.c when a call may go on to its handler. */
void router_run(struct call *c);
void call_free(struct call *c);
