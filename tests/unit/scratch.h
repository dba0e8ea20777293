/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h: a directory of a test's own, and a state directory in it; and what tests of cells ask of them. */
#pragma once
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "cell/cell.h"

#include "core/remove_tree.h"
#include "test.h"

__attribute__((unused)) static char scratch[64];
__attribute__((unused)) static pid_t scratch_owner;

static inline int scratch_open(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	ASSERT(fd >= 0);
	return fd;
}

static inline void scratch_remove(void)
{
	int fd = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && getpid() == scratch_owner)
		(void)cell_remove_tree(fd, scratch + strlen("/tmp/"), NULL);
	if (fd >= 0)
		close(fd);
}

/* The directory is there from now on and removed at the exit of the test's process, or when the test asks for another;
 * CELL_STATE_DIR names a directory in it that is still to be made. */
static inline const char *scratch_make(void)
{
	char state[80];

	scratch_remove();
	(void)snprintf(scratch, sizeof scratch, "/tmp/cell-test-XXXXXX");
	ASSERT(mkdtemp(scratch));
	scratch_owner = getpid();
	ASSERT(atexit(scratch_remove) == 0);
	(void)snprintf(state, sizeof state, "%s/state", scratch);
	ASSERT(setenv("CELL_STATE_DIR", state, 1) == 0);
	return scratch;
}

/* "<scratch>/<rest>", valid until the fourth next call. */
__attribute__((format(printf, 1, 2))) static inline const char *scratch_path(const char *fmt, ...)
{
	static char ring[4][512];
	static unsigned turn;
	char *out = ring[turn++ % 4];
	va_list ap;
	int n = snprintf(out, 512, "%s/", scratch);

	va_start(ap, fmt);
	(void)vsnprintf(out + n, 512 - (size_t)n, fmt, ap);
	va_end(ap);
	return out;
}

static inline void scratch_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ASSERT(fd >= 0);
	ASSERT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

/* Names in a directory but . and .. */
static inline int scratch_entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	if (!d)
		return -1;
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static inline int count_cell(const struct cell_info *info, void *user)
{
	(void)info;
	(*(int *)user)++;
	return 0;
}

static inline int cells_listed(void)
{
	int n = 0;

	ASSERT_OK(cell_list(count_cell, &n, NULL));
	return n;
}
