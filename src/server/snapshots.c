/* SPDX-License-Identifier: Apache-2.0 */
/* snapshots.c: see snapshots.h. */
#include "server/snapshots.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "core/snapshot.h"
#include "server/server.h"
#include "server/tenant.h"

/* Between looking and holding what was seen nobody else does the same. */
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

struct count {
	const char *tenant;
	size_t tenant_len;
	uint64_t amounts[QUOTA_HELD];
};

static int add(const struct cell_snapshot_info *info, void *user)
{
	struct count *c = user;

	if (!strncmp(info->name, c->tenant, c->tenant_len) && info->name[c->tenant_len] == '/') {
		c->amounts[QUOTA_SNAPSHOTS]++;
		c->amounts[QUOTA_STORAGE_BYTES] += info->size_bytes;
	}
	return 0;
}

/* What the tenant has is what it holds. 0 also when that is more than it may: then it holds what it did. */
static int count(struct quota *q, const char *tenant, struct quota_verdict *ret,
	struct cell_error *err)
{
	struct count c = {.tenant = tenant, .tenant_len = strlen(tenant)};
	char id[sizeof SNAPSHOTS_HOLD + TENANT_NAME_MAX];
	int r = cell_snapshot_list(add, &c, err);

	*ret = (struct quota_verdict){.is_allowed = true};
	(void)snprintf(id, sizeof id, SNAPSHOTS_HOLD, tenant);
	if (r < 0)
		return r;
	return c.amounts[QUOTA_SNAPSHOTS] ? quota_hold(q, id, tenant, c.amounts, ret, err)
					  : quota_release(q, id, err);
}

/* One more: held as `id`; *ret_room is what it may take on disk. */
static int begin(struct quota *q, const char *tenant, char id[40], uint64_t *ret_room,
	struct cell_error *err)
{
	static atomic_ulong number;
	const uint64_t one[QUOTA_HELD] = {[QUOTA_SNAPSHOTS] = 1};
	struct quota_limits limits;
	uint64_t used[QUOTA_COUNT];
	struct quota_verdict v;

	(void)snprintf(id, 40, SAVING_HOLD "%lu", atomic_fetch_add(&number, 1));
	(void)pthread_mutex_lock(&counting);
	int r = count(q, tenant, &v, err);
	if (r == 0)
		r = quota_hold(q, id, tenant, one, &v, err);
	(void)pthread_mutex_unlock(&counting);
	if (r == 0 && !v.is_allowed)
		r = quota_fail(&v, tenant, err);
	quota_used(q, tenant, &limits, used);
	uint64_t limit = limits.of[QUOTA_STORAGE_BYTES], taken = used[QUOTA_STORAGE_BYTES];
	*ret_room = limit == UINT64_MAX ? UINT64_MAX : limit > taken ? limit - taken : 0;
	return r;
}

/* It is there, or will not be. */
static int settle(struct quota *q, const char *tenant, const char *id, struct cell_error *err)
{
	struct quota_verdict v;

	(void)pthread_mutex_lock(&counting);
	(void)quota_release(q, id, NULL);
	int r = count(q, tenant, &v, err);
	(void)pthread_mutex_unlock(&counting);
	return r == 0 && !v.is_allowed ? quota_fail(&v, tenant, err) : r;
}

int snapshots_save(struct quota *q, const char *tenant, const char *cell, const char *name,
	struct cell_error *err)
{
	char id[40];
	uint64_t room;
	int r = begin(q, tenant, id, &room, err);

	if (r < 0)
		return r;
	r = cell_snapshot_within(cell, name, room, err);
	if (r < 0) {
		(void)settle(q, tenant, id, NULL);
		return r;
	}
	r = settle(q, tenant, id, err);
	if (r < 0) /* others took the storage meanwhile */
		(void)cell_snapshot_remove(name, NULL);
	return r;
}

int snapshots_remove(struct quota *q, const char *tenant, const char *name, struct cell_error *err)
{
	struct quota_verdict v;
	int r = cell_snapshot_remove(name, err);

	(void)pthread_mutex_lock(&counting);
	(void)count(q, tenant, &v, NULL);
	(void)pthread_mutex_unlock(&counting);
	return r;
}

/* ---- after a crash, and now and then ---- */

struct holders {
	char (*tenants)[TENANT_NAME_MAX];
	size_t n;
};

static int on_hold(const char *id, const char *tenant, void *user)
{
	struct holders *h = user;

	if (strncmp(id, SNAPSHOTS_HOLD, strlen(SNAPSHOTS_HOLD) - 2) != 0)
		return 0;
	void *more = realloc(h->tenants, (h->n + 1) * sizeof *h->tenants);
	if (!more)
		return 1; /* the next time finds the rest */
	h->tenants = more;
	(void)snprintf(h->tenants[h->n++], TENANT_NAME_MAX, "%s", tenant);
	return 0;
}

void snapshots_tidy(struct quota *q, bool is_thorough)
{
	struct holders h = {0};
	struct quota_verdict v;

	snapshot_tidy(is_thorough);
	(void)quota_each(q, on_hold, &h, NULL);
	for (size_t i = 0; i < h.n; i++) {
		(void)pthread_mutex_lock(&counting);
		(void)count(q, h.tenants[i], &v, NULL);
		(void)pthread_mutex_unlock(&counting);
	}
	free(h.tenants);
}
