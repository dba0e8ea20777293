/* SPDX-License-Identifier: Apache-2.0 */
/* token.c: see token.h. */
#include "server/token.h"

#include <string.h>

#include "server/clock.h"
#include "server/hash.h"

#define USED_STEP_NS (60 * NS_PER_S) /* last_used is written at most so often */

static const char letters[] = "abcdefghijklmnopqrstuvwxyz234567";
static const char *const roles[] = {
	[TOKEN_READ_ONLY] = "read-only", [TOKEN_USER] = "user", [TOKEN_ADMIN] = "admin"};

static const char *const migrations[] = {
	"CREATE TABLE tokens (id TEXT PRIMARY KEY, hash BLOB NOT NULL, tenant TEXT NOT NULL,"
	" role TEXT NOT NULL, label TEXT NOT NULL, created INTEGER NOT NULL, expires INTEGER NOT "
	"NULL,"
	" revoked INTEGER NOT NULL DEFAULT 0, last_used INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;"
	"CREATE INDEX tokens_by_tenant ON tokens (tenant);",
	NULL,
};
const struct db_module token_module = {.name = "token", .migrations = migrations};

const char *token_role_name(enum token_role role)
{
	return role >= 0 && role <= TOKEN_ADMIN ? roles[role] : "unknown";
}

int token_role_find(const char *name)
{
	for (int i = 0; i <= TOKEN_ADMIN; i++)
		if (!strcmp(roles[i], name))
			return i;
	return !strcmp(name, "readonly") || !strcmp(name, "read_only") ? (int)TOKEN_READ_ONLY : -1;
}

/* Five bits a letter; the last one has what is left. */
static void spell(const uint8_t *bytes, size_t n_letters, char *out)
{
	uint32_t bits = 0;
	unsigned have = 0;

	for (size_t i = 0; i < n_letters; i++) {
		if (have < 5) {
			bits = bits << 8 | *bytes++;
			have += 8;
		}
		have -= 5;
		out[i] = letters[bits >> have & 31];
	}
	out[n_letters] = '\0';
}

struct secret {
	char id[TOKEN_ID_LEN + 1];
	uint8_t hash[HASH_BYTES];
};

static int make(struct secret *s, char ret_text[TOKEN_TEXT_MAX])
{
	/* One byte more than 256 bits: the last letter of the secret looks at it. */
	uint8_t id[8], secret[33];
	char text[TOKEN_SECRET_LEN + 1];

	if (hash_random(id, sizeof id) < 0 || hash_random(secret, sizeof secret) < 0)
		return -EIO;
	spell(id, TOKEN_ID_LEN, s->id);
	spell(secret, TOKEN_SECRET_LEN, text);
	hash_sha256(text, TOKEN_SECRET_LEN, s->hash);
	(void)snprintf(ret_text, TOKEN_TEXT_MAX, TOKEN_PREFIX "%s_%s", s->id, text);
	explicit_bzero(secret, sizeof secret);
	explicit_bzero(text, sizeof text);
	return 0;
}

static int check_label(const char *label, struct cell_error *err)
{
	if (strlen(label) >= TOKEN_LABEL_MAX)
		return cell_error_hint(err, cell_fail(err, CELL_EINVAL, 0, "the label is too long"),
			"at most %d bytes", TOKEN_LABEL_MAX - 1);
	for (const char *p = label; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return cell_error_hint(err,
				cell_fail(err, CELL_EINVAL, 0,
					"the label has a control character in it"),
				"write plain text");
	return 0;
}

static int insert(struct db *db, const struct token *t, const struct secret *s,
	struct cell_error *err)
{
	int r = tenant_ensure(db, t->tenant, t->created_ns, err);

	if (r == 0)
		r = db_run(db, err,
			"INSERT INTO tokens (id, hash, tenant, role, label, created, expires) "
			"VALUES "
			"(?,?,?,?,?,?,?)",
			"sbsssii", s->id, s->hash, sizeof s->hash, t->tenant,
			token_role_name(t->role), t->label, t->created_ns, t->expires_ns);
	return r < 0 ? r : 0;
}

int token_create(struct db *db, const struct token_spec *spec, int64_t now_ns, struct token *ret,
	char ret_text[TOKEN_TEXT_MAX], struct cell_error *err)
{
	const char *tenant = spec->tenant ? spec->tenant : TENANT_DEFAULT;
	const char *label = spec->label ? spec->label : "";
	struct token t = {.role = spec->role, .created_ns = now_ns, .expires_ns = spec->expires_ns};
	struct secret s;

	int r = check_label(label, err);
	if (r == 0)
		r = tenant_check_name(tenant, err);
	if (r < 0)
		return r;
	if (t.expires_ns && t.expires_ns <= now_ns)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "the token would have expired already"),
			"give a time to come");
	if (make(&s, ret_text) < 0)
		return cell_fail(err, CELL_EBACKEND, EIO, "making a token: no random bytes");
	memcpy(t.id, s.id, sizeof t.id);
	(void)snprintf(t.tenant, sizeof t.tenant, "%s", tenant);
	(void)snprintf(t.label, sizeof t.label, "%s", label);
	r = db_begin(db, err);
	if (r == 0)
		r = db_end(db, insert(db, &t, &s, err), err);
	if (r < 0) {
		explicit_bzero(ret_text, TOKEN_TEXT_MAX);
		return r;
	}
	*ret = t;
	return 0;
}

int token_revoke(struct db *db, const char *id, int64_t now_ns, struct cell_error *err)
{
	int r = db_run(db, err,
		"UPDATE tokens SET revoked = CASE revoked WHEN 0 THEN ? ELSE revoked END WHERE "
		"id=?",
		"is", now_ns, id);

	if (r == 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_ENOTFOUND, 0, "there is no token '%.40s'", id),
			"`cell token ls` lists them; the id is what stands between the "
			"underscores");
	return r < 0 ? r : 0;
}

#define COLUMNS "id, tenant, role, label, created, expires, revoked, last_used"

static void copy(char *out, size_t size, const char *text)
{
	(void)snprintf(out, size, "%s", text ? text : "");
}

static void take(const struct db_row *row, struct token *t)
{
	const char *role = db_text(row, 2);
	int place = role ? token_role_find(role) : -1;

	copy(t->id, sizeof t->id, db_text(row, 0));
	copy(t->tenant, sizeof t->tenant, db_text(row, 1));
	/* A role nobody knows may do the least. */
	t->role = place < 0 ? TOKEN_READ_ONLY : (enum token_role)place;
	copy(t->label, sizeof t->label, db_text(row, 3));
	t->created_ns = db_int(row, 4);
	t->expires_ns = db_int(row, 5);
	t->revoked_ns = db_int(row, 6);
	t->last_used_ns = db_int(row, 7);
}

struct walk {
	token_fn fn;
	void *user;
};

static int take_each(const struct db_row *row, void *user)
{
	struct walk *w = user;
	struct token t;

	take(row, &t);
	return w->fn(&t, w->user);
}

int token_each(struct db *db, const char *tenant, token_fn fn, void *user, struct cell_error *err)
{
	struct walk w = {fn, user};

	if (tenant)
		return db_each(db, take_each, &w, err,
			"SELECT " COLUMNS " FROM tokens WHERE tenant=? ORDER BY created, id", "s",
			tenant);
	return db_each(db, take_each, &w, err,
		"SELECT " COLUMNS " FROM tokens ORDER BY created, id", "");
}

struct lookup {
	struct token token;
	uint8_t hash[HASH_BYTES];
	bool is_there, is_tenant_disabled;
};

static int take_lookup(const struct db_row *row, void *user)
{
	struct lookup *l = user;
	size_t n;

	take(row, &l->token);
	const void *hash = db_blob(row, 8, &n);
	if (hash && n == sizeof l->hash)
		memcpy(l->hash, hash, n);
	l->is_tenant_disabled = db_int(row, 9) != 0;
	l->is_there = hash && n == sizeof l->hash;
	return 0;
}

/* cell_<id>_<secret>, of the right letters; the parts are copied. What is no token becomes one
 * that cannot exist, so that it is looked up and compared all the same. */
static bool split(const char *text, char id[TOKEN_ID_LEN + 1], char secret[TOKEN_SECRET_LEN + 1])
{
	size_t prefix = sizeof TOKEN_PREFIX - 1;
	bool is_one = strnlen(text, TOKEN_TEXT_MAX) == TOKEN_TEXT_MAX - 1 &&
		      !strncmp(text, TOKEN_PREFIX, prefix) &&
		      strspn(text + prefix, letters) == TOKEN_ID_LEN &&
		      text[prefix + TOKEN_ID_LEN] == '_' &&
		      strspn(text + prefix + TOKEN_ID_LEN + 1, letters) == TOKEN_SECRET_LEN;

	memset(id, '-', TOKEN_ID_LEN);
	memset(secret, '-', TOKEN_SECRET_LEN);
	id[TOKEN_ID_LEN] = secret[TOKEN_SECRET_LEN] = '\0';
	if (is_one) {
		memcpy(id, text + prefix, TOKEN_ID_LEN);
		memcpy(secret, text + prefix + TOKEN_ID_LEN + 1, TOKEN_SECRET_LEN);
	}
	return is_one;
}

/* Hashes are compared, so neither length nor place of a difference shows. */
static bool is_configured(const char *text, const char *configured)
{
	uint8_t a[HASH_BYTES], b[HASH_BYTES];

	if (!configured || !*configured)
		return false;
	hash_sha256(text, strlen(text), a);
	hash_sha256(configured, strlen(configured), b);
	return hash_is_equal(a, b, sizeof a);
}

static void remember_use(struct db *db, const struct token *t, int64_t now_ns)
{
	if (now_ns - t->last_used_ns < USED_STEP_NS)
		return;
	/* A full disk must not lock anybody out. */
	(void)db_run(db, NULL, "UPDATE tokens SET last_used=? WHERE id=?", "is",
		now_ns - now_ns % USED_STEP_NS, t->id);
}

int token_check(struct db *db, const char *text, const char *configured, int64_t now_ns,
	struct token *ret, struct cell_error *err)
{
	char id[TOKEN_ID_LEN + 1], secret[TOKEN_SECRET_LEN + 1];
	uint8_t hash[HASH_BYTES];
	struct lookup l = {0};

	if (is_configured(text, configured)) {
		*ret = (struct token){
			.id = TOKEN_ID_CONFIG, .tenant = TENANT_DEFAULT, .role = TOKEN_ADMIN};
		return 0;
	}
	bool is_one = split(text, id, secret);
	int r = db_each(db, take_lookup, &l, err,
		"SELECT k.id, k.tenant, k.role, k.label, k.created, k.expires, k.revoked, "
		"k.last_used, "
		"k.hash, COALESCE(t.disabled, 1) FROM tokens k LEFT JOIN tenants t ON t.name = "
		"k.tenant "
		"WHERE k.id=?",
		"s", id);
	if (r < 0) {
		explicit_bzero(secret, sizeof secret);
		return r;
	}
	hash_sha256(secret, TOKEN_SECRET_LEN, hash);
	explicit_bzero(secret, sizeof secret);
	bool is_same = hash_is_equal(hash, l.hash, sizeof hash);
	bool is_good = is_one && l.is_there && is_same && !l.token.revoked_ns &&
		       !l.is_tenant_disabled &&
		       (!l.token.expires_ns || now_ns < l.token.expires_ns);
	if (!is_good)
		return cell_error_hint(err,
			cell_fail(err, CELL_EDENIED, 0, "the token is not valid here"),
			"`cell token create` makes one; it may have expired or been revoked");
	remember_use(db, &l.token, now_ns);
	*ret = l.token;
	return 0;
}
