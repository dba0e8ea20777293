/* SPDX-License-Identifier: Apache-2.0 */
/* idempotency.c: see idempotency.h. */
#include "server/idempotency.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "server/clock.h"
#include "server/hash.h"

#define KEEP_NS	    (24 * 3600 * NS_PER_S)
#define KEPT_ANSWER (1u << 20)

static const char *const migrations[] = {"CREATE TABLE idempotency (tenant TEXT NOT NULL, key TEXT "
					 "NOT NULL, fingerprint TEXT NOT NULL, boot TEXT NOT NULL,"
					 " status INTEGER, body BLOB, made_ns INTEGER NOT NULL, "
					 "PRIMARY KEY (tenant, key)) WITHOUT ROWID;"
					 "CREATE INDEX idempotency_age ON idempotency (made_ns);",
	NULL};
const struct db_module idempotency_module = {"idempotency", migrations};

void idempotency_id(const struct call *c, char letter, const char *scope, char ret[32])
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
	uint8_t hash[HASH_BYTES];

	if (c->is_keyed) {
		auto_buf struct buf b = BUF_INIT(1024);
		(void)buf_add(&b, c->who.tenant, strlen(c->who.tenant) + 1);
		(void)buf_add(&b, scope, strlen(scope) + 1);
		(void)buf_add(&b, c->key, strlen(c->key));
		hash_sha256(b.data, b.len, hash);
	} else if (hash_random(hash, sizeof hash) < 0) {
		memset(hash, 0, sizeof hash);
	}
	ret[0] = letter;
	for (int i = 0; i < 24; i++)
		ret[1 + i] = digits[hash[i] & 31u];
	ret[25] = '\0';
}

static void fingerprint(struct call *c)
{
	uint8_t hash[HASH_BYTES];
	auto_free char *body = c->body ? json_dumps(c->body, JSON_SORT_KEYS | JSON_COMPACT) : NULL;
	auto_buf struct buf b = BUF_INIT(SIZE_MAX / 2);

	(void)buf_addf(&b, "%s\n%s\n%s\n%lld\n", http_method(c->x), http_raw_path(c->x),
		http_raw_query(c->x), body ? 0LL : (long long)http_content_length(c->x));
	(void)buf_addz(&b, body ? body : "");
	hash_sha256(b.data, b.len, hash);
	hash_hex(hash, sizeof hash, c->fingerprint);
}

struct found {
	bool is_there, is_same, is_ours;
	int status;
	void *body;
	size_t len;
	struct call *c;
};

static int on_row(const struct db_row *row, void *user)
{
	struct found *f = user;
	const void *body;

	f->is_there = true;
	f->is_same = !strcmp(db_text(row, 0), f->c->fingerprint);
	f->is_ours = !strcmp(db_text(row, 1), f->c->srv->boot_id);
	f->status = db_is_null(row, 2) ? 0 : (int)db_int(row, 2);
	body = db_blob(row, 3, &f->len);
	if (f->len && (f->body = malloc(f->len)))
		memcpy(f->body, body, f->len);
	return 0;
}

static enum idempotency_verdict refuse(struct call *c, enum cell_code code, const char *why,
	const char *hint)
{
	c->is_keyed = false;
	call_failf(c, code, hint, "Idempotency-Key '%.64s': %s", c->key, why);
	return IDEMPOTENCY_ANSWERED;
}

enum idempotency_verdict idempotency_begin(struct call *c)
{
	const char *key = http_header(c->x, "Idempotency-Key");
	struct cell_error err = {0};
	struct found f = {.c = c};

	if (!key || c->is_keyed)
		return IDEMPOTENCY_GO;
	if (!*key || strlen(key) >= sizeof c->key)
		return refuse(c, CELL_EINVAL, "its length must be 1 to 255", "use a UUID");
	(void)snprintf(c->key, sizeof c->key, "%s", key);
	c->is_keyed = true;
	fingerprint(c);
	if (!c->route->is_replayable)
		return IDEMPOTENCY_GO;
	int r = db_each(c->srv->db, on_row, &f, &err,
		"SELECT fingerprint, boot, status, body FROM idempotency WHERE tenant = ? AND key "
		"= ?",
		"ss", c->who.tenant, c->key);
	auto_free void *body = f.body;
	if (r == 0 && f.is_there && !f.is_same)
		return refuse(c, CELL_EEXISTS, "it was used for another request",
			"a key names one request; take a new one");
	if (r == 0 && f.is_there && f.status) {
		struct http_exchange *x = c->x;
		c->is_keyed = false;
		call_done(c, f.status, NULL);
		(void)http_add_header(x, "Idempotency-Replayed", "true");
		http_respond(x, f.status, body ? "application/json" : NULL, body, body ? f.len : 0);
		return IDEMPOTENCY_ANSWERED;
	}
	if (r == 0 && f.is_there && f.is_ours)
		return refuse(c, CELL_EBUSY, "the first request with it is still under way",
			"ask again in a second");
	/* new, or left by a server that died in the middle: none of these does harm when done again */
	if (r == 0)
		r = db_run(c->srv->db, &err,
			"INSERT OR REPLACE INTO idempotency (tenant, key, fingerprint, boot, "
			"made_ns) VALUES (?, ?, ?, ?, ?)",
			"ssssi", c->who.tenant, c->key, c->fingerprint, c->srv->boot_id,
			clock_unix_ns());
	if (r < 0) {
		c->is_keyed = false;
		call_fail(c, &err);
		return IDEMPOTENCY_ANSWERED;
	}
	return IDEMPOTENCY_GO;
}

void idempotency_end(struct call *c, int status, const char *body, size_t len)
{
	if (!c->is_keyed || !c->route->is_replayable)
		return;
	c->is_keyed = false;
	/* what may go better another time is not remembered */
	if (status >= 500 || status == 429 || status == 409 || len > KEPT_ANSWER)
		(void)db_run(c->srv->db, NULL,
			"DELETE FROM idempotency WHERE tenant = ? AND key = ?", "ss", c->who.tenant,
			c->key);
	else
		(void)db_run(c->srv->db, NULL,
			"UPDATE idempotency SET status = ?, body = ? WHERE tenant = ? AND key = ?",
			"ibss", (int64_t)status, body, len, c->who.tenant, c->key);
}

void idempotency_sweep(struct server *srv)
{
	(void)db_run(srv->db, NULL, "DELETE FROM idempotency WHERE made_ns < ?", "i",
		clock_unix_ns() - KEEP_NS);
}
