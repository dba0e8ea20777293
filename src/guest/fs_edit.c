/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_edit.c: replace text in a file of any size. The first pass counts, the second writes a new
 * file that takes the old one's place; a file that changes in between is left alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "base/newfile.h"
#include "guest/fs_op.h"

#define WINDOW_MIN (128u * 1024)
#define OUT_MAX	   (64u * 1024)

struct edit {
	int in_fd;
	int out_fd; /* -1: only count */
	struct wire_field old_text, new_text;
	uint8_t *window;
	size_t window_size;
	struct buf waiting; /* for out_fd */
	uint64_t count;
};

static void edit_done(struct edit *e)
{
	free(e->window);
	buf_done(&e->waiting);
}

static int put(struct edit *e, const void *p, size_t n)
{
	int r = 0;

	if (e->out_fd < 0 || n == 0)
		return 0;
	if (e->waiting.len + n > OUT_MAX) {
		r = fd_write_all(e->out_fd, e->waiting.data, e->waiting.len);
		buf_reset(&e->waiting);
	}
	if (r == 0 && n > OUT_MAX)
		return fd_write_all(e->out_fd, p, n);
	return r < 0 ? r : buf_add(&e->waiting, p, n);
}

/* Occurrences in the window's first `have` bytes; *ret_used says how many bytes are dealt with. */
static int scan_window(struct edit *e, size_t have, bool is_eof, size_t *ret_used)
{
	size_t at = 0, len = e->old_text.len;
	int r = 0;

	while (r == 0 && have - at >= len) {
		uint8_t *hit = memmem(e->window + at, have - at, e->old_text.p, len);
		if (!hit)
			break;
		size_t begin = (size_t)(hit - e->window);
		r = put(e, e->window + at, begin - at);
		if (r == 0)
			r = put(e, e->new_text.p, e->new_text.len);
		e->count++;
		at = begin + len;
	}
	/* The last bytes may be the beginning of an occurrence. */
	size_t keep = is_eof || have - at < len ? 0 : len - 1;
	if (!is_eof && have - at < len)
		keep = have - at;
	if (r == 0)
		r = put(e, e->window + at, have - at - keep);
	*ret_used = have - keep;
	return r;
}

static int pass(struct edit *e, int out_fd)
{
	size_t have = 0;
	bool is_eof = false;
	int r = 0;

	e->out_fd = out_fd;
	e->count = 0;
	if (lseek(e->in_fd, 0, SEEK_SET) < 0)
		return -errno;
	while (r == 0 && !is_eof) {
		ssize_t n = read(e->in_fd, e->window + have, e->window_size - have);
		size_t used;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		is_eof = n == 0;
		have += (size_t)n;
		r = scan_window(e, have, is_eof, &used);
		memmove(e->window, e->window + used, have - used);
		have -= used;
	}
	if (r == 0 && out_fd >= 0)
		r = fd_write_all(out_fd, e->waiting.data, e->waiting.len);
	return r;
}

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_ino == b->st_ino && a->st_dev == b->st_dev && a->st_size == b->st_size &&
	       a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

static int rewrite(struct edit *e, struct fs_file *f, const char *path, struct cell_error *err)
{
	auto_(newfile_done) struct newfile new = NEWFILE_INIT;
	uint64_t want = e->count;
	struct stat now;

	int r = newfile_open(&new, f->dir_fd);
	if (r == 0)
		r = pass(e, new.fd);
	if (r < 0)
		return fs_fail(err, r, "edit", path);
	if (f->st.st_uid != geteuid() || f->st.st_gid != getegid())
		(void)!fchown(new.fd, f->st.st_uid, f->st.st_gid);
	if (fchmod(new.fd, f->st.st_mode & 01777) < 0)
		return fs_fail(err, -errno, "edit", path);
	if (e->count != want || fstatat(f->dir_fd, f->name, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
		!is_same(&f->st, &now))
		return cell_error_hint(err,
			cell_fail(err, CELL_EBUSY, 0,
				"edit '%.256s': the file changed meanwhile; nothing was written",
				path),
			"read it again and repeat the edit");
	r = newfile_commit(&new, f->name, true);
	return r < 0 ? fs_fail(err, r, "edit", path) : 0;
}

int fs_edit(struct fs_call *call, struct cell_error *err)
{
	auto_(edit_done) struct edit e = {.waiting = BUF_INIT(OUT_MAX)};
	auto_(fs_file_done) struct fs_file f = FS_FILE_INIT;
	struct fs_path path;
	bool is_all = fs_get_u64(call, WIRE_T_FLAGS, 0) & 1;

	int r = fs_get_path(call, WIRE_T_PATH, "edit", &path, err);
	if (r < 0)
		return r;
	if (!wire_find(call->fields, call->fields_len, WIRE_T_OLD, &e.old_text) ||
		e.old_text.len == 0)
		return cell_fail(err, CELL_EINVAL, 0,
			"edit '%.256s': the text to be replaced is empty", path.text);
	if (!wire_find(call->fields, call->fields_len, WIRE_T_NEW, &e.new_text))
		e.new_text = (struct wire_field){.p = (const uint8_t *)""};
	r = fs_file_open(call, "edit", path.text, O_RDONLY, &f, err);
	if (r < 0)
		return r;
	if (faccessat(f.dir_fd, f.name, W_OK, 0) < 0)
		return fs_fail(err, -errno, "edit", path.text);
	e.in_fd = f.fd;
	e.window_size = 2 * (size_t)e.old_text.len;
	if (e.window_size < WINDOW_MIN)
		e.window_size = WINDOW_MIN;
	e.window = malloc(e.window_size);
	if (!e.window)
		return cell_fail_errno(err, ENOMEM, "edit '%.256s'", path.text);

	r = pass(&e, -1);
	if (r < 0)
		return fs_fail(err, r, "edit", path.text);
	if (e.count == 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_ENOTFOUND, 0,
				"edit '%.256s': the text to be replaced does not occur", path.text),
			"it must match byte for byte, white space and line ends too");
	if (e.count > 1 && !is_all)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0,
				"edit '%.256s': the text to be replaced occurs %llu times",
				path.text, (unsigned long long)e.count),
			"give more of its surroundings, or ask to replace all");
	r = rewrite(&e, &f, path.text, err);
	return r < 0 ? r : wire_put_u64(&call->reply, WIRE_T_COUNT, e.count);
}
