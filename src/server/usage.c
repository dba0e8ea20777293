/* SPDX-License-Identifier: Apache-2.0 */
/* usage.c: counting and writing down; see usage.h. Reading is usage_read.c's. */
#include "server/usage.h"

#include <pthread.h>
#include <string.h>

#include "server/clock.h"
#include "server/table.h"

#define NAME_BYTES 64
#define HOUR_S	   3600

static const char *const migrations[] = {
	"CREATE TABLE usage (hour INTEGER NOT NULL, tenant TEXT NOT NULL, session TEXT NOT NULL,"
	" backend TEXT NOT NULL, operation TEXT NOT NULL, count INTEGER NOT NULL, errors INTEGER "
	"NOT NULL,"
	" sessions INTEGER NOT NULL, wall_us INTEGER NOT NULL, cpu_us INTEGER NOT NULL,"
	" mib_ms INTEGER NOT NULL, bytes_in INTEGER NOT NULL, bytes_out INTEGER NOT NULL,"
	" latency BLOB NOT NULL,"
	" PRIMARY KEY (hour, tenant, session, backend, operation)) WITHOUT ROWID;"
	"CREATE TABLE usage_counted (one INTEGER PRIMARY KEY CHECK (one = 1), audit_seq INTEGER "
	"NOT NULL);"
	"INSERT INTO usage_counted VALUES (1, 0);",
	NULL,
};
static const struct db_module module = {.name = "usage", .migrations = migrations};

struct name {
	int64_t hour;
	char tenant[NAME_BYTES], session[NAME_BYTES], backend[NAME_BYTES], operation[NAME_BYTES];
};

struct pending {
	UT_hash_handle hh;
	struct name name;
	struct usage_total total;
	struct histogram latency;
};

struct usage {
	struct db *db;
	pthread_mutex_t lock;
	struct pending *pending;
	uint64_t audit_seq; /* everything up to here is counted */
	bool is_changed;
};

int usage_new(struct db *db, struct usage **ret, struct cell_error *err)
{
	int64_t seq = 0;

	int r = db_migrate(db, &module, err);
	if (r == 0)
		r = db_number(db, &seq, err, "SELECT audit_seq FROM usage_counted", "");
	if (r < 0)
		return r;
	struct usage *u = calloc(1, sizeof *u);
	if (!u)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "counting usage");
	u->db = db;
	u->audit_seq = (uint64_t)seq;
	(void)pthread_mutex_init(&u->lock, NULL);
	*ret = u;
	return 0;
}

static void forget_pending(struct usage *u)
{
	struct pending *p, *next;

	for (p = u->pending; p; p = next) {
		next = p->hh.next;
		HASH_DEL(u->pending, p);
		free(p);
	}
}

void usage_free(struct usage *u)
{
	if (!u)
		return;
	forget_pending(u);
	(void)pthread_mutex_destroy(&u->lock);
	free(u);
}

static void set_name(char out[NAME_BYTES], const char *text)
{
	/* All of it is compared: what is behind the end must be zero. */
	size_t n = text ? strnlen(text, NAME_BYTES - 1) : 0;

	memset(out, 0, NAME_BYTES);
	if (n)
		memcpy(out, text, n);
}

static struct pending *find(struct usage *u, const struct name *name)
{
	struct pending *p = NULL;

	HASH_FIND(hh, u->pending, name, sizeof *name, p);
	if (p)
		return p;
	p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->name = *name;
	HASH_ADD(hh, u->pending, name, sizeof p->name, p);
	if (table_has(p))
		return p;
	free(p);
	return NULL;
}

static void sum(struct pending *p, const struct usage_sample *s)
{
	struct usage_total *t = &p->total;

	t->count++;
	t->errors += s->is_error;
	t->sessions += !s->is_error && !strcmp(p->name.operation, "session.create");
	t->wall_us += s->wall_us;
	t->cpu_us += s->cpu_us;
	t->mib_ms += s->mib_ms;
	t->bytes_in += s->bytes_in;
	t->bytes_out += s->bytes_out;
	histogram_add(&p->latency, s->wall_us);
}

struct old {
	struct histogram h;
	bool is_bad;
};

static int take_old(const struct db_row *row, void *user)
{
	struct old *o = user;
	size_t n;
	const void *p = db_blob(row, 0, &n);

	o->is_bad = histogram_unpack(&o->h, p, n) < 0;
	return 0;
}

/* Add one row; the histogram is read, added to and written back. */
static int write_row(struct usage *u, struct pending *p, struct cell_error *err)
{
	const struct name *n = &p->name;
	const struct usage_total *t = &p->total;
	struct old old = {0};
	auto_buf struct buf packed = BUF_INIT(8192);

	int r = db_each(u->db, take_old, &old, err,
		"SELECT latency FROM usage WHERE hour=? AND tenant=? AND session=? AND backend=? "
		"AND "
		"operation=?",
		"issss", n->hour, n->tenant, n->session, n->backend, n->operation);
	if (r < 0)
		return r;
	if (old.is_bad) /* the counters are right all the same */
		memset(&old.h, 0, sizeof old.h);
	histogram_merge(&old.h, &p->latency);
	r = histogram_pack(&old.h, &packed);
	if (r < 0)
		return cell_fail(err, CELL_ENOSPACE, -r, "writing down usage");
	r = db_run(u->db, err,
		"INSERT INTO usage VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO UPDATE SET "
		"count=count+excluded.count, errors=errors+excluded.errors, "
		"sessions=sessions+excluded.sessions, wall_us=wall_us+excluded.wall_us, "
		"cpu_us=cpu_us+excluded.cpu_us, mib_ms=mib_ms+excluded.mib_ms, "
		"bytes_in=bytes_in+excluded.bytes_in, bytes_out=bytes_out+excluded.bytes_out, "
		"latency=excluded.latency",
		"issssiiiiiiiib", n->hour, n->tenant, n->session, n->backend, n->operation,
		(int64_t)t->count, (int64_t)t->errors, (int64_t)t->sessions, (int64_t)t->wall_us,
		(int64_t)t->cpu_us, (int64_t)t->mib_ms, (int64_t)t->bytes_in, (int64_t)t->bytes_out,
		packed.data, packed.len);
	return r < 0 ? r : 0;
}

static int write_all(struct usage *u, struct cell_error *err)
{
	struct pending *p, *next;
	int r = 0;

	for (p = u->pending; p; p = next) {
		next = p->hh.next;
		r = write_row(u, p, err);
		if (r < 0)
			return r;
	}
	r = db_run(u->db, err, "UPDATE usage_counted SET audit_seq=?", "i", (int64_t)u->audit_seq);
	return r < 0 ? r : 0;
}

/* Counters and "counted up to" change together, or neither does. */
static int flush(struct usage *u, struct cell_error *err)
{
	if (!u->is_changed)
		return 0;
	int r = db_begin(u->db, err);
	if (r == 0)
		r = db_end(u->db, write_all(u, err), err);
	if (r < 0)
		return r;
	forget_pending(u);
	u->is_changed = false;
	return 0;
}

int usage_flush(struct usage *u, struct cell_error *err)
{
	(void)pthread_mutex_lock(&u->lock);
	int r = flush(u, err);
	(void)pthread_mutex_unlock(&u->lock);
	return r;
}

static int add(struct usage *u, const struct usage_key *key, const struct usage_sample *sample,
	int64_t unix_ns, uint64_t audit_seq, struct cell_error *err)
{
	struct name name = {.hour = unix_ns / NS_PER_S / HOUR_S};

	set_name(name.tenant, key->tenant);
	set_name(name.session, key->session);
	set_name(name.backend, key->backend);
	set_name(name.operation, key->operation);
	struct pending *p = find(u, &name);
	if (!p)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "counting usage");
	sum(p, sample);
	u->is_changed = true;
	if (audit_seq > u->audit_seq)
		u->audit_seq = audit_seq;
	return 0;
}

int usage_add(struct usage *u, const struct usage_key *key, const struct usage_sample *sample,
	int64_t unix_ns, uint64_t audit_seq, struct cell_error *err)
{
	bool is_end = key->operation && !strcmp(key->operation, "session.delete");

	(void)pthread_mutex_lock(&u->lock);
	int r = add(u, key, sample, unix_ns, audit_seq, err);
	/* A flush that fails is tried again by the next: what was counted stays in memory. */
	if (r == 0 && (is_end || HASH_COUNT(u->pending) >= USAGE_PENDING_MAX))
		(void)flush(u, NULL);
	(void)pthread_mutex_unlock(&u->lock);
	return r;
}

struct recovery {
	struct usage *usage;
	struct cell_error *err;
	int count;
};

static int recover(json_t *record, const char *line, size_t len, void *user)
{
	struct recovery *c = user;
	struct usage_key key = {0};
	struct usage_sample s = {0};
	const char *when = "", *action = "";
	json_int_t seq = 0, wall = 0, cpu = 0, memory = 0, in = 0, out = 0;
	int is_error = 0;
	int64_t ns = 0;

	(void)line;
	(void)len;
	if (json_unpack(record,
		    "{s:I, s:s, s:s, s?s, s?s, s?s, s:{s:b, s:I, s:I, s:I, s:I, s:I, s?s}}", "seq",
		    &seq, "time", &when, "action", &action, "tenant", &key.tenant, "session",
		    &key.session, "backend", &key.backend, "usage", "error", &is_error, "wall_us",
		    &wall, "cpu_us", &cpu, "mib_ms", &memory, "bytes_in", &in, "bytes_out", &out,
		    "operation", &key.operation) < 0 ||
		clock_parse(when, &ns) < 0)
		return 0;
	if (!key.operation)
		key.operation = action;
	s = (struct usage_sample){.is_error = is_error,
		.wall_us = (uint64_t)wall,
		.cpu_us = (uint64_t)cpu,
		.mib_ms = (uint64_t)memory,
		.bytes_in = (uint64_t)in,
		.bytes_out = (uint64_t)out};
	int r = usage_add(c->usage, &key, &s, ns, (uint64_t)seq, c->err);
	c->count += r == 0;
	return r;
}

int usage_recover(struct usage *u, const char *audit_dir, struct cell_error *err)
{
	struct audit_filter f = {.after_seq = u->audit_seq, .kind = "result"};
	struct recovery c = {.usage = u, .err = err};

	int r = audit_query(audit_dir, &f, recover, &c, err);
	if (r == 0)
		r = usage_flush(u, err);
	return r < 0 ? r : c.count;
}
