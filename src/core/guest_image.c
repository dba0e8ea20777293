/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_image.c: the programs embedded in this library, the guest and the launcher, as something that
 * can be executed. Where the kernel allows it that is a sealed memfd, made once for this process: nothing in a cell
 * can write to it and no file has to be found again. Where memfds may not be executed it is an
 * unlinked file.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/guest_process.h"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif
#ifndef F_SEAL_EXEC
#define F_SEAL_EXEC 0x0020
#endif

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;

struct program {
	const char *name;
	const unsigned char *start, *end;
	int cached_fd;
};
static struct program guest = {"cell-guest", cell_guest_blob, cell_guest_blob_end, -1};
static struct program launcher = {"cell-launcher", cell_launcher_blob, cell_launcher_blob_end, -1};

static int write_program(const struct program *prog, int fd)
{
	const unsigned char *p = prog->start;

	while (p < prog->end) {
		ssize_t n = write(fd, p, (size_t)(prog->end - p));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
	}
	return 0;
}

static int make_memfd(const struct program *prog)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	auto_fd int fd = memfd_create(prog->name, flags | MFD_EXEC);

	if (fd < 0 && errno == EINVAL) /* kernels before 6.3 */
		fd = memfd_create(prog->name, flags);
	if (fd < 0)
		return -errno;
	int r = write_program(prog, fd);
	if (r < 0)
		return r;
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	if (fcntl(fd, F_ADD_SEALS, seals | F_SEAL_EXEC) < 0 && fcntl(fd, F_ADD_SEALS, seals) < 0)
		return -errno;
	return steal_fd(fd);
}

static int make_file(const struct program *prog, int dir_fd)
{
	/* executable by all: in a jail the guest is another user's than ours */
	auto_fd int out = openat(dir_fd, prog->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0555);
	if (out < 0)
		return -errno;
	int r = write_program(prog, out);
	close(steal_fd(out)); /* or executing it is ETXTBSY */
	int fd = r < 0 ? r : openat(dir_fd, prog->name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1)
		fd = -errno;
	(void)unlinkat(dir_fd, prog->name, 0);
	return fd;
}

static int open_program(struct program *prog, int dir_fd, struct cell_error *err)
{
	(void)pthread_mutex_lock(&cache_lock);
	int r = 0;
	if (prog->cached_fd < 0)
		r = prog->cached_fd = make_memfd(prog);
	int fd = prog->cached_fd < 0 ? -1 : fcntl(prog->cached_fd, F_DUPFD_CLOEXEC, 3);
	if (prog->cached_fd >= 0 && fd < 0)
		r = -errno;
	(void)pthread_mutex_unlock(&cache_lock);
	if (fd >= 0)
		return fd;
	if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
		return cell_fail_errno(err, -r, "unpack %s", prog->name);
	fd = make_file(prog, dir_fd);
	if (fd >= 0)
		return fd;
	cell_fail_errno(err, -fd, "unpack %s into a directory of ours", prog->name);
	return cell_error_hint(err, fd, "free some space, or set CELL_STATE_DIR elsewhere");
}

int cell_guest_image(int dir_fd, struct cell_error *err)
{
	return open_program(&guest, dir_fd, err);
}

int cell_launcher_image(int dir_fd, struct cell_error *err)
{
	return open_program(&launcher, dir_fd, err);
}
