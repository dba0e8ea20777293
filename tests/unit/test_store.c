/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c: names, locks and the state directory itself. */
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "core/store.h"
#include "core/store_spare.h"
#include "scratch.h"

TEST(names_are_checked)
{
	static const char *const good[] = {"a", "0", "web-1", "a.b_c", "0a"};
	static const char *const bad[] = {"", ".", "..", "-a", "_a", ".gone-1", "A", "a/b", "a b",
		"a\n", "\xc3\xa4", "a\x80"};
	char exact[CELL_NAME_MAX + 1];
	struct cell_error err = {0};

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		ASSERT_OK(cell_store_check_name(good[i], NULL));
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		ASSERT_ERR(cell_store_check_name(bad[i], &err), -EINVAL);
		ASSERT(!strpbrk(err.msg, "\n\x80"));
	}
	memset(exact, 'a', sizeof exact);
	exact[CELL_NAME_MAX] = '\0';
	ASSERT_ERR(cell_store_check_name(exact, NULL), -EINVAL);
	exact[CELL_NAME_MAX - 1] = '\0';
	ASSERT_OK(cell_store_check_name(exact, NULL));
}

TEST(the_state_directory_is_made_with_its_parents_when_needed)
{
	auto_store struct cell_store s = CELL_STORE_INIT;
	struct cell_error err = {0};
	struct stat st;

	scratch_make();
	ASSERT(setenv("CELL_STATE_DIR", scratch_path("a/b/c"), 1) == 0);
	ASSERT_ERR(cell_store_open(&s, false, &err), -ENOENT);
	ASSERT_EQ(err.code, CELL_OK);
	ASSERT_OK(cell_store_open(&s, true, NULL));
	ASSERT(stat(scratch_path("a/b/c/cells"), &st) == 0);
	ASSERT_EQ(st.st_mode & 0777, 0700);
}

TEST(a_state_directory_of_others_is_refused)
{
	struct cell_store s;
	struct cell_error err = {0};
	char dir[128];

	scratch_make();
	(void)snprintf(dir, sizeof dir, "%s", scratch_path("state"));
	ASSERT(mkdir(dir, 0700) == 0);
	ASSERT(chmod(dir, 0777) == 0);
	ASSERT_ERR(cell_store_open(&s, true, &err), -EPERM);
	ASSERT_HAS(err.msg, "written to by others");
	ASSERT_HAS(err.hint, "chmod");
	ASSERT(chmod(dir, 0755) == 0);
	ASSERT_OK(cell_store_open(&s, true, &err));
	cell_store_done(&s);
	if (geteuid() != 0)
		SKIP("needs root to give a directory away");
	ASSERT(chown(dir, 65534, 65534) == 0);
	ASSERT_ERR(cell_store_open(&s, true, &err), -EPERM);
	ASSERT_HAS(err.msg, "belongs to user 65534");
}

TEST(an_unwritable_or_relative_state_directory_is_a_clear_error)
{
	struct cell_store s;
	struct cell_error err = {0};

	scratch_make();
	ASSERT(setenv("CELL_STATE_DIR", "relative/path", 1) == 0);
	ASSERT_ERR(cell_store_open(&s, true, &err), -EINVAL);
	scratch_write(scratch_path("file"), "");
	ASSERT(setenv("CELL_STATE_DIR", scratch_path("file"), 1) == 0);
	ASSERT_ERR(cell_store_open(&s, true, &err), -ENOTDIR);
	ASSERT_HAS(err.hint, "CELL_STATE_DIR");
	if (geteuid() == 0) {
		ASSERT(chmod(scratch, 0755) == 0);
		ASSERT(seteuid(65534) == 0);
	} else {
		ASSERT(chmod(scratch, 0500) == 0);
	}
	ASSERT(setenv("CELL_STATE_DIR", scratch_path("new"), 1) == 0);
	ASSERT_ERR(cell_store_open(&s, true, &err), -EACCES);
	ASSERT_HAS(err.msg, "new");
	ASSERT_HAS(err.hint, "CELL_STATE_DIR");
	ASSERT(seteuid(getuid()) == 0);
	ASSERT(chmod(scratch, 0700) == 0);
}

TEST(a_full_disk_is_a_clear_error_and_leaves_nothing)
{
	struct cell_error err = {0};
	struct cell *c;

	scratch_make();
	if (unshare(CLONE_NEWNS) < 0)
		SKIP("needs root to mount a small file system");
	ASSERT(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	ASSERT(mount("t", scratch, "tmpfs", 0, "size=64k,mode=0700") == 0);
	ASSERT(setenv("CELL_STATE_DIR", scratch_path("state"), 1) == 0);
	ASSERT_OK(cell_open(&(struct cell_spec){.backend = "null", .name = "first"}, &c, &err));
	ASSERT_OK(cell_close(c, NULL));
	int fd = open(scratch_path("fill"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	static const char zeros[4096];
	while (write(fd, zeros, sizeof zeros) > 0)
		;
	close(fd);
	ASSERT_ERR(cell_open(&(struct cell_spec){.backend = "null", .name = "second"}, &c, &err),
		-ENOSPC);
	ASSERT_EQ(err.code, CELL_ENOSPACE);
	ASSERT_HAS(err.hint, "space");
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 1);
	ASSERT_EQ(cells_listed(), 1);
	ASSERT_OK(cell_remove("first", &err));
	ASSERT(umount(scratch) == 0);
}

TEST(a_name_is_taken_once)
{
	auto_store struct cell_store s = CELL_STORE_INIT;
	auto_slot struct cell_slot a = CELL_SLOT_INIT;
	auto_slot struct cell_slot b = CELL_SLOT_INIT;
	struct cell_error err = {0};

	scratch_make();
	ASSERT_OK(cell_store_open(&s, true, NULL));
	ASSERT_OK(cell_store_create(&s, "x", &a, NULL));
	ASSERT_ERR(cell_store_create(&s, "x", &b, &err), -EEXIST);
	ASSERT_EQ(err.code, CELL_EEXISTS);
	ASSERT_OK(cell_store_remove(&s, "x", &a, NULL));
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
	ASSERT_OK(cell_store_create(&s, "x", &b, NULL));
	/* the old holder's removal does not hit the new owner of the name */
	ASSERT_OK(cell_store_remove(&s, "x", &a, NULL));
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 1);
}

TEST(a_lock_is_seen_by_others_and_ends_with_its_holder)
{
	auto_store struct cell_store s = CELL_STORE_INIT;
	auto_slot struct cell_slot a = CELL_SLOT_INIT;
	auto_slot struct cell_slot b = CELL_SLOT_INIT;
	enum cell_hold hold;

	scratch_make();
	ASSERT_OK(cell_store_open(&s, true, NULL));
	ASSERT_OK(cell_store_create(&s, "x", &a, NULL));
	ASSERT_OK(cell_store_find(&s, "x", &b, NULL));
	ASSERT(cell_slot_is_held(&b));
	ASSERT_OK(cell_store_hold(&s, "x", &b, true, &hold, NULL));
	ASSERT_EQ(hold, CELL_HOLD_OTHER);
	cell_slot_release(&a);
	ASSERT(!cell_slot_is_held(&b));
	ASSERT_OK(cell_store_hold(&s, "x", &b, false, &hold, NULL));
	ASSERT_EQ(hold, CELL_HOLD_OURS);
	ASSERT_OK(cell_store_remove(&s, "x", &b, NULL));
	ASSERT_OK(cell_store_hold(&s, "x", &a, true, &hold, NULL));
	ASSERT_EQ(hold, CELL_HOLD_GONE);
}

TEST(an_interrupted_removal_is_finished_by_the_next_sweep)
{
	auto_store struct cell_store s = CELL_STORE_INIT;
	char **names;

	scratch_make();
	ASSERT_OK(cell_store_open(&s, true, NULL));
	ASSERT(mkdir(scratch_path("state/cells/.gone-12"), 0700) == 0);
	scratch_write(scratch_path("state/cells/.gone-12/cell.json"), "{}");
	ASSERT_OK(cell_store_names(&s, 0, &names, NULL));
	ASSERT(!names[0]);
	cell_store_names_free(&names);
	cell_store_sweep(&s);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(of_many_creators_of_one_name_one_wins)
{
	int status, won = 0;
	pid_t pids[12];

	scratch_make();
	for (int round = 0; round < 5; round++) {
		char name[8];
		(void)snprintf(name, sizeof name, "n%d", round);
		won = 0;
		for (int i = 0; i < 12; i++) {
			pids[i] = fork();
			if (pids[i] == 0) {
				struct cell *c;
				struct cell_error err = {0};
				int r = cell_open(&(struct cell_spec){.backend = "null",
							  .name = name},
					&c, &err);
				if (r < 0 && err.code != CELL_EEXISTS)
					(void)fprintf(stderr, "%s\n", err.msg);
				_exit(r == 0 ? 0 : err.code == CELL_EEXISTS ? 1 : 2);
			}
		}
		for (int i = 0; i < 12; i++) {
			ASSERT(waitpid(pids[i], &status, 0) == pids[i]);
			ASSERT(WIFEXITED(status) && WEXITSTATUS(status) < 2);
			won += WEXITSTATUS(status) == 0;
		}
		ASSERT_EQ(won, 1);
	}
	ASSERT_EQ(cells_listed(), 5);
}

TEST(names_come_sorted_and_strangers_are_passed_over)
{
	auto_store struct cell_store s = CELL_STORE_INIT;
	char **names;

	scratch_make();
	ASSERT_OK(cell_store_open(&s, true, NULL));
	ASSERT(mkdir(scratch_path("state/cells/b"), 0700) == 0);
	ASSERT(mkdir(scratch_path("state/cells/a"), 0700) == 0);
	ASSERT(mkdir(scratch_path("state/cells/Not A Cell"), 0700) == 0);
	ASSERT_OK(cell_store_names(&s, 0, &names, NULL));
	ASSERT_STR(names[0], "a");
	ASSERT_STR(names[1], "b");
	ASSERT(!names[2]);
	cell_store_names_free(&names);
}

TEST(a_kept_directory_serves_the_next_cell_and_nobody_elses)
{
	auto_store struct cell_store s = CELL_STORE_INIT;
	auto_slot struct cell_slot slot = CELL_SLOT_INIT, kept = CELL_SLOT_INIT;
	struct stat was, is;

	scratch_make();
	ASSERT_OK(cell_store_open(&s, true, NULL));
	for (int i = 0; i < 100 && slot.fd < 0; i++) { /* the first few are not kept */
		ASSERT_OK(cell_store_create(&s, "a", &slot, NULL));
		ASSERT(fstat(slot.fd, &was) == 0);
		if (cell_spare_keep(&s, "a", &slot))
			break;
		ASSERT_OK(cell_store_remove(&s, "a", &slot, NULL));
		cell_slot_done(&slot);
	}
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 1);
	cell_store_sweep(&s); /* ours, and we live */
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 1);
	ASSERT(cell_spare_take(&s, &kept));
	ASSERT(!cell_spare_take(&s, &slot));
	ASSERT_OK(cell_spare_reveal(&s, "b", &kept));
	ASSERT(fstat(kept.fd, &is) == 0 && is.st_ino == was.st_ino);
	ASSERT(access(scratch_path("state/cells/b/lock"), F_OK) == 0);
	/* a file of the cell in it: never for another */
	scratch_write(scratch_path("state/cells/b/left"), "x");
	ASSERT(!cell_spare_keep(&s, "b", &kept));
	ASSERT(unlink(scratch_path("state/cells/b/left")) == 0);
	ASSERT(cell_spare_keep(&s, "b", &kept));
	ASSERT_EQ(kept.fd, -1);
}

TEST(a_directory_kept_by_the_dead_is_swept)
{
	auto_store struct cell_store s = CELL_STORE_INIT;

	scratch_make();
	ASSERT_OK(cell_store_open(&s, true, NULL));
	ASSERT(mkdir(scratch_path("state/cells/.next-12"), 0700) == 0);
	scratch_write(scratch_path("state/cells/.next-12/lock"), "");
	cell_store_sweep(&s);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}
