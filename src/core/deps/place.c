/* SPDX-License-Identifier: Apache-2.0 */
/* place.c: see place.h. */
#include "core/deps/place.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/cell.h"
#include "core/contract.h"
#include "core/deps/install.h"
#include "core/deps/refuse.h"
#include "core/record.h"

#define MASKS_MAX 24
#define RECORD	  "deps"

bool deps_are_wanted(const struct cell_spec *spec)
{
	const struct cell_spec_deps *d = &spec->deps;

	return d->is_wanted || d->runtime || d->python_version || d->venv_dir || d->index ||
	       d->npm_registry || (d->preinstalled && *d->preinstalled) ||
	       (d->preinstalled_npm && *d->preinstalled_npm) || (d->find_links && *d->find_links);
}

void deps_mounts_done(struct deps_mounts *m)
{
	for (size_t i = 0; i < m->n_owned; i++)
		free(m->owned[i]);
	free((void *)m->owned);
	free(m->list);
}

/* ---- the record ---- */

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

int deps_place_of(const struct cell *c, struct deps_place *ret, struct cell_error *err)
{
	const json_t *o = json_object_get(c->record, RECORD);

	*ret = (struct deps_place){.dir = text_of(o, "dir"),
		.at = text_of(o, "at"),
		.is_mounted = json_is_true(json_object_get(o, "mounted")),
		.is_kept = json_is_true(json_object_get(o, "kept")),
		.is_forbidden = json_is_true(json_object_get(o, "forbidden")),
		.python_version = text_of(o, "python_version"),
		.index = text_of(o, "index"),
		.npm_registry = text_of(o, "npm_registry"),
		.cache_bytes = (uint64_t)json_integer_value(json_object_get(o, "cache_bytes"))};
	if (!ret->dir || !ret->at)
		return cell_error_hint(err,
			cell_fail(err, CELL_ENOTSUP, 0,
				"cell '%s' has no environment for packages: none was asked for "
				"when it "
				"was made",
				c->name),
			"make it with --deps, or with deps or allow_runtime_deps in its "
			"configuration");
	if (cell_record_list(o, "find_links", &ret->find_links) < 0)
		return cell_fail_errno(err, ENOMEM, "read what cell '%s' is", c->name);
	return 0;
}

void deps_place_done(struct deps_place *p)
{
	cell_record_list_free(&p->find_links);
}

static int set_record(struct cell *c, const struct cell_spec *spec, const char *dir, const char *at,
	bool is_mounted)
{
	const struct cell_spec_deps *d = &spec->deps;
	json_t *o = json_pack("{s:s, s:s, s:b, s:b, s:b}", "dir", dir, "at", at, "mounted",
		is_mounted, "kept", d->venv_dir != NULL, "forbidden",
		d->runtime == CELL_RUNTIME_DEPS_FORBIDDEN);
	int r = o ? 0 : -1;

	if (r == 0 && d->python_version)
		r = json_object_set_new(o, "python_version", json_string(d->python_version));
	if (r == 0 && d->index)
		r = json_object_set_new(o, "index", json_string(d->index));
	if (r == 0 && d->npm_registry)
		r = json_object_set_new(o, "npm_registry", json_string(d->npm_registry));
	if (r == 0 && d->cache_bytes)
		r = json_object_set_new(o, "cache_bytes", json_integer((json_int_t)d->cache_bytes));
	if (r == 0)
		r = cell_record_set_list(o, "find_links", d->find_links);
	if (r != 0) {
		json_decref(o);
		return -1;
	}
	return json_object_set_new(c->record, RECORD, o);
}

/* ---- the directory ---- */

/* A directory that somebody else filled is not ours to write to. */
static int open_kept(const char *path, char **ret, struct cell_error *err)
{
	struct stat st;

	if (mkdir(path, 0755) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "venv_dir '%.200s'", path);
	*ret = realpath(path, NULL);
	auto_fd int fd = *ret ? open(*ret, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd < 0 || fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "venv_dir '%.200s'", path);
	if (st.st_uid != geteuid())
		return cell_error_hint(err,
			cell_fail(err, CELL_EDENIED, 0, "venv_dir '%.200s' is another user's",
				path),
			"give a directory of your own");
	if (faccessat(fd, "current", F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);
	for (struct dirent *e; d && (e = readdir(d));)
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
			strcmp(e->d_name, ".lock") != 0 && strcmp(e->d_name, DEPS_MODULES) != 0 &&
			strncmp(e->d_name, "gen-", 4) != 0)
			return cell_error_hint(err,
				cell_fail(err, CELL_EEXISTS, 0,
					"venv_dir '%.200s' has files in it and is no environment "
					"of ours",
					path),
				"give an empty directory, or one that is not there yet");
	return 0;
}

static int open_own(struct cell *c, char **ret, struct cell_error *err)
{
	char *path = NULL;

	if ((mkdirat(c->directory_fd, "env", 0755) < 0 && errno != EEXIST) ||
		fchmodat(c->directory_fd, "env", 0755, 0) < 0)
		return cell_fail_errno(err, errno, "make the cell's environment");
	if (asprintf(&path, "%s/env", c->directory) < 0)
		return cell_fail_errno(err, ENOMEM, "make the cell's environment");
	*ret = realpath(path, NULL);
	free(path);
	return *ret ? 0 : cell_fail_errno(err, errno, "make the cell's environment");
}

/* ---- mounts ---- */

struct masking {
	struct deps_mounts *m;
	const char *dir;
};

/* Both texts become the list's. */
static int add_mount(struct deps_mounts *m, char *source, char *target)
{
	struct cell_mount *list = reallocarray(m->list, m->n + 1, sizeof *list);
	char **owned = reallocarray(m->owned, m->n_owned + 2, sizeof *owned);

	m->list = list ? list : m->list;
	m->owned = owned ? owned : m->owned;
	if (!list || !owned || !source || !target) {
		free(source);
		free(target);
		return -ENOMEM;
	}
	m->owned[m->n_owned++] = source;
	m->owned[m->n_owned++] = target;
	m->list[m->n++] = (struct cell_mount){
		.source = source, .target = target, .is_read_only = true, .is_ours = true};
	return 0;
}

static int add_mask(const char *what, const char *target, void *user)
{
	struct masking *k = user;
	char *source = NULL;

	if (k->m->n_owned > MASKS_MAX * 2)
		return 0;
	if (asprintf(&source, "%s/" REFUSE_DIR "/%s", k->dir, what) < 0)
		return -ENOMEM;
	return add_mount(k->m, source, strdup(target));
}

/* Over the pip and npm of a tree whose files can be looked at: the host's own, or a directory. In an image they stay; there the
 * environment's come first in PATH and PYTHONPATH. */
static int add_masks(struct deps_mounts *m, const struct cell_spec *spec, const char *dir)
{
	struct masking k = {m, dir};
	struct stat st;

	if (spec->image && strcmp(spec->image, "host") != 0)
		return 0;
	if (spec->root && (stat(spec->root, &st) < 0 || !S_ISDIR(st.st_mode)))
		return 0;
	return refuse_targets(spec->root ? spec->root : "", add_mask, &k);
}

static int make_mounts(struct cell_spec *spec, const char *dir, struct deps_mounts *m,
	struct cell_error *err)
{
	int r = 0;

	m->list = calloc(spec->n_mounts + 1, sizeof *m->list);
	if (!m->list)
		return cell_fail_errno(err, ENOMEM, "mount the cell's environment");
	for (size_t i = 0; i < spec->n_mounts; i++)
		m->list[m->n++] = spec->mounts[i];
	r = add_mount(m, strdup(dir), strdup(DEPS_MOUNT_AT));
	if (r == 0) {
		char *modules = NULL;
		if (asprintf(&modules, "%s/" DEPS_MODULES, dir) < 0)
			modules = NULL;
		if (modules &&
			((mkdir(modules, 0755) < 0 && errno != EEXIST) || chmod(modules, 0755) < 0))
			r = -errno;
		if (r < 0)
			free(modules);
		else
			r = add_mount(m, modules, strdup(DEPS_MODULES_AT));
	}
	if (r == 0 && spec->deps.runtime == CELL_RUNTIME_DEPS_FORBIDDEN)
		r = add_masks(m, spec, dir);
	if (r < 0)
		return cell_fail_errno(err, -r, "mount the cell's environment");
	spec->mounts = m->list;
	spec->n_mounts = m->n;
	return 0;
}

int deps_place_make(struct cell *c, struct cell_spec *spec, struct deps_mounts *m,
	struct cell_error *err)
{
	auto_free char *dir = NULL;

	if (!deps_are_wanted(spec))
		return 0;
	bool is_mounted = c->caps & CELL_CAP_BIT(CELL_CAP_MOUNTS);
	if (!is_mounted && (c->caps & CELL_CAP_BIT(CELL_CAP_HIDE_FILES)))
		return cell_contract_require(c, CELL_CAP_BIT(CELL_CAP_MOUNTS),
			"give the cell packages", err);
	int r = spec->deps.venv_dir ? open_kept(spec->deps.venv_dir, &dir, err)
				    : open_own(c, &dir, err);
	if (r == 0 && set_record(c, spec, dir, is_mounted ? DEPS_MOUNT_AT : dir, is_mounted) < 0)
		r = cell_fail(err, CELL_EINVAL, 0, "packages: a path or a text is no UTF-8");
	if (r == 0 && spec->deps.runtime == CELL_RUNTIME_DEPS_FORBIDDEN) {
		auto_fd int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? cell_fail_errno(err, errno, "open '%.200s'", dir)
			   : refuse_make(fd, err);
	}
	if (r == 0 && is_mounted)
		r = make_mounts(spec, dir, m, err);
	return r;
}

/* ---- variables ---- */

static const char *variable(const struct cell *c, const char *name)
{
	size_t n = strlen(name);

	for (char **v = c->env; v && *v; v++)
		if (!strncmp(*v, name, n) && (*v)[n] == '=')
			return *v + n + 1;
	return "";
}

static int set_variable(struct cell *c, const char *name, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static int set_variable(struct cell *c, const char *name, const char *fmt, ...)
{
	auto_free char *value = NULL;
	char *text = NULL;
	size_t n = 0, len = strlen(name);
	va_list ap;

	va_start(ap, fmt);
	int k = vasprintf(&value, fmt, ap);
	va_end(ap);
	if (k < 0) {
		value = NULL;
		return -ENOMEM;
	}
	if (asprintf(&text, "%s=%s", name, value) < 0)
		return -ENOMEM;
	for (; c->env && c->env[n]; n++)
		if (!strncmp(c->env[n], name, len) && c->env[n][len] == '=') {
			free(c->env[n]);
			c->env[n] = text;
			return 0;
		}
	char **env = reallocarray(c->env, n + 2, sizeof *env);
	if (!env) {
		free(text);
		return -ENOMEM;
	}
	env[n] = text;
	env[n + 1] = NULL;
	c->env = env;
	return 0;
}

/* Ours come first, whatever the image or the user says; what they say comes behind. */
static int set_variables(struct cell *c, const struct deps_place *p)
{
	bool is_private_home = c->caps & CELL_CAP_BIT(CELL_CAP_PRIVATE_HOME);
	const char *old = variable(c, "PYTHONPATH");
	int r = 0;

	if (p->is_forbidden) {
		r = set_variable(c, "PATH", "%s/current/bin:%s", p->at, variable(c, "PATH"));
		r |= set_variable(c, "PYTHONPATH", "%s/" REFUSE_DIR "%s%s", p->at, *old ? ":" : "",
			old);
		r |= set_variable(c, "PYTHONNOUSERSITE", "1");
	} else if (p->is_mounted) {
		r = set_variable(c, "PATH", "%s/current/bin:%s%s", p->at,
			is_private_home ? "/home/cell/.local/bin:" : "", variable(c, "PATH"));
	} else {
		r = set_variable(c, "PATH", "%s/current/bin:%s/user/bin:%s", p->at, p->at,
			variable(c, "PATH"));
		r |= set_variable(c, "PYTHONUSERBASE", "%s/user", p->at);
		/* root may write anywhere: without this pip would write into what we replace */
		if (geteuid() == 0)
			r |= set_variable(c, "PIP_USER", "1");
	}
	r |= set_variable(c, "VIRTUAL_ENV", "%s/current", p->at);
	r |= set_variable(c, "NODE_PATH", "%s/current/node_modules", p->at);
	if (!c->is_ephemeral)
		r |= cell_record_set_list(c->record, "env", (const char *const *)c->env);
	return r ? -ENOMEM : 0;
}

int deps_place_open(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	auto_place struct deps_place p = {0};

	if (!deps_are_wanted(spec))
		return 0;
	int r = deps_place_of(c, &p, err);
	if (r == 0 && set_variables(c, &p) < 0)
		r = cell_fail_errno(err, ENOMEM, "set the cell's variables");
	return r < 0 ? r : deps_install_first(c, &spec->deps, err);
}
