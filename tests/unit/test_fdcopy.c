/* SPDX-License-Identifier: Apache-2.0 */
/* Files written with holes: the same bytes, and no space for zeros. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "tree.h"

#define BLOCK 4096u

static int dir, fd;

static void make(void)
{
	dir = tree_new();
	fd = openat(dir, "f", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
}

/* Whether this file system makes holes at all: then ours are looked for. */
static bool has_holes(void)
{
	struct stat st;
	int other = openat(dir, "other", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	ASSERT(other >= 0 && ftruncate(other, 1 << 20) == 0 && fstat(other, &st) == 0);
	close(other);
	return st.st_blocks * 512 < 1 << 19;
}

static uint64_t space_taken(void)
{
	struct stat st;

	ASSERT(fsync(fd) == 0 && fstat(fd, &st) == 0);
	return (uint64_t)st.st_blocks * 512;
}

/* Written in pieces of `piece` bytes it reads as it was. */
static void check_pieces(const char *text, size_t n, size_t piece)
{
	auto_free char *back = malloc(n + 1);

	ASSERT(back && ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	for (size_t at = 0; at < n; at += piece)
		ASSERT_OK(fd_write_holes(fd, text + at, n - at < piece ? n - at : piece));
	ASSERT_OK(fd_end_holes(fd));
	ASSERT_EQ(pread(fd, back, n + 1, 0), (ssize_t)n);
	ASSERT(memcmp(back, text, n) == 0);
}

TEST(whatever_the_pieces_the_bytes_are_the_same)
{
	static const size_t pieces[] = {1, 511, 512, BLOCK - 1, BLOCK, BLOCK + 1, 65536, 1 << 20};
	static char text[24 * BLOCK + 77];

	make();
	/* zeros at the front, between, across borders of blocks, and at the end */
	text[3 * BLOCK - 1] = 1;
	text[3 * BLOCK] = 2;
	memset(text + 9 * BLOCK + 5, 3, 2 * BLOCK);
	text[20 * BLOCK] = 4;
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		check_pieces(text, sizeof text, pieces[i]);
		check_pieces(text, 20 * BLOCK + 1, pieces[i]); /* with something at the end */
		check_pieces(text, 2 * BLOCK, pieces[i]);      /* nothing but zeros */
		check_pieces(text, 1, pieces[i]);
		check_pieces(text, 0, pieces[i]);
	}
}

TEST(zeros_take_no_space)
{
	static const char zeros[1 << 20];
	struct stat st;

	make();
	if (!has_holes())
		SKIP("the file system of TMPDIR has no holes");
	ASSERT_OK(fd_write_holes(fd, "front", 5));
	for (int i = 0; i < 64; i++)
		ASSERT_OK(fd_write_holes(fd, zeros, sizeof zeros));
	ASSERT_OK(fd_write_holes(fd, "back", 4));
	for (int i = 0; i < 64; i++)
		ASSERT_OK(fd_write_holes(fd, zeros, sizeof zeros));
	ASSERT_OK(fd_end_holes(fd));
	ASSERT(fstat(fd, &st) == 0);
	ASSERT_EQ(st.st_size, 5 + 4 + 128 * (off_t)sizeof zeros);
	ASSERT(space_taken() < 1 << 20);
}

TEST(a_pipe_gets_its_zeros)
{
	char text[3 * 512] = {0}, back[sizeof text + 1];
	int fds[2];

	text[512] = 1;
	ASSERT(pipe(fds) == 0);
	ASSERT_OK(fd_write_holes(fds[1], text, sizeof text));
	ASSERT_OK(fd_end_holes(fds[1]));
	ASSERT_EQ(read(fds[0], back, sizeof back), (ssize_t)sizeof text);
	ASSERT(memcmp(text, back, sizeof text) == 0);
}

TEST(a_full_disk_is_told)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	if (full < 0)
		SKIP("there is no /dev/full");
	ASSERT_ERR(fd_write_holes(full, "text", 4), -ENOSPC);
}
