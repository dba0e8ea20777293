/* SPDX-License-Identifier: Apache-2.0 */
/* spool_spare.c: see spool_spare.h. All but make() is the loop's thread. */
#include "server/spool_spare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/loop.h"

#define PREFIX	   ".spare-"
#define KEPT	   8
#define MAKE_BELOW 5
#define NAME_SIZE  32

struct spare {
	int fd;
	char name[NAME_SIZE];
};

struct spool_spares {
	int root_fd;
	struct net_pool *pool;
	struct spare list[KEPT];
	size_t n;
	bool is_making;
	struct spare made[KEPT]; /* the thread's while is_making */
	size_t n_made, n_wanted;
	unsigned next;
};

static void remove_all(int root_fd)
{
	int fd = openat(root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);

	for (struct dirent *e; d && (e = readdir(d));)
		if (!strncmp(e->d_name, PREFIX, sizeof PREFIX - 1))
			(void)unlinkat(root_fd, e->d_name, 0);
}

/* In the pool. */
static void make(void *arg)
{
	struct spool_spares *s = arg;

	for (s->n_made = 0; s->n_made < s->n_wanted; s->n_made++) {
		struct spare *p = &s->made[s->n_made];

		(void)snprintf(p->name, sizeof p->name, PREFIX "%u", s->next++);
		p->fd = openat(s->root_fd, p->name,
			O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (p->fd < 0)
			break;
	}
}

static void made(void *arg)
{
	struct spool_spares *s = arg;

	for (size_t i = 0; i < s->n_made; i++)
		s->list[s->n++] = s->made[i];
	s->is_making = false;
}

static void ask_for_more(struct spool_spares *s)
{
	if (s->is_making || s->n >= MAKE_BELOW)
		return;
	s->n_wanted = KEPT - s->n;
	s->n_made = 0;
	s->is_making = net_pool_work(s->pool, make, made, s) == 0;
}

struct spool_spares *spool_spares_new(int root_fd, struct net_pool *pool)
{
	struct spool_spares *s = calloc(1, sizeof *s);

	remove_all(root_fd);
	if (!s)
		return NULL;
	s->root_fd = root_fd;
	s->pool = pool;
	ask_for_more(s);
	return s;
}

void spool_spares_free(struct spool_spares *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		close(s->list[i].fd);
	remove_all(s->root_fd);
	free(s);
}

int spool_spare_take(struct spool_spares *s, int dir_fd, const char *name)
{
	if (!s)
		return -ENOENT;
	int r = -ENOENT;
	if (s->n) {
		const struct spare *p = &s->list[--s->n];

		r = renameat2(s->root_fd, p->name, dir_fd, name, RENAME_NOREPLACE) < 0 ? -errno
										       : p->fd;
		if (r < 0) { /* the name is taken, or the file is gone */
			close(p->fd);
			(void)unlinkat(s->root_fd, p->name, 0);
		}
	}
	ask_for_more(s);
	return r;
}
