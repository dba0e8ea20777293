/* SPDX-License-Identifier: Apache-2.0 */
/* policy_rules.h: rules ready to be matched; shared by policy.c and policy_read.c, nobody else
 * includes it. */
#pragma once
#include <pthread.h>

#include "base/cleanup.h"
#include "base/ere.h"
#include "base/globmatch.h"
#include "server/policy.h"
#include "server/zone.h"

extern const char *const policy_roles[3];

struct policy_globs {
	struct globmatch **list;
	size_t n;
};
struct policy_label {
	char *name, *value;
};
struct policy_rule {
	enum policy_effect effect;
	char name[POLICY_RULE_MAX];
	char *reason; /* NULL: none */
	struct policy_globs tenant, backend, action, command, path, language;
	unsigned roles; /* bits by policy_roles; 0: any */
	struct ere **expressions;
	size_t n_expressions;
	struct policy_label *labels;
	size_t n_labels;
	bool has_time;
	int from_minute, to_minute;
	unsigned weekdays; /* bits, 0 is Sunday; 0: any */
	struct zone *zone; /* NULL: UTC */
};
struct policy {
	pthread_mutex_t lock; /* patterns have working memory of their own */
	enum policy_effect otherwise;
	size_t n;
	struct policy_rule rules[];
};
