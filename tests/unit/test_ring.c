/* SPDX-License-Identifier: Apache-2.0 */
/* The ring keeps the last bytes of a stream at their offsets, in memory or in a file. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "guest/ring.h"
#include "test.h"

static uint8_t byte_at(uint64_t offset)
{
	return (uint8_t)(offset * 31 + offset / 251);
}

/* Write n bytes of the pattern, as the guest does: room, fill, wrote. False when it is held back. */
static int write_pattern(struct ring *r, uint64_t n, uint64_t hold, int spool_fd)
{
	while (n) {
		uint8_t *p;
		ssize_t room = ring_room(r, hold, spool_fd, &p);

		if (room <= 0)
			return (int)room;
		size_t k = (uint64_t)room < n ? (size_t)room : (size_t)n;
		for (size_t i = 0; i < k; i++)
			p[i] = byte_at(r->head + i);
		ring_wrote(r, k);
		n -= k;
	}
	return 1;
}

static void check_pattern(const struct ring *r)
{
	uint64_t at = ring_oldest(r);

	while (at < r->head) {
		const uint8_t *p;
		size_t n = ring_view(r, at, &p);

		ASSERT(n > 0);
		for (size_t i = 0; i < n; i++)
			ASSERT(p[i] == byte_at(at + i));
		at += n;
	}
}

TEST(an_empty_ring_shows_nothing_and_costs_nothing)
{
	struct ring r;
	const uint8_t *p;

	ring_init(&r, RING_SMALL);
	ASSERT(ring_view(&r, 0, &p) == 0);
	ASSERT(ring_oldest(&r) == 0);
	ASSERT(r.map == NULL);
	ring_done(&r);
}

TEST(the_last_bytes_stay_and_older_ones_go)
{
	struct ring r;

	ring_init(&r, 65536);
	ASSERT(write_pattern(&r, 1000, UINT64_MAX, -1) == 1);
	ASSERT(ring_oldest(&r) == 0);
	check_pattern(&r);
	ASSERT(write_pattern(&r, 200000, UINT64_MAX, -1) == 1);
	ASSERT(ring_oldest(&r) == 201000 - 65536);
	check_pattern(&r);
	ring_done(&r);
}

TEST(a_held_offset_is_never_overwritten)
{
	struct ring r;

	ring_init(&r, 65536);
	ASSERT(write_pattern(&r, 65536, 0, -1) == 1);
	ASSERT(write_pattern(&r, 1, 0, -1) == 0);
	ASSERT(write_pattern(&r, 100, 100, -1) == 1);
	ASSERT(write_pattern(&r, 1, 100, -1) == 0);
	check_pattern(&r);
	ring_done(&r);
}

static int open_temp_dir(char *path)
{
	ASSERT(mkdtemp(path));
	return ASSERT_OK(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

TEST(a_large_ring_lives_in_the_spool_directory_without_a_name)
{
	char path[] = "/tmp/cell-ring-XXXXXX";
	auto_fd int dir = open_temp_dir(path);
	struct ring r;
	struct stat st;

	ring_init(&r, 4 << 20);
	ASSERT(write_pattern(&r, 11 << 20, UINT64_MAX, dir) == 1);
	ASSERT(r.fd >= 0);
	ASSERT_OK(fstat(r.fd, &st));
	ASSERT(st.st_nlink == 0);
	ASSERT(ring_oldest(&r) == 7 << 20);
	check_pattern(&r);
	ring_done(&r);
	ASSERT_OK(rmdir(path));
}

TEST(without_a_spool_directory_a_large_ring_lives_in_memory)
{
	struct ring r;

	ring_init(&r, 2 << 20);
	ASSERT(write_pattern(&r, 5 << 20, UINT64_MAX, -1) == 1);
	check_pattern(&r);
	ring_done(&r);
}

/* A private 2 MiB tmpfs at path. */
static void mount_tiny(const char *path)
{
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("tiny", path, "tmpfs", 0, "size=2m") < 0)
		SKIP("needs root for a tiny tmpfs");
}

TEST(a_full_disk_makes_the_ring_smaller_not_the_guest_dead)
{
	char path[] = "/tmp/cell-ring-XXXXXX";

	ASSERT(mkdtemp(path));
	mount_tiny(path);
	auto_fd int dir = ASSERT_OK(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct ring r;

	ring_init(&r, 16 << 20);
	ASSERT(write_pattern(&r, 20 << 20, UINT64_MAX, dir) == 1);
	ASSERT(r.size > 0 && r.size <= 2 << 20);
	check_pattern(&r);
	ring_done(&r);
	ASSERT_OK(umount2(path, MNT_DETACH));
	ASSERT_OK(rmdir(path));
}

TEST(a_ring_that_has_not_lapped_can_grow)
{
	struct ring r;

	ring_init(&r, RING_SMALL);
	ASSERT(write_pattern(&r, 200000, UINT64_MAX, -1) == 1);
	ring_enlarge(&r, 4u << 20, -1);
	ASSERT_EQ(r.size, 4u << 20);
	ASSERT_EQ(r.head, 200000);
	ASSERT_EQ(ring_oldest(&r), 0);
	check_pattern(&r);
	ASSERT(write_pattern(&r, 6u << 20, UINT64_MAX, -1) == 1);
	check_pattern(&r);
	ring_enlarge(&r, 16u << 20, -1); /* too late: the oldest bytes have moved */
	ASSERT_EQ(r.size, 4u << 20);
	check_pattern(&r);
	ring_done(&r);
}
