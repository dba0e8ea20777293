/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cpus.h: who has which CPU to itself. One file in the directory of slots says for each CPU the number
 * of the slot that has it. A slot that nobody holds any more has none, whatever the file says: a crash
 * frees CPUs as it frees the slot.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/fail.h"

#define CPUS_MAX 1024u

struct cpus {
	uint64_t bits[CPUS_MAX / 64];
};

/* "0-3,8" and back. Numbers beyond CPUS_MAX and words that are none end the list. */
void cpus_parse(const char *text, struct cpus *ret);
void cpus_format(const struct cpus *c, char *ret, size_t size);
bool cpus_is_empty(const struct cpus *c);
unsigned cpus_count(const struct cpus *c);
void cpus_add(struct cpus *c, unsigned cpu);
bool cpus_has(const struct cpus *c, unsigned cpu);

/* Take n of `all` that no living slot has, leaving at least one to everybody else. -1: there are not
 * enough (EAGAIN), or the file cannot be had. */
int cpus_claim(const struct cpus *all, unsigned n, uint32_t slot, struct cpus *ret,
	struct failure *f);
/* What the slot has is free. true: it had something. */
bool cpus_release(uint32_t slot);
/* Forget claims of slots that nobody holds. true: there were some. */
bool cpus_sweep(void);
/* `all` without those that slots have; false: nobody has any. */
bool cpus_left(const struct cpus *all, struct cpus *ret);
bool cpus_is_claimed_by(uint32_t slot);
bool cpus_is_any_claimed(void);
