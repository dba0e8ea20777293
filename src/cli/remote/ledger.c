/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c: see ledger.h. */
#include "cli/remote/ledger.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/memory.h"
#include "cli/remote/remote.h"
#include "server/clock.h"

#define PAGE_MAX 10000

/* ---- tokens ---- */

static int64_t time_of(const json_t *o, const char *name)
{
	int64_t ns = 0;

	(void)clock_parse(remote_text(o, name), &ns);
	return ns;
}

static struct token token_of(const json_t *o)
{
	int role = token_role_find(remote_text(o, "role"));
	struct token t = {.role = role < 0 ? TOKEN_READ_ONLY : (enum token_role)role,
		.created_ns = time_of(o, "created_at"),
		.expires_ns = time_of(o, "expires_at"),
		.revoked_ns = time_of(o, "revoked_at"),
		.last_used_ns = time_of(o, "last_used_at")};

	(void)snprintf(t.id, sizeof t.id, "%s", remote_text(o, "id"));
	(void)snprintf(t.tenant, sizeof t.tenant, "%s", remote_text(o, "tenant"));
	(void)snprintf(t.label, sizeof t.label, "%s", remote_text(o, "label"));
	return t;
}

int remote_token_create(const struct token_spec *spec, int64_t now_ns, struct token *ret,
	char text[TOKEN_TEXT_MAX], struct cell_error *err)
{
	json_t *body = json_pack("{s:s*, s:s, s:s*}", "tenant", spec->tenant, "role",
		       token_role_name(spec->role), "label", spec->label),
	       *o = NULL;

	if (spec->expires_ns)
		(void)json_object_set_new(body, "ttl",
			json_real((double)(spec->expires_ns - now_ns) / 1e9));
	/* Once: the server keeps no answer that has a token in it. */
	int r = remote_call(&(struct remote_request){.method = "POST",
				    .target = "/v1/tokens",
				    .body = body,
				    .is_once = true},
		&o, err);
	if (r == 0) {
		*ret = token_of(o);
		(void)snprintf(text, TOKEN_TEXT_MAX, "%s", remote_text(o, "token"));
	}
	json_decref(o);
	return r;
}

int remote_token_each(const char *tenant, int (*fn)(const struct token *t, void *user), void *user,
	struct cell_error *err)
{
	auto_free char *target = remote_target(NULL, "/tokens", "tenant", tenant, NULL);
	json_t *page = NULL, *o;
	size_t i;
	int r = remote_call(&(struct remote_request){.target = target}, &page, err);

	json_array_foreach (json_object_get(page, "tokens"), i, o) {
		struct token t = token_of(o);
		if (r == 0)
			r = fn(&t, user);
	}
	json_decref(page);
	return r;
}

int remote_token_revoke(const char *id, struct cell_error *err)
{
	auto_free char *path = cli_format("/tokens/%s", id);
	auto_free char *target = remote_target(NULL, path, NULL);

	return remote_call(&(struct remote_request){.method = "DELETE",
				   .target = target,
				   .is_change = true},
		NULL, err);
}

/* ---- audit ---- */

struct page {
	audit_record_fn fn;
	void *user;
	uint64_t n, last_seq;
};

static int take_record(void *user, json_t *o, const struct buf *line)
{
	struct page *p = user;

	p->n++;
	p->last_seq = (uint64_t)remote_int(o, "seq");
	return o ? p->fn(o, buf_str(line), line->len, p->user) : -EPROTO;
}

int remote_audit_query(const struct audit_filter *f, audit_record_fn fn, void *user,
	struct cell_error *err)
{
	struct page p = {.fn = fn, .user = user};
	struct json_lines lines = {.take = take_record, .user = &p, .line = BUF_INIT(4u << 20)};
	char since[CLOCK_TEXT_MAX] = "", until[CLOCK_TEXT_MAX] = "";
	uint64_t after = f->after_seq, left = f->limit;
	int r;

	if (f->since_ns)
		(void)clock_text(f->since_ns, since);
	if (f->until_ns)
		(void)clock_text(f->until_ns, until);
	do {
		uint64_t want = !f->limit || left > PAGE_MAX ? PAGE_MAX : left;
		auto_free char *from = cli_format("%" PRIu64, after),
			       *limit = cli_format("%" PRIu64, want);
		auto_free char *last = f->last ? cli_format("%" PRIu64, f->last) : NULL;
		auto_free char *target = remote_target(NULL, "/audit", "after", from, "limit",
			limit, "last", last, "since", *since ? since : NULL, "until",
			*until ? until : NULL, "tenant", f->tenant, "actor", f->actor, "session",
			f->session, "backend", f->backend, "exec", f->exec, "request_id",
			f->request_id, "trace", f->trace, "action", f->action, "kind", f->kind,
			"effect", f->effect, NULL);
		p.n = 0;
		r = remote_call(&(struct remote_request){.target = target,
					.sink = json_lines_add,
					.arg = &lines},
			NULL, err);
		after = p.last_seq;
		left -= f->limit ? p.n : 0;
	} while (r == 0 && p.n == PAGE_MAX && !f->last && (!f->limit || left));
	json_lines_done(&lines);
	return r;
}

/* ---- usage ---- */

int remote_usage(const char *by, const char *since, const char *until, const char *tenant,
	const char *session, const char *backend, const char *operation, json_t **ret,
	struct cell_error *err)
{
	auto_free char *target = remote_target(NULL, "/usage", "by", by, "since", since, "until",
		until, "tenant", tenant, "session", session, "backend", backend, "operation",
		operation, NULL);

	return remote_call(&(struct remote_request){.target = target}, ret, err);
}
