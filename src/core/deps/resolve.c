/* SPDX-License-Identifier: Apache-2.0 */
/* resolve.c: see resolve.h. */
#include "core/deps/resolve.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"

#define ROUNDS_MAX   200
#define PACKAGES_MAX 2000
#define QUEUE_MAX    100000

#define AGAIN 1 /* something was learned: choose anew */

/* Somebody asks for something. */
struct wish {
	struct requirement q;
	char from[REQUIREMENT_NAME_MAX + 130]; /* "" is the user */
};

struct wishes {
	struct wish *list;
	size_t n, max;
};

struct work {
	const struct resolve_args *args;
	struct marker_env env;
	struct resolution *picks;
	struct wishes queue;   /* of this round */
	struct wishes learned; /* of earlier rounds */
	json_t *banned;	       /* {"name version": why} */
	struct cell_error *err;
};

static void work_done(struct work *w)
{
	free(w->queue.list);
	free(w->learned.list);
	json_decref(w->banned);
}

void resolution_done(struct resolution *r)
{
	for (size_t i = 0; i < r->n; i++)
		deps_tree_done(&r->list[i].tree);
	free(r->list);
	*r = (struct resolution){0};
}

static int add_wish(struct work *w, struct wishes *to, const struct requirement *q,
	const char *from)
{
	if (to->n == QUEUE_MAX)
		return cell_fail(w->err, CELL_ELIMIT, 0, "the packages need too many others");
	if (to->n == to->max) {
		size_t max = to->max ? to->max * 2 : 32;
		struct wish *list = reallocarray(to->list, max, sizeof *list);
		if (!list)
			return cell_fail_errno(w->err, ENOMEM, "resolve packages");
		to->list = list;
		to->max = max;
	}
	struct wish *x = &to->list[to->n++];
	x->q = *q;
	(void)snprintf(x->from, sizeof x->from, "%s", from);
	return 0;
}

static struct pick *pick_of(const struct work *w, const char *name)
{
	for (size_t i = 0; i < w->picks->n; i++)
		if (!strcmp(w->picks->list[i].name, name))
			return &w->picks->list[i];
	return NULL;
}

/* ---- choosing ---- */

/* Is the version what everybody asks for, as far as it is known? */
static bool is_wanted(const struct work *w, const char *name, const char *version)
{
	const struct wishes *lists[] = {&w->queue, &w->learned};

	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < lists[k]->n; i++) {
			const struct wish *x = &lists[k]->list[i];
			if (!strcmp(x->q.name, name) && !specifiers_allow(x->q.specifiers, version))
				return false;
		}
	return true;
}

static bool wants_pre(const struct work *w, const char *name)
{
	const struct wishes *lists[] = {&w->queue, &w->learned};

	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < lists[k]->n; i++)
			if (!strcmp(lists[k]->list[i].q.name, name) &&
				specifiers_want_pre(lists[k]->list[i].q.specifiers))
				return true;
	return false;
}

static bool wants_exactly(const struct work *w, const char *name)
{
	for (size_t i = 0; i < w->queue.n; i++)
		if (!strcmp(w->queue.list[i].q.name, name) &&
			specifiers_are_exact(w->queue.list[i].q.specifiers))
			return true;
	return false;
}

static bool is_hash_allowed(const struct work *w, const char *name, const char *hash)
{
	const json_t *allowed = w->args->hashes ? json_object_get(w->args->hashes, name) : NULL;
	json_t *h;
	size_t i;

	if (!w->args->hashes || !*hash)
		return true;
	json_array_foreach (allowed, i, h)
		if (!strcmp(json_string_value(h), hash))
			return true;
	return false;
}

static const char *ban_key(const char *name, const char *version, char ret[300])
{
	(void)snprintf(ret, 300, "%s %s", name, version);
	return ret;
}

static bool is_possible(const struct work *w, const struct candidate *c)
{
	char key[300];

	return !json_object_get(w->banned, ban_key(c->wheel.name, c->wheel.version, key)) &&
	       (!*c->requires_python || specifiers_allow(c->requires_python,
						w->args->source->interpreter->version)) &&
	       is_wanted(w, c->wheel.name, c->wheel.version) &&
	       is_hash_allowed(w, c->wheel.name, c->hash);
}

static bool is_better(const struct candidate *a, const struct candidate *b)
{
	int c = version_compare(&a->version, &b->version);

	if (!c)
		c = (int)a->is_given - (int)b->is_given;
	if (!c)
		c = (a->fitness > b->fitness) - (a->fitness < b->fitness);
	if (!c)
		c = strverscmp(a->wheel.build, b->wheel.build);
	return c > 0;
}

static struct candidate *best(const struct work *w, const struct candidates *all)
{
	bool has_pre = wants_pre(w, all->name), has_yanked = wants_exactly(w, all->name);
	struct candidate *found = NULL;

	/* pre-releases only where one is asked for, or there is nothing else */
	for (int pass = has_pre ? 1 : 0; !found && pass < 2; pass++)
		for (size_t i = 0; i < all->n; i++) {
			struct candidate *c = &all->list[i];
			if ((pass || c->is_given || !version_is_pre(&c->version)) &&
				(!c->is_yanked || has_yanked) && is_possible(w, c) &&
				(!found || is_better(c, found)))
				found = c;
		}
	return found;
}

static int by_version(const void *a, const void *b)
{
	return version_compare(&((const struct candidate *)b)->version,
		&((const struct candidate *)a)->version);
}

static int fail_none(struct work *w, const struct candidates *all, const char *from)
{
	const struct source *s = w->args->source;
	auto_buf struct buf asked = BUF_INIT(4096), there = BUF_INIT(4096);
	const struct wishes *lists[] = {&w->queue, &w->learned};
	char by[300] = "";

	if (*from)
		(void)snprintf(by, sizeof by, ", which '%s' needs", from);
	if (!all->n && all->n_other) {
		int r = cell_fail(w->err, CELL_ENOTFOUND, 0,
			"'%s'%s has no wheel for Python %s (%s) on %s", all->name, by,
			s->interpreter->short_version, s->interpreter->implementation,
			s->interpreter->machine);
		return cell_error_hint(w->err, r, "there is %s", all->other);
	}
	if (!all->n && all->n_source) {
		int r = cell_fail(w->err, CELL_ENOTFOUND, 0,
			"'%s'%s is there as source only, and nothing is built here", all->name, by);
		return cell_error_hint(w->err, r,
			"build a wheel of it (pip wheel %s) and add that file", all->name);
	}
	if (!all->n) {
		int r = cell_fail(w->err, CELL_ENOTFOUND, 0, "there is no package '%s'%s",
			all->name, by);
		if (!s->index && !(s->find_links && *s->find_links))
			return cell_error_hint(w->err, r,
				"no place to look in is configured: set deps.index or "
				"deps.find_links, or add a .whl file");
		return cell_error_hint(w->err, r, "looked in %.200s",
			s->index ? s->index : s->find_links[0]);
	}
	for (size_t k = 0; k < 2; k++)
		for (size_t i = 0; i < lists[k]->n; i++) {
			const struct wish *x = &lists[k]->list[i];
			if (strcmp(x->q.name, all->name) != 0 || !*x->q.specifiers)
				continue;
			(void)buf_addf(&asked, "%s'%s' by %s", asked.len ? ", " : "",
				x->q.specifiers, *x->from ? x->from : "you");
		}
	qsort(all->list, all->n, sizeof *all->list, by_version);
	for (size_t i = 0, shown = 0; i < all->n && shown < 6; i++)
		if (!i || version_compare(&all->list[i].version, &all->list[i - 1].version) != 0) {
			(void)buf_addf(&there, "%s%s", there.len ? ", " : "",
				all->list[i].wheel.version);
			shown++;
		}
	if (w->args->hashes && !asked.len)
		(void)buf_addz(&asked, "its hashes");
	int r = cell_fail(w->err, CELL_ENOTFOUND, 0, "no version of '%s' fits%s%.250s", all->name,
		asked.len ? ": asked for " : "", buf_str(&asked));
	return cell_error_hint(w->err, r, "for Python %s there is %.200s",
		s->interpreter->short_version, buf_str(&there));
}

/* What is installed and still fits stays, and nobody is asked for it. */
static bool keep_current(struct work *w, const char *name, struct pick *ret)
{
	const json_t *c = w->args->current && !w->args->upgrade
				  ? json_object_get(w->args->current, name)
				  : NULL;
	const char *version = json_string_value(json_object_get(c, "version"));
	const char *hash = json_string_value(json_object_get(c, "hash"));
	const char *file = json_string_value(json_object_get(c, "file"));
	char key[300];

	if (!version || !hash || !file || !is_wanted(w, name, version) ||
		!is_hash_allowed(w, name, hash) ||
		json_object_get(w->banned, ban_key(name, version, key)))
		return false;
	for (const struct candidates *k = w->args->source->known; k; k = k->next)
		if (!strcmp(k->name, name) && k->n && k->list[0].is_given)
			return false; /* a file was given in its place */
	if (!deps_cache_find(w->args->source->cache, hash, &ret->tree))
		return false;
	(void)snprintf(ret->version, sizeof ret->version, "%s", version);
	(void)snprintf(ret->filename, sizeof ret->filename, "%s", file);
	return true;
}

static int check_tree(struct work *w, const struct pick *p, struct candidate *c)
{
	const char *needs = json_string_value(json_object_get(p->tree.manifest, "requires_python"));
	const char *name = json_string_value(json_object_get(p->tree.manifest, "name"));
	char key[300];

	const char *kind = json_string_value(json_object_get(p->tree.manifest, "kind"));
	if (!name || strcmp(name, p->name) != 0 || !kind || strcmp(kind, "wheel") != 0)
		return cell_fail(w->err, CELL_EINVAL, 0, "'%.200s' is of another package",
			p->filename);
	if (!is_hash_allowed(w, p->name, p->tree.hash)) {
		int r = cell_fail(w->err, CELL_EDENIED, 0,
			"'%.160s' has a hash that is not in the list: %s", p->filename,
			p->tree.hash);
		return cell_error_hint(w->err, r,
			"the file is another than the one that was locked; nothing was installed");
	}
	if (needs && *needs && !specifiers_allow(needs, w->args->source->interpreter->version)) {
		if (c && c->is_given)
			return cell_fail(w->err, CELL_EINVAL, 0,
				"'%.160s' needs Python %.60s, and this is %s", p->filename, needs,
				w->args->source->interpreter->version);
		(void)json_object_set_new(w->banned, ban_key(p->name, p->version, key),
			json_string("python"));
		return AGAIN;
	}
	return 0;
}

static int choose(struct work *w, const struct wish *x, struct pick *ret)
{
	struct candidates *all = NULL;
	struct candidate *c = NULL;

	if (w->args->hashes && !json_object_get(w->args->hashes, x->q.name)) {
		int r = cell_fail(w->err, CELL_EDENIED, 0, "'%s'%s%s has no hash in the list",
			x->q.name, *x->from ? ", needed by " : "", x->from);
		return cell_error_hint(w->err, r,
			"with a hash for one package every package must have one: make the list "
			"with "
			"`cell deps lock`");
	}
	(void)snprintf(ret->name, sizeof ret->name, "%s", x->q.name);
	if (!keep_current(w, x->q.name, ret)) {
		int r = source_find(w->args->source, x->q.name, &all, w->err);
		if (r < 0)
			return r;
		c = best(w, all);
		if (!c)
			return fail_none(w, all, x->from);
		(void)snprintf(ret->version, sizeof ret->version, "%s", c->wheel.version);
		(void)snprintf(ret->filename, sizeof ret->filename, "%s", c->filename);
		r = source_get(w->args->source, c, &ret->tree, w->err);
		if (r < 0)
			return r;
	}
	return check_tree(w, ret, c);
}

/* ---- a round ---- */

/* What it needs, for these extras. */
static int follow(struct work *w, const struct pick *p, const char *extras)
{
	char from[REQUIREMENT_NAME_MAX + 130];
	json_t *text;
	size_t i;

	(void)snprintf(from, sizeof from, "%s %s", p->name, p->version);
	json_array_foreach (json_object_get(p->tree.manifest, "requires"), i, text) {
		struct requirement q;
		bool holds = false;
		int r = requirement_parse(json_string_value(text), &q, w->err);
		if (r == 0)
			r = marker_holds(q.marker, &w->env, extras, &holds, w->err);
		if (r == 0 && holds)
			r = add_wish(w, &w->queue, &q, from);
		if (r < 0)
			return cell_error_prefix(w->err, r, "%s", from);
	}
	return 0;
}

/* More extras of something chosen already. */
static int extend(struct work *w, struct pick *p, const char *extras)
{
	char word[REQUIREMENT_NAME_MAX];
	bool is_new = false;

	for (const char *e = extras; *e;) {
		size_t n = strcspn(e, ","), have = strlen(p->extras);
		(void)snprintf(word, sizeof word, "%.*s", (int)n, e);
		if (!is_in_list(p->extras, word)) {
			if (have + n + 2 > sizeof p->extras)
				return cell_fail(w->err, CELL_ELIMIT, 0, "'%s' has too many extras",
					p->name);
			(void)snprintf(p->extras + have, sizeof p->extras - have, "%s%s",
				have ? "," : "", word);
			is_new = true;
		}
		e += n + (e[n] == ',');
	}
	return is_new ? follow(w, p, p->extras) : 0;
}

static int take_wish(struct work *w, size_t at)
{
	const struct wish x = w->queue.list[at]; /* the list may move */
	struct pick *p = pick_of(w, x.q.name);

	if (p && !specifiers_allow(x.q.specifiers, p->version)) {
		int r = add_wish(w, &w->learned, &x.q, x.from);
		return r < 0 ? r : AGAIN;
	}
	if (!p) {
		struct pick found = {.tree = DEPS_TREE_INIT};
		if (w->picks->n == PACKAGES_MAX)
			return cell_fail(w->err, CELL_ELIMIT, 0, "more than %d packages",
				PACKAGES_MAX);
		int r = choose(w, &x, &found);
		if (r == 0 && w->picks->n == w->picks->max) {
			size_t max = w->picks->max ? w->picks->max * 2 : 16;
			struct pick *list = reallocarray(w->picks->list, max, sizeof *list);
			if (list) {
				w->picks->list = list;
				w->picks->max = max;
			} else {
				r = cell_fail_errno(w->err, ENOMEM, "resolve packages");
			}
		}
		if (r != 0) {
			deps_tree_done(&found.tree);
			return r;
		}
		p = &w->picks->list[w->picks->n++];
		*p = found;
		r = follow(w, p, "");
		if (r < 0)
			return r;
	}
	p->is_requested |= !*x.from;
	return extend(w, p, x.q.extras);
}

static int round_once(struct work *w)
{
	int r = 0;

	resolution_done(w->picks);
	w->queue.n = 0;
	for (size_t i = 0; r == 0 && i < w->args->n_roots; i++) {
		bool holds = false;
		r = marker_holds(w->args->roots[i].marker, &w->env, "", &holds, w->err);
		if (r == 0 && holds)
			r = add_wish(w, &w->queue, &w->args->roots[i], "");
	}
	for (size_t i = 0; r == 0 && i < w->queue.n; i++)
		r = take_wish(w, i);
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct pick *)a)->name, ((const struct pick *)b)->name);
}

int resolve(const struct resolve_args *args, struct resolution *ret, struct cell_error *err)
{
	auto_(work_done) struct work w = {
		.args = args, .picks = ret, .banned = json_object(), .err = err};
	int r = AGAIN;

	if (!w.banned)
		return cell_fail_errno(err, ENOMEM, "resolve packages");
	interpreter_markers(args->source->interpreter, &w.env);
	for (int i = 0; r == AGAIN && i < ROUNDS_MAX; i++)
		r = round_once(&w);
	if (r == AGAIN)
		r = cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0,
				"no set of versions was found that fits all packages"),
			"name the versions of some of them");
	if (r < 0)
		resolution_done(ret);
	else if (ret->n)
		qsort(ret->list, ret->n, sizeof *ret->list, by_name);
	return r;
}
