/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.c: who we are to a registry, from where `docker login` and `podman login` put it (distribution/credentials.h). The engine gets it with
 * the pull, in a header; it is written nowhere.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "distribution/credentials.h"

#define DOCKER_HUB "docker.io"

/* "registry:5000/a/b" -> "registry:5000"; a first part without dot, colon or "localhost" is no host. */
static void registry_of(const char *image, char ret[300])
{
	size_t n = strcspn(image, "/");

	if (!image[n] || (!memchr(image, '.', n) && !memchr(image, ':', n) &&
				 strncmp(image, "localhost/", 10) != 0))
		(void)snprintf(ret, 300, DOCKER_HUB);
	else
		(void)snprintf(ret, 300, "%.*s", (int)n, image);
}

/* As the header has it: JSON in the base64 of URLs. */
static int pack(const json_t *login, struct buf *ret)
{
	char *text = json_dumps(login, JSON_COMPACT);
	size_t n = text ? strlen(text) : 0;
	auto_free unsigned char *code = malloc(n * 4 / 3 + 8);
	int len = text && code ? EVP_EncodeBlock(code, (unsigned char *)text, (int)n) : -1;

	if (text)
		OPENSSL_cleanse(text, n);
	free(text);
	for (int i = 0; i < len; i++)
		code[i] = code[i] == '+' ? '-' : code[i] == '/' ? '_' : code[i];
	return len < 0 ? -ENOMEM : buf_add(ret, code, (size_t)len);
}

int engine_auth(const char *image, struct buf *ret, struct cell_error *err)
{
	struct credentials c;
	char host[300];

	registry_of(image, host);
	int r = credentials_find(host, &c, err);
	if (r < 0)
		return r;
	const char *server = strcmp(host, DOCKER_HUB) ? host : "https://index.docker.io/v1/";
	json_t *login = c.identity_token     ? json_pack("{s:s,s:s}", "serveraddress", server,
						       "identitytoken", c.identity_token)
			: c.user && c.secret ? json_pack("{s:s,s:s,s:s}", "serveraddress", server,
						       "username", c.user, "password", c.secret)
					     : NULL;
	bool is_known = c.identity_token || (c.user && c.secret);
	if (is_known)
		r = login ? pack(login, ret) : -ENOMEM;
	json_decref(login);
	credentials_done(&c);
	return r < 0 ? cell_fail_errno(err, ENOMEM, "log in") : 0;
}
