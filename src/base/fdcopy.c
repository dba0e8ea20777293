/* SPDX-License-Identifier: Apache-2.0 */
/* fdcopy.c: splice when one side is a pipe, else read and write. */
#include "base/fdcopy.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PART_MAX   (1u << 20)
#define HOLE_BLOCK 4096u

static int wait_for(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	return poll(&p, 1, -1) < 0 && errno != EINTR ? -errno : 0;
}

int fd_write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n > 0) {
		ssize_t done = write(fd, at, n);
		if (done < 0 && errno == EAGAIN) {
			int r = wait_for(fd, POLLOUT);
			if (r < 0)
				return r;
			continue;
		}
		if (done < 0 && errno != EINTR)
			return -errno;
		if (done > 0) {
			at += done;
			n -= (size_t)done;
		}
	}
	return 0;
}

/* What is left of the file's block at `at`, or of n: no hole is smaller than a block. */
static size_t block_at(uint64_t at, size_t n)
{
	size_t left = HOLE_BLOCK - (size_t)(at % HOLE_BLOCK);

	return left < n ? left : n;
}

/* By words, since it looks at every byte of a sparse file, and memcmp() of the guest's libc goes byte by byte. */
static bool is_zero(const char *p, size_t n)
{
	uint64_t word;

	for (; n >= sizeof word; p += sizeof word, n -= sizeof word) {
		memcpy(&word, p, sizeof word);
		if (word)
			return false;
	}
	for (; n > 0; p++, n--)
		if (*p)
			return false;
	return true;
}

int fd_write_holes(int fd, const void *p, size_t n)
{
	const char *from = p;
	off_t at = lseek(fd, 0, SEEK_CUR);

	if (at < 0) /* a pipe: it has no holes */
		return fd_write_all(fd, p, n);
	while (n > 0) {
		bool is_hole = is_zero(from, block_at((uint64_t)at, n));
		size_t run = 0;

		while (run < n) {
			size_t block = block_at((uint64_t)at + run, n - run);
			if (is_zero(from + run, block) != is_hole)
				break;
			run += block;
		}
		int r = !is_hole			      ? fd_write_all(fd, from, run)
			: lseek(fd, (off_t)run, SEEK_CUR) < 0 ? -errno
							      : 0;
		if (r < 0)
			return r;
		at += (off_t)run;
		from += run;
		n -= run;
	}
	return 0;
}

int fd_end_holes(int fd)
{
	off_t at = lseek(fd, 0, SEEK_CUR);
	struct stat st;

	if (at < 0)
		return errno == ESPIPE ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	return S_ISREG(st.st_mode) && st.st_size < at && ftruncate(fd, at) < 0 ? -errno : 0;
}

/* 1 when it cannot go on this way, 0 at the end, negative errno. */
static int splice_all(int in, int out, uint64_t limit, uint64_t *done)
{
	while (*done < limit) {
		uint64_t left = limit - *done;
		ssize_t n =
			splice(in, NULL, out, NULL, left < PART_MAX ? (size_t)left : PART_MAX, 0);
		if (n ==
			0) /* the end; gVisor says so of a pipe that is merely empty, too: reading tells */
			return 1;
		if (n > 0)
			*done += (uint64_t)n;
		else if (errno == EINVAL || errno == ENOSYS || errno == EPERM || errno == EAGAIN ||
			 errno == EBADF || errno == EOPNOTSUPP)
			return 1;
		else if (errno != EINTR)
			return -errno;
	}
	return 0;
}

int fd_copy(int in, int out, uint64_t limit, uint64_t *ret)
{
	char chunk[65536];
	uint64_t done = 0;
	int r = splice_all(in, out, limit, &done);

	while (r > 0 && done < limit) {
		uint64_t left = limit - done;
		ssize_t n = read(in, chunk, left < sizeof chunk ? (size_t)left : sizeof chunk);
		if (n == 0)
			r = 0;
		if (n < 0 && errno == EAGAIN && wait_for(in, POLLIN) == 0)
			continue;
		if (n < 0 && errno != EINTR)
			r = -errno;
		if (n <= 0)
			continue;
		int e = fd_write_all(out, chunk, (size_t)n);
		if (e < 0)
			r = e;
		else
			done += (uint64_t)n;
	}
	if (ret)
		*ret = done;
	return r < 0 ? r : 0;
}
