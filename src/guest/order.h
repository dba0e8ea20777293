/* SPDX-License-Identifier: Apache-2.0 */
/* order.h: what a request asks for: a command, or the surroundings of an interpreter. exec.c reads it. */
#pragma once
#include "guest/guest.h"
#include "guest/user.h"

/* A NULL-terminated list of strings that owns them. */
struct strings {
	char **list;
	size_t n, cap;
};
void strings_done(struct strings *s);
int strings_add(struct strings *s, char *one); /* takes the string over */
const char *env_get(const struct strings *env, const char *name);

struct order {
	struct strings argv, env;
	struct user user;
	char *id;
	char *cwd;
	char *label;
	char *user_name;
	uint64_t flags, timeout_ms, grace_ms, keep, window;
	uint16_t rows, cols;
	int cwd_fd;
};

/* `what` begins its errors. Initialise with cwd_fd -1; order_done() in any case. */
int order_read(const struct request *rq, const char *what, struct order *o, struct cell_error *err);
/* Find what it names: the user, the directory; and complete the environment. Once. */
int order_settle(struct order *o, struct cell_error *err);
void order_done(struct order *o);
/* What a command gets that asks for nothing. */
int order_default(struct order *o, const char *cwd, struct cell_error *err);
/* Open o->cwd anew. */
int order_open_cwd(struct order *o, struct cell_error *err);
/* A field that may be absent, but not malformed. */
int order_read_optional(const struct request *rq, unsigned tag, const char *what, size_t max,
	char **ret, struct cell_error *err);
/* Its id, times and flags into the job. */
void order_describe(struct job *j, const struct order *o);
/* The stream looks at the job from its beginning, or lets go of it (CELL_EXEC_DETACH). */
void exec_follow(struct stream *s, const struct request *rq, const struct order *o, struct job *j);
