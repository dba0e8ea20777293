/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk.c: see disk.h. As root a cell's scratch space is an ext4 file system in a file of its own:
 * that has a size and a number of inodes, on whatever file system the state directory is. The file
 * has no name from the beginning, so a crash at any moment leaves nothing.
 */
#include "backends/jail/disk.h"

#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/process.h"

#define LEAST_BYTES    (UINT64_C(256) << 10)
#define OWN_INODES     (11 + 12) /* the file system's and the jail's */
#define BIG_BLOCK_FROM (UINT64_C(32) << 20)

static int open_mkfs(void)
{
	static const char *const paths[] = {"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4",
		"/usr/bin/mkfs.ext4", "/bin/mkfs.ext4", "/usr/local/sbin/mkfs.ext4", NULL};
	int fd = -1;

	for (size_t i = 0; fd < 0 && paths[i]; i++)
		fd = open(paths[i], O_RDONLY | O_CLOEXEC);
	return fd;
}

bool jail_disk_has_images(char *ret_reason)
{
	auto_fd int mkfs = open_mkfs();

	if (mkfs < 0)
		(void)snprintf(ret_reason, 200, "there is no mkfs.ext4: install e2fsprogs");
	else if (access("/dev/loop-control", R_OK | W_OK) < 0)
		(void)snprintf(ret_reason, 200, "there are no loop devices: `modprobe loop`");
	else
		return true;
	return false;
}

static bool is_memory(int fd)
{
	struct statfs st;

	return fstatfs(fd, &st) == 0 && (st.f_type == TMPFS_MAGIC || st.f_type == RAMFS_MAGIC);
}

static int refuse_memory(struct cell_error *err)
{
	int r = cell_fail(err, CELL_ENOTSUP, 0,
		"scratch: disk: the state directory is itself in memory");

	return cell_error_hint(err, r, "set CELL_STATE_DIR to a directory on disk");
}

static int new_file(int dir_fd)
{
	static const char name[] = "scratch.new";
	int fd = openat(dir_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
		return fd;
	fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0)
		(void)unlinkat(dir_fd, name, 0);
	return fd;
}

/* All of it now: a disk that fills up later would be an input/output error in the cell, and one cell's
 * promise would be another's loss. */
static int reserve(int fd, uint64_t bytes, struct cell_error *err)
{
	struct statfs st;

	/* asked first: trying would fill the disk for a moment, for everybody */
	if (fstatfs(fd, &st) == 0 && st.f_bsize > 0 &&
		bytes / (uint64_t)st.f_bsize > (uint64_t)st.f_bavail)
		errno = ENOSPC;
	else if (fallocate(fd, 0, 0, (off_t)bytes) == 0 ||
		 (errno == EOPNOTSUPP && ftruncate(fd, (off_t)bytes) == 0))
		return 0;
	int r = cell_fail_errno(err, errno, "reserve %" PRIu64 " bytes of disk for the cell",
		bytes);
	if (r == -ENOSPC || r == -EDQUOT || r == -EFBIG)
		return cell_error_hint(err, r,
			"free some space, ask for less (--disk), or set CELL_STATE_DIR to another "
			"disk");
	return r;
}

static int format(int fd, uint64_t bytes, uint64_t inodes, struct cell_error *err)
{
	char program[] = "mkfs.ext4", quiet[] = "-qF", o[] = "-O", e[] = "-E", m[] = "-m",
	     zero[] = "0", n[] = "-N", b[] = "-b", block[8], count[24],
	     /* no journal: nobody mounts it again after a crash */
		without[] = "^has_journal,^resize_inode", how[] = "nodiscard,lazy_itable_init=1",
	     path[] = "/proc/self/fd/3", quickly[] = "MKE2FS_SYNC=0",
	     where[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin";
	char *const argv[] = {
		program, quiet, o, without, e, how, m, zero, n, count, b, block, path, NULL};
	char *const envp[] = {where, quickly, NULL};
	auto_fd int image = open_mkfs();
	int status = 0;

	_Static_assert(CELL_SPAWN_FD == 3, "the path names it");
	if (image < 0) {
		int r = cell_fail(err, CELL_ENOTSUP, ENOENT,
			"scratch: disk: there is no mkfs.ext4");
		return cell_error_hint(err, r, "install e2fsprogs, or use --scratch memory");
	}
	(void)snprintf(block, sizeof block, "%d", bytes < BIG_BLOCK_FROM ? 1024 : 4096);
	(void)snprintf(count, sizeof count, "%" PRIu64, inodes);
	struct cell_spawn s = {.image_fd = image, .argv = argv, .envp = envp, .pass_fd = fd};
	int r = cell_process_spawn(&s);
	if (r < 0)
		return cell_fail_errno(err, -r, "start mkfs.ext4");
	pid_t got;
	do
		got = waitpid(s.pid, &status, __WALL);
	while (got < 0 && errno == EINTR);
	if (got == s.pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	r = cell_fail(err, CELL_EBACKEND, 0,
		"format %" PRIu64 " bytes with %" PRIu64 " inodes: mkfs.ext4 gave up (%d)", bytes,
		inodes, status);
	return cell_error_hint(err, r, "more room (--disk) or fewer files (--inodes) may do");
}

int jail_disk_make_image(int dir_fd, uint64_t bytes, uint64_t inodes, struct cell_error *err)
{
	if (bytes < LEAST_BYTES) {
		int r = cell_fail(err, CELL_EINVAL, 0,
			"limits.disk: %" PRIu64 " bytes hold no file system", bytes);
		return cell_error_hint(err, r, "give at least 256k, or use --scratch memory");
	}
	auto_fd int fd = new_file(dir_fd);
	if (fd < 0)
		return cell_fail_errno(err, errno, "make a file for the cell's scratch space");
	if (is_memory(fd))
		return refuse_memory(err);
	bytes -= bytes % 4096;
	int r = reserve(fd, bytes, err);
	if (r == 0)
		r = format(fd, bytes, OWN_INODES + (inodes ? inodes : 1024 + bytes / 16384), err);
	return r < 0 ? r : steal_fd(fd);
}

int jail_disk_make_directory(int dir_fd, const char *name, struct cell_error *err)
{
	if (mkdirat(dir_fd, name, 0755) < 0)
		return cell_fail_errno(err, errno, "make a directory for the cell's scratch space");
	auto_fd int fd = openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return cell_fail_errno(err, errno, "open the cell's scratch space");
	return is_memory(fd) ? refuse_memory(err) : steal_fd(fd);
}
