/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_spec.c: from what a client asks for to the cell it gets. The words are those of cell.yaml, checked by the same code. What
 * names files of the host, or wants weaker walls than this server gives, is refused: the client is somebody across a network.
 */
#include <limits.h>
#include <string.h>

#include "cell/config.h"

#include "base/cleanup.h"
#include "core/config/config.h"
#include "core/within.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/session.h"
#include "server/session_deps.h"
#include "server/settings.h"

#define SESSION_LABEL "cell.session"

static int check_path(const struct server *srv, const char *what, const char *path,
	struct cell_error *err)
{
	auto_free char *real = path ? realpath(path, NULL) : NULL;

	if (!path)
		return 0;
	for (const char **p = srv->set.host_paths; real && p && *p; p++)
		if (cell_path_is_within(real, *p))
			return 0;
	int r = cell_fail(err, CELL_EDENIED, 0,
		"%s '%.200s': this server gives no session that directory of its machine", what,
		path);
	return cell_error_hint(err, r,
		"put files in with the files API; or the server's owner adds the directory to "
		"server.host_paths");
}

static int check_spec(const struct server *srv, const struct cell_spec *spec,
	struct cell_error *err)
{
	int r = check_path(srv, "workspace", spec->workspace, err);

	if (r == 0)
		r = check_path(srv, "root", spec->root, err);
	if (r == 0 && spec->image && strchr("./~", spec->image[0]))
		r = check_path(srv, "image", spec->image, err);
	if (r == 0 && spec->seccomp && strchr(spec->seccomp, '/'))
		r = check_path(srv, "seccomp", spec->seccomp, err);
	for (size_t i = 0; r == 0 && i < spec->n_mounts; i++)
		r = check_path(srv, "mount", spec->mounts[i].source, err);
	if (r == 0)
		r = session_deps_check(srv, spec, err);
	if (r == 0 && spec->databases && *spec->databases) {
		r = cell_fail(err, CELL_EDENIED, 0,
			"kernels.databases: sessions cannot grant themselves connections");
		r = cell_error_hint(err, r, "the server's owner sets it, in its cell.yaml");
	}
	if (r == 0 && spec->env_from != CELL_ENV_NONE) {
		r = cell_fail(err, CELL_EDENIED, 0,
			"env_from: the server's environment is not for sessions");
		r = cell_error_hint(err, r, "name the variables in env");
	}
	return r;
}

/* A session's life is the server's business, not its cell's. */
static int check_lifecycle(json_t *asked, struct cell_error *err)
{
	static const char *const words[] = {
		"persistent", "workspace", "session", "ephemeral", "scheduled", NULL};
	json_t *v = json_object_get(asked, "lifecycle");

	if (!v)
		return 0;
	for (size_t i = 0; json_is_string(v) && words[i]; i++)
		if (!strcmp(words[i], json_string_value(v)))
			return 0;
	int r = cell_fail(err, CELL_EINVAL, 0, "there is no lifecycle '%.32s'",
		json_is_string(v) ? json_string_value(v) : "?");
	return cell_error_hint(err, r, "persistent, workspace, session, ephemeral or scheduled");
}

/* What waits on the shelf is what a session gets that says nothing of interpreters. */
static void add_kernels(const struct server *srv, json_t *asked)
{
	static const char *const keys[] = {"warm", "preload"};
	json_t *o = json_object_get(asked, "kernels") ? NULL : json_object();

	for (size_t i = 0; o && i < sizeof keys / sizeof *keys; i++) {
		char path[32];
		(void)snprintf(path, sizeof path, "kernels.%s", keys[i]);
		auto_free const char **words = setting_list(srv->cfg, path);
		json_t *list = words && *words ? json_array() : NULL;
		for (const char **w = words; list && *w; w++)
			(void)json_array_append_new(list, json_string(*w));
		if (list)
			(void)json_object_set_new(o, keys[i], list);
	}
	if (o && json_object_size(o))
		(void)json_object_set(asked, "kernels", o);
	json_decref(o);
}

int session_spec(struct server *srv, json_t *asked, const char *name, bool is_admin,
	struct cell_config **ret, struct cell_error *err)
{
	static const char *const ours[] = {
		"idle_timeout", "ttl", "wait", "schedule", "lifecycle", "workspace_key", NULL};
	struct cell_config *cfg = NULL;
	const struct cell_spec *spec = NULL;
	json_t *copy = json_copy(asked);
	auto_free char *text = NULL;
	char tier[16];

	/* a word of cell.yaml that means nothing here, and might be taken for something */
	if (json_object_get(asked, "server")) {
		json_decref(copy);
		int bad = cell_fail(err, CELL_EINVAL, 0, "'server' is not for sessions");
		return cell_error_hint(err, bad,
			"it is the server's owner who sets it, in its cell.yaml");
	}
	for (size_t i = 0; ours[i]; i++)
		(void)json_object_del(copy, ours[i]);
	add_kernels(srv, copy);
	text = json_dumps(copy, JSON_COMPACT);
	json_decref(copy);
	if (!text)
		return cell_fail_errno(err, ENOMEM, "read the session");
	int r = check_lifecycle(asked, err);
	if (r == 0)
		r = session_check_key(asked, err);
	if (r == 0)
		r = schedule_check(asked, err);
	if (r == 0)
		r = cell_config_load_text("session", text, strlen(text), &cfg, err);
	if (r == 0)
		r = cell_config_spec(cfg, &spec, err);
	if (r == 0 && !is_admin)
		r = check_spec(srv, spec, err);
	if (r == 0 && spec->from && strchr(spec->from, '/')) {
		r = cell_fail(err, CELL_EINVAL, 0, "from: '%.64s' is no name for a snapshot",
			spec->from);
		r = cell_error_hint(err, r, "GET /v1/snapshots lists yours");
	}
	/* a snapshot is of one back end */
	if (r == 0 && !spec->backend && !spec->from && setting_text(srv->cfg, "backend", NULL))
		r = cell_config_set(cfg, "backend", setting_text(srv->cfg, "backend", NULL),
			"the server", err);
	if (r == 0 && spec->tier < srv->set.min_tier) {
		(void)snprintf(tier, sizeof tier, "%d", srv->set.min_tier);
		r = cell_config_set(cfg, "tier", tier, "server.min_tier", err);
	}
	if (r == 0)
		r = cell_config_spec(cfg, &spec, err);
	if (r == 0)
		r = session_deps_complete(srv, cfg, spec, err);
	if (r == 0)
		r = cell_config_set(cfg, "name", name, "the session", err);
	if (r == 0)
		r = cell_config_set(cfg, "labels", SESSION_LABEL "=1", "the server", err);
	if (r == 0)
		r = cell_config_spec(cfg, &spec, err);
	if (r < 0) {
		cell_config_free(cfg);
		return r;
	}
	*ret = cfg;
	return 0;
}
