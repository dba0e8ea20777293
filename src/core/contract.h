/* SPDX-License-Identifier: Apache-2.0 */
/*
 * contract.h: ask for walls, get walls, or get an error. Turns a spec into the capabilities it
 * needs, each with the key that asked for it, and holds them against what a back end promises here.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "cell/spec.h"

#include "core/backend.h"

/* One thing asked for. */
struct cell_need {
	enum cell_cap cap;
	bool may_degrade; /* best effort: missing it is reported, not refused */
	char key[120];	  /* "limits.memory: 512m" */
};

#define CELL_NEEDS_MAX 64

struct cell_needs {
	struct cell_need list[CELL_NEEDS_MAX];
	size_t n;
};

/* What the spec asks for. Values that mean nothing (a tier of 9, an unknown word in `needs`, a root
 * that does not exist) are errors. */
int cell_contract_needs(const struct cell_spec *spec, struct cell_needs *ret,
	struct cell_error *err);

/* The chain for spec->backend, or of the strongest usable back end when that is NULL; probed and
 * checked. CELL_ENOTSUP names the capability, the key, why it is missing here, what would bring it,
 * and who has it. *ret_degraded: best-effort needs that are not met. */
int cell_contract_choose(const struct cell_spec *spec,
	const struct cell_backend *chain[CELL_CHAIN_MAX], struct cell_probe *ret_probe,
	cell_caps *ret_degraded, struct cell_error *err);

/* The same for who makes the cell at once: what only trying out would show is left to that. */
int cell_contract_choose_hastily(const struct cell_spec *spec,
	const struct cell_backend *chain[CELL_CHAIN_MAX], struct cell_probe *ret_probe,
	cell_caps *ret_degraded, struct cell_error *err);

/* Hold needs and tier against a probe; `is_default` words the error for a back end nobody named. */
int cell_contract_check(const struct cell_spec *spec, const struct cell_needs *needs,
	const struct cell_probe *p, bool is_default, cell_caps *ret_degraded,
	struct cell_error *err);

/* Before an operation in an open cell: CELL_ENOTSUP naming the first of `caps` its back end does not
 * promise, and who does. `attempt` says what for: "run a command". */
int cell_contract_require(const struct cell *c, cell_caps caps, const char *attempt,
	struct cell_error *err);

/* The innermost back end of a chain: the one that makes the place. */
const struct cell_backend *cell_chain_place(const struct cell_backend *const *chain);
