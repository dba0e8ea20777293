/* SPDX-License-Identifier: Apache-2.0 */
/* cron.c: see cron.h. */
#include "server/cron.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "server/clock.h"

#define DAY_S	 86400
#define MINUTE_S 60
#define DAYS_AHEAD \
	(INT64_C(41) * 366) /* 29 February on a given weekday: 28 years, 40 around 2100 */

static const char *const month_names[] = {
	"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};

static const struct field {
	const char *name;
	int min, max;
	const char *const *names; /* the first stands for `first` */
	int first;
} fields[] = {
	{"minute", 0, 59, NULL, 0},
	{"hour", 0, 23, NULL, 0},
	{"day", 1, 31, NULL, 0},
	{"month", 1, 12, month_names, 1},
	{"weekday", 0, 7, weekday_names, 0},
};

static const struct {
	const char *word, *text;
} words[] = {
	{"@hourly", "0 * * * *"},
	{"@daily", "0 0 * * *"},
	{"@midnight", "0 0 * * *"},
	{"@weekly", "0 0 * * 0"},
	{"@monthly", "0 0 1 * *"},
	{"@yearly", "0 0 1 1 *"},
	{"@annually", "0 0 1 1 *"},
};

static int bad(const struct field *f, const char *text, size_t n, const char *why,
	struct cell_error *err)
{
	return cell_error_hint(err,
		cell_fail(err, CELL_EINVAL, 0, "the %s of a schedule: '%.*s' %s", f->name,
			(int)(n < 40 ? n : 40), text, why),
		"minute hour day month weekday, for example: */15 8-18 * * mon-fri");
}

/* A number or a name. */
static int read_value(const struct field *f, const char **p, int *ret)
{
	const char *from = *p;

	*ret = 0;
	while (isdigit((unsigned char)**p) && *p - from < 4)
		*ret = *ret * 10 + *(*p)++ - '0';
	if (*p > from)
		return *ret >= f->min && *ret <= f->max ? 0 : -ERANGE;
	for (int i = 0; f->names && f->names[i]; i++)
		if (!strncasecmp(*p, f->names[i], 3) && !isalpha((unsigned char)(*p)[3])) {
			*p += 3;
			*ret = f->first + i;
			return 0;
		}
	return -EINVAL;
}

/* One part of a list: * a a-b, each with /n. */
static const char *read_part(const struct field *f, const char **p, uint64_t *bits)
{
	int from = f->min, to = f->max, step = 1;

	if (**p == '*') {
		(*p)++;
	} else {
		int r = read_value(f, p, &from);
		if (r < 0)
			return r == -ERANGE ? "is out of range" : "is not understood";
		to = from;
		if (**p == '-') {
			(*p)++;
			r = read_value(f, p, &to);
			if (r < 0)
				return r == -ERANGE ? "is out of range" : "is not understood";
		} else if (**p == '/') {
			to = f->max; /* 5/15: from 5 on */
		}
		if (to < from)
			return "goes backwards";
	}
	if (**p == '/') {
		const char *digits = ++*p;
		for (step = 0; isdigit((unsigned char)**p) && *p - digits < 4;)
			step = step * 10 + *(*p)++ - '0';
		if (*p == digits || step < 1 || step > f->max)
			return "has a step that is none";
	}
	for (int i = from; i <= to; i += step)
		*bits |= UINT64_C(1) << i;
	return NULL;
}

static int read_field(const struct field *f, const char *text, size_t n, uint64_t *bits,
	struct cell_error *err)
{
	const char *p = text;

	for (;;) {
		const char *why = read_part(f, &p, bits);
		if (why)
			return bad(f, text, n, why, err);
		if (p == text + n)
			return 0;
		if (*p != ',')
			return bad(f, text, n, "is not understood", err);
		p++;
	}
}

int cron_parse(const char *text, struct cron *ret, struct cell_error *err)
{
	uint64_t bits[5] = {0};
	bool is_star[5];
	const char *p = text + strspn(text, " \t");

	if (strnlen(text, CRON_TEXT_MAX) == CRON_TEXT_MAX)
		return cell_fail(err, CELL_EINVAL, 0, "a schedule of more than %d bytes",
			CRON_TEXT_MAX - 1);
	for (size_t i = 0; *p == '@' && i < sizeof words / sizeof words[0]; i++)
		if (!strcasecmp(p, words[i].word))
			p = words[i].text;
	if (*p == '@')
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "'%.40s' is no schedule", p),
			"@hourly @daily @weekly @monthly @yearly");
	for (size_t i = 0; i < 5; i++) {
		size_t n = strcspn(p, " \t");
		if (!n)
			return cell_error_hint(err,
				cell_fail(err, CELL_EINVAL, 0, "a schedule without %s",
					fields[i].name),
				"it has five fields: minute hour day month weekday");
		is_star[i] = *p == '*';
		int r = read_field(&fields[i], p, n, &bits[i], err);
		if (r < 0)
			return r;
		p += n + strspn(p + n, " \t");
	}
	if (*p)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "'%.40s' behind the weekday of a schedule",
				p),
			"it has five fields: minute hour day month weekday");
	if (bits[4] & 1u << 7)
		bits[4] |= 1; /* Sunday too */
	*ret = (struct cron){.minutes = bits[0],
		.hours = (uint32_t)bits[1],
		.days = (uint32_t)bits[2],
		.months = (uint32_t)bits[3],
		.weekdays = (uint8_t)(bits[4] & 0x7f),
		.is_any_day = is_star[2],
		.is_any_weekday = is_star[4],
		.is_interval = is_star[1]};
	return 0;
}

static bool is_day(const struct cron *c, const struct clock_date *d)
{
	bool day = c->days >> d->day & 1, weekday = c->weekdays >> d->weekday & 1;

	if (!(c->months >> d->month & 1))
		return false;
	return c->is_any_day || c->is_any_weekday ? day && weekday : day || weekday;
}

/* The earliest moment of this local minute behind `after`; false when there is none. */
static bool moment_of(const struct cron *c, const struct zone *z, int64_t local_s, int64_t after,
	int64_t *ret)
{
	int64_t at[2];
	int n = zone_moments(z, local_s, at);

	if (n == 0) {
		/* Skipped by the clock: at the change, unless the schedule is an interval, which
		 * simply goes on. */
		if (c->is_interval || at[0] <= after)
			return false;
		*ret = at[0];
		return true;
	}
	for (int i = 0; i < (c->is_interval ? n : 1); i++)
		if (at[i] > after) {
			*ret = at[i];
			return true;
		}
	return false;
}

/* Of all minutes of a local day, the one that comes first: around a change the order of local
 * times is not that of moments. */
static bool first_of_day(const struct cron *c, const struct zone *z, int64_t midnight,
	int64_t after, int64_t *ret)
{
	int32_t early = zone_offset(z, midnight - DAY_S),
		late = zone_offset(z, midnight + 2 * DAY_S);
	int32_t least = early < late ? early : late;
	bool is_found = false;

	for (int i = 0; i < 24 * 60; i++) {
		int64_t local = midnight + i * INT64_C(60), moment;
		if (i % 60 == 0 && (!(c->hours >> (i / 60) & 1) || local + 3540 - least <= after)) {
			i += 59; /* not this hour, or it is over */
			continue;
		}
		if (!(c->minutes >> (i % 60) & 1))
			continue;
		if (early == late) { /* no change near: what is first is earliest */
			*ret = local - early;
			if (*ret > after)
				return true;
		} else if (moment_of(c, z, local, after, &moment)) {
			*ret = !is_found || moment < *ret ? moment : *ret;
			is_found = true;
		}
	}
	return is_found;
}

int cron_next(const struct cron *c, const struct zone *z, int64_t unix_s, int64_t *ret_unix_s)
{
	int64_t local = unix_s + zone_offset(z, unix_s), best = 0;
	struct clock_date d;
	bool is_found = false;

	clock_split(local, &d);
	d.hour = d.minute = d.second = 0;
	/* Yesterday too: where the clock was put back over midnight, its minutes come again. And
	 * when a day has one, the next day is looked at as well. */
	int64_t midnight = clock_join(&d) - DAY_S, end = midnight + DAYS_AHEAD * DAY_S;
	for (; midnight < end; midnight += DAY_S) {
		bool was_found = is_found;
		int64_t moment;
		clock_split(midnight, &d);
		if (is_day(c, &d) && first_of_day(c, z, midnight, unix_s, &moment)) {
			best = !is_found || moment < best ? moment : best;
			is_found = true;
		}
		if (was_found)
			break;
		if (!is_found && !(c->months >> d.month & 1)) /* on to the last day of the month */
			midnight += (clock_days_in_month(d.year, d.month) - d.day) * DAY_S;
	}
	if (!is_found)
		return -ENOENT;
	*ret_unix_s = best;
	return 0;
}

/* The runs after from_s up to now_s, the latest CRON_CATCH_UP of them; how many there were. */
static uint64_t collect(const struct cron *c, const struct zone *z, int64_t from_s, int64_t now_s,
	int64_t ret[CRON_CATCH_UP], int *ret_n)
{
	uint64_t total = 0;
	int n = 0;

	for (int64_t at = from_s; cron_next(c, z, at, &at) == 0 && at <= now_s; total++) {
		if (n == CRON_CATCH_UP) {
			memmove(ret, ret + 1, (CRON_CATCH_UP - 1) * sizeof *ret);
			n--;
		}
		ret[n++] = at;
	}
	*ret_n = n;
	return total;
}

int cron_due(const struct cron *c, const struct zone *z, int64_t last_s, int64_t now_s,
	enum cron_missed missed, int64_t ret[CRON_CATCH_UP], uint64_t *ret_dropped)
{
	int64_t window = CRON_CATCH_UP * MINUTE_S, from, at = last_s;
	uint64_t total = 0;
	int n = 0;

	*ret_dropped = 0;
	/* Backwards from now, further and further, so that years away cost no more than what is
	 * kept. */
	do {
		window *= 2;
		from = now_s - last_s > window ? now_s - window : last_s;
		total = collect(c, z, from, now_s, ret, &n);
	} while (from > last_s && n < CRON_CATCH_UP);
	while (from > last_s && *ret_dropped < CRON_COUNT_MAX && cron_next(c, z, at, &at) == 0 &&
		at <= from)
		++*ret_dropped;
	int keep = n;
	if (missed == CRON_MISSED_ONCE && n > 1)
		keep = 1;
	if (missed == CRON_MISSED_SKIP)
		for (keep = 0; keep < n && now_s - ret[n - 1 - keep] <= CRON_SLACK_S;)
			keep++;
	memmove(ret, ret + n - keep, (size_t)keep * sizeof *ret);
	*ret_dropped += total - (uint64_t)keep;
	return keep;
}

enum cron_step cron_step(enum cron_overlap overlap, bool is_running, bool is_one_waiting)
{
	if (!is_running)
		return CRON_STEP_RUN;
	switch (overlap) {
	case CRON_OVERLAP_QUEUE:
		return is_one_waiting ? CRON_STEP_SKIP : CRON_STEP_WAIT;
	case CRON_OVERLAP_KILL:
		return CRON_STEP_KILL_AND_RUN;
	case CRON_OVERLAP_SKIP:
		break;
	}
	return CRON_STEP_SKIP;
}

static int find(const char *const *list, const char *word)
{
	for (int i = 0; list[i]; i++)
		if (!strcmp(list[i], word))
			return i;
	return -1;
}

int cron_missed_find(const char *word)
{
	return find((const char *const[]){"skip", "once", "all", NULL}, word);
}

int cron_overlap_find(const char *word)
{
	return find((const char *const[]){"skip", "queue", "kill", NULL}, word);
}
