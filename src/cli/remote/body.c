/* SPDX-License-Identifier: Apache-2.0 */
/*
 * body.c: a spec as the JSON of POST /v1/sessions, in the words of cell.yaml. What names files of a machine is refused unless the server's are
 * meant: ours are not there, and a path that happens to exist there would be something else.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "cli/memory.h"
#include "cli/remote/remote.h"
#include "core/env.h"

static int no_path(const char *what, const char *path, struct cell_error *err)
{
	cell_fail(err, CELL_EINVAL, 0, "%s '%.150s': the server has other files than this machine",
		what, path);
	return cell_error_hint(err, -EINVAL,
		"make the cell without it and copy: cell cp SOURCE NAME:PATH; or, for a path of "
		"the server's machine, add --server-paths");
}

static int check_path(const char *what, const char *path, struct cell_error *err)
{
	if (!path)
		return 0;
	if (!remote_has_server_paths())
		return no_path(what, path, err);
	if (*path == '/')
		return 0;
	cell_fail(err, CELL_EINVAL, 0, "%s '%.150s': paths of the server begin at its root", what,
		path);
	return cell_error_hint(err, -EINVAL, "write it from the root: /...");
}

static int check_paths(const struct cell_spec *spec, struct cell_error *err)
{
	int r = check_path("workspace", spec->workspace, err);

	if (r == 0)
		r = check_path("root", spec->root, err);
	if (r == 0 && spec->image && strchr("./~", *spec->image))
		r = check_path("image", spec->image, err);
	if (r == 0 && spec->seccomp && strchr(spec->seccomp, '/'))
		r = check_path("seccomp", spec->seccomp, err);
	for (size_t i = 0; r == 0 && i < spec->n_mounts; i++)
		r = check_path("mount", spec->mounts[i].source, err);
	if (r == 0)
		r = check_path("venv_dir", spec->deps.venv_dir, err);
	if (r == 0 && spec->deps.index && strncmp(spec->deps.index, "http", 4) != 0)
		r = check_path("deps.index", spec->deps.index, err);
	for (const char *const *p = spec->deps.find_links; r == 0 && p && *p; p++)
		r = check_path("deps.find_links", *p, err);
	return r;
}

static json_t *text(const char *s)
{
	json_t *v = json_string(s);

	return v ? v : json_null();
}

static void put(json_t *o, const char *key, const char *s)
{
	if (s)
		(void)json_object_set_new(o, key, text(s));
}

static void put_number(json_t *o, const char *key, uint64_t n)
{
	if (n)
		(void)json_object_set_new(o, key, json_integer((json_int_t)n));
}

static json_t *words(const char *const *list)
{
	json_t *a = json_array();

	for (; list && *list; list++)
		(void)json_array_append_new(a, text(*list));
	return a;
}

/* "k=v" as members. */
static json_t *pairs(const char *const *list)
{
	json_t *o = json_object();

	for (; list && *list; list++) {
		size_t n = strcspn(*list, "=");
		char *key = cli_strndup(*list, n);
		(void)json_object_set_new(o, key, text((*list)[n] ? *list + n + 1 : ""));
		free(key);
	}
	return o;
}

int remote_env_json(const char *const *env, json_t **ret, struct cell_error *err)
{
	for (const char *const *e = env; e && *e; e++)
		if (!utf8_is_valid(*e, strlen(*e))) {
			cell_fail(err, CELL_EINVAL, 0, "the variable '%.*s' is no UTF-8",
				(int)strcspn(*e, "="), *e);
			return cell_error_hint(err, -EINVAL,
				"a server takes text only; leave it out");
		}
	*ret = pairs(env);
	return 0;
}

static json_t *limits(const struct cell_limits *l)
{
	json_t *o = json_object();

	put_number(o, "memory", l->memory_bytes);
	if (l->cpu_millis)
		(void)json_object_set_new(o, "cpus", json_real((double)l->cpu_millis / 1000));
	put_number(o, "pids", l->pids);
	put_number(o, "disk", l->disk_bytes);
	put_number(o, "inodes", l->inodes);
	put_number(o, "files", l->files);
	put_number(o, "file_size", l->file_size_bytes);
	put_number(o, "process_memory", l->process_memory_bytes);
	put_number(o, "cpu_time", l->cpu_time_s);
	put_number(o, "io_weight", l->io_weight);
	if (l->is_best_effort)
		(void)json_object_set_new(o, "best_effort", json_true());
	return o;
}

static void put_nonempty(json_t *o, const char *key, json_t *v)
{
	if (json_object_size(v) || json_array_size(v))
		(void)json_object_set_new(o, key, v);
	else
		json_decref(v);
}

static json_t *mounts(const struct cell_spec *spec)
{
	json_t *a = json_array();

	for (size_t i = 0; i < spec->n_mounts; i++)
		(void)json_array_append_new(a,
			json_sprintf("%s:%s%s", spec->mounts[i].source, spec->mounts[i].target,
				spec->mounts[i].is_read_only ? ":ro" : ""));
	return a;
}

static json_t *network(const struct cell_spec *spec)
{
	static const char *const modes[] = {[CELL_NETWORK_NONE] = "none",
		[CELL_NETWORK_ALLOW] = "allow",
		[CELL_NETWORK_OPEN] = "open"};
	json_t *o = json_object();

	if (spec->network)
		put(o, "mode", modes[spec->network]);
	put_nonempty(o, "allow", words(spec->network_allow));
	put_nonempty(o, "private", words(spec->network_private));
	put_nonempty(o, "dns", words(spec->network_dns));
	return o;
}

static json_t *deps(const struct cell_spec *spec)
{
	const struct cell_spec_deps *d = &spec->deps;
	json_t *o = json_object();

	if (d->is_wanted)
		(void)json_object_set_new(o, "enabled", json_true());
	if (d->runtime)
		(void)json_object_set_new(o, "allow_runtime",
			json_boolean(d->runtime == CELL_RUNTIME_DEPS_ALLOWED));
	put(o, "python_version", d->python_version);
	put(o, "venv_dir", d->venv_dir);
	put_nonempty(o, "preinstalled", words(d->preinstalled));
	put_nonempty(o, "preinstalled_npm", words(d->preinstalled_npm));
	put(o, "index", d->index);
	put_nonempty(o, "find_links", words(d->find_links));
	put(o, "npm_registry", d->npm_registry);
	put_number(o, "cache_size", d->cache_bytes);
	return o;
}

static json_t *kernels(const struct cell_spec *spec)
{
	json_t *o = json_object();

	put_nonempty(o, "warm", words(spec->warm));
	put_nonempty(o, "preload", words(spec->preload));
	if (spec->code_timeout_ms == CELL_NO_TIMEOUT)
		put(o, "timeout", "none");
	else if (spec->code_timeout_ms)
		(void)json_object_set_new(o, "timeout",
			json_sprintf("%llums", (unsigned long long)spec->code_timeout_ms));
	put_nonempty(o, "languages", words(spec->languages));
	put_nonempty(o, "databases", words(spec->databases));
	return o;
}

static json_t *body_of(const struct cell_spec *spec)
{
	static const char *const lifecycles[] = {
		NULL, "persistent", "workspace", "session", "ephemeral", "scheduled"};
	static const char *const models[] = {NULL, "shared", "limited", "burstable", "dedicated"};
	json_t *o = json_object();

	static const char *const scratches[] = {NULL, "memory", "disk"};

	/* Every member of struct cell_spec: one left out would be a wall that was asked for and not made. */
	put(o, "scratch", scratches[spec->scratch]);
	put(o, "seccomp", spec->seccomp);
	put(o, "name", spec->name);
	put(o, "backend", spec->backend);
	put_number(o, "tier", (uint64_t)spec->tier);
	put(o, "image", spec->image);
	put(o, "from", spec->from);
	put(o, "root", spec->root);
	put(o, "workspace", spec->workspace);
	put_nonempty(o, "mounts", mounts(spec));
	put(o, "cwd", spec->cwd);
	put(o, "user", spec->user);
	if (spec->timeout_ms)
		(void)json_object_set_new(o, "timeout",
			json_sprintf("%llums", (unsigned long long)spec->timeout_ms));
	put_nonempty(o, "limits", limits(&spec->limits));
	put(o, "resources", models[spec->resources]);
	put_nonempty(o, "network", network(spec));
	put_number(o, "gpus", spec->gpus);
	put(o, "lifecycle", lifecycles[spec->lifecycle]);
	put_nonempty(o, "labels", pairs(spec->labels));
	put_nonempty(o, "needs", words(spec->needs));
	put_nonempty(o, "deps", deps(spec));
	put_nonempty(o, "kernels", kernels(spec));
	return o;
}

int remote_spec_json(const struct cell_spec *spec, json_t **ret, struct cell_error *err)
{
	char **composed = NULL;
	json_t *env = NULL;
	int r = check_paths(spec, err);

	/* The environment that --env-from means is ours. */
	if (r == 0 && spec->env_from != CELL_ENV_NONE)
		r = cell_env_compose(spec->env_from, environ, spec->env, &composed, err);
	if (r == 0)
		r = remote_env_json(composed ? (const char *const *)composed : spec->env, &env,
			err);
	cell_env_free(composed);
	if (r < 0)
		return r;
	*ret = body_of(spec);
	put_nonempty(*ret, "env", env);
	return 0;
}

int remote_check_text(const char *what, const char *s, struct cell_error *err)
{
	if (!s || utf8_is_valid(s, strlen(s)))
		return 0;
	cell_fail(err, CELL_EINVAL, 0, "%s is no UTF-8", what);
	return cell_error_hint(err, -EINVAL,
		"a server takes text only; put the bytes in a file, or send them as stdin");
}
