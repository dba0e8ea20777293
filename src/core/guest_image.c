/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_image.c: the guest program embedded in this library, as something that can be executed.
 * Where the kernel allows it that is a sealed memfd, made once for this process: nothing in a cell
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
static int cached_fd = -1;

static int write_blob(int fd)
{
	const unsigned char *p = cell_guest_blob;

	while (p < cell_guest_blob_end) {
		ssize_t n = write(fd, p, (size_t)(cell_guest_blob_end - p));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
	}
	return 0;
}

static int make_memfd(void)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	auto_fd int fd = memfd_create("cell-guest", flags | MFD_EXEC);

	if (fd < 0 && errno == EINVAL) /* kernels before 6.3 */
		fd = memfd_create("cell-guest", flags);
	if (fd < 0)
		return -errno;
	int r = write_blob(fd);
	if (r < 0)
		return r;
	const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
	if (fcntl(fd, F_ADD_SEALS, seals | F_SEAL_EXEC) < 0 && fcntl(fd, F_ADD_SEALS, seals) < 0)
		return -errno;
	return steal_fd(fd);
}

static int make_file(int dir_fd)
{
	static const char name[] = "guest";

	auto_fd int out = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0500);
	if (out < 0)
		return -errno;
	int r = write_blob(out);
	close(steal_fd(out)); /* or executing it is ETXTBSY */
	int fd = r < 0 ? r : openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1)
		fd = -errno;
	(void)unlinkat(dir_fd, name, 0);
	return fd;
}

int cell_guest_image(int dir_fd, struct cell_error *err)
{
	(void)pthread_mutex_lock(&cache_lock);
	int r = 0;
	if (cached_fd < 0)
		r = cached_fd = make_memfd();
	int fd = cached_fd < 0 ? -1 : fcntl(cached_fd, F_DUPFD_CLOEXEC, 3);
	if (cached_fd >= 0 && fd < 0)
		r = -errno;
	(void)pthread_mutex_unlock(&cache_lock);
	if (fd >= 0)
		return fd;
	if (r == -EMFILE || r == -ENFILE || r == -ENOMEM)
		return cell_fail_errno(err, -r, "unpack the guest");
	fd = make_file(dir_fd);
	if (fd >= 0)
		return fd;
	cell_fail_errno(err, -fd, "unpack the guest into the cell's directory");
	return cell_error_hint(err, fd, "free some space, or set CELL_STATE_DIR elsewhere");
}
