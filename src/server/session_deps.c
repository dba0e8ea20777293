/* SPDX-License-Identifier: Apache-2.0 */
/* session_deps.c: see session_deps.h. */
#include "server/session_deps.h"

#include "cell/config.h"
#include "cell/spec.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "server/settings.h"

int session_deps_check(const struct server *srv, const struct cell_spec *spec,
	struct cell_error *err)
{
	const struct cell_spec_deps *d = &spec->deps;
	const char *what = d->venv_dir			     ? "venv_dir"
			   : d->index			     ? "deps.index"
			   : d->find_links && *d->find_links ? "deps.find_links"
			   : d->npm_registry		     ? "deps.npm_registry"
			   : d->cache_bytes		     ? "deps.cache_size"
							     : NULL;

	(void)srv;
	if (!what)
		return 0;
	int r = cell_fail(err, CELL_EDENIED, 0,
		"%s: where packages come from and are kept is the server's business", what);
	return cell_error_hint(err, r,
		"leave it out; its owner sets it in the server's configuration");
}

static int inherit(const struct server *srv, struct cell_config *cfg, const char *key,
	struct cell_error *err)
{
	const struct node *n = setting(srv->cfg, key);
	int r = 0;

	if (!n)
		return 0;
	if (n->kind != NODE_LIST)
		return cell_config_set(cfg, key, n->text, "the server", err);
	auto_free const char **list = setting_list(srv->cfg, key);
	for (const char **p = list; r == 0 && p && *p; p++)
		r = cell_config_set(cfg, key, *p, "the server", err);
	return r;
}

int session_deps_complete(const struct server *srv, struct cell_config *cfg,
	const struct cell_spec *spec, struct cell_error *err)
{
	/* they stand in the session's configuration before it is read again: take what is needed of it now */
	const struct cell_spec_deps has = spec->deps;
	const bool has_preinstalled = has.preinstalled && *has.preinstalled;
	const bool has_links = has.find_links && *has.find_links;
	const bool has_languages = spec->languages && *spec->languages;
	const bool has_databases = spec->databases && *spec->databases;
	const bool has_deadline = spec->code_timeout_ms || spec->timeout_ms;
	int r = 0;

	if (!has.is_wanted)
		r = inherit(srv, cfg, "deps.enabled", err);
	if (r == 0 && !has.index)
		r = inherit(srv, cfg, "deps.index", err);
	if (r == 0 && !has_links)
		r = inherit(srv, cfg, "deps.find_links", err);
	if (r == 0 && !has.npm_registry)
		r = inherit(srv, cfg, "deps.npm_registry", err);
	if (r == 0 && !has.cache_bytes)
		r = inherit(srv, cfg, "deps.cache_size", err);
	if (r == 0 && !has.python_version)
		r = inherit(srv, cfg, "python_version", err);
	if (r == 0 && !has_preinstalled)
		r = inherit(srv, cfg, "deps.preinstalled", err);
	if (r == 0 && (!has.runtime || !setting_bool(srv->cfg, "allow_runtime_deps", true)))
		r = inherit(srv, cfg, "allow_runtime_deps", err);
	if (r == 0 && !has_languages)
		r = inherit(srv, cfg, "kernels.languages", err);
	if (r == 0 && !has_deadline)
		r = inherit(srv, cfg, "kernels.timeout", err);
	if (r == 0 && !has_databases)
		r = inherit(srv, cfg, "kernels.databases", err);
	return r;
}
