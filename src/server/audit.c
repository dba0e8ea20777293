/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c: the writer; see audit.h. What it finds at the start is judged in audit_open.c. */
#include "server/audit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "base/newfile.h"
#include "server/audit_writer.h"
#include "server/clock.h"

int audit_write_head(struct audit *a, struct cell_error *err)
{
	struct audit_mark m = {.seq = a->seq};
	char text[AUDIT_MARK_MAX + 1];

	memcpy(m.hash, a->hash, sizeof m.hash);
	memcpy(m.boot, a->boot, sizeof m.boot);
	audit_mark_format(&m, AUDIT_HEAD, a->key, text);
	if (pwrite(a->head_fd, text, AUDIT_MARK_MAX, 0) != AUDIT_MARK_MAX)
		return cell_fail_errno(err, errno ? errno : EIO, "writing %s", AUDIT_HEAD);
	return 0;
}

int audit_new_file(struct audit *a, struct cell_error *err)
{
	char name[AUDIT_NAME_MAX];
	int fd = openat(a->dir_fd, audit_file_name(a->seq + 1, name),
		O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return cell_fail_errno(err, errno, "making '%s'", name);
	if (a->fd >= 0) {
		if (a->settings.sync != AUDIT_SYNC_NEVER)
			(void)fdatasync(a->fd);
		close(a->fd);
	}
	a->fd = fd;
	a->size = 0;
	a->file_first = a->seq + 1;
	a->file_began_ns = 0;
	(void)fsync(a->dir_fd);
	return 0;
}

static bool is_full(const struct audit *a, int64_t now_ns)
{
	return a->size &&
	       (a->size >= a->settings.file_bytes ||
		       now_ns - a->file_began_ns >= (int64_t)a->settings.file_age_s * NS_PER_S);
}

/* One call for the whole record. A part that did get there is taken back: the next record must
 * not follow it. */
static int append(struct audit *a, const struct buf *line, struct cell_error *err)
{
	struct iovec v = {.iov_base = line->data, .iov_len = line->len};
	ssize_t n;

	do
		n = writev(a->fd, &v, 1);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)line->len)
		return 0;
	int saved = n < 0 ? errno : ENOSPC;
	if (n > 0 && ftruncate(a->fd, (off_t)a->size) < 0)
		a->is_torn = true; /* what stands there must go first */
	return cell_error_hint(err,
		cell_fail_errno(err, saved, "writing the audit log in '%s'", a->dir),
		"nothing is done that cannot be recorded: make room, or choose server.audit.dir");
}

/* A record that could not be taken back before: try again. */
static int untear(struct audit *a, struct cell_error *err)
{
	if (!a->is_torn)
		return 0;
	if (ftruncate(a->fd, (off_t)a->size) < 0)
		return cell_fail_errno(err, errno, "repairing the audit log in '%s'", a->dir);
	a->is_torn = false;
	return 0;
}

int audit_put(struct audit *a, const struct audit_event *event, uint64_t seq,
	struct cell_error *err)
{
	auto_buf struct buf line = BUF_INIT(AUDIT_RECORD_MAX + 512);
	int64_t now_ns = clock_unix_ns();
	char hash[AUDIT_HASH_TEXT];

	int r = untear(a, err);
	if (r == 0 && (a->fd < 0 || is_full(a, now_ns)))
		r = audit_new_file(a, err);
	if (r < 0)
		return r;
	memcpy(hash, a->hash, sizeof hash);
	r = audit_record_write(event, a->settings.redact, seq, now_ns, hash, &line);
	if (r < 0)
		return cell_fail(err, CELL_ENOSPACE, -r, "writing down '%s'", event->action);
	r = append(a, &line, err);
	if (r < 0)
		return r;
	a->seq = seq;
	memcpy(a->hash, hash, sizeof hash);
	a->file_began_ns = a->size ? a->file_began_ns : now_ns;
	a->size += line.len;
	if (a->settings.sync == AUDIT_SYNC_ALWAYS && fdatasync(a->fd) < 0)
		return cell_fail_errno(err, errno, "syncing the audit log in '%s'", a->dir);
	a->is_dirty = a->settings.sync == AUDIT_SYNC_SECOND;
	return audit_write_head(a, err);
}

int audit_write(struct audit *a, const struct audit_event *event, uint64_t *ret_seq,
	struct cell_error *err)
{
	(void)pthread_mutex_lock(&a->lock);
	int r = audit_put(a, event, a->seq + 1, err);
	if (r == 0 && ret_seq)
		*ret_seq = a->seq;
	(void)pthread_mutex_unlock(&a->lock);
	return r;
}

uint64_t audit_last_seq(struct audit *a)
{
	(void)pthread_mutex_lock(&a->lock);
	uint64_t seq = a->seq;
	(void)pthread_mutex_unlock(&a->lock);
	return seq;
}

/* How many of the oldest files are to go; the one being written stays. */
static size_t too_old(struct audit *a, const uint64_t *files, size_t n, int64_t now_ns)
{
	uint64_t total = 0;
	size_t gone = 0;
	struct stat st;
	char name[AUDIT_NAME_MAX];

	for (size_t i = 0; i < n; i++)
		if (fstatat(a->dir_fd, audit_file_name(files[i], name), &st, 0) == 0)
			total += (uint64_t)st.st_size;
	while (gone + 1 < n &&
		fstatat(a->dir_fd, audit_file_name(files[gone], name), &st, 0) == 0) {
		int64_t age_s = now_ns / NS_PER_S - st.st_mtim.tv_sec;
		bool is_old = a->settings.keep_age_s && age_s > (int64_t)a->settings.keep_age_s;
		bool is_much = a->settings.keep_bytes && total > a->settings.keep_bytes;
		if (!is_old && !is_much)
			break;
		total -= (uint64_t)st.st_size;
		gone++;
	}
	return gone;
}

/* What the first record of a file follows. */
static int prev_of(struct audit *a, uint64_t first, char ret[AUDIT_HASH_TEXT])
{
	char name[AUDIT_NAME_MAX];
	auto_fd int fd = openat(a->dir_fd, audit_file_name(first, name), O_RDONLY | O_CLOEXEC);
	auto_audit_reader struct audit_reader reader = {.fd = fd};
	struct audit_line l;
	const char *line;
	size_t len;

	if (fd < 0)
		return -errno;
	int r = audit_reader_next(&reader, &line, &len);
	if (r <= 0 || audit_line_parse(line, len, &l) < 0 || l.seq != first)
		return r < 0 ? r : -EBADMSG;
	memcpy(ret, l.prev, AUDIT_HASH_TEXT - 1);
	ret[AUDIT_HASH_TEXT - 1] = '\0';
	return 0;
}

static int write_anchor(struct audit *a, const struct audit_mark *m, struct cell_error *err)
{
	char text[AUDIT_MARK_MAX + 1];
	struct newfile f = NEWFILE_INIT;

	audit_mark_format(m, AUDIT_ANCHOR, a->key, text);
	int r = newfile_open(&f, a->dir_fd);
	if (r == 0 && write(f.fd, text, AUDIT_MARK_MAX) != AUDIT_MARK_MAX)
		r = errno ? -errno : -EIO;
	if (r == 0 && fsync(f.fd) < 0)
		r = -errno;
	if (r == 0)
		r = newfile_commit(&f, AUDIT_ANCHOR, true);
	newfile_done(&f);
	return r < 0 ? cell_fail_errno(err, -r, "writing %s", AUDIT_ANCHOR) : 0;
}

/* First the record that says so, then the mark where the chain begins now, then the files: a
 * crash at any point leaves a log that verifies. */
static int remove_files(struct audit *a, const uint64_t *files, size_t gone, struct cell_error *err)
{
	struct audit_mark m = {.seq = files[gone]};
	char name[AUDIT_NAME_MAX];

	int r = prev_of(a, files[gone], m.hash);
	if (r < 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINTERNAL, -r, "reading '%s' to remove older files",
				audit_file_name(files[gone], name)),
			"run `cell audit verify`");
	memcpy(m.boot, a->boot, sizeof m.boot);
	json_t *details = json_pack("{s:I, s:I, s:I}", "files", (json_int_t)gone, "from_seq",
		(json_int_t)files[0], "first_kept_seq", (json_int_t)files[gone]);
	struct audit_event e = {.kind = AUDIT_RESULT,
		.action = "audit.retention",
		.actor = "server",
		.details = details};
	r = details ? audit_put(a, &e, a->seq + 1, err)
		    : cell_fail(err, CELL_ENOSPACE, ENOMEM, "removing old audit files");
	json_decref(details);
	if (r == 0)
		r = write_anchor(a, &m, err);
	for (size_t i = 0; r == 0 && i < gone; i++)
		if (unlinkat(a->dir_fd, audit_file_name(files[i], name), 0) < 0 && errno != ENOENT)
			r = cell_fail_errno(err, errno, "removing '%s'", name);
	return r;
}

static int retain(struct audit *a, struct cell_error *err)
{
	auto_free uint64_t *files = NULL;
	size_t n = 0;

	if (!a->settings.keep_age_s && !a->settings.keep_bytes)
		return 0;
	int r = audit_files(a->dir_fd, &files, &n);
	if (r < 0)
		return cell_fail_errno(err, -r, "listing '%s'", a->dir);
	size_t gone = too_old(a, files, n, clock_unix_ns());
	return gone ? remove_files(a, files, gone, err) : 0;
}

int audit_tick(struct audit *a, struct cell_error *err)
{
	(void)pthread_mutex_lock(&a->lock);
	int r = retain(a, err);
	int fd = a->is_dirty && a->fd >= 0 ? fcntl(a->fd, F_DUPFD_CLOEXEC, 3) : -1;
	a->is_dirty = false;
	(void)pthread_mutex_unlock(&a->lock);
	/* Outside the lock: a slow disk must not hold up those who write. */
	if (fd >= 0) {
		if (fdatasync(fd) < 0 && r == 0)
			r = cell_fail_errno(err, errno, "syncing the audit log in '%s'", a->dir);
		close(fd);
	}
	return r;
}

void audit_free(struct audit *a)
{
	if (!a)
		return;
	if (a->fd >= 0 && a->is_dirty)
		(void)fdatasync(a->fd);
	for (size_t i = 0; i < 4; i++) {
		int fd = (int[]){a->fd, a->head_fd, a->dir_fd, a->lock_fd}[i];
		if (fd >= 0)
			close(fd);
	}
	(void)pthread_mutex_destroy(&a->lock);
	explicit_bzero(a->key, sizeof a->key);
	free(a->dir);
	free(a);
}
