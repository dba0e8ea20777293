/* SPDX-License-Identifier: Apache-2.0 */
/* test_remove_tree.c: removing trees that somebody hostile has written. */
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "scratch.h"

static int remove_it(const char *name, struct cell_error *err)
{
	int fd = scratch_open(scratch);
	int r = cell_remove_tree(fd, name, err);

	close(fd);
	return r;
}

static void drop_root(void)
{
	if (geteuid() == 0) {
		ASSERT(chown(scratch, 65534, 65534) == 0);
		ASSERT(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
	}
}

TEST(a_tree_goes_and_its_neighbours_stay)
{
	scratch_make();
	ASSERT(mkdir(scratch_path("t"), 0700) == 0);
	ASSERT(mkdir(scratch_path("t/a"), 0700) == 0);
	scratch_write(scratch_path("t/a/f"), "x");
	scratch_write(scratch_path("keep"), "x");
	int fd = open(scratch, O_PATH | O_CLOEXEC);
	ASSERT_OK(cell_remove_tree(fd, "t", NULL));
	ASSERT(access(scratch_path("t"), F_OK) < 0);
	ASSERT(access(scratch_path("keep"), F_OK) == 0);
	ASSERT_OK(cell_remove_tree(fd, "t", NULL));
	ASSERT_OK(cell_remove_tree(fd, "keep", NULL));
	ASSERT(access(scratch_path("keep"), F_OK) < 0);
}

TEST(links_are_removed_and_not_followed)
{
	scratch_make();
	ASSERT(mkdir(scratch_path("t"), 0700) == 0);
	ASSERT(mkdir(scratch_path("victim"), 0700) == 0);
	scratch_write(scratch_path("victim/f"), "x");
	ASSERT(symlink("../victim", scratch_path("t/dir")) == 0);
	ASSERT(symlink("../victim/f", scratch_path("t/file")) == 0);
	ASSERT_OK(remove_it("t", NULL));
	ASSERT(access(scratch_path("victim/f"), F_OK) == 0);
	ASSERT(symlink("victim", scratch_path("link")) == 0);
	ASSERT_OK(remove_it("link", NULL));
	ASSERT(access(scratch_path("victim/f"), F_OK) == 0);
}

TEST(a_very_deep_tree_needs_few_descriptors)
{
	scratch_make();
	int fd = open(scratch, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 5000; i++) {
		ASSERT(mkdirat(fd, "d", 0700) == 0);
		int next = openat(fd, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		ASSERT(next >= 0);
		close(fd);
		fd = next;
	}
	close(fd);
	ASSERT(setrlimit(RLIMIT_NOFILE, &(struct rlimit){80, 80}) == 0);
	fd = open(scratch, O_PATH | O_CLOEXEC);
	ASSERT_OK(cell_remove_tree(fd, "d", NULL));
	ASSERT_EQ(scratch_entries(scratch), 0);
}

TEST(directories_without_permissions_go_too)
{
	scratch_make();
	drop_root();
	for (int i = 0; i < 70; i++) { /* deeper than one fold */
		char path[400];
		int n = snprintf(path, sizeof path, "%s", scratch);
		for (int k = 0; k <= i; k++)
			n += snprintf(path + n, sizeof path - (size_t)n, "/d");
		ASSERT(mkdir(path, 0700) == 0);
	}
	scratch_write(scratch_path("d/d/f"), "x");
	for (int i = 69; i >= 0; i--) {
		char path[400];
		int n = snprintf(path, sizeof path, "%s", scratch);
		for (int k = 0; k <= i; k++)
			n += snprintf(path + n, sizeof path - (size_t)n, "/d");
		ASSERT(chmod(path, i % 2 ? 0 : 0500) == 0);
	}
	ASSERT_OK(remove_it("d", NULL));
	ASSERT_EQ(scratch_entries(scratch), 0);
}

TEST(a_mount_below_is_not_entered)
{
	struct cell_error err = {0};

	scratch_make();
	if (unshare(CLONE_NEWNS) < 0)
		SKIP("needs root to mount");
	ASSERT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	ASSERT(mkdir(scratch_path("victim"), 0700) == 0);
	scratch_write(scratch_path("victim/f"), "x");
	ASSERT(mkdir(scratch_path("t"), 0700) == 0);
	ASSERT(mkdir(scratch_path("t/m"), 0700) == 0);
	/* a bind mount of the same file system: st_dev does not tell it apart */
	ASSERT(mount(scratch_path("victim"), scratch_path("t/m"), NULL, MS_BIND, NULL) == 0);
	ASSERT_ERR(remove_it("t", &err), -EXDEV);
	ASSERT_HAS(err.hint, "mounted");
	ASSERT(access(scratch_path("victim/f"), F_OK) == 0);
	ASSERT(umount(scratch_path("t/m")) == 0);
	ASSERT_OK(remove_it("t", NULL));
	ASSERT(access(scratch_path("victim/f"), F_OK) == 0);
}

TEST(a_directory_of_many_files_is_emptied)
{
	scratch_make();
	ASSERT(mkdir(scratch_path("t"), 0700) == 0);
	for (int i = 0; i < 3000; i++)
		scratch_write(scratch_path("t/f%d", i), "");
	ASSERT_OK(remove_it("t", NULL));
	ASSERT(access(scratch_path("t"), F_OK) < 0);
}
