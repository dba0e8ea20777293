/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c: see metrics.h. */
#include "server/metrics.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/cleanup.h"
#include "server/histogram.h"
#include "server/table.h"

#define OTHER "other"

/* What a histogram is shown by: upper ends in microseconds. Each is an end of buckets of ours or
 * nearly. */
static const uint64_t steps_us[] = {250, 500, 1000, 2500, 5000, 10000, 25000, 50000, 100000, 250000,
	500000, 1000000, 2500000, 5000000, 10000000, 60000000, 600000000};
#define STEPS (sizeof steps_us / sizeof steps_us[0])

struct series_key {
	char labels[METRICS_LABELS_MAX][METRICS_LABEL_MAX];
};

struct series {
	UT_hash_handle hh;
	struct series_key key;
	int64_t number;
	uint64_t steps[STEPS]; /* values at or below, exactly */
	uint64_t count, sum_us;
};

struct family {
	const struct metrics_family *about;
	struct series *series;
};

struct metrics {
	pthread_mutex_t lock;
	uint64_t dropped;
	size_t n;
	struct family families[];
};

int metrics_new(const struct metrics_family *families, struct metrics **ret)
{
	size_t n = 0;

	while (families[n].name)
		n++;
	struct metrics *m = calloc(1, sizeof *m + n * sizeof m->families[0]);
	if (!m)
		return -ENOMEM;
	(void)pthread_mutex_init(&m->lock, NULL);
	m->n = n;
	for (size_t i = 0; i < n; i++)
		m->families[i].about = &families[i];
	*ret = m;
	return 0;
}

void metrics_free(struct metrics *m)
{
	struct series *s, *next;

	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++) {
		for (s = m->families[i].series; s; s = next) {
			next = s->hh.next;
			HASH_DEL(m->families[i].series, s);
			free(s);
		}
	}
	(void)pthread_mutex_destroy(&m->lock);
	free(m);
}

static void set_label(char out[METRICS_LABEL_MAX], const char *text)
{
	size_t n = text ? strlen(text) : 0;

	if (n >= METRICS_LABEL_MAX) {
		n = METRICS_LABEL_MAX - 1;
		while (n && ((unsigned char)text[n] & 0xc0) == 0x80)
			n--; /* not within a character */
	}
	if (n)
		memcpy(out, text, n);
}

static struct series *add_series(struct metrics *m, struct family *f, const struct series_key *key)
{
	struct series *s = calloc(1, sizeof *s);

	if (s) {
		s->key = *key;
		HASH_ADD(hh, f->series, key, sizeof s->key, s);
		if (table_has(s))
			return s;
	}
	m->dropped++;
	free(s);
	return NULL;
}

static struct series *find(struct metrics *m, unsigned family, const char *const *values)
{
	struct series_key key;
	struct series *s = NULL;
	struct family *f = &m->families[family];

	memset(&key, 0, sizeof key);
	for (size_t i = 0; f->about->labels[i]; i++)
		set_label(key.labels[i], values ? values[i] : NULL);
	HASH_FIND(hh, f->series, &key, sizeof key, s);
	if (s)
		return s;
	if (HASH_COUNT(f->series) >= METRICS_SERIES_MAX) {
		for (size_t i = 0; f->about->labels[i]; i++) {
			memset(key.labels[i], 0, METRICS_LABEL_MAX);
			set_label(key.labels[i], OTHER);
		}
		HASH_FIND(hh, f->series, &key, sizeof key, s);
		if (s)
			return s;
	}
	return add_series(m, f, &key);
}

void metrics_add(struct metrics *m, unsigned family, const char *const *values, uint64_t n)
{
	(void)pthread_mutex_lock(&m->lock);
	struct series *s = find(m, family, values);
	if (s)
		s->number = (int64_t)((uint64_t)s->number + n);
	(void)pthread_mutex_unlock(&m->lock);
}

void metrics_set(struct metrics *m, unsigned family, const char *const *values, int64_t n)
{
	(void)pthread_mutex_lock(&m->lock);
	struct series *s = find(m, family, values);
	if (s)
		s->number = n;
	(void)pthread_mutex_unlock(&m->lock);
}

void metrics_observe(struct metrics *m, unsigned family, const char *const *values, uint64_t us)
{
	(void)pthread_mutex_lock(&m->lock);
	struct series *s = find(m, family, values);
	if (s) {
		for (size_t i = 0; i < STEPS; i++)
			s->steps[i] += us <= steps_us[i];
		s->count++;
		s->sum_us += us;
	}
	(void)pthread_mutex_unlock(&m->lock);
}

static int add_escaped(struct buf *out, const char *text)
{
	int r = 0;

	for (; r == 0 && *text; text++) {
		if (*text == '\n')
			r = buf_addz(out, "\\n");
		else if (*text == '"' || *text == '\\')
			r = buf_addf(out, "\\%c", *text);
		else if ((unsigned char)*text < 0x20)
			r = buf_addc(out, '?');
		else
			r = buf_addc(out, *text);
	}
	return r;
}

/* name{a="x",le="0.1"} with a blank behind. `le` NULL: none. */
static int add_name(struct buf *out, const struct family *f, const struct series *s,
	const char *suffix, const char *le)
{
	bool has_labels = f->about->labels[0] || le;
	int r = buf_addf(out, "%s%s%s", f->about->name, suffix, has_labels ? "{" : "");

	for (size_t i = 0; r == 0 && f->about->labels[i]; i++) {
		r = buf_addf(out, "%s%s=\"", i ? "," : "", f->about->labels[i]);
		if (r == 0)
			r = add_escaped(out, s->key.labels[i]);
		if (r == 0)
			r = buf_addc(out, '"');
	}
	if (r == 0 && le)
		r = buf_addf(out, "%sle=\"%s\"", f->about->labels[0] ? "," : "", le);
	return r < 0 ? r : buf_addz(out, has_labels ? "} " : " ");
}

static int add_seconds(struct buf *out, uint64_t us)
{
	return buf_addf(out, "%" PRIu64 ".%06" PRIu64 "\n", us / 1000000, us % 1000000);
}

static int add_histogram(struct buf *out, const struct family *f, const struct series *s)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < STEPS; i++) {
		char le[32];
		(void)snprintf(le, sizeof le, "%g", (double)steps_us[i] / 1e6);
		r = add_name(out, f, s, "_bucket", le);
		if (r == 0)
			r = buf_addf(out, "%" PRIu64 "\n", s->steps[i]);
	}
	if (r == 0)
		r = add_name(out, f, s, "_bucket", "+Inf");
	if (r == 0)
		r = buf_addf(out, "%" PRIu64 "\n", s->count);
	if (r == 0)
		r = add_name(out, f, s, "_sum", NULL);
	if (r == 0)
		r = add_seconds(out, s->sum_us);
	if (r == 0)
		r = add_name(out, f, s, "_count", NULL);
	return r < 0 ? r : buf_addf(out, "%" PRIu64 "\n", s->count);
}

static int add_family(struct buf *out, const struct family *f)
{
	static const char *const types[] = {"counter", "gauge", "histogram", "counter"};
	struct series *s, *next;
	int r = buf_addf(out, "# HELP %s ", f->about->name);

	if (r == 0)
		r = add_escaped(out, f->about->help);
	if (r == 0)
		r = buf_addf(out, "\n# TYPE %s %s\n", f->about->name, types[f->about->type]);
	for (s = f->series; s; s = next) {
		next = s->hh.next;
		if (r < 0)
			break;
		if (f->about->type == METRICS_SECONDS) {
			r = add_histogram(out, f, s);
			continue;
		}
		r = add_name(out, f, s, "", NULL);
		if (r == 0)
			r = f->about->type == METRICS_COUNTER_SECONDS
				    ? add_seconds(out, (uint64_t)s->number)
			    : f->about->type == METRICS_GAUGE
				    ? buf_addf(out, "%" PRId64 "\n", s->number)
				    : buf_addf(out, "%" PRIu64 "\n", (uint64_t)s->number);
	}
	return r;
}

static int add_plain(struct buf *out, const char *name, const char *type, const char *help,
	uint64_t n)
{
	return buf_addf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type,
		name, n);
}

static uint64_t open_files(void)
{
	auto_dir DIR *d = opendir("/proc/self/fd");
	uint64_t n = 0;

	while (d && readdir(d))
		n++;
	return n > 3 ? n - 3 : 0; /* . and .. and the directory itself */
}

/* When the process began, from its age in clock ticks since boot. */
static double started_at(void)
{
	char text[1024];
	unsigned long long ticks = 0;
	struct timespec now, boot;
	auto_fd int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;

	text[n > 0 ? n : 0] = '\0';
	const char *p = strrchr(text, ')');
	if (!p || sscanf(p + 1,
			  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			  "%*d %*d "
			  "%llu",
			  &ticks) != 1)
		return 0;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)clock_gettime(CLOCK_BOOTTIME, &boot);
	return (double)(now.tv_sec - boot.tv_sec) + (double)ticks / (double)sysconf(_SC_CLK_TCK);
}

static void memory_of(uint64_t *ret_size, uint64_t *ret_resident)
{
	char text[128];
	unsigned long long size = 0, resident = 0;
	auto_fd int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;

	text[n > 0 ? n : 0] = '\0';
	if (sscanf(text, "%llu %llu", &size, &resident) != 2)
		size = resident = 0;
	*ret_size = size * (uint64_t)sysconf(_SC_PAGESIZE);
	*ret_resident = resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int add_process(struct buf *out)
{
	struct rusage ru = {0};
	struct rlimit files = {0};
	uint64_t size, resident;

	(void)getrusage(RUSAGE_SELF, &ru);
	(void)getrlimit(RLIMIT_NOFILE, &files);
	memory_of(&size, &resident);
	uint64_t cpu_us = (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * 1000000 +
			  (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec);
	int r = buf_addz(out,
		"# HELP process_cpu_seconds_total CPU time of the server itself.\n"
		"# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total ");
	if (r == 0)
		r = add_seconds(out, cpu_us);
	if (r == 0)
		r = add_plain(out, "process_resident_memory_bytes", "gauge", "Resident memory.",
			resident);
	if (r == 0)
		r = add_plain(out, "process_virtual_memory_bytes", "gauge", "Address space.", size);
	if (r == 0)
		r = add_plain(out, "process_open_fds", "gauge", "Open files.", open_files());
	if (r == 0)
		r = add_plain(out, "process_max_fds", "gauge", "Open files at most.",
			files.rlim_cur);
	return r < 0 ? r
		     : buf_addf(out,
			       "# HELP process_start_time_seconds When it began, since 1970.\n"
			       "# TYPE process_start_time_seconds gauge\n"
			       "process_start_time_seconds %.2f\n",
			       started_at());
}

int metrics_text(struct metrics *m, struct buf *out)
{
	int r = buf_addz(out, "# HELP cell_build_info The version that runs.\n"
			      "# TYPE cell_build_info gauge\n"
			      "cell_build_info{version=\"" CELL_VERSION "\"} 1\n");

	(void)pthread_mutex_lock(&m->lock);
	for (size_t i = 0; r == 0 && i < m->n; i++)
		r = add_family(out, &m->families[i]);
	if (r == 0)
		r = add_plain(out, "cell_metrics_dropped_total", "counter",
			"Values lost because there was no memory.", m->dropped);
	(void)pthread_mutex_unlock(&m->lock);
	return r < 0 ? r : add_process(out);
}
