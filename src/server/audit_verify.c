/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_verify.c: reading the whole chain again; see audit.h.
 *
 * The head is read before and after the records: what it named before must be there, and what
 * stands behind the head of afterwards was not vouched for by the writer, but for the one record
 * it may be about to vouch for.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "server/audit_file.h"

#define TRIES	   3
#define HEAD_TRIES 5

struct walk {
	int dir_fd;
	struct audit_verdict *v;
	bool allow_gaps, has_key, is_started;
	uint8_t key[AUDIT_KEY_BYTES];
	struct audit_mark head, anchor;
	int head_is, anchor_is;				     /* what reading them said */
	uint64_t seq;					     /* of the last record seen */
	char hash[AUDIT_HASH_TEXT], before[AUDIT_HASH_TEXT]; /* of it, and of the one before */
	char file[AUDIT_NAME_MAX];
	uint64_t line;
	bool is_cut; /* the last file ends within a record */
};

/* Only the first thing that is wrong is kept. */
__attribute__((format(printf, 3, 4))) static void wrong(struct walk *w, uint64_t seq,
	const char *fmt, ...)
{
	va_list ap;

	if (*w->v->reason)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(w->v->reason, sizeof w->v->reason, fmt, ap);
	va_end(ap);
	memcpy(w->v->file, w->file, sizeof w->v->file);
	w->v->line = w->line;
	w->v->seq = seq;
}

/* Is the first record there is also the first there should be? */
static void check_beginning(struct walk *w, const struct audit_line *l)
{
	if (l->seq == 1) {
		if (memcmp(l->prev, AUDIT_NO_HASH, AUDIT_HASH_TEXT - 1) != 0)
			wrong(w, 1, "the first record follows another");
		return;
	}
	if (!w->has_key)
		return;
	if (w->anchor_is < 0)
		wrong(w, l->seq - 1,
			"the log begins with record %" PRIu64 ", and no anchor says why", l->seq);
	else if (l->seq > w->anchor.seq)
		wrong(w, w->anchor.seq,
			"records %" PRIu64 " to %" PRIu64 " are missing at the beginning",
			w->anchor.seq, l->seq - 1);
}

/* The writer's own remarks. */
static void check_remark(struct walk *w, const char *line, size_t len, const struct audit_line *l,
	uint64_t expected)
{
	static const char word[] = "\"action\":\"audit.";
	json_int_t from = 0, to = 0;
	const char *action = NULL, *reason = NULL;
	json_t *record = NULL;

	if (memmem(line, len, word, sizeof word - 1))
		record = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	if (record)
		(void)json_unpack(record, "{s:s, s?{s?s, s?I, s?I}}", "action", &action, "details",
			"reason", &reason, "lost_from", &from, "lost_to", &to);
	bool is_gap = action && !strcmp(action, "audit.gap");
	if (action && !strcmp(action, "audit.repair"))
		w->v->repairs++;
	if (is_gap) {
		w->v->gaps++;
		if (!w->allow_gaps)
			wrong(w, from > 0 ? (uint64_t)from : l->seq,
				"the server found on its start: %.120s", reason ? reason : "a gap");
	}
	if (l->seq != expected &&
		!(is_gap && from >= 0 && (uint64_t)from == expected && (uint64_t)to + 1 == l->seq))
		wrong(w, expected,
			l->seq > expected ? "record %" PRIu64 " is missing; here stands %" PRIu64
					  : "record %" PRIu64 " should stand here, not %" PRIu64,
			expected, l->seq);
	json_decref(record);
}

static void check_line(struct walk *w, const char *line, size_t len)
{
	struct audit_line l;
	char hash[AUDIT_HASH_TEXT];

	if (audit_line_parse(line, len, &l) < 0) {
		wrong(w, w->seq + 1, "this line is no record");
		return;
	}
	audit_hash(line, l.hashed, hash);
	if (memcmp(hash, l.hash, AUDIT_HASH_TEXT - 1) != 0) {
		wrong(w, l.seq, "the record was changed: its hash is not that of its bytes");
		return;
	}
	if (!w->is_started) {
		check_beginning(w, &l);
		w->v->first_seq = l.seq;
	}
	check_remark(w, line, len, &l, w->is_started ? w->seq + 1 : l.seq);
	if (w->is_started && memcmp(l.prev, w->hash, AUDIT_HASH_TEXT - 1) != 0)
		wrong(w, l.seq, "the record does not follow the one before it");
	if (w->has_key && w->anchor_is == 0 && l.seq == w->anchor.seq &&
		memcmp(l.prev, w->anchor.hash, AUDIT_HASH_TEXT - 1) != 0)
		wrong(w, l.seq, "the log does not begin where the anchor says");
	if (w->has_key && w->head_is == 0 && l.seq == w->head.seq &&
		strcmp(hash, w->head.hash) != 0)
		wrong(w, l.seq, "the record is not the one the server wrote");
	w->is_started = true;
	w->seq = l.seq;
	memcpy(w->before, l.prev, sizeof hash - 1);
	memcpy(w->hash, hash, sizeof hash);
	w->v->records++;
}

static int check_file(struct walk *w, uint64_t first, bool is_last)
{
	auto_fd int fd = openat(w->dir_fd, audit_file_name(first, w->file), O_RDONLY | O_CLOEXEC);
	auto_audit_reader struct audit_reader reader = {.fd = fd};
	const char *line;
	size_t len;
	int r;

	if (fd < 0)
		return -errno;
	w->v->files++;
	while ((r = audit_reader_next(&reader, &line, &len)) > 0 && !*w->v->reason) {
		w->line = reader.line;
		check_line(w, line, len);
		if (reader.line == 1 && w->seq != first)
			wrong(w, first, "the file should begin with record %" PRIu64, first);
	}
	if (*w->v->reason)
		return 0;
	w->line = reader.line + 1;
	if (r == -EFBIG)
		wrong(w, w->seq + 1, "this line is longer than any record");
	else if (r < 0)
		return r;
	if (r == 0 && reader.is_cut && !is_last)
		wrong(w, w->seq + 1, "the file ends within a record");
	w->is_cut = r == 0 && reader.is_cut;
	return 0;
}

/* Is the end the end? `after` is the head as it is now. */
static void check_end(struct walk *w, const struct audit_mark *after)
{
	(void)snprintf(w->file, sizeof w->file, "%s", AUDIT_HEAD);
	w->line = 0;
	if (w->head_is < 0) {
		wrong(w, 0, "the head is missing or was not written by this server");
	} else if (w->head.seq > w->seq) {
		wrong(w, w->seq + 1, "records %" PRIu64 " to %" PRIu64 " are missing at the end",
			w->seq + 1, w->head.seq);
	} else if (w->seq > after->seq + 1) {
		wrong(w, after->seq + 1,
			"records from %" PRIu64 " on were not written by the server",
			after->seq + 1);
	} else if ((after->seq == w->seq && strcmp(after->hash, w->hash) != 0) ||
		   (after->seq + 1 == w->seq && strcmp(after->hash, w->before) != 0)) {
		wrong(w, after->seq, "the last record is not the one the server wrote");
	}
}

/* A writer may be at it: then what was read is half old and half new. */
static int read_head(struct walk *w, struct audit_mark *ret)
{
	int r = -EBADMSG;

	for (int i = 0; i < HEAD_TRIES && r == -EBADMSG; i++) {
		if (i)
			(void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		r = audit_mark_read(w->dir_fd, AUDIT_HEAD, w->key, ret);
	}
	return r;
}

static int look(struct walk *w)
{
	auto_free uint64_t *files = NULL;
	struct audit_mark after = {0};
	size_t n = 0;

	if (w->has_key) {
		w->head_is = read_head(w, &w->head);
		w->anchor_is = audit_mark_read(w->dir_fd, AUDIT_ANCHOR, w->key, &w->anchor);
		if (w->anchor_is == -EBADMSG) {
			(void)snprintf(w->file, sizeof w->file, "%s", AUDIT_ANCHOR);
			wrong(w, 0, "the anchor was not written by this server");
			return 0;
		}
	}
	int r = audit_files(w->dir_fd, &files, &n);
	for (size_t i = 0; r == 0 && i < n && !*w->v->reason; i++)
		r = check_file(w, files[i], i + 1 == n);
	if (r < 0 || *w->v->reason)
		return r;
	w->v->last_seq = w->seq;
	w->v->is_head_known = w->has_key;
	if (w->has_key) {
		if (read_head(w, &after) < 0)
			after = w->head;
		check_end(w, &after);
	}
	return 0;
}

int audit_verify(const char *dir, const char *key_path, bool allow_gaps, struct audit_verdict *ret,
	struct cell_error *err)
{
	auto_fd int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = -ENOENT;

	if (dir_fd < 0)
		return cell_fail_errno(err, errno, "opening the audit log '%s'", dir);
	/* Old files may be removed while we read: then begin again. */
	for (int i = 0; i < TRIES && r == -ENOENT; i++) {
		struct walk w = {.dir_fd = dir_fd,
			.v = ret,
			.allow_gaps = allow_gaps,
			.hash = AUDIT_NO_HASH};

		*ret = (struct audit_verdict){0};
		if (key_path) {
			r = audit_key_read(key_path, w.key);
			if (r < 0)
				return cell_error_hint(err,
					cell_fail_errno(err, -r, "reading the audit key '%s'",
						key_path),
					"without it only the links between records can be checked: "
					"--no-key");
			w.has_key = true;
		}
		r = look(&w);
		explicit_bzero(w.key, sizeof w.key);
	}
	return r < 0 ? cell_fail_errno(err, -r, "reading the audit log '%s'", dir) : 0;
}
