/* SPDX-License-Identifier: Apache-2.0 */
/* Every file operation against paths and links that lead out, killed workers, full disks, and two
 * at once. */
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>

#include "base/beneath.h"
#include "base/newfile.h"
#include "base/tar.h"
#include "fs_call.h"

static struct buf archive = BUF_INIT(1 << 20);

static int to_archive(const void *p, size_t n, void *user)
{
	(void)user;
	return buf_add(&archive, p, n);
}

static void make_archive(void)
{
	struct tar_writer w = {.fn = to_archive};
	struct tar_entry e = {TAR_FILE, "victim", "", 5, 0644, 0, 0, 0};

	ASSERT_OK(tar_write_entry(&w, &e));
	ASSERT_OK(tar_write_data(&w, "taken", 5));
	ASSERT_OK(tar_write_end(&w));
}

/* One way to call each operation on a path. */
static const struct way {
	const char *name;
	uint16_t op;
	bool follows_last; /* a link at the path's end is gone through */
	bool wants_dir;
	uint64_t flags;
} ways[] = {
	{"stat", WIRE_OP_STAT, false, false, 0},
	{"read", WIRE_OP_READ, true, false, 0},
	{"write", WIRE_OP_WRITE, true, false, 0},
	{"append", WIRE_OP_WRITE, true, false, CELL_WRITE_APPEND},
	{"write with parents", WIRE_OP_WRITE, true, false, CELL_WRITE_PARENTS},
	{"edit", WIRE_OP_EDIT, true, false, 0},
	{"grep", WIRE_OP_GREP, true, false, 1},
	{"remove", WIRE_OP_REMOVE, false, false, 1},
	{"move from", WIRE_OP_MOVE, false, false, 1},
	{"move to", WIRE_OP_MOVE, false, false, 1},
	{"mkdir", WIRE_OP_MKDIR, false, true, 0},
	{"mkdir with parents", WIRE_OP_MKDIR, true, true, 1},
	{"list", WIRE_OP_LIST, true, true, 0},
	{"glob", WIRE_OP_GLOB, true, true, 0},
	{"tar", WIRE_OP_TAR, true, true, 0},
	{"untar", WIRE_OP_UNTAR, true, true, 0},
	{"watch", WIRE_OP_WATCH, true, true, 0},
};
#define N_WAYS (sizeof ways / sizeof ways[0])

static int attempt(const struct way *w, const char *path)
{
	if (!strcmp(w->name, "move to")) {
		fs_request("movable");
		fs_text(WIRE_T_TARGET, path);
	} else {
		fs_request(path);
		fs_text(WIRE_T_TARGET, "moved");
	}
	fs_number(WIRE_T_FLAGS, w->flags);
	if (w->op == WIRE_OP_EDIT) {
		fs_text(WIRE_T_OLD, "e");
		fs_text(WIRE_T_NEW, "E");
	}
	if (w->op == WIRE_OP_GREP || w->op == WIRE_OP_GLOB)
		fs_text(WIRE_T_PATTERN, "**");
	const char *in = "taken";
	size_t n = 5;
	if (w->op == WIRE_OP_UNTAR) {
		in = buf_str(&archive);
		n = archive.len;
	}
	return fs_run_with(w->op, in, n, 1);
}

static void begin(void)
{
	fs_begin();
	tree_dir(fs_root, "d");
	tree_file(fs_root, "d/inside", "inside");
	tree_file(fs_root, "movable", "movable");
	tree_link(fs_root, "out-file", "../outside/victim");
	tree_link(fs_root, "out-dir", "../outside");
	tree_link(fs_root, "d/out", "../../outside");
	tree_link(fs_root, "abs-file", "/etc/passwd");
	tree_link(fs_root, "abs-dir", "/tmp");
	tree_link(fs_root, "root", "/");
	tree_link(fs_root, "proc", "/proc/self/root");
	tree_link(fs_root, "dangling-out", "../outside/new");
}

static void check_outside(void)
{
	ASSERT_STR(tree_text(fs_root, "../outside/victim"), "untouched");
	ASSERT_STR(tree_text(fs_root, "../secret"), "secret");
	ASSERT(!tree_has(fs_root, "../outside/new") && !tree_has(fs_root, "../new"));
	ASSERT(!tree_has(fs_root, "../outside/moved") && !tree_has(fs_root, "../moved"));
	ASSERT(fs_count("..") == 3 && fs_count("../outside") == 1);
}

static const char *const paths_out[] = {
	"../secret",
	"../new",
	"../../../../../../etc/passwd",
	"d/../../secret",
	"d/../../new/x",
	"./../secret",
	"/etc/passwd",
	"/",
	"//etc//passwd",
	"/proc/self/root/etc/passwd",
	"/proc/self/cwd",
	(FS_WORKSPACE "/../secret"),
	(FS_WORKSPACE "ling/x"),
	(FS_WORKSPACE "/d/../../secret"),
	("/" FS_WORKSPACE "/../../etc/passwd"),
	"out-dir/victim",
	"out-dir/new",
	"out-dir/../root/movable",
	"d/out/victim",
	"d/out/new/x",
	"root/etc/passwd",
	("root" FS_WORKSPACE "/movable"),
	"abs-dir/new",
	"proc/etc/passwd",
	"out-dir/.",
	"out-dir/",
	"..",
	"../",
	"d/../..",
	"../outside",
};

TEST_SLOW(no_path_leaves_the_workspace_in_any_operation, 300)
{
	make_archive();
	begin();
	for (int way = BENEATH_AUTO; way <= BENEATH_WALK; way += 2) {
		beneath_set_way((enum beneath_way)way);
		for (size_t i = 0; i < N_WAYS; i++) {
			for (size_t k = 0; k < sizeof paths_out / sizeof paths_out[0]; k++) {
				const char *path = paths_out[k];
				int r = attempt(&ways[i], path);
				bool is_link_itself =
					!strcmp(path, "out-dir/") && !ways[i].follows_last;
				bool is_slash = path[strlen(path) - 1] == '/';
				if (is_link_itself || (ways[i].op == WIRE_OP_WRITE && is_slash)) {
					/* refused for another reason: no file, no directory */
					CHECK_(r < 0, "%s '%s' did something", ways[i].name, path);
					check_outside();
					continue;
				}
				CHECK_(r < 0 && fs_last.err.code == CELL_EDENIED,
					"%s '%s': %d, code %d, %s", ways[i].name, path, r,
					fs_last.err.code, fs_last.err.msg);
				CHECK_(strstr(fs_last.err.msg, "leaves the workspace"), "%s",
					fs_last.err.msg);
				ASSERT(fs_last.err.hint[0] && fs_out.len == 0);
				check_outside();
			}
		}
	}
}

TEST_SLOW(no_link_at_the_end_leaves_the_workspace_in_any_operation, 300)
{
	static const char *const links[] = {"out-file", "out-dir", "d/out", "abs-file", "abs-dir",
		"root", "proc", "dangling-out"};

	make_archive();
	for (int way = BENEATH_AUTO; way <= BENEATH_WALK; way += 2) {
		beneath_set_way((enum beneath_way)way);
		for (size_t i = 0; i < N_WAYS; i++) {
			for (size_t k = 0; k < sizeof links / sizeof links[0]; k++) {
				begin();
				int r = attempt(&ways[i], links[k]);
				if (ways[i].follows_last)
					CHECK_(r < 0 && fs_last.err.code == CELL_EDENIED,
						"%s '%s': %d, %s", ways[i].name, links[k], r,
						fs_last.err.msg);
				check_outside();
				close(fs_root);
				tree_remove();
			}
		}
	}
}

TEST(control_every_operation_works_on_a_path_inside)
{
	make_archive();
	for (size_t i = 0; i < N_WAYS; i++) {
		begin();
		bool is_new = ways[i].op == WIRE_OP_MKDIR;
		const char *path = is_new ? "made" : ways[i].wants_dir ? "d" : "d/inside";
		if (ways[i].op == WIRE_OP_WATCH) {
			fs_request(path);
			struct fs_worker w = fs_start(WIRE_OP_WATCH);
			char ready[4];
			ASSERT(read(w.out_fd, ready, sizeof ready) == 4);
			kill(w.pid, SIGKILL);
			ASSERT(waitpid(w.pid, NULL, 0) == w.pid);
		} else {
			int r = attempt(&ways[i], path);
			CHECK_(r == 0, "%s: %s", ways[i].name, fs_last.err.msg);
		}
		check_outside();
		close(fs_root);
		tree_remove();
	}
}

TEST(malformed_paths_are_told_apart)
{
	static char longest[5000];

	make_archive();
	begin();
	memset(longest, 'x', 4999);
	for (size_t i = 0; i < N_WAYS; i++) {
		bool is_to = !strcmp(ways[i].name, "move to");
		CHECK_(attempt(&ways[i], "") < 0 && fs_last.err.code == CELL_EINVAL, "%s: %s",
			ways[i].name, fs_last.err.msg);
		CHECK_(attempt(&ways[i], longest) == -ENAMETOOLONG, "%s: %s", ways[i].name,
			fs_last.err.msg);
		longest[300] = '\0';
		if (!is_to)
			CHECK_(attempt(&ways[i], longest) == -ENAMETOOLONG, "%s: %s", ways[i].name,
				fs_last.err.msg);
		longest[300] = 'x';
		buf_reset(&fs_fields);
		ASSERT_OK(wire_put(&fs_fields, WIRE_T_PATH, "d\0/../..", 8));
		fs_text(WIRE_T_TARGET, "x");
		CHECK_(fs_do(ways[i].op) < 0 && fs_last.err.code == CELL_EINVAL, "%s: %s",
			ways[i].name, fs_last.err.msg);
	}
	fs_request("d");
	fs_number(WIRE_T_ROWS | WIRE_CRITICAL, 1);
	ASSERT(fs_do(WIRE_OP_STAT) < 0 && fs_last.err.code == CELL_ENOTSUP);
	ASSERT(!fs_has(WIRE_OP_EXEC) && fs_has(WIRE_OP_WATCH));
	ASSERT(fs_do(WIRE_OP_EXEC) < 0 && fs_last.err.code == CELL_ENOTSUP);
	fs_request("d");
	ASSERT_OK(buf_addc(&fs_fields, 'x'));
	ASSERT(fs_do(WIRE_OP_STAT) < 0 && fs_last.err.code == CELL_EPROTOCOL);
}

TEST(odd_names_work_in_every_operation)
{
	static const char *const names[] = {
		"new\nline", "bad\xff\xfe", " ", "-rf", "...", "a\\b", "*", "\x1b[31m"};

	make_archive();
	for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
		begin();
		ASSERT_OK(fs_do_write(names[k], "some text", 0));
		for (size_t i = 0; i < 7; i++)
			CHECK_(attempt(&ways[i], names[k]) == 0, "%s '%s': %s", ways[i].name,
				names[k], fs_last.err.msg);
		ASSERT_OK(attempt(&ways[8], names[k]));
		ASSERT_OK(attempt(&ways[9], names[k]));
		ASSERT_OK(attempt(&ways[7], names[k]));
		ASSERT_OK(attempt(&ways[10], names[k]));
		for (size_t i = 12; i < 16; i++)
			CHECK_(attempt(&ways[i], names[k]) == 0, "%s '%s': %s", ways[i].name,
				names[k], fs_last.err.msg);
		close(fs_root);
		tree_remove();
	}
}

/* Feed part of a file, kill the worker, look. */
static void kill_writer(const char *path, size_t n, const char *want)
{
	static char part[200000];

	fs_request(path);
	struct fs_worker w = fs_start(WIRE_OP_WRITE);
	for (size_t done = 0; done < n;) {
		ssize_t k = write(w.in_fd, part, n - done < sizeof part ? n - done : sizeof part);
		ASSERT(k > 0);
		done += (size_t)k;
	}
	kill(w.pid, SIGKILL);
	int status;
	ASSERT(waitpid(w.pid, &status, 0) == w.pid && WIFSIGNALED(status));
	close(w.in_fd);
	close(w.out_fd);
	close(w.answer_fd);
	const char *text = tree_text(fs_root, path);
	ASSERT(want ? text && !strcmp(text, want) : !text);
}

TEST(a_killed_writer_leaves_the_old_file_and_nothing_else)
{
	fs_begin();
	tree_file(fs_root, "f", "old");
	for (size_t n = 0; n <= 1000000; n = n * 10 + 1) {
		kill_writer("f", n, "old");
		kill_writer("new", n, NULL);
	}
	CHECK_(fs_count(".") == 1, "%d entries left", fs_count("."));
}

/* Killed at any moment, the last one too: afterwards it is the old file or the new one, whole. */
TEST(a_writer_killed_at_any_moment_leaves_old_or_new)
{
	int n_old = 0, n_new = 0;

	fs_begin();
	for (int i = 0; i < 400; i++) {
		tree_file(fs_root, "f", "old");
		fs_request("f");
		struct fs_worker w = fs_start(WIRE_OP_WRITE);
		ASSERT(write(w.in_fd, "new!", 4) == 4);
		close(w.in_fd);
		usleep((useconds_t)(i * 13 % 3000));
		kill(w.pid, SIGKILL);
		ASSERT(waitpid(w.pid, NULL, 0) == w.pid);
		close(w.out_fd);
		close(w.answer_fd);
		const char *text = tree_text(fs_root, "f");
		ASSERT(text);
		n_old += !strcmp(text, "old");
		n_new += !strcmp(text, "new!");
		ASSERT(n_old + n_new == i + 1);
	}
	ASSERT_OK(fs_do_write("f", "last", 0));
	CHECK_(fs_count(".") == 1, "%d entries left after %d old, %d new", fs_count("."), n_old,
		n_new);
}

TEST(stale_names_are_cleared_and_live_ones_are_not)
{
	fs_begin();
	tree_file(fs_root, "f", "old");
	tree_file(fs_root, NEWFILE_PREFIX "0", "stale");
	tree_file(fs_root, NEWFILE_PREFIX "1", "live");
	int live = openat(fs_root, NEWFILE_PREFIX "1", O_RDONLY | O_CLOEXEC);
	ASSERT(flock(live, LOCK_EX) == 0);
	ASSERT_OK(fs_do_write("f", "new", 0));
	ASSERT(!tree_has(fs_root, NEWFILE_PREFIX "0") && tree_has(fs_root, NEWFILE_PREFIX "1"));
	ASSERT(mkfifoat(fs_root, NEWFILE_PREFIX "0", 0600) == 0);
	tree_link(fs_root, NEWFILE_PREFIX "2", "f");
	ASSERT_OK(fs_do_write("f", "newer", 0));
	ASSERT_STR(tree_text(fs_root, "f"), "newer");
	ASSERT(tree_has(fs_root, NEWFILE_PREFIX "0") && tree_has(fs_root, NEWFILE_PREFIX "2"));
}

TEST(many_writers_at_once_leave_one_whole_file)
{
	enum {
		N = 24
	};
	struct fs_worker w[N];

	fs_begin();
	for (int round = 0; round < 5; round++) {
		fs_request("f");
		for (int i = 0; i < N; i++)
			w[i] = fs_start(WIRE_OP_WRITE);
		for (int i = 0; i < N; i++) {
			char text[5000];
			memset(text, 'a' + i, sizeof text);
			ASSERT(write(w[i].in_fd, text, sizeof text) == (ssize_t)sizeof text);
		}
		for (int i = 0; i < N; i++)
			close(w[i].in_fd);
		for (int i = 0; i < N; i++) {
			w[i].in_fd = -1;
			ASSERT_OK(fs_finish(&w[i]));
		}
		const char *text = tree_text(fs_root, "f");
		ASSERT(strlen(text) == 5000 && strspn(text, (char[]){text[0], 0}) == 5000);
		ASSERT(fs_count(".") == 1);
	}
}

/* A workspace on a file system of a few pages, or a skip. */
static void begin_tiny(void)
{
	char map[64];
	uid_t uid = geteuid();
	gid_t gid = getegid();

	if (unshare(uid == 0 ? CLONE_NEWNS : CLONE_NEWNS | CLONE_NEWUSER) < 0)
		SKIP("no private mount namespace here");
	if (uid != 0) {
		(void)snprintf(map, sizeof map, "0 %u 1", uid);
		tree_file(AT_FDCWD, "/proc/self/uid_map", map);
		tree_file(AT_FDCWD, "/proc/self/setgroups", "deny");
		(void)snprintf(map, sizeof map, "0 %u 1", gid);
		tree_file(AT_FDCWD, "/proc/self/gid_map", map);
	}
	(void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	char path[300];
	fs_begin();
	(void)snprintf(path, sizeof path, "%s/root", tree_path);
	if (mount("tiny", path, "tmpfs", 0, "size=256k") < 0)
		SKIP("may not mount");
	close(fs_root);
	fs_root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT(fs_root >= 0);
}

TEST(a_full_disk_is_told_and_leaves_all_as_it_was)
{
	static char big[1 << 20];

	begin_tiny();
	tree_file(fs_root, "f", "old");
	fs_request("f");
	ASSERT(fs_run_with(WIRE_OP_WRITE, big, sizeof big, 1) < 0);
	ASSERT(fs_last.err.code == CELL_ENOSPACE && fs_last.err.sys_errno == ENOSPC);
	ASSERT(strstr(fs_last.err.msg, "'f'") && fs_last.err.hint[0]);
	ASSERT_STR(tree_text(fs_root, "f"), "old");
	ASSERT(fs_count(".") == 1);
	fs_request("g");
	ASSERT(fs_run_with(WIRE_OP_WRITE, big, sizeof big, 1) < 0);
	ASSERT(fs_last.err.code == CELL_ENOSPACE && fs_count(".") == 1);

	tree_file(fs_root, "many", "xxxxxxxxxxxxxxxx");
	fs_request("many");
	fs_text(WIRE_T_OLD, "x");
	ASSERT_OK(wire_put(&fs_fields, WIRE_T_NEW, big, 100000));
	fs_number(WIRE_T_FLAGS, 1);
	ASSERT(fs_do(WIRE_OP_EDIT) < 0 && fs_last.err.code == CELL_ENOSPACE);
	ASSERT_STR(tree_text(fs_root, "many"), "xxxxxxxxxxxxxxxx");

	struct tar_writer w = {.fn = to_archive};
	struct tar_entry e = {TAR_FILE, "f", "", 900000, 0644, 0, 0, 0};
	memset(big, 'x', sizeof big); /* zeros would take no space */
	ASSERT_OK(tar_write_entry(&w, &e));
	ASSERT_OK(tar_write_data(&w, big, 900000));
	ASSERT_OK(tar_write_end(&w));
	fs_request(".");
	ASSERT(fs_run_with(WIRE_OP_UNTAR, archive.data, archive.len, 1) < 0);
	ASSERT(fs_last.err.code == CELL_ENOSPACE);
	ASSERT_STR(tree_text(fs_root, "f"), "old");
	ASSERT(fs_count(".") == 2);
	ASSERT_OK(fs_do_write("f", "there is room again", 0)); /* control */
	fs_request("f");
	fs_number(WIRE_T_FLAGS, CELL_WRITE_APPEND);
	ASSERT(fs_run_with(WIRE_OP_WRITE, big, sizeof big, 1) < 0);
	ASSERT(fs_last.err.code == CELL_ENOSPACE);
}

TEST(a_limit_on_file_size_is_told)
{
	static char big[1 << 20];
	struct rlimit limit = {100000, 100000};

	fs_begin();
	tree_file(fs_root, "f", "old");
	ASSERT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
	fs_request("f");
	ASSERT_ERR(fs_run_with(WIRE_OP_WRITE, big, sizeof big, 1), -EFBIG);
	ASSERT(fs_last.err.code == CELL_ELIMIT);
	ASSERT_STR(tree_text(fs_root, "f"), "old");
}

TEST(permissions_are_respected)
{
	if (geteuid() != 0)
		SKIP("needs root to become somebody else");
	fs_begin();
	tree_file(fs_root, "mine", "old");
	tree_dir(fs_root, "closed");
	tree_file(fs_root, "closed/f", "x");
	tree_dir(fs_root, "open");
	tree_file(fs_root, "open/f", "needle");
	tree_file(fs_root, "open/unreadable", "needle");
	ASSERT(chmod(tree_path, 0755) == 0);
	ASSERT(fchmodat(fs_root, ".", 0777, 0) == 0 && fchmodat(fs_root, "mine", 0444, 0) == 0);
	ASSERT(fchmodat(fs_root, "closed", 0700, 0) == 0);
	ASSERT(fchmodat(fs_root, "open/unreadable", 0600, 0) == 0);
	fs_uid = 65534;
	ASSERT_ERR(fs_do_write("mine", "new", 0), -EACCES);
	ASSERT(fs_last.err.code == CELL_EDENIED);
	ASSERT_STR(tree_text(fs_root, "mine"), "old");
	ASSERT_OK(fs_do_write("new", "new", 0));
	ASSERT_ERR(fs_do_write("open/new", "x", 0), -EACCES);
	fs_request("closed/f");
	ASSERT_ERR(fs_do(WIRE_OP_READ), -EACCES);
	fs_request("closed");
	ASSERT_ERR(fs_do(WIRE_OP_LIST), -EACCES);
	fs_request(".");
	ASSERT_OK(fs_do(WIRE_OP_LIST));
	ASSERT_STR(fs_paths(), "closed|mine|new|open|open/f|open/unreadable");
	fs_request(".");
	fs_text(WIRE_T_PATTERN, "needle");
	ASSERT_OK(fs_do(WIRE_OP_GREP));
	ASSERT_STR(fs_paths(), "open/f");
	fs_request(".");
	ASSERT_ERR(fs_do(WIRE_OP_TAR), -EACCES);
	fs_request("open");
	fs_number(WIRE_T_FLAGS, 1);
	ASSERT(fs_do(WIRE_OP_REMOVE) < 0 && fs_last.err.code == CELL_EDENIED);
}

TEST_SLOW(huge_files_pass_with_bounded_memory, 300)
{
	static char part[1 << 16];

	fs_begin();
	int fd = openat(fs_root, "huge", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(ftruncate(fd, INT64_C(3) << 30) == 0);
	close(fd);
	fs_request("huge");
	ASSERT_OK(fs_do(WIRE_OP_READ));
	fs_check_memory(2048);
	fs_request("huge");
	fs_text(WIRE_T_PATTERN, "needle");
	ASSERT_OK(fs_do(WIRE_OP_GREP));
	fs_check_memory(2048);
	fs_request("huge");
	fs_number(WIRE_T_OFFSET, (UINT64_C(3) << 30) - 10);
	ASSERT_OK(fs_do(WIRE_OP_READ));
	ASSERT(fs_out.len == 10);
	fs_request(".");
	ASSERT_OK(fs_do(WIRE_OP_TAR));
	fs_check_memory(2048);
	fs_request("written");
	ASSERT_OK(fs_run_with(WIRE_OP_WRITE, part, sizeof part, 4096));
	ASSERT(fs_reply(WIRE_T_SIZE) == 256 << 20);
	fs_check_memory(2048);
}
