/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c: see serve.h. The order of starting is the order of trust: configuration, who may ask (or not at all), state, what the last
 * server left, and only then a listening socket.
 */
#include "server/serve.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cell/caps.h"
#include "cell/cell.h"

#include "base/cleanup.h"
#include "net/tls.h"
#include "server/call.h"
#include "server/clock.h"
#include "server/guard.h"
#include "server/idempotency.h"
#include "server/listen.h"
#include "server/notify.h"
#include "server/outbox.h"
#include "server/post.h"
#include "server/price.h"
#include "server/privilege.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/session.h"
#include "server/settings.h"
#include "server/spool_spare.h"
#include "server/token.h"

#define DEFAULT_LISTEN "127.0.0.1:7070"
#define LISTENERS_MAX  16
#define SIGNALS_MAX    4
#define DRAIN_MS       10000
#define SWEEP_MS       1000

static const struct metrics_family families[METRIC_FAMILIES + 1] = {
	/* the ledger's come first: filled at start */
	[METRIC_REQUESTS] = {METRICS_COUNTER, "cell_http_requests_total", "Requests answered",
		{"route", "method", "status"}},
	[METRIC_REQUEST_LATENCY] = {METRICS_SECONDS, "cell_http_request_duration_seconds",
		"Time to answer", {"route", "method", "status"}},
	[METRIC_SESSIONS] = {METRICS_GAUGE, "cell_sessions", "Sessions by state", {"state"}},
	[METRIC_EXECS_RUNNING] = {METRICS_GAUGE, "cell_execs_running", "Commands running now",
		{NULL}},
	[METRIC_STREAMS] = {METRICS_GAUGE, "cell_streams", "Streams open now", {NULL}},
	[METRIC_CONNECTIONS] = {METRICS_GAUGE, "cell_http_connections", "Connections open now",
		{NULL}},
	[METRIC_RECONCILED] = {METRICS_COUNTER, "cell_reconciled_total",
		"What recovery and sweeps put right", {"what"}},
};

struct running {
	struct server srv;
	struct metrics_family families[METRIC_FAMILIES + 1];
	struct net_tls *tls;
	struct net_signal *signals[SIGNALS_MAX];
	struct listen_place places[LISTENERS_MAX];
	size_t n_places;
	bool is_exporting, is_tidying;
	char *tracing_url;
	const struct serve_options *options;
	struct read_once *retired;
	unsigned n_reloads;
};

/* ---- set-up ---- */

static void read_settings(struct server *srv)
{
	const struct cell_config *cfg = srv->cfg;

	srv->set = (struct server_settings){
		.spool_bytes = setting_number(cfg, "server.spool.bytes", 64u << 20),
		.spool_keep_ms = setting_number(cfg, "server.spool.keep", 24u * 3600 * 1000),
		.port_timeout_ms = setting_number(cfg, "server.port_timeout", 60u * 1000),
		.body_bytes = setting_number(cfg, "server.max_body", 16u << 20),
		.idle_timeout_ms = setting_number(cfg, "server.idle_timeout", 30u * 60 * 1000),
		.max_lifetime_ms = setting_number(cfg, "server.max_lifetime", 0),
		.min_tier = (int)setting_number(cfg, "server.min_tier", 2),
		.host_paths = setting_list(cfg, "server.host_paths"),
		.is_auth_disabled = setting_bool(cfg, "auth_disabled", false),
		.auth_token = setting_text(cfg, "auth_token", NULL),
	};
}

static int find_places(struct running *run, const struct serve_options *o, struct cell_error *err)
{
	auto_free const char **configured = setting_list(o->cfg, "server.listen");
	const char *const *list = o->listen && o->listen[0] ? o->listen : configured;
	static const char *const usual[] = {DEFAULT_LISTEN, NULL};

	if (!list || !list[0])
		list = usual;
	for (size_t i = 0; list[i]; i++) {
		if (run->n_places == LISTENERS_MAX)
			return cell_fail(err, CELL_EINVAL, 0, "listen: more than %d addresses",
				LISTENERS_MAX);
		int r = listen_parse(list[i], &run->places[run->n_places++], err);
		if (r < 0)
			return r;
	}
	return 0;
}

static int take_any(const struct token *t, void *user)
{
	(void)user;
	return t->revoked_ns ? 0 : 1;
}

/* Fail closed: without a way to know who asks, nobody is answered. */
static int check_auth(struct running *run, bool is_dev, struct cell_error *err)
{
	const struct server *srv = &run->srv;

	if (srv->set.is_auth_disabled) {
		if (srv->set.auth_token)
			return cell_error_hint(err,
				cell_fail(err, CELL_EINVAL, 0,
					"both server.auth_token and server.auth_disabled are set"),
				"leave one of them out");
		for (size_t i = 0; i < run->n_places; i++) {
			if (run->places[i].is_loopback)
				continue;
			int r = cell_fail(err, CELL_EDENIED, 0,
				"server.auth_disabled: others than this machine would reach port "
				"%u without a token",
				run->places[i].port);
			return cell_error_hint(err, r,
				"listen on 127.0.0.1 or a unix socket, or use tokens");
		}
		return 0;
	}
	if (srv->set.auth_token || is_dev || token_each(srv->db, NULL, take_any, NULL, NULL) == 1)
		return 0;
	int r = cell_fail(err, CELL_EDENIED, 0,
		"refusing to start: there is no token, and authentication is not disabled");
	return cell_error_hint(err, r,
		"'cell token create --role admin' makes one; or set server.auth_token; or, on "
		"loopback only, server.auth_disabled: true");
}

static int open_ledger(struct running *run, struct cell_error *err)
{
	struct server *srv = &run->srv;
	struct audit_settings a;
	int r = audit_redact_read(srv->cfg, &srv->redact, err);

	if (r < 0)
		return r;
	audit_settings_read(srv->cfg, &a);
	a.dir = srv->place.audit_dir;
	a.key_path = srv->place.audit_key;
	a.redact = srv->redact;
	r = audit_open(&a, &srv->ledger.audit, err);
	if (r == 0)
		r = usage_new(srv->db, &srv->ledger.usage, err);
	if (r == 0)
		r = usage_recover(srv->ledger.usage, srv->place.audit_dir, err);
	if (r < 0)
		return r;
	memcpy(run->families, families, sizeof families);
	memcpy(run->families, ledger_families, sizeof ledger_families);
	if (metrics_new(run->families, &srv->ledger.metrics) < 0)
		return cell_fail_errno(err, ENOMEM, "count");
	return 0;
}

static int open_state(struct running *run, struct cell_error *err)
{
	struct server *srv = &run->srv;
	const struct db_module *modules[] = {&tenant_module, &token_module, &quota_module,
		&session_module, &schedule_module, &idempotency_module, &outbox_module, NULL};
	int r = place_find(srv->cfg, true, &srv->place, err);

	if (r < 0)
		return r;
	if (mkdir(srv->place.spool, 0700) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "make '%s'", srv->place.spool);
	srv->spool_fd = open(srv->place.spool, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (srv->spool_fd < 0)
		return cell_fail_errno(err, errno, "open '%s'", srv->place.spool);
	r = db_open(srv->place.db, &srv->db, err);
	for (size_t i = 0; r == 0 && modules[i]; i++)
		r = db_migrate(srv->db, modules[i], err);
	if (r == 0)
		r = open_ledger(run, err); /* holds a lock: one server a state directory */
	if (r == 0)
		r = policy_new(srv->cfg, &srv->policy, err);
	if (r == 0)
		r = guard_settings_new(srv->cfg, &srv->guard, err);
	if (r == 0)
		r = quota_new(srv->cfg, srv->db, &srv->quota, err);
	if (r == 0)
		r = prices_new(srv->cfg, &srv->prices, err);
	return r;
}

static int open_tracing(struct running *run, struct cell_error *err)
{
	const char *url = setting_text(run->srv.cfg, "server.tracing.endpoint", NULL);

	if (!url)
		return 0;
	run->tracing_url = strdup(url);
	if (!run->tracing_url ||
		tracer_new(setting_text(run->srv.cfg, "server.tracing.service", "cell"),
			(unsigned)setting_number(run->srv.cfg, "server.tracing.sample", 100) * 10,
			0, &run->srv.tracer) < 0)
		return cell_fail_errno(err, ENOMEM, "trace");
	return 0;
}

/* ---- while it runs ---- */

static int send_spans(const char *body, size_t len, void *arg)
{
	struct running *run = arg;
	int status = 0;

	if (post_json(run->tracing_url, NULL, body, len, 5000, &status, NULL, NULL) < 0)
		return -EIO;
	return status / 100 == 2 ? 0 : -EIO;
}

static void export_work(void *arg)
{
	struct running *run = arg;

	(void)tracer_export(run->srv.tracer, send_spans, run);
}

static void export_done(void *arg)
{
	struct running *run = arg;

	run->is_exporting = false;
}

/* Waits for the disk: not on the loop. */
static void tidy_work(void *arg)
{
	struct running *run = arg;
	struct server *srv = &run->srv;
	struct cell_error err = {0};

	if (audit_tick(srv->ledger.audit, &err) < 0)
		log_failure("audit.failed", &err, "tick");
	if (outbox_drain(srv->db, srv->ledger.audit, &err) < 0)
		log_failure("audit.failed", &err, "records of other programs");
	if (usage_flush(srv->ledger.usage, &err) < 0)
		log_failure("usage.failed", &err, "flush");
}

static void tidy_done(void *arg)
{
	struct running *run = arg;

	run->is_tidying = false;
}

static void each_second(void *arg)
{
	struct running *run = arg;
	struct server *srv = &run->srv;

	if (!run->is_tidying)
		run->is_tidying = net_work(srv->loop, tidy_work, tidy_done, run) == 0;
	if (!srv->is_leaving) {
		session_sweep(srv);
		schedule_tick(srv);
	}
	if (srv->tracer && !run->is_exporting)
		run->is_exporting = net_work(srv->loop, export_work, export_done, run) == 0;
}

static void drained(void *arg)
{
	struct running *run = arg;

	net_loop_stop(run->srv.loop);
}

/* What a configuration was read into; a thread may look at it until the server ends. */
struct read_once {
	struct cell_config *cfg;
	struct policy *policy;
	struct guard_settings *guard;
	struct prices *prices;
	const char **host_paths;
	struct read_once *next;
};

static void read_once_free(struct read_once *o)
{
	policy_free(o->policy);
	guard_settings_free(o->guard);
	prices_free(o->prices);
	cell_config_free(o->cfg);
	free(o->host_paths);
	free(o);
}

/* Rules, quotas, prices, timeouts and who may ask, all of it or nothing. Where it listens and where its state is stay as they are. */
static int reload(struct running *run, struct cell_error *err)
{
	struct server *srv = &run->srv;
	struct server_settings old_set = srv->set;
	struct cell_config *old_cfg = srv->cfg;
	struct read_once *n = calloc(1, sizeof *n);
	int r = n ? 0 : cell_fail_errno(err, ENOMEM, "reload");

	if (r == 0 && run->options->reload)
		r = run->options->reload(&n->cfg, run->options->arg, err);
	else if (r == 0)
		r = cell_fail(err, CELL_ENOTSUP, 0,
			"this server cannot read its configuration again");
	if (r == 0)
		r = policy_new(n->cfg, &n->policy, err);
	if (r == 0)
		r = guard_settings_new(n->cfg, &n->guard, err);
	if (r == 0)
		r = prices_new(n->cfg, &n->prices, err);
	if (r == 0) {
		srv->cfg = n->cfg;
		read_settings(srv);
		r = check_auth(run, run->options->is_dev, err);
		if (r == 0)
			r = quota_reload(srv->quota, n->cfg, err);
		if (r < 0) {
			free(srv->set.host_paths);
			srv->set = old_set;
			srv->cfg = old_cfg;
		}
	}
	if (r < 0) {
		if (n)
			read_once_free(n);
		return r;
	}
	struct policy *policy = srv->policy;
	struct guard_settings *guard = srv->guard;
	struct prices *prices = srv->prices;
	srv->policy = n->policy;
	srv->guard = n->guard;
	srv->prices = n->prices;
	/* what was is kept: a thread may be asking the old guard just now. The first configuration is the caller's. */
	*n = (struct read_once){.cfg = run->n_reloads++ ? old_cfg : NULL,
		.policy = policy,
		.guard = guard,
		.prices = prices,
		.host_paths = old_set.host_paths,
		.next = run->retired};
	run->retired = n;
	return 0;
}

static void on_signal(void *arg, int signum)
{
	struct running *run = arg;
	struct cell_error err = {0};

	if (signum == SIGHUP) {
		notify("RELOADING=1");
		if (run->tls && net_tls_reload(run->tls, &err) < 0)
			log_failure("tls.reload", &err, "the old certificate stays");
		err = (struct cell_error){0};
		if (reload(run, &err) < 0)
			log_failure("config.reload", &err, "the old configuration stays");
		else
			log_event(LOG_INFO, "reloaded", NULL);
		notify("READY=1");
		return;
	}
	if (run->srv.is_leaving) { /* a second time: at once */
		net_loop_stop(run->srv.loop);
		return;
	}
	log_event(LOG_INFO, "leaving", "signal", sigabbrev_np(signum), NULL);
	notify("STOPPING=1");
	run->srv.is_leaving = true;
	http_drain(run->srv.http,
		(unsigned)setting_number(run->srv.cfg, "server.drain_timeout", DRAIN_MS), drained,
		run);
}

static const char *error_body(struct http_exchange *x, int status, const char *message,
	const char *request_id, struct buf *ret, void *arg)
{
	static const struct {
		int status;
		enum cell_code code;
	} codes[] = {{404, CELL_ENOTFOUND}, {413, CELL_ELIMIT}, {429, CELL_ELIMIT},
		{431, CELL_ELIMIT}, {414, CELL_ELIMIT}, {408, CELL_ETIMEOUT}, {501, CELL_ENOTSUP},
		{503, CELL_EBUSY}, {505, CELL_ENOTSUP}, {401, CELL_EDENIED}};
	struct cell_error err = {.code = status >= 500 ? CELL_EINTERNAL : CELL_EINVAL};

	(void)x;
	(void)arg;
	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (codes[i].status == status)
			err.code = codes[i].code;
	(void)snprintf(err.msg, sizeof err.msg, "%s", message);
	json_t *o = call_error_json(&err, request_id);
	auto_free char *text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	(void)buf_addz(ret, text ? text : "{}");
	return "application/json";
}

static int start_loop(struct running *run, struct cell_error *err)
{
	struct server *srv = &run->srv;
	struct net_loop_options lo = {.workers = 4, .work_queue = 1024};
	auto_free const char **origins = setting_list(srv->cfg, "server.cors_origins");
	struct http_options ho = {.handler = router_handle,
		.error_body = error_body,
		/* a proxy before it, or a platform beside it, is one peer with all the streams there are */
		.limits.connections_per_peer = 8192,
		.arg = srv,
		.cors_origins = origins && origins[0] ? origins : NULL};
	int r = net_loop_new(&lo, &srv->loop, err);

	if (r == 0)
		r = net_pool_new(srv->loop, "cell-life", 8, 4096, &srv->lives, err);
	if (r == 0)
		r = net_pool_new(srv->loop, "cell-files", 32, 4096, &srv->files, err);
	if (r == 0)
		r = net_pool_new(srv->loop, "cell-transfer", 256, 4096, &srv->transfers, err);
	if (r == 0)
		r = net_pool_new(srv->loop, "cell-watch", 256, 1, &srv->watches, err);
	if (r == 0)
		r = http_server_new(srv->loop, &ho, &srv->http, err);
	if (r == 0 && net_timer_new(srv->loop, each_second, run, &srv->second_timer) < 0)
		r = cell_fail_errno(err, ENOMEM, "serve");
	return r;
}

static int start_listening(struct running *run, const struct serve_options *o,
	struct cell_error *err)
{
	struct server *srv = &run->srv;
	const char *cert =
		o->tls_cert ? o->tls_cert : setting_text(o->cfg, "server.tls.cert", NULL);
	const char *key = o->tls_key ? o->tls_key : setting_text(o->cfg, "server.tls.key", NULL);
	int inherited = http_inherited_fds(), r = 0;

	if (!cert != !key)
		return cell_fail(err, CELL_EINVAL, 0, "TLS needs both a certificate and its key");
	if (cert)
		r = net_tls_new(cert, key, &run->tls, err);
	for (int i = 0; r == 0 && i < inherited; i++)
		r = http_listen_fd(srv->http, 3 + i, run->tls, err);
	for (size_t i = 0; r == 0 && !inherited && i < run->n_places; i++) {
		struct listen_place *p = &run->places[i];
		if (!p->is_loopback && !cert)
			log_event(LOG_WARN, "plain", "hint",
				"tokens go over the network in the clear: set server.tls, or put a "
				"proxy with TLS before it",
				NULL);
		r = listen_open(srv->http, p, run->tls, err);
	}
	return r;
}

static int tell(struct running *run, const struct serve_options *o, struct cell_error *err)
{
	const char *addresses[LISTENERS_MAX + 1] = {0};
	struct server *srv = &run->srv;
	struct token_spec spec = {.role = TOKEN_ADMIN,
		.label = "cell serve --dev",
		.expires_ns = clock_unix_ns() + 24 * 3600 * NS_PER_S};
	char text[TOKEN_TEXT_MAX] = "";
	struct token t;

	for (unsigned i = 0; i < LISTENERS_MAX; i++)
		addresses[i] = http_address(srv->http, i);
	for (unsigned i = 0; addresses[i]; i++)
		log_event(LOG_INFO, "listening", "address", addresses[i], NULL);
	if (o->is_dev && !srv->set.is_auth_disabled) {
		int r = token_create(srv->db, &spec, clock_unix_ns(), &t, text, err);
		if (r < 0)
			return r;
	}
	if (o->started)
		o->started(addresses, text[0] ? text : NULL, o->arg);
	explicit_bzero(text, sizeof text);
	return 0;
}

static void raise_limits(void)
{
	struct rlimit rl;

	/* a session is some descriptors, a client one */
	if (getrlimit(RLIMIT_NOFILE, &rl) == 0 && rl.rlim_cur < rl.rlim_max) {
		rl.rlim_cur = rl.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &rl);
	}
}

/* Cells of the kind that most sessions get, made before anybody asks. Sessions work without them, only not as soon. */
static void fill_shelf(struct server *srv)
{
	uint64_t n = setting_number(srv->cfg, "server.shelf", 0);
	const struct cell_spec *spec = NULL;
	struct cell_config *cfg = NULL;
	struct cell_error err = {0};
	json_t *asked = n ? json_object() : NULL;

	if (!asked)
		return;
	int r = session_spec(srv, asked, "shelf", true, &cfg, &err);
	if (r == 0)
		r = cell_config_spec(cfg, &spec, &err);
	if (r == 0)
		r = cell_shelf_fill(spec, (unsigned)n, &err);
	if (r < 0)
		log_event(LOG_WARN, "shelf", "error", err.msg, "hint", err.hint, NULL);
	cell_config_free(cfg);
	json_decref(asked);
}

static int start(struct running *run, const struct serve_options *o, struct cell_error *err)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
	struct server *srv = &run->srv;
	unsigned char id[16];
	const char *user = o->user ? o->user : setting_text(o->cfg, "server.user", NULL);
	int r = find_places(run, o, err);

	if (r == 0 && user)
		r = privilege_drop(user, err);
	if (r < 0)
		return r;
	if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id)
		return cell_fail_errno(err, errno, "serve");
	for (size_t i = 0; i < sizeof id; i++)
		(void)snprintf(srv->boot_id + 2 * i, 3, "%02x", id[i]);
	read_settings(srv);
	raise_limits();
	if (r == 0)
		r = open_state(run, err);
	if (r == 0)
		r = check_auth(run, o->is_dev, err);
	if (r == 0)
		r = open_tracing(run, err);
	if (r == 0)
		r = start_loop(run, err);
	for (size_t i = 0; r == 0 && i < sizeof signals / sizeof *signals; i++)
		r = net_signal_new(srv->loop, signals[i], on_signal, run, &run->signals[i], err);
	if (r == 0)
		r = session_recover(srv, err);
	if (r == 0) {
		fill_shelf(srv);
		srv->spares = spool_spares_new(srv->spool_fd, srv->files);
	}
	if (r == 0)
		r = start_listening(run, o, err);
	if (r == 0)
		r = tell(run, o, err);
	if (r < 0)
		return r;
	srv->is_ready = true;
	net_timer_start(srv->second_timer, SWEEP_MS, SWEEP_MS);
	notify("READY=1");
	return 0;
}

/* Everything that was opened; half of it may be missing. */
static void finish(struct running *run)
{
	struct server *srv = &run->srv;

	http_server_free(srv->http);
	for (size_t i = 0; i < SIGNALS_MAX; i++)
		if (run->signals[i])
			net_signal_free(run->signals[i]);
	net_timer_free(srv->second_timer);
	if (srv->loop)
		session_let_go(srv);
	/* cells of single commands that are on their way out */
	for (int i = 0; srv->loop && i < 4; i++)
		net_loop_step(srv->loop, false);
	net_pool_free(srv->lives);
	net_pool_free(srv->files);
	net_pool_free(srv->transfers);
	net_pool_free(srv->watches);
	net_loop_free(srv->loop);
	spool_spares_free(srv->spares);
	net_tls_free(run->tls);
	if (srv->ledger.usage)
		(void)usage_flush(srv->ledger.usage, NULL);
	usage_free(srv->ledger.usage);
	metrics_free(srv->ledger.metrics);
	audit_free(srv->ledger.audit);
	redact_free(srv->redact);
	policy_free(srv->policy);
	guard_settings_free(srv->guard);
	quota_free(srv->quota);
	prices_free(srv->prices);
	tracer_free(srv->tracer);
	db_free(srv->db);
	if (srv->spool_fd >= 0)
		close(srv->spool_fd);
	place_done(&srv->place);
	free(srv->set.host_paths);
	while (run->retired) {
		struct read_once *o = run->retired;
		run->retired = o->next;
		read_once_free(o);
	}
	if (run->n_reloads)
		cell_config_free(srv->cfg);
	free(run->tracing_url);
	free(run);
}

int serve(const struct serve_options *o, struct cell_error *err)
{
	struct running *run = calloc(1, sizeof *run);

	if (!run)
		return cell_fail_errno(err, ENOMEM, "serve");
	run->options = o;
	run->srv.cfg = o->cfg;
	run->srv.spool_fd = -1;
	log_set_level(o->is_verbose ? LOG_DEBUG : LOG_INFO);
	int r = start(run, o, err);
	if (r == 0)
		net_loop_run(run->srv.loop);
	finish(run);
	return r;
}
