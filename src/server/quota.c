/* SPDX-License-Identifier: Apache-2.0 */
/* quota.c: see quota.h. */
#include "server/quota.h"

#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "server/clock.h"
#include "server/settings.h"
#include "server/table.h"
#include "server/tenant.h"

#define NONE   UINT64_MAX
#define MINUTE (60 * NS_PER_S)

const char *const quota_names[QUOTA_COUNT] = {
	[QUOTA_CELLS] = "cells",
	[QUOTA_CPU_MILLIS] = "cpus",
	[QUOTA_MEMORY_BYTES] = "memory",
	[QUOTA_STORAGE_BYTES] = "storage",
	[QUOTA_SNAPSHOTS] = "snapshots",
	[QUOTA_STREAMS] = "streams",
	[QUOTA_EXECS_PER_MINUTE] = "execs_per_minute",
};

static const char *const migrations[] = {
	"CREATE TABLE quota_holds (id TEXT PRIMARY KEY, tenant TEXT NOT NULL, cells INTEGER NOT "
	"NULL,"
	" cpu_millis INTEGER NOT NULL, memory INTEGER NOT NULL, storage INTEGER NOT NULL) WITHOUT "
	"ROWID;",
	"ALTER TABLE quota_holds ADD COLUMN snapshots INTEGER NOT NULL DEFAULT 0;",
	NULL,
};
const struct db_module quota_module = {.name = "quota", .migrations = migrations};

struct party {
	UT_hash_handle hh;
	char name[TENANT_NAME_MAX];
	bool has_limits;
	struct quota_limits limits;
	uint64_t used[QUOTA_COUNT];
	/* Execs: when the bucket would be full again. Empty is a minute away from that. */
	int64_t full_at_ns;
};

struct hold {
	UT_hash_handle hh;
	char id[80];
	char tenant[TENANT_NAME_MAX];
	uint64_t amounts[QUOTA_HELD];
};

struct quota {
	struct db *db;
	pthread_mutex_t lock;
	struct quota_limits limits; /* of whoever has none of its own */
	struct party *parties;
	struct hold *holds;
};

static void read_limits(const struct node *map, struct quota_limits *ret)
{
	for (int i = 0; map && i < QUOTA_COUNT; i++) {
		const struct node *n = node_get(map, quota_names[i]);
		if (n && n->kind != NODE_NULL)
			ret->of[i] = n->number;
	}
}

static struct party *party_of(struct quota *q, const char *name)
{
	struct party *p = NULL;

	HASH_FIND_STR(q->parties, name, p);
	if (p)
		return p;
	p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	(void)snprintf(p->name, sizeof p->name, "%s", name);
	HASH_ADD_STR(q->parties, name, p);
	if (table_has(p))
		return p;
	free(p);
	return NULL;
}

static const struct quota_limits *limits_of(const struct quota *q, const struct party *p)
{
	return p->has_limits ? &p->limits : &q->limits;
}

static int load_limits(struct quota *q, struct cell_config *cfg)
{
	static const char *const keys[QUOTA_COUNT] = {"server.quotas.cells", "server.quotas.cpus",
		"server.quotas.memory", "server.quotas.storage", "server.quotas.snapshots",
		"server.quotas.streams", "server.quotas.execs_per_minute"};
	const struct node *tenants = setting(cfg, "server.tenants");
	struct party *p;

	for (int i = 0; i < QUOTA_COUNT; i++)
		q->limits.of[i] = setting_number(cfg, keys[i], NONE);
	for (p = q->parties; p; p = p->hh.next)
		p->has_limits = false;
	for (size_t i = 0; tenants && i < tenants->n_items; i++) {
		p = party_of(q, tenants->items[i]->key);
		if (!p)
			return -ENOMEM;
		p->has_limits = true;
		p->limits = q->limits;
		read_limits(tenants->items[i], &p->limits);
	}
	return 0;
}

int quota_reload(struct quota *q, struct cell_config *cfg, struct cell_error *err)
{
	(void)pthread_mutex_lock(&q->lock);
	int r = load_limits(q, cfg);
	(void)pthread_mutex_unlock(&q->lock);
	return r < 0 ? cell_fail(err, CELL_ENOSPACE, -r, "reading the quotas") : 0;
}

void quota_free(struct quota *q)
{
	struct party *p, *next_p;
	struct hold *h, *next_h;

	if (!q)
		return;
	for (p = q->parties; p; p = next_p) {
		next_p = p->hh.next;
		HASH_DEL(q->parties, p);
		free(p);
	}
	for (h = q->holds; h; h = next_h) {
		next_h = h->hh.next;
		HASH_DEL(q->holds, h);
		free(h);
	}
	(void)pthread_mutex_destroy(&q->lock);
	free(q);
}

static int load_hold(const struct db_row *row, void *user)
{
	struct quota *q = user;
	const char *id = db_text(row, 0), *tenant = db_text(row, 1);
	struct hold *h = calloc(1, sizeof *h);
	struct party *p = tenant ? party_of(q, tenant) : NULL;

	if (!h || !p || !id) {
		free(h);
		return -ENOMEM;
	}
	(void)snprintf(h->id, sizeof h->id, "%s", id);
	(void)snprintf(h->tenant, sizeof h->tenant, "%s", tenant);
	for (int i = 0; i < QUOTA_HELD; i++) {
		h->amounts[i] = (uint64_t)db_int(row, 2 + i);
		p->used[i] += h->amounts[i];
	}
	HASH_ADD_STR(q->holds, id, h);
	if (table_has(h))
		return 0;
	free(h);
	return -ENOMEM;
}

static void freep(struct quota **q)
{
	quota_free(*q);
}

int quota_new(struct cell_config *cfg, struct db *db, struct quota **ret, struct cell_error *err)
{
	auto_(freep) struct quota *q = calloc(1, sizeof *q);

	if (!q)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "reading the quotas");
	(void)pthread_mutex_init(&q->lock, NULL);
	q->db = db;
	int r = db_migrate(db, &quota_module, err);
	if (r == 0)
		r = quota_reload(q, cfg, err);
	if (r < 0)
		return r;
	r = db_each(db, load_hold, q, err,
		"SELECT id, tenant, cells, cpu_millis, memory, storage, snapshots FROM quota_holds",
		"");
	if (r == -ENOMEM)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "counting what is held");
	if (r == 0)
		*ret = steal_ptr(q);
	return r;
}

/* Would it fit? `before` is what the asker holds already. */
static struct quota_verdict judge(const struct quota *q, const struct party *p,
	const uint64_t amounts[QUOTA_HELD], const uint64_t before[QUOTA_HELD])
{
	const struct quota_limits *limits = limits_of(q, p);

	for (int i = 0; i < QUOTA_HELD; i++) {
		uint64_t others = p->used[i] - before[i];
		/* Less than before is always welcome, even when limits have come down. */
		if (limits->of[i] == NONE || amounts[i] <= before[i])
			continue;
		if (others > limits->of[i] || amounts[i] > limits->of[i] - others)
			return (struct quota_verdict){.kind = (enum quota_kind)i,
				.limit = limits->of[i],
				.used = others,
				.asked = amounts[i]};
	}
	return (struct quota_verdict){.is_allowed = true};
}

static int save_hold(struct quota *q, const char *id, const char *tenant,
	const uint64_t amounts[QUOTA_HELD], struct cell_error *err)
{
	return db_run(q->db, err,
		"INSERT OR REPLACE INTO quota_holds (id, tenant, cells, cpu_millis, memory, "
		"storage, "
		"snapshots) VALUES (?,?,?,?,?,?,?)",
		"ssiiiii", id, tenant, (int64_t)amounts[QUOTA_CELLS],
		(int64_t)amounts[QUOTA_CPU_MILLIS], (int64_t)amounts[QUOTA_MEMORY_BYTES],
		(int64_t)amounts[QUOTA_STORAGE_BYTES], (int64_t)amounts[QUOTA_SNAPSHOTS]);
}

static int hold(struct quota *q, const char *id, const char *tenant,
	const uint64_t amounts[QUOTA_HELD], struct quota_verdict *ret, struct cell_error *err)
{
	static const uint64_t nothing[QUOTA_HELD];
	struct party *p = party_of(q, tenant);
	struct hold *h = NULL;
	bool is_new;

	HASH_FIND_STR(q->holds, id, h);
	is_new = !h;
	if (is_new)
		h = calloc(1, sizeof *h);
	if (!p || !h) {
		free(is_new ? h : NULL);
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "counting what '%.60s' holds", id);
	}
	if (!is_new && strcmp(h->tenant, tenant) != 0)
		return cell_fail(err, CELL_EEXISTS, 0, "'%.60s' is held by another tenant", id);
	*ret = judge(q, p, amounts, is_new ? nothing : h->amounts);
	if (is_new && ret->is_allowed) {
		(void)snprintf(h->id, sizeof h->id, "%s", id);
		(void)snprintf(h->tenant, sizeof h->tenant, "%s", tenant);
		HASH_ADD_STR(q->holds, id, h);
		if (!table_has(h)) {
			free(h);
			return cell_fail(err, CELL_ENOSPACE, ENOMEM, "counting what '%.60s' holds",
				id);
		}
	}
	int r = ret->is_allowed ? save_hold(q, id, tenant, amounts, err) : 0;
	if (r < 0 || !ret->is_allowed) {
		if (is_new && ret->is_allowed)
			HASH_DEL(q->holds, h);
		free(is_new ? h : NULL);
		return r < 0 ? r : 0;
	}
	for (int i = 0; i < QUOTA_HELD; i++) {
		p->used[i] += amounts[i] - h->amounts[i];
		h->amounts[i] = amounts[i];
	}
	return 0;
}

int quota_hold(struct quota *q, const char *id, const char *tenant,
	const uint64_t amounts[QUOTA_HELD], struct quota_verdict *ret, struct cell_error *err)
{
	if (strlen(id) >= sizeof((struct hold *)0)->id)
		return cell_fail(err, CELL_EINVAL, 0, "'%.60s' is too long an id", id);
	for (int i = 0; i < QUOTA_HELD; i++)
		if (amounts[i] > INT64_MAX / 4)
			return cell_fail(err, CELL_EINVAL, 0,
				"%s: %" PRIu64 " is too much for anybody", quota_names[i],
				amounts[i]);
	(void)pthread_mutex_lock(&q->lock);
	int r = hold(q, id, tenant, amounts, ret, err);
	(void)pthread_mutex_unlock(&q->lock);
	return r;
}

int quota_release(struct quota *q, const char *id, struct cell_error *err)
{
	struct hold *h = NULL;
	int r = 0;

	(void)pthread_mutex_lock(&q->lock);
	HASH_FIND_STR(q->holds, id, h);
	if (h) {
		struct party *p = NULL;
		r = db_run(q->db, err, "DELETE FROM quota_holds WHERE id=?", "s", id);
		HASH_FIND_STR(q->parties, h->tenant, p);
		for (int i = 0; r >= 0 && p && i < QUOTA_HELD; i++)
			p->used[i] -= h->amounts[i];
		if (r >= 0) {
			HASH_DEL(q->holds, h);
			free(h);
		}
	}
	(void)pthread_mutex_unlock(&q->lock);
	return r < 0 ? r : 0;
}

struct each {
	quota_hold_fn fn;
	void *user;
};

static int call_each(const struct db_row *row, void *user)
{
	struct each *e = user;
	const char *id = db_text(row, 0), *tenant = db_text(row, 1);

	return id && tenant ? e->fn(id, tenant, e->user) : -ENOMEM;
}

int quota_each(struct quota *q, quota_hold_fn fn, void *user, struct cell_error *err)
{
	struct each e = {fn, user};

	return db_each(q->db, call_each, &e, err, "SELECT id, tenant FROM quota_holds ORDER BY id",
		"");
}

struct quota_verdict quota_exec(struct quota *q, const char *tenant, int64_t monotonic_ns)
{
	struct quota_verdict v = {.is_allowed = true, .kind = QUOTA_EXECS_PER_MINUTE, .asked = 1};

	(void)pthread_mutex_lock(&q->lock);
	struct party *p = party_of(q, tenant);
	v.limit = p ? limits_of(q, p)->of[QUOTA_EXECS_PER_MINUTE] : 0;
	if (!v.limit) {
		v.is_allowed = false; /* no memory: then not */
		v.retry_after_ms = 60000;
	} else if (v.limit != NONE) {
		int64_t each = MINUTE / (int64_t)(v.limit > MINUTE ? MINUTE : v.limit);
		int64_t full_at = p->full_at_ns > monotonic_ns ? p->full_at_ns : monotonic_ns;
		int64_t missing = full_at + each - monotonic_ns - MINUTE;
		v.used = (uint64_t)((full_at - monotonic_ns) / each);
		if (missing > 0) {
			v.is_allowed = false;
			v.retry_after_ms = (uint64_t)((missing + NS_PER_MS - 1) / NS_PER_MS);
		} else {
			p->full_at_ns = full_at + each;
		}
	}
	(void)pthread_mutex_unlock(&q->lock);
	return v;
}

struct quota_verdict quota_stream_open(struct quota *q, const char *tenant)
{
	struct quota_verdict v = {.kind = QUOTA_STREAMS, .asked = 1};

	(void)pthread_mutex_lock(&q->lock);
	struct party *p = party_of(q, tenant);
	if (p) {
		v.limit = limits_of(q, p)->of[QUOTA_STREAMS];
		v.used = p->used[QUOTA_STREAMS];
		v.is_allowed = v.used < v.limit;
		p->used[QUOTA_STREAMS] += v.is_allowed;
	}
	(void)pthread_mutex_unlock(&q->lock);
	return v;
}

void quota_stream_close(struct quota *q, const char *tenant)
{
	struct party *p = NULL;

	(void)pthread_mutex_lock(&q->lock);
	HASH_FIND_STR(q->parties, tenant, p);
	if (p && p->used[QUOTA_STREAMS])
		p->used[QUOTA_STREAMS]--;
	(void)pthread_mutex_unlock(&q->lock);
}

void quota_used(struct quota *q, const char *tenant, struct quota_limits *ret_limits,
	uint64_t ret_used[QUOTA_COUNT])
{
	struct party *p = NULL;

	memset(ret_used, 0, QUOTA_COUNT * sizeof *ret_used);
	(void)pthread_mutex_lock(&q->lock);
	HASH_FIND_STR(q->parties, tenant, p);
	*ret_limits = p ? *limits_of(q, p) : q->limits;
	if (p)
		memcpy(ret_used, p->used, sizeof p->used);
	(void)pthread_mutex_unlock(&q->lock);
}

int quota_fail(const struct quota_verdict *v, const char *tenant, struct cell_error *err)
{
	int r = cell_fail(err, CELL_ELIMIT, 0,
		"the tenant '%.60s' may have %" PRIu64 " of '%s' and uses %" PRIu64
		"; this asks for %" PRIu64,
		tenant, v->limit, quota_names[v->kind], v->used, v->asked);

	if (v->retry_after_ms)
		return cell_error_hint(err, r, "try again in %" PRIu64 " ms", v->retry_after_ms);
	return cell_error_hint(err, r, "%s first, or raise server.tenants.%.40s.%s",
		v->kind == QUOTA_SNAPSHOTS ? "remove a snapshot" : "end something", tenant,
		quota_names[v->kind]);
}
