/* SPDX-License-Identifier: Apache-2.0 */
/* submounts.c: see submounts.h. By /proc/self/mountinfo; each fd is checked to be the mount it was opened as
 * by its number, so a rename on the host while we look leads to a failure and not to another mount. */
#include "launcher/submounts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "launcher/mount.h"

#define MOUNTS_MAX 16384

static struct mount_line {
	int id, parent;
	bool is_below;
} mounts[MOUNTS_MAX];
static size_t n_mounts;
static char line[5 * PATH_MAX]; /* a byte of a name may be written as four */

static int id_of(int fd)
{
	char path[64], text[512];

	(void)snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	auto_fd int info = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = info < 0 ? -1 : read(info, text, sizeof text - 1);
	if (n < 0)
		return -1;
	text[n] = '\0';
	const char *word = strstr(text, "mnt_id:");
	int id = word ? (int)strtol(word + 7, NULL, 10) : 0;
	if (id > 0)
		return id;
	errno = ENOTSUP;
	return -1;
}

/* One line: numbers, and where it is mounted, in the buffer. false: the end, or *ret_error. */
static bool next_line(FILE *f, struct mount_line *ret, char **ret_at, int *ret_error)
{
	char *p, *at, *end;

	if (!fgets(line, sizeof line, f)) {
		*ret_error = ferror(f) ? EIO : 0;
		return false;
	}
	*ret_error = EPROTO;
	if (!strchr(line, '\n'))
		return false;
	ret->id = (int)strtol(line, &p, 10);
	ret->parent = (int)strtol(p, &p, 10);
	ret->is_below = false;
	/* "36 35 98:0 /root /at options ..." */
	for (int i = 0; i < 2 && p; i++)
		p = *p == ' ' ? strchr(p + 1, ' ') : NULL;
	at = p ? p + 1 : NULL;
	end = at ? strchr(at, ' ') : NULL;
	if (ret->id <= 0 || !end)
		return false;
	*end = '\0';
	*ret_at = at;
	*ret_error = 0;
	return true;
}

static int read_numbers(FILE *f)
{
	int error;
	char *at;

	n_mounts = 0;
	for (struct mount_line m; next_line(f, &m, &at, &error);) {
		if (n_mounts == MOUNTS_MAX) {
			errno = E2BIG;
			return -1;
		}
		mounts[n_mounts++] = m;
	}
	errno = error;
	return error ? -1 : 0;
}

/* Children may stand before their parents. */
static size_t mark_below(int top)
{
	size_t n = 0;

	for (bool is_more = true; is_more;) {
		is_more = false;
		for (size_t i = 0; i < n_mounts; i++) {
			if (mounts[i].is_below || mounts[i].id == top)
				continue;
			bool is_below = mounts[i].parent == top;
			for (size_t k = 0; n && k < n_mounts && !is_below; k++)
				is_below = mounts[k].is_below && mounts[k].id == mounts[i].parent;
			mounts[i].is_below = is_below;
			is_more |= is_below;
			n += is_below;
		}
	}
	return n;
}

/* "\040" and its like are bytes. */
static void unescape(char *p)
{
	char *to = p;

	for (; *p; p++) {
		if (p[0] == '\\' && p[1] >= '0' && p[1] <= '3' && p[2] >= '0' && p[2] <= '7' &&
			p[3] >= '0' && p[3] <= '7') {
			*to++ = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
			p += 3;
		} else {
			*to++ = *p;
		}
	}
	*to = '\0';
}

static bool is_marked(const struct mount_line *m)
{
	for (size_t i = 0; i < n_mounts; i++)
		if (mounts[i].id == m->id)
			return mounts[i].is_below && mounts[i].parent == m->parent;
	return false;
}

/* Is `id` on top of m, with nothing but m's own root in between? It was found where m is mounted. */
static bool is_above(int id, const struct mount_line *m)
{
	for (size_t steps = 0; steps < n_mounts; steps++) {
		size_t i = 0;

		while (i < n_mounts && mounts[i].id != id)
			i++;
		if (i == n_mounts || !mounts[i].is_below)
			return false;
		if (mounts[i].parent == m->id)
			return true;
		id = mounts[i].parent;
	}
	return false;
}

static int visit(int tree_fd, FILE *f, const char *top_at, int (*fn)(int fd, void *arg), void *arg)
{
	size_t top_len = strlen(top_at);
	char *at;
	int error;

	for (struct mount_line m; next_line(f, &m, &at, &error);) {
		if (!is_marked(&m))
			continue;
		unescape(at);
		if (strncmp(at, top_at, top_len) != 0 || at[top_len] != '/') {
			errno = ESTALE;
			return -1;
		}
		auto_fd int fd = mount_walk(tree_fd, at + top_len + 1);
		int id = fd < 0 ? -1 : id_of(fd);
		if (id < 0)
			return -1;
		if (id != m.id && is_above(id, &m))
			continue; /* an automount point under what it mounted: out of reach */
		if (id != m.id) {
			errno = ESTALE; /* hidden by a mount further up, or moved meanwhile */
			return -1;
		}
		if (fn(fd, arg) < 0)
			return -1;
	}
	errno = error;
	return error ? -1 : 0;
}

int submounts_each(int tree_fd, int (*fn)(int fd, void *arg), void *arg)
{
	static char top_at[PATH_MAX];
	int top = id_of(tree_fd), error;
	char *at;
	auto_file FILE *f = fopen("/proc/self/mountinfo", "re");

	if (top < 0 || !f || read_numbers(f) < 0)
		return -1;
	if (mark_below(top) == 0)
		return 0;
	top_at[0] = '\0';
	rewind(f);
	for (struct mount_line m; next_line(f, &m, &at, &error);) {
		if (m.id != top)
			continue;
		unescape(at);
		(void)snprintf(top_at, sizeof top_at, "%s", at);
	}
	if (!top_at[0]) {
		errno = ESTALE;
		return -1;
	}
	rewind(f);
	return visit(tree_fd, f, top_at, fn, arg);
}
