/* SPDX-License-Identifier: Apache-2.0 */
/* tenant.c: see tenant.h. */
#include "server/tenant.h"

#include <ctype.h>
#include <string.h>

static const char *const migrations[] = {
	"CREATE TABLE tenants (name TEXT PRIMARY KEY, created INTEGER NOT NULL,"
	" disabled INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;"
	"INSERT INTO tenants (name, created) VALUES ('" TENANT_DEFAULT "', 0);",
	NULL,
};
const struct db_module tenant_module = {.name = "tenant", .migrations = migrations};

int tenant_check_name(const char *name, struct cell_error *err)
{
	size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789._-");

	if (n && n < TENANT_NAME_MAX && !name[n] && isalnum((unsigned char)name[0]))
		return 0;
	return cell_error_hint(err,
		cell_fail(err, CELL_EINVAL, 0, "'%.80s' cannot be the name of a tenant", name),
		"a-z 0-9 . _ -, beginning with a letter or digit, at most %d long",
		TENANT_NAME_MAX - 1);
}

int tenant_ensure(struct db *db, const char *name, int64_t now_ns, struct cell_error *err)
{
	int r = tenant_check_name(name, err);

	if (r == 0)
		r = db_run(db, err, "INSERT OR IGNORE INTO tenants (name, created) VALUES (?, ?)",
			"si", name, now_ns);
	return r < 0 ? r : 0;
}

static void take(const struct db_row *row, struct tenant *t)
{
	const char *name = db_text(row, 0);

	(void)snprintf(t->name, sizeof t->name, "%s", name ? name : "");
	t->created_ns = db_int(row, 1);
	t->is_disabled = db_int(row, 2) != 0;
}

static int take_one(const struct db_row *row, void *user)
{
	take(row, user);
	return 1;
}

static int fail_unknown(const char *name, struct cell_error *err)
{
	return cell_error_hint(err,
		cell_fail(err, CELL_ENOTFOUND, 0, "there is no tenant '%.80s'", name),
		"`cell token create --tenant %.60s` makes it", name);
}

int tenant_find(struct db *db, const char *name, struct tenant *ret, struct cell_error *err)
{
	int r = db_each(db, take_one, ret, err,
		"SELECT name, created, disabled FROM tenants WHERE name=?", "s", name);

	if (r == 0)
		return fail_unknown(name, err);
	return r < 0 ? r : 0;
}

int tenant_disable(struct db *db, const char *name, bool is_disabled, struct cell_error *err)
{
	int r = db_run(db, err, "UPDATE tenants SET disabled=? WHERE name=?", "is",
		(int64_t)is_disabled, name);

	if (r == 0)
		return fail_unknown(name, err);
	return r < 0 ? r : 0;
}

struct walk {
	tenant_fn fn;
	void *user;
};

static int take_each(const struct db_row *row, void *user)
{
	struct walk *w = user;
	struct tenant t;

	take(row, &t);
	return w->fn(&t, w->user);
}

int tenant_each(struct db *db, tenant_fn fn, void *user, struct cell_error *err)
{
	struct walk w = {fn, user};

	return db_each(db, take_each, &w, err,
		"SELECT name, created, disabled FROM tenants ORDER BY name", "");
}
