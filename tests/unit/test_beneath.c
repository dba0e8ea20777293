/* SPDX-License-Identifier: Apache-2.0 */
/* Paths below a directory: every vector runs through openat2 and through our own walk. */
#include <errno.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/beneath.h"
#include "tree.h"

/* root: a file, d/e/f, links in and out. Beside it, out of reach: secret. */
static int make_root(void)
{
	int top = tree_new();

	tree_file(top, "secret", "secret");
	tree_dir(top, "root");
	tree_dir(top, "rootling");
	tree_file(top, "rootling/x", "secret");
	int root = openat(top, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT(root >= 0);
	tree_file(root, "file", "inside");
	tree_dir(root, "d");
	tree_dir(root, "d/e");
	tree_file(root, "d/e/f", "deep");
	tree_link(root, "to-file", "file");
	tree_link(root, "to-dir", "d/e");
	tree_link(root, "d/up", "../file");
	tree_link(root, "d/e/way-up", "../../d/../file");
	tree_link(root, "out", "../secret");
	tree_link(root, "out-dir", "..");
	tree_link(root, "out-abs", "/etc/passwd");
	tree_link(root, "abs-in", "/");
	tree_link(root, "dangling", "not-there");
	tree_link(root, "self", "self");
	tree_link(root, "a", "b");
	tree_link(root, "b", "a");
	tree_link(root, "d/e/sly", "../../../secret");
	tree_file(root, "new\nline", "newline");
	tree_file(root, "bad\xff\xfe", "bytes");
	tree_file(root, " ", "blank");
	tree_file(root, "...", "dots");
	return root;
}

static const struct {
	const char *path;
	int flags;
	int want; /* 0, or errno */
	const char *text;
} vectors[] = {
	{"file", O_RDONLY, 0, "inside"},
	{"./file", O_RDONLY, 0, "inside"},
	{".//./file", O_RDONLY, 0, "inside"},
	{"d/../file", O_RDONLY, 0, "inside"},
	{"d/e/../../file", O_RDONLY, 0, "inside"},
	{"d//e///f", O_RDONLY, 0, "deep"},
	{"to-file", O_RDONLY, 0, "inside"},
	{"to-dir/f", O_RDONLY, 0, "deep"},
	{"to-dir/../../file", O_RDONLY, 0, "inside"},
	{"d/up", O_RDONLY, 0, "inside"},
	{"to-dir/way-up", O_RDONLY, 0, "inside"},
	{"new\nline", O_RDONLY, 0, "newline"},
	{"bad\xff\xfe", O_RDONLY, 0, "bytes"},
	{" ", O_RDONLY, 0, "blank"},
	{"...", O_RDONLY, 0, "dots"},
	{".", O_RDONLY | O_DIRECTORY, 0, NULL},
	{"d/", O_RDONLY | O_DIRECTORY, 0, NULL},
	{"d/e/..", O_RDONLY | O_DIRECTORY, 0, NULL},
	{"d/..", O_RDONLY | O_DIRECTORY, 0, NULL},
	{"to-dir/", O_RDONLY | O_DIRECTORY, 0, NULL},
	{"to-dir", O_PATH | O_NOFOLLOW, 0, NULL},
	{"out", O_PATH | O_NOFOLLOW, 0, NULL},
	{"to-file", O_RDONLY | O_NOFOLLOW, ELOOP, NULL},
	{"to-dir", O_RDONLY | O_DIRECTORY | O_NOFOLLOW, ENOTDIR, NULL},
	{"file/", O_RDONLY, ENOTDIR, NULL},
	{"file/.", O_RDONLY, ENOTDIR, NULL},
	{"file/..", O_RDONLY, ENOTDIR, NULL},
	{"file/x", O_RDONLY, ENOTDIR, NULL},
	{"file", O_RDONLY | O_DIRECTORY, ENOTDIR, NULL},
	{"to-file/", O_RDONLY, ENOTDIR, NULL},
	{"none", O_RDONLY, ENOENT, NULL},
	{"none/file", O_RDONLY, ENOENT, NULL},
	{"none/../file", O_RDONLY, ENOENT, NULL},
	{"dangling", O_RDONLY, ENOENT, NULL},
	{"self", O_RDONLY, ELOOP, NULL},
	{"a", O_RDONLY, ELOOP, NULL},
	{"a/x", O_RDONLY, ELOOP, NULL},
	{"", O_RDONLY, EINVAL, NULL},
	{"..", O_RDONLY, EXDEV, NULL},
	{"../secret", O_RDONLY, EXDEV, NULL},
	{"../root/file", O_RDONLY, EXDEV, NULL},
	{"../rootling/x", O_RDONLY, EXDEV, NULL},
	{"./../secret", O_RDONLY, EXDEV, NULL},
	{"d/../../secret", O_RDONLY, EXDEV, NULL},
	{"d/e/../../../secret", O_RDONLY, EXDEV, NULL},
	{"../../../../../../../../etc/passwd", O_RDONLY, EXDEV, NULL},
	{"/etc/passwd", O_RDONLY, EXDEV, NULL},
	{"/", O_RDONLY, EXDEV, NULL},
	{"//etc/passwd", O_RDONLY, EXDEV, NULL},
	{"out", O_RDONLY, EXDEV, NULL},
	{"out", O_RDONLY | O_CREAT, EXDEV, NULL},
	{"out-dir/secret", O_RDONLY, EXDEV, NULL},
	{"out-dir/root/file", O_RDONLY, EXDEV, NULL},
	{"out-abs", O_RDONLY, EXDEV, NULL},
	{"abs-in", O_RDONLY, EXDEV, NULL},
	{"abs-in/etc/passwd", O_RDONLY, EXDEV, NULL},
	{"to-dir/sly", O_RDONLY, EXDEV, NULL},
	{"to-dir/../../../secret", O_RDONLY, EXDEV, NULL},
	{"made", O_WRONLY | O_CREAT | O_EXCL, 0, NULL},
	{"made", O_WRONLY | O_CREAT | O_EXCL, EEXIST, NULL},
	{"to-file", O_WRONLY | O_CREAT | O_EXCL, EEXIST, NULL},
	{"dangling", O_WRONLY | O_CREAT | O_EXCL, EEXIST, NULL},
	{"dangling", O_WRONLY | O_CREAT, 0, NULL},
	{"not-there", O_RDONLY, 0, ""},
	{"made-too/", O_WRONLY | O_CREAT, EISDIR, NULL},
	{"d", O_WRONLY | O_CREAT, EISDIR, NULL},
	{".", O_WRONLY | O_CREAT, EISDIR, NULL},
	{"d", O_RDWR | O_TMPFILE, 0, NULL},
	{"to-dir", O_RDWR | O_TMPFILE, 0, NULL},
};

static void run_vectors(enum beneath_way way)
{
	int root = make_root();

	beneath_set_way(way);
	for (size_t i = 0; i < sizeof vectors / sizeof vectors[0]; i++) {
		int fd = beneath_open(root, vectors[i].path, vectors[i].flags, 0644);
		int got = fd < 0 ? -fd : 0;
		CHECK_(got == vectors[i].want, "'%s' (flags %#x): %s, want %s", vectors[i].path,
			(unsigned)vectors[i].flags, strerror(got), strerror(vectors[i].want));
		if (fd >= 0 && vectors[i].text) {
			char text[16] = "";
			ASSERT(read(fd, text, sizeof text - 1) >= 0);
			ASSERT_STR(text, vectors[i].text);
		}
		if (fd >= 0) {
			ASSERT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
			close(fd);
		}
	}
}

TEST(openat2_resolves_all_vectors)
{
	if (syscall(SYS_openat2, -1, "", NULL, (size_t)0) < 0 &&
		(errno == ENOSYS || errno == EPERM))
		SKIP("no openat2 here");
	run_vectors(BENEATH_OPENAT2);
}

TEST(walk_resolves_all_vectors)
{
	run_vectors(BENEATH_WALK);
}

TEST(auto_resolves_all_vectors)
{
	run_vectors(BENEATH_AUTO);
}

TEST(control_plain_openat_does_leave)
{
	int root = make_root();

	ASSERT_STR(tree_text(root, "../secret"), "secret");
	ASSERT_STR(tree_text(root, "out"), "secret");
	ASSERT_STR(tree_text(root, "d/e/sly"), "secret");
	ASSERT(tree_text(root, "out-abs"));
}

TEST(too_long_is_said_so)
{
	static char path[BENEATH_PATH_MAX + 3];
	char name[NAME_MAX + 2];
	int root = make_root();

	for (int way = BENEATH_AUTO; way <= BENEATH_WALK; way += 2) {
		beneath_set_way((enum beneath_way)way);
		memset(path, '/', sizeof path - 1);
		path[sizeof path - 1] = '\0';
		path[0] = '.';
		ASSERT_ERR(beneath_open(root, path, O_RDONLY, 0), -ENAMETOOLONG);
		path[BENEATH_PATH_MAX] = '\0';
		int fd = ASSERT_OK(beneath_open(root, path, O_RDONLY, 0));
		close(fd);
		memset(name, 'n', NAME_MAX + 1);
		name[NAME_MAX + 1] = '\0';
		ASSERT_ERR(beneath_open(root, name, O_RDONLY, 0), -ENAMETOOLONG);
		name[NAME_MAX] = '\0';
		ASSERT_ERR(beneath_open(root, name, O_RDONLY, 0), -ENOENT);
	}
}

TEST(forty_links_are_followed_and_forty_one_are_not)
{
	int root = make_root();

	tree_link(root, "l0", "file");
	for (int i = 1; i <= 40; i++) {
		char name[16], target[16];
		(void)snprintf(name, sizeof name, "l%d", i);
		(void)snprintf(target, sizeof target, "l%d", i - 1);
		tree_link(root, name, target);
	}
	for (int way = BENEATH_AUTO; way <= BENEATH_WALK; way += 2) {
		beneath_set_way((enum beneath_way)way);
		close(ASSERT_OK(beneath_open(root, "l39", O_RDONLY, 0)));
		ASSERT_ERR(beneath_open(root, "l40", O_RDONLY, 0), -ELOOP);
	}
}

TEST(magic_links_of_proc_lead_nowhere)
{
	int slash = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int keep = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	char by_fd[64];

	ASSERT(slash >= 0 && keep >= 0);
	(void)snprintf(by_fd, sizeof by_fd, "proc/self/fd/%d", keep);
	ASSERT(tree_text(slash, "proc/self/root/etc/passwd")); /* control */
	ASSERT(tree_text(slash, by_fd));
	for (int way = BENEATH_AUTO; way <= BENEATH_WALK; way += 2) {
		beneath_set_way((enum beneath_way)way);
		close(ASSERT_OK(beneath_open(slash, "proc/self/status", O_RDONLY, 0)));
		ASSERT_ERR(beneath_open(slash, "proc/self/root/etc/passwd", O_RDONLY, 0), -ELOOP);
		ASSERT_ERR(beneath_open(slash, "proc/self/cwd", O_RDONLY, 0), -ELOOP);
		ASSERT_ERR(beneath_open(slash, "proc/self/exe", O_RDONLY, 0), -ELOOP);
		ASSERT_ERR(beneath_open(slash, by_fd, O_RDONLY, 0), -ELOOP);
		ASSERT_ERR(beneath_open(slash, "proc/self/ns/mnt", O_RDONLY, 0), -ELOOP);
		char name[NAME_MAX + 1];
		ASSERT_ERR(beneath_open_parent(slash, "proc/self/root/x", true, name), -ELOOP);
		ASSERT_ERR(beneath_open_parent(slash, by_fd, true, name), -ELOOP);
	}
}

TEST(absolute_paths_are_taken_below_the_root_only)
{
	const char *ret;

	ASSERT_OK(beneath_relative("/work", "/work/a/b", &ret));
	ASSERT_STR(ret, "a/b");
	ASSERT_OK(beneath_relative("/work", "/work", &ret));
	ASSERT_STR(ret, ".");
	ASSERT_OK(beneath_relative("/work", "//work///", &ret));
	ASSERT_STR(ret, ".");
	ASSERT_OK(beneath_relative("/work/deep", "/./work/./deep//x/", &ret));
	ASSERT_STR(ret, "x/");
	ASSERT_OK(beneath_relative("/", "/etc/passwd", &ret));
	ASSERT_STR(ret, "etc/passwd");
	ASSERT_OK(beneath_relative("/", "/", &ret));
	ASSERT_STR(ret, ".");
	ASSERT_OK(beneath_relative("/work", "a/b", &ret));
	ASSERT_STR(ret, "a/b");
	ASSERT_OK(beneath_relative("/work", "/work/../etc", &ret));
	ASSERT_STR(ret, "../etc");
	ASSERT_ERR(beneath_relative("/work", "/workshop/a", &ret), -EXDEV);
	ASSERT_ERR(beneath_relative("/work", "/wor", &ret), -EXDEV);
	ASSERT_ERR(beneath_relative("/work", "/", &ret), -EXDEV);
	ASSERT_ERR(beneath_relative("/work", "/etc/../work/a", &ret), -EXDEV);
	ASSERT_ERR(beneath_relative("/work", "/proc/self/root/work", &ret), -EXDEV);
	ASSERT_ERR(beneath_relative("/work", "", &ret), -EINVAL);
}

TEST(parent_and_name_are_found_without_following_the_last)
{
	char name[NAME_MAX + 1];
	struct stat a, b;
	int root = make_root();

	for (int way = BENEATH_AUTO; way <= BENEATH_WALK; way += 2) {
		beneath_set_way((enum beneath_way)way);
		int fd = ASSERT_OK(beneath_open_parent(root, "to-dir/new", false, name));
		ASSERT_STR(name, "new");
		ASSERT(fstat(fd, &a) == 0 && fstatat(root, "d/e", &b, 0) == 0);
		ASSERT(a.st_ino == b.st_ino);
		close(fd);
		close(ASSERT_OK(beneath_open_parent(root, "out", false, name)));
		ASSERT_STR(name, "out");
		ASSERT_ERR(beneath_open_parent(root, "out", true, name), -EXDEV);
		fd = ASSERT_OK(beneath_open_parent(root, "d/e/way-up", true, name));
		ASSERT_STR(name, "file");
		ASSERT(fstat(fd, &a) == 0 && fstat(root, &b) == 0 && a.st_ino == b.st_ino);
		close(fd);
		close(ASSERT_OK(beneath_open_parent(root, "dangling", true, name)));
		ASSERT_STR(name, "not-there");
		close(ASSERT_OK(beneath_open_parent(root, "d/", false, name)));
		ASSERT_STR(name, "d");
		ASSERT_ERR(beneath_open_parent(root, "file/", false, name), -ENOTDIR);
		ASSERT_ERR(beneath_open_parent(root, "to-dir/", false, name), -ENOTDIR);
		ASSERT_ERR(beneath_open_parent(root, ".", false, name), -EINVAL);
		ASSERT_ERR(beneath_open_parent(root, "d/..", false, name), -EINVAL);
		ASSERT_ERR(beneath_open_parent(root, "d/.", false, name), -EINVAL);
		ASSERT_ERR(beneath_open_parent(root, "..", false, name), -EXDEV);
		ASSERT_ERR(beneath_open_parent(root, "d/../..", false, name), -EXDEV);
		ASSERT_ERR(beneath_open_parent(root, "../x", false, name), -EXDEV);
		ASSERT_ERR(beneath_open_parent(root, "out-dir/x", false, name), -EXDEV);
		ASSERT_ERR(beneath_open_parent(root, "/x", false, name), -EXDEV);
		ASSERT_ERR(beneath_open_parent(root, "", false, name), -EINVAL);
		ASSERT_ERR(beneath_open_parent(root, "self", true, name), -ELOOP);
		ASSERT_ERR(beneath_open_parent(root, "none/x", false, name), -ENOENT);
	}
}

TEST(directories_are_made_below_the_root_only)
{
	for (int way = BENEATH_AUTO; way <= BENEATH_WALK; way += 2) {
		int root = make_root();
		beneath_set_way((enum beneath_way)way);
		close(ASSERT_OK(beneath_mkdirs(root, "x/y/z", 0755)));
		ASSERT(tree_has(root, "x/y/z"));
		close(ASSERT_OK(beneath_mkdirs(root, "x/y/z/", 0755)));
		close(ASSERT_OK(beneath_mkdirs(root, ".", 0755)));
		close(ASSERT_OK(beneath_mkdirs(root, "to-dir/q/r", 0755)));
		ASSERT(tree_has(root, "d/e/q/r"));
		close(ASSERT_OK(beneath_mkdirs(root, "n/../m", 0755)));
		ASSERT(tree_has(root, "n") && tree_has(root, "m"));
		ASSERT_ERR(beneath_mkdirs(root, "../made", 0755), -EXDEV);
		ASSERT_ERR(beneath_mkdirs(root, "out-dir/made", 0755), -EXDEV);
		ASSERT_ERR(beneath_mkdirs(root, "new/../../made", 0755), -EXDEV);
		ASSERT_ERR(beneath_mkdirs(root, "/made", 0755), -EXDEV);
		ASSERT_ERR(beneath_mkdirs(root, "file/x", 0755), -ENOTDIR);
		ASSERT(!tree_has(root, "../made"));
		tree_remove();
	}
}

/* Another process swaps a directory and a link out, as fast as it can. */
static pid_t start_swapper(int root)
{
	pid_t pid = fork();

	ASSERT(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)syscall(SYS_renameat2, root, "swap", root, "swap-out",
				RENAME_EXCHANGE);
	}
	return pid;
}

struct race {
	int escapes, inside; /* reads of the secret, and of the file they should see */
};

static bool has_both(struct race r)
{
	return r.escapes > 0 && r.inside > 0;
}

static bool has_inside(struct race r)
{
	return r.inside > 0;
}

/* At least `rounds` attempts, and more until enough was seen: on a busy machine the two processes
 * may not meet for a while. */
static struct race run_race(int root, int (*open_it)(int root), int rounds,
	bool (*is_enough)(struct race r))
{
	struct race r = {0};
	time_t end = time(NULL) + 30;

	for (int i = 0; i < rounds || (!is_enough(r) && time(NULL) < end); i++) {
		char text[16] = "";
		int fd = open_it(root);
		if (fd < 0)
			continue;
		ASSERT(read(fd, text, sizeof text - 1) >= 0);
		close(fd);
		r.escapes += !strcmp(text, "secret");
		r.inside += !strcmp(text, "inside");
	}
	ASSERT(is_enough(r));
	return r;
}

static int open_plain(int root)
{
	return openat(root, "swap/target", O_RDONLY | O_CLOEXEC);
}

static int open_beneath(int root)
{
	return beneath_open(root, "swap/target", O_RDONLY, 0);
}

static int open_beneath_dots(int root)
{
	return beneath_open(root, "swap/../d/../swap/target", O_RDONLY, 0);
}

static int open_parent(int root)
{
	char name[NAME_MAX + 1];
	int dir = beneath_open_parent(root, "swap/target", true, name);

	if (dir < 0)
		return dir;
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	close(dir);
	return fd;
}

TEST(no_race_leads_out)
{
	int root = make_root();

	tree_dir(root, "../outside");
	tree_file(root, "../outside/target", "secret");
	tree_dir(root, "swap");
	tree_file(root, "swap/target", "inside");
	tree_link(root, "swap-out", "../outside");
	pid_t pid = start_swapper(root);
	(void)run_race(root, open_plain, 1, has_both); /* control: a plain open is led out */
	for (int way = BENEATH_AUTO; way <= BENEATH_WALK; way += 2) {
		beneath_set_way((enum beneath_way)way);
		ASSERT_EQ(run_race(root, open_beneath, 5000, has_inside).escapes, 0);
		ASSERT_EQ(run_race(root, open_beneath_dots, 5000, has_inside).escapes, 0);
		ASSERT_EQ(run_race(root, open_parent, 5000, has_inside).escapes, 0);
	}
	kill(pid, SIGKILL);
	ASSERT(waitpid(pid, NULL, 0) == pid);
}
