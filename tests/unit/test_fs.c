/* SPDX-License-Identifier: Apache-2.0 */
/* The guest's file operations, each by what it promises. Attacks are in test_fs_attack.c, watching
 * in test_fs_watch.c. */
#include <sys/sysmacros.h>

#include "fs_call.h"

TEST(read_gives_all_or_a_part)
{
	fs_begin();
	tree_file(fs_root, "f", "0123456789");
	tree_file(fs_root, "empty", "");
	fs_request("f");
	ASSERT_OK(fs_do(WIRE_OP_READ));
	ASSERT_STR(buf_str(&fs_out), "0123456789");
	fs_request(FS_WORKSPACE "/f");
	fs_number(WIRE_T_OFFSET, 3);
	fs_number(WIRE_T_LIMIT, 4);
	ASSERT_OK(fs_do(WIRE_OP_READ));
	ASSERT_STR(buf_str(&fs_out), "3456");
	fs_request("f");
	fs_number(WIRE_T_OFFSET, 1000);
	ASSERT_OK(fs_do(WIRE_OP_READ));
	ASSERT(fs_out.len == 0);
	fs_request("f");
	fs_number(WIRE_T_OFFSET, INT64_MAX);
	ASSERT_OK(fs_do(WIRE_OP_READ));
	ASSERT(fs_out.len == 0);
	fs_request("f");
	fs_number(WIRE_T_OFFSET, UINT64_MAX);
	ASSERT(fs_do(WIRE_OP_READ) < 0 && fs_last.err.code == CELL_EINVAL);
	fs_request("empty");
	ASSERT_OK(fs_do(WIRE_OP_READ));
	ASSERT(fs_out.len == 0);
	fs_request("none");
	ASSERT_ERR(fs_do(WIRE_OP_READ), -ENOENT);
	ASSERT(fs_last.err.code == CELL_ENOTFOUND);
	fs_request(".");
	ASSERT_ERR(fs_do(WIRE_OP_READ), -EISDIR);
}

TEST(write_makes_and_replaces)
{
	struct stat st;

	fs_begin();
	ASSERT_OK(fs_do_write("f", "one", 0));
	ASSERT(fs_reply(WIRE_T_SIZE) == 3);
	ASSERT_STR(tree_text(fs_root, "f"), "one");
	ASSERT(fstatat(fs_root, "f", &st, 0) == 0 && (st.st_mode & 07777) == 0644);
	ASSERT(fchmodat(fs_root, "f", 0751, 0) == 0);
	ASSERT_OK(fs_do_write("f", "second", 0));
	ASSERT_STR(tree_text(fs_root, "f"), "second");
	ASSERT(fstatat(fs_root, "f", &st, 0) == 0 && (st.st_mode & 07777) == 0751);
	fs_request("f");
	fs_number(WIRE_T_MODE, 0600);
	ASSERT_OK(fs_do(WIRE_OP_WRITE));
	ASSERT(fs_reply(WIRE_T_SIZE) == 0);
	ASSERT(fstatat(fs_root, "f", &st, 0) == 0 && (st.st_mode & 07777) == 0600 && !st.st_size);
	ASSERT(fs_count(".") == 1);
}

TEST(write_keeps_the_owner_of_what_it_replaces)
{
	struct stat st;

	if (geteuid() != 0)
		SKIP("needs root");
	fs_begin();
	tree_file(fs_root, "f", "old");
	ASSERT(fchownat(fs_root, "f", 1234, 4321, 0) == 0);
	ASSERT_OK(fs_do_write("f", "new", 0));
	ASSERT(fstatat(fs_root, "f", &st, 0) == 0 && st.st_uid == 1234 && st.st_gid == 4321);
}

TEST(write_can_be_exclusive_append_and_make_parents)
{
	fs_begin();
	ASSERT_OK(fs_do_write("f", "one", CELL_WRITE_EXCLUSIVE));
	ASSERT_ERR(fs_do_write("f", "two", CELL_WRITE_EXCLUSIVE), -EEXIST);
	ASSERT(fs_last.err.code == CELL_EEXISTS);
	ASSERT_STR(tree_text(fs_root, "f"), "one");
	ASSERT_OK(fs_do_write("f", "+two", CELL_WRITE_APPEND));
	ASSERT(fs_reply(WIRE_T_SIZE) == 7);
	ASSERT_STR(tree_text(fs_root, "f"), "one+two");
	ASSERT_OK(fs_do_write("g", "new", CELL_WRITE_APPEND));
	ASSERT_STR(tree_text(fs_root, "g"), "new");
	ASSERT_ERR(fs_do_write("g", "x", CELL_WRITE_APPEND | CELL_WRITE_EXCLUSIVE), -EEXIST);
	ASSERT_ERR(fs_do_write("a/b/c", "x", 0), -ENOENT);
	ASSERT_OK(fs_do_write("a/b/c", "deep", CELL_WRITE_PARENTS));
	ASSERT_STR(tree_text(fs_root, "a/b/c"), "deep");
	tree_link(fs_root, "to-none", "none");
	ASSERT_ERR(fs_do_write("to-none", "x", CELL_WRITE_EXCLUSIVE), -EEXIST);
	ASSERT(!tree_has(fs_root, "none"));
	fs_request("f");
	fs_number(WIRE_T_FLAGS, 64);
	ASSERT(fs_do(WIRE_OP_WRITE) < 0 && fs_last.err.code == CELL_ENOTSUP);
}

TEST(write_goes_through_links_of_the_workspace)
{
	struct stat st;

	fs_begin();
	tree_dir(fs_root, "d");
	tree_file(fs_root, "d/target", "old");
	tree_link(fs_root, "link", "d/target");
	tree_link(fs_root, "link2", "./link");
	tree_link(fs_root, "to-new", "d/new");
	ASSERT_OK(fs_do_write("link2", "new", 0));
	ASSERT_STR(tree_text(fs_root, "d/target"), "new");
	ASSERT_OK(fs_do_write("link", "+more", CELL_WRITE_APPEND));
	ASSERT_STR(tree_text(fs_root, "d/target"), "new+more");
	ASSERT_OK(fs_do_write("to-new", "made", 0));
	ASSERT_STR(tree_text(fs_root, "d/new"), "made");
	ASSERT(fstatat(fs_root, "link", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode));
	ASSERT(fs_count(".") == 4 && fs_count("d") == 2);
}

TEST(what_is_no_regular_file_is_refused_without_blocking)
{
	static const char *const paths[] = {"fifo", "d", "d/", "null", "."};

	fs_begin();
	ASSERT(mkfifoat(fs_root, "fifo", 0600) == 0);
	tree_dir(fs_root, "d");
	bool has_null = mknodat(fs_root, "null", S_IFCHR | 0666, makedev(1, 3)) == 0;
	for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
		if (!has_null && !strcmp(paths[i], "null"))
			continue;
		fs_request(paths[i]);
		ASSERT(fs_do(WIRE_OP_READ) < 0 && fs_last.err.code == CELL_EINVAL);
		ASSERT(fs_do_write(paths[i], "x", 0) < 0 && fs_last.err.code == CELL_EINVAL);
		ASSERT(fs_do_write(paths[i], "x", CELL_WRITE_APPEND) < 0);
		ASSERT(fs_last.err.code == CELL_EINVAL);
		fs_request(paths[i]);
		fs_text(WIRE_T_OLD, "a");
		ASSERT(fs_do(WIRE_OP_EDIT) < 0 && fs_last.err.code == CELL_EINVAL);
	}
	fs_request("fifo");
	fs_text(WIRE_T_PATTERN, "x");
	ASSERT(fs_do(WIRE_OP_GREP) < 0 && fs_last.err.code == CELL_EINVAL);
	/* but walks pass them */
	fs_request(".");
	fs_text(WIRE_T_PATTERN, "x");
	ASSERT_OK(fs_do(WIRE_OP_GREP));
	fs_request(".");
	ASSERT_OK(fs_do(WIRE_OP_TAR));
	ASSERT_ERR(fs_do_write("new/", "x", 0), -EISDIR);
}

TEST(stat_tells_of_the_entry_itself)
{
	static char target[4096];
	struct wire_field f;

	fs_begin();
	tree_file(fs_root, "f", "12345");
	tree_link(fs_root, "l", "../anywhere");
	tree_dir(fs_root, "d");
	ASSERT(mkfifoat(fs_root, "fifo", 0640) == 0 && fchmodat(fs_root, "fifo", 0640, 0) == 0);
	fs_request("f");
	ASSERT_OK(fs_do(WIRE_OP_STAT));
	ASSERT(fs_reply(WIRE_T_TYPE) == CELL_FILE_REGULAR && fs_reply(WIRE_T_SIZE) == 5);
	ASSERT(fs_reply(WIRE_T_MODE) == 0644 && fs_reply(WIRE_T_UID) == geteuid());
	fs_request("d/../l");
	ASSERT_OK(fs_do(WIRE_OP_STAT));
	ASSERT(fs_reply(WIRE_T_TYPE) == CELL_FILE_SYMLINK);
	ASSERT(wire_find(fs_last.reply, fs_last.reply_len, WIRE_T_TARGET, &f) && f.len == 11);
	fs_request(FS_WORKSPACE);
	ASSERT_OK(fs_do(WIRE_OP_STAT));
	ASSERT(fs_reply(WIRE_T_TYPE) == CELL_FILE_DIRECTORY);
	fs_request("fifo");
	ASSERT_OK(fs_do(WIRE_OP_STAT));
	ASSERT(fs_reply(WIRE_T_TYPE) == CELL_FILE_OTHER && fs_reply(WIRE_T_MODE) == 0640);
	fs_request("none");
	ASSERT_ERR(fs_do(WIRE_OP_STAT), -ENOENT);
	memset(target, 't', 4095);
	tree_link(fs_root, "far", target);
	fs_request("far");
	ASSERT_OK(fs_do(WIRE_OP_STAT));
	ASSERT(wire_find(fs_last.reply, fs_last.reply_len, WIRE_T_TARGET, &f) && f.len == 4095);
}

TEST(mkdir_makes_one_or_all)
{
	struct stat st;

	fs_begin();
	fs_request("d");
	ASSERT_OK(fs_do(WIRE_OP_MKDIR));
	ASSERT_ERR(fs_do(WIRE_OP_MKDIR), -EEXIST);
	fs_request("d/private/");
	fs_number(WIRE_T_MODE, 0700);
	ASSERT_OK(fs_do(WIRE_OP_MKDIR));
	ASSERT(fstatat(fs_root, "d/private", &st, 0) == 0 && (st.st_mode & 07777) == 0700);
	fs_request("x/y/z");
	ASSERT_ERR(fs_do(WIRE_OP_MKDIR), -ENOENT);
	fs_number(WIRE_T_FLAGS, 1);
	fs_number(WIRE_T_MODE, 0711);
	ASSERT_OK(fs_do(WIRE_OP_MKDIR));
	ASSERT_OK(fs_do(WIRE_OP_MKDIR));
	ASSERT(fstatat(fs_root, "x/y/z", &st, 0) == 0 && (st.st_mode & 07777) == 0711);
	fs_request(".");
	ASSERT_ERR(fs_do(WIRE_OP_MKDIR), -EEXIST);
	tree_file(fs_root, "f", "");
	fs_request("f");
	fs_number(WIRE_T_FLAGS, 1);
	ASSERT(fs_do(WIRE_OP_MKDIR) < 0);
}

static int do_remove(const char *path, bool is_recursive)
{
	fs_request(path);
	fs_number(WIRE_T_FLAGS, is_recursive);
	return fs_do(WIRE_OP_REMOVE);
}

TEST(remove_takes_what_is_named_and_no_more)
{
	fs_begin();
	tree_dir(fs_root, "d");
	tree_dir(fs_root, "d/e");
	tree_file(fs_root, "d/e/f", "");
	tree_file(fs_root, "keep", "kept");
	tree_link(fs_root, "d/e/in", "../../keep");
	tree_link(fs_root, "d/e/out", "../../../outside");
	tree_link(fs_root, "l", "d");
	ASSERT_ERR(do_remove("d", false), -EISDIR);
	ASSERT(fs_last.err.hint[0]);
	ASSERT_ERR(do_remove("l/", false), -ENOTDIR);
	ASSERT_OK(do_remove("l", false));
	ASSERT_OK(do_remove("d", true));
	ASSERT(!tree_has(fs_root, "d"));
	ASSERT_STR(tree_text(fs_root, "keep"), "kept");
	ASSERT_STR(tree_text(fs_root, "../outside/victim"), "untouched");
	ASSERT_OK(do_remove("keep", true));
	ASSERT_ERR(do_remove("keep", false), -ENOENT);
	for (size_t i = 0; i < 3; i++) {
		ASSERT(do_remove((const char *[]){".", FS_WORKSPACE, "./"}[i], true) < 0);
		ASSERT(fs_last.err.code == CELL_EINVAL);
	}
}

TEST(remove_reaches_any_depth)
{
	fs_begin();
	tree_dir(fs_root, "top");
	int dir = openat(fs_root, "top", O_PATH | O_CLOEXEC);
	for (int i = 0; i < 1500; i++) {
		tree_dir(dir, "some-longer-name");
		tree_file(dir, "f", "");
		int next = openat(dir, "some-longer-name", O_PATH | O_CLOEXEC);
		close(dir);
		dir = next;
	}
	close(dir);
	fs_request("top");
	ASSERT(fs_do(WIRE_OP_LIST) < 0 && fs_last.err.code == CELL_ELIMIT);
	fs_request("top");
	fs_number(WIRE_T_DEPTH, 2);
	ASSERT_OK(fs_do(WIRE_OP_LIST));
	fs_request("top");
	fs_text(WIRE_T_PATTERN, "**/f");
	ASSERT_OK(fs_do(WIRE_OP_GLOB));
	ASSERT(fs_reply(WIRE_T_TRUNCATED) == 1);
	ASSERT_OK(do_remove("top", true));
	ASSERT(fs_count(".") == 0);
}

static int do_move(const char *from, const char *to, bool is_replacing)
{
	fs_request(from);
	fs_text(WIRE_T_TARGET, to);
	fs_number(WIRE_T_FLAGS, is_replacing);
	return fs_do(WIRE_OP_MOVE);
}

TEST(move_renames_and_replaces_only_when_told)
{
	fs_begin();
	tree_file(fs_root, "a", "a");
	tree_file(fs_root, "b", "b");
	tree_dir(fs_root, "d");
	tree_link(fs_root, "l", "../secret");
	ASSERT_ERR(do_move("a", "b", false), -EEXIST);
	ASSERT_OK(do_move("a", "b", true));
	ASSERT_STR(tree_text(fs_root, "b"), "a");
	ASSERT_OK(do_move(FS_WORKSPACE "/b", "d/c", false));
	ASSERT_STR(tree_text(fs_root, "d/c"), "a");
	ASSERT_OK(do_move("l", "d/l", false));
	ASSERT_ERR(do_move("d", "d/e", false), -EINVAL);
	ASSERT_ERR(do_move("none", "x", true), -ENOENT);
	ASSERT_ERR(do_move("d", "none/x", true), -ENOENT);
	ASSERT(do_move("d", ".", true) < 0 && do_move(".", "d", true) < 0);
	fs_request("d");
	ASSERT(fs_do(WIRE_OP_MOVE) < 0 && fs_last.err.code == CELL_EINVAL);
	ASSERT(fs_count("d") == 2);
}

TEST(list_is_sorted_and_as_deep_as_asked)
{
	fs_begin();
	tree_dir(fs_root, "b");
	tree_file(fs_root, "b/2", "xx");
	tree_dir(fs_root, "b/1");
	tree_file(fs_root, "b/1/z", "");
	tree_file(fs_root, "a", "");
	tree_file(fs_root, "b.c", "");
	tree_file(fs_root, "new\nline", "");
	tree_file(fs_root, "\xff\xfe", "");
	tree_link(fs_root, "link", "b");
	fs_request(NULL);
	ASSERT_OK(fs_do(WIRE_OP_LIST));
	ASSERT_STR(fs_paths(), "a|b|b/1|b/1/z|b/2|b.c|link|new\nline|\xff\xfe");
	fs_request(".");
	fs_number(WIRE_T_DEPTH, 1);
	ASSERT_OK(fs_do(WIRE_OP_LIST));
	ASSERT_STR(fs_paths(), "a|b|b.c|link|new\nline|\xff\xfe");
	fs_request("link");
	fs_number(WIRE_T_DEPTH, 2);
	ASSERT_OK(fs_do(WIRE_OP_LIST));
	ASSERT_STR(fs_paths(), "1|1/z|2");
	fs_request("a");
	ASSERT_ERR(fs_do(WIRE_OP_LIST), -ENOTDIR);
	fs_request("b/1/../../b/1");
	ASSERT_OK(fs_do(WIRE_OP_LIST));
	const uint8_t *record;
	size_t len, used;
	struct wire_field f;
	ASSERT(wire_record_next(fs_out.data, fs_out.len, &record, &len, &used) == 1);
	ASSERT(wire_find(record, len, WIRE_T_PATH, &f) && f.len == 1 && f.p[0] == 'z');
	ASSERT(wire_find_u64(record, len, WIRE_T_TYPE, 0) == CELL_FILE_REGULAR);
	ASSERT(wire_find_u64(record, len, WIRE_T_MTIME_NS, 0) > 0);
}

TEST(a_big_directory_is_listed_in_order_with_bounded_memory)
{
	enum {
		N = 40000
	};
	char name[256];
	struct wire_field f;

	fs_begin();
	tree_dir(fs_root, "big");
	int dir = openat(fs_root, "big", O_PATH | O_CLOEXEC);
	for (int i = 0; i < N; i++) {
		(void)snprintf(name, sizeof name, "%06d%0200d", (i * 7919) % N, 0);
		int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		ASSERT(fd >= 0);
		close(fd);
	}
	fs_request("big");
	ASSERT_OK(fs_do(WIRE_OP_LIST));
	size_t at = 0, len, used;
	const uint8_t *record;
	for (int i = 0; i < N; i++) {
		ASSERT(wire_record_next(fs_out.data + at, fs_out.len - at, &record, &len, &used) ==
			1);
		ASSERT(wire_find(record, len, WIRE_T_PATH, &f));
		(void)snprintf(name, sizeof name, "%06d", i);
		ASSERT(memcmp(f.p, name, 6) == 0);
		at += used;
	}
	ASSERT(at == fs_out.len);
	/* The names alone are over 8 MB. */
	fs_check_memory(8192);
	ASSERT_OK(do_remove("big", true));
}

static void set_age(const char *path, time_t s)
{
	struct timespec t[2] = {{.tv_sec = s}, {.tv_sec = s}};

	ASSERT(utimensat(fs_root, path, t, AT_SYMLINK_NOFOLLOW) == 0);
}

static int do_glob(const char *path, const char *pattern, uint64_t limit)
{
	fs_request(path);
	fs_text(WIRE_T_PATTERN, pattern);
	fs_number(WIRE_T_LIMIT, limit);
	return fs_do(WIRE_OP_GLOB);
}

TEST(glob_gives_the_newest_first)
{
	fs_begin();
	tree_dir(fs_root, "d");
	tree_dir(fs_root, "d.c");
	tree_file(fs_root, "old.c", "");
	tree_file(fs_root, "d/new.c", "");
	tree_file(fs_root, "d/same.c", "");
	tree_file(fs_root, "mid.h", "");
	tree_link(fs_root, "d/out.c", "../../secret");
	set_age("old.c", 100);
	set_age("d/new.c", 300);
	set_age("d/same.c", 300);
	set_age("mid.h", 200);
	set_age("d/out.c", 50);
	ASSERT_OK(do_glob(NULL, "**/*.c", 0));
	ASSERT_STR(fs_paths(), "d/new.c|d/same.c|old.c|d/out.c");
	ASSERT(fs_reply(WIRE_T_TRUNCATED) == 0);
	ASSERT_OK(do_glob(NULL, "**/*.{c,h}", 3));
	ASSERT_STR(fs_paths(), "d/new.c|d/same.c|mid.h");
	ASSERT(fs_reply(WIRE_T_TRUNCATED) == 1);
	ASSERT_OK(do_glob("d", "*.c", 3));
	ASSERT_STR(fs_paths(), "new.c|same.c|out.c");
	ASSERT(fs_reply(WIRE_T_TRUNCATED) == 0);
	ASSERT_OK(do_glob(NULL, "*.none", 0));
	ASSERT(fs_out.len == 0);
	ASSERT(do_glob("none", "*", 0) == -ENOENT && do_glob(".", "", 0) < 0);
	ASSERT(fs_last.err.code == CELL_EINVAL);
}

TEST(tar_and_untar_carry_a_tree)
{
	struct buf archive = BUF_INIT(1 << 20);

	fs_begin();
	tree_dir(fs_root, "src");
	tree_file(fs_root, "src/a", "aaa");
	tree_dir(fs_root, "src/d");
	tree_link(fs_root, "src/d/l", "../a");
	fs_request("src");
	ASSERT_OK(fs_do(WIRE_OP_TAR));
	ASSERT_OK(buf_add(&archive, fs_out.data, fs_out.len));
	ASSERT_OK(buf_add(&archive, (char[9999]){0}, 9999)); /* filled up, as writers do */
	fs_request("dst/new");
	ASSERT_OK(fs_run_with(WIRE_OP_UNTAR, archive.data, archive.len, 1));
	ASSERT(fs_reply(WIRE_T_COUNT) == 3);
	ASSERT_STR(tree_text(fs_root, "dst/new/d/l"), "aaa");
	fs_request("dst");
	ASSERT(fs_run_with(WIRE_OP_UNTAR, archive.data, 700, 1) < 0);
	ASSERT(fs_last.err.code == CELL_EINVAL);
	fs_request("src/a");
	ASSERT_ERR(fs_do(WIRE_OP_TAR), -ENOTDIR);
	buf_done(&archive);
}
