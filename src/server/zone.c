/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone.c: see zone.h. The table of changes covers the past and some years to come; behind its end
 * the footer's rule goes on, e.g. "CET-1CEST,M3.5.0,M10.5.0/3". Of a version 1 file, which has no
 * footer, the last offset stays.
 */
#include "server/zone.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>

#include "base/buf.h"
#include "server/clock.h"

#define HEADER	    44
#define CHANGES_MAX 4096
#define TYPES_MAX   256
#define DAY_S	    86400
#define OFFSET_MAX  (26 * 3600) /* RFC 8536 says 25:59:59 */

/* A day of the year and a time: when one half of the rule begins. */
struct rule_day {
	enum {
		DAY_NONE,
		DAY_JULIAN,
		DAY_ZERO,
		DAY_MONTH
	} kind;
	int day, week, month;
	int32_t time_s; /* local, may be negative or beyond a day */
};
struct rule {
	bool is_there, has_dst;
	int32_t std, dst; /* seconds east */
	struct rule_day start, end;
};

struct zone {
	struct rule rule;
	int32_t before; /* the offset before the first change */
	size_t n;
	int64_t *at;	 /* moments of change, ascending */
	int32_t *offset; /* from that moment on */
};

void zone_free(struct zone *z)
{
	if (!z)
		return;
	free(z->at);
	free(z->offset);
	free(z);
}

void zone_freep(struct zone **z)
{
	zone_free(*z);
}

static uint32_t be32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static int64_t be64(const uint8_t *p)
{
	return (int64_t)((uint64_t)be32(p) << 32 | be32(p + 4));
}

/* "CET", "<+03>". */
static int skip_name(const char **p)
{
	const char *from = *p;

	if (**p == '<') {
		*p += strcspn(*p, ">");
		return *(*p)++ == '>' ? 0 : -EINVAL;
	}
	while (isalpha((unsigned char)**p))
		(*p)++;
	return *p - from >= 3 ? 0 : -EINVAL;
}

/* [+-]hh[:mm[:ss]] */
static int read_time(const char **p, int max_hours, int32_t *ret)
{
	int sign = **p == '-' ? -1 : 1;
	int32_t total = 0;

	*p += **p == '-' || **p == '+';
	for (int unit = 3600; unit; unit /= 60) {
		int n = 0, digits = 0;
		for (; isdigit((unsigned char)**p) && digits < 3; (*p)++, digits++)
			n = n * 10 + **p - '0';
		if (!digits || n > (unit == 3600 ? max_hours : 59))
			return -EINVAL;
		total += n * unit;
		if (**p != ':')
			break;
		(*p)++;
	}
	*ret = total * sign;
	return 0;
}

static int read_number(const char **p, int min, int max, int *ret)
{
	int n = 0, digits = 0;

	for (; isdigit((unsigned char)**p) && digits < 4; (*p)++, digits++)
		n = n * 10 + **p - '0';
	*ret = n;
	return digits && n >= min && n <= max ? 0 : -EINVAL;
}

/* ,M3.5.0/2  ,J60  ,59 */
static int read_day(const char **p, struct rule_day *d)
{
	int r;

	if (*(*p)++ != ',')
		return -EINVAL;
	if (**p == 'M') {
		d->kind = DAY_MONTH;
		(*p)++;
		r = read_number(p, 1, 12, &d->month);
		if (r == 0)
			r = *(*p)++ == '.' ? read_number(p, 1, 5, &d->week) : -EINVAL;
		if (r == 0)
			r = *(*p)++ == '.' ? read_number(p, 0, 6, &d->day) : -EINVAL;
	} else if (**p == 'J') {
		d->kind = DAY_JULIAN;
		(*p)++;
		r = read_number(p, 1, 365, &d->day);
	} else {
		d->kind = DAY_ZERO;
		r = read_number(p, 0, 365, &d->day);
	}
	d->time_s = 2 * 3600;
	if (r == 0 && **p == '/') {
		(*p)++;
		r = read_time(p, 167, &d->time_s);
	}
	return r;
}

static int read_rule(const char *p, struct rule *ret)
{
	struct rule rule = {.is_there = true};

	if (!*p)
		return 0;
	if (skip_name(&p) < 0 || read_time(&p, 24, &rule.std) < 0)
		return -EINVAL;
	rule.std = -rule.std; /* the text counts west of UTC */
	if (*p) {
		rule.has_dst = true;
		rule.dst = rule.std + 3600;
		if (skip_name(&p) < 0)
			return -EINVAL;
		if (*p && *p != ',') {
			if (read_time(&p, 24, &rule.dst) < 0)
				return -EINVAL;
			rule.dst = -rule.dst;
		}
		if (read_day(&p, &rule.start) < 0 || read_day(&p, &rule.end) < 0 || *p)
			return -EINVAL;
	}
	*ret = rule;
	return 0;
}

/* Local time at which a half begins in this year, as if local time were UTC. */
static int64_t day_in(const struct rule_day *d, int64_t year)
{
	struct clock_date date = {.year = year, .month = 1, .day = 1};
	int64_t first;

	if (d->kind != DAY_MONTH) {
		bool is_leap = clock_days_in_month(year, 2) == 29;
		int day = d->kind == DAY_ZERO ? d->day : d->day - 1 + (is_leap && d->day >= 60);
		return clock_join(&date) + (int64_t)day * DAY_S + d->time_s;
	}
	date.month = d->month;
	first = clock_join(&date);
	clock_split(first, &date);
	int day = 1 + (d->day - date.weekday + 7) % 7 + (d->week - 1) * 7;
	while (day > clock_days_in_month(year, d->month))
		day -= 7;
	return first + (int64_t)(day - 1) * DAY_S + d->time_s;
}

static int32_t rule_offset(const struct rule *rule, int64_t unix_s)
{
	struct clock_date date;

	if (!rule->has_dst)
		return rule->std;
	clock_split(unix_s + rule->std, &date);
	int64_t start = day_in(&rule->start, date.year) - rule->std;
	int64_t end = day_in(&rule->end, date.year) - rule->dst;
	bool is_dst =
		start < end ? unix_s >= start && unix_s < end : unix_s >= start || unix_s < end;
	return is_dst ? rule->dst : rule->std;
}

int32_t zone_offset(const struct zone *z, int64_t unix_s)
{
	size_t low = 0, high = z->n;

	if (!z->n || unix_s >= z->at[z->n - 1]) {
		if (z->rule.is_there)
			return rule_offset(&z->rule, unix_s);
		return z->n ? z->offset[z->n - 1] : z->before;
	}
	while (low < high) { /* the first change behind the moment */
		size_t mid = low + (high - low) / 2;
		if (z->at[mid] <= unix_s)
			low = mid + 1;
		else
			high = mid;
	}
	return low ? z->offset[low - 1] : z->before;
}

/* The moment in (from, to] at which the offset stops being what it is at `from`; nothing else
 * changes in between. */
static int64_t change_within(const struct zone *z, int64_t from, int64_t to)
{
	int32_t before = zone_offset(z, from);

	while (from + 1 < to) {
		int64_t mid = from + (to - from) / 2;
		if (zone_offset(z, mid) == before)
			from = mid;
		else
			to = mid;
	}
	return to;
}

int zone_moments(const struct zone *z, int64_t local_s, int64_t ret[2])
{
	/* No place is further than a day from UTC, and no two changes are that near to each
	 * other. */
	int32_t early = zone_offset(z, local_s - DAY_S), late = zone_offset(z, local_s + DAY_S);
	int64_t a = local_s - early, b = local_s - late;
	int n = 0;

	if (zone_offset(z, a) == early)
		ret[n++] = a;
	if (b != a && zone_offset(z, b) == late)
		ret[n++] = b;
	if (n == 2 && ret[0] > ret[1]) {
		int64_t swap = ret[0];
		ret[0] = ret[1];
		ret[1] = swap;
	}
	if (n == 0)
		ret[0] = change_within(z, local_s - DAY_S, local_s + DAY_S);
	return n;
}

struct counts {
	uint32_t utc, std, leaps, changes, types, chars;
	unsigned time_bytes;
};

static int read_header(const uint8_t *p, size_t len, struct counts *c, uint8_t *ret_version)
{
	if (len < HEADER || memcmp(p, "TZif", 4) != 0)
		return -EINVAL;
	*ret_version = p[4];
	c->utc = be32(p + 20);
	c->std = be32(p + 24);
	c->leaps = be32(p + 28);
	c->changes = be32(p + 32);
	c->types = be32(p + 36);
	c->chars = be32(p + 40);
	return c->changes > CHANGES_MAX || !c->types || c->types > TYPES_MAX || c->chars > 1024 ||
			       c->leaps > 1024 || c->utc > TYPES_MAX || c->std > TYPES_MAX
		       ? -EINVAL
		       : 0;
}

static size_t body_size(const struct counts *c)
{
	return (size_t)c->changes * (c->time_bytes + 1) + (size_t)c->types * 6 + c->chars +
	       (size_t)c->leaps * (c->time_bytes + 4) + c->std + c->utc;
}

static int read_body(const uint8_t *p, const struct counts *c, struct zone *z)
{
	const uint8_t *indexes = p + (size_t)c->changes * c->time_bytes;
	const uint8_t *types = indexes + c->changes;

	for (uint32_t i = 0; i < c->types; i++) {
		int32_t offset = (int32_t)be32(types + (size_t)i * 6);
		if (offset < -OFFSET_MAX || offset > OFFSET_MAX)
			return -EINVAL;
	}
	z->before = (int32_t)be32(types);
	if (!c->changes)
		return 0;
	z->at = calloc(c->changes, sizeof *z->at);
	z->offset = calloc(c->changes, sizeof *z->offset);
	if (!z->at || !z->offset)
		return -ENOMEM;
	for (uint32_t i = 0; i < c->changes; i++) {
		const uint8_t *at = p + (size_t)i * c->time_bytes;
		z->at[i] = c->time_bytes == 8 ? be64(at) : (int32_t)be32(at);
		if (indexes[i] >= c->types || (i && z->at[i] <= z->at[i - 1]))
			return -EINVAL;
		z->offset[i] = (int32_t)be32(types + (size_t)indexes[i] * 6);
	}
	z->n = c->changes;
	return 0;
}

static int read_footer(const uint8_t *p, size_t len, struct zone *z)
{
	char text[128];

	if (len < 2 || *p != '\n')
		return -EINVAL;
	const uint8_t *end = memchr(p + 1, '\n', len - 1);
	if (!end || (size_t)(end - p) >= sizeof text)
		return -EINVAL;
	size_t n = (size_t)(end - p) - 1;
	memcpy(text, p + 1, n);
	text[n] = '\0';
	return strlen(text) == n ? read_rule(text, &z->rule) : -EINVAL;
}

static int parse(const uint8_t *p, size_t len, struct zone *z)
{
	struct counts c;
	uint8_t version;

	int r = read_header(p, len, &c, &version);
	if (r < 0)
		return r;
	c.time_bytes = 4;
	size_t size = HEADER + body_size(&c);
	if (len < size)
		return -EINVAL;
	if (!version)
		return read_body(p + HEADER, &c, z);
	/* The same again with 64 bits, and a footer. */
	p += size;
	len -= size;
	r = read_header(p, len, &c, &version);
	if (r < 0)
		return r;
	c.time_bytes = 8;
	size = HEADER + body_size(&c);
	if (len < size)
		return -EINVAL;
	r = read_body(p + HEADER, &c, z);
	return r < 0 ? r : read_footer(p + size, len - size, z);
}

int zone_parse(const void *bytes, size_t len, struct zone **ret)
{
	auto_zone struct zone *z = calloc(1, sizeof *z);

	if (!z)
		return -ENOMEM;
	int r = parse(bytes, len, z);
	if (r == 0)
		*ret = steal_ptr(z);
	return r;
}

/* Europe/Berlin, Etc/GMT+5: no way out of the directory. */
static bool is_zone_name(const char *name)
{
	size_t n =
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/");

	return n && n < 64 && !name[n] && name[0] != '/' && !strstr(name, "//");
}

static int read_file(const char *name, struct buf *out)
{
	const char *top = getenv("TZDIR");
	char path[512];

	int n = snprintf(path, sizeof path, "%s/%s", top && *top ? top : "/usr/share/zoneinfo",
		name);
	if (n < 0 || (size_t)n >= sizeof path)
		return -ENAMETOOLONG;
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;;) {
		int r = buf_reserve(out, 4096);
		if (r < 0)
			return r;
		ssize_t got = read(fd, out->data + out->len,
			out->cap - out->len < 4096 ? out->cap - out->len : 4096);
		if (got <= 0)
			return got < 0 ? -errno : 0;
		out->len += (size_t)got;
	}
}

static int open_utc(struct zone **ret, struct cell_error *err)
{
	*ret = calloc(1, sizeof **ret);
	return *ret ? 0 : cell_fail(err, CELL_ENOSPACE, ENOMEM, "reading the time zone UTC");
}

int zone_open(const char *name, struct zone **ret, struct cell_error *err)
{
	auto_buf struct buf file = BUF_INIT(ZONE_FILE_MAX);

	if (!strcmp(name, "UTC") || !strcmp(name, "Z") || !strcmp(name, "Etc/UTC"))
		return open_utc(ret, err);
	if (!is_zone_name(name))
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "'%.80s' cannot be the name of a time zone",
				name),
			"for example: UTC or Europe/Berlin");
	int r = read_file(name, &file);
	if (r == -ENOENT || r == -EISDIR)
		return cell_error_hint(err,
			cell_fail(err, CELL_ENOTFOUND, 0, "there is no time zone '%.80s' here",
				name),
			"/usr/share/zoneinfo has them; is tzdata installed?");
	if (r == 0)
		r = zone_parse(file.data, file.len, ret);
	if (r == -EINVAL)
		return cell_fail(err, CELL_EINVAL, 0, "the file of the time zone '%.80s' is none",
			name);
	return r < 0 ? cell_fail_errno(err, -r, "reading the time zone '%.80s'", name) : 0;
}
