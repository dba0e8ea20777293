/* SPDX-License-Identifier: Apache-2.0 */
/* http_server.c: all connections together: limits, time, drain, what was put off. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "net/http_internal.h"
#include "net/text.h"

static void set_defaults(struct http_limits *l)
{
	static const struct http_limits usual = {
		.head_bytes = 32u * 1024,
		.target_bytes = 8u * 1024,
		.headers = 100,
		.body_bytes = 1024u * 1024 * 1024,
		.queued_bytes = 256u * 1024,
		.pipelined_bytes = 64u * 1024,
		.connections = 8192,
		.connections_per_peer = 1024,
		.head_ms = 10000,
		.idle_ms = 75000,
		.progress_ms = 60000,
		.handshake_ms = 10000,
	};
#define DEFAULT(field) l->field = l->field ? l->field : usual.field
	DEFAULT(head_bytes);
	DEFAULT(target_bytes);
	DEFAULT(headers);
	DEFAULT(body_bytes);
	DEFAULT(queued_bytes);
	DEFAULT(pipelined_bytes);
	DEFAULT(connections);
	DEFAULT(connections_per_peer);
	DEFAULT(head_ms);
	DEFAULT(idle_ms);
	DEFAULT(progress_ms);
	DEFAULT(handshake_ms);
#undef DEFAULT
}

/* --- what was put off --- */

static void in_a_hurry(uv_idle_t *h)
{
	(void)h;
}

static void run_kicks(struct http_server *s)
{
	struct http_conn *c = s->kicks;

	s->kicks = NULL;
	s->kicks_tail = &s->kicks;
	s->is_kicking = true;
	while (c) {
		struct http_conn *next = c->next_kick;
		c->is_kicked = false;
		conn_kicked(c);
		c = next;
	}
	s->is_kicking = false;
	/* What came meanwhile has its turn after a look at the sockets, but without waiting for them. */
	if (s->kicks)
		(void)uv_idle_start(&s->hurry, in_a_hurry);
	else
		(void)uv_idle_stop(&s->hurry);
}

static void handle_closed(uv_handle_t *h);

static void maybe_gone(struct http_server *s)
{
	if (!s->is_draining || s->conns)
		return;
	if (s->drained) {
		void (*done)(void *) = s->drained;
		s->drained = NULL;
		(void)uv_timer_stop(&s->drain_limit);
		done(s->drained_arg); /* which may free the server */
		return;
	}
	if (s->is_freed && s->n_handles == 5 && !uv_is_closing((uv_handle_t *)&s->prepare)) {
		uv_close((uv_handle_t *)&s->prepare, handle_closed);
		uv_close((uv_handle_t *)&s->hurry, handle_closed);
		uv_close((uv_handle_t *)&s->sweep, handle_closed);
		uv_close((uv_handle_t *)&s->accept_again, handle_closed);
		uv_close((uv_handle_t *)&s->drain_limit, handle_closed);
	}
}

static void on_prepare(uv_prepare_t *p)
{
	struct http_server *s = p->data;

	if (s->kicks)
		run_kicks(s);
	maybe_gone(s);
}

void server_kick(struct http_server *s, struct http_conn *c)
{
	c->next_kick = NULL;
	*s->kicks_tail = c;
	s->kicks_tail = &c->next_kick;
}

/* --- connections --- */

static void on_sweep(uv_timer_t *t)
{
	struct http_server *s = t->data;
	uint64_t now_ms = net_loop_now_ms(s->loop);

	/* Connections are only freed from run_kicks(): the list stays whole meanwhile. */
	for (struct http_conn *c = s->conns; c; c = c->next)
		conn_check_time(c, now_ms);
}

void server_add(struct http_server *s, struct http_conn *c)
{
	c->next = s->conns;
	if (s->conns)
		s->conns->prev = c;
	else
		(void)uv_timer_start(&s->sweep, on_sweep, s->sweep_ms, s->sweep_ms);
	s->conns = c;
	s->stats.connections++;
	s->stats.accepted++;
}

void server_remove(struct http_server *s, struct http_conn *c)
{
	if (c->prev)
		c->prev->next = c->next;
	else
		s->conns = c->next;
	if (c->next)
		c->next->prev = c->prev;
	s->stats.connections--;
	if (!s->conns)
		(void)uv_timer_stop(&s->sweep);
	if (s->is_accept_paused)
		listeners_resume(s);
}

static void peer_key(const struct http_conn *c, uint8_t key[17])
{
	struct in6_addr v6;
	struct in_addr v4;

	memset(key, 0, 17);
	if (c->peer.is_unix) {
		key[0] = 'u';
		memcpy(key + 1, &c->peer.uid, sizeof c->peer.uid);
	} else if (inet_pton(AF_INET, c->peer.address, &v4) == 1) {
		key[0] = '4';
		memcpy(key + 1, &v4, sizeof v4);
	} else if (inet_pton(AF_INET6, c->peer.address, &v6) == 1) {
		key[0] = '6';
		memcpy(key + 1, &v6, 8); /* one customer has a /64 */
	}
}

/* Where the key's entry is, or where one would be put. */
static struct peer_count **find_peer(struct http_server *s, const uint8_t key[17])
{
	uint64_t h = s->peer_seed;

	for (int i = 0; i < 17; i++)
		h = (h ^ key[i]) * 0x100000001b3u;
	struct peer_count **p = &s->peers[(h ^ h >> 32) % PEER_BUCKETS];
	while (*p && memcmp((*p)->key, key, sizeof(*p)->key) != 0)
		p = &(*p)->next;
	return p;
}

bool server_count_peer(struct http_server *s, struct http_conn *c)
{
	uint8_t key[17];

	peer_key(c, key);
	struct peer_count **p = find_peer(s, key);
	if (!*p) {
		*p = calloc(1, sizeof **p);
		if (!*p)
			return false;
		memcpy((*p)->key, key, sizeof key);
	}
	if ((*p)->n >= s->o.limits.connections_per_peer)
		return false;
	(*p)->n++;
	c->counted = *p;
	return true;
}

void server_uncount_peer(struct http_server *s, struct http_conn *c)
{
	struct peer_count *gone = c->counted;

	c->counted = NULL;
	if (gone && --gone->n == 0) {
		*find_peer(s, gone->key) = gone->next;
		free(gone);
	}
}

/* --- small services --- */

void server_request_id(struct http_server *s, char ret[REQUEST_ID_MAX + 1])
{
	static const char digits[] = "0123456789abcdef";

	if (s->random_left < 16) {
		/* Cannot fail for so few bytes once the kernel has seeded itself. */
		if (getrandom(s->random, 256, 0) != 256 ||
			getrandom(s->random + 256, 256, 0) != 256)
			abort();
		s->random_left = sizeof s->random;
	}
	const uint8_t *p = s->random + (s->random_left -= 16);
	for (int i = 0; i < 16; i++) {
		ret[2 * i] = digits[p[i] >> 4];
		ret[2 * i + 1] = digits[p[i] & 15];
	}
	ret[32] = '\0';
}

const char *server_date_line(struct http_server *s)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_REALTIME_COARSE, &now);
	if (now.tv_sec != s->date_s) {
		char date[30];
		s->date_s = now.tv_sec;
		net_http_date(now.tv_sec, date);
		(void)snprintf(s->date_line, sizeof s->date_line, "Date: %s\r\n%s%s%s", date,
			s->server_name ? "Server: " : "", s->server_name ? s->server_name : "",
			s->server_name ? "\r\n" : "");
	}
	return s->date_line;
}

void http_stats(const struct http_server *s, struct http_stats *ret)
{
	*ret = s->stats;
}

bool http_is_draining(const struct http_server *s)
{
	return s->is_draining;
}

/* --- drain --- */

static void on_drain_limit(uv_timer_t *t)
{
	struct http_server *s = t->data;

	for (struct http_conn *c = s->conns; c; c = c->next)
		conn_close(c);
}

void http_drain(struct http_server *s, unsigned deadline_ms, void (*done)(void *arg), void *arg)
{
	s->is_draining = true;
	s->drained = done;
	s->drained_arg = arg;
	listeners_close(s);
	for (struct http_conn *c = s->conns; c; c = c->next) {
		if (conn_is_idle(c))
			conn_close(c);
		else
			conn_kick(c);
	}
	(void)uv_timer_start(&s->drain_limit, on_drain_limit, deadline_ms, 0);
}

/* --- birth and death --- */

static void free_list(char **list, size_t n)
{
	for (size_t i = 0; list && i < n; i++)
		free(list[i]);
	free(list);
}

static void server_destroy(struct http_server *s)
{
	size_t n = 0;

	while (s->origins && s->origins[n])
		n++;
	free_list(s->origins, n);
	free_list(s->addresses, s->n_addresses);
	free(s->server_name);
	free(s->scratch);
	buf_done(&s->batch);
	buf_done(&s->build);
	buf_done(&s->error_text);
	buf_done(&s->gzipped);
	if (s->has_gzip)
		(void)deflateEnd(&s->gzip);
	if (s->reserve_fd >= 0)
		close(s->reserve_fd);
	free(s);
}

static void handle_closed(uv_handle_t *h)
{
	struct http_server *s = h->data;

	if (--s->n_handles == 0)
		server_destroy(s);
}

void http_server_free(struct http_server *s)
{
	if (!s || s->is_freed)
		return;
	s->is_freed = true;
	s->is_draining = true;
	s->drained = NULL;
	(void)uv_timer_stop(&s->drain_limit);
	listeners_close(s);
	for (struct http_conn *c = s->conns; c; c = c->next)
		conn_close(c);
	maybe_gone(s);
}

static int copy_options(struct http_server *s, const struct http_options *o)
{
	size_t n = 0;

	s->o = *o;
	set_defaults(&s->o.limits);
	while (o->cors_origins && o->cors_origins[n])
		n++;
	if (n > 0 && !(s->origins = calloc(n + 1, sizeof *s->origins)))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (!(s->origins[i] = strdup(o->cors_origins[i])))
			return -ENOMEM;
	if (o->server_name && (!net_is_field_value(o->server_name, strlen(o->server_name)) ||
				      strlen(o->server_name) > 80))
		return -EINVAL;
	if (o->server_name && !(s->server_name = strdup(o->server_name)))
		return -ENOMEM;
	return 0;
}

/* How often to look: a quarter of the shortest limit, twice a second at least. */
static uint64_t sweep_interval(const struct http_limits *l)
{
	uint64_t least = LINGER_MS;

	least = l->head_ms < least ? l->head_ms : least;
	least = l->idle_ms < least ? l->idle_ms : least;
	least = l->progress_ms < least ? l->progress_ms : least;
	least = l->handshake_ms < least ? l->handshake_ms : least;
	return least / 4 < 10 ? 10 : least / 4;
}

int http_server_new(struct net_loop *l, const struct http_options *options,
	struct http_server **ret, struct cell_error *err)
{
	struct http_server *s = calloc(1, sizeof *s);

	if (!s)
		return cell_fail_errno(err, ENOMEM, "make an HTTP server");
	s->loop = l;
	s->kicks_tail = &s->kicks;
	s->batch.max = 2 * SCRATCH_BYTES;
	s->build.max = 2 * ANSWER_HEADERS_MAX;
	s->reserve_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	s->scratch = malloc(SCRATCH_BYTES);
	int r = s->scratch ? copy_options(s, options) : -ENOMEM;
	if (r < 0) {
		server_destroy(s);
		return cell_fail_errno(err, -r, "make an HTTP server");
	}
	if (getrandom(&s->peer_seed, sizeof s->peer_seed, 0) != sizeof s->peer_seed)
		s->peer_seed = (uintptr_t)s;
	s->sweep_ms = sweep_interval(&s->o.limits);
	uv_loop_t *uv = net_loop_uv(l);
	(void)uv_prepare_init(uv, &s->prepare);
	(void)uv_idle_init(uv, &s->hurry);
	(void)uv_timer_init(uv, &s->sweep);
	(void)uv_timer_init(uv, &s->accept_again);
	(void)uv_timer_init(uv, &s->drain_limit);
	s->n_handles = 5;
	s->prepare.data = s->hurry.data = s->sweep.data = s->accept_again.data =
		s->drain_limit.data = s;
	(void)uv_prepare_start(&s->prepare, on_prepare);
	*ret = s;
	return 0;
}
