/* SPDX-License-Identifier: Apache-2.0 */
/* tree.h: little trees of files for tests. Each fails the test when it cannot do its work. */
#pragma once
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test.h"

static char tree_path[256]; /* absolute, of the directory made last */

static inline int tree_remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	(void)remove(path);
	return 0;
}

static inline void tree_remove(void)
{
	(void)nftw(tree_path, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* A new directory, removed when the test ends; an fd to it. */
static inline int tree_new(void)
{
	const char *tmp = getenv("TMPDIR");

	(void)snprintf(tree_path, sizeof tree_path, "%s/cell-test-XXXXXX", tmp ? tmp : "/tmp");
	ASSERT(mkdtemp(tree_path));
	atexit(tree_remove);
	int fd = open(tree_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT(fd >= 0);
	return fd;
}

static inline void tree_file(int dir, const char *path, const char *text)
{
	int fd = openat(dir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	CHECK_(fd >= 0, "cannot make %s", path);
	ASSERT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static inline void tree_dir(int dir, const char *path)
{
	CHECK_(mkdirat(dir, path, 0755) == 0, "cannot make %s", path);
}

static inline void tree_link(int dir, const char *path, const char *target)
{
	CHECK_(symlinkat(target, dir, path) == 0, "cannot make %s", path);
}

/* A small file's content in static memory; NULL when it is not there. */
static inline const char *tree_text(int dir, const char *path)
{
	static char text[65536];
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return NULL;
	ssize_t n = read(fd, text, sizeof text - 1);
	close(fd);
	ASSERT(n >= 0);
	text[n] = '\0';
	return text;
}

static inline bool tree_has(int dir, const char *path)
{
	return faccessat(dir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}
