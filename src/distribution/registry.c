/* SPDX-License-Identifier: Apache-2.0 */
#include "distribution/registry.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/image/oci.h"
#include "distribution/challenge.h"
#include "distribution/credentials.h"
#include "distribution/refusal.h"
#include "net/json_call.h"
#include "net/text.h"

#define STALL_MS      60000
#define TOKEN_MAX     (64u * 1024)
#define MAX_REDIRECTS 5
#define ACCEPT                                                                                  \
	"application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, " \
	"application/vnd.docker.distribution.manifest.list.v2+json, "                           \
	"application/vnd.docker.distribution.manifest.v2+json"

struct registry {
	struct reference ref;
	struct registry_options o;
	struct http_client *client;
	char *authorization; /* "Bearer ..." or "Basic ..."; NULL: not asked for yet */
	bool is_asked;	     /* credentials were looked for */
	struct credentials credentials;
};

static void client_options(const struct registry *r, struct http_client_options *ret)
{
	*ret = (struct http_client_options){.stall_ms = STALL_MS,
		.ca_file = r->o.ca_file,
		.is_insecure = r->o.is_insecure,
		.is_cancelled = r->o.is_cancelled,
		.arg = r->o.arg};
}

int registry_open(const struct reference *ref, const struct registry_options *o,
	struct registry **ret, struct cell_error *err)
{
	struct http_client_options co;
	char url[320];
	struct registry *r = calloc(1, sizeof *r);

	if (!r)
		return cell_fail_errno(err, ENOMEM, "open a registry");
	r->ref = *ref;
	r->o = *o;
	client_options(r, &co);
	(void)snprintf(url, sizeof url, "%s://%s",
		reference_is_loopback(ref) || (o->is_insecure && !o->ca_file) ? "http" : "https",
		reference_endpoint(ref));
	if (o->ca_file)
		(void)snprintf(url, sizeof url, "https://%s", reference_endpoint(ref));
	int rc = http_client_new(url, &co, &r->client, err);
	if (rc < 0) {
		free(r);
		return rc;
	}
	*ret = r;
	return 0;
}

static void forget_authorization(struct registry *r)
{
	if (r->authorization)
		explicit_bzero(r->authorization, strlen(r->authorization));
	free(r->authorization);
	r->authorization = NULL;
}

void registry_free(struct registry *r)
{
	if (!r)
		return;
	http_client_free(r->client);
	forget_authorization(r);
	credentials_done(&r->credentials);
	free(r);
}

/* ---- what it answers when it does not like us ---- */

/* The text is somebody else's: quoted, cut. */
static void read_reason(const struct http_reply *reply, char out[120])
{
	struct json_reply heard = {.http = *reply};

	json_reply_read(&heard);
	out[0] = '\0';
	if (heard.has_message)
		(void)snprintf(out, 120, ": '%.100s'", heard.said);
	json_decref(heard.json);
}

static int explain(const struct registry *r, const struct http_reply *reply, const char *what,
	struct cell_error *err)
{
	const char *host = r->ref.host;
	char why[120];

	read_reason(reply, why);
	switch (reply->status) {
	case 401:
	case 403:
		return cell_error_hint(err,
			cell_fail(err, CELL_EDENIED, 0, "%s does not give %s of '%s'%s", host, what,
				r->ref.path, why),
			r->credentials.user || r->credentials.identity_token
				? "the credentials found for it were refused: log in again with "
				  "`docker login` or `podman login`, and check the name"
				: "no credentials were found for it: `docker login` or `podman "
				  "login` "
				  "writes them where they are looked for; check the name, too");
	case 404:
		return cell_error_hint(err,
			cell_fail(err, CELL_ENOTFOUND, 0, "%s has no %s of '%s'%s", host, what,
				r->ref.path, why),
			"check name and tag; some registries say this of images that one must log "
			"in for");
	case 429:
		return cell_error_hint(err,
			cell_fail(err, CELL_ELIMIT, 0, "%s has had too many requests%s", host, why),
			"wait, or log in: registries allow known users more");
	default:
		return cell_error_known(err,
			cell_error_hint(err,
				cell_fail(err, CELL_EBACKEND, 0,
					"%s answered %d when asked for %s of '%s'%s", host,
					reply->status, what, r->ref.path, why),
				"try again later"),
			why, refusal_words);
	}
}

/* ---- tokens ---- */

static int basic(const struct registry *r, char **ret)
{
	auto_free char *pair = NULL;
	int n = asprintf(&pair, "%s:%s", r->credentials.user, r->credentials.secret);

	if (n < 0) {
		pair = NULL;
		return -ENOMEM;
	}
	*ret = malloc(16 + (size_t)n * 4 / 3 + 8);
	if (*ret) {
		memcpy(*ret, "Basic ", 6);
		(void)EVP_EncodeBlock((unsigned char *)*ret + 6, (unsigned char *)pair, n);
	}
	explicit_bzero(pair, (size_t)n);
	return *ret ? 0 : -ENOMEM;
}

static int put_encoded(struct buf *b, const char *text)
{
	return net_encode(b, text, strlen(text), false);
}

/* The scope is ours to say: a registry cannot make us ask for more than reading this repository. */
static int token_query(const struct registry *r, const struct challenge *c, struct buf *b)
{
	int rc = buf_addf(b, "service=");

	if (rc == 0)
		rc = put_encoded(b, c->service);
	if (rc == 0)
		rc = buf_addz(b, "&scope=repository%3A");
	if (rc == 0)
		rc = put_encoded(b, r->ref.path);
	return rc < 0 ? rc : buf_addz(b, "%3Apull");
}

/* "https://auth.example/token" in a URL of its host and the rest. */
static int split_realm(const struct registry *r, const char *realm, char host[320],
	const char **ret, struct cell_error *err)
{
	const char *rest = strstr(realm, "://");
	size_t n = rest ? (size_t)(rest + 3 - realm) + strcspn(rest + 3, "/?#") : 0;
	bool is_tls = !strncmp(realm, "https://", 8);
	bool may_be_plain = reference_is_loopback(&r->ref) || r->o.is_insecure;

	if (!n || n >= 320 || (!is_tls && (!may_be_plain || strncmp(realm, "http://", 7))))
		return cell_error_hint(err,
			cell_fail(err, CELL_EDENIED, 0,
				"%s wants credentials at '%.100s', which is not safe", r->ref.host,
				realm),
			"they are sent over https only");
	memcpy(host, realm, n);
	host[n] = '\0';
	*ret = realm[n] ? realm + n : "/";
	return 0;
}

static int read_token(struct registry *r, const json_t *o, struct cell_error *err)
{
	const char *token = json_string_value(json_object_get(o, "token"));

	if (!token)
		token = json_string_value(json_object_get(o, "access_token"));
	int rc = -EPROTO;
	if (token && *token)
		rc = asprintf(&r->authorization, "Bearer %s", token) < 0 ? -ENOMEM : 0;
	if (rc < 0)
		r->authorization = NULL;
	return rc < 0 ? cell_fail(err, CELL_EPROTOCOL, -rc, "%s gave no token", r->ref.host) : 0;
}

static int fetch_token(struct registry *r, const struct challenge *c, struct cell_error *err)
{
	auto_buf struct buf query = BUF_INIT(4096), target = BUF_INIT(8192), form = BUF_INIT(65536);
	struct http_client_options co;
	struct http_client *client = NULL;
	struct json_reply reply;
	auto_free char *password = NULL;
	char host[320];
	const char *path;
	bool is_refresh = r->credentials.identity_token;

	int rc = split_realm(r, c->realm, host, &path, err);
	if (rc < 0)
		return rc;
	if (r->credentials.user && !is_refresh)
		rc = basic(r, &password);
	if (rc == 0)
		rc = token_query(r, c, &query);
	if (rc == 0 && is_refresh) {
		rc = buf_addf(&form, "grant_type=refresh_token&client_id=cell&%s&refresh_token=",
			buf_str(&query));
		if (rc == 0)
			rc = put_encoded(&form, r->credentials.identity_token);
	}
	if (rc == 0)
		rc = is_refresh ? buf_addz(&target, path)
				: buf_addf(&target, "%s%c%s", path, strchr(path, '?') ? '&' : '?',
					  buf_str(&query));
	if (rc < 0)
		return cell_fail_errno(err, -rc, "asking %s for a token", r->ref.host);
	client_options(r, &co);
	rc = http_client_new(host, &co, &client, err);
	if (rc < 0)
		return rc;
	const struct http_field headers[] = {
		{is_refresh	   ? "Content-Type"
			: password ? "Authorization"
				   : "Accept",
			is_refresh ? "application/x-www-form-urlencoded"
			: password ? password
				   : "application/json"},
		{0}};
	rc = json_call(client,
		&(struct http_call){.method = is_refresh ? "POST" : "GET",
			.target = buf_str(&target),
			.headers = headers,
			.body = is_refresh ? form.data : NULL,
			.body_len = form.len,
			.max_body = TOKEN_MAX},
		NULL, &reply, err);
	if (rc == 0 && reply.http.status != 200)
		rc = explain(r, &reply.http, "a token", err);
	else if (rc == 0)
		rc = read_token(r, reply.json, err);
	json_reply_done(&reply);
	http_client_free(client);
	if (password)
		explicit_bzero(password, strlen(password));
	return rc;
}

/* 1: asked for what it wants, try again; 0: there is nothing (more) that we could show it. */
static int answer_challenge(struct registry *r, const struct http_reply *reply,
	struct cell_error *err)
{
	const char *header = http_reply_header(reply, "WWW-Authenticate");
	struct challenge c;
	int rc;

	if (!header || !challenge_parse(header, &c) || r->is_asked)
		return 0;
	r->is_asked = true;
	forget_authorization(r);
	rc = credentials_find(r->ref.host, &r->credentials, err);
	if (rc < 0)
		return rc;
	if (c.is_bearer) {
		rc = fetch_token(r, &c, err);
		return rc < 0 ? rc : 1;
	}
	if (!r->credentials.user)
		return 0;
	rc = basic(r, &r->authorization);
	return rc < 0 ? cell_fail_errno(err, -rc, "asking %s", r->ref.host) : 1;
}

/* ---- calls ---- */

struct download {
	registry_sink sink;
	void *arg;
};

static int call_once(const struct registry *r, struct http_client *client, const char *target,
	bool with_secret, const struct download *d, struct http_reply *reply,
	struct cell_error *err)
{
	const struct http_field headers[] = {{"Accept", d ? "*/*" : ACCEPT},
		{with_secret && r->authorization ? "Authorization" : NULL, r->authorization}, {0}};
	const struct http_call call = {.target = target,
		.headers = headers,
		.max_body = OCI_MAX_JSON,
		.sink = d ? d->sink : NULL,
		.arg = d ? d->arg : NULL};

	return http_client_call(client, &call, reply, err);
}

static int call(struct registry *r, const char *target, const struct download *d,
	struct http_reply *reply, struct cell_error *err)
{
	for (int round = 0;; round++) {
		int rc = call_once(r, r->client, target, true, d, reply, err);

		if (rc < 0)
			return cell_error_prefix(err, rc, "pull '%s'", r->ref.path);
		if (reply->status != 401 || round)
			return 0;
		rc = answer_challenge(r, reply, err);
		if (rc <= 0)
			return rc;
		http_reply_done(reply);
		*reply = (struct http_reply){0};
	}
}

int registry_manifest(struct registry *r, const char *which, struct buf *ret,
	struct cell_error *err)
{
	struct http_reply reply = {0};
	char target[600], what[160];

	(void)snprintf(target, sizeof target, "/v2/%s/manifests/%s", r->ref.path, which);
	(void)snprintf(what, sizeof what, "image '%.100s'", which);
	int rc = call(r, target, NULL, &reply, err);
	if (rc == 0 && reply.status != 200)
		rc = explain(r, &reply, what, err);
	if (rc == 0 && buf_add(ret, reply.body.data, reply.body.len) < 0)
		rc = cell_fail(err, CELL_ELIMIT, 0, "the manifest of '%s' is too large",
			r->ref.path);
	http_reply_done(&reply);
	return rc;
}

/* Where a redirect leads: a client for that host, and the target there. */
static int follow(const struct registry *r, const char *location, struct http_client **ret,
	char target[4096], struct cell_error *err)
{
	struct http_client_options co;
	const char *path;
	char host[320];

	if (location[0] == '/') {
		*ret = NULL;
		return snprintf(target, 4096, "%s", location) >= 4096 ? -EMSGSIZE : 0;
	}
	int rc = split_realm(r, location, host, &path, err);
	if (rc < 0)
		return rc;
	if (snprintf(target, 4096, "%s%s", path[0] == '/' ? "" : "/", path) >= 4096)
		return cell_fail(err, CELL_EPROTOCOL, EMSGSIZE, "%s redirects too far",
			r->ref.host);
	client_options(r, &co);
	return http_client_new(host, &co, ret, err);
}

static int follow_all(struct registry *r, struct http_reply *reply, const struct download *d,
	struct cell_error *err)
{
	int rc = 0;

	for (int n = 0; rc == 0 && reply->status >= 301 && reply->status <= 308; n++) {
		const char *location = http_reply_header(reply, "Location");
		struct http_client *other = NULL;
		char target[4096];

		if (!location || n == MAX_REDIRECTS)
			return cell_fail(err, CELL_EPROTOCOL, 0, "%s redirects without an end",
				r->ref.host);
		rc = follow(r, location, &other, target, err);
		http_reply_done(reply);
		*reply = (struct http_reply){0};
		if (rc == 0)
			rc = call_once(r, other ? other : r->client, target, !other, d, reply, err);
		http_client_free(other);
	}
	return rc;
}

int registry_blob(struct registry *r, const char *hex, registry_sink sink, void *arg,
	struct cell_error *err)
{
	const struct download d = {sink, arg};
	struct http_reply reply = {0};
	char target[400];

	(void)snprintf(target, sizeof target, "/v2/%s/blobs/sha256:%s", r->ref.path, hex);
	int rc = call(r, target, &d, &reply, err);
	if (rc == 0)
		rc = follow_all(r, &reply, &d, err);
	if (rc == 0 && reply.status != 200)
		rc = explain(r, &reply, "a part", err);
	http_reply_done(&reply);
	return rc;
}
