/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_spare.c: interpreters started before anybody asks for a context, their imports done. The next new context of the
 * language takes one over, if that one would have been started as it was: the rest, directory and environment, it is told.
 * Each is a process of its own that serves one context; what does not fit is started when asked for.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "guest/keeper.h"
#include "guest/kernel.h"

#define LIST_MAX 500

/* One item of the list: "python" or "python=json,decimal". rq: has the environment; NULL: the guest's own. */
static void start_one(const char *item, size_t n, const struct request *rq)
{
	auto_(order_done) struct order place = {.cwd_fd = -1};
	char name[32], preload[512] = "";
	const char *eq = memchr(item, '=', n);
	size_t name_len = eq ? (size_t)(eq - item) : n;
	struct cell_error err = {0};

	if (name_len == 0 || name_len >= sizeof name || n - name_len >= sizeof preload)
		return;
	(void)snprintf(name, sizeof name, "%.*s", (int)name_len, item);
	if (eq)
		(void)snprintf(preload, sizeof preload, "%.*s", (int)(n - name_len - 1), eq + 1);
	const struct language *l = language_find(name);
	/* without a request, somewhere that is there already: the workspace may come later */
	if (!l || (rq ? order_read(rq, "start interpreters", &place, &err)
		      : order_default(&place, "/", &err)) < 0)
		return;
	if (rq && order_settle(&place, &err) < 0)
		return;
	struct kernel *k = kernel_new("", l, &place, &err);
	if (!k)
		return;
	k->is_spare = true;
	/* nobody waits: a driver may do now whatever its first run would have to */
	(void)kernel_add_option(k, "park", "1");
	if (preload[0])
		(void)kernel_add_option(k, "preload", preload);
	if (kernel_start(k, &err) < 0) {
		kernel_clear(k, err.msg);
		kernel_free(k);
		return;
	}
	buf_done(&k->options); /* the rest is the context's own */
	deadline_set(k, KERNEL_START_MS);
}

static void start_all(const char *list, const struct request *rq)
{
	while (list && *list) {
		size_t n = strcspn(list, ";");

		start_one(list, n, rq);
		list += n + (list[n] ? 1 : 0);
	}
}

void spare_start(const char *list)
{
	start_all(list, NULL);
}

int spare_warm(struct stream *s, const struct request *rq, struct cell_error *err)
{
	auto_free char *list = NULL;
	int r = order_read_optional(rq, WIRE_T_TEXT, "list", LIST_MAX, &list, err);

	if (r < 0)
		return r;
	start_all(list, rq);
	ops_end_ok(s);
	return 0;
}

void spare_limit(uint64_t pids)
{
	for (struct kernel *k = kernel_first(), *next; k; k = next) {
		pid_t pid = k->host ? keeper_leader(k->host->minder) : 0;
		const struct rlimit most = {pids, pids};
		bool is_limited = pid > 0;

		next = k->next;
		if (!k->is_spare || (!pids && !guest.n_rlimits))
			continue;
		if (is_limited && pids)
			is_limited = prlimit(pid, RLIMIT_NPROC, &most, NULL) == 0;
		for (size_t i = 0; is_limited && i < guest.n_rlimits; i++) {
			const struct rlimit rl = {guest.rlimits[i].value, guest.rlimits[i].value};

			is_limited = prlimit(pid, guest.rlimits[i].resource, &rl, NULL) == 0;
		}
		if (is_limited)
			continue;
		kernel_clear(k, ""); /* it would have none: the next will */
		kernel_free(k);
	}
}

/* ---- taking one over ---- */

static bool is_utf8(const char *locale)
{
	size_t n = strlen(locale);

	return !strcmp(locale, "C") || !strcmp(locale, "POSIX") ||
	       (n >= 5 && !strcasecmp(locale + n - 5, "UTF-8")) ||
	       (n >= 4 && !strcasecmp(locale + n - 4, "UTF8"));
}

/* Variables that an interpreter looks at when it starts, and never again. */
static bool is_for_the_start(const char *variable)
{
	static const char *const beginnings[] = {"PYTHON", "VIRTUAL_ENV", "NODE_", "BASH_", "LD_",
		"MALLOC_", "GLIBC_", "LC_", "LANG", "TZ", "SHELLOPTS", "ENV=", "SQLITE_",
		"OPENSSL_", "SSL_"};

	for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
		if (strncmp(variable, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	}
	return false;
}

static bool has_same(const struct strings *env, const char *variable)
{
	for (size_t i = 0; i < env->n; i++) {
		if (strcmp(env->list[i], variable) == 0)
			return true;
	}
	return false;
}

/* Would it have been started any differently? */
static bool fits(const struct kernel *k, const struct language *l, const struct order *place,
	const char *interpreter)
{
	char wanted[512], there[512];

	if (!k->is_spare || k->language != l || !k->host || k->has_exited || k->killed_why[0] ||
		!place->user.is_self)
		return false;
	(void)language_program(l, env_get(&k->place.env, "PATH"), there, sizeof there);
	(void)language_program(l, env_get(&place->env, "PATH"), wanted, sizeof wanted);
	if (strcmp(interpreter ? interpreter : wanted, there) != 0)
		return false;
	for (size_t i = 0; i < place->env.n; i++) {
		const char *v = place->env.list[i];
		bool is_locale = strncmp(v, "LANG=", 5) == 0 || strncmp(v, "LC_ALL=", 7) == 0;

		if (is_for_the_start(v) && !has_same(&k->place.env, v) &&
			!(is_locale && is_utf8(strchr(v, '=') + 1)))
			return false;
	}
	return true;
}

struct kernel *spare_take(const struct language *l, const char *name, struct order *place,
	const char *interpreter)
{
	struct kernel *k = kernel_first();

	while (k && !fits(k, l, place, interpreter))
		k = k->next;
	if (!k)
		return NULL;
	k->is_spare = false;
	k->is_leased = true;
	(void)snprintf(k->name, sizeof k->name, "%s", name);
	k->was = k->place.env;
	k->place.env = place->env;
	place->env = (struct strings){0};
	free(k->place.cwd);
	k->place.cwd = steal_ptr(place->cwd);
	return k;
}

static int add_directory(struct kernel *k, struct buf *b)
{
	const char *cwd = k->place.cwd && *k->place.cwd ? k->place.cwd : NULL;

	(void)buf_addz(b, "cwd=");
	if (!cwd || *cwd != '/')
		(void)kernel_add_encoded(b, guest.workspace);
	if (cwd && *cwd != '/')
		(void)buf_addc(b, '/');
	if (cwd)
		(void)kernel_add_encoded(b, cwd);
	return buf_addc(b, '\n');
}

int spare_begin(struct kernel *k)
{
	auto_buf struct buf b = BUF_INIT(KERNEL_TX_MAX / 2);
	int r = add_directory(k, &b);

	for (size_t i = 0; r == 0 && i < k->place.env.n; i++) {
		const char *v = k->place.env.list[i], *eq = strchr(v, '=');

		if (!eq || has_same(&k->was, v))
			continue;
		r = buf_addz(&b, "env.");
		if (r == 0)
			r = buf_add(&b, v, (size_t)(eq - v + 1));
		if (r == 0)
			r = kernel_add_encoded(&b, eq + 1);
		if (r == 0)
			r = buf_addc(&b, '\n');
	}
	if (r == 0)
		r = buf_add(&b, k->options.data, k->options.len);
	strings_done(&k->was);
	k->was = (struct strings){0};
	k->is_leased = false;
	if (r == 0)
		r = talk_send(k, "begin", b.data, b.len);
	if (r < 0)
		return r;
	k->n_begun++;
	k->state = KERNEL_STARTING;
	deadline_set(k, KERNEL_START_MS);
	return 0;
}
