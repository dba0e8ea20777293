/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h: what every part of `cell serve` shares.
 *
 *	http -> router -> call -> api_*.c -> session, exec -> libcell
 *	                    \-> token, quota, policy, guard, ledger
 *
 * One loop thread owns everything here. What blocks runs on threads of a pool and touches only what was handed
 * to it; db, audit, usage, metrics, quota, policy and tracer are safe from any thread by their own contracts.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "net/http.h"
#include "net/loop.h"
#include "server/audit.h"
#include "server/db.h"
#include "server/ledger.h"
#include "server/place.h"
#include "server/policy.h"
#include "server/quota.h"
#include "server/trace.h"

struct cell_config;
struct guard_settings;
struct session;

/* Families of our own behind those of ledger.h. */
enum {
	METRIC_REQUESTS = LEDGER_METRIC_COUNT,
	METRIC_REQUEST_LATENCY,
	METRIC_SESSIONS,
	METRIC_EXECS_RUNNING,
	METRIC_STREAMS,
	METRIC_CONNECTIONS,
	METRIC_RECONCILED,
	METRIC_FAMILIES,
};

struct server_settings {
	uint64_t spool_bytes;	  /* of one command's output kept */
	uint64_t spool_keep_ms;	  /* a finished command's */
	uint64_t port_timeout_ms; /* for a program in a cell to begin its answer */
	uint64_t body_bytes;	  /* of a JSON request */
	uint64_t idle_timeout_ms; /* of a session that names none; 0: never */
	uint64_t max_lifetime_ms; /* of any session; 0: no bound */
	int min_tier;		  /* weaker back ends are refused */
	const char **
		host_paths; /* directories a tenant may name as workspace or mount; NULL-terminated */
	bool is_auth_disabled;
	const char *auth_token; /* of the configuration; may be NULL */
};

struct server {
	struct net_loop *loop;
	struct http_server *http;
	struct net_pool *lives;	    /* making and ending cells */
	struct net_pool *files;	    /* operations on files */
	struct net_pool *transfers; /* of whole files and trees: at the client's pace */
	struct net_pool *watches;   /* of directories: each holds a thread while it lasts */
	struct cell_config *cfg;
	struct server_settings set;
	struct place place;
	int spool_fd;
	struct spool_spares *spares;
	struct db *db;
	struct ledger ledger;
	struct redact *redact;
	struct policy *policy;
	struct guard_settings *guard;
	struct quota *quota;
	struct tracer *tracer;
	struct prices *prices;
	struct session *sessions; /* uthash by id */
	struct net_timer *sweep_timer;
	struct net_timer *second_timer;
	char boot_id[33];
	bool is_ready; /* everything of the last server is adopted */
	bool is_leaving;
	unsigned n_streams, n_execs; /* now */
	unsigned n_adopting;	     /* cells of the last server that are being taken over */
	bool is_looking;	     /* for cells without an owner */
	unsigned n_looks;	     /* so far */
};

/* log.c: one line an event on stderr, key=value, values quoted where needed. */
enum log_level {
	LOG_DEBUG,
	LOG_INFO,
	LOG_WARN,
	LOG_ERROR,
};
void log_set_level(enum log_level level);
bool log_is_wanted(enum log_level level);
/* pairs: "key", value, ... NULL; a NULL value is left out. */
void log_event(enum log_level level, const char *event, ...) __attribute__((sentinel));
void log_failure(const char *event, const struct cell_error *err, const char *about);
