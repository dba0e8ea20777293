/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_ops.c: contexts as clients ask for them. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/keeper.h"
#include "guest/kernel.h"

static int check_name(const char *name, struct cell_error *err)
{
	for (const char *p = name; *p; p++) {
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return cell_fail(err, CELL_EINVAL, EINVAL,
				"context '%.64s': a name has only letters, digits, '.', '_' and "
				"'-'",
				name);
	}
	return 0;
}

static int read_name(const struct request *rq, char **ret, struct cell_error *err)
{
	int r = order_read_optional(rq, WIRE_T_CONTEXT, "name of the context", CELL_CONTEXT_MAX - 1,
		ret, err);

	return r == 0 && *ret ? check_name(*ret, err) : r;
}

int context_lacks(const struct language *l, const struct order *place, struct cell_error *err)
{
	auto_buf struct buf there = BUF_INIT(200), wanted = BUF_INIT(200);
	int r = cell_fail(err, CELL_ENOTFOUND, ENOENT, "this cell has no interpreter for %s",
		l->name);

	for (const char *const *p = l->programs; *p; p++)
		(void)buf_addf(&wanted, "%s%s", wanted.len ? " or " : "", *p);
	if (l->instead)
		(void)buf_addf(&wanted, " or %s with %s", l->instead->needs,
			l->instead->programs[0]);
	language_list(env_get(&place->env, "PATH"), &there);
	return cell_error_hint(err, r, "there is no %s in its PATH; the languages it has: %s",
		buf_str(&wanted), buf_str(&there));
}

static int unknown_language(const char *name, const struct order *place, struct cell_error *err)
{
	auto_buf struct buf there = BUF_INIT(200);
	int r = cell_fail(err, CELL_EINVAL, EINVAL, "unknown language '%.32s'", name);

	language_list(env_get(&place->env, "PATH"), &there);
	return cell_error_hint(err, r, "the languages this cell has: %s", buf_str(&there));
}

static int context_unknown(const char *what, const char *name, struct cell_error *err)
{
	int r = cell_fail(err, CELL_ENOTFOUND, ESRCH, "%s: no context '%.64s' in this cell", what,
		name ? name : "");

	return cell_error_hint(err, r, "a context is made by its first run");
}

/* Is there something to run it with? */
static int check_program(const struct language *l, const struct order *place,
	const char *interpreter, struct cell_error *err)
{
	char where[512];

	if (interpreter)
		return 0;
	return language_program(l, env_get(&place->env, "PATH"), where, sizeof where)
		       ? 0
		       : context_lacks(l, place, err);
}

/* Everything but letters and digits and a few is written as %XX. */
int kernel_add_encoded(struct buf *b, const char *value)
{
	int r = 0;

	for (const unsigned char *p = (const unsigned char *)value; r == 0 && *p; p++) {
		if (isalnum(*p) || strchr("._-/,:", *p))
			r = buf_addc(b, (char)*p);
		else
			r = buf_addf(b, "%%%02X", *p);
	}
	return r;
}

int kernel_add_option(struct kernel *k, const char *key, const char *value)
{
	int r = buf_addf(&k->options, "%s=", key);

	if (r == 0)
		r = kernel_add_encoded(&k->options, value);
	return r == 0 ? buf_addc(&k->options, '\n') : r;
}

static int read_options(const struct request *rq, struct kernel *k, struct cell_error *err)
{
	auto_buf struct buf preload = BUF_INIT(16384);
	auto_free char *database = NULL;
	struct wire_reader rd = {.p = rq->fields, .len = rq->len};
	struct wire_field f;
	int r = order_read_optional(rq, WIRE_T_DATABASE, "database", 4096, &database, err);

	if (r < 0)
		return r;
	while (r == 0 && wire_next(&rd, &f) > 0) {
		auto_free char *name = NULL;

		if (f.tag != WIRE_T_PRELOAD)
			continue;
		r = wire_field_str(&f, 255, &name);
		if (r == 0)
			r = buf_addf(&preload, "%s%s", preload.len ? "," : "", name);
	}
	if (r == 0 && preload.len)
		r = kernel_add_option(k, "preload", buf_str(&preload));
	if (r == 0 && database)
		r = kernel_add_option(k, "database", database);
	if (r == 0 && database && strstr(database, "://")) /* the host has looked whether it may */
		r = kernel_add_option(k, "connect", "1");
	return r < 0 ? cell_fail(err, CELL_EINVAL, E2BIG, "make a context: too many options") : 0;
}

static int make(const struct request *rq, const char *name, const struct language *l,
	struct order *place, struct kernel **ret, struct cell_error *err)
{
	auto_free char *interpreter = NULL;
	int r = order_read_optional(rq, WIRE_T_INTERPRETER, "interpreter", 500, &interpreter, err);

	if (r == 0)
		r = check_program(l, place, interpreter, err);
	if (r < 0)
		return r;
	struct kernel *k = spare_take(l, name, place, interpreter);
	if (!k)
		k = kernel_new(name, l, place, err);
	if (!k)
		return -EAGAIN;
	k->interpreter = steal_ptr(interpreter);
	r = read_options(rq, k, err);
	if (r == 0 && k->is_leased && spare_begin(k) < 0)
		r = cell_fail(err, CELL_ENOSPACE, ENOMEM, "make a context");
	if (r < 0) {
		kernel_clear(k, "");
		kernel_free(k);
		return r;
	}
	*ret = k;
	return 0;
}

int context_of(const struct request *rq, struct order *place, bool may_make, struct kernel **ret,
	struct cell_error *err)
{
	auto_free char *name = NULL, *language = NULL;
	int r = read_name(rq, &name, err);

	if (r == 0)
		r = order_read_optional(rq, WIRE_T_LANGUAGE, "language", 64, &language, err);
	if (r < 0)
		return r;
	const struct language *l = language_find(language);
	struct kernel *k = l ? kernel_find(name && *name ? name : l->name) : NULL;
	/* one that is there has its place; what is named all the same has to be right */
	if (!k || place->cwd || place->user_name)
		r = order_settle(place, err);
	if (r < 0)
		return r;
	if (!l)
		return unknown_language(language, place, err);
	if (k && language && *language && k->language != l)
		return cell_fail(err, CELL_EINVAL, EINVAL, "context '%s' is %s, not %s", k->name,
			k->language->name, l->name);
	*ret = k;
	if (!k && !may_make)
		return context_unknown("ask", name, err);
	return k ? 0 : make(rq, name && *name ? name : l->name, l, place, ret, err);
}

/* One that is there. */
static int find(const struct request *rq, const char *what, struct kernel **ret,
	struct cell_error *err)
{
	auto_free char *name = NULL;
	int r = read_name(rq, &name, err);

	if (r < 0)
		return r;
	*ret = name ? kernel_find(name) : NULL;
	if (*ret)
		return 0;
	return context_unknown(what, name, err);
}

static void make_up_name(const struct language *l, char *ret, size_t size)
{
	static unsigned counter;

	do
		(void)snprintf(ret, size, "%s-%u", l->name, ++counter);
	while (kernel_find(ret));
}

int context_create(struct stream *s, const struct request *rq, struct cell_error *err)
{
	auto_(order_done) struct order place = {.cwd_fd = -1};
	auto_free char *name = NULL, *language = NULL;
	char made_up[CELL_CONTEXT_MAX];
	struct kernel *k = NULL;
	int r = order_read(rq, "make a context", &place, err);

	if (r == 0)
		r = order_settle(&place, err);
	if (r == 0)
		r = read_name(rq, &name, err);
	if (r == 0)
		r = order_read_optional(rq, WIRE_T_LANGUAGE, "language", 64, &language, err);
	if (r < 0)
		return r;
	const struct language *l = language_find(language);
	if (!l)
		return unknown_language(language, &place, err);
	if (!name || !*name)
		make_up_name(l, made_up, sizeof made_up);
	else if (kernel_find(name))
		return cell_fail(err, CELL_EEXISTS, EEXIST, "make a context: '%s' is there", name);
	r = make(rq, name && *name ? name : made_up, l, &place, &k, err);
	if (r < 0)
		return r;
	k->timeout_ms = place.timeout_ms;
	if (k->state == KERNEL_OFF) {
		r = kernel_start(k, err);
		if (r < 0) {
			kernel_free(k);
			return r;
		}
		deadline_set(k, KERNEL_START_MS);
	}

	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);
	(void)wire_put_u64(&b, WIRE_T_CODE, CELL_OK);
	(void)wire_put_str(&b, WIRE_T_CONTEXT, k->name);
	stream_end(s, &b);
	return 0;
}

static uint64_t rss_of(pid_t pid)
{
	char path[64], text[100] = "";
	unsigned long long size, pages;

	(void)snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
	auto_fd int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0 ||
		sscanf(text, "%llu %llu", &size, &pages) != 2)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void put_context(struct stream *s, const struct kernel *k)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);
	pid_t pid = k->host ? keeper_leader(k->host->minder) : 0;
	uint64_t waiting = 0;
	bool is_busy = k->runs;

	for (const struct run *r = k->runs ? k->runs->next : NULL; r; r = r->next)
		waiting++;
	(void)wire_put_str(&b, WIRE_T_CONTEXT, k->name);
	(void)wire_put_str(&b, WIRE_T_LANGUAGE, k->language->name);
	(void)wire_put_str(&b, WIRE_T_RELEASE, k->version);
	(void)wire_put_u64(&b, WIRE_T_PID, (uint64_t)pid);
	(void)wire_put_u64(&b, WIRE_T_BUSY, is_busy);
	(void)wire_put_u64(&b, WIRE_T_WAITING, waiting);
	(void)wire_put_u64(&b, WIRE_T_COUNT, k->count);
	(void)wire_put_u64(&b, WIRE_T_STARTED, k->host ? k->started_unix_ms : 0);
	(void)wire_put_u64(&b, WIRE_T_RSS, rss_of(pid));
	(void)stream_reply(s, &b);
}

int context_list(struct stream *s, const struct request *rq, struct cell_error *err)
{
	(void)rq, (void)err;
	for (const struct kernel *k = kernel_first(); k; k = k->next) {
		if (!k->is_spare)
			put_context(s, k);
	}
	ops_end_ok(s);
	return 0;
}

/* What is asked of one context, and answered when it is done. */
static int ask_of_one(struct stream *s, const struct request *rq, const char *what,
	void (*fn)(struct kernel *k), struct cell_error *err)
{
	struct kernel *k;
	int r = find(rq, what, &k, err);

	if (r < 0)
		return r;
	fn(k);
	ops_end_ok(s);
	return 0;
}

static void reset(struct kernel *k)
{
	kernel_clear(k, "its context was reset");
}

static void remove_it(struct kernel *k)
{
	kernel_clear(k, "its context was deleted");
	kernel_free(k);
}

int context_reset(struct stream *s, const struct request *rq, struct cell_error *err)
{
	return ask_of_one(s, rq, "reset", reset, err);
}

int context_interrupt(struct stream *s, const struct request *rq, struct cell_error *err)
{
	return ask_of_one(s, rq, "interrupt", kernel_interrupt, err);
}

int context_delete(struct stream *s, const struct request *rq, struct cell_error *err)
{
	return ask_of_one(s, rq, "delete", remove_it, err);
}
