/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "net/carry.h"
#include "net/client.h"

#define API_NEWEST 47u /* 1.47: what we are written for; older engines are spoken to in theirs */
#define API_OLDEST 40u /* Docker 19.03 */
#define TIMEOUT_MS 60000
#define TEXT_MAX   (8u << 20)
#define TARGET_MAX 2048

void engine_free(struct engine **e)
{
	if (*e)
		http_client_free((*e)->http);
	free(*e);
	*e = NULL;
}

const json_t *engine_at(const json_t *j, const char *key, const char *inner)
{
	const json_t *value = json_object_get(j, key);

	return inner ? json_object_get(value, inner) : value;
}

const char *engine_text(const json_t *j, const char *key, const char *inner)
{
	return json_string_value(engine_at(j, key, inner));
}

/* No answer at all: what would help is to start the engine, not a server of ours. Never -ENOENT: that is an answer. */
static int silent(const struct engine *e, int r, struct cell_error *err)
{
	const char *place = e->address.url;

	if (r == -EACCES)
		return cell_error_hint(err, r,
			"be root, or a member of the group that owns the socket (usually '%s'): "
			"that is as good as root",
			e->kind->name);
	if (r == -EPROTO && !strncmp(place, "https", 5)) /* the handshake says what is wrong */
		return cell_error_hint(err, r,
			"the certificates of DOCKER_CERT_PATH must belong to this engine and be "
			"valid");
	if (r == -ENOENT || r == -ECONNREFUSED) {
		(void)cell_fail(err, CELL_EBACKEND, -r, "no %s engine answers at '%s'",
			e->kind->title, place);
		r = -ECONNREFUSED;
	}
	return cell_error_hint(err, r, "%s", e->kind->fix);
}

int engine_is_none(const struct engine *e, struct cell_error *err)
{
	int r = cell_fail(err, CELL_EPROTOCOL, EPROTO,
		"what listens at '%s' is no container engine", e->address.url);

	return cell_error_hint(err, r, "%s", e->kind->fix);
}

/* The text of a JSON body that says {"message": ...}, or the body itself. *ret_json (may be NULL) gets it. */
static void hear(struct engine *e, const struct http_reply *reply, json_t **ret_json)
{
	json_t *j = json_loads(buf_str(&reply->body), JSON_REJECT_DUPLICATES, NULL);
	const char *message = engine_text(j, "message", NULL);

	e->status = reply->status;
	(void)snprintf(e->said, sizeof e->said, "%s", message ? message : buf_str(&reply->body));
	for (char *p = e->said; *p; p++) /* it goes into one line */
		if ((unsigned char)*p < ' ')
			*p = p[1] ? ' ' : '\0';
	if (ret_json)
		*ret_json = j;
	else
		json_decref(j);
}

static int refused(const struct engine *e, const struct http_reply *reply, const char *doing,
	struct cell_error *err)
{
	bool is_full = strstr(buf_str(&reply->body), "no space left on device");
	enum cell_code code = is_full		 ? CELL_ENOSPACE
			      : e->status == 404 ? CELL_ENOTFOUND
			      : e->status == 409 ? CELL_EBUSY
			      : e->status == 400 ? CELL_EINVAL
			      : e->status == 403 ? CELL_EDENIED
						 : CELL_EBACKEND;
	int r = cell_fail(err, code, 0, "%s: %s says %d: '%s'", doing, e->kind->title, e->status,
		e->said);

	return is_full ? cell_error_hint(err, r,
				 "free some space where the engine keeps images and containers")
		       : r;
}

static int call(struct engine *e, const struct engine_request *rq, const char *path, json_t **ret,
	struct cell_error *err)
{
	auto_free char *json = rq->json ? json_dumps(rq->json, JSON_COMPACT) : NULL;
	char target[TARGET_MAX];
	struct http_reply reply;
	struct http_field headers[3] = {0};
	size_t n = 0;

	if (rq->json && !json)
		return cell_fail_errno(err, ENOMEM, "ask the engine");
	if (json || rq->archive)
		headers[n++] = (struct http_field){
			"Content-Type", json ? "application/json" : "application/x-tar"};
	if (rq->auth && *rq->auth)
		headers[n++] = (struct http_field){"X-Registry-Auth", rq->auth};
	if ((size_t)snprintf(target, sizeof target, "/v1.%u%s", e->minor, path) >= sizeof target)
		return cell_fail(err, CELL_EINVAL, ENAMETOOLONG, "a name is too long");
	struct http_call c = {.method = rq->method,
		.target = target,
		.headers = headers,
		.body = json	      ? (const void *)json
			: rq->archive ? rq->archive->data
				      : NULL,
		.body_len = json	  ? strlen(json)
			    : rq->archive ? rq->archive->len
					  : 0,
		.sink = rq->sink,
		.arg = rq->arg,
		.max_body = TEXT_MAX,
		.timeout_ms = rq->timeout_ms ? rq->timeout_ms : TIMEOUT_MS};
	e->status = 0;
	e->said[0] = '\0';
	int r = http_client_call(e->http, &c, &reply, err);
	if (r < 0)
		return silent(e, r, err);
	bool is_fine = rq->sink || reply.status / 100 == 2 || reply.status == rq->fine;
	hear(e, &reply, is_fine ? ret : NULL);
	if (!is_fine)
		r = refused(e, &reply, rq->doing, err);
	http_reply_done(&reply);
	return r;
}

int engine_call(struct engine *e, const struct engine_request *rq, json_t **ret,
	struct cell_error *err, const char *path, ...)
{
	char text[TARGET_MAX];
	va_list ap;

	va_start(ap, path);
	(void)vsnprintf(text, sizeof text, path, ap); /* too long: call() says so */
	va_end(ap);
	int r = call(e, rq, text, ret, err);
	json_decref(rq->json);
	return r;
}

int engine_get(struct engine *e, json_t **ret, struct cell_error *err, const char *path, ...)
{
	char text[TARGET_MAX], doing[200];
	va_list ap;

	va_start(ap, path);
	(void)vsnprintf(text, sizeof text, path, ap);
	va_end(ap);
	(void)snprintf(doing, sizeof doing, "ask for '%.180s'", text);
	int r = call(e, &(struct engine_request){.doing = doing, .fine = 404}, text, ret, err);
	if (r == 0 && e->status == 404) {
		json_decref(*ret);
		*ret = NULL;
		return -ENOENT;
	}
	if (r < 0 || *ret)
		return r;
	r = cell_fail(err, CELL_EPROTOCOL, EPROTO, "%s answers '%s' with no JSON", e->kind->title,
		text);
	return cell_error_hint(err, r, "%s", e->kind->fix);
}

/* --- a program in a container --- */

/* 8 bytes: of which stream, and the length. What is no output is what the program complains of. */
static bool read_frame(const uint8_t *head, uint32_t *ret_size)
{
	*ret_size = (uint32_t)head[4] << 24 | (uint32_t)head[5] << 16 | (uint32_t)head[6] << 8 |
		    head[7];
	return head[0] == 1;
}

static int start_exec(struct engine *e, const char *id, struct cell_error *err)
{
	static const struct net_framing framing = {.head_size = 8, .read = read_frame};
	static const char how[] = "{\"Detach\":false,\"Tty\":false}";
	const struct http_field headers[] = {{"Content-Type", "application/json"}, {0}};
	auto_buf struct buf rest = BUF_INIT(4 * NET_CARRY_CHUNK);
	char target[300];
	struct http_call c = {.method = "POST",
		.target = target,
		.headers = headers,
		.body = how,
		.body_len = sizeof how - 1,
		.timeout_ms = TIMEOUT_MS};
	struct http_reply reply;
	struct net_stream s;

	(void)snprintf(target, sizeof target, "/v1.%u/exec/%.128s/start", e->minor, id);
	int r = http_client_upgrade(e->http, &c, "tcp", &s, &rest, &reply, err);
	if (r == -EPROTO && reply.status) {
		hear(e, &reply, NULL);
		r = refused(e, &reply, "reach the guest", err);
	}
	http_reply_done(&reply);
	if (r < 0)
		return r;
	int fd = net_carry(&s, &rest, &framing);
	if (fd < 0) {
		net_stream_done(&s);
		return cell_fail_errno(err, -fd, "carry the guest's bytes");
	}
	return fd;
}

int engine_exec(struct engine *e, const char *container, json_t *command, struct cell_error *err)
{
	struct engine_request rq = {.method = "POST",
		.doing = "reach the guest",
		.json = json_pack("{s:b,s:b,s:b,s:b,s:o}", "AttachStdin", 1, "AttachStdout", 1,
			"AttachStderr", 1, "Tty", 0, "Cmd", command)};
	json_t *reply = NULL;
	int r = rq.json ? engine_call(e, &rq, &reply, err, "/containers/%s/exec", container)
			: cell_fail_errno(err, ENOMEM, "reach the guest");

	if (r < 0 && e->status >= 400) {
		if (err && (e->status == 404 || e->status == 409))
			err->code = CELL_EGONE;
		r = cell_error_hint(err, r, "the container has ended; `cell prune` cleans up");
	}
	const char *id = engine_text(reply, "Id", NULL);
	if (r == 0)
		r = start_exec(e, id ? id : "", err);
	json_decref(reply);
	return r;
}

/* --- a connection --- */

/* The newest version both speak, from the header of _ping. */
static int agree(struct engine *e, struct cell_error *err)
{
	struct http_call ping = {.target = "/_ping", .timeout_ms = TIMEOUT_MS};
	struct http_reply reply;
	unsigned major = 0, minor = 0;
	int r = http_client_call(e->http, &ping, &reply, err);

	if (r < 0)
		return silent(e, r, err);
	const char *version = http_reply_header(&reply, "Api-Version");
	const char *server = http_reply_header(&reply, "Server");
	e->is_libpod = http_reply_header(&reply, "Libpod-Api-Version") != NULL;
	(void)snprintf(e->info.server, sizeof e->info.server, "%.*s",
		server ? (int)strcspn(server, " ") : 0, server ? server : "");
	if (reply.status != 200 || !version || sscanf(version, "%u.%u", &major, &minor) != 2) {
		r = engine_is_none(e, err);
	} else if (major == 1 && minor < API_OLDEST) {
		r = cell_fail(err, CELL_ENOTSUP, 0,
			"the engine at '%s' speaks API 1.%u, and Cell 1.%u and later",
			e->address.url, minor, API_OLDEST);
		(void)cell_error_hint(err, r,
			"update it: Docker 19.03 or later, Podman 4 or later");
	}
	e->minor = major > 1 || minor > API_NEWEST ? API_NEWEST : minor;
	http_reply_done(&reply);
	return r;
}

int engine_open(const struct engine_kind *kind, const struct cell *c, struct engine **ret,
	struct cell_error *err)
{
	auto_engine struct engine *e = calloc(1, sizeof *e);
	const char *url = c ? cell_note(c, "engine") : NULL;
	int r = 0;

	if (!e)
		return cell_fail_errno(err, ENOMEM, "reach the engine");
	e->kind = kind;
	if (url) {
		const char *certs = cell_note(c, "engine_certs");
		(void)snprintf(e->address.url, sizeof e->address.url, "%s", url);
		(void)snprintf(e->address.cert_dir, sizeof e->address.cert_dir, "%s",
			certs ? certs : "");
		e->address.is_insecure = cell_note_int(c, "engine_insecure", 0);
	} else {
		r = kind->locate(&e->address, err);
	}
	if (r == 0)
		r = net_endpoint_client(&e->address, &e->http, err);
	if (r == 0)
		r = agree(e, err);
	if (r == 0)
		*ret = steal_ptr(e);
	return r;
}
