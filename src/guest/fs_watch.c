/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_watch.c: tell what happens to the entries of a directory, and of all below it when asked.
 *
 * A directory that appears is watched first and looked through afterwards, so nothing in it is
 * missed; what is found then is told as created, and may be told twice. Ends when the directory
 * itself is removed or moved away (the last event, with path "."), else never: the client cancels.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/newfile.h"
#include "guest/fs_op.h"

#define WATCHES_MAX 65536u
#define LOOK_MS	    500 /* how often a removed root is looked for: our own fd hides that event */
#define MASK                                                                           \
	(IN_CREATE | IN_DELETE | IN_MODIFY | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | \
		IN_MOVE_SELF | IN_DELETE_SELF | IN_ONLYDIR | IN_EXCL_UNLINK)

struct watched {
	int wd;
	char *path; /* relative to the root; "" is the root */
};

struct watch {
	struct fs_out out;
	int inotify_fd;
	int root_fd;
	bool is_recursive;
	struct watched *list; /* sorted by wd */
	size_t n, cap;
	struct buf last; /* the record told last in this batch */
};

static void watch_done(struct watch *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->list[i].path);
	free(w->list);
	fs_out_done(&w->out);
	buf_done(&w->last);
	if (w->inotify_fd >= 0)
		close(w->inotify_fd);
}

/* Where wd is in the list, or would be. */
static size_t find(const struct watch *w, int wd)
{
	size_t low = 0, high = w->n;

	while (low < high) {
		size_t mid = (low + high) / 2;
		if (w->list[mid].wd < wd)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void forget_at(struct watch *w, size_t i)
{
	free(w->list[i].path);
	memmove(&w->list[i], &w->list[i + 1], (w->n - i - 1) * sizeof *w->list);
	w->n--;
}

static int remember(struct watch *w, int wd, const char *path)
{
	char *copy = strdup(path);
	size_t i = find(w, wd);

	if (!copy)
		return -ENOMEM;
	if (i < w->n && w->list[i].wd == wd) {
		free(w->list[i].path);
		w->list[i].path = copy;
		return 0;
	}
	if (w->n == w->cap) {
		size_t cap = w->cap ? 2 * w->cap : 32;
		struct watched *list = realloc(w->list, cap * sizeof *list);
		if (!list) {
			free(copy);
			return -ENOMEM;
		}
		w->list = list;
		w->cap = cap;
	}
	memmove(&w->list[i + 1], &w->list[i], (w->n - i) * sizeof *w->list);
	w->list[i] = (struct watched){.wd = wd, .path = copy};
	w->n++;
	return 0;
}

/* Watch one directory. inotify wants a path: "." after going there needs no /proc and cannot be
 * misled. This process is the worker's own, so its working directory is free to use. */
static int add_watch(struct watch *w, int dir_fd, const char *path)
{
	if (w->n >= WATCHES_MAX)
		return -ENOSPC;
	if (fchdir(dir_fd) < 0)
		return -errno;
	int wd = inotify_add_watch(w->inotify_fd, ".", MASK);
	return wd < 0 ? -errno : remember(w, wd, path);
}

static int tell(struct watch *w, enum cell_watch_type type, const char *path, bool is_directory)
{
	auto_buf struct buf record = BUF_INIT(WIRE_MAX_RECORD);
	int r = wire_put_u64(&record, WIRE_T_EVENT, type);

	if (r == 0)
		r = wire_put_str(&record, WIRE_T_PATH, path);
	if (r == 0 && is_directory)
		r = wire_put_u64(&record, WIRE_T_TYPE, CELL_FILE_DIRECTORY);
	if (r < 0)
		return r;
	if (w->last.data && w->last.len == record.len &&
		memcmp(w->last.data, record.data, record.len) == 0)
		return 0;
	buf_reset(&w->last);
	r = buf_add(&w->last, record.data, record.len);
	return r < 0 ? r : fs_out_record(&w->out, &record);
}

static bool is_partial(const char *name)
{
	return strncmp(name, NEWFILE_PREFIX, strlen(NEWFILE_PREFIX)) == 0;
}

/* Watch all directories below one that is watched already; with is_told, tell what is in them. */
static int look_through(struct watch *w, int dir_fd, const char *path, bool is_told)
{
	auto_(fs_walk_freep) struct treewalk *walk = NULL;
	auto_buf struct buf full = BUF_INIT(2 * TREEWALK_MAX_PATH);
	struct treewalk_entry e;
	int r = treewalk_new(dir_fd, 0, 0, &walk);

	if (r < 0)
		return r == -EACCES || r == -ENOENT ? 0 : r;
	while ((r = treewalk_next(walk, &e)) > 0) {
		if (e.type != TREEWALK_ENTRY || is_partial(e.name))
			continue;
		bool is_directory = S_ISDIR(e.st.st_mode);
		buf_reset(&full);
		r = *path ? buf_addf(&full, "%s/%s", path, e.path) : buf_addz(&full, e.path);
		if (r == 0 && is_told)
			r = tell(w, CELL_WATCH_CREATED, buf_str(&full), is_directory);
		if (r == 0 && is_directory) {
			auto_fd int fd = openat(e.dir_fd, e.name,
				O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			r = fd < 0 ? 0 : add_watch(w, fd, buf_str(&full));
			if (r == -EACCES || r == -ENOENT)
				r = 0;
		}
		if (r < 0)
			return r;
	}
	return r;
}

/* A directory has appeared. */
static int take_in(struct watch *w, const char *path)
{
	auto_fd int fd = beneath_open(w->root_fd, path, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);

	if (fd < 0)
		return 0;
	int r = add_watch(w, fd, path);
	if (r == 0)
		r = look_through(w, fd, path, true);
	return r == -EACCES || r == -ENOENT ? 0 : r;
}

/* A directory has gone elsewhere: what happens in it is not ours any more. */
static void let_go(struct watch *w, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = w->n; i-- > 0;) {
		const char *p = w->list[i].path;
		if (strncmp(p, path, len) == 0 && (p[len] == '\0' || p[len] == '/')) {
			(void)inotify_rm_watch(w->inotify_fd, w->list[i].wd);
			forget_at(w, i);
		}
	}
}

static enum cell_watch_type type_of(uint32_t mask)
{
	if (mask & IN_CREATE)
		return CELL_WATCH_CREATED;
	if (mask & IN_DELETE)
		return CELL_WATCH_REMOVED;
	if (mask & IN_MOVED_FROM)
		return CELL_WATCH_MOVED_FROM;
	if (mask & IN_MOVED_TO)
		return CELL_WATCH_MOVED_TO;
	return mask & (IN_MODIFY | IN_ATTRIB) ? CELL_WATCH_MODIFIED : 0;
}

/* Changes of a file that has no name yet (O_TMPFILE) are told by the kernel under a made-up one. */
static bool is_nameless(const struct watch *w, const char *name, const char *path)
{
	struct stat st;

	return name[0] == '#' && name[1] && strspn(name + 1, "0123456789") == strlen(name + 1) &&
	       fstatat(w->root_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0;
}

/* 1 when the watch is over. */
static int take_self_event(struct watch *w, size_t i, uint32_t mask)
{
	bool is_root = w->list[i].path[0] == '\0';

	if (mask & IN_IGNORED)
		forget_at(w, i);
	if (!is_root || !(mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT)))
		return 0;
	int r = tell(w, mask & IN_MOVE_SELF ? CELL_WATCH_MOVED_FROM : CELL_WATCH_REMOVED, ".",
		true);
	return r < 0 ? r : 1;
}

static int take_event(struct watch *w, const struct inotify_event *ev)
{
	auto_buf struct buf path = BUF_INIT(2 * TREEWALK_MAX_PATH);
	bool is_directory = ev->mask & IN_ISDIR;

	if (ev->mask & IN_Q_OVERFLOW) {
		int r = tell(w, CELL_WATCH_OVERFLOW, ".", true);
		return r < 0 || !w->is_recursive ? r : look_through(w, w->root_fd, "", false);
	}
	size_t i = find(w, ev->wd);
	if (i == w->n || w->list[i].wd != ev->wd)
		return 0;
	if (ev->len == 0)
		return take_self_event(w, i, ev->mask);
	enum cell_watch_type type = type_of(ev->mask);
	if (!type || is_partial(ev->name))
		return 0;
	const char *dir = w->list[i].path;
	int r = *dir ? buf_addf(&path, "%s/%s", dir, ev->name) : buf_addz(&path, ev->name);
	if (r == 0 && type == CELL_WATCH_MODIFIED && is_nameless(w, ev->name, buf_str(&path)))
		return 0;
	if (r == 0 && is_directory && type == CELL_WATCH_MOVED_FROM)
		let_go(w, buf_str(&path));
	if (r == 0)
		r = tell(w, type, buf_str(&path), is_directory);
	if (r == 0 && w->is_recursive && is_directory &&
		(type == CELL_WATCH_CREATED || type == CELL_WATCH_MOVED_TO))
		r = take_in(w, buf_str(&path));
	return r;
}

/* Read and tell what is there. 1 when the watch is over. */
static int take_events(struct watch *w)
{
	_Alignas(struct inotify_event) char batch[16384];
	ssize_t n = read(w->inotify_fd, batch, sizeof batch);
	int r = 0;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	buf_reset(&w->last);
	for (char *p = batch; r == 0 && p < batch + n;) {
		const struct inotify_event *ev = (const struct inotify_event *)(const void *)p;
		r = take_event(w, ev);
		p += sizeof *ev + ev->len;
	}
	int flushed = fs_out_flush(&w->out);
	return flushed < 0 ? flushed : r;
}

static int run(struct watch *w)
{
	struct pollfd fds[2] = {{.fd = w->inotify_fd, .events = POLLIN}, {.fd = w->out.fd}};
	struct stat st;

	for (;;) {
		int n = poll(fds, 2, LOOK_MS);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && fds[1].revents & (POLLERR | POLLHUP | POLLNVAL))
			return -EPIPE;
		int r = n > 0 ? take_events(w) : 0;
		if (r != 0)
			return r < 0 ? r : 0;
		if (n == 0 && fstat(w->root_fd, &st) == 0 && st.st_nlink == 0) {
			r = tell(w, CELL_WATCH_REMOVED, ".", true);
			return r < 0 ? r : fs_out_flush(&w->out);
		}
	}
}

int fs_watch(struct fs_call *call, struct cell_error *err)
{
	auto_(watch_done) struct watch w = {
		.out = FS_OUT_INIT(call->out_fd),
		.inotify_fd = -1,
		.last = BUF_INIT(WIRE_MAX_RECORD),
		.is_recursive = fs_get_u64(call, WIRE_T_FLAGS, 0) & 1,
	};
	struct fs_path path;

	int r = fs_get_path(call, WIRE_T_PATH, "watch", &path, err);
	if (r < 0)
		return r;
	auto_fd int dir = fs_open_dir(call, "watch", path.text, err);
	if (dir < 0)
		return dir;
	w.root_fd = dir;
	w.inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (w.inotify_fd < 0)
		return cell_error_hint(err,
			cell_fail_errno(err, errno, "watch '%.256s'", path.text),
			"the host's fs.inotify.max_user_instances may be used up");
	r = add_watch(&w, dir, "");
	if (r == 0 && w.is_recursive)
		r = look_through(&w, dir, "", false);
	if (r == 0)
		r = tell(&w, CELL_WATCH_READY, ".", true);
	if (r == 0)
		r = fs_out_flush(&w.out);
	if (r == 0)
		r = run(&w);
	if (r == -ENOSPC)
		return cell_error_hint(err,
			cell_fail(err, CELL_ELIMIT, ENOSPC, "watch '%.256s'", path.text),
			"too many directories to watch: %u here, and the host's "
			"fs.inotify.max_user_watches",
			WATCHES_MAX);
	return r < 0 ? fs_fail(err, r, "watch", path.text) : 0;
}
