/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cron.h: when a scheduled session runs. Five fields (minute hour day month weekday) with lists,
 * ranges, steps and names, or @hourly @daily @midnight @weekly @monthly @yearly @annually. As in
 * every cron, when both day and weekday are restricted (neither begins with *) either is enough.
 * 0 and 7 are Sunday.
 *
 * Where the clock is put forward, a run whose time is skipped happens at the moment of the
 * change, once. Where it is put back, a run happens the first time its time comes; only a
 * schedule whose hour begins with * runs in both passes, as it means an interval and not a time
 * of day.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "server/zone.h"

#define CRON_TEXT_MAX 256

struct cron {
	uint64_t minutes;
	uint32_t hours, days, months; /* bit n: n */
	uint8_t weekdays;
	bool is_any_day, is_any_weekday; /* begins with * */
	bool is_interval;		 /* the hour begins with * */
};

/* CELL_EINVAL says which field and what is wrong with it. */
int cron_parse(const char *text, struct cron *ret, struct cell_error *err);
/* The first moment after unix_s. -ENOENT when there is none within 40 years (30 February). */
int cron_next(const struct cron *c, const struct zone *z, int64_t unix_s, int64_t *ret_unix_s);

/* What to do about runs that passed while nobody looked. */
enum cron_missed {
	CRON_MISSED_SKIP,
	CRON_MISSED_ONCE, /* one run for all of them, the latest */
	CRON_MISSED_ALL,  /* each, the latest CRON_CATCH_UP of them */
};
#define CRON_CATCH_UP 100
/* A run that is at most this late is on time, not missed. */
#define CRON_SLACK_S   60
#define CRON_COUNT_MAX 10000
/* Runs due after last_s (exclusive) up to now_s, oldest first. How many; *ret_dropped: how many
 * more there were, counted no further than about CRON_COUNT_MAX. */
int cron_due(const struct cron *c, const struct zone *z, int64_t last_s, int64_t now_s,
	enum cron_missed missed, int64_t ret[CRON_CATCH_UP], uint64_t *ret_dropped);

/* A run is due while the one before still goes on. */
enum cron_overlap {
	CRON_OVERLAP_SKIP,
	CRON_OVERLAP_QUEUE, /* one at most waits */
	CRON_OVERLAP_KILL,
};
enum cron_step {
	CRON_STEP_RUN,
	CRON_STEP_SKIP,
	CRON_STEP_WAIT,
	CRON_STEP_KILL_AND_RUN,
};
enum cron_step cron_step(enum cron_overlap overlap, bool is_running, bool is_one_waiting);

int cron_missed_find(const char *word);	 /* "skip" "once" "all"; -1 */
int cron_overlap_find(const char *word); /* "skip" "queue" "kill"; -1 */
