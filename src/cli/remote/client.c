/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.c: the server of this process, and one request to it. A request that changes something carries an Idempotency-Key made here:
 * when its answer is lost with the connection, it is sent again with the same key, and the server does it once.
 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/cleanup.h"
#include "cli/memory.h"
#include "cli/output.h"
#include "cli/remote/remote.h"
#include "cli/signals.h"
#include "cli/text.h"
#include "net/json_call.h"
#include "net/text.h"

#define ATTEMPTS_MAX 9 /* about 20 s in all */
#define DELAY_MIN_MS 100
#define DELAY_MAX_MS 5000
#define KEY_BYTES    16
#define MESSAGE_MAX  (256u << 20) /* a picture of a run, as JSON */

static struct {
	const struct cli *cli;
	struct remote_settings set;
	struct net_url url;
	struct http_client *http;
	char *token, *bearer;
	json_t *who;
	bool was_reached; /* it has answered before: not answering is a matter of time */
	bool is_lost;	  /* and that was said */
	bool is_away;	  /* the last failure was of that kind */
} the;

uint64_t remote_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

const struct cli *remote_cli(void)
{
	return the.cli;
}

bool remote_has_server_paths(void)
{
	return the.set.has_server_paths;
}

extern const struct cells cells_remote;

int remote_use(const struct cli *cli, const struct remote_settings *s, struct cell_error *err)
{
	static struct cells table;
	int r = net_url_parse(s->url, &the.url, err);

	if (r < 0)
		return *err->hint ? r
				  : cell_error_hint(err, r,
					    "write it like http://127.0.0.1:7070, https://host or "
					    "unix:/path");
	the.cli = cli;
	the.set = *s;
	table = cells_remote;
	table.server = s->url;
	cells = &table;
	return 0;
}

static bool is_loopback(const struct net_url *u)
{
	return u->scheme == NET_UNIX || !strcmp(u->host, "localhost") || !strcmp(u->host, "::1") ||
	       !strncmp(u->host, "127.", 4);
}

/* The user's ^C ends what may be ended: see remote_request.is_cancelled. */
static bool (*is_cancelled)(void);

static bool ask_cancelled(void *arg)
{
	(void)arg;
	return is_cancelled && is_cancelled();
}

static int connect_once(struct cell_error *err)
{
	struct http_client_options o = {.ca_file = the.set.ca_file, .is_cancelled = ask_cancelled};
	int r;

	if (the.http)
		return 0;
	r = remote_token(the.set.token_file, &the.token, err);
	if (r < 0)
		return r;
	if (*the.token) {
		the.bearer = cli_format("Bearer %s", the.token);
		if (the.url.scheme == NET_HTTP && !is_loopback(&the.url))
			cli_note(the.cli,
				"warning: the token goes to %s unencrypted; use https where you "
				"can",
				the.url.authority);
	}
	return http_client_new(the.set.url, &o, &the.http, err);
}

/* ---- away and back ---- */

bool remote_is_away(void)
{
	return the.is_away;
}

void remote_set_away(void)
{
	the.is_away = true;
}

/* r is how a connection failed, not what a server answered. */
static bool is_worth_a_retry(int r)
{
	return r == -ECONNREFUSED || r == -ECONNRESET || r == -EPIPE || r == -ENOENT ||
	       r == -ETIMEDOUT || r == -EPROTO || r == -EHOSTUNREACH || r == -ENETUNREACH ||
	       r == -ENETDOWN;
}

int remote_delay_ms(unsigned attempt)
{
	int ms = DELAY_MIN_MS;

	if (attempt > ATTEMPTS_MAX)
		return -1;
	for (unsigned i = 1; i < attempt && ms < DELAY_MAX_MS; i++)
		ms *= 2;
	return ms < DELAY_MAX_MS ? ms : DELAY_MAX_MS;
}

void remote_tell_lost(void)
{
	if (!the.is_lost)
		cli_note(the.cli, "the connection to %s is lost; trying again", the.set.url);
	the.is_lost = true;
}

void remote_tell_back(void)
{
	the.was_reached = true;
	if (the.is_lost)
		cli_note(the.cli, "the connection to %s is back", the.set.url);
	the.is_lost = false;
}

/* ---- values ---- */

const char *remote_text(const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s ? s : "";
}

int64_t remote_int(const json_t *o, const char *name)
{
	return json_integer_value(json_object_get(o, name));
}

cell_caps remote_caps(const json_t *words)
{
	cell_caps caps = 0;

	for (size_t i = 0; i < json_array_size(words); i++) {
		const char *word = json_string_value(json_array_get(words, i));
		int cap = word ? cell_cap_find(word) : -1;
		caps |= cap >= 0 ? CELL_CAP_BIT(cap) : 0;
	}
	return caps;
}

static int base64_value(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+'	      ? 62
	       : c == '/'	      ? 63
				      : -1;
}

const char *remote_bytes(const json_t *o, const char *name, char **ret_own, size_t *ret_len)
{
	auto_free char *key = cli_format("%s_base64", name);
	const json_t *encoded = json_object_get(o, key), *plain = json_object_get(o, name);
	const char *p = json_string_value(encoded);
	uint32_t bits = 0;
	int n_bits = 0;
	size_t n = 0;

	*ret_own = NULL;
	if (!p) {
		*ret_len = json_string_length(plain);
		return plain && json_is_string(plain) ? json_string_value(plain) : "";
	}
	*ret_own = cli_calloc(json_string_length(encoded) + 1, 1);
	for (; *p && base64_value(*p) >= 0; p++) {
		bits = (bits << 6 | (uint32_t)base64_value(*p)) & 0xffffff;
		n_bits += 6;
		if (n_bits >= 8) {
			n_bits -= 8;
			(*ret_own)[n++] = (char)(bits >> n_bits & 0xff);
		}
	}
	*ret_len = n;
	return *ret_own;
}

json_t *remote_base64(const void *p, size_t n)
{
	auto_buf struct buf b = BUF_INIT(SIZE_MAX / 2);

	return cli_base64(p, n, &b) < 0 ? json_null() : json_string(buf_str(&b));
}

/* ---- one request ---- */

char *remote_target(const char *session, const char *what, ...)
{
	struct buf b = BUF_INIT(1u << 20);
	const char *name, *value;
	char between = '?';
	va_list args;

	(void)buf_addz(&b, session ? "/v1/sessions/" : "/v1");
	if (session)
		(void)net_encode(&b, session, strlen(session), false);
	(void)buf_addz(&b, what);
	va_start(args, what);
	while ((name = va_arg(args, const char *))) {
		value = va_arg(args, const char *);
		if (!value)
			continue;
		(void)buf_addc(&b, between);
		between = '&';
		(void)buf_addz(&b, name);
		(void)buf_addc(&b, '=');
		(void)net_encode(&b, value, strlen(value), true);
	}
	va_end(args);
	char *text = buf_steal(&b);
	return text ? text : cli_strdup("/");
}

int remote_error(const json_t *o, struct cell_error *err)
{
	struct cell_error e = {.code = CELL_EINTERNAL};
	const char *code = remote_text(o, "code");

	for (int i = 1; i < CELL_CODE_COUNT; i++)
		if (!strcmp(cell_code_name((enum cell_code)i), code))
			e.code = (enum cell_code)i;
	(void)snprintf(e.msg, sizeof e.msg, "%s", remote_text(o, "message"));
	(void)snprintf(e.hint, sizeof e.hint, "%s", remote_text(o, "hint"));
	(void)snprintf(e.backend, sizeof e.backend, "%s", remote_text(o, "backend"));
	if (err)
		*err = e;
	return -cell_code_to_errno(e.code);
}

/* What an answer that is no success says. */
static int refused(const struct json_reply *reply, struct cell_error *err)
{
	int status = reply->http.status, r;

	if (json_is_string(json_object_get(reply->json, "code"))) {
		r = remote_error(reply->json, err);
	} else {
		r = cell_fail(err, status == 404 ? CELL_EPROTOCOL : CELL_EBACKEND, 0,
			"'%s' answered %d (%s)", the.set.url, status, net_status_text(status));
		r = cell_error_hint(err, r, "is that the address of a cell server?");
	}
	if (status == 401) {
		bool has_token = the.token && *the.token;
		if (err)
			err->code = CELL_EDENIED;
		(void)cell_error_prefix(err, r, "'%s' refuses %s", the.set.url,
			has_token ? "the token" : "requests without a token");
		return cell_error_hint(err, -EACCES,
			has_token ? "check CELL_TOKEN, or --token-file; 'cell token create' on the "
				    "server makes a new one"
				  : "set CELL_TOKEN, or give --token-file; 'cell token create' on "
				    "the server makes one");
	}
	if (status == 416)
		return -ERANGE;
	the.is_away = status == 503; /* it has just begun, or is about to end */
	return r < 0 ? r : -EIO;
}

struct taking {
	const struct remote_request *q;
	int stop; /* what sink or source returned to give up */
};

static int take_piece(void *arg, const void *p, size_t n)
{
	struct taking *t = arg;

	t->stop = t->q->sink(t->q->arg, p, n);
	return t->stop ? -ECANCELED : 0;
}

static ssize_t give_piece(void *arg, void *p, size_t max)
{
	struct taking *t = arg;
	ssize_t n = t->q->source(t->q->arg, p, max);

	if (n < 0)
		t->stop = (int)n;
	return n < 0 ? -ECANCELED : n;
}

static const char *new_key(char out[2 * KEY_BYTES + 1])
{
	unsigned char bytes[KEY_BYTES];

	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		abort();
	for (size_t i = 0; i < KEY_BYTES; i++)
		(void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
	return out;
}

static int call_once(const struct remote_request *q, const char *text, const char *key,
	json_t **ret, struct cell_error *err)
{
	struct taking t = {.q = q};
	struct http_field fields[6] = {{0}};
	struct json_reply reply;
	size_t n = 0;
	int r;

	if (the.bearer)
		fields[n++] = (struct http_field){"Authorization", the.bearer};
	if (text)
		fields[n++] = (struct http_field){"Content-Type", "application/json"};
	if (key)
		fields[n++] = (struct http_field){"Idempotency-Key", key};
	if (q->range)
		fields[n++] = (struct http_field){"Range", q->range};
	struct http_call call = {.method = q->method,
		.target = q->target,
		.headers = fields,
		.body = text,
		.body_len = text ? strlen(text) : 0,
		.source = q->source ? give_piece : NULL,
		.source_len = -1,
		.expect_continue = q->source != NULL,
		.sink = q->sink ? take_piece : NULL,
		.max_body = 256u << 20,
		.arg = &t};
	is_cancelled = q->is_cancelled;
	r = json_call(the.http, &call, NULL, &reply, err);
	is_cancelled = NULL;
	the.is_away = r < 0 && !t.stop && is_worth_a_retry(r);
	if (r < 0 && t.stop) { /* its own reason, which it knows better */
		if (err)
			*err = (struct cell_error){0};
		r = t.stop;
	}
	if (r == 0) {
		remote_tell_back();
		if (reply.http.status >= 400)
			r = refused(&reply, err);
		else if (ret)
			*ret = steal_ptr(reply.json);
		if (r == 0 && ret && reply.http.body.len && !*ret) {
			r = cell_fail(err, CELL_EPROTOCOL, EPROTO, "'%s' answered with no JSON",
				the.set.url);
			r = cell_error_hint(err, r, "is that the address of a cell server?");
		}
	}
	json_reply_done(&reply);
	return r;
}

static void pause_ms(int ms)
{
	struct pollfd fd = {.fd = cli_signals_fd(), .events = 0};

	(void)poll(&fd, fd.fd >= 0 ? 1 : 0, ms);
}

int remote_call(const struct remote_request *q, json_t **ret, struct cell_error *err)
{
	auto_free char *text = q->body ? json_dumps(q->body, JSON_COMPACT) : NULL;
	char key[2 * KEY_BYTES + 1];
	bool is_once = q->is_once || q->sink || q->source;
	int r = 0;

	json_decref(q->body);
	if (q->body && !text)
		r = cell_fail(err, CELL_EINVAL, EINVAL, "what is to be sent is no text");
	if (r == 0)
		r = connect_once(err);
	if (r < 0)
		return r;
	if (ret)
		*ret = NULL;
	if (q->is_change)
		new_key(key);
	for (unsigned attempt = 1;; attempt++) {
		struct cell_error why = {0};
		r = call_once(q, text, q->is_change ? key : NULL, ret, &why);
		int wait_ms = r < 0 && the.is_away && !is_once && the.was_reached
				      ? remote_delay_ms(attempt)
				      : -1;
		if (wait_ms < 0) {
			if (r < 0 && err && why.code)
				*err = why;
			return r;
		}
		remote_tell_lost();
		pause_ms(wait_ms);
	}
}

int remote_socket(const char *target, struct ws_client **ret, struct cell_error *err)
{
	struct http_field fields[3] = {{0}};
	struct json_reply reply = {0};
	int r = connect_once(err);

	if (r < 0)
		return r;
	if (the.bearer)
		fields[0] = (struct http_field){"Authorization", the.bearer};
	r = ws_client_open(the.http, target, fields, MESSAGE_MAX, ret, &reply.http, err);
	the.is_away = r < 0 && is_worth_a_retry(r);
	if (r == 0)
		remote_tell_back();
	json_reply_read(&reply);
	if (r < 0 && reply.http.status >= 400)
		r = refused(&reply, err);
	json_reply_done(&reply);
	return r;
}

int remote_whoami(json_t **ret, struct cell_error *err)
{
	int r = the.who ? 0
			: remote_call(&(struct remote_request){.target = "/v1/whoami"}, &the.who,
				  err);

	*ret = the.who;
	return r;
}
