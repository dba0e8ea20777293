/* SPDX-License-Identifier: Apache-2.0 */
/* store_spare.c: see store_spare.h. */
#include "core/store_spare.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "core/remove_tree.h"

#define SPARES_MAX 16
#define FROM_NTH   8 /* who makes a few cells is served as well without */

struct spare {
	dev_t dev; /* of <state>/cells: a process may change its state directory */
	ino_t ino;
	int fd, lock_fd;
	char name[32];
};

static struct {
	pthread_mutex_t lock;
	pid_t owner; /* a fork of us must not touch what is its parent's */
	unsigned n_ended;
	bool has_exit;
	size_t n;
	struct spare list[SPARES_MAX];
} spares = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void remove_spare(const struct spare *p)
{
	auto_fd int cells = openat(p->fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (cells >= 0)
		(void)cell_remove_tree(cells, p->name, NULL);
	close(p->fd);
	close(p->lock_fd);
}

static void remove_at_exit(void)
{
	/* a thread that is still at work with it will never be done: leave them to the next sweep */
	if (spares.owner != getpid() || pthread_mutex_trylock(&spares.lock) != 0)
		return;
	while (spares.n)
		remove_spare(&spares.list[--spares.n]);
	(void)pthread_mutex_unlock(&spares.lock);
}

void cell_spare_remove_all(void)
{
	(void)pthread_mutex_lock(&spares.lock);
	while (spares.owner == getpid() && spares.n)
		remove_spare(&spares.list[--spares.n]);
	(void)pthread_mutex_unlock(&spares.lock);
}

/* Nothing but what the store itself writes: no file of the cell may reach the next one. */
static bool is_bare(int dir_fd)
{
	static const char *const ours[] = {".", "..", "lock", "cell.json", "cell.json.new"};
	int copy = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);

	if (!d)
		return false;
	for (struct dirent *e; (e = readdir(d));) {
		bool is_ours = false;
		for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
			is_ours |= !strcmp(e->d_name, ours[i]);
		if (!is_ours)
			return false;
	}
	return true;
}

static bool is_named(const struct cell_store *s, const char *name, int fd)
{
	struct stat a, b;

	return !fstatat(s->cells_fd, name, &a, AT_SYMLINK_NOFOLLOW) && !fstat(fd, &b) &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* With the lock held. */
static bool keep(struct cell_store *s, const char *name, struct cell_slot *slot)
{
	struct spare p = {.fd = slot->fd, .lock_fd = slot->lock_fd};
	struct stat st;
	uint64_t id = 0;

	if (spares.owner != getpid()) {
		spares.owner = getpid();
		spares.n = 0;
		spares.n_ended = 0;
	}
	if (++spares.n_ended < FROM_NTH || spares.n == SPARES_MAX)
		return false;
	if (!spares.has_exit && atexit(remove_at_exit) != 0)
		return false;
	spares.has_exit = true;
	if (fstat(s->cells_fd, &st) < 0 || getrandom(&id, sizeof id, 0) != sizeof id ||
		!is_bare(slot->fd) || !is_named(s, name, slot->fd))
		return false;
	p.dev = st.st_dev;
	p.ino = st.st_ino;
	(void)snprintf(p.name, sizeof p.name, CELL_SPARE_PREFIX "%016llx", (unsigned long long)id);
	if (renameat(s->cells_fd, name, s->cells_fd, p.name) < 0)
		return false;
	spares.list[spares.n++] = p;
	return true;
}

bool cell_spare_keep(struct cell_store *s, const char *name, struct cell_slot *slot)
{
	if (slot->lock_fd < 0)
		return false;
	(void)pthread_mutex_lock(&spares.lock);
	bool is_kept = keep(s, name, slot);
	(void)pthread_mutex_unlock(&spares.lock);
	if (is_kept)
		slot->fd = slot->lock_fd = -1;
	return is_kept;
}

bool cell_spare_take(struct cell_store *s, struct cell_slot *ret)
{
	struct stat st;
	bool is_taken = false;

	if (fstat(s->cells_fd, &st) < 0)
		return false;
	(void)pthread_mutex_lock(&spares.lock);
	for (size_t i = spares.owner == getpid() ? spares.n : 0; !is_taken && i-- > 0;) {
		struct spare *p = &spares.list[i];

		if (p->dev != st.st_dev || p->ino != st.st_ino)
			continue;
		*ret = (struct cell_slot){
			.path = strdup(p->name), .fd = p->fd, .lock_fd = p->lock_fd};
		*p = spares.list[--spares.n];
		is_taken = true;
	}
	(void)pthread_mutex_unlock(&spares.lock);
	if (is_taken && !ret->path) {
		cell_slot_done(ret);
		return false;
	}
	return is_taken;
}

int cell_spare_reveal(struct cell_store *s, const char *name, struct cell_slot *slot)
{
	char *path = NULL;
	int r = 0;

	if (asprintf(&path, "%s/cells/%s", s->path, name) < 0) {
		path = NULL;
		r = -ENOMEM;
	}
	if (!r && renameat2(s->cells_fd, slot->path, s->cells_fd, name, RENAME_NOREPLACE) < 0)
		r = -errno;
	if (r < 0) {
		(void)cell_remove_tree(s->cells_fd, slot->path, NULL);
		cell_slot_done(slot);
		free(path);
		return r;
	}
	free(slot->path);
	slot->path = path;
	return 0;
}
