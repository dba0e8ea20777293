/* SPDX-License-Identifier: Apache-2.0 */
/*
 * filework.h: an operation on files of a session, on a thread, over a connection of its own to the guest. Connections are kept for the next
 * operation.
 */
#pragma once
#include "server/call.h"
#include "server/conduit.h"

struct cell;

struct filework {
	struct call *call;
	/* On the thread: w->cell is connected. */
	int (*run)(struct filework *w, struct cell_error *err);
	/* On the loop: answers the call. Not when nobody is there any more. */
	void (*done)(struct filework *w);
	int result;
	struct cell_error err;
	struct cell *cell;
	char name[64];
	/* what the operations share; texts are the call's */
	const char *path, *other, *pattern, *glob;
	const void *old_text, *new_text;
	size_t old_len, new_len;
	uint64_t offset, limit, number;
	uint32_t mode, flags, depth;
	bool is_on, is_second; /* of the operation */
	json_t *answer;
	struct conduit *pipe; /* streaming either way: the loop's side */
	struct conduit *mine; /* the thread's side */
	struct http_exchange *x;
	struct net_timer *beat;
	bool is_blocked, is_gone, is_over;
	bool is_watch, is_sse;
	bool is_leaving;	      /* the server drains: the watch ends in order */
	bool is_look;		      /* no use of the session */
	bool is_stream;		      /* counted as one of the tenant's */
	bool is_upload, is_lost;      /* in the session's list; and that ended */
	_Atomic bool is_cancelled;    /* nobody waits for it any more */
	_Atomic int guest_fd;	      /* of a watch: shut down to end it; -1 */
	struct filework *next, *prev; /* uploads of the session */
};

struct filework *filework_new(struct call *c);
/* Once it is permitted. Ends the call, also when it cannot be started. */
void filework_start(struct filework *w);
/* Begin the answer and send what the thread puts into w->mine. What fails from here on cuts the connection: check before. */
void filework_download(struct filework *w, int status, const char *type, int64_t length);
/* Something that may wait long in the cell: it has a thread of another pool, and ends when nobody waits for it any more. */
void filework_ask(struct filework *w);
/* Give the thread what the request's body has, by w->mine. */
void filework_upload(struct filework *w);
void filework_free(struct filework *w);
/* The session's cell is going: uploads that wait for more of their body would not notice. */
void filework_lose(struct session *s);
