/* SPDX-License-Identifier: Apache-2.0 */
/* audit_query.c: records that match; see audit.h. Lines are looked at as bytes first: most are
 * passed over without being parsed. */
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/globmatch.h"
#include "server/audit_file.h"
#include "server/clock.h"

struct query {
	const struct audit_filter *f;
	struct globmatch *action; /* NULL: any */
	audit_record_fn fn;
	void *user;
	uint64_t skip, seen; /* of those that match */
	bool is_counting;
};

static const char *text(json_t *record, const char *name)
{
	return json_string_value(json_object_get(record, name));
}

static bool is(json_t *record, const char *name, const char *wanted)
{
	const char *there = wanted ? text(record, name) : NULL;

	return !wanted || (there && !strcmp(there, wanted));
}

static bool is_in_time(const struct audit_filter *f, json_t *record)
{
	const char *when = text(record, "time");
	int64_t ns;

	if (!f->since_ns && !f->until_ns)
		return true;
	if (!when || clock_parse(when, &ns) < 0)
		return false;
	return (!f->since_ns || ns >= f->since_ns) && (!f->until_ns || ns < f->until_ns);
}

static bool matches(const struct audit_filter *f, struct globmatch *action, json_t *record)
{
	const char *name = text(record, "action");

	return (uint64_t)json_integer_value(json_object_get(record, "seq")) > f->after_seq &&
	       (!action || (name && globmatch_test(action, name))) &&
	       is(record, "tenant", f->tenant) && is(record, "actor", f->actor) &&
	       is(record, "session", f->session) && is(record, "backend", f->backend) &&
	       is(record, "exec", f->exec) && is(record, "request_id", f->request_id) &&
	       is(record, "trace", f->trace) && is(record, "kind", f->kind) &&
	       is(json_object_get(record, "decision"), "effect", f->effect) &&
	       is_in_time(f, record);
}

static void glob_freep(struct globmatch **g)
{
	globmatch_free(*g);
}

bool audit_matches(const struct audit_filter *filter, json_t *record)
{
	auto_(glob_freep) struct globmatch *action = NULL;

	if (filter->action && globmatch_new(filter->action, &action) < 0)
		return false;
	return matches(filter, action, record);
}

/* JSON writes these as they are, so they can be looked for as bytes. */
static bool is_plain(const char *s)
{
	return !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")];
}

static bool may_match(const struct audit_filter *f, const char *line, size_t len)
{
	const char *const words[] = {
		f->session, f->request_id, f->exec, f->trace, f->actor, f->tenant};
	struct audit_line l;

	if (f->after_seq && (audit_line_parse(line, len, &l) < 0 || l.seq <= f->after_seq))
		return false;
	for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
		if (words[i] && is_plain(words[i]) &&
			!memmem(line, len, words[i], strlen(words[i])))
			return false;
	return true;
}

static int take_line(struct query *q, const char *line, size_t len)
{
	int r = 0;

	if (!may_match(q->f, line, len))
		return 0;
	json_t *record = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(record) && matches(q->f, q->action, record)) {
		q->seen++;
		if (!q->is_counting && q->seen > q->skip)
			r = q->fn(record, line, len, q->user);
	}
	json_decref(record);
	return r;
}

static bool is_enough(const struct query *q)
{
	return !q->is_counting && q->f->limit && q->seen >= q->skip + q->f->limit;
}

static int walk_file(struct query *q, int dir_fd, uint64_t first)
{
	char name[AUDIT_NAME_MAX];
	auto_fd int fd = openat(dir_fd, audit_file_name(first, name), O_RDONLY | O_CLOEXEC);
	auto_audit_reader struct audit_reader reader = {.fd = fd};
	const char *line;
	size_t len;
	int r = 0;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno; /* removed as too old meanwhile */
	while (r == 0 && !is_enough(q)) {
		int got = audit_reader_next(&reader, &line, &len);
		if (got <= 0)
			return got == -EFBIG ? 0 : got;
		r = take_line(q, line, len);
	}
	return r;
}

static int walk(struct query *q, int dir_fd)
{
	auto_free uint64_t *files = NULL;
	size_t n = 0;
	int r = audit_files(dir_fd, &files, &n);

	q->seen = 0;
	for (size_t i = 0; r == 0 && i < n && !is_enough(q); i++)
		if (i + 1 == n || files[i + 1] > q->f->after_seq + 1)
			r = walk_file(q, dir_fd, files[i]);
	return r;
}

int audit_query(const char *dir, const struct audit_filter *filter, audit_record_fn fn, void *user,
	struct cell_error *err)
{
	struct query q = {.f = filter, .fn = fn, .user = user};
	auto_(glob_freep) struct globmatch *action = NULL;
	auto_fd int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = 0;

	if (dir_fd < 0)
		return cell_error_hint(err,
			cell_fail_errno(err, errno, "opening the audit log '%s'", dir),
			"`cell serve` makes it; --dir names another");
	if (filter->action && globmatch_new(filter->action, &action) < 0)
		return cell_fail(err, CELL_EINVAL, 0, "'%.60s' is no pattern for actions",
			filter->action);
	q.action = action;
	if (filter->last) {
		q.is_counting = true;
		r = walk(&q, dir_fd);
		q.is_counting = false;
		q.skip = q.seen > filter->last ? q.seen - filter->last : 0;
	}
	if (r == 0)
		r = walk(&q, dir_fd);
	/* What the caller's function says is the caller's to explain. */
	return r == -ENOMEM ? cell_fail(err, CELL_ENOSPACE, ENOMEM, "reading the audit log") : r;
}
