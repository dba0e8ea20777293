/* SPDX-License-Identifier: Apache-2.0 */
#include "distribution/docker_config.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

#define USUAL "unix:///var/run/docker.sock"

int docker_config_path(const char *name, char *ret, size_t size)
{
	const char *dir = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
	bool has_dir = dir && *dir;

	if (!has_dir && (!home || !*home))
		return -ENOENT;
	int n = snprintf(ret, size, "%s%s/%s", has_dir ? dir : home, has_dir ? "" : "/.docker",
		name);
	return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* unix:///path, tcp://host:port, as they are written for Docker. TLS is another question. */
static int take_host(const char *host, bool is_tls, struct net_endpoint *ret,
	struct cell_error *err)
{
	int n = 0;

	if (text_begins(host, "unix://"))
		n = snprintf(ret->url, sizeof ret->url, "unix:%s", host + 7);
	else if (text_begins(host, "tcp://"))
		n = snprintf(ret->url, sizeof ret->url, "http%s://%s%s", is_tls ? "s" : "",
			host + 6,
			strrchr(host + 6, ':') ? ""
			: is_tls	       ? ":2376"
					       : ":2375");
	else if (text_begins(host, "http://") || text_begins(host, "https://"))
		n = snprintf(ret->url, sizeof ret->url, "%s", host);
	if (n <= 0 || (size_t)n >= sizeof ret->url) {
		int r = cell_fail(err, CELL_ENOTSUP, 0, "the engine's address '%.120s'", host);
		return cell_error_hint(err, r,
			"unix:// and tcp:// are understood; for ssh:// forward the socket: ssh -L "
			"/tmp/docker.sock:/var/run/docker.sock HOST");
	}
	return 0;
}

static int from_environment(const char *host, struct net_endpoint *ret, struct cell_error *err)
{
	const char *verify = getenv("DOCKER_TLS_VERIFY"), *certs = getenv("DOCKER_CERT_PATH");
	bool is_tls = (verify && *verify) || getenv("DOCKER_TLS");

	if (is_tls && certs && *certs)
		(void)snprintf(ret->cert_dir, sizeof ret->cert_dir, "%s", certs);
	else if (is_tls)
		(void)docker_config_path("", ret->cert_dir, sizeof ret->cert_dir);
	ret->is_insecure = is_tls && !(verify && *verify);
	return take_host(host, is_tls, ret, err);
}

/* contexts/meta/SHA256(name)/meta.json and contexts/tls/SHA256(name)/docker/ */
static int from_context(const char *name, struct net_endpoint *ret, struct cell_error *err)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];
	char hex[2 * sizeof digest + 1], part[160], path[700] = "";
	json_t *meta = NULL;

	(void)SHA256((const unsigned char *)name, strlen(name), digest);
	for (size_t i = 0; i < sizeof digest; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
	(void)snprintf(part, sizeof part, "contexts/meta/%s/meta.json", hex);
	if (docker_config_path(part, path, sizeof path) == 0)
		meta = json_load_file(path, 0, NULL);
	const json_t *endpoint = json_object_get(json_object_get(meta, "Endpoints"), "docker");
	const char *host = json_string_value(json_object_get(endpoint, "Host"));
	int r;
	if (!host) {
		r = cell_fail(err, CELL_ENOTFOUND, 0,
			"Docker's context '%.100s' has no host in '%s'", name, path);
		r = cell_error_hint(err, r, "docker context ls; or set DOCKER_HOST");
	} else {
		(void)snprintf(part, sizeof part, "contexts/tls/%s/docker", hex);
		if (docker_config_path(part, path, sizeof path) == 0 && access(path, F_OK) == 0)
			(void)snprintf(ret->cert_dir, sizeof ret->cert_dir, "%.500s", path);
		ret->is_insecure = json_is_true(json_object_get(endpoint, "SkipTLSVerify"));
		r = take_host(host, ret->cert_dir[0] || ret->is_insecure, ret, err);
	}
	json_decref(meta);
	return r;
}

int docker_config_engine(struct net_endpoint *ret, struct cell_error *err)
{
	const char *host = getenv("DOCKER_HOST"), *context = getenv("DOCKER_CONTEXT");
	char path[600];
	json_t *config = NULL;
	int r;

	if (host && *host)
		return from_environment(host, ret, err);
	if ((!context || !*context) && docker_config_path("config.json", path, sizeof path) == 0) {
		config = json_load_file(path, 0, NULL);
		context = json_string_value(json_object_get(config, "currentContext"));
	}
	r = context && *context && strcmp(context, "default") != 0
		    ? from_context(context, ret, err)
		    : take_host(USUAL, false, ret, err);
	json_decref(config);
	return r;
}
