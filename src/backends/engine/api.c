/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "net/client.h"

#define API_NEWEST 47u /* 1.47: what we are written for; older engines are spoken to in theirs */
#define API_OLDEST 40u /* Docker 19.03 */
#define TIMEOUT_MS 60000
#define TEXT_MAX   (8u << 20)

void engine_free(struct engine **e)
{
	if (*e)
		http_client_free((*e)->http);
	free(*e);
	*e = NULL;
}

void engine_message(const struct buf *text, char *ret, size_t size)
{
	json_t *j = json_loads(buf_str(text), 0, NULL);
	const char *said = json_string_value(json_object_get(j, "message"));

	(void)snprintf(ret, size, "%s", said ? said : buf_str(text));
	json_decref(j);
	for (char *p = ret; *p; p++) /* it goes into one line */
		if ((unsigned char)*p < ' ')
			*p = p[1] ? ' ' : '\0';
}

int engine_escape(struct buf *b, const char *text)
{
	int r = 0;

	for (const char *p = text; *p && r == 0; p++)
		r = strchr("-_.~", *p) || (*p >= '0' && *p <= '9') || (*p >= 'a' && *p <= 'z') ||
				    (*p >= 'A' && *p <= 'Z')
			    ? buf_addc(b, *p)
			    : buf_addf(b, "%%%02X", (unsigned char)*p);
	return r;
}

/* No answer at all: what would help is to start the engine, not a server of ours. */
static int silent(const struct engine *e, int r, struct cell_error *err)
{
	const char *place = e->address.url;

	if (!err)
		return r;
	if (r == -EACCES)
		return cell_error_hint(err, r,
			"be root, or a member of the group that owns the socket (usually '%s'): "
			"that is as good as root",
			e->kind->name);
	if (r == -ENOENT || r == -ECONNREFUSED)
		(void)cell_fail(err, CELL_EBACKEND, -r, "no %s engine answers at '%s'",
			e->kind->title, place);
	else if (r == -EPROTO && !strncmp(place, "https", 5)) /* the handshake says what is wrong */
		return cell_error_hint(err, r,
			"the certificates of DOCKER_CERT_PATH must belong to this engine and be "
			"valid");
	return cell_error_hint(err, r, "%s", e->kind->fix);
}

int engine_send(struct engine *e, const struct engine_request *rq, struct buf *ret_text,
	struct cell_error *err)
{
	auto_free char *json = rq->json ? json_dumps(rq->json, JSON_COMPACT) : NULL;
	char target[2048];
	const char *body = rq->body ? rq->body : json;
	struct http_reply reply;
	struct http_field headers[3] = {0};
	size_t n = 0;

	if (rq->json && !json)
		return cell_fail_errno(err, ENOMEM, "ask the engine");
	if (body)
		headers[n++] = (struct http_field){
			"Content-Type", rq->type ? rq->type : "application/json"};
	if (rq->auth && *rq->auth)
		headers[n++] = (struct http_field){"X-Registry-Auth", rq->auth};
	if ((size_t)snprintf(target, sizeof target, "%s%s", e->version, rq->path) >= sizeof target)
		return cell_fail(err, CELL_EINVAL, ENAMETOOLONG, "a name is too long");
	struct http_call call = {.method = rq->method,
		.target = target,
		.headers = headers,
		.body = body,
		.body_len = rq->body ? rq->body_len
			    : body   ? strlen(body)
				     : 0,
		.sink = rq->sink,
		.arg = rq->arg,
		.max_body = TEXT_MAX,
		.timeout_ms = rq->timeout_ms ? rq->timeout_ms : TIMEOUT_MS};
	int r = http_client_call(e->http, &call, &reply, err);
	if (r < 0)
		return silent(e, r, err);
	r = reply.status;
	if (ret_text) {
		*ret_text = reply.body;
		reply.body = (struct buf){0};
	}
	http_reply_done(&reply);
	return r;
}

int engine_refused(const struct engine *e, int status, const struct buf *text,
	struct cell_error *err, const char *fmt, ...)
{
	char doing[200], said[200];
	va_list ap;
	enum cell_code code = status == 404   ? CELL_ENOTFOUND
			      : status == 409 ? CELL_EBUSY
			      : status == 400 ? CELL_EINVAL
			      : status == 403 ? CELL_EDENIED
					      : CELL_EBACKEND;

	va_start(ap, fmt);
	(void)vsnprintf(doing, sizeof doing, fmt, ap);
	va_end(ap);
	engine_message(text, said, sizeof said);
	bool is_full = strstr(buf_str(text), "no space left on device");
	int r = cell_fail(err, is_full ? CELL_ENOSPACE : code, 0, "%s: %s says %d: '%s'", doing,
		e->kind->title, status, said);
	return is_full ? cell_error_hint(err, r,
				 "free some space where the engine keeps images and containers")
		       : r;
}

int engine_get(struct engine *e, const char *path, json_t **ret, struct cell_error *err)
{
	auto_buf struct buf text = {0};
	struct engine_request rq = {.method = "GET", .path = path};
	int status = engine_send(e, &rq, &text, err);

	if (status < 0)
		return status;
	if (status == 404)
		return -ENOENT;
	if (status != 200)
		return engine_refused(e, status, &text, err, "ask for '%s'", path);
	*ret = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, NULL);
	if (!*ret)
		return cell_fail(err, CELL_EPROTOCOL, EPROTO, "%s answers '%s' with no JSON",
			e->kind->title, path);
	return 0;
}

/* The newest version both speak, from the header of _ping. */
static int agree(struct engine *e, struct cell_error *err)
{
	struct http_call call = {.target = "/_ping", .timeout_ms = TIMEOUT_MS};
	struct http_reply reply;
	unsigned major = 0, minor = 0;
	int r = http_client_call(e->http, &call, &reply, err);

	if (r < 0)
		return silent(e, r, err);
	const char *version = http_reply_header(&reply, "Api-Version");
	const char *server = http_reply_header(&reply, "Server");
	e->is_libpod = http_reply_header(&reply, "Libpod-Api-Version") != NULL;
	(void)snprintf(e->info.server, sizeof e->info.server, "%.*s",
		server ? (int)strcspn(server, " ") : 0, server ? server : "");
	if (reply.status != 200 || !version || sscanf(version, "%u.%u", &major, &minor) != 2) {
		r = cell_fail(err, CELL_EPROTOCOL, EPROTO,
			"what listens at '%s' is no container engine", e->address.url);
		(void)cell_error_hint(err, r, "check DOCKER_HOST or the context");
	} else if (major == 1 && minor < API_OLDEST) {
		r = cell_fail(err, CELL_ENOTSUP, 0,
			"the engine at '%s' speaks API 1.%u, and Cell 1.%u and later",
			e->address.url, minor, API_OLDEST);
		(void)cell_error_hint(err, r,
			"update it: Docker 19.03 or later, Podman 4 or later");
	} else {
		(void)snprintf(e->version, sizeof e->version, "/v1.%u",
			major > 1 || minor > API_NEWEST ? API_NEWEST : minor);
	}
	http_reply_done(&reply);
	return r;
}

static int connect_to(struct engine *e, struct cell_error *err)
{
	const char *dir = e->address.cert_dir;
	char files[3][600];
	struct http_client_options o = {.is_insecure = e->address.is_insecure};
	static const char *const names[] = {"ca.pem", "cert.pem", "key.pem"};

	for (size_t i = 0; *dir && i < 3; i++)
		(void)snprintf(files[i], sizeof files[i], "%s/%s", dir, names[i]);
	if (*dir) {
		o.ca_file = files[0];
		o.cert_file = access(files[1], F_OK) == 0 ? files[1] : NULL;
		o.key_file = files[2];
	}
	return http_client_new(e->address.url, &o, &e->http, err);
}

int engine_open(const struct engine_kind *kind, const struct cell *c, struct engine **ret,
	struct cell_error *err)
{
	auto_engine struct engine *e = calloc(1, sizeof *e);
	const char *url = c ? cell_note(c, "engine") : NULL;

	if (!e)
		return cell_fail_errno(err, ENOMEM, "reach the engine");
	e->kind = kind;
	int r = 0;
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
		r = connect_to(e, err);
	if (r == 0)
		r = agree(e, err);
	if (r < 0)
		return r;
	*ret = steal_ptr(e);
	return 0;
}
