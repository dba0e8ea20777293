/* SPDX-License-Identifier: Apache-2.0 */
/*
 * registry.c: which back ends there are. The built ones come from the build (backends.inc); names
 * are turned into chains ("fault:trace:local") and chains are probed here. Back ends that are known
 * but not built are in planned.c.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/advice.h"
#include "core/backend.h"
#include "core/nearest.h"

#define BACKEND(n) extern const struct cell_backend cell_backend_##n;
#include "backends.inc"
#undef BACKEND

const struct cell_backend *const cell_backends[] = {
#define BACKEND(n) &cell_backend_##n,
#include "backends.inc"
#undef BACKEND
	NULL,
};

static void list_built(char *ret, size_t size)
{
	size_t n = 0;

	ret[0] = '\0';
	for (size_t i = 0; cell_backends[i] && n < size; i++) {
		int k = snprintf(ret + n, size - n, "%s%s%s", n ? ", " : "", cell_backends[i]->name,
			cell_backends[i]->is_wrapper ? ":" : "");
		n += k > 0 ? (size_t)k : 0;
	}
}

static int fail_unknown(const char *name, struct cell_error *err)
{
	char built[160];
	const char *near = NULL;
	size_t best = NEAREST_START;

	list_built(built, sizeof built);
	for (size_t i = 0; cell_backends_planned[i].name; i++) {
		const struct cell_backend_planned *p = &cell_backends_planned[i];

		if (!strcmp(p->name, name)) {
			int r = cell_fail(err, CELL_ENOTSUP, 0,
				"back end '%s' (%s) is not available in this build", p->name,
				p->summary);
			return p->instead ? cell_error_hint(err, r, "%s", p->instead)
					  : cell_error_hint(err, r, "in this build: %s", built);
		}
		near = cell_nearest(name, p->name, near, &best);
	}
	for (size_t i = 0; cell_backends[i]; i++)
		near = cell_nearest(name, cell_backends[i]->name, near, &best);
	int r = cell_fail(err, CELL_ENOTFOUND, 0, "there is no back end '%.64s'", name);
	if (near)
		return cell_error_hint(err, r, "did you mean '%s'? In this build: %s", near, built);
	return cell_error_hint(err, r, "in this build: %s", built);
}

static const struct cell_backend *find(const char *name)
{
	for (size_t i = 0; cell_backends[i]; i++)
		if (!strcmp(cell_backends[i]->name, name))
			return cell_backends[i];
	return NULL;
}

int cell_backend_chain(const char *name, const struct cell_backend *chain[CELL_CHAIN_MAX],
	struct cell_error *err)
{
	const struct cell_backend *found[CELL_CHAIN_MAX] = {0};
	const char *rest = name;
	size_t n = 0;

	for (;;) {
		char word[64];
		size_t len = strcspn(rest, ":");

		if (n == CELL_CHAIN_MAX - 1) {
			int r = cell_fail(err, CELL_EINVAL, 0,
				"back end '%.80s' has more than %d parts", name,
				CELL_CHAIN_MAX - 1);
			return cell_error_hint(err, r, "use fewer wrappers");
		}
		(void)snprintf(word, sizeof word, "%.*s", (int)(len < sizeof word ? len : 63),
			rest);
		if (!len) {
			int r = cell_fail(err, CELL_EINVAL, 0, "back end '%.80s' has an empty part",
				name);
			return cell_error_hint(err, r, "a wrapper wraps another: 'trace:local'");
		}
		const struct cell_backend *b = find(word);
		if (!b) {
			int r = fail_unknown(word, err);
			return r < 0 ? r : -ENOENT;
		}
		found[n++] = b;
		if (!rest[len])
			break;
		if (!b->is_wrapper) {
			int r = cell_fail(err, CELL_EINVAL, 0,
				"back end '%s' wraps nothing, but '%.80s' puts one inside it",
				b->name, name);
			return cell_error_hint(err, r, "wrappers come first: 'trace:%s'", b->name);
		}
		rest += len + 1;
	}
	if (found[n - 1]->is_wrapper) {
		int r = cell_fail(err, CELL_EINVAL, 0, "back end '%.80s' wraps nothing", name);
		return cell_error_hint(err, r, "name what it should wrap: '%.80s:local'", name);
	}
	memcpy(chain, found, sizeof found);
	return 0;
}

void cell_probe_lack(struct cell_probe *p, enum cell_cap cap, const char *reason, const char *fix)
{
	p->caps &= ~CELL_CAP_BIT(cap);
	if (p->n_lacks == CELL_LACKS_MAX)
		return;
	struct cell_lack *l = &p->lacks[p->n_lacks++];
	l->cap = cap;
	(void)snprintf(l->reason, sizeof l->reason, "%s", reason);
	(void)snprintf(l->fix, sizeof l->fix, "%s", fix);
}

void cell_probe_need(struct cell_probe *p, bool is_there, enum cell_cap cap, const char *reason,
	const char *fix)
{
	if (!is_there)
		cell_probe_lack(p, cap, reason, fix);
}

void cell_probe_refuse(struct cell_probe *p, const char *reason, const char *fix)
{
	p->is_usable = false;
	p->caps = 0;
	(void)snprintf(p->reason, sizeof p->reason, "%s", reason);
	(void)snprintf(p->fix, sizeof p->fix, "%s", fix);
}

void cell_probe_break(struct cell_probe *p, int why, const char *reason, const char *fix)
{
	cell_probe_refuse(p, reason, fix);
	p->broken = why;
}

enum care {
	CARE_HASTY,
	CARE_USUAL,
	CARE_THOROUGH,
};

static void probe(const struct cell_backend *const *chain, enum care care, struct cell_probe *p)
{
	size_t n = 1;

	memset(p, 0, sizeof *p);
	p->is_hasty = care == CARE_HASTY;
	p->is_thorough = care == CARE_THOROUGH;
	while (chain[n])
		n++;
	p->is_usable = true;
	p->caps = chain[n - 1]->caps;
	/* from the inside out: a wrapper sees what it wraps and can only narrow it */
	while (n-- && p->is_usable) {
		p->chain = chain + n;
		p->caps &= chain[n]->caps;
		chain[n]->probe(p);
	}
	p->chain = chain;
}

void cell_probe_run(const struct cell_backend *const *chain, struct cell_probe *p)
{
	probe(chain, CARE_USUAL, p);
}

void cell_probe_hastily(const struct cell_backend *const *chain, struct cell_probe *p)
{
	probe(chain, CARE_HASTY, p);
}

static void advise(struct cell_backend_info *ret)
{
	const struct cell_advice *a = cell_advice_on(ret->name);

	ret->needs = a->needs;
	ret->take_for = a->take_for;
	ret->not_for = a->not_for;
}

static void fill_info(const struct cell_backend *const *chain, struct cell_backend_info *ret)
{
	const struct cell_backend *b = chain[0];
	struct cell_probe p;

	for (size_t i = 1; chain[i]; i++)
		b = chain[i];
	memset(ret, 0, sizeof *ret);
	ret->name = b->name;
	ret->summary = b->summary;
	ret->wall = b->wall;
	advise(ret);
	ret->tier = b->tier;
	ret->is_built = true;
	ret->declared = b->caps;
	if (b->is_wrapper) {
		(void)snprintf(ret->reason, sizeof ret->reason, "a wrapper, nothing by itself");
		(void)snprintf(ret->fix, sizeof ret->fix, "name what it should wrap: %s:local",
			b->name);
		return;
	}
	probe(chain, CARE_THOROUGH, &p);
	ret->is_usable = p.is_usable;
	ret->caps = p.caps;
	memcpy(ret->reason, p.reason, sizeof ret->reason);
	memcpy(ret->fix, p.fix, sizeof ret->fix);
	memcpy(ret->lacks, p.lacks, sizeof ret->lacks);
	ret->n_lacks = p.n_lacks;
}

static void fill_planned(const struct cell_backend_planned *b, struct cell_backend_info *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->name = b->name;
	ret->summary = b->summary;
	ret->wall = "";
	advise(ret);
	ret->tier = b->tier;
	ret->declared = b->caps;
	(void)snprintf(ret->reason, sizeof ret->reason, "not in this build");
	(void)snprintf(ret->fix, sizeof ret->fix, "a later release brings it");
}

size_t cell_backends_probe(struct cell_backend_info *ret, size_t max)
{
	size_t n = 0;

	for (size_t i = 0; cell_backends[i] && n < max; i++) {
		const struct cell_backend *chain[2] = {cell_backends[i], NULL};

		fill_info(chain, &ret[n++]);
	}
	for (size_t i = 0; cell_backends_planned[i].name && n < max; i++)
		fill_planned(&cell_backends_planned[i], &ret[n++]);
	return n;
}

int cell_backend_walls(const char *name, cell_wall_fn fn, void *user, struct cell_error *err)
{
	const struct cell_backend *chain[CELL_CHAIN_MAX] = {0};
	struct cell_probe p;
	size_t n = 0;
	int r = cell_backend_chain(name, chain, err);

	if (r < 0)
		return r;
	while (chain[n + 1])
		n++;
	if (!chain[n]->walls)
		return 0;
	cell_probe_run(chain + n, &p);
	return p.is_usable ? chain[n]->walls(chain[n], fn, user) : 0;
}

int cell_backend_probe(const char *name, struct cell_backend_info *ret, struct cell_error *err)
{
	const struct cell_backend *chain[CELL_CHAIN_MAX] = {0};
	const struct cell_backend *b = find(name);

	if (b && b->is_wrapper) {
		fill_info((const struct cell_backend *const[]){b, NULL}, ret);
		return 0;
	}
	for (size_t i = 0; cell_backends_planned[i].name; i++) {
		if (!strcmp(cell_backends_planned[i].name, name)) {
			fill_planned(&cell_backends_planned[i], ret);
			return 0;
		}
	}
	int r = cell_backend_chain(name, chain, err);
	if (r < 0)
		return r;
	fill_info(chain, ret);
	return 0;
}
