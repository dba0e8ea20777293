/* SPDX-License-Identifier: Apache-2.0 */
/* install.c: <cell/deps.h>, and the first environment of a new cell. */
#include "core/deps/install.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/cell.h"
#include "cell/deps.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/cell.h"
#include "core/deps/env.h"
#include "core/deps/npm.h"
#include "core/deps/npm_list.h"
#include "core/deps/place.h"
#include "core/deps/python.h"
#include "core/deps/reqfile.h"
#include "core/deps/resolve.h"
#include "core/deps/wheel.h"
#include "core/store.h"

#define CHUNK	      (256u * 1024)
#define PACKAGES_MAX  4096
#define ENV_BYTES_MAX (UINT64_C(16) << 30) /* of one cell: what it keeps alive of the cache */

enum change {
	CHANGE_ADD,
	CHANGE_SYNC,
	CHANGE_REMOVE,
	CHANGE_FIRST, /* by cell_open() */
};

/* One change under way. */
struct work {
	struct cell *cell;
	const struct cell_deps_opts *opts;
	enum change change;
	const char *language;
	struct deps_place place;
	struct env env;
	struct deps_cache cache;
	struct interpreter interpreter;
	struct source source;
	json_t *requested; /* texts: what the user asked for, all together */
	json_t *hashes;
	struct resolution found;
	/* javascript */
	json_t *given; /* {name: hash} */
	json_t *locked;
	struct npm_tree modules;
	/* of the language that is not changed */
	struct deps_tree *others;
	size_t n_others;
};

static void work_done(struct work *w)
{
	source_done(&w->source);
	resolution_done(&w->found);
	npm_tree_done(&w->modules);
	for (size_t i = 0; i < w->n_others; i++)
		deps_tree_done(&w->others[i]);
	free(w->others);
	json_decref(w->given);
	json_decref(w->locked);
	json_decref(w->requested);
	json_decref(w->hashes);
	deps_cache_done(&w->cache);
	env_done(&w->env);
	deps_place_done(&w->place);
}
#define WORK_INIT                                          \
	{                                                  \
		.env = ENV_INIT, .cache = DEPS_CACHE_INIT, \
	}

static int check_language(const char *given, const char **ret, struct cell_error *err)
{
	static const char *const python[] = {"python", "py", "python3", NULL};
	static const char *const javascript[] = {"javascript", "js", "node", "npm", NULL};

	*ret = "python";
	if (!given)
		return 0;
	for (size_t i = 0; python[i]; i++)
		if (!strcmp(given, python[i]))
			return 0;
	*ret = "javascript";
	for (size_t i = 0; javascript[i]; i++)
		if (!strcmp(given, javascript[i]))
			return 0;
	return cell_error_hint(err,
		cell_fail(err, CELL_EINVAL, 0, "there are no packages for '%.32s'", given),
		"python or javascript");
}

static int check_allowed(const struct work *w, struct cell_error *err)
{
	if (!w->place.is_forbidden || w->change == CHANGE_FIRST)
		return 0;
	return cell_error_hint(err,
		cell_fail(err, CELL_EDENIED, 0,
			"cell '%s' may not install packages: its configuration says "
			"allow_runtime_deps: false",
			w->cell->name),
		"list them under deps.preinstalled and make the cell anew");
}

static int begin(struct work *w, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	int r = deps_place_of(w->cell, &w->place, err);

	if (r == 0)
		r = check_allowed(w, err);
	if (r == 0)
		r = env_open(&w->env, &w->place, w->cell->directory_fd, err);
	if (r == 0)
		r = cell_store_open_for(&store, w->cell->directory_fd, w->cell->directory, err);
	if (r == -ENOENT)
		return cell_fail(err, CELL_EGONE, 0, "cell '%s' is gone", w->cell->name);
	if (r == 0)
		r = deps_cache_open(&w->cache, store.fd, w->place.cache_bytes, err);
	if (r < 0)
		return r;
	w->source = (struct source){.cache = &w->cache,
		.index = w->place.index,
		.find_links = (const char *const *)w->place.find_links,
		.interpreter = &w->interpreter,
		.progress = w->opts ? w->opts->progress : NULL,
		.user = w->opts ? w->opts->user : NULL};
	w->requested = json_array();
	w->given = json_object();
	return w->requested && w->given ? 0 : cell_fail_errno(err, ENOMEM, "install packages");
}

static json_t *packages_of(const struct env *e, const char *language)
{
	return json_object_get(json_object_get(e->state, "packages"), language);
}

static json_t *requested_of(const struct env *e, const char *language)
{
	return json_object_get(json_object_get(e->state, "requested"), language);
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static bool is_javascript(const struct work *w)
{
	return !strcmp(w->language, "javascript");
}

/* ---- what is asked for ---- */

/* A later wish for a package replaces an earlier one. */
static int add_request(json_t *list, const char *text, struct cell_error *err)
{
	struct requirement q, other;
	int r = requirement_parse(text, &q, err);

	if (r < 0)
		return r;
	for (size_t i = json_array_size(list); i-- > 0;) {
		const char *s = json_string_value(json_array_get(list, i));
		if (requirement_parse(s, &other, NULL) == 0 && !strcmp(other.name, q.name))
			(void)json_array_remove(list, i);
	}
	if (json_array_size(list) >= PACKAGES_MAX)
		return cell_fail(err, CELL_ELIMIT, 0, "more than %d packages are asked for",
			PACKAGES_MAX);
	return json_array_append_new(list, json_string(text)) < 0
		       ? cell_fail(err, CELL_EINVAL, 0, "requirement '%.100s' is no UTF-8", text)
		       : 0;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

struct bringing {
	struct deps_intake intake;
	struct work *work;
	const char *name;
	struct cell_error *err;
};

static int bring(const void *p, size_t n, void *user)
{
	struct bringing *b = user;
	int r = deps_intake_add(&b->intake, p, n, b->err);

	if (r == 0 && source_tell(&b->work->source, CELL_DEPS_FETCH, b->name, b->intake.size, 0))
		r = source_stopped(b->err);
	return r;
}

static int read_host_file(const char *path, struct bringing *b, struct cell_error *err)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	auto_free char *piece = malloc(CHUNK);
	struct stat st;
	ssize_t n;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "open '%.200s'", path);
	if (!S_ISREG(st.st_mode))
		return cell_fail(err, CELL_EINVAL, 0, "'%.200s' is no file", path);
	if (!piece)
		return cell_fail_errno(err, ENOMEM, "read '%.200s'", path);
	while (r == 0 && (n = read(fd, piece, CHUNK)) != 0)
		r = n < 0 ? cell_fail_errno(err, errno, "read '%.200s'", path)
			  : bring(piece, (size_t)n, b);
	return r;
}

static void bringing_done(struct bringing *b)
{
	deps_intake_done(&b->intake);
}

/* A file of the host or of the workspace becomes a tree, and is asked for by its exact version. */
static int take_file(struct work *w, const char *path, bool is_inside, struct cell_error *err)
{
	auto_(bringing_done) struct bringing b = {
		.intake = DEPS_INTAKE_INIT, .work = w, .name = base_name(path)};
	auto_tree struct deps_tree tree = DEPS_TREE_INIT;
	struct candidates *c = NULL;
	struct cell_error why = {0};
	struct wheel_name name;
	char text[NPM_NAME_MAX + 140];
	bool is_npm = is_javascript(w);

	b.err = &why;
	if (!is_npm && !wheel_name_parse(b.name, &name))
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "'%.200s' is not the name of a wheel",
				b.name),
			"a wheel is called NAME-VERSION-PYTHON-ABI-PLATFORM.whl");
	int r = deps_intake_begin(&b.intake, &w->cache, &why);
	if (r == 0)
		r = is_inside ? cell_file_read(w->cell, path, 0, 0, bring, &b, &why)
			      : read_host_file(path, &b, &why);
	if (r == 0 &&
		source_tell(&w->source, CELL_DEPS_UNPACK, b.name, b.intake.size, b.intake.size))
		r = source_stopped(&why);
	if (r == 0)
		r = deps_intake_take(&b.intake, b.name, NULL, is_npm ? npm_unpack : wheel_unpack,
			&tree, &why);
	if (r == 0 && !is_npm)
		r = source_give(&w->source, b.name, tree.hash, &c, &why);
	if (r < 0) {
		if (err)
			*err = why;
		return r;
	}
	if (is_npm) {
		const char *is = text_of(tree.manifest, "name");
		if (strcmp(text_of(tree.manifest, "kind"), "npm") != 0 ||
			json_object_set_new(w->given, is, json_string(tree.hash)) < 0)
			return cell_fail(err, CELL_EINVAL, 0, "'%.200s' is no npm package", b.name);
		(void)snprintf(text, sizeof text, "%s@%s", is, text_of(tree.manifest, "version"));
		return npm_list_add(w->requested, text, err);
	}
	(void)snprintf(text, sizeof text, "%s==%s", name.name, name.version);
	return add_request(w->requested, text, err);
}

static int gather(struct work *w, struct cell_error *err)
{
	const struct cell_deps_opts *o = w->opts;
	json_t *old = requested_of(&w->env, w->language), *x, *list = NULL;
	size_t i;
	int r = 0;

	if (w->change != CHANGE_SYNC)
		json_array_foreach (old, i, x)
			(void)json_array_append(w->requested, x);
	for (const char *const *p = o->packages; r == 0 && p && *p; p++)
		r = is_javascript(w) ? npm_list_add(w->requested, *p, err)
				     : add_request(w->requested, *p, err);
	for (const char *const *p = o->files; r == 0 && p && *p; p++)
		r = take_file(w, *p, false, err);
	for (const char *const *p = o->inside; r == 0 && p && *p; p++)
		r = take_file(w, *p, true, err);
	if (r == 0 && o->requirements && is_javascript(w)) {
		r = npm_list_read(o->requirements, w->requested, &w->locked, err);
	} else if (r == 0 && o->requirements) {
		list = json_array();
		r = list ? reqfile_read(o->requirements, list, &w->hashes, err)
			 : cell_fail_errno(err, ENOMEM, "read the requirements");
		json_array_foreach (list, i, x)
			if (r == 0)
				r = add_request(w->requested, json_string_value(x), err);
		json_decref(list);
	}
	/* with hashes for the new, what was there before is held to its own */
	if (r == 0 && w->hashes && w->change == CHANGE_ADD) {
		const char *name;
		json_object_foreach (packages_of(&w->env, w->language), name, x)
			if (!json_object_get(w->hashes, name))
				(void)json_object_set_new(w->hashes, name,
					json_pack("[O]", json_object_get(x, "hash")));
	}
	return r;
}

/* ---- doing it ---- */

static int find_versions(struct work *w, struct cell_error *err)
{
	size_t n = json_array_size(w->requested), i;
	auto_free struct requirement *roots = calloc(n + 1, sizeof *roots);
	json_t *x;
	int r = 0;

	if (!roots)
		return cell_fail_errno(err, ENOMEM, "resolve packages");
	json_array_foreach (w->requested, i, x)
		if (r == 0)
			r = requirement_parse(json_string_value(x), &roots[i], err);
	const struct resolve_args args = {.source = &w->source,
		.roots = roots,
		.n_roots = n,
		.hashes = w->hashes,
		.current = packages_of(&w->env, w->language),
		.upgrade = w->opts && w->opts->upgrade};
	return r < 0 ? r : resolve(&args, &w->found, err);
}

/* What the state says of each package: by name, or where it is below node_modules. */
static int note_packages(struct work *w, struct cell_error *err)
{
	json_t *all = json_object();
	int r = 0;

	for (size_t i = 0; i < w->found.n; i++) {
		const struct pick *p = &w->found.list[i];
		r |= json_object_set_new(all, p->name,
			json_pack("{s:s, s:s, s:s, s:s, s:b}", "name", p->name, "version",
				p->version, "hash", p->tree.hash, "file", p->filename, "requested",
				p->is_requested));
	}
	for (size_t i = 0; i < w->modules.n; i++) {
		const struct npm_node *n = &w->modules.list[i];
		r |= json_object_set_new(all, n->at,
			json_pack("{s:s, s:s, s:s, s:s, s:b}", "name", n->name, "version",
				n->version, "hash", n->tree.hash, "file",
				text_of(n->tree.manifest, "filename"), "requested",
				n->is_requested));
	}
	r |= json_object_set_new(json_object_get(w->env.state, "packages"), w->language, all);
	r |= json_object_set(json_object_get(w->env.state, "requested"), w->language, w->requested);
	return r ? cell_fail_errno(err, ENOMEM, "note the packages") : 0;
}

/* The other language's packages stay as they are. */
static int list_others(struct work *w, struct env_package *list, size_t *n, struct cell_error *err)
{
	const char *other = is_javascript(w) ? "python" : "javascript", *key;
	json_t *all = packages_of(&w->env, other), *p;

	w->others = calloc(json_object_size(all) + 1, sizeof *w->others);
	if (!w->others)
		return cell_fail_errno(err, ENOMEM, "install packages");
	json_object_foreach (all, key, p) {
		if (!deps_cache_find(&w->cache, text_of(p, "hash"), &w->others[w->n_others]))
			return cell_error_hint(err,
				cell_fail(err, CELL_EGONE, 0,
					"the package '%s' is no longer in the cache",
					text_of(p, "name")),
				"install it again: cell deps sync");
		list[(*n)++] = (struct env_package){.language = other,
			.name = text_of(p, "name"),
			.at = is_javascript(w) ? NULL : key,
			.tree = &w->others[w->n_others++]};
	}
	return 0;
}

static int apply(struct work *w, struct cell_error *err)
{
	size_t n = 0, others = json_object_size(packages_of(&w->env,
			      is_javascript(w) ? "python" : "javascript"));
	auto_free struct env_package *list =
		calloc(w->found.n + w->modules.n + others + 1, sizeof *list);
	int r = list ? note_packages(w, err) : cell_fail_errno(err, ENOMEM, "install packages");

	if (r < 0)
		return r;
	for (size_t i = 0; i < w->found.n; i++)
		list[n++] = (struct env_package){.language = w->language,
			.name = w->found.list[i].name,
			.tree = &w->found.list[i].tree};
	for (size_t i = 0; i < w->modules.n; i++)
		list[n++] = (struct env_package){.language = w->language,
			.name = w->modules.list[i].name,
			.at = w->modules.list[i].at,
			.tree = &w->modules.list[i].tree};
	r = list_others(w, list, &n, err);
	if (r < 0)
		return r;
	uint64_t bytes = 0;
	for (size_t i = 0; i < n; i++)
		bytes += deps_manifest_bytes(list[i].tree->manifest);
	if (bytes > ENV_BYTES_MAX)
		return cell_fail(err, CELL_ELIMIT, 0,
			"the packages of one cell together may have 16 GiB");
	if (source_tell(&w->source, CELL_DEPS_INSTALL, "", 0, 0))
		return source_stopped(err);
	return env_switch(&w->env, list, n, err);
}

static int note_machine(const struct cell_platform *p, void *user)
{
	struct work *w = user;

	(void)snprintf(w->interpreter.machine, sizeof w->interpreter.machine, "%.31s", p->arch);
	return 0;
}

static int find_modules(struct work *w, struct cell_error *err)
{
	int r = cell_platform(w->cell, note_machine, w, err);
	const struct npm_args args = {.source = &w->source,
		.registry = w->place.npm_registry,
		.machine = w->interpreter.machine,
		.wishes = w->requested,
		.given = w->given,
		.locked = w->locked,
		.current = packages_of(&w->env, w->language),
		.upgrade = w->opts && w->opts->upgrade};

	return r < 0 ? r : npm_resolve(&args, &w->modules, err);
}

static int change(struct cell *c, const struct cell_deps_opts *opts, enum change how,
	struct cell_error *err)
{
	auto_(work_done) struct work w = WORK_INIT;
	int r = check_language(opts->language, &w.language, err);

	w.cell = c;
	w.opts = opts;
	w.change = how;
	if (r == 0)
		r = begin(&w, err);
	if (r == 0 && !is_javascript(&w))
		r = python_describe(c, w.env.state, &w.interpreter, err);
	if (r == 0)
		r = gather(&w, err);
	if (r == 0)
		r = is_javascript(&w) ? find_modules(&w, err) : find_versions(&w, err);
	return r < 0 ? r : apply(&w, err);
}

int cell_deps_add(struct cell *c, const struct cell_deps_opts *opts, struct cell_error *err)
{
	return change(c, opts, CHANGE_ADD, err);
}

int cell_deps_sync(struct cell *c, const struct cell_deps_opts *opts, struct cell_error *err)
{
	return change(c, opts, CHANGE_SYNC, err);
}

/* ---- removing ---- */

static int drop_request(struct work *w, const char *given, struct cell_error *err)
{
	char name[REQUIREMENT_NAME_MAX];
	struct requirement q;
	bool is_found = false;

	if (!package_normalize(given, strlen(given), name))
		return cell_fail(err, CELL_EINVAL, 0, "'%.100s' is not the name of a package",
			given);
	for (size_t i = json_array_size(w->requested); i-- > 0;)
		if (requirement_parse(json_string_value(json_array_get(w->requested, i)), &q,
			    NULL) == 0 &&
			!strcmp(q.name, name)) {
			(void)json_array_remove(w->requested, i);
			is_found = true;
		}
	if (is_found || json_object_get(packages_of(&w->env, w->language), name))
		return 0;
	return cell_error_hint(err,
		cell_fail(err, CELL_ENOTFOUND, 0, "the package '%s' is not installed in cell '%s'",
			name, w->cell->name),
		"cell deps list %s shows what is", w->cell->name);
}

static int check_gone(const struct work *w, const char *given, struct cell_error *err)
{
	char name[REQUIREMENT_NAME_MAX];

	(void)package_normalize(given, strlen(given), name);
	for (size_t i = 0; i < w->found.n; i++) {
		if (strcmp(w->found.list[i].name, name) != 0)
			continue;
		for (size_t k = 0; k < w->found.n; k++) {
			json_t *x;
			size_t n;
			json_array_foreach (json_object_get(w->found.list[k].tree.manifest,
						    "requires"),
				n, x) {
				struct requirement q;
				if (requirement_parse(json_string_value(x), &q, NULL) == 0 &&
					!strcmp(q.name, name))
					return cell_error_hint(err,
						cell_fail(err, CELL_EBUSY, 0,
							"'%s' is needed by '%s'", name,
							w->found.list[k].name),
						"remove that first");
			}
		}
	}
	return 0;
}

int cell_deps_remove(struct cell *c, const char *language, const char *const *names,
	struct cell_error *err)
{
	auto_(work_done) struct work w = WORK_INIT;
	json_t *x;
	size_t i;
	int r = check_language(language, &w.language, err);

	w.cell = c;
	w.change = CHANGE_REMOVE;
	if (r == 0)
		r = begin(&w, err);
	if (r < 0)
		return r;
	json_array_foreach (requested_of(&w.env, w.language), i, x)
		(void)json_array_append(w.requested, x);
	if (is_javascript(&w)) {
		for (const char *const *p = names; r == 0 && p && *p; p++)
			r = npm_list_drop(w.requested, packages_of(&w.env, w.language), *p, err);
		if (r == 0)
			r = find_modules(&w, err);
		return r < 0 ? r : apply(&w, err);
	}
	for (const char *const *p = names; r == 0 && p && *p; p++)
		r = drop_request(&w, *p, err);
	if (r == 0)
		r = python_describe(c, w.env.state, &w.interpreter, err);
	if (r == 0)
		r = find_versions(&w, err);
	for (const char *const *p = names; r == 0 && p && *p; p++)
		r = check_gone(&w, *p, err);
	return r < 0 ? r : apply(&w, err);
}

/* ---- looking ---- */

static int look(struct cell *c, struct deps_place *place, struct env *env, struct cell_error *err)
{
	int r = deps_place_of(c, place, err);

	return r < 0 ? r : env_look(env, place, err);
}

int cell_deps_list(struct cell *c, const char *language, cell_dep_fn fn, void *user,
	struct cell_error *err)
{
	static const char *const languages[] = {"javascript", "python"};
	auto_place struct deps_place place = {0};
	auto_env struct env env = ENV_INIT;
	const char *only = NULL;
	int r = language ? check_language(language, &only, err) : 0;

	if (r == 0)
		r = look(c, &place, &env, err);
	for (size_t i = 0; r == 0 && i < 2; i++) {
		const char *name;
		json_t *p;
		if (only && strcmp(only, languages[i]) != 0)
			continue;
		json_object_foreach (packages_of(&env, languages[i]), name, p)
			if (r == 0)
				r = fn(&(struct cell_dep){.language = languages[i],
					       .name = *text_of(p, "name") ? text_of(p, "name")
									   : name,
					       .version = text_of(p, "version"),
					       .hash = text_of(p, "hash"),
					       .file = text_of(p, "file"),
					       .is_requested = json_is_true(json_object_get(p,
						       "requested"))},
					user);
	}
	return r;
}

int cell_deps_lock(struct cell *c, const char *language, char **ret, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(64u << 20);
	auto_place struct deps_place place = {0};
	auto_env struct env env = ENV_INIT;
	const char *which = NULL, *name;
	json_t *p;
	int r = check_language(language, &which, err);

	if (r == 0)
		r = look(c, &place, &env, err);
	if (r < 0)
		return r;
	struct interpreter i = {0};
	if (!strcmp(which, "javascript"))
		r = npm_list_write(packages_of(&env, which), &b);
	else if (interpreter_parse(text_of(env.state, "describe"), &i))
		r = buf_addf(&b, "# made by `cell deps lock`: Python %s, %s, %s\n", i.short_version,
			i.implementation, i.machine);
	json_object_foreach (packages_of(&env, which), name, p)
		if (r == 0 && strcmp(which, "javascript") != 0)
			r = buf_addf(&b, "%s==%s \\\n    --hash=sha256:%s\n", name,
				text_of(p, "version"), text_of(p, "hash"));
	if (r < 0 || !(*ret = buf_steal(&b)))
		return cell_fail_errno(err, ENOMEM, "write the lock");
	return 0;
}

/* ---- a new cell ---- */

static int install_python(struct cell *c, const struct cell_spec_deps *spec, struct cell_error *err)
{
	auto_(work_done) struct work w = WORK_INIT;
	const struct cell_deps_opts opts = {.packages = spec->preinstalled};
	int r;

	w.cell = c;
	w.language = "python";
	w.change = CHANGE_FIRST;
	w.opts = &opts;
	r = begin(&w, err);
	if (r == 0)
		r = python_find(c, w.place.python_version, w.env.state, err);
	if (r == 0 && spec->preinstalled && *spec->preinstalled) {
		r = python_describe(c, w.env.state, &w.interpreter, err);
		if (r == 0)
			r = gather(&w, err);
		if (r == 0)
			r = find_versions(&w, err);
		r = r < 0 ? cell_error_prefix(err, r, "deps.preinstalled") : apply(&w, err);
		return r;
	}
	/* a venv_dir may have packages from before: they stay */
	if (r == 0 && json_object_size(packages_of(&w.env, "python")) == 0 &&
		json_object_size(packages_of(&w.env, "javascript")) == 0)
		r = env_switch(&w.env, NULL, 0, err);
	return r;
}

int deps_install_first(struct cell *c, const struct cell_spec_deps *spec, struct cell_error *err)
{
	int r = install_python(c, spec, err);

	if (r < 0 || !spec->preinstalled_npm || !*spec->preinstalled_npm)
		return r;
	r = change(c,
		&(struct cell_deps_opts){
			.language = "javascript", .packages = spec->preinstalled_npm},
		CHANGE_FIRST, err);
	return r < 0 ? cell_error_prefix(err, r, "deps.preinstalled_npm") : 0;
}
