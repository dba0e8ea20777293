/* SPDX-License-Identifier: Apache-2.0 */
/* The file functions of the C API against the guest itself, over a socketpair: no back end is between. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#include "cell/file.h"

#include "base/cleanup.h"
#include "core/cell.h"
#include "core/guest_process.h"
#include "core/link.h"
#include "tree.h"

static struct cell cell;
static struct cell_error err;
static int top = -1, work = -1; /* a directory of the test, and the workspace in it */
static pid_t guest_pid;

static void begin(void)
{
	char workspace[300], fd_text[16];
	int fds[2];

	top = tree_new();
	tree_dir(top, "work");
	tree_file(top, "secret", "secret");
	work = openat(top, "work", O_PATH | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(workspace, sizeof workspace, "%s/work", tree_path);
	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
	int image = cell_guest_image(top, &err);
	CHECK_(image >= 0, "%s", err.msg);
	guest_pid = fork();
	ASSERT(guest_pid >= 0);
	if (guest_pid == 0) {
		int fd = dup(fds[1]);
		(void)snprintf(fd_text, sizeof fd_text, "%d", fd);
		char *argv[] = {(char[]){"cell-guest"}, (char[]){"--fd"}, fd_text,
			(char[]){"--workspace"}, workspace, NULL};
		(void)fexecve(image, argv, environ);
		_exit(127);
	}
	close(fds[1]);
	close(image);
	cell.caps = CELL_CAP_BIT(CELL_CAP_FILES) | CELL_CAP_BIT(CELL_CAP_WATCH);
	CHECK_(link_open(fds[0], 10000, &cell.link, &err) == 0, "%s", err.msg);
}

/* A path on the host, in the test's directory. */
static const char *host(const char *name)
{
	static char path[2][400];
	static int which;

	which = !which;
	(void)snprintf(path[which], sizeof path[which], "%s/%s", tree_path, name);
	return path[which];
}

#define OK(e) CHECK_((e) == 0, "%s: %s", #e, err.msg)
#define FAILS(e, want)                                                                           \
	do {                                                                                     \
		memset(&err, 0, sizeof err);                                                     \
		int r_ = (e);                                                                    \
		CHECK_(r_ < 0 && err.code == (want), "%s = %d, code %d, '%s'", #e, r_, err.code, \
			err.msg);                                                                \
		ASSERT(err.msg[0]);                                                              \
	} while (0)

static struct buf seen = BUF_INIT(16 << 20);

static int see_file(const struct cell_file_info *info, void *user)
{
	(void)user;
	return buf_addf(&seen, "%s%s%s%s ", info->path,
		info->type == CELL_FILE_DIRECTORY ? "/" : "", info->target[0] ? "->" : "",
		info->target);
}

static int see_data(const void *p, size_t n, void *user)
{
	(void)user;
	return buf_add(&seen, p, n);
}

static int see_match(const struct cell_grep_match *m, void *user)
{
	(void)user;
	return buf_addf(&seen, "%s:%d:%.*s ", m->path, (int)m->line_number, (int)m->line_len,
		m->line);
}

TEST(what_is_stored_is_loaded)
{
	char *p;
	size_t n;

	begin();
	OK(cell_file_store(&cell, "d/f", 0600, CELL_WRITE_PARENTS, "a\0b", 3, &err));
	OK(cell_file_load(&cell, "d/f", 100, &p, &n, &err));
	ASSERT_MEM(p, n, "a\0b", 3);
	ASSERT(p[3] == '\0');
	free(p);
	FAILS(cell_file_load(&cell, "d/f", 2, &p, &n, &err), CELL_ELIMIT);
	FAILS(cell_file_load(&cell, "none", 2, &p, &n, &err), CELL_ENOTFOUND);
	FAILS(cell_file_load(&cell, "../secret", 9, &p, &n, &err), CELL_EDENIED);
	ASSERT(cell_file_exists(&cell, "d/f", &err) == 1);
	ASSERT(cell_file_exists(&cell, "none", &err) == 0);
	ASSERT(cell_file_exists(&cell, "d/f/x", &err) == 0);
	FAILS(cell_file_exists(&cell, "../secret", &err), CELL_EDENIED);
	OK(cell_file_store(&cell, "d/f", 0, CELL_WRITE_APPEND, "c", 1, &err));
	FAILS(cell_file_store(&cell, "d/f", 0, CELL_WRITE_EXCLUSIVE, "c", 1, &err), CELL_EEXISTS);
	OK(cell_file_store(&cell, "empty", 0, 0, NULL, 0, &err));
	OK(cell_file_read(&cell, "d/f", 2, 1, see_data, NULL, &err));
	ASSERT_STR(buf_str(&seen), "b");
}

TEST(entries_are_made_moved_and_removed)
{
	begin();
	OK(cell_file_mkdir(&cell, "a/b", 0, true, &err));
	OK(cell_file_move(&cell, "a", "z", false, &err));
	FAILS(cell_file_move(&cell, "z", "../z", false, &err), CELL_EDENIED);
	OK(cell_file_stat(&cell, "z/b", see_file, NULL, &err));
	ASSERT_STR(buf_str(&seen), "z/b/ ");
	FAILS(cell_file_remove(&cell, "z", false, &err), CELL_EINVAL);
	OK(cell_file_remove(&cell, "z", true, &err));
	FAILS(cell_file_stat(&cell, "z", NULL, NULL, &err), CELL_ENOTFOUND);
}

TEST(listings_and_searches_come_through)
{
	bool is_truncated = true;

	begin();
	tree_dir(work, "d");
	tree_file(work, "d/x.c", "one\ntwo\n");
	tree_file(work, "y.c", "two");
	tree_link(work, "l", "d");
	OK(cell_file_list(&cell, ".", 0, see_file, NULL, &err));
	ASSERT_STR(buf_str(&seen), "d/ d/x.c l->d y.c ");
	buf_reset(&seen);
	OK(cell_file_glob(&cell, NULL, "**/x.*", 0, see_file, NULL, &is_truncated, &err));
	ASSERT_STR(buf_str(&seen), "d/x.c ");
	ASSERT(!is_truncated);
	buf_reset(&seen);
	const struct cell_grep_opts opts = {.pattern = "TW.", .ignore_case = true, .limit = 1};
	OK(cell_file_grep(&cell, &opts, see_match, NULL, &is_truncated, &err));
	ASSERT_STR(buf_str(&seen), "d/x.c:2:two ");
	ASSERT(is_truncated);
	uint64_t count;
	OK(cell_file_edit(&cell, "y.c", "two", 3, "three", 5, false, &count, &err));
	ASSERT(count == 1);
	ASSERT_STR(tree_text(work, "y.c"), "three");
}

static int stop_at_once(const struct cell_file_info *info, void *user)
{
	(void)info;
	++*(int *)user;
	return 42;
}

static int do_not_want(const void *p, size_t n, void *user)
{
	(void)p, (void)n, (void)user;
	return -77;
}

TEST(a_callback_can_stop_it_and_the_connection_goes_on)
{
	int calls = 0;

	begin();
	for (int i = 0; i < 100; i++) {
		char name[16];
		(void)snprintf(name, sizeof name, "%d", i);
		tree_file(work, name, "x");
	}
	ASSERT(cell_file_list(&cell, ".", 0, stop_at_once, &calls, &err) == 42 && calls == 1);
	int fd = openat(work, "big", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(ftruncate(fd, 1 << 30) == 0);
	close(fd);
	for (int i = 0; i < 20; i++)
		ASSERT(cell_file_read(&cell, "big", 0, 0, do_not_want, NULL, &err) == -77);
	ASSERT(cell_file_exists(&cell, "big", &err) == 1);
}

struct endless {
	uint64_t left;
	int end; /* what to return then */
};

static ssize_t give_zeros(void *p, size_t n, void *user)
{
	struct endless *e = user;

	if (e->left == 0)
		return e->end;
	if (n > e->left)
		n = (size_t)e->left;
	memset(p, 0, n);
	e->left -= n;
	return (ssize_t)n;
}

TEST(a_source_that_gives_up_changes_nothing)
{
	begin();
	tree_file(work, "f", "old");
	struct endless e = {.left = 3000000, .end = -EIO};
	FAILS(cell_file_write(&cell, "f", 0, 0, give_zeros, &e, NULL, &err), CELL_EBACKEND);
	ASSERT_STR(tree_text(work, "f"), "old");
	e = (struct endless){.left = 3000000};
	uint64_t size;
	OK(cell_file_write(&cell, "f", 0, 0, give_zeros, &e, &size, &err)); /* control */
	ASSERT(size == 3000000);
}

TEST(an_operation_that_fails_early_does_not_hang_its_sender)
{
	begin();
	tree_dir(work, "d");
	struct endless e = {.left = UINT64_C(1) << 40};
	FAILS(cell_file_write(&cell, "d", 0, 0, give_zeros, &e, NULL, &err), CELL_EINVAL);
	e.left = UINT64_C(1) << 40;
	FAILS(cell_file_write(&cell, "../x", 0, 0, give_zeros, &e, NULL, &err), CELL_EDENIED);
	struct endless bad = {.left = 700};
	FAILS(cell_file_untar(&cell, "d", give_zeros, &(struct endless){.left = 1}, &err),
		CELL_EINVAL);
	OK(cell_file_untar(&cell, "d", give_zeros, &bad, &err)); /* zeros are an empty archive */
}

static int fill(const char *name, size_t n)
{
	int fd = openat(top, name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0640);
	auto_free uint8_t *p = malloc(n);

	ASSERT(fd >= 0 && p);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)(i * 2654435761u >> 13);
	ASSERT(write(fd, p, n) == (ssize_t)n);
	return fd;
}

static bool is_same(const char *a, const char *b)
{
	char x[65536], y[65536];
	auto_fd int fa = openat(top, a, O_RDONLY | O_CLOEXEC);
	auto_fd int fb = openat(top, b, O_RDONLY | O_CLOEXEC);

	ASSERT(fa >= 0 && fb >= 0);
	for (;;) {
		ssize_t n = read(fa, x, sizeof x), m = read(fb, y, sizeof y);
		if (n != m || (n > 0 && memcmp(x, y, (size_t)n) != 0))
			return false;
		if (n <= 0)
			return n == 0;
	}
}

static int count_progress(uint64_t bytes, void *user)
{
	ASSERT(bytes >= *(uint64_t *)user);
	*(uint64_t *)user = bytes;
	return 0;
}

static int stop_progress(uint64_t bytes, void *user)
{
	(void)user;
	return bytes > 1000000 ? 5 : 0;
}

TEST(a_file_goes_up_and_comes_down)
{
	uint64_t moved = 0;
	struct stat st;

	begin();
	close(fill("big", 5 << 20));
	OK(cell_file_upload(&cell, host("big"), "new/copy", count_progress, &moved, &err));
	ASSERT(moved == 5 << 20 && is_same("big", "work/new/copy"));
	ASSERT(fstatat(work, "new/copy", &st, 0) == 0 && (st.st_mode & 07777) == 0640);
	OK(cell_file_upload(&cell, host("big"), "new", NULL, NULL, &err));
	OK(cell_file_upload(&cell, host("big"), "made/", NULL, NULL, &err));
	ASSERT(is_same("big", "work/new/big") && is_same("big", "work/made/big"));
	moved = 0;
	OK(cell_file_download(&cell, "new/copy", host("back"), count_progress, &moved, &err));
	ASSERT(moved == 5 << 20 && is_same("big", "back"));
	tree_dir(top, "dir");
	OK(cell_file_download(&cell, "new/copy", host("dir"), NULL, NULL, &err));
	OK(cell_file_download(&cell, "new/copy", host("dir/deep/er/"), NULL, NULL, &err));
	ASSERT(is_same("big", "dir/copy") && is_same("big", "dir/deep/er/copy"));
	ASSERT(cell_file_download(&cell, "new/copy", host("part"), stop_progress, NULL, &err) == 5);
	ASSERT(!tree_has(top, "part"));
	ASSERT(cell_file_upload(&cell, host("big"), "part", stop_progress, NULL, &err) == 5);
	ASSERT(cell_file_exists(&cell, "part", &err) == 0);
	FAILS(cell_file_download(&cell, "none", host("x"), NULL, NULL, &err), CELL_ENOTFOUND);
	FAILS(cell_file_download(&cell, "../secret", host("x"), NULL, NULL, &err), CELL_EDENIED);
	FAILS(cell_file_upload(&cell, host("none"), "x", NULL, NULL, &err), CELL_ENOTFOUND);
	FAILS(cell_file_upload(&cell, host("big"), "../x", NULL, NULL, &err), CELL_EDENIED);
	FAILS(cell_file_upload(&cell, "/dev/null", "x", NULL, NULL, &err), CELL_EINVAL);
	FAILS(cell_file_download(&cell, "new/copy", "/dev/null", NULL, NULL, &err), CELL_EINVAL);
	ASSERT(!tree_has(top, "x"));
}

TEST(a_directory_goes_up_and_comes_down)
{
	uint64_t moved = 0;

	begin();
	tree_dir(top, "src");
	close(fill("src/big", 3 << 20));
	tree_dir(top, "src/d");
	tree_file(top, "src/d/new\nline", "odd");
	tree_link(top, "src/d/l", "../big");
	OK(cell_file_upload(&cell, host("src"), "a/b", count_progress, &moved, &err));
	ASSERT(moved > 3 << 20 && is_same("src/big", "work/a/b/d/l"));
	OK(cell_file_upload(&cell, host("src"), "a/b", NULL, NULL, &err));
	ASSERT(!tree_has(work, "a/b/src"));
	moved = 0;
	tree_link(work, "to-a", "a");
	OK(cell_file_download(&cell, "to-a", host("back/there"), count_progress, &moved, &err));
	ASSERT(moved > 3 << 20 && is_same("src/big", "back/there/b/d/l"));
	ASSERT_STR(tree_text(top, "back/there/b/d/new\nline"), "odd");
	ASSERT(cell_file_download(&cell, "a", host("part"), stop_progress, NULL, &err) == 5);
	ASSERT(cell_file_upload(&cell, host("src"), "part", stop_progress, NULL, &err) == 5);
	FAILS(cell_file_upload(&cell, host("src"), "../out", NULL, NULL, &err), CELL_EDENIED);
	ASSERT(!tree_has(top, "out"));
	FAILS(cell_file_upload(&cell, host("src"), "a/b/big", NULL, NULL, &err), CELL_EINVAL);
	FAILS(cell_file_download(&cell, "a", host("secret"), NULL, NULL, &err), CELL_EINVAL);
	buf_reset(&seen);
	OK(cell_file_tar(&cell, "a", see_data, NULL, &err));
	ASSERT(seen.len > 3 << 20);
}

TEST(links_out_do_not_come_down)
{
	begin();
	tree_dir(work, "d");
	tree_link(work, "d/out", "../../secret");
	tree_link(work, "d/abs", "/etc/passwd");
	tree_file(work, "d/good", "good");
	tree_dir(top, "dest");
	tree_link(top, "dest/good", "../secret");
	FAILS(cell_file_download(&cell, "d", host("dest"), NULL, NULL, &err), CELL_EDENIED);
	ASSERT_HAS(err.msg, "2 of 3");
	ASSERT(!tree_has(top, "dest/out") && !tree_has(top, "dest/abs"));
	ASSERT_STR(tree_text(top, "dest/good"), "good");
	ASSERT_STR(tree_text(top, "secret"), "secret");
}

static int on_event(const struct cell_watch_event *e, void *user)
{
	(void)user;
	if (e->type == CELL_WATCH_READY)
		tree_dir(work, "made");
	return e->type == CELL_WATCH_CREATED && e->is_directory && !strcmp(e->path, "made") ? 9 : 0;
}

static int ignore_event(const struct cell_watch_event *e, void *user)
{
	(void)e;
	++*(int *)user;
	return 0;
}

TEST(a_watch_tells_and_times_out)
{
	begin();
	ASSERT(cell_file_watch(&cell, ".", true, 20000, on_event, NULL, &err) == 9);
	tree_dir(work, "quiet");
	int n = 0;
	ASSERT(cell_file_watch(&cell, "quiet", false, 500, ignore_event, &n, &err) == 0);
	ASSERT(n <= 1); /* that it is ready */
}

TEST(a_dead_guest_is_told)
{
	begin();
	kill(guest_pid, SIGKILL);
	ASSERT(waitpid(guest_pid, NULL, 0) == guest_pid);
	FAILS(cell_file_store(&cell, "f", 0, 0, "x", 1, &err), CELL_EGONE);
	FAILS(cell_file_exists(&cell, "f", &err), CELL_EGONE);
	FAILS(cell_file_list(&cell, ".", 0, see_file, NULL, &err), CELL_EGONE);
	struct cell none = {0};
	FAILS(cell_file_exists(&none, "f", &err), CELL_EGONE);
}

/* A client that vanishes in the middle of an upload: the old file stays. */
TEST(a_vanished_client_replaces_nothing)
{
	begin();
	tree_file(work, "f", "old");
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		struct endless e = {.left = UINT64_C(1) << 40};
		(void)alarm(1);
		(void)cell_file_write(&cell, "f", 0, 0, give_zeros, &e, NULL, &err);
		_exit(0);
	}
	close(link_fd(cell.link)); /* the child's is the only one now */
	ASSERT(waitpid(pid, NULL, 0) == pid);
	ASSERT(waitpid(guest_pid, NULL, 0) == guest_pid); /* it leaves with its only client */
	ASSERT_STR(tree_text(work, "f"), "old");
	auto_dir DIR *d = fdopendir(openat(work, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	int n = 0;
	while (readdir(d))
		n++;
	ASSERT(n == 3);
}
