/* SPDX-License-Identifier: Apache-2.0 */
/* place.c: see place.h. */
#include "server/place.h"

#include <sys/stat.h>

#include "core/store.h"
#include "server/settings.h"

void place_done(struct place *p)
{
	free(p->dir);
	free(p->db);
	free(p->audit_dir);
	free(p->audit_key);
	free(p->spool);
	*p = (struct place){0};
}

static int join(char **ret, const char *dir, const char *name)
{
	if (asprintf(ret, "%s/%s", dir, name) >= 0)
		return 0;
	*ret = NULL;
	return -ENOMEM;
}

/* What the configuration says, or a name within the directory. */
static int choose(char **ret, const struct cell_config *cfg, const char *key, const char *dir,
	const char *name)
{
	const char *said = setting_text(cfg, key, NULL);

	if (!said)
		return join(ret, dir, name);
	*ret = strdup(said);
	return *ret ? 0 : -ENOMEM;
}

static int fill(struct place *p, const struct cell_config *cfg, const char *state)
{
	int r = join(&p->dir, state, "server");

	if (r == 0)
		r = join(&p->db, p->dir, "server.db");
	if (r == 0)
		r = join(&p->spool, p->dir, "spool");
	if (r == 0)
		r = choose(&p->audit_dir, cfg, "server.audit.dir", p->dir, "audit");
	if (r == 0)
		r = choose(&p->audit_key, cfg, "server.audit.key", p->dir, "audit.key");
	return r;
}

static int find(struct cell_config *cfg, bool is_made, struct place *p, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;

	int r = cell_store_open(&store, is_made, err);
	if (r == -ENOENT && !is_made)
		return cell_error_hint(err,
			cell_fail(err, CELL_ENOTFOUND, 0, "there is no state directory yet"),
			"`cell serve` makes it; --state-dir says where to look");
	if (r < 0)
		return r;
	r = fill(p, cfg, store.path);
	if (r < 0)
		return cell_fail(err, CELL_ENOSPACE, -r, "finding the server's directory");
	if (is_made && mkdir(p->dir, 0700) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "making '%s'", p->dir);
	if (!is_made && access(p->dir, F_OK) < 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_ENOTFOUND, 0, "no server has run here: no '%s'",
				p->dir),
			"`cell serve` makes it; --state-dir says where to look");
	return 0;
}

int place_find(struct cell_config *cfg, bool is_made, struct place *ret, struct cell_error *err)
{
	*ret = (struct place){0};
	int r = find(cfg, is_made, ret, err);
	if (r < 0)
		place_done(ret);
	return r;
}
