/* SPDX-License-Identifier: Apache-2.0 */
#include "distribution/reference.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define DOCKER		"docker.io"
#define DOCKER_ENDPOINT "registry-1.docker.io"

static int refuse(const char *text, const char *why, struct cell_error *err)
{
	return cell_error_hint(err,
		cell_fail(err, CELL_EINVAL, 0, "'%.200s' is no name of an image: %s", text, why),
		"write it as python:3.11, ghcr.io/owner/name:tag or host:5000/name@sha256:...");
}

static bool is_host_char(char c)
{
	return isalnum((unsigned char)c) || strchr(".-_:[]", c);
}

/* The part before the first slash is a host when it can be nothing else. */
static size_t host_length(const char *text)
{
	size_t n = strcspn(text, "/");

	if (!text[n])
		return 0;
	bool is_local = n == 9 && memcmp(text, "localhost", 9) == 0;
	return is_local || memchr(text, '.', n) || memchr(text, ':', n) || text[0] == '[' ? n : 0;
}

static bool is_path(const char *p, size_t n)
{
	bool may_end = false;

	for (size_t i = 0; i < n; i++) {
		bool is_plain = islower((unsigned char)p[i]) || isdigit((unsigned char)p[i]);

		if (!is_plain && (!may_end || !strchr("._-/", p[i])) &&
			!(i && strchr("_-", p[i]) && p[i - 1] == p[i]))
			return false;
		may_end = is_plain;
	}
	return may_end;
}

static bool is_tag(const char *p, size_t n)
{
	if (!n || n > 128 || strchr(".-", p[0]))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)p[i]) && !strchr("._-", p[i]))
			return false;
	}
	return true;
}

static int take_digest(const char *text, const char *at, struct reference *ret,
	struct cell_error *err)
{
	const char *hex = digest_parse(at + 1);

	if (!hex)
		return refuse(text, "its digest is not sha256: and 64 hex digits", err);
	memcpy(ret->digest, hex, sizeof ret->digest);
	return 0;
}

int reference_parse(const char *text, struct reference *ret, struct cell_error *err)
{
	const char *rest = text, *at = strchr(text, '@');
	size_t host = host_length(text);

	*ret = (struct reference){.host = DOCKER};
	if (host >= sizeof ret->host)
		return refuse(text, "its host is too long", err);
	if (host) {
		for (size_t i = 0; i < host; i++) {
			if (!is_host_char(text[i]))
				return refuse(text,
					"its host has characters that hosts cannot have", err);
		}
		memcpy(ret->host, text, host);
		ret->host[host] = '\0';
		rest += host + 1;
	}
	int r = at ? take_digest(text, at, ret, err) : 0;
	if (r < 0)
		return r;
	size_t n = at ? (size_t)(at - rest) : strlen(rest);
	const char *colon = memchr(rest, ':', n);
	if (colon) {
		size_t len = n - (size_t)(colon + 1 - rest);

		if (!is_tag(colon + 1, len))
			return refuse(text, "its tag is none", err);
		memcpy(ret->tag, colon + 1, len);
		n = (size_t)(colon - rest);
	} else if (!at) {
		memcpy(ret->tag, "latest", 7);
	}
	if (!is_path(rest, n))
		return refuse(text, "small letters, digits and . _ - / between them make its path",
			err);
	bool is_library = !strcmp(ret->host, DOCKER) && !memchr(rest, '/', n);
	if (snprintf(ret->path, sizeof ret->path, "%s%.*s", is_library ? "library/" : "", (int)n,
		    rest) >= (int)sizeof ret->path)
		return refuse(text, "its path is too long", err);
	return 0;
}

const char *reference_endpoint(const struct reference *r)
{
	return !strcmp(r->host, DOCKER) || !strcmp(r->host, "index.docker.io") ? DOCKER_ENDPOINT
									       : r->host;
}

bool reference_is_loopback(const struct reference *r)
{
	const char *h = r->host;
	size_t n = h[0] == '[' ? strcspn(h, "]") + 1 : strcspn(h, ":");

	return (n == 9 && !memcmp(h, "localhost", 9)) || !strncmp(h, "127.", 4) ||
	       (n == 5 && !memcmp(h, "[::1]", 5));
}

bool reference_is_exact(const char *text)
{
	const char *slash = strrchr(text, '/'); /* a colon before it is a port's */

	return strpbrk(slash ? slash : text, ":@") != NULL;
}
