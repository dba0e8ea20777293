/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session.h: a client's use of a cell over time. The table of sessions is in memory and in the database; the cell itself is a named one
 * of libcell, called as the session. Starting up is recovering: session_recover() takes over what lives, ends what is dead, finishes what was
 * half done, and the sweep does the same again while the server runs.
 *
 *	creating -> ready -> ending -> (gone)
 *	        \-> failed          \-> lost: its cell died
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "server/db.h"
#include "server/quota.h"
#include "server/session_times.h"
#include "server/table.h"
#include "server/tenant.h"

struct call;
struct exec;
struct filework;
struct schedule;
struct seat;
struct server;
struct session;

extern const struct db_module session_module;

enum session_state {
	SESSION_CREATING,
	SESSION_READY,
	SESSION_FAILED, /* it could not be made; error says why */
	SESSION_ENDING,
	SESSION_LOST, /* its cell is gone */
};
#define SESSION_STATES (SESSION_LOST + 1)

const char *session_state_name(enum session_state state);
/* The same of one, or "paused". */
const char *session_shown_state(const struct session *s);

#define SESSION_SPARES 4

/* Somebody waits until it is no longer being made, or until it is gone. */
struct session_waiter {
	void (*fn)(struct session *s, void *arg);
	void *arg;
	struct session_waiter *next;
};

struct session {
	char id[32];
	char cell_name[32]; /* the session's id, or one that several share */
	char tenant[TENANT_NAME_MAX];
	enum session_state state;
	char lifecycle[16];
	char backend[32];
	json_t *spec;	/* as asked for */
	json_t *labels; /* object */
	json_t *degraded;
	struct cell_error error; /* FAILED, LOST */
	char fingerprint[65];
	int64_t created_ns, last_used_ns; /* as told: the wall clock's */
	int64_t expires_ns;		  /* 0: never; as told */
	struct session_times times;	  /* as kept: a clock that is set does not end sessions */
	struct server *srv;
	struct seat *seat;  /* READY; NULL for ephemeral ones */
	struct exec *execs; /* running */
	struct filework *uploads;
	unsigned n_execs;
	struct cell *spares[SESSION_SPARES]; /* connections for the next operations on files */
	unsigned n_spares;
	struct session_waiter *made_waiters, *gone_waiters;
	bool is_working; /* a thread makes or ends its cell */
	void (*queued)(struct session
			*s);	   /* what it does when another's work on the same cell is done */
	struct schedule *schedule; /* of the lifecycle `scheduled` */
	uint64_t spooled_bytes;	   /* of finished commands, about */
	uint64_t spool_held;	   /* of it, by the quota */
	unsigned refs;
	bool is_gone;	  /* not in the table any more */
	bool is_unsaved;  /* the database would not take its last change: the sweep tries again */
	bool is_trusted;  /* an admin asked for it: it may have any directory of the machine */
	bool is_paused;	  /* READY, and its cell stands still */
	bool is_adopting; /* CREATING, but its cell lives: it is being taken over */
	unsigned n_adopting;
	UT_hash_handle hh;
};

struct session_order {
	const char *id, *tenant;
	json_t *spec;
	const char *fingerprint;
	uint64_t idle_timeout_ms, ttl_ms; /* 0: none */
	bool is_trusted;
};
/* In the table and the database as `creating`, and being made on a thread. CELL_EEXISTS with *ret set (a reference) when there is one of
 * that id; CELL_ELIMIT by quota. A reference for the caller. */
int session_create(struct server *srv, const struct session_order *order, struct session **ret,
	struct cell_error *err);
/* By its id, or by its name among those of own_tenant; is_any: another tenant's by its id too. A reference. CELL_ENOTFOUND. */
int session_find(struct server *srv, const char *id, const char *own_tenant, bool is_any,
	struct session **ret, struct cell_error *err);

/* A name is a label that one session of a tenant has at a time. */
#define SESSION_NAME "name"
const char *session_name(const struct session *s); /* NULL: it has none */
struct session *session_named(struct server *srv, const char *name, const char *tenant);
/* CELL_EEXISTS when another one than `self` (may be NULL) has it. */
int session_check_name(struct server *srv, const char *name, const char *tenant,
	const struct session *self, struct cell_error *err);
void session_ref(struct session *s);
void session_unref(struct session *s); /* takes NULL */
void session_touch(struct session *s); /* it was used just now */
/* It ends then, by the wall clock as it is now; 0: never. The server's maximum holds. */
void session_set_expiry(struct session *s, int64_t expires_ns);

/* Fails unless it can be used now. */
int session_require_ready(const struct session *s, struct cell_error *err);
/* fn is called from the loop once it is no longer `creating`; at once when that is so already. */
void session_when_made(struct session *s, void (*fn)(struct session *s, void *arg), void *arg);
/* Begin to end it; fn (may be NULL) when nothing of it is left, or it could not be ended (then it is still there). why is for the record. */
void session_end(struct session *s, const char *why, void (*fn)(struct session *s, void *arg),
	void *arg);
int session_save(struct session *s, struct cell_error *err);
/* A lost one gets another cell: it is `creating` again. Not from inside of its seat. */
void session_remake(struct session *s);

/* A cell of its own for one command of an ephemeral session: done on the loop with a seat, or NULL and why. */
void session_fresh_seat(struct session *s,
	void (*done)(struct session *s, struct seat *seat, const struct cell_error *why, void *arg),
	void *arg);
/* End such a cell. Safe from inside of the seat's own callbacks. */
void session_drop_seat(struct server *srv, struct seat *seat);

/* A connection to its guest besides the seat's; NULL: open one. Giving it back: false when there are enough. */
struct cell *session_take_spare(struct session *s);
bool session_keep_spare(struct session *s, struct cell *cell);

json_t *session_json(const struct session *s);
/* Output kept of its commands, on disk. */
uint64_t session_spool_bytes(const struct session *s);
/* Count it as its tenant's storage: the verdict says whether another command may begin. */
struct quota_verdict session_hold_spool(struct session *s);

/* session_share.c: the lifecycle `workspace`. */
bool session_is_shared(const struct session *s);
int session_check_key(json_t *asked,
	struct cell_error *err); /* workspace_key, of what is asked for */
void session_name_cell(struct session *s);
struct session *session_other_user(const struct session
		*s); /* of the same cell; NULL: it has it to itself */
/* May it join those that use its cell now? */
int session_check_sharing(const struct session *s, struct cell_error *err);
/* Work on its cell may begin now (then end it with session_end_turn()); or go(s) is called when it may. */
bool session_take_turn(struct session *s, void (*go)(struct session *s));
void session_end_turn(struct session *s);

/* session_recover.c */
int session_recover(struct server *srv, struct cell_error *err);
/* Every few seconds: timeouts, orphans, old spools. */
void session_sweep(struct server *srv);
/* Let go of everything; cells go on. */
void session_let_go(struct server *srv);

/* session_spec.c: is what was asked for allowed on this server, and the configuration it makes. *ret is the caller's. */
struct cell_config;
int session_spec(struct server *srv, json_t *asked, const char *name, bool is_admin,
	struct cell_config **ret, struct cell_error *err);
