/* SPDX-License-Identifier: Apache-2.0 */
/*
 * session_share.c: the lifecycle `workspace`: sessions of one tenant that name the same workspace_key use one cell, which is made for the
 * first of them and ended with the last. Each has a connection, commands and timeouts of its own. While a thread makes or ends the
 * cell for one of them, the others wait for their turn, so that none is made twice or ended under another's feet.
 */
#include <string.h>

#include "base/buf.h"
#include "server/hash.h"
#include "server/server.h"
#include "server/session.h"

#define KEY_MAX	    128
#define WAITING_MAX 64 /* more are woken by those */

bool session_is_shared(const struct session *s)
{
	return !strcmp(s->lifecycle, "workspace");
}

static const char *key_of(json_t *spec)
{
	return json_string_value(json_object_get(spec, "workspace_key"));
}

int session_check_key(json_t *asked, struct cell_error *err)
{
	static const char allowed[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	json_t *v = json_object_get(asked, "workspace_key");
	const char *lifecycle = json_string_value(json_object_get(asked, "lifecycle")),
		   *key = json_string_value(v);
	bool is_shared = lifecycle && !strcmp(lifecycle, "workspace");
	int r;

	if (is_shared && !v) {
		r = cell_fail(err, CELL_EINVAL, 0, "lifecycle workspace: workspace_key is missing");
		return cell_error_hint(err, r,
			"sessions with the same workspace_key share a cell: \"workspace_key\": "
			"\"my-project\"");
	}
	if (!is_shared && v) {
		r = cell_fail(err, CELL_EINVAL, 0,
			"workspace_key: only sessions of the lifecycle workspace have one");
		return cell_error_hint(err, r, "add \"lifecycle\": \"workspace\"");
	}
	if (!v || (key && *key && strlen(key) <= KEY_MAX && strlen(key) == json_string_length(v) &&
			  strspn(key, allowed) == strlen(key)))
		return 0;
	return cell_fail(err, CELL_EINVAL, 0,
		"workspace_key must have 1 to %d of A-Z a-z 0-9 . _ -", KEY_MAX);
}

void session_name_cell(struct session *s)
{
	static const char digits[] = "abcdefghijklmnopqrstuvwxyz234567";
	const char *key = key_of(s->spec);
	uint8_t hash[HASH_BYTES];

	(void)snprintf(s->cell_name, sizeof s->cell_name, "%s", s->id);
	if (!session_is_shared(s) || !key)
		return;
	struct buf b = BUF_INIT(
		1024); /* the tenant's name is part of it: nobody shares with another tenant */
	(void)buf_add(&b, s->tenant, strlen(s->tenant) + 1);
	(void)buf_add(&b, key, strlen(key));
	hash_sha256(b.data, b.len, hash);
	buf_done(&b);
	s->cell_name[0] = 'w';
	for (int i = 0; i < 24; i++)
		s->cell_name[1 + i] = digits[hash[i] & 31u];
	s->cell_name[25] = '\0';
}

static bool is_user(const struct session *s)
{
	return s->state == SESSION_CREATING || s->state == SESSION_READY;
}

struct session *session_other_user(const struct session *s)
{
	struct session *o, *next;

	if (!session_is_shared(s))
		return NULL;
	HASH_ITER (hh, s->srv->sessions, o, next)
		if (o != s && is_user(o) && !strcmp(o->cell_name, s->cell_name))
			return o;
	return NULL;
}

/* What makes the cell, without what is each session's own. */
static json_t *walls_of(json_t *spec)
{
	static const char *const own[] = {
		"idle_timeout", "ttl", "wait", "labels", "lifecycle", "workspace_key", NULL};
	json_t *o = json_copy(spec);

	for (size_t i = 0; own[i]; i++)
		(void)json_object_del(o, own[i]);
	return o;
}

int session_check_sharing(const struct session *s, struct cell_error *err)
{
	struct session *o = session_other_user(s);

	if (!o)
		return 0;
	json_t *mine = walls_of(s->spec), *theirs = walls_of(o->spec);
	/* who asks for nothing in particular takes what is there */
	bool is_same = !json_object_size(mine) || json_equal(mine, theirs);
	json_decref(mine);
	json_decref(theirs);
	if (is_same)
		return 0;
	int r = cell_fail(err, CELL_EEXISTS, 0,
		"workspace '%s' has a cell with another specification", key_of(s->spec));
	return cell_error_hint(err, r,
		"ask for the same as session '%s', for nothing but the key, or use another key",
		o->id);
}

bool session_take_turn(struct session *s, void (*go)(struct session *s))
{
	struct session *o, *next;

	if (session_is_shared(s))
		HASH_ITER (hh, s->srv->sessions, o, next)
			if (o != s && o->is_working && !strcmp(o->cell_name, s->cell_name)) {
				s->queued = go;
				session_ref(s);
				return false;
			}
	s->is_working = true;
	return true;
}

void session_end_turn(struct session *s)
{
	struct session *o, *next, *waiting[WAITING_MAX];
	size_t n = 0;

	s->is_working = false;
	if (!session_is_shared(s))
		return;
	HASH_ITER (hh, s->srv->sessions, o, next)
		if (o->queued && n < WAITING_MAX && !strcmp(o->cell_name, s->cell_name))
			waiting[n++] = o;
	/* each tries, and all but the first wait again */
	for (size_t i = 0; i < n; i++) {
		void (*go)(struct session *) = waiting[i]->queued;
		waiting[i]->queued = NULL;
		go(waiting[i]);
		session_unref(waiting[i]);
	}
}
