/* SPDX-License-Identifier: Apache-2.0 */
/* contract.c: choosing a back end and refusing what it cannot promise. What a spec asks for is
 * worked out in needs.c. Never falls back to weaker walls: the strongest usable back end, or an
 * error. */
#include "core/contract.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "core/cell.h"

const struct cell_backend *cell_chain_place(const struct cell_backend *const *chain)
{
	while (chain[1])
		chain++;
	return chain[0];
}

/* Text that stops growing quietly at its end. */
struct text {
	char *p;
	size_t size, len;
};

static void add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *fmt, ...)
{
	va_list ap;

	if (t->len >= t->size)
		return;
	va_start(ap, fmt);
	int n = vsnprintf(t->p + t->len, t->size - t->len, fmt, ap);
	va_end(ap);
	t->len += n > 0 ? (size_t)n : 0;
}

/* Does it offer all of `caps` at `tier`, at best? Wrappers and back ends that run nothing do not
 * count. */
static bool offers(cell_caps have, int have_tier, cell_caps caps, int tier)
{
	return have_tier > 0 && have_tier >= tier && (have & caps) == caps;
}

static void add_name(struct text *t, const char *name)
{
	add(t, "%s%s", t->len ? ", " : "", name);
}

/* "usable here: chroot; built but not usable here: x; not in this build: docker, podman" */
static void who_has(struct text *t, cell_caps caps, int tier)
{
	char here[100], elsewhere[100], planned[100];
	struct text h = {here, sizeof here, 0}, e = {elsewhere, sizeof elsewhere, 0},
		    l = {planned, sizeof planned, 0};

	for (size_t i = 0; cell_backends[i]; i++) {
		const struct cell_backend *chain[2] = {cell_backends[i], NULL};
		struct cell_probe p;

		if (chain[0]->is_wrapper || !offers(chain[0]->caps, chain[0]->tier, caps, tier))
			continue;
		cell_probe_run(chain, &p);
		add_name(p.is_usable && offers(p.caps, chain[0]->tier, caps, tier) ? &h : &e,
			chain[0]->name);
	}
	for (size_t i = 0, n = 0; cell_backends_planned[i].name; i++) {
		const struct cell_backend_planned *b = &cell_backends_planned[i];

		if (offers(b->caps, b->tier, caps, tier) && n++ < 5)
			add_name(&l, b->name);
	}
	if (h.len)
		add(t, "%susable here: %s", t->len ? "; " : "", here);
	if (e.len)
		add(t, "%sbuilt but not to be had here: %s", t->len ? "; " : "", elsewhere);
	if (l.len)
		add(t, "%snot in this build: %s", t->len ? "; " : "", planned);
	if (!t->len)
		add(t, "no back end known to Cell has it");
}

static void set_backend(struct cell_error *err, const struct cell_probe *p)
{
	if (err)
		(void)snprintf(err->backend, sizeof err->backend, "%s",
			cell_chain_place(p->chain)->name);
}

static const struct cell_lack *find_lack(const struct cell_probe *p, enum cell_cap cap)
{
	for (size_t i = 0; i < p->n_lacks; i++)
		if (p->lacks[i].cap == cap)
			return &p->lacks[i];
	return NULL;
}

static int refuse_cap(const struct cell_needs *needs, size_t first, const struct cell_probe *p,
	bool is_default, struct cell_error *err)
{
	const struct cell_need *n = &needs->list[first];
	const struct cell_lack *lack = find_lack(p, n->cap);
	const char *name = cell_chain_place(p->chain)->name;
	cell_caps missing = 0;
	char more[120] = "", hint[300] = "";
	struct text m = {more, sizeof more, 0}, h = {hint, sizeof hint, 0};

	for (size_t i = first; i < needs->n; i++) {
		const struct cell_need *other = &needs->list[i];

		if ((p->caps & CELL_CAP_BIT(other->cap)) || other->may_degrade)
			continue;
		missing |= CELL_CAP_BIT(other->cap);
		if (i != first)
			add(&m, "%s%s", m.len ? ", " : "; nor ", cell_cap_name(other->cap));
	}
	int r = cell_fail(err, CELL_ENOTSUP, 0,
		"back end '%s'%s cannot promise %s (%s), asked for by '%s': %s%s", name,
		is_default ? ", the strongest here," : "", cell_cap_name(n->cap),
		cell_cap_meaning(n->cap), n->key, lack ? lack->reason : "it never does", more);
	if (lack && lack->fix[0])
		add(&h, "%s", lack->fix);
	who_has(&h, missing, 0);
	r = cell_error_hint(err, r, "%s", hint);
	set_backend(err, p);
	return r;
}

static int refuse_tier(int tier, const struct cell_probe *p, bool is_default,
	struct cell_error *err)
{
	const struct cell_backend *b = cell_chain_place(p->chain);
	char hint[300] = "";
	struct text h = {hint, sizeof hint, 0};
	int r = cell_fail(err, CELL_ENOTSUP, 0,
		"back end '%s'%s is of tier %d, but 'tier: %d' asks for stronger walls", b->name,
		is_default ? ", the strongest here," : "", b->tier, tier);

	who_has(&h, 0, tier);
	r = cell_error_hint(err, r, "%s", hint);
	set_backend(err, p);
	return r;
}

int cell_contract_require(const struct cell *c, cell_caps caps, const char *attempt,
	struct cell_error *err)
{
	cell_caps missing = caps & ~c->caps;
	char hint[300] = "";
	struct text h = {hint, sizeof hint, 0};

	if (!missing)
		return 0;
	enum cell_cap cap = (enum cell_cap)__builtin_ctzll(missing);
	const char *name = cell_chain_place(c->chain)->name;
	int r = cell_fail(err, CELL_ENOTSUP, 0,
		"%s in cell '%s': its back end '%s' does not promise %s (%s)", attempt, c->name,
		name, cell_cap_name(cap), cell_cap_meaning(cap));
	who_has(&h, missing, 0);
	r = cell_error_hint(err, r, "%s", hint);
	if (err)
		(void)snprintf(err->backend, sizeof err->backend, "%s", name);
	return r;
}

int cell_contract_check(const struct cell_spec *spec, const struct cell_needs *needs,
	const struct cell_probe *p, bool is_default, cell_caps *ret_degraded,
	struct cell_error *err)
{
	cell_caps degraded = 0;

	if (spec->tier > cell_chain_place(p->chain)->tier)
		return refuse_tier(spec->tier, p, is_default, err);
	for (size_t i = 0; i < needs->n; i++) {
		const struct cell_need *n = &needs->list[i];

		if (p->caps & CELL_CAP_BIT(n->cap))
			continue;
		if (!n->may_degrade)
			return refuse_cap(needs, i, p, is_default, err);
		degraded |= CELL_CAP_BIT(n->cap);
	}
	*ret_degraded = degraded;
	return 0;
}

typedef void (*probe_fn)(const struct cell_backend *const *chain, struct cell_probe *p);

/* The probe broke, which says nothing about the machine: no lack, and worth another try. */
static int fail_broken(const char *name, const struct cell_probe *probe, struct cell_error *err)
{
	(void)cell_fail(err, CELL_EBACKEND, 0, "find out whether back end '%s' is usable here: %s",
		name, probe->reason);
	if (err)
		err->sys_errno = probe->broken;
	set_backend(err, probe);
	return cell_error_hint(err, -probe->broken, "%s", probe->fix);
}

/* The one with the most strength; ties go to the one named first in the build. When it is not usable
 * here nothing weaker takes its place: whoever wants that says so by name. */
static int choose_strongest(const struct cell_backend *chain[CELL_CHAIN_MAX], probe_fn probe,
	struct cell_probe *ret_probe, struct cell_error *err)
{
	const struct cell_backend *best = NULL;
	char hint[300];

	for (size_t i = 0; cell_backends[i]; i++)
		if (!cell_backends[i]->is_wrapper &&
			cell_backends[i]->strength > (best ? best->strength : 0))
			best = cell_backends[i];
	if (!best) {
		int r = cell_fail(err, CELL_ENOTSUP, 0, "no back end of this build is a default");
		return cell_error_hint(err, r, "name one: `cell backends` lists them");
	}
	chain[0] = best;
	chain[1] = NULL;
	probe(chain, ret_probe);
	if (ret_probe->is_usable)
		return 0;
	if (ret_probe->broken)
		return fail_broken(best->name, ret_probe, err);
	int r = cell_fail(err, CELL_ENOTSUP, 0,
		"back end '%s', the default, is not usable here: %s", best->name,
		ret_probe->reason);
	(void)snprintf(hint, sizeof hint, "%s%sor name weaker walls: --backend subprocess",
		ret_probe->fix, ret_probe->fix[0] ? "; " : "");
	r = cell_error_hint(err, r, "%s", hint);
	set_backend(err, ret_probe);
	return r;
}

static int choose(const struct cell_spec *spec, const struct cell_backend *chain[CELL_CHAIN_MAX],
	probe_fn probe, struct cell_probe *ret_probe, cell_caps *ret_degraded,
	struct cell_error *err)
{
	struct cell_needs needs;
	int r = cell_contract_needs(spec, &needs, err);

	if (r < 0)
		return r;
	if (!spec->backend) {
		r = choose_strongest(chain, probe, ret_probe, err);
		if (r < 0)
			return r;
		return cell_contract_check(spec, &needs, ret_probe, true, ret_degraded, err);
	}
	r = cell_backend_chain(spec->backend, chain, err);
	if (r < 0)
		return r;
	probe(chain, ret_probe);
	if (ret_probe->broken)
		return fail_broken(spec->backend, ret_probe, err);
	if (!ret_probe->is_usable) {
		r = cell_fail(err, CELL_ENOTSUP, 0, "back end '%s' is not usable here: %s",
			spec->backend, ret_probe->reason);
		r = cell_error_hint(err, r, "%s", ret_probe->fix);
		set_backend(err, ret_probe);
		return r;
	}
	return cell_contract_check(spec, &needs, ret_probe, false, ret_degraded, err);
}

int cell_contract_choose(const struct cell_spec *spec,
	const struct cell_backend *chain[CELL_CHAIN_MAX], struct cell_probe *ret_probe,
	cell_caps *ret_degraded, struct cell_error *err)
{
	return choose(spec, chain, cell_probe_run, ret_probe, ret_degraded, err);
}

int cell_contract_choose_hastily(const struct cell_spec *spec,
	const struct cell_backend *chain[CELL_CHAIN_MAX], struct cell_probe *ret_probe,
	cell_caps *ret_degraded, struct cell_error *err)
{
	return choose(spec, chain, cell_probe_hastily, ret_probe, ret_degraded, err);
}
