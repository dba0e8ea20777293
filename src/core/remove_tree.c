/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remove_tree.c: removal by file descriptors. One is open for each level, so a tree deeper than
 * LEVELS_MAX is folded: what is below is moved up beside the top and removed from there.
 */
#include "core/remove_tree.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/cleanup.h"

#define LEVELS_MAX 48

struct removal {
	int top_fd;
	dev_t dev;
	unsigned n_folded;
	bool is_fallback; /* the kernel has no openat2 */
};

/* chmod u+rwx of a directory that cannot be opened; through an O_PATH fd, so that it cannot hit
 * another. */
static int make_accessible(int dir_fd, const char *name)
{
	char path[48];
	auto_fd int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	return chmod(path, 0700) < 0 ? -errno : 0;
}

static int open_once(struct removal *rm, int dir_fd, const char *name)
{
	struct open_how how = {
		.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};

	if (!rm->is_fallback) {
		int fd = (int)syscall(SYS_openat2, dir_fd, name, &how, sizeof how);

		if (fd >= 0)
			return fd;
		if (errno != ENOSYS && errno != EPERM)
			return -errno;
		rm->is_fallback = true;
	}
	struct stat st;
	auto_fd int fd = openat(dir_fd, name, (int)how.flags);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	return st.st_dev == rm->dev ? steal_fd(fd) : -EXDEV;
}

static int open_below(struct removal *rm, int dir_fd, const char *name)
{
	int fd = open_once(rm, dir_fd, name);

	if (fd != -EACCES || make_accessible(dir_fd, name) < 0)
		return fd;
	return open_once(rm, dir_fd, name);
}

static int unlink_in(int dir_fd, const char *name, int flags)
{
	if (!unlinkat(dir_fd, name, flags) || errno == ENOENT)
		return 0;
	if (errno != EACCES || fchmod(dir_fd, 0700) < 0)
		return -errno;
	return !unlinkat(dir_fd, name, flags) || errno == ENOENT ? 0 : -errno;
}

static int fold(struct removal *rm, int dir_fd, const char *name)
{
	char up[48];

	(void)make_accessible(dir_fd, name);
	(void)fchmod(dir_fd, 0700);
	(void)fchmod(rm->top_fd, 0700);
	(void)snprintf(up, sizeof up, ".folded-%d-%u", (int)getpid(), rm->n_folded++);
	return renameat(dir_fd, name, rm->top_fd, up) < 0 ? -errno : 0;
}

static int empty_directory(struct removal *rm, int fd, unsigned level);

static int remove_entry(struct removal *rm, int dir_fd, const char *name, unsigned char type,
	unsigned level)
{
	int r;

	if (type != DT_DIR) {
		r = unlink_in(dir_fd, name, 0);
		if (r != -EISDIR && (r != -EPERM || type != DT_UNKNOWN))
			return r;
	}
	if (level == LEVELS_MAX)
		return fold(rm, dir_fd, name);
	int fd = open_below(rm, dir_fd, name);
	if (fd == -ENOENT)
		return 0;
	if (fd < 0)
		return fd;
	r = empty_directory(rm, fd, level + 1);
	return r < 0 ? r : unlink_in(dir_fd, name, AT_REMOVEDIR);
}

struct linux_dirent64 {
	uint64_t d_ino;
	int64_t d_off;
	unsigned short d_reclen;
	unsigned char d_type;
	char d_name[];
};

/* One pass. Without opendir(): what was made must go when there is no memory, too. */
static int remove_entries(struct removal *rm, int fd, unsigned level, bool *ret_found)
{
	_Alignas(struct linux_dirent64) char block[2048];
	int first_error = 0;
	long n;

	while ((n = syscall(SYS_getdents64, fd, block, sizeof block)) > 0) {
		const struct linux_dirent64 *e;

		for (long at = 0; at < n; at += e->d_reclen) {
			e = (const struct linux_dirent64 *)(block + at);
			if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
				continue;
			*ret_found = true;
			int r = remove_entry(rm, fd, e->d_name, e->d_type, level);
			if (r < 0 && !first_error)
				first_error = r;
		}
	}
	if (n < 0 && errno != ENOENT && !first_error)
		first_error = -errno;
	return first_error;
}

/* Takes the fd over. Goes round until a whole pass finds nothing: entries may be folded in meanwhile. */
static int empty_directory(struct removal *rm, int fd, unsigned level)
{
	bool found;
	int r;

	do {
		found = false;
		r = remove_entries(rm, fd, level, &found);
		if (found && !r && lseek(fd, 0, SEEK_SET) < 0)
			r = -errno;
	} while (found && !r);
	close(fd);
	return r;
}

/* Somebody who opened it before may still put a name into it: a few rounds. */
#define ROUNDS_MAX 16

static int remove_directory(struct removal *rm, int dir_fd, const char *name)
{
	int r = 0;

	for (int i = 0; i < ROUNDS_MAX; i++) {
		rm->top_fd = open_below(rm, dir_fd, name);
		r = rm->top_fd < 0 ? rm->top_fd : empty_directory(rm, rm->top_fd, 0);
		if (!r)
			r = unlink_in(dir_fd, name, AT_REMOVEDIR);
		if (r != -ENOTEMPTY && r != -EEXIST)
			break;
	}
	return r == -ENOENT ? 0 : r;
}

int cell_remove_tree(int dir_fd, const char *name, struct cell_error *err)
{
	struct removal rm = {.top_fd = -1};
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : cell_fail_errno(err, errno, "remove '%s'", name);
	rm.dev = st.st_dev;
	int r = S_ISDIR(st.st_mode) ? remove_directory(&rm, dir_fd, name)
				    : unlink_in(dir_fd, name, 0);
	if (!r)
		return 0;
	cell_fail_errno(err, -r, "remove the tree '%s'", name);
	if (r == -EXDEV || r == -EBUSY)
		return cell_error_hint(err, r, "something is mounted below it: unmount that first");
	return cell_error_hint(err, r, "look who owns what is left there");
}
