/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.c: wraps any back end and writes a line for each call: what was asked, what came back, how long it
 * took. To the file named by CELL_TRACE (added to), or to stderr. Values of the environment are never written.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <time.h>

#include "cell/cell.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/backend.h"

struct line {
	struct buf text;
	struct timespec start;
};

static void begin(struct line *l, const struct cell *c, const char *slot)
{
	*l = (struct line){.text = BUF_INIT(16384)};
	(void)clock_gettime(CLOCK_MONOTONIC, &l->start);
	(void)buf_addf(&l->text, "trace pid=%d cell=%s backend=%s call=%s", (int)getpid(),
		cell_name(c), cell_next(c)->name, slot);
}

/* key="value", with everything that could break the line escaped. */
static void quoted(struct line *l, const char *key, const char *value)
{
	if (!value)
		return;
	(void)buf_addf(&l->text, " %s=\"", key);
	for (const unsigned char *p = (const unsigned char *)value; *p; p++) {
		if (*p == '"' || *p == '\\')
			(void)buf_addf(&l->text, "\\%c", *p);
		else if (*p < ' ' || *p == 127)
			(void)buf_addf(&l->text, "\\x%02x", *p);
		else
			(void)buf_addc(&l->text, (char)*p);
	}
	(void)buf_addc(&l->text, '"');
}

static void number(struct line *l, const char *key, uint64_t value)
{
	if (value)
		(void)buf_addf(&l->text, " %s=%" PRIu64, key, value);
}

/* One write, so that lines of several processes do not mix. */
static void put(struct line *l)
{
	const char *path = getenv("CELL_TRACE");
	auto_fd int file =
		path && *path
			? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600)
			: -1;

	(void)buf_addc(&l->text, '\n');
	if (write(file >= 0 ? file : STDERR_FILENO, buf_str(&l->text), l->text.len) < 0)
		(void)0; /* tracing must not fail what it traces */
	buf_done(&l->text);
}

static int end(struct line *l, int r, const struct cell_error *err)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t us = (int64_t)(now.tv_sec - l->start.tv_sec) * 1000000 +
		     (now.tv_nsec - l->start.tv_nsec) / 1000;
	(void)buf_addf(&l->text, " result=%d duration_us=%" PRId64, r, us);
	if (r < 0 && err && err->code) {
		(void)buf_addf(&l->text, " code=%s", cell_code_name(err->code));
		quoted(l, "error", err->msg);
	}
	put(l);
	return r;
}

static void trace_probe(struct cell_probe *p)
{
	(void)p;
}

static size_t count(const char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

static int trace_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	struct cell_error own = {0};
	struct line l;

	begin(&l, c, "create");
	quoted(&l, "name", spec->name);
	quoted(&l, "workspace", spec->workspace);
	quoted(&l, "root", spec->root);
	quoted(&l, "image", spec->image);
	quoted(&l, "from", spec->from);
	quoted(&l, "user", spec->user);
	number(&l, "tier", (uint64_t)spec->tier);
	number(&l, "timeout_ms", spec->timeout_ms);
	number(&l, "memory_bytes", spec->limits.memory_bytes);
	number(&l, "cpu_millis", spec->limits.cpu_millis);
	number(&l, "pids", spec->limits.pids);
	number(&l, "files", spec->limits.files);
	number(&l, "file_size_bytes", spec->limits.file_size_bytes);
	number(&l, "process_memory_bytes", spec->limits.process_memory_bytes);
	number(&l, "cpu_time_s", spec->limits.cpu_time_s);
	number(&l, "mounts", spec->n_mounts);
	number(&l, "env", count(spec->env));
	int r = end(&l, cell_next_create(c, spec, &own), &own);
	if (r < 0 && err)
		*err = own;
	return r;
}

static int trace_open_guest(struct cell *c, struct cell_error *err)
{
	struct cell_error own = {0};
	struct line l;

	begin(&l, c, "open_guest");
	int r = end(&l, cell_next_open_guest(c, &own), &own);
	if (r < 0 && err)
		*err = own;
	return r;
}

static int trace_destroy(struct cell *c, struct cell_error *err)
{
	struct cell_error own = {0};
	struct line l;

	begin(&l, c, "destroy");
	int r = end(&l, cell_next_destroy(c, &own), &own);
	if (r < 0 && err)
		*err = own;
	return r;
}

static bool trace_is_alive(struct cell *c)
{
	struct line l;

	begin(&l, c, "is_alive");
	return end(&l, cell_next_is_alive(c), NULL) != 0;
}

static void trace_detach(struct cell *c)
{
	struct line l;

	begin(&l, c, "detach");
	cell_next_detach(c);
	(void)end(&l, 0, NULL);
}

static int trace_shelf(struct cell *c, const struct cell_spec *spec, unsigned n,
	struct cell_error *err)
{
	struct cell_error own = {0};
	struct line l;

	begin(&l, c, "shelf");
	number(&l, "n", n);
	int r = end(&l, cell_next_shelf(c, spec, n, &own), &own);
	if (r < 0 && err)
		*err = own;
	return r;
}

static int trace_pause(struct cell *c, bool is_on, struct cell_error *err)
{
	struct cell_error own = {0};
	struct line l;

	begin(&l, c, "pause");
	quoted(&l, "to", is_on ? "on" : "off");
	int r = end(&l, cell_next_pause(c, is_on, &own), &own);
	if (r < 0 && err)
		*err = own;
	return r;
}

static int trace_stats(struct cell *c, struct cell_stats *ret, struct cell_error *err)
{
	struct cell_error own = {0};
	struct line l;

	begin(&l, c, "stats");
	int r = end(&l, cell_next_stats(c, ret, &own), &own);
	if (own.code && err) /* or the guest is to be asked */
		*err = own;
	return r;
}

static int trace_snapshot(struct cell *c, const char *id, unsigned *ret_apart,
	struct cell_error *err)
{
	struct cell_error own = {0};
	struct line l;

	begin(&l, c, "snapshot");
	quoted(&l, "id", id);
	int r = end(&l, cell_next_snapshot(c, id, ret_apart, &own), &own);
	if (r < 0 && err)
		*err = own;
	return r;
}

static int trace_forget(struct cell *c, const char *id, struct cell_error *err)
{
	struct cell_error own = {0};
	struct line l;

	begin(&l, c, "forget");
	quoted(&l, "id", id);
	int r = end(&l, cell_next_forget(c, id, &own), &own);
	if (r < 0 && err)
		*err = own;
	return r;
}

const struct cell_backend cell_backend_trace = {
	.name = "trace",
	.summary = "wrapper: writes a line for each call of another back end",
	.wall = "That of the back end it wraps.",
	.caps = ~(cell_caps)0,
	.is_wrapper = true,
	.probe = trace_probe,
	.create = trace_create,
	.open_guest = trace_open_guest,
	.destroy = trace_destroy,
	.is_alive = trace_is_alive,
	.shelf = trace_shelf,
	.detach = trace_detach,
	.pause = trace_pause,
	.stats = trace_stats,
	.snapshot = trace_snapshot,
	.forget = trace_forget,
};
