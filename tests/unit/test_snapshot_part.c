/* SPDX-License-Identifier: Apache-2.0 */
/* What cells give to the host's disk, when they are saved and when files are copied out: no more than is bounded, and holes stay holes. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#include "archive.h"
#include "base/cleanup.h"
#include "core/snapshot_part.h"
#include "core/transfer.h"
#include "scratch.h"

#define MIB (1u << 20)

static struct cell_error error;

static void add(const char *name, uint64_t size)
{
	struct tar_entry e = {TAR_FILE, name, "", size, 0644, 0, 0, 0};

	ASSERT_OK(tar_write_entry(&writer, &e));
}

static void add_zeros(const char *name, uint64_t size)
{
	add(name, size);
	ASSERT_OK(tar_write_fill(&writer));
}

/* Bytes that are nowhere a block of zeros. */
static void add_noise(const char *name, size_t size)
{
	static char noise[MIB];

	memset(noise, 'x', sizeof noise);
	add(name, size);
	for (size_t at = 0; at < size; at += MIB)
		ASSERT_OK(tar_write_data(&writer, noise, size - at < MIB ? size - at : MIB));
}

static int fd = -1;

static int take(uint64_t max_space)
{
	(void)scratch_make();
	fd = open(scratch_path("part"), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
	archive_at = 0;
	return snapshot_part_take(from_archive, NULL, fd, max_space, &error);
}

TEST(an_archive_is_saved_as_it_is_with_holes)
{
	struct stat st;

	add_noise("noise", 5000);
	add_zeros("zeros", 8 * MIB);
	add_noise("more", MIB);
	ASSERT_OK(tar_write_end(&writer));
	ASSERT_OK(take(UINT64_MAX));
	auto_free char *back = malloc(archive.len + 1);
	ASSERT_EQ(pread(fd, back, archive.len + 1, 0), (ssize_t)archive.len);
	ASSERT(memcmp(back, archive.data, archive.len) == 0);
	ASSERT(fstat(fd, &st) == 0 && ftruncate(fd, 64 * MIB) == 0);
	uint64_t before = (uint64_t)st.st_blocks;
	ASSERT(fstat(fd, &st) == 0);
	if ((uint64_t)st.st_blocks * 512 >= 64 * MIB)
		SKIP("the file system of /tmp has no holes");
	ASSERT(before * 512 < 2 * MIB);
}

TEST(a_file_too_large_is_refused_before_it_comes)
{
	add("small", 0);
	add("petabyte", UINT64_C(1) << 50);
	writer.left = 0; /* none of it comes: that it would is enough */
	ASSERT(take(UINT64_MAX) < 0);
	ASSERT_EQ(error.code, CELL_ELIMIT);
	ASSERT_HAS(error.msg, "petabyte");
	ASSERT_HAS(error.msg, "64 GiB");
	ASSERT(error.hint[0]);
}

TEST(many_that_are_too_large_together_are_refused)
{
	static char name[8];
	size_t n = 0;

	/* the first has all but a little, and comes; what it says is what counts */
	add_zeros("a", 4 * MIB);
	for (n = 0; n < 2; n++) {
		(void)snprintf(name, sizeof name, "b%zu", n);
		add(name, SNAPSHOT_PART_MAX - 2 * MIB);
		writer.left = writer.pad = 0;
	}
	ASSERT(take(UINT64_MAX) < 0);
	ASSERT_EQ(error.code, CELL_ELIMIT);
	ASSERT_HAS(error.msg, "b0");
}

TEST(space_on_disk_has_its_own_limit)
{
	add_zeros("zeros", 8 * MIB); /* takes none */
	add_noise("noise", 4 * MIB);
	ASSERT_OK(tar_write_end(&writer));
	ASSERT(take(2 * MIB) < 0);
	ASSERT_EQ(error.code, CELL_ELIMIT);
	ASSERT_HAS(error.msg, "bytes that are left for it");
	ASSERT_OK(take(16 * MIB));
	/* little things count, too */
	archive_begin();
	add_noise("noise", MIB / 2);
	ASSERT_OK(tar_write_end(&writer));
	ASSERT(take(4096) < 0);
	ASSERT_EQ(error.code, CELL_ELIMIT);
}

TEST(a_full_disk_is_told)
{
	auto_fd int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	if (full < 0)
		SKIP("there is no /dev/full");
	add_noise("noise", MIB);
	ASSERT_OK(tar_write_end(&writer));
	ASSERT(snapshot_part_take(from_archive, NULL, full, UINT64_MAX, &error) < 0);
	ASSERT_EQ(error.code, CELL_ENOSPACE);
}

TEST(what_is_no_archive_is_refused)
{
	add_noise("noise", 5000);
	ASSERT(take(UINT64_MAX) < 0); /* cut short */
	ASSERT_EQ(error.code, CELL_EPROTOCOL);
	ASSERT_OK(buf_add(&archive, "and then something else, which is no header: .....", 50));
	ASSERT(take(UINT64_MAX) < 0);
	ASSERT_EQ(error.code, CELL_EPROTOCOL);
}

static ssize_t endless(void *p, size_t n, void *user)
{
	ssize_t got = from_archive(p, n, user);

	if (got == 0) {
		memset(p, 'y', n);
		got = (ssize_t)n;
	}
	return got;
}

TEST(a_guest_that_goes_on_behind_the_end_is_cut_off)
{
	add_noise("noise", 5000);
	ASSERT_OK(tar_write_end(&writer));
	ASSERT_OK(take(UINT64_MAX));
	archive_at = 0;
	ASSERT(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
	ASSERT(snapshot_part_take(endless, NULL, fd, UINT64_MAX, &error) < 0);
	ASSERT_EQ(error.code, CELL_EPROTOCOL);
	ASSERT_HAS(error.msg, "behind the end");
}

TEST(an_owner_too_long_is_not_taken_for_another)
{
	char name[200];

	(void)scratch_make();
	memset(name, 'a', 100);
	(void)snprintf(name + 100, sizeof name - 100, "/x");
	ASSERT(cell_snapshot_remove(name, &error) < 0);
	ASSERT_EQ(error.code, CELL_EINVAL);
	ASSERT(cell_snapshot_remove(name + 100 - 63, &error) < 0);
	ASSERT_EQ(error.code, CELL_ENOTFOUND);
}

/* ---- the host keeps some room ---- */

/* A file system of 16.5 MiB; false where none can be had. */
static bool make_small_disk(void)
{
	(void)scratch_make();
	ASSERT(mkdir(scratch_path("small"), 0700) == 0);
	return unshare(CLONE_NEWNS) == 0 &&
	       mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("small", scratch_path("small"), "tmpfs", 0, "size=16896k") == 0;
}

TEST(saving_stops_before_the_disk_is_full)
{
	if (!make_small_disk())
		SKIP("only root can mount");
	add("noise", 1 << 30);
	fd = open(scratch_path("small/part"), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
	ASSERT(snapshot_part_take(endless, NULL, fd, UINT64_MAX, &error) < 0);
	ASSERT_EQ(error.code, CELL_ENOSPACE);
	ASSERT_HAS(error.msg, "stay free");
	ASSERT(error.hint[0]);
	ASSERT(umount2(scratch_path("small"), MNT_DETACH) == 0);
}

static int stat_file(struct cell *c, const char *path, cell_file_fn fn, void *user,
	struct cell_error *err)
{
	struct cell_file_info info = {.path = path, .type = CELL_FILE_REGULAR, .mode = 0644};

	(void)c, (void)err;
	return fn(&info, user);
}

static int read_endless(struct cell *c, const char *path, uint64_t offset, uint64_t limit,
	cell_data_fn fn, void *user, struct cell_error *err)
{
	static const char noise[65536] = {[0] = 1, [4096] = 1};
	int r = 0;

	(void)c, (void)path, (void)offset, (void)limit, (void)err;
	while (r == 0)
		r = fn(noise, sizeof noise, user);
	return r;
}

TEST(a_file_without_end_does_not_fill_the_disk)
{
	/* zeros but for two blocks of each 64 KiB: holes let it go on for longer than the disk is large */
	static const struct transfer_ops ops = {.stat = stat_file, .read = read_endless};

	if (!make_small_disk())
		SKIP("only root can mount");
	ASSERT(transfer_download(&ops, NULL, "f", scratch_path("small/f"), NULL, NULL, &error) < 0);
	ASSERT_EQ(error.code, CELL_ENOSPACE);
	ASSERT_HAS(error.msg, "download 'f'");
	ASSERT_HAS(error.msg, "stay free");
	ASSERT_EQ(scratch_entries(scratch_path("small")), 0);
	ASSERT(umount2(scratch_path("small"), MNT_DETACH) == 0);
}
