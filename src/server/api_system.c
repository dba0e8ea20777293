/* SPDX-License-Identifier: Apache-2.0 */
/* api_system.c: health, metrics, what this server can do, and its own description. */
#include <string.h>

#include "cell/caps.h"
#include "cell/cell.h"

#include "server/api.h"
#include "server/filework.h"
#include "server/session.h"

extern const unsigned char cell_openapi[], cell_openapi_end[], cell_openapi_page[],
	cell_openapi_page_end[];

#define BACKENDS_MAX 64

static void healthz(struct call *c)
{
	call_json(c, 200, json_pack("{s:s, s:s}", "status", "ok", "version", cell_version()));
}

/* Not while it recovers, and not while it leaves: a load balancer sends nobody then. */
static void readyz(struct call *c)
{
	bool is_ready = c->srv->is_ready && !c->srv->is_leaving;

	if (!is_ready)
		(void)http_add_header(c->x, "Retry-After", "1");
	call_json(c, is_ready ? 200 : 503, json_pack("{s:b}", "ready", is_ready));
}

/* Counted when somebody asks: sessions come and go far more often. */
static void count_sessions(struct server *srv)
{
	int64_t n[SESSION_STATES] = {0};
	struct session *s, *next;

	HASH_ITER (hh, srv->sessions, s, next)
		n[s->state]++;
	for (int i = 0; i < SESSION_STATES; i++)
		metrics_set(srv->ledger.metrics, METRIC_SESSIONS,
			(const char *[]){session_state_name((enum session_state)i)}, n[i]);
}

static void metrics(struct call *c)
{
	struct buf b = BUF_INIT(METRICS_TEXT_MAX);
	struct http_stats stats;
	struct http_exchange *x = c->x;

	http_stats(c->srv->http, &stats);
	count_sessions(c->srv);
	metrics_set(c->srv->ledger.metrics, METRIC_EXECS_RUNNING, NULL, c->srv->n_execs);
	metrics_set(c->srv->ledger.metrics, METRIC_STREAMS, NULL, c->srv->n_streams);
	metrics_set(c->srv->ledger.metrics, METRIC_CONNECTIONS, NULL, stats.connections);
	if (metrics_text(c->srv->ledger.metrics, &b) < 0) {
		buf_done(&b);
		call_failf(c, CELL_ENOSPACE, "", "no memory for the metrics");
		return;
	}
	call_done(c, 200, NULL);
	http_respond_own(x, 200, METRICS_CONTENT_TYPE, b.data, b.len, free);
}

static json_t *words(cell_caps caps)
{
	json_t *list = json_array();

	for (int i = 0; i < CELL_CAP_COUNT; i++)
		if (caps & CELL_CAP_BIT(i))
			(void)json_array_append_new(list,
				json_string(cell_cap_name((enum cell_cap)i)));
	return list;
}

static json_t *backend_json(const struct cell_backend_info *b)
{
	json_t *lacks = json_array();

	for (size_t i = 0; i < b->n_lacks; i++)
		(void)json_array_append_new(lacks,
			json_pack("{s:s, s:s, s:s}", "capability", cell_cap_name(b->lacks[i].cap),
				"reason", b->lacks[i].reason, "fix", b->lacks[i].fix));
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:b, s:b, s:s, s:s, s:o, s:o, s:o}",
		"name", b->name, "summary", b->summary ? b->summary : "", "wall",
		b->wall ? b->wall : "", "needs", b->needs, "take_for", b->take_for, "not_for",
		b->not_for, "tier", b->tier, "built", b->is_built, "usable", b->is_usable, "reason",
		b->reason, "fix", b->fix, "capabilities", words(b->is_usable ? b->caps : 0),
		"declared", words(b->declared), "lacks", lacks);
}

/* Probing may take a while: on a thread. */
struct probing {
	struct call *c;
	json_t *list;
};

static void probe_work(void *arg)
{
	struct probing *p = arg;
	struct cell_backend_info *all = calloc(BACKENDS_MAX, sizeof *all);

	p->list = json_array();
	size_t n = all ? cell_backends_probe(all, BACKENDS_MAX) : 0;
	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(p->list, backend_json(&all[i]));
	free(all);
}

static void probe_done(void *arg)
{
	struct probing *p = arg;

	call_json(p->c, 200, json_pack("{s:o}", "backends", p->list));
	free(p);
}

static void backends(struct call *c)
{
	struct probing *p = calloc(1, sizeof *p);

	if (p)
		p->c = c;
	if (!p || net_pool_work(c->srv->lives, probe_work, probe_done, p) < 0) {
		free(p);
		call_failf(c, CELL_EBUSY, "try again in a second", "too much is under way");
	}
}

static void who_am_i(struct call *c)
{
	call_json(c, 200,
		json_pack("{s:s, s:s, s:s, s:s}", "id", c->who.id, "tenant", c->who.tenant, "role",
			token_role_name(c->who.role), "version", cell_version()));
}

static void capabilities(struct call *c)
{
	json_t *o = json_object();

	for (int i = 0; i < CELL_CAP_COUNT; i++)
		(void)json_object_set_new(o, cell_cap_name((enum cell_cap)i),
			json_string(cell_cap_meaning((enum cell_cap)i)));
	call_json(c, 200, json_pack("{s:o}", "capabilities", o));
}

/* ---- of one session ---- */

static int take_stats(const struct cell_platform *p, void *user)
{
	struct filework *w = user;
	bool is_known = p->processes > 0;

	w->answer = json_pack("{s:i, s:i, s:o, s:o, s:o}", "commands", (int)p->execs_running,
		"clients", (int)p->clients, "cpu_us",
		is_known ? json_integer((json_int_t)(p->cpu_ns / 1000)) : json_null(),
		"memory_bytes",
		is_known ? json_integer((json_int_t)p->used_memory_bytes) : json_null(),
		"processes", is_known ? json_integer(p->processes) : json_null());
	return 0;
}

static int run_stats(struct filework *w, struct cell_error *err)
{
	return cell_platform(w->cell, take_stats, w, err);
}

static void stats_done(struct filework *w)
{
	struct call *c = w->call;
	const struct session *s = c->session;
	json_t *o = w->answer ? json_incref(w->answer) : json_object();

	filework_free(w);
	(void)json_object_set_new(o, "session", json_string(s->id));
	(void)json_object_set_new(o, "execs_running", json_integer(s->n_execs));
	(void)json_object_set_new(o, "spool_bytes",
		json_integer((json_int_t)session_spool_bytes(s)));
	call_json(c, 200, o);
}

static void stats(struct call *c)
{
	if (!api_session(c))
		return;
	if (c->session->state == SESSION_READY && c->session->is_paused) {
		api_paused_stats(c);
		return;
	}
	if (!api_ready_session(c))
		return;
	if (!c->session->seat) { /* no cell between commands */
		call_json(c, 200,
			json_pack("{s:s, s:i, s:i, s:i, s:n, s:n, s:n, s:I}", "session",
				c->session->id, "execs_running", (int)c->session->n_execs,
				"commands", 0, "clients", 0, "cpu_us", "memory_bytes", "processes",
				"spool_bytes", (json_int_t)session_spool_bytes(c->session)));
		return;
	}
	struct filework *w = filework_new(c);
	if (!w)
		return;
	w->run = run_stats;
	w->done = stats_done;
	w->is_look = true;
	filework_start(w);
}

static int take_platform(const struct cell_platform *p, void *user)
{
	struct filework *w = user;

	bool is_known = p->processes > 0;

	w->answer = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:I, s:s, s:I, s:I, "
			      "s:i, s:i, s:o, s:o, s:o}",
		"os", p->os, "os_version", p->os_version, "kernel", p->kernel, "arch", p->arch,
		"hostname", p->hostname, "workspace", p->workspace, "user", p->user, "uid",
		(int)p->uid, "cpus", (int)p->cpus, "memory_bytes", (json_int_t)p->memory_bytes,
		"guest_version", p->guest_version, "guest_pid", (json_int_t)p->guest_pid,
		"guest_rss_bytes", (json_int_t)p->guest_rss_bytes, "execs_running",
		(int)p->execs_running, "clients", (int)p->clients, "cpu_us",
		is_known ? json_integer((json_int_t)(p->cpu_ns / 1000)) : json_null(),
		"used_memory_bytes",
		is_known ? json_integer((json_int_t)p->used_memory_bytes) : json_null(),
		"processes", is_known ? json_integer(p->processes) : json_null());
	return 0;
}

static int run_platform(struct filework *w, struct cell_error *err)
{
	int r = cell_platform(w->cell, take_platform, w, err);
	json_t *list = json_array();

	for (int i = 0; i < CELL_CAP_COUNT; i++)
		if (cell_supports(w->cell, (enum cell_cap)i))
			(void)json_array_append_new(list,
				json_string(cell_cap_name((enum cell_cap)i)));
	if (w->answer)
		(void)json_object_set_new(w->answer, "capabilities", list);
	else
		json_decref(list);
	return r;
}

static void have_platform(struct filework *w)
{
	struct call *c = w->call;
	json_t *o = w->answer;

	w->answer = NULL;
	filework_free(w);
	call_json(c, 200, o);
}

static void platform(struct call *c)
{
	if (!api_ready_session(c))
		return;
	if (!c->session->seat) {
		call_failf(c, CELL_ENOTSUP, "",
			"an ephemeral session has no cell between its commands");
		return;
	}
	struct filework *w = filework_new(c);
	if (!w)
		return;
	w->run = run_platform;
	w->done = have_platform;
	w->is_look = true;
	filework_start(w);
}

/* ---- its description ---- */

static void openapi(struct call *c)
{
	struct http_exchange *x = c->x;

	call_done(c, 200, NULL);
	http_respond(x, 200, "application/yaml", cell_openapi,
		(size_t)(cell_openapi_end - cell_openapi));
}

static void page(struct call *c)
{
	struct http_exchange *x = c->x;

	call_done(c, 200, NULL);
	(void)http_add_header(x, "Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'");
	http_respond(x, 200, "text/html; charset=utf-8", cell_openapi_page,
		(size_t)(cell_openapi_page_end - cell_openapi_page));
}

const struct route api_system_routes[] = {
	{"GET", "/healthz", .is_public = true, .handler = healthz},
	{"GET", "/readyz", .is_public = true, .handler = readyz},
	{"GET", "/openapi.yaml", .is_public = true, .handler = openapi},
	{"GET", "/", .is_public = true, .handler = page},
	{"GET", "/metrics", TOKEN_ADMIN, .handler = metrics},
	{"GET", "/v1/backends", TOKEN_READ_ONLY, .handler = backends},
	{"GET", "/v1/capabilities", TOKEN_READ_ONLY, .handler = capabilities},
	{"GET", "/v1/sessions/{session}/stats", TOKEN_READ_ONLY, .handler = stats},
	{"GET", "/v1/whoami", TOKEN_READ_ONLY, .handler = who_am_i},
	{"GET", "/v1/sessions/{session}/platform", TOKEN_READ_ONLY, .handler = platform},
	{NULL},
};
