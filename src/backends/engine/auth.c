/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.c: who we are to a registry, from where `docker login` puts it: a helper program for this registry
 * (credHelpers), one for all (credsStore), or the file itself (auths). The engine gets it with the pull, in
 * a header; it is written nowhere.
 */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"

#define DOCKER_HUB  "https://index.docker.io/v1/"
#define ANSWER_MAX  (32u * 1024)
#define SERVER_SIZE 300
#define NONE	    1 /* no credentials here: look further */

/* "registry:5000/a/b" -> "registry:5000"; a first part without dot, colon or "localhost" is no host. */
static void registry_of(const char *image, char ret[SERVER_SIZE])
{
	size_t n = strcspn(image, "/");

	if (!image[n] || (!memchr(image, '.', n) && !memchr(image, ':', n) &&
				 strncmp(image, "localhost/", 10) != 0))
		(void)snprintf(ret, SERVER_SIZE, DOCKER_HUB);
	else
		(void)snprintf(ret, SERVER_SIZE, "%.*s", (int)n, image);
}

static int pack(json_t *credentials, struct buf *ret)
{
	char *text = json_dumps(credentials, JSON_COMPACT);
	size_t n = text ? strlen(text) : 0;
	auto_free unsigned char *code = malloc(n * 4 / 3 + 8);

	json_decref(credentials);
	if (!text || !code) {
		free(text);
		return -ENOMEM;
	}
	int len = EVP_EncodeBlock(code, (unsigned char *)text, (int)n);
	OPENSSL_cleanse(text, n);
	free(text);
	for (int i = 0; i < len; i++) /* the alphabet of URLs */
		code[i] = code[i] == '+' ? '-' : code[i] == '/' ? '_' : code[i];
	return buf_add(ret, code, (size_t)len);
}

static int pack_login(const char *server, const char *user, const char *secret, struct buf *ret)
{
	/* how helpers say that the secret is a token */
	if (!strcmp(user, "<token>"))
		return pack(json_pack("{s:s,s:s}", "serveraddress", server, "identitytoken",
				    secret),
			ret);
	return pack(json_pack("{s:s,s:s,s:s}", "serveraddress", server, "username", user,
			    "password", secret),
		ret);
}

/* `docker-credential-NAME get`, the server on stdin, JSON on stdout. NONE: it has none. */
static int ask_helper(const char *name, const char *server, struct buf *ret, struct cell_error *err)
{
	auto_buf struct buf answer = BUF_INIT(ANSWER_MAX);
	char program[160], chunk[4096];
	const char *argv[] = {program, "get", NULL};
	posix_spawn_file_actions_t fa;
	int in[2], out[2], status = 0;
	pid_t pid;

	(void)snprintf(program, sizeof program, "docker-credential-%.100s", name);
	if (strchr(name, '/') || pipe2(in, O_CLOEXEC) < 0)
		return -EINVAL;
	if (pipe2(out, O_CLOEXEC) < 0) {
		close(in[0]);
		close(in[1]);
		return -errno;
	}
	(void)posix_spawn_file_actions_init(&fa);
	(void)posix_spawn_file_actions_adddup2(&fa, in[0], 0);
	(void)posix_spawn_file_actions_adddup2(&fa, out[1], 1);
	int r = -posix_spawnp(&pid, program, &fa, NULL, (char *const *)(uintptr_t)argv, environ);
	(void)posix_spawn_file_actions_destroy(&fa);
	close(in[0]);
	close(out[1]);
	if (r == 0)
		(void)!write(in[1], server, strlen(server)); /* fits in a pipe */
	close(in[1]);
	for (ssize_t n; r == 0 && (n = read(out[0], chunk, sizeof chunk)) != 0;)
		if (n < 0 ? errno != EINTR : buf_add(&answer, chunk, (size_t)n) < 0)
			break;
	close(out[0]);
	if (r == 0)
		(void)waitpid(pid, &status, 0);
	if (r < 0) {
		r = cell_fail(err, CELL_EBACKEND, -r, "run '%s' for the credentials of '%s'",
			program, server);
		return cell_error_hint(err, r,
			"install it, or take credsStore out of Docker's config.json");
	}
	json_t *j = json_loads(buf_str(&answer), 0, NULL);
	const char *user = json_string_value(json_object_get(j, "Username"));
	const char *secret = json_string_value(json_object_get(j, "Secret"));
	r = status == 0 && user && secret ? pack_login(server, user, secret, ret) : NONE;
	json_decref(j);
	OPENSSL_cleanse(answer.data, answer.len);
	return r;
}

/* "auth" is base64 of user:password. */
static int from_file(const json_t *entry, const char *server, struct buf *ret)
{
	const char *auth = json_string_value(json_object_get(entry, "auth"));
	const char *token = json_string_value(json_object_get(entry, "identitytoken"));
	size_t n = auth ? strlen(auth) : 0;
	auto_free unsigned char *plain = calloc(1, n + 4);

	if (!plain)
		return -ENOMEM;
	if (token && *token)
		return pack_login(server, "<token>", token, ret);
	if (!n || EVP_DecodeBlock(plain, (const unsigned char *)auth, (int)n) < 0)
		return NONE;
	char *colon = strchr((char *)plain, ':');
	if (!colon)
		return NONE;
	*colon = '\0';
	int r = pack_login(server, (char *)plain, colon + 1, ret);
	OPENSSL_cleanse(plain, n);
	return r;
}

static const json_t *find_entry(const json_t *auths, const char *server)
{
	static const char *const before[] = {"", "https://", "https://", "https://"};
	static const char *const after[] = {"", "", "/", "/v1/"};
	const json_t *found = NULL;
	char key[SERVER_SIZE + 20];

	for (size_t i = 0; !found && i < 4; i++) {
		(void)snprintf(key, sizeof key, "%s%s%s", before[i], server, after[i]);
		found = json_object_get(auths, key);
	}
	return found;
}

int engine_auth(const struct engine_kind *kind, const char *image, struct buf *ret,
	struct cell_error *err)
{
	char server[SERVER_SIZE], path[600];
	json_t *config = NULL;

	registry_of(image, server);
	for (unsigned i = 0; !config && kind->auth_file(i, path, sizeof path) == 0; i++)
		config = json_load_file(path, 0, NULL);
	const char *helper =
		json_string_value(json_object_get(json_object_get(config, "credHelpers"), server));
	if (!helper)
		helper = json_string_value(json_object_get(config, "credsStore"));
	int r = helper ? ask_helper(helper, server, ret, err) : NONE;
	const json_t *entry = find_entry(json_object_get(config, "auths"), server);
	if (r == NONE && entry)
		r = from_file(entry, server, ret);
	json_decref(config);
	return r == NONE ? 0 : r == -ENOMEM ? cell_fail_errno(err, ENOMEM, "log in") : r;
}
