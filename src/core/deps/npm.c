/* SPDX-License-Identifier: Apache-2.0 */
/* npm.c: finding JavaScript packages and laying them out. A package goes to the top, where everybody sees it, unless another version is there already; then
 * below the one that needs it. */
#include "core/deps/npm.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/deps/page.h"
#include "core/deps/semver.h"

#define NODES_MAX 5000
#define QUEUE_MAX 50000
#define PAGE_MAX  (64u << 20)
#define CHUNK	  (256u * 1024)
#define RANGE_MAX 512
#define ACCEPT	  "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8"

struct wish {
	char name[NPM_NAME_MAX], range[RANGE_MAX];
	size_t parent; /* index of a node, or SIZE_MAX */
	bool is_optional;
};

struct work {
	const struct npm_args *args;
	struct npm_tree *out;
	struct wish *queue;
	size_t n_queue, max_queue;
	json_t *known; /* {name: {version: {at, remote, integrity}}} */
	struct cell_error *err;
};

void npm_tree_done(struct npm_tree *t)
{
	for (size_t i = 0; i < t->n; i++)
		deps_tree_done(&t->list[i].tree);
	free(t->list);
	*t = (struct npm_tree){0};
}

static void work_done(struct work *w)
{
	free(w->queue);
	json_decref(w->known);
}

static int no_memory(struct work *w)
{
	return cell_fail_errno(w->err, ENOMEM, "resolve packages");
}

/* ---- where they are ---- */

/* npm's name for the file of a package: @scope/name is scope-name-VERSION.tgz. */
static void file_stem(const char *name, char ret[NPM_NAME_MAX + 2])
{
	size_t n = 0;

	for (const char *p = *name == '@' ? name + 1 : name; *p; p++)
		ret[n++] = *p == '/' ? '-' : *p;
	ret[n++] = '-';
	ret[n] = '\0';
}

static int look_in_directory(struct work *w, json_t *found, const char *name, const char *path)
{
	auto_dir DIR *d = opendir(path);
	char stem[NPM_NAME_MAX + 2], version[128], full[4096];
	struct semver v;

	if (!d)
		return cell_fail_errno(w->err, errno, "look for packages in '%.200s'", path);
	file_stem(name, stem);
	size_t n = strlen(stem);
	for (struct dirent *e; (e = readdir(d));) {
		size_t len = strlen(e->d_name);
		if (strncmp(e->d_name, stem, n) != 0 || len < n + 5 ||
			strcmp(e->d_name + len - 4, ".tgz") != 0 || len - n - 4 >= sizeof version)
			continue;
		(void)snprintf(version, sizeof version, "%.*s", (int)(len - n - 4), e->d_name + n);
		int k = snprintf(full, sizeof full, "%s/%s", path, e->d_name);
		if (semver_parse(version, &v) && k > 0 && (size_t)k < sizeof full)
			(void)json_object_set_new(found, version, json_pack("{s:s}", "at", full));
	}
	return 0;
}

static int to_buf(const void *p, size_t n, void *user)
{
	return buf_add(user, p, n);
}

static int ask_registry(struct work *w, json_t *found, const char *name)
{
	auto_buf struct buf page = BUF_INIT(PAGE_MAX);
	struct cell_error why = {0};
	char url[2048], type[64];
	const char *slash = strchr(name, '/'), *version;
	size_t n = strlen(w->args->registry);
	json_t *x;

	while (n && w->args->registry[n - 1] == '/')
		n--;
	if (slash)
		(void)snprintf(url, sizeof url, "%.*s/%.*s%%2f%s", (int)n, w->args->registry,
			(int)(slash - name), name, slash + 1);
	else
		(void)snprintf(url, sizeof url, "%.*s/%s", (int)n, w->args->registry, name);
	int r = source_fetch(url, ACCEPT, to_buf, &page, type, &why);
	if (r < 0 && why.code == CELL_ENOTFOUND)
		return 0;
	if (r < 0) {
		if (w->err)
			*w->err = why;
		return cell_error_prefix(w->err, r, "ask the registry for '%s'", name);
	}
	json_t *o = json_loadb(buf_str(&page), page.len, 0, NULL);
	json_object_foreach (json_object_get(o, "versions"), version, x) {
		const json_t *dist = json_object_get(x, "dist");
		const char *tarball = json_string_value(json_object_get(dist, "tarball"));
		const char *integrity = json_string_value(json_object_get(dist, "integrity"));
		auto_free char *at = tarball ? page_join(url, tarball) : NULL;
		struct semver v;
		if (at && semver_parse(version, &v) && strlen(version) < 100)
			(void)json_object_set_new(found, version,
				json_pack("{s:s, s:b, s:s}", "at", at, "remote", 1, "integrity",
					integrity ? integrity : ""));
	}
	if (!json_is_object(o))
		r = cell_fail(w->err, CELL_EPROTOCOL, 0, "'%.200s' is no answer of a registry",
			url);
	json_decref(o);
	return r;
}

static int find(struct work *w, const char *name, json_t **ret)
{
	json_t *found = json_object_get(w->known, name);
	int r = 0;

	*ret = found;
	if (found)
		return 0;
	if (source_tell(w->args->source, CELL_DEPS_RESOLVE, name, 0, 0))
		return source_stopped(w->err);
	found = json_object();
	if (json_object_set_new(w->known, name, found) < 0)
		return no_memory(w);
	for (const char *const *p = w->args->source->find_links; r == 0 && p && *p; p++)
		r = look_in_directory(w, found, name, *p);
	if (r == 0 && w->args->registry)
		r = ask_registry(w, found, name);
	*ret = found;
	return r;
}

/* ---- getting ---- */

struct fetching {
	struct deps_intake intake;
	const struct source *source;
	const char *name;
	SHA512_CTX sha512;
	struct cell_error *err;
};

static int to_intake(const void *p, size_t n, void *user)
{
	struct fetching *f = user;
	int r = deps_intake_add(&f->intake, p, n, f->err);

	(void)SHA512_Update(&f->sha512, p, n);
	if (r == 0 && source_tell(f->source, CELL_DEPS_FETCH, f->name, f->intake.size, 0))
		r = source_stopped(f->err);
	return r;
}

/* "sha512-BASE64", one of several; what has none of that is taken on the connection's word. */
static int check_integrity(struct fetching *f, const char *integrity, struct cell_error *err)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned char is[SHA512_DIGEST_LENGTH];
	char text[100];
	size_t n = 0;
	unsigned bits = 0, n_bits = 0;
	const char *p = strstr(integrity, "sha512-");

	(void)SHA512_Final(is, &f->sha512);
	if (!p)
		return 0;
	for (size_t i = 0; i < sizeof is; i++) {
		bits = bits << 8 | is[i];
		for (n_bits += 8; n_bits >= 6;) {
			n_bits -= 6;
			text[n++] = letters[bits >> n_bits & 63];
		}
	}
	if (n_bits)
		text[n++] = letters[bits << (6 - n_bits) & 63];
	text[n] = '\0';
	if (!strncmp(p + 7, text, n))
		return 0;
	return cell_error_hint(err,
		cell_fail(err, CELL_EDENIED, 0,
			"'%.160s' is not what the registry says: its SHA-512 differs", f->name),
		"somebody changed the file; nothing was installed");
}

static void fetching_done(struct fetching *f)
{
	deps_intake_done(&f->intake);
}

static int copy_file(const char *path, struct fetching *f, struct cell_error *err)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	auto_free char *piece = malloc(CHUNK);
	struct stat st;
	ssize_t n;
	int r = 0;

	if (fd < 0 || fstat(fd, &st) < 0 || !piece)
		return cell_fail_errno(err, errno, "open '%.200s'", path);
	if (!S_ISREG(st.st_mode))
		return cell_fail(err, CELL_EINVAL, 0, "'%.200s' is no file", path);
	while (r == 0 && (n = read(fd, piece, CHUNK)) != 0)
		r = n < 0 ? cell_fail_errno(err, errno, "read '%.200s'", path)
			  : to_intake(piece, (size_t)n, f);
	return r;
}

static bool is_known_file(const struct work *w, const char *path, struct deps_tree *ret)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char hash[DIGEST_HEX + 1];

	return fd >= 0 && deps_cache_hash(w->args->source->cache, fd, hash, NULL) == 0 &&
	       deps_cache_find(w->args->source->cache, hash, ret);
}

static int get(struct work *w, const json_t *c, struct deps_tree *ret)
{
	const char *at = json_string_value(json_object_get(c, "at"));
	const char *integrity = json_string_value(json_object_get(c, "integrity"));
	const char *slash = strrchr(at, '/');
	auto_(fetching_done) struct fetching f = {.intake = DEPS_INTAKE_INIT,
		.source = w->args->source,
		.name = slash ? slash + 1 : at};
	bool is_remote = json_is_true(json_object_get(c, "remote"));
	struct cell_error why = {0};
	char type[64];

	if (!is_remote && is_known_file(w, at, ret))
		return 0;
	f.err = &why;
	(void)SHA512_Init(&f.sha512);
	int r = deps_intake_begin(&f.intake, w->args->source->cache, &why);
	if (r == 0)
		r = is_remote ? source_fetch(at, "*/*", to_intake, &f, type, &why)
			      : copy_file(at, &f, &why);
	if (r == 0 && integrity)
		r = check_integrity(&f, integrity, &why);
	if (r == 0 && source_tell(f.source, CELL_DEPS_UNPACK, f.name, f.intake.size, f.intake.size))
		r = source_stopped(&why);
	if (r == 0)
		r = deps_intake_take(&f.intake, f.name, NULL, npm_unpack, ret, &why);
	if (r < 0 && !why.code)
		r = cell_fail_errno(&why, -r, "read '%.200s'", at);
	if (r < 0 && w->err)
		*w->err = why;
	return r;
}

/* ---- choosing ---- */

static bool is_locked_out(const struct work *w, const char *name, const char *version)
{
	return w->args->locked && !json_object_get(json_object_get(w->args->locked, name), version);
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* What is installed already, or was given as a file. */
static bool find_hash(const struct work *w, const struct wish *x, struct deps_tree *ret)
{
	const struct deps_cache *cache = w->args->source->cache;
	const char *given = json_string_value(json_object_get(w->args->given, x->name)), *at;
	json_t *c;

	if (given)
		return deps_cache_find(cache, given, ret) &&
		       semver_allows(x->range, text_of(ret->manifest, "version"));
	if (w->args->upgrade)
		return false;
	json_object_foreach ((json_t *)(uintptr_t)w->args->current, at, c)
		if (!strcmp(text_of(c, "name"), x->name) &&
			semver_allows(x->range, text_of(c, "version")) &&
			!is_locked_out(w, x->name, text_of(c, "version")) &&
			deps_cache_find(cache, text_of(c, "hash"), ret))
			return true;
	return false;
}

static int fail_none(struct work *w, const struct wish *x, const json_t *found)
{
	auto_buf struct buf there = BUF_INIT(400);
	const char *by = x->parent == SIZE_MAX ? "" : w->out->list[x->parent].name, *version;
	json_t *c;
	int r;

	if (!json_object_size(found)) {
		r = cell_fail(w->err, CELL_ENOTFOUND, 0, "there is no package '%s'%s%s", x->name,
			*by ? ", needed by " : "", by);
		return cell_error_hint(w->err, r,
			"JavaScript packages come from deps.npm_registry, .tgz files in "
			"deps.find_links, or files that are given");
	}
	json_object_foreach ((json_t *)(uintptr_t)found, version, c)
		(void)buf_addf(&there, "%s%s", there.len ? ", " : "", version);
	r = cell_fail(w->err, CELL_ENOTFOUND, 0, "no version of '%s' fits '%.100s'%s%s", x->name,
		x->range, *by ? ", needed by " : "", by);
	return cell_error_hint(w->err, r, "there is %.200s", buf_str(&there));
}

static int choose(struct work *w, const struct wish *x, struct deps_tree *ret)
{
	json_t *found = NULL, *c, *best = NULL;
	struct semver v, top = {0};
	const char *version, *locked;
	int r;

	if (w->args->locked && !json_object_get(w->args->locked, x->name)) {
		r = cell_fail(w->err, CELL_EDENIED, 0, "'%s' has no hash in the list", x->name);
		return cell_error_hint(w->err, r, "make the list with `cell deps lock`");
	}
	if (find_hash(w, x, ret))
		return 0;
	r = find(w, x->name, &found);
	if (r < 0)
		return r;
	json_object_foreach (found, version, c)
		if (semver_allows(x->range, version) && !is_locked_out(w, x->name, version) &&
			semver_parse(version, &v) && (!best || semver_compare(&v, &top) > 0)) {
			best = c;
			top = v;
		}
	if (!best)
		return fail_none(w, x, found);
	r = get(w, best, ret);
	if (r < 0)
		return r;
	if (strcmp(text_of(ret->manifest, "name"), x->name) != 0 ||
		strcmp(text_of(ret->manifest, "kind"), "npm") != 0)
		return cell_fail(w->err, CELL_EINVAL, 0, "'%.200s' is of another package: '%.100s'",
			text_of(best, "at"), text_of(ret->manifest, "name"));
	locked = json_string_value(json_object_get(json_object_get(w->args->locked, x->name),
		text_of(ret->manifest, "version")));
	if (w->args->locked && (!locked || strcmp(locked, ret->hash) != 0)) {
		r = cell_fail(w->err, CELL_EDENIED, 0,
			"'%.160s' has a hash that is not in the list: %s", x->name, ret->hash);
		return cell_error_hint(w->err, r,
			"the file is another than the one that was locked; nothing was installed");
	}
	return 0;
}

static bool is_in(const json_t *list, const char *word)
{
	bool has_yes = false, is_there = false;
	json_t *x;
	size_t i;

	json_array_foreach (list, i, x) {
		const char *s = json_string_value(x);
		if (s && *s == '!' && !strcmp(s + 1, word))
			return false;
		has_yes |= s && *s != '!';
		is_there |= s && !strcmp(s, word);
	}
	return !has_yes || is_there;
}

/* npm's words for machines. */
static bool is_for_us(const struct work *w, const json_t *manifest)
{
	const char *cpu = !strcmp(w->args->machine, "x86_64")	 ? "x64"
			  : !strcmp(w->args->machine, "aarch64") ? "arm64"
								 : w->args->machine;

	return is_in(json_object_get(manifest, "os"), "linux") &&
	       is_in(json_object_get(manifest, "cpu"), cpu);
}

/* ---- laying out ---- */

static struct npm_node *node_at(const struct work *w, const char *at)
{
	for (size_t i = 0; i < w->out->n; i++)
		if (!strcmp(w->out->list[i].at, at))
			return &w->out->list[i];
	return NULL;
}

/* The one that `require` finds from there. */
static struct npm_node *visible(const struct work *w, size_t parent, const char *name)
{
	char base[1024] = "", at[1300];

	if (parent != SIZE_MAX)
		(void)snprintf(base, sizeof base, "%s/", w->out->list[parent].at);
	for (;;) {
		(void)snprintf(at, sizeof at, "%snode_modules/%s", base, name);
		struct npm_node *n = node_at(w, at);
		if (n || !*base)
			return n;
		/* one level up: cut "node_modules/x/" */
		char *cut = NULL;
		for (char *p = strstr(base, "node_modules/"); p; p = strstr(p + 1, "node_modules/"))
			cut = p;
		if (!cut)
			return NULL;
		*cut = '\0';
	}
}

static int add_wish(struct work *w, const char *name, const char *range, size_t parent,
	bool is_optional)
{
	if (w->n_queue == QUEUE_MAX)
		return cell_fail(w->err, CELL_ELIMIT, 0, "the packages need too many others");
	if (w->n_queue == w->max_queue) {
		size_t max = w->max_queue ? w->max_queue * 2 : 64;
		struct wish *list = reallocarray(w->queue, max, sizeof *list);
		if (!list)
			return no_memory(w);
		w->queue = list;
		w->max_queue = max;
	}
	struct wish *x = &w->queue[w->n_queue++];
	(void)snprintf(x->name, sizeof x->name, "%s", name);
	(void)snprintf(x->range, sizeof x->range, "%s", range);
	x->parent = parent;
	x->is_optional = is_optional;
	return 0;
}

static int follow(struct work *w, size_t node)
{
	json_t *manifest = w->out->list[node].tree.manifest, *range;
	const char *name;
	int r = 0;

	json_object_foreach (json_object_get(manifest, "requires"), name, range)
		if (r == 0)
			r = add_wish(w, name, json_string_value(range), node, false);
	json_object_foreach (json_object_get(manifest, "optional"), name, range)
		if (r == 0)
			r = add_wish(w, name, json_string_value(range), node, true);
	return r;
}

static int place(struct work *w, const struct wish *x, struct deps_tree *tree, bool is_free)
{
	char at[1300];

	if (w->out->n == NODES_MAX)
		return cell_fail(w->err, CELL_ELIMIT, 0, "more than %d packages", NODES_MAX);
	if (w->out->n == w->out->max) {
		size_t max = w->out->max ? w->out->max * 2 : 32;
		struct npm_node *list = reallocarray(w->out->list, max, sizeof *list);
		if (!list)
			return no_memory(w);
		w->out->list = list;
		w->out->max = max;
	}
	int k = is_free ? snprintf(at, sizeof at, "node_modules/%s", x->name)
			: snprintf(at, sizeof at, "%s/node_modules/%s", w->out->list[x->parent].at,
				  x->name);
	struct npm_node *n = &w->out->list[w->out->n];
	if (k < 0 || (size_t)k >= sizeof n->at)
		return cell_fail(w->err, CELL_ELIMIT, 0, "packages need one another too deeply");
	*n = (struct npm_node){.is_requested = x->parent == SIZE_MAX, .tree = *tree};
	*tree = (struct deps_tree)DEPS_TREE_INIT;
	(void)snprintf(n->name, sizeof n->name, "%s", x->name);
	(void)snprintf(n->version, sizeof n->version, "%s", text_of(n->tree.manifest, "version"));
	(void)snprintf(n->at, sizeof n->at, "%s", at);
	return follow(w, w->out->n++);
}

static int take_wish(struct work *w, size_t i)
{
	const struct wish x = w->queue[i]; /* the list may move */
	struct npm_node *n = visible(w, x.parent, x.name);
	auto_tree struct deps_tree tree = DEPS_TREE_INIT;

	if (n && semver_allows(x.range, n->version)) {
		n->is_requested |= x.parent == SIZE_MAX;
		return 0;
	}
	if (n && x.parent == SIZE_MAX)
		return cell_fail(w->err, CELL_EINVAL, 0,
			"'%s' is asked for twice: %s is not '%.100s'", x.name, n->version, x.range);
	int r = choose(w, &x, &tree);
	bool is_unfit = r == 0 && !is_for_us(w, tree.manifest);
	if (x.is_optional && (is_unfit || (r < 0 && w->err && w->err->code == CELL_ENOTFOUND))) {
		if (w->err)
			*w->err = (struct cell_error){0};
		return 0;
	}
	if (is_unfit)
		return cell_fail(w->err, CELL_ENOTFOUND, 0, "'%s' is not for linux on %s", x.name,
			w->args->machine);
	return r < 0 ? r : place(w, &x, &tree, !n);
}

int npm_resolve(const struct npm_args *args, struct npm_tree *ret, struct cell_error *err)
{
	struct cell_error own = {0};
	auto_(work_done) struct work w = {
		.args = args, .out = ret, .known = json_object(), .err = err ? err : &own};
	json_t *text;
	size_t i;
	int r = w.known ? 0 : no_memory(&w);

	json_array_foreach (args->wishes, i, text) {
		char name[NPM_NAME_MAX], range[RANGE_MAX];
		if (r == 0)
			r = npm_wish_parse(json_string_value(text), name, range, sizeof range, err);
		if (r == 0)
			r = add_wish(&w, name, range, SIZE_MAX, false);
	}
	for (size_t k = 0; r == 0 && k < w.n_queue; k++)
		r = take_wish(&w, k);
	if (r < 0)
		npm_tree_done(ret);
	return r;
}
