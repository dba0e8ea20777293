/* SPDX-License-Identifier: Apache-2.0 */
/* treewalk.c: an explicit stack of directories, each with a sorted, bounded batch of its names. */
#include "base/treewalk.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/vfs.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/topk.h"

/* All levels together stay below about BUDGET_BYTES + TREEWALK_MAX_DEPTH * BATCH_MIN_BYTES. */
#define BUDGET_BYTES	(8u << 20)
#define BATCH_MAX_BYTES (4u << 20)
#define BATCH_MIN_BYTES (16u << 10)
#define BATCH_MAX_NAMES (1u << 16)
#define NAME_OVERHEAD	(sizeof(struct name_item) + 32) /* the pointer and malloc's own */

struct name_item {
	struct topk_item item;
	char name[];
};

struct level {
	int fd;
	dev_t dev;
	size_t path_len; /* of the directory, with its slash */
	struct topk batch;
	size_t next;	   /* in batch */
	char *after;	   /* names up to this one were given; NULL: none */
	bool is_last_pass; /* the batch reaches the directory's end */
};

struct treewalk {
	struct level *levels;
	size_t n, cap;
	unsigned max_depth;
	unsigned flags;
	struct buf path;
	bool is_entering; /* the entry given last is a directory to go into */
	dev_t entering_dev;
};

static int compare_names(const struct topk_item *a, const struct topk_item *b)
{
	const struct name_item *x = (const struct name_item *)(const void *)a;
	const struct name_item *y = (const struct name_item *)(const void *)b;

	return strcmp(x->name, y->name);
}

static size_t batch_bytes(const struct treewalk *w)
{
	size_t used = 0;

	for (size_t i = 0; i < w->n; i++)
		used += w->levels[i].batch.bytes;
	size_t left = used < BUDGET_BYTES ? (BUDGET_BYTES - used) / 2 : 0;
	if (left > BATCH_MAX_BYTES)
		left = BATCH_MAX_BYTES;
	return left > BATCH_MIN_BYTES ? left : BATCH_MIN_BYTES;
}

static int add_name(struct level *l, const char *name, bool *is_dropped)
{
	size_t len = strlen(name);
	struct name_item *it = malloc(sizeof *it + len + 1);

	if (!it)
		return -ENOMEM;
	it->item.size = len + NAME_OVERHEAD;
	memcpy(it->name, name, len + 1);
	if (!topk_has_room(&l->batch, &it->item)) {
		free(it);
		*is_dropped = true;
		return 0;
	}
	int r = topk_add(&l->batch, &it->item);
	if (r > 0)
		*is_dropped = true;
	return r < 0 ? r : 0;
}

/* Read the directory's next batch: the first names behind `after`. */
static int read_batch(struct treewalk *w, struct level *l)
{
	bool is_dropped = false;

	topk_done(&l->batch);
	l->next = 0;
	l->batch.max_bytes = batch_bytes(w);
	l->batch.max_items = BATCH_MAX_NAMES;
	l->batch.compare = compare_names;

	int fd = openat(l->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	auto_dir DIR *d = fdopendir(fd);
	if (!d) {
		close(fd);
		return -ENOMEM;
	}
	for (;;) {
		errno = 0;
		struct dirent *de = readdir(d);
		if (!de && errno && errno != ENOENT)
			return -errno;
		if (!de)
			break;
		const char *name = de->d_name;
		if (!strcmp(name, ".") || !strcmp(name, ".."))
			continue;
		if (l->after && strcmp(name, l->after) <= 0)
			continue;
		int r = add_name(l, name, &is_dropped);
		if (r < 0)
			return r;
	}
	l->is_last_pass = !is_dropped;
	topk_sort(&l->batch);
	return 0;
}

static void level_done(struct level *l)
{
	close(l->fd);
	topk_done(&l->batch);
	free(l->after);
}

/* Takes fd over. */
static int push(struct treewalk *w, int fd, dev_t dev)
{
	if (w->n == w->cap) {
		size_t cap = w->cap ? 2 * w->cap : 8;
		struct level *levels = realloc(w->levels, cap * sizeof *levels);
		if (!levels) {
			close(fd);
			return -ENOMEM;
		}
		w->levels = levels;
		w->cap = cap;
	}
	struct level *l = &w->levels[w->n];
	*l = (struct level){.fd = fd, .dev = dev, .path_len = w->path.len};
	int r = read_batch(w, l);
	if (r < 0) {
		level_done(l);
		return r;
	}
	w->n++;
	return 0;
}

int treewalk_new(int dir_fd, unsigned max_depth, unsigned flags, struct treewalk **ret)
{
	struct treewalk *w = calloc(1, sizeof *w);
	struct stat st;

	if (!w)
		return -ENOMEM;
	w->max_depth = max_depth;
	w->flags = flags;
	w->path.max = TREEWALK_MAX_PATH;
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = fd < 0 ? -errno : 0;
	if (r == 0 && fstat(fd, &st) < 0) {
		r = -errno;
		close(fd);
	}
	if (r == 0)
		r = push(w, fd, st.st_dev);
	if (r < 0) {
		treewalk_free(w);
		return r;
	}
	*ret = w;
	return 0;
}

void treewalk_free(struct treewalk *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->n; i++)
		level_done(&w->levels[i]);
	free(w->levels);
	buf_done(&w->path);
	free(w);
}

void treewalk_prune(struct treewalk *w)
{
	w->is_entering = false;
}

static void cut_path(struct treewalk *w, size_t len)
{
	w->path.len = len;
	if (w->path.data)
		w->path.data[len] = '\0';
}

static bool is_kernel_fs(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	switch ((unsigned long)fs.f_type) {
	case PROC_SUPER_MAGIC:
	case SYSFS_MAGIC:
	case DEBUGFS_MAGIC:
	case TRACEFS_MAGIC:
	case SECURITYFS_MAGIC:
	case CGROUP_SUPER_MAGIC:
	case CGROUP2_SUPER_MAGIC:
	case DEVPTS_SUPER_MAGIC:
		return true;
	default:
		return false;
	}
}

static void fill(const struct treewalk *w, struct treewalk_entry *e, enum treewalk_type type,
	const struct level *in, unsigned depth)
{
	e->type = type;
	e->path = buf_str(&w->path);
	e->name = e->path + in->path_len;
	e->dir_fd = in->fd;
	e->depth = depth;
	e->error = 0;
}

/* Go into the directory given last. 1: *e tells why not; 0: done or passed over. */
static int enter(struct treewalk *w, struct treewalk_entry *e)
{
	struct level *parent = &w->levels[w->n - 1];
	unsigned depth = (unsigned)w->n;
	dev_t parent_dev = parent->dev;
	const char *name = buf_str(&w->path) + parent->path_len;
	int fd = -1, r = 0;

	w->is_entering = false;
	if (w->max_depth && depth >= w->max_depth)
		return 0;
	if (depth >= TREEWALK_MAX_DEPTH || w->path.len + 1 + NAME_MAX > TREEWALK_MAX_PATH)
		r = -EOVERFLOW;
	else if ((fd = openat(parent->fd, name,
			  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)) < 0)
		r = -errno;
	if (r == 0 && w->flags & TREEWALK_NO_KERNEL_FS && w->entering_dev != parent_dev &&
		is_kernel_fs(fd)) {
		close(fd);
		return 0;
	}
	if (r == 0 && buf_addc(&w->path, '/') < 0) {
		close(fd);
		r = -ENOMEM;
	}
	if (r == 0)
		r = push(w, fd, w->entering_dev);
	if (r == -ENOENT)
		return 0;
	if (r < 0) {
		if (w->path.len && w->path.data[w->path.len - 1] == '/')
			cut_path(w, w->path.len - 1);
		fill(w, e, TREEWALK_FAILED, &w->levels[depth - 1], depth);
		e->error = -r;
		return 1;
	}
	return 0;
}

/* Leave the directory on top of the stack; 1 when *e tells of it. */
static int leave(struct treewalk *w, struct treewalk_entry *e)
{
	struct level *l = &w->levels[--w->n];
	size_t len = l->path_len;

	if (w->flags & TREEWALK_WITH_LEAVE && w->n > 0 && fstat(l->fd, &e->st) < 0)
		memset(&e->st, 0, sizeof e->st);
	level_done(l);
	if (w->n == 0 || !(w->flags & TREEWALK_WITH_LEAVE))
		return 0;
	cut_path(w, len - 1);
	fill(w, e, TREEWALK_LEAVE, &w->levels[w->n - 1], (unsigned)w->n);
	return 1;
}

int treewalk_next(struct treewalk *w, struct treewalk_entry *e)
{
	if (w->is_entering && enter(w, e))
		return 1;
	while (w->n > 0) {
		struct level *l = &w->levels[w->n - 1];

		if (l->next == l->batch.n) {
			if (l->is_last_pass || l->batch.n == 0) {
				if (leave(w, e))
					return 1;
				continue;
			}
			struct name_item *last =
				(struct name_item *)(void *)l->batch.items[l->batch.n - 1];
			free(l->after);
			l->after = strdup(last->name);
			int r = l->after ? read_batch(w, l) : -ENOMEM;
			if (r < 0)
				return r;
			continue;
		}
		const char *name = ((struct name_item *)(void *)l->batch.items[l->next++])->name;
		cut_path(w, l->path_len);
		if (fstatat(l->fd, name, &e->st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno == ENOENT)
				continue;
			return -errno;
		}
		int r = buf_addz(&w->path, name);
		if (r < 0)
			return r;
		fill(w, e, TREEWALK_ENTRY, l, (unsigned)w->n);
		w->is_entering = S_ISDIR(e->st.st_mode);
		w->entering_dev = e->st.st_dev;
		return 1;
	}
	return 0;
}
