/* SPDX-License-Identifier: Apache-2.0 */
/*
 * policy.h: rules before anything is done. A list in the configuration; the first rule that
 * matches decides, otherwise the default does.
 *
 *	server:
 *	  policy:
 *	    default: allow
 *	    rules:
 *	      - {name: no-curl, effect: deny, command: "curl *", reason: "no downloads"}
 *	      - {effect: ask, tenant: [acme, beta], time: "22:00-06:00", zone: Europe/Berlin}
 *
 * A rule matches when everything it names matches; a list matches when one of its entries does.
 * tenant, backend, action, path, language and command are globs (base/globmatch.h; in a command
 * `*` also takes slashes); command_regex is a regular expression. A command is compared as its
 * words joined by blanks, and as its words with the program's directory taken off: "curl *" also
 * matches /usr/bin/curl x. This stops mistakes, not malice: a shell has a thousand ways to say
 * curl, walls are the back end's.
 *
 * Thread-safe.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct cell_config;

enum policy_effect {
	POLICY_ALLOW,
	POLICY_DENY,
	POLICY_ASK, /* somebody has to say yes: the guard */
};
const char *policy_effect_name(enum policy_effect effect);

/* What is to be decided; all borrowed, NULL: not known, which no rule that names it matches. */
struct policy_request {
	const char *tenant, *role, *backend, *action;
	const char *session, *actor, *request_id; /* for the guard; no rule looks at them */
	const char *const *argv;		  /* NULL-terminated */
	const char *shell;			  /* a command line instead */
	const char *path;			  /* of a file operation */
	const char *language;			  /* of code */
	const char *code;			  /* for the guard; no rule looks at it */
	const char *const *labels;		  /* "k=v", NULL-terminated */
	int64_t unix_ns;			  /* 0: now */
};

#define POLICY_RULE_MAX	  80
#define POLICY_REASON_MAX 256
struct policy_decision {
	enum policy_effect effect;
	char rule[POLICY_RULE_MAX]; /* "no-curl", "rule 3", "default", "guard": for the audit */
	char reason[POLICY_REASON_MAX];
};

struct policy;
/* Errors name file, line and column. cfg without rules: everything is allowed. */
int policy_new(struct cell_config *cfg, struct policy **ret, struct cell_error *err);
void policy_free(struct policy *p);
/* p may be NULL: allowed, by "default". */
void policy_decide(struct policy *p, const struct policy_request *request,
	struct policy_decision *ret);
/* A decision that is not allow, as an error: CELL_EDENIED with the rule; ask says that it needs
 * approval. Returns negative. */
int policy_fail(const struct policy_decision *d, struct cell_error *err);
