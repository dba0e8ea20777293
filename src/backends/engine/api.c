/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "core/silence.h"

#define API_NEWEST 47u /* 1.47: what we are written for; older engines are spoken to in theirs */
#define API_OLDEST 40u /* Docker 19.03 */
#define TIMEOUT_MS 60000
#define TEXT_MAX   (8u << 20)
#define TARGET_MAX 2048

void engine_close(void **at)
{
	struct engine *e = *at;

	if (e)
		http_client_free(e->http);
	free(e);
	*at = NULL;
}

/* No answer at all: what would help is to start the engine, not a server of ours. */
static int silent(const struct engine *e, int r, struct cell_error *err)
{
	char who[40];
	const struct silence s = {who, e->address.url, e->kind->fix, e->kind->denied};

	(void)snprintf(who, sizeof who, "%s engine", e->kind->title);
	if (r == -EPROTO && !strncmp(s.where, "https", 5)) /* the handshake says what is wrong */
		return cell_error_hint(err, r,
			"the certificates of DOCKER_CERT_PATH must belong to this engine and be "
			"valid");
	return silence_explain(&s, r, err);
}

int engine_is_none(const struct engine *e, struct cell_error *err)
{
	int r = cell_fail(err, CELL_EPROTOCOL, EPROTO,
		"what listens at '%s' is no container engine", e->address.url);

	return cell_error_hint(err, r, "%s", e->kind->fix);
}

const struct cell_known_words engine_words[] = {
	{"no space left on device", CELL_ENOSPACE,
		"free some space where the engine keeps images and containers"},
	{0}};

static int refused(struct engine *e, const struct json_reply *reply, const char *doing,
	struct cell_error *err)
{
	int r = cell_fail(err, json_reply_code(reply), 0, "%s: %s says %d: '%.200s'", doing,
		e->kind->title, reply->http.status, reply->said);

	return cell_error_known(err, r, reply->said, engine_words);
}

__attribute__((format(printf, 5, 0))) static int call(struct engine *e,
	const struct engine_request *rq, json_t **ret, struct cell_error *err, const char *path,
	va_list ap)
{
	auto_(json_reply_done) struct json_reply reply = {0};
	char target[TARGET_MAX], doing[200];
	size_t n = (size_t)snprintf(target, sizeof target, "/v1.%u", e->minor);
	struct http_call c = rq->http;

	e->status = 0;
	e->said[0] = '\0';
	if ((size_t)vsnprintf(target + n, sizeof target - n, path, ap) >= sizeof target - n)
		return cell_fail(err, CELL_EINVAL, ENAMETOOLONG, "a name is too long");
	c.target = target;
	c.max_body = TEXT_MAX;
	c.timeout_ms = c.timeout_ms ? c.timeout_ms : TIMEOUT_MS;
	int r = rq->framing ? net_carry_upgrade(e->http, &c, "tcp", rq->framing, &reply.http, err)
			    : json_call(e->http, &c, rq->json, &reply, err);
	if (r < 0 && !reply.http.status)
		return silent(e, r, err);
	if (rq->framing && r >= 0)
		return r;
	if (rq->framing)
		json_reply_read(&reply);
	e->status = reply.http.status;
	(void)snprintf(e->said, sizeof e->said, "%s", reply.said);
	bool is_success = e->status / 100 == 2;
	(void)snprintf(doing, sizeof doing, "ask for '%.180s'", target + n);
	if (!is_success && e->status != rq->fine && rq->fine != ENGINE_ANY)
		return refused(e, &reply, rq->doing ? rq->doing : doing, err);
	if (is_success && ret && !reply.json) {
		r = cell_fail(err, CELL_EPROTOCOL, EPROTO, "%s answers '%s' with no JSON",
			e->kind->title, target + n);
		return cell_error_hint(err, r, "%s", e->kind->fix);
	}
	if (is_success && ret)
		*ret = steal_ptr(reply.json);
	return 0;
}

int engine_call(struct engine *e, const struct engine_request *rq, json_t **ret,
	struct cell_error *err, const char *path, ...)
{
	va_list ap;

	va_start(ap, path);
	int r = call(e, rq, ret, err, path, ap);
	va_end(ap);
	json_decref(rq->json);
	return r;
}

int engine_get(struct engine *e, json_t **ret, struct cell_error *err, const char *path, ...)
{
	va_list ap;

	va_start(ap, path);
	int r = call(e, &(struct engine_request){.fine = 404}, ret, err, path, ap);
	va_end(ap);
	return r == 0 && e->status == 404 ? -ENOENT : r;
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
	static const struct http_field headers[] = {{"Content-Type", "application/json"}, {0}};
	static const char how[] = "{\"Detach\":false,\"Tty\":false}";
	const struct engine_request rq = {.http = {.method = "POST",
						  .headers = headers,
						  .body = how,
						  .body_len = sizeof how - 1},
		.doing = "reach the guest",
		.framing = &framing};

	return engine_call(e, &rq, NULL, err, "/exec/%.128s/start", id);
}

int engine_exec(void *at, const char *container, json_t *command, struct cell_error *err)
{
	struct engine *e = at;
	struct engine_request rq = {.http.method = "POST",
		.doing = "reach the guest",
		.json = json_pack("{s:b,s:b,s:b,s:b,s:o}", "AttachStdin", 1, "AttachStdout", 1,
			"AttachStderr", 1, "Tty", 0, "Cmd", command)};
	json_auto_t *reply = NULL;
	int r = rq.json ? engine_call(e, &rq, &reply, err, "/containers/%s/exec", container)
			: cell_fail_errno(err, ENOMEM, "reach the guest");

	if (r < 0 && e->status >= 400) {
		if (err && (e->status == 404 || e->status == 409))
			err->code = CELL_EGONE;
		r = cell_error_hint(err, r, "the container has ended; `cell prune` cleans up");
	}
	const char *id = json_text_at(reply, "Id");
	return r < 0 ? r : start_exec(e, id ? id : "", err);
}

/* --- a connection --- */

/* The newest version both speak, from the header of _ping. */
static int agree(struct engine *e, struct cell_error *err)
{
	const struct http_call ping = {.target = "/_ping", .timeout_ms = TIMEOUT_MS};
	auto_(http_reply_done) struct http_reply reply = {0};
	unsigned major = 0, minor = 0;
	int r = http_client_call(e->http, &ping, &reply, err);

	if (r < 0)
		return silent(e, r, err);
	const char *version = http_reply_header(&reply, "Api-Version");
	const char *server = http_reply_header(&reply, "Server");
	if (reply.status != 200 || !version || sscanf(version, "%u.%u", &major, &minor) != 2)
		return engine_is_none(e, err);
	if (major == 1 && minor < API_OLDEST) {
		r = cell_fail(err, CELL_ENOTSUP, 0,
			"the engine at '%s' speaks API 1.%u, and Cell 1.%u and later",
			e->address.url, minor, API_OLDEST);
		return cell_error_hint(err, r,
			"update it: Docker 19.03 or later, Podman 4 or later");
	}
	e->minor = major > 1 || minor > API_NEWEST ? API_NEWEST : minor;
	e->is_libpod = http_reply_header(&reply, "Libpod-Api-Version") != NULL;
	(void)snprintf(e->info.server, sizeof e->info.server, "%.*s",
		server ? (int)strcspn(server, " ") : 0, server ? server : "");
	return 0;
}

int engine_open(const void *kind, const struct cell *c, void **ret, struct cell_error *err)
{
	struct engine *e = calloc(1, sizeof *e);
	auto_engine void *at = e;
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
		r = e->kind->locate(&e->address, err);
	}
	if (r == 0)
		r = net_endpoint_client(&e->address, &e->http, err);
	if (r == 0)
		r = agree(e, err);
	if (r == 0)
		*ret = steal_ptr(at);
	return r;
}
