/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_open.c: taking up a log where the last writer left it. A crash leaves at most the
 * beginning of a record at the end (put aside) and a head that is one record behind (fine).
 * Everything else is a loss that the next record tells of, so that `verify` finds it whatever is
 * written later.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "server/audit_writer.h"
#include "server/clock.h"
#include "server/hash.h"

#define DEFAULT_FILE_BYTES (UINT64_C(64) << 20)
#define DEFAULT_FILE_AGE_S 86400
#define LOCK_PAUSE_NS	   (20 * 1000000)
#define LOCK_TRIES	   250 /* 5 s */

/* What has to be said once the log is open. */
struct findings {
	uint64_t torn_bytes;
	char torn_name[AUDIT_NAME_MAX];
	const char *gap; /* why records are missing or not vouched for; NULL: none are */
	uint64_t lost_from, lost_to;
	uint64_t unvouched; /* records that a power cut left behind the head */
};

/* The whole key appears at once or not at all: a server killed while it writes must not leave half
 * of one, with which no other would start. Whoever makes a key holds the lock of the log, so the
 * name beside it is nobody else's. */
static int write_key(const char *path, const char *text, size_t len, struct cell_error *err)
{
	char temp[PATH_MAX];

	if (snprintf(temp, sizeof temp, "%s.new", path) >= (int)sizeof temp)
		return cell_fail(err, CELL_EINVAL, 0, "the audit key's path is too long");
	auto_fd int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return cell_fail_errno(err, errno, "making the audit key '%s'", temp);
	ssize_t n = write(fd, text, len);
	if (n == (ssize_t)len && fchmod(fd, 0600) == 0 && fsync(fd) == 0 && link(temp, path) == 0) {
		(void)unlink(temp);
		return 0;
	}
	int r = cell_fail_errno(err, n < 0 || n == (ssize_t)len ? errno : ENOSPC,
		"writing the audit key '%s'", path);
	(void)unlink(temp);
	return r;
}

/* The head is there before the key is: from then on a key without a head means that somebody
 * removed it. */
static int make_key(struct audit *a, const char *path, struct cell_error *err)
{
	char text[2 * AUDIT_KEY_BYTES + 2];

	int r = hash_random(a->key, AUDIT_KEY_BYTES);
	if (r < 0)
		return cell_fail(err, CELL_EBACKEND, -r, "making a key: no random bytes");
	r = audit_write_head(a, err);
	if (r < 0)
		return r;
	hash_hex(a->key, AUDIT_KEY_BYTES, text);
	text[sizeof text - 2] = '\n';
	r = write_key(path, text, sizeof text - 1, err);
	explicit_bzero(text, sizeof text);
	return r;
}

static int check_key_mode(const char *path, struct cell_error *err)
{
	struct stat st;

	if (stat(path, &st) < 0)
		return cell_fail_errno(err, errno, "looking at the audit key '%s'", path);
	if (st.st_mode & 077)
		return cell_error_hint(err,
			cell_fail(err, CELL_EDENIED, 0, "others may read the audit key '%s'", path),
			"whoever knows it can forge the log: `chmod 600` it");
	return 0;
}

static int take_key(struct audit *a, const char *path, bool is_new, struct cell_error *err)
{
	int r = audit_key_read(path, a->key);

	if (r == 0)
		return check_key_mode(path, err);
	if (r == -ENOENT && is_new)
		return make_key(a, path, err);
	if (r == -ENOENT)
		return cell_error_hint(err,
			cell_fail(err, CELL_ENOTFOUND, 0,
				"the audit log in '%s' has records, but its key '%s' is gone",
				a->dir, path),
			"bring the key back, or move the log away so that a new one begins");
	if (r == -EBADMSG)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "'%s' is no audit key", path),
			"it has 64 hex digits; bring the right one back");
	return cell_fail_errno(err, -r, "reading the audit key '%s'", path);
}

/* A server that was killed while it started a process leaves that one with a copy of the lock, until it becomes the program it was started for:
 * that is soon, but the next server may be sooner. */
static int take_lock(int fd)
{
	const struct timespec pause = {.tv_nsec = LOCK_PAUSE_NS};
	int r = flock(fd, LOCK_EX | LOCK_NB);

	for (int i = 0; i < LOCK_TRIES && r < 0 && errno == EWOULDBLOCK; i++) {
		(void)nanosleep(&pause, NULL);
		r = flock(fd, LOCK_EX | LOCK_NB);
	}
	return r;
}

static int open_dir(struct audit *a, struct cell_error *err)
{
	if (mkdir(a->dir, 0700) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "making '%s'", a->dir);
	a->dir_fd = open(a->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->dir_fd < 0)
		return cell_fail_errno(err, errno, "opening '%s'", a->dir);
	a->lock_fd = openat(a->dir_fd, AUDIT_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (a->lock_fd < 0)
		return cell_fail_errno(err, errno, "opening '%s/%s'", a->dir, AUDIT_LOCK);
	if (take_lock(a->lock_fd) < 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_EBUSY, 0,
				"another process writes the audit log in '%s'", a->dir),
			"one chain has one writer: is another server running on this state "
			"directory?");
	a->head_fd = openat(a->dir_fd, AUDIT_HEAD, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return a->head_fd < 0 ? cell_fail_errno(err, errno, "opening %s", AUDIT_HEAD) : 0;
}

/* The beginning of a record behind the last newline goes into a file of its own. */
static int put_aside(struct audit *a, const char *from, size_t n, struct findings *f,
	struct cell_error *err)
{
	(void)snprintf(f->torn_name, sizeof f->torn_name, "torn-%" PRId64, clock_unix_ns());
	auto_fd int fd =
		openat(a->dir_fd, f->torn_name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return cell_fail_errno(err, errno, "making '%s'", f->torn_name);
	if (write(fd, from, n) != (ssize_t)n)
		return cell_fail_errno(err, errno ? errno : ENOSPC, "writing '%s'", f->torn_name);
	f->torn_bytes = n;
	return 0;
}

static int damaged(const struct audit *a, uint64_t first, struct cell_error *err)
{
	char name[AUDIT_NAME_MAX];

	return cell_error_hint(err,
		cell_fail(err, CELL_EINTERNAL, EUCLEAN, "the last line of '%s/%s' is no record",
			a->dir, audit_file_name(first, name)),
		"`cell audit verify` says more; keep the directory as evidence and begin a new log "
		"in "
		"another (server.audit.dir)");
}

/* The last whole record of the open file; 0: it has none, 1: it has. */
static int read_end(struct audit *a, struct findings *f, struct cell_error *err)
{
	struct stat st;

	if (fstat(a->fd, &st) < 0)
		return cell_fail_errno(err, errno, "looking at the audit log");
	size_t want = 2 * (AUDIT_RECORD_MAX + 512);
	size_t n = (uint64_t)st.st_size < want ? (size_t)st.st_size : want;
	auto_free char *end = malloc(n + 1);
	if (!end)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "reading the audit log");
	if (pread(a->fd, end, n, st.st_size - (off_t)n) != (ssize_t)n)
		return cell_fail_errno(err, errno ? errno : EIO, "reading the audit log");
	const char *newline = memrchr(end, '\n', n);
	size_t whole = newline ? (size_t)(newline + 1 - end) : 0;
	a->size = (uint64_t)st.st_size - (n - whole);
	if (!newline && n == want)
		return damaged(a, a->file_first, err);
	if (whole < n) {
		int r = put_aside(a, end + whole, n - whole, f, err);
		if (r == 0 && ftruncate(a->fd, (off_t)a->size) < 0)
			r = cell_fail_errno(err, errno, "cutting off a torn record");
		if (r < 0)
			return r;
	}
	if (!whole)
		return 0;
	const char *before = whole > 1 ? memrchr(end, '\n', whole - 1) : NULL;
	const char *line = before ? before + 1 : end;
	struct audit_line l;
	char hash[AUDIT_HASH_TEXT];
	if ((!before && n == want) || audit_line_parse(line, (size_t)(newline - line), &l) < 0)
		return damaged(a, a->file_first, err);
	audit_hash(line, l.hashed, hash);
	if (memcmp(hash, l.hash, AUDIT_HASH_TEXT - 1) != 0)
		return damaged(a, a->file_first, err);
	a->seq = l.seq;
	memcpy(a->hash, hash, sizeof hash);
	return 1;
}

/* Find the last record, beginning with the newest file. */
static int find_end(struct audit *a, const uint64_t *files, size_t n, struct findings *f,
	struct cell_error *err)
{
	char name[AUDIT_NAME_MAX];

	for (size_t i = n; i > 0; i--) {
		int fd = openat(a->dir_fd, audit_file_name(files[i - 1], name),
			O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
		if (fd < 0)
			return cell_fail_errno(err, errno, "opening '%s'", name);
		if (a->fd >= 0)
			close(a->fd);
		a->fd = fd;
		a->file_first = files[i - 1];
		a->file_began_ns = clock_unix_ns();
		int r = read_end(a, f, err);
		if (r < 0)
			return r;
		if (r > 0)
			return 0;
		/* Made, but nothing written: the crash came first. It will be made again. */
		(void)unlinkat(a->dir_fd, name, 0);
	}
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
	a->size = 0;
	return 0;
}

/* Is the end that was found the end that was written? */
static void judge_head(struct audit *a, struct findings *f)
{
	struct audit_mark head;
	int r = audit_mark_read(a->dir_fd, AUDIT_HEAD, a->key, &head);

	if (r < 0) {
		f->gap = "the head is missing or was not written by this server";
	} else if (head.seq > a->seq) {
		f->gap = strcmp(head.boot, a->boot) != 0
				 ? "the last records are gone; the machine was restarted since"
				 : "the last records are gone";
		f->lost_from = a->seq + 1;
		f->lost_to = head.seq;
	} else if (head.seq == a->seq) {
		if (strcmp(head.hash, a->hash) != 0)
			f->gap = "the last record is not the one that was written";
	} else if (a->seq - head.seq > 1) {
		if (strcmp(head.boot, a->boot) != 0)
			f->unvouched = a->seq - head.seq;
		else
			f->gap = "records stand behind the head that this server did not finish";
	}
}

static int tell(struct audit *a, const char *action, json_t *details, uint64_t seq,
	struct cell_error *err)
{
	struct audit_event e = {
		.kind = AUDIT_RESULT, .action = action, .actor = "server", .details = details};
	int r = details ? audit_put(a, &e, seq, err)
			: cell_fail(err, CELL_ENOSPACE, ENOMEM, "opening the audit log");

	json_decref(details);
	return r;
}

static int tell_findings(struct audit *a, const struct findings *f, struct cell_error *err)
{
	int r = 0;

	/* The gap first: its number says what is lost. */
	if (f->gap)
		r = tell(a, "audit.gap",
			json_pack("{s:s, s:I, s:I}", "reason", f->gap, "lost_from",
				(json_int_t)f->lost_from, "lost_to", (json_int_t)f->lost_to),
			f->lost_to ? f->lost_to + 1 : a->seq + 1, err);
	if (r == 0 && f->torn_bytes)
		r = tell(a, "audit.repair",
			json_pack("{s:s, s:I}", "file", f->torn_name, "bytes",
				(json_int_t)f->torn_bytes),
			a->seq + 1, err);
	if (r == 0 && f->unvouched)
		r = tell(a, "audit.recovered",
			json_pack("{s:I}", "records", (json_int_t)f->unvouched), a->seq + 1, err);
	return r;
}

static int open_log(struct audit *a, const char *key_path, struct cell_error *err)
{
	auto_free uint64_t *files = NULL;
	size_t n = 0;
	struct findings f = {0};

	int r = open_dir(a, err);
	if (r < 0)
		return r;
	r = audit_files(a->dir_fd, &files, &n);
	if (r < 0)
		return cell_fail_errno(err, -r, "listing '%s'", a->dir);
	r = take_key(a, key_path, n == 0, err);
	if (r == 0)
		r = find_end(a, files, n, &f, err);
	if (r < 0)
		return r;
	judge_head(a, &f);
	r = tell_findings(a, &f, err);
	return r < 0 ? r : audit_write_head(a, err);
}

int audit_open(const struct audit_settings *settings, struct audit **ret, struct cell_error *err)
{
	struct audit *a = calloc(1, sizeof *a);

	if (!a)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "opening the audit log");
	a->settings = *settings;
	a->settings.dir = a->settings.key_path = NULL;
	if (!a->settings.file_bytes)
		a->settings.file_bytes = DEFAULT_FILE_BYTES;
	if (!a->settings.file_age_s)
		a->settings.file_age_s = DEFAULT_FILE_AGE_S;
	a->fd = a->dir_fd = a->lock_fd = a->head_fd = -1;
	memcpy(a->hash, AUDIT_NO_HASH, sizeof a->hash);
	(void)pthread_mutex_init(&a->lock, NULL);
	audit_boot(a->boot);
	a->dir = strdup(settings->dir);
	int r = a->dir ? open_log(a, settings->key_path, err)
		       : cell_fail(err, CELL_ENOSPACE, ENOMEM, "opening the audit log");
	if (r < 0) {
		audit_free(a);
		return r;
	}
	*ret = a;
	return 0;
}
