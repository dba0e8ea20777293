/* SPDX-License-Identifier: Apache-2.0 */
#include "distribution/credentials.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "distribution/docker_config.h"
#include "distribution/reference.h"

#define FILE_MAX     (1u << 20)
#define ANSWER_MAX   65536
#define HELPER_MS    30000
#define DOCKER_KEY   "https://index.docker.io/v1/"
#define NO_USER_NAME "<token>" /* what helpers say when the secret is an identity token */

void credentials_done(struct credentials *c)
{
	char *all[] = {c->user, c->secret, c->identity_token};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (all[i])
			explicit_bzero(all[i], strlen(all[i]));
		free(all[i]);
	}
	*c = (struct credentials){0};
}

/* ---- the files ---- */

/* -ENOENT (err untouched) when there is none. */
static int load(const char *path, json_t **ret, struct cell_error *err)
{
	json_error_t why;
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? -ENOENT
			       : cell_fail_errno(err, errno, "reading credentials from '%s'", path);
	auto_buf struct buf b = BUF_INIT(FILE_MAX);
	ssize_t n;
	do {
		if (buf_reserve(&b, 4096 + 1) < 0)
			return cell_fail(err, CELL_ELIMIT, 0, "'%s' is larger than 1 MiB", path);
		n = read(fd, b.data + b.len, 4096);
		if (n < 0)
			return cell_fail_errno(err, errno, "reading credentials from '%s'", path);
		b.len += (size_t)n;
	} while (n > 0);
	*ret = json_loadb((char *)b.data, b.len, 0, &why);
	explicit_bzero(b.data, b.len);
	if (json_is_object(*ret))
		return 0;
	json_decref(*ret);
	return cell_error_hint(err,
		cell_fail(err, CELL_EINVAL, 0, "'%s' is no JSON object, line %d", path, why.line),
		"mend or remove it: it should have an object \"auths\"");
}

/* The places, in the order they are asked. NULL-terminated; caller frees each. */
static void list_files(char *ret[6])
{
	const char *file = getenv("REGISTRY_AUTH_FILE"), *home = getenv("HOME"),
		   *run = getenv("XDG_RUNTIME_DIR"), *config = getenv("XDG_CONFIG_HOME");
	char docker[PATH_MAX];
	size_t n = 0;

	memset(ret, 0, 6 * sizeof *ret);
	if (file && *file)
		n += asprintf(&ret[n], "%s", file) > 0;
	if (docker_config_path("config.json", docker, sizeof docker) == 0)
		n += asprintf(&ret[n], "%s", docker) > 0;
	if (run && *run)
		n += asprintf(&ret[n], "%s/containers/auth.json", run) > 0;
	if (config && *config)
		n += asprintf(&ret[n], "%s/containers/auth.json", config) > 0;
	else if (home && *home)
		n += asprintf(&ret[n], "%s/.config/containers/auth.json", home) > 0;
	ret[n] = NULL;
}

static bool is_docker_hub(const char *host)
{
	return !strcmp(host, "docker.io") || !strcmp(host, "index.docker.io");
}

/* Keys are hosts, or URLs as older programs wrote them. */
static bool is_key_for(const char *key, const char *host)
{
	const char *scheme = strstr(key, "://");
	const char *bare = scheme ? scheme + 3 : key;
	size_t n = strcspn(bare, "/");

	if (is_docker_hub(host) && n == 15 && !strncmp(bare, "index.docker.io", n))
		return true;
	return n == strlen(host) && !strncmp(bare, host, n) &&
	       (!bare[n] || !strcmp(bare + n, "/") || !strcmp(bare + n, "/v1/") ||
		       !strcmp(bare + n, "/v2/"));
}

static json_t *find_entry(json_t *object, const char *host)
{
	const char *key;
	json_t *value;

	json_object_foreach (object, key, value) {
		if (is_key_for(key, host))
			return value;
	}
	return NULL;
}

/* "auth": base64 of user:password. */
static int take_auth(const char *text, struct credentials *ret)
{
	size_t n = strlen(text);
	auto_free unsigned char *plain = malloc(n + 1);

	if (!plain)
		return -ENOMEM;
	int len = n % 4 || n > FILE_MAX
			  ? -1
			  : EVP_DecodeBlock(plain, (const unsigned char *)text, (int)n);
	if (len < 0)
		return -EINVAL;
	plain[len] = '\0'; /* the padding decodes to NULs, which end it earlier */
	char *colon = strchr((char *)plain, ':');
	if (!colon)
		return -EINVAL;
	ret->user = strndup((char *)plain, (size_t)(colon - (char *)plain));
	ret->secret = strdup(colon + 1);
	explicit_bzero(plain, n + 1);
	return ret->user && ret->secret ? 0 : -ENOMEM;
}

static int take_entry(const char *path, const char *host, json_t *entry, struct credentials *ret,
	struct cell_error *err)
{
	const char *auth = json_string_value(json_object_get(entry, "auth"));
	const char *token = json_string_value(json_object_get(entry, "identitytoken"));
	const char *user = json_string_value(json_object_get(entry, "username"));
	const char *secret = json_string_value(json_object_get(entry, "password"));
	int r = 0;

	if (token && *token)
		r = (ret->identity_token = strdup(token)) ? 0 : -ENOMEM;
	if (r == 0 && auth && *auth) {
		r = take_auth(auth, ret);
	} else if (r == 0 && user && secret) {
		ret->user = strdup(user);
		ret->secret = strdup(secret);
		r = ret->user && ret->secret ? 0 : -ENOMEM;
	}
	if (r == -EINVAL)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "'%s' has no proper \"auth\" for %s", path,
				host),
			"log in again with docker or podman");
	return r < 0 ? cell_fail_errno(err, -r, "reading credentials") : 0;
}

/* ---- helper programs ---- */

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int read_answer(int fd, struct buf *b)
{
	uint64_t end_ms = now_ms() + HELPER_MS;

	for (;;) {
		uint64_t now = now_ms();
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (now >= end_ms)
			return -ETIMEDOUT;
		int r = poll(&p, 1, (int)(end_ms - now));
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r <= 0)
			continue;
		if (buf_reserve(b, 1024 + 1) < 0)
			return -EMSGSIZE;
		ssize_t n = read(fd, b->data + b->len, 1024);
		if (n <= 0)
			return n < 0 ? -errno : 0;
		b->len += (size_t)n;
		b->data[b->len] = '\0';
	}
}

static int start_helper(char *program, int in, int out, pid_t *ret)
{
	char get[] = "get", *const argv[] = {program, get, NULL};
	posix_spawn_file_actions_t a;
	int r = posix_spawn_file_actions_init(&a);

	if (r)
		return -r;
	r = posix_spawn_file_actions_adddup2(&a, in, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&a, out, 1);
	if (!r)
		r = posix_spawnp(ret, program, &a, NULL, argv, environ);
	(void)posix_spawn_file_actions_destroy(&a);
	return -r;
}

/* Runs it: its answer in `b`, its exit status, or negative errno. */
static int ask_helper(char *program, const char *host, struct buf *b)
{
	int in[2] = {-1, -1}, out[2] = {-1, -1}, status = 0;
	pid_t pid = 0;
	int r = pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 ? -errno : 0;

	if (r == 0)
		r = start_helper(program, in[0], out[1], &pid);
	if (in[0] >= 0)
		close(in[0]);
	if (out[1] >= 0)
		close(out[1]);
	if (r == 0 && write(in[1], host, strlen(host)) < 0 && errno != EPIPE)
		r = -errno;
	if (in[1] >= 0)
		close(in[1]);
	if (r == 0)
		r = read_answer(out[0], b);
	if (out[0] >= 0)
		close(out[0]);
	if (pid && r < 0)
		(void)kill(pid, SIGKILL);
	while (pid && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return r < 0 ? r : WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}

/* Helpers say on stdout, and with a non-zero status, that they know nothing. */
static bool is_nothing_known(const char *answer)
{
	return strstr(answer, "credentials not found") || strstr(answer, "not found in native");
}

static int use_helper(const char *name, const char *host, struct credentials *ret,
	struct cell_error *err)
{
	auto_free char *program = NULL;
	auto_buf struct buf b = BUF_INIT(ANSWER_MAX);

	for (const char *p = name; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return cell_fail(err, CELL_EINVAL, 0,
				"'%.60s' is no name of a credential helper", name);
	}
	if (asprintf(&program, "docker-credential-%s", name) < 0) {
		program = NULL;
		return cell_fail_errno(err, ENOMEM, "asking for credentials");
	}
	int r = ask_helper(program, is_docker_hub(host) ? DOCKER_KEY : host, &b);
	if (r > 0 && is_nothing_known(buf_str(&b)))
		return 0;
	json_t *o = r == 0 ? json_loadb((char *)b.data, b.len, 0, NULL) : NULL;
	const char *user = json_string_value(json_object_get(o, "Username"));
	const char *secret = json_string_value(json_object_get(o, "Secret"));
	if (user && secret && !strcmp(user, NO_USER_NAME)) {
		ret->identity_token = strdup(secret);
	} else if (user && secret) {
		ret->user = strdup(user);
		ret->secret = strdup(secret);
	}
	bool is_taken = ret->identity_token || (ret->user && ret->secret);
	json_decref(o);
	if (b.len)
		explicit_bzero(b.data, b.len);
	if (is_taken)
		return 0;
	return cell_error_hint(err,
		cell_fail(err, CELL_EBACKEND, r < 0 ? -r : 0,
			"the credential helper %s gave no credentials for %s", program, host),
		"try `echo %s | %s get`; without a helper, log in again with docker or podman",
		host, program);
}

/* ---- one file ---- */

static bool is_complete(const struct credentials *c)
{
	return c->identity_token || (c->user && c->secret);
}

static int ask_file(const char *path, const char *host, struct credentials *ret,
	struct cell_error *err)
{
	json_t *root = NULL;
	int r = load(path, &root, err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	const char *helper =
		json_string_value(find_entry(json_object_get(root, "credHelpers"), host));
	json_t *entry = find_entry(json_object_get(root, "auths"), host);
	const char *store = json_string_value(json_object_get(root, "credsStore"));
	if (helper && *helper)
		r = use_helper(helper, host, ret, err);
	else if (entry && json_object_size(entry))
		r = take_entry(path, host, entry, ret, err);
	else if (store && *store && (entry || !json_object_get(root, "auths")))
		r = use_helper(store, host, ret, err);
	json_decref(root);
	return r;
}

int credentials_find(const char *host, struct credentials *ret, struct cell_error *err)
{
	char *files[6];
	int r = 0;

	*ret = (struct credentials){0};
	list_files(files);
	for (size_t i = 0; files[i]; i++) {
		if (r == 0 && !is_complete(ret))
			r = ask_file(files[i], host, ret, err);
		free(files[i]);
	}
	if (r < 0)
		credentials_done(ret);
	return r;
}

/* ---- for others ---- */

/* JSON in the base64 of URLs. */
static int encode(const json_t *login, struct buf *ret)
{
	char *text = json_dumps(login, JSON_COMPACT);
	size_t n = text ? strlen(text) : 0;
	auto_free unsigned char *code = malloc(n * 4 / 3 + 8);
	int len = text && code ? EVP_EncodeBlock(code, (unsigned char *)text, (int)n) : -1;

	if (text)
		explicit_bzero(text, n);
	free(text);
	for (int i = 0; i < len; i++)
		code[i] = code[i] == '+' ? '-' : code[i] == '/' ? '_' : code[i];
	return len < 0 ? -ENOMEM : buf_add(ret, code, (size_t)len);
}

int credentials_pack(const char *host, struct buf *ret, struct cell_error *err)
{
	struct credentials c;
	int r = credentials_find(host, &c, err);

	if (r < 0)
		return r;
	bool has_password = !c.identity_token && c.user && c.secret;
	if (c.identity_token || has_password) {
		json_t *login = json_pack("{s:s,s:s*,s:s*,s:s*}", "serveraddress",
			is_docker_hub(host) ? DOCKER_KEY : host, "identitytoken", c.identity_token,
			"username", has_password ? c.user : NULL, "password",
			has_password ? c.secret : NULL);
		r = login ? encode(login, ret) : -ENOMEM;
		json_decref(login);
	}
	credentials_done(&c);
	return r < 0 ? cell_fail_errno(err, ENOMEM, "log in") : 0;
}

int credentials_pack_image(const char *image, struct buf *ret, struct cell_error *err)
{
	struct reference from;

	return reference_parse(image, &from, NULL) < 0 ? 0 : credentials_pack(from.host, ret, err);
}
