/* SPDX-License-Identifier: Apache-2.0 */
/* newfile.c: nameless files, temporary names and the locks that tell a live one from a stale one.
 */
#include "base/newfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define SLOTS	 8
#define ATTEMPTS 64

/* Remove `name` if its writer is dead. The lock is on the file, so whoever holds it here is the
 * only one to remove it. */
static void remove_stale(int dir_fd, const char *name)
{
	struct stat st, now;
	auto_fd int fd =
		openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return;
	if (fstatat(dir_fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 && now.st_ino == st.st_ino &&
		now.st_dev == st.st_dev)
		(void)unlinkat(dir_fd, name, 0);
}

/* The i-th name to try: a few fixed ones first, so that stale ones are met again, then random. */
static void temp_name(char temp[sizeof(((struct newfile *)0)->temp)], int dir_fd, int i)
{
	const size_t size = sizeof(((struct newfile *)0)->temp);

	if (i < SLOTS) {
		(void)snprintf(temp, size, NEWFILE_PREFIX "%d", i);
		struct stat st;
		if (fstatat(dir_fd, temp, &st, AT_SYMLINK_NOFOLLOW) == 0)
			remove_stale(dir_fd, temp);
		return;
	}
	uint64_t random = 0;
	(void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
	(void)snprintf(temp, size, NEWFILE_PREFIX "%016llx", (unsigned long long)random);
}

static int open_named(struct newfile *f)
{
	for (int i = 0; i < ATTEMPTS; i++) {
		struct stat st;

		temp_name(f->temp, f->dir_fd, i);
		f->fd = openat(f->dir_fd, f->temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (f->fd < 0 && errno == EEXIST)
			continue;
		if (f->fd < 0)
			break;
		/* Another writer may have taken it for stale before the lock was on. */
		if (flock(f->fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
			if (fstat(f->fd, &st) == 0 && st.st_nlink > 0)
				return 0;
		}
		close(steal_fd(f->fd));
		errno = EEXIST;
	}
	f->temp[0] = '\0';
	return -errno;
}

int newfile_open(struct newfile *f, int dir_fd)
{
	*f = (struct newfile){.dir_fd = dir_fd, .fd = -1};
	f->fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (f->fd >= 0) {
		(void)flock(f->fd, LOCK_EX | LOCK_NB);
		return 0;
	}
	/* EISDIR, EOPNOTSUPP: this kernel or file system has no nameless files. */
	if (errno != EISDIR && errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS)
		return -errno;
	return open_named(f);
}

/* Link the nameless file. -ENOENT when there is no way to name it here. */
static int link_nameless(const struct newfile *f, const char *name)
{
	char proc[40];

	if (linkat(f->fd, "", f->dir_fd, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno == EEXIST)
		return -EEXIST;
	(void)snprintf(proc, sizeof proc, "/proc/self/fd/%d", f->fd);
	if (linkat(AT_FDCWD, proc, f->dir_fd, name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	return -errno;
}

/* Neither the right to link by fd nor a /proc: copy into a named one. */
static int copy_to_named(struct newfile *f)
{
	auto_fd int from = steal_fd(f->fd);
	struct stat st;
	char chunk[16384];

	if (fstat(from, &st) < 0 || lseek(from, 0, SEEK_SET) < 0)
		return -errno;
	int r = open_named(f);
	if (r < 0)
		return r;
	for (;;) {
		ssize_t n = read(from, chunk, sizeof chunk);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		for (ssize_t at = 0; at < n;) {
			ssize_t done = write(f->fd, chunk + at, (size_t)(n - at));
			if (done < 0 && errno != EINTR)
				return -errno;
			at += done > 0 ? done : 0;
		}
	}
	struct timespec times[2] = {st.st_atim, st.st_mtim};
	(void)!fchown(f->fd, st.st_uid, st.st_gid);
	if (fchmod(f->fd, st.st_mode & 07777) < 0 || futimens(f->fd, times) < 0)
		return -errno;
	return 0;
}

static int close_written(struct newfile *f)
{
	return close(steal_fd(f->fd)) < 0 && errno != EINTR ? -errno : 0;
}

static int name_temporarily(struct newfile *f)
{
	char temp[sizeof f->temp];
	int r = -EEXIST;

	for (int i = 0; i < ATTEMPTS && r == -EEXIST; i++) {
		temp_name(temp, f->dir_fd, i);
		r = link_nameless(f, temp);
	}
	if (r == 0)
		memcpy(f->temp, temp, sizeof temp);
	return r;
}

int newfile_commit(struct newfile *f, const char *name, bool is_replacing)
{
	if (!f->temp[0]) {
		int r = is_replacing ? name_temporarily(f) : link_nameless(f, name);
		if (r == 0 && !is_replacing)
			return close_written(f);
		if (r == -ENOENT)
			r = copy_to_named(f);
		if (r < 0)
			return r;
	}
	if (!is_replacing) {
		if (linkat(f->dir_fd, f->temp, f->dir_fd, name, 0) < 0)
			return -errno;
		(void)unlinkat(f->dir_fd, f->temp, 0);
	} else if (renameat(f->dir_fd, f->temp, f->dir_fd, name) < 0) {
		return -errno;
	}
	f->temp[0] = '\0';
	return close_written(f);
}

void newfile_done(struct newfile *f)
{
	if (f->temp[0])
		(void)unlinkat(f->dir_fd, f->temp, 0);
	f->temp[0] = '\0';
	if (f->fd >= 0)
		close(steal_fd(f->fd));
}
