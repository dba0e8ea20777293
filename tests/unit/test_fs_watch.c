/* SPDX-License-Identifier: Apache-2.0 */
/* Watching directories: everything is told, from the moment it says it is ready. */
#include "fs_call.h"

static struct fs_worker watcher;
static struct buf events = BUF_INIT(8 << 20);

static const char *const names[] = {
	"?", "created", "modified", "removed", "from", "to", "overflow", "ready"};

/* Read until `want` ("created d/x") has been told; fails when it never is. Returns how many records
 * came before it. */
static int wait_for(const char *want)
{
	for (int n = 0;; n++) {
		const uint8_t *record;
		size_t len, used;
		while (wire_record_next(events.data, events.len, &record, &len, &used) <= 0) {
			char chunk[4096];
			struct pollfd p = {.fd = watcher.out_fd, .events = POLLIN};
			CHECK_(poll(&p, 1, 20000) > 0, "never told: %s", want);
			ssize_t got = read(watcher.out_fd, chunk, sizeof chunk);
			CHECK_(got > 0, "ended before: %s", want);
			ASSERT_OK(buf_add(&events, chunk, (size_t)got));
		}
		struct wire_field f;
		char told[512];
		ASSERT(wire_find(record, len, WIRE_T_PATH, &f));
		uint64_t event = wire_find_u64(record, len, WIRE_T_EVENT, 0);
		bool is_dir = wire_find_u64(record, len, WIRE_T_TYPE, 0) == CELL_FILE_DIRECTORY;
		(void)snprintf(told, sizeof told, "%s %.*s%s", names[event < 8 ? event : 0],
			(int)f.len, f.p, is_dir ? "/" : "");
		buf_consume(&events, used);
		if (!strcmp(told, want))
			return n;
	}
}

static void watch(const char *path, bool is_recursive)
{
	fs_request(path);
	fs_number(WIRE_T_FLAGS, is_recursive);
	watcher = fs_start(WIRE_OP_WATCH);
	ASSERT(wait_for("ready ./") == 0);
}

static void stop(void)
{
	kill(watcher.pid, SIGKILL);
	ASSERT(waitpid(watcher.pid, NULL, 0) == watcher.pid);
}

TEST(what_happens_in_a_directory_is_told)
{
	fs_begin();
	tree_dir(fs_root, "sub");
	watch(NULL, false);
	tree_file(fs_root, "f", "x");
	ASSERT(wait_for("created f") == 0);
	wait_for("modified f");
	ASSERT(renameat(fs_root, "f", fs_root, "g") == 0);
	wait_for("from f");
	ASSERT(wait_for("to g") == 0);
	ASSERT(fchmodat(fs_root, "g", 0600, 0) == 0);
	wait_for("modified g");
	ASSERT(unlinkat(fs_root, "g", 0) == 0);
	wait_for("removed g");
	tree_file(fs_root, "sub/unseen", "x");
	tree_dir(fs_root, "d\n\xff");
	ASSERT(wait_for("created d\n\xff/") == 0); /* nothing of sub was told */
	stop();
}

TEST(directories_made_later_are_watched_too)
{
	fs_begin();
	tree_dir(fs_root, "a");
	tree_dir(fs_root, "a/b");
	watch(".", true);
	tree_file(fs_root, "a/b/f", "x");
	wait_for("created a/b/f");
	for (int i = 0; i < 100; i++) {
		char dir[64], file[80], want[100];
		(void)snprintf(dir, sizeof dir, "a/n%d", i);
		tree_dir(fs_root, dir);
		(void)snprintf(dir, sizeof dir, "a/n%d/deep", i);
		tree_dir(fs_root, dir);
		(void)snprintf(file, sizeof file, "%s/f", dir);
		tree_file(fs_root, file, "x");
		(void)snprintf(want, sizeof want, "created %s", file);
		wait_for(want);
		tree_file(fs_root, file, "again");
		(void)snprintf(want, sizeof want, "modified %s", file);
		wait_for(want);
	}
	stop();
}

TEST(a_moved_directory_is_told_under_its_new_name_only)
{
	fs_begin();
	tree_dir(fs_root, "a");
	tree_dir(fs_root, "a/b");
	tree_dir(fs_root, "../outside/gone");
	watch(NULL, true);
	ASSERT(renameat(fs_root, "a", fs_root, "z") == 0);
	wait_for("from a/");
	wait_for("to z/");
	wait_for("created z/b/");
	tree_file(fs_root, "z/b/f", "x");
	wait_for("created z/b/f");
	ASSERT(renameat(fs_root, "z", fs_root, "../outside/z") == 0);
	wait_for("from z/");
	tree_file(fs_root, "../outside/z/b/unseen", "x");
	ASSERT(renameat(fs_root, "../outside/z", fs_root, "back") == 0);
	ASSERT(wait_for("to back/") == 0);
	wait_for("created back/b/unseen");
	stop();
}

TEST(our_own_writes_show_as_one_arrival)
{
	fs_begin();
	tree_file(fs_root, "f", "old");
	watch(NULL, false);
	struct buf keep = events;
	struct fs_worker w = watcher;
	ASSERT_OK(fs_do_write("f", "new", 0));
	events = keep;
	watcher = w;
	ASSERT(wait_for("to f") == 0);
	stop();
}

TEST(the_end_of_the_directory_ends_the_watch)
{
	fs_begin();
	tree_dir(fs_root, "d");
	watch("d", true);
	ASSERT(unlinkat(fs_root, "d", AT_REMOVEDIR) == 0);
	wait_for("removed ./");
	ASSERT_OK(fs_finish(&watcher));
	tree_dir(fs_root, "e");
	watch("e", false);
	ASSERT(renameat(fs_root, "e", fs_root, "../outside/e") == 0);
	wait_for("from ./");
	ASSERT_OK(fs_finish(&watcher));
}

TEST(a_reader_that_goes_ends_the_watch)
{
	int status;

	fs_begin();
	watch(NULL, true);
	close(watcher.out_fd);
	ASSERT(waitpid(watcher.pid, &status, 0) == watcher.pid);
}

TEST(lost_events_are_told)
{
	fs_begin();
	tree_dir(fs_root, "d");
	watch(NULL, true);
	kill(watcher.pid, SIGSTOP);
	for (int i = 0; i < 20000; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "d/%d", i);
		if (i == 19000)
			tree_dir(fs_root, "late");
		int fd = openat(fs_root, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		ASSERT(fd >= 0);
		close(fd);
	}
	kill(watcher.pid, SIGCONT);
	wait_for("overflow ./");
	/* the directory whose creation was lost is watched all the same */
	tree_file(fs_root, "late/f", "x");
	wait_for("created late/f");
	stop();
}
