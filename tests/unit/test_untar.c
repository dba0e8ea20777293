/* SPDX-License-Identifier: Apache-2.0 */
/* Taking archives apart: nothing outside the directory is made, changed or followed. Also what
 * tartree packs, since it is the other end of it. */
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "archive.h"
#include "base/cleanup.h"
#include "base/tartree.h"
#include "base/untar.h"
#include "tree.h"

#define SECOND INT64_C(1000000000)

static void add(char type, const char *name, const char *link, const char *text, uint32_t mode)
{
	struct tar_entry e = {type, name, link, strlen(text), mode, 0, 0, 1000 * SECOND + 5};

	ASSERT_OK(tar_write_entry(&writer, &e));
	if (type == TAR_FILE && *text)
		ASSERT_OK(tar_write_data(&writer, text, strlen(text)));
}

static void add_file(const char *name, const char *text)
{
	add(TAR_FILE, name, "", text, 0644);
}

static struct untar_result result;
static struct cell_error error;

static enum untar_kind kind = UNTAR_FILES;

static int take_out(int dir)
{
	struct tar_reader in = TAR_READER_INIT(from_archive, NULL);

	archive_at = 0;
	memset(&error, 0, sizeof error);
	int r = untar(&in, dir, kind, 0, &result, &error);
	tar_reader_done(&in);
	return r;
}

static int end_and_take_out(int dir)
{
	ASSERT_OK(tar_write_end(&writer));
	return take_out(dir);
}

/* A directory to unpack in, with something beside it that must stay as it is. */
static int make_dest(void)
{
	int top = tree_new();

	tree_dir(top, "dest");
	tree_dir(top, "beside");
	tree_file(top, "beside/victim", "untouched");
	int dest = openat(top, "dest", O_PATH | O_DIRECTORY | O_CLOEXEC);
	ASSERT(dest >= 0);
	return dest;
}

static void check_beside(int dest)
{
	ASSERT_STR(tree_text(dest, "../beside/victim"), "untouched");
	ASSERT(!tree_has(dest, "../beside/new") && !tree_has(dest, "../new"));
}

TEST(a_tree_comes_out_as_it_was)
{
	int dest = make_dest();
	struct stat st;

	archive_begin();
	add(TAR_DIRECTORY, "d", "", "", 0555);
	add_file("d/x", "one");
	add(TAR_FILE, "d/run", "", "two", 04755);
	add(TAR_SYMLINK, "d/l", "x", "", 0777);
	add(TAR_SYMLINK, "d/up", "../top", "", 0777);
	add(TAR_HARDLINK, "d/h", "d/x", "", 0644);
	add_file("./top", "three");
	add_file("implied/parent//x", "four");
	ASSERT_OK(end_and_take_out(dest));
	ASSERT(result.entries == 8 && result.refused == 0 && result.bytes == 3 + 3 + 5 + 4);
	ASSERT_STR(tree_text(dest, "d/x"), "one");
	ASSERT_STR(tree_text(dest, "d/l"), "one");
	ASSERT_STR(tree_text(dest, "d/up"), "three");
	ASSERT_STR(tree_text(dest, "d/h"), "one");
	ASSERT_STR(tree_text(dest, "implied/parent/x"), "four");
	ASSERT(fstatat(dest, "d/run", &st, 0) == 0 && (st.st_mode & 07777) == 0755);
	ASSERT(st.st_mtim.tv_sec == 1000 && st.st_mtim.tv_nsec == 5);
	ASSERT(fstatat(dest, "d", &st, 0) == 0 && (st.st_mode & 07777) == 0555);
	ASSERT(st.st_mtim.tv_sec == 1000);
	ASSERT(fstatat(dest, "d/x", &st, 0) == 0 && st.st_nlink == 2);
	/* once more over itself */
	ASSERT(fchmodat(dest, "d", 0755, 0) == 0);
	ASSERT_OK(take_out(dest));
	ASSERT_STR(tree_text(dest, "d/h"), "one");
}

static const struct {
	char type;
	const char *name, *link;
	const char *why; /* part of the message */
} attacks[] = {
	{TAR_FILE, "/tmp/new", "", "absolute"},
	{TAR_FILE, "../new", "", "'..'"},
	{TAR_FILE, "a/../../new", "", "'..'"},
	{TAR_FILE, "a/..", "", "'..'"},
	{TAR_FILE, "..", "", "'..'"},
	{TAR_DIRECTORY, "../new", "", "'..'"},
	{TAR_DIRECTORY, "/new", "", "absolute"},
	{TAR_FILE, "./.", "", "no name"},
	{TAR_SYMLINK, "l", "/etc/passwd", "absolute path"},
	{TAR_SYMLINK, "l", "../beside/victim", "lead out"},
	{TAR_SYMLINK, "l", "..", "lead out"},
	{TAR_SYMLINK, "d/l", "../../beside", "lead out"},
	{TAR_SYMLINK, "d/l", "x/../../..", "lead out"},
	{TAR_SYMLINK, "l", "", "no target"},
	{TAR_SYMLINK, "/l", "x", "absolute"},
	{TAR_SYMLINK, "../new", "x", "'..'"},
	{TAR_HARDLINK, "h", "../beside/victim", "outside"},
	{TAR_HARDLINK, "h", "/etc/passwd", "outside"},
	{TAR_HARDLINK, "h", "not-there", "not there"},
	{TAR_HARDLINK, "h", "good-dir", "no regular file"},
	{TAR_HARDLINK, "../new", "good", "'..'"},
	{TAR_CHAR, "null", "", "device"},
	{TAR_BLOCKDEV, "sda", "", "device"},
	{TAR_FIFO, "fifo", "", "device"},
	{'Z', "odd", "", "device"},
	{TAR_FILE, "good-dir", "", "where a directory is"},
	{TAR_SYMLINK, "good-dir", "good", "where a directory is"},
	{TAR_HARDLINK, "good-dir", "good", "where a directory is"},
	{TAR_DIRECTORY, "good", "", "link or a file"},
	{TAR_FILE, "good/x", "", "link or a file"},
	{TAR_FILE, "old-link/new", "", "link or a file"},
	{TAR_DIRECTORY, "old-link", "", "link or a file"},
	{TAR_DIRECTORY, "old-link/new", "", "link or a file"},
	{TAR_SYMLINK, "old-link/new", "x", "link or a file"},
	{TAR_HARDLINK, "h", "old-link/victim", "not there"},
	{TAR_HARDLINK, "h", "old-file-link", "no regular file"},
};

TEST(attacks_are_refused_and_the_rest_is_taken_out)
{
	for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++) {
		int dest = make_dest();
		tree_link(dest, "old-link", "../beside");
		tree_link(dest, "old-file-link", "../beside/victim");
		archive_begin();
		add_file("good", "good");
		add(TAR_DIRECTORY, "good-dir", "", "", 0755);
		add(attacks[i].type, attacks[i].name, attacks[i].link, "", 0644);
		add_file("good-too", "good too");
		int r = end_and_take_out(dest);
		CHECK_(r == -EPERM && error.code == CELL_EDENIED, "%c '%s' -> '%s': %d",
			attacks[i].type, attacks[i].name, attacks[i].link, r);
		CHECK_(strstr(error.msg, attacks[i].why), "'%s': %s", attacks[i].name, error.msg);
		ASSERT(error.hint[0]);
		ASSERT(result.refused == 1 && result.entries == 3);
		ASSERT_STR(tree_text(dest, "good-too"), "good too");
		check_beside(dest);
		tree_remove();
		close(dest);
	}
}

TEST(existing_links_are_replaced_not_written_through)
{
	int dest = make_dest();

	tree_link(dest, "file", "../beside/victim");
	tree_link(dest, "link", "../beside/victim");
	tree_link(dest, "hard", "../beside/victim");
	tree_link(dest, "absolute", "/etc/passwd");
	archive_begin();
	add_file("file", "new");
	add_file("absolute", "new");
	add(TAR_SYMLINK, "link", "file", "", 0777);
	add(TAR_HARDLINK, "hard", "file", "", 0644);
	ASSERT_OK(end_and_take_out(dest));
	ASSERT_STR(tree_text(dest, "file"), "new");
	ASSERT_STR(tree_text(dest, "link"), "new");
	ASSERT_STR(tree_text(dest, "hard"), "new");
	check_beside(dest);
}

TEST(control_the_links_do_lead_out_when_written_through)
{
	int dest = make_dest();

	tree_link(dest, "file", "../beside/victim");
	tree_file(dest, "file", "gone through");
	ASSERT_STR(tree_text(dest, "../beside/victim"), "gone through");
}

/* The classic two steps: a link, then a file through it. */
TEST(links_of_the_archive_are_not_gone_through)
{
	int dest = make_dest();

	archive_begin();
	add(TAR_DIRECTORY, "d", "", "", 0755);
	add(TAR_SYMLINK, "way", "d", "", 0777);
	add_file("way/new", "x");
	ASSERT_ERR(end_and_take_out(dest), -EPERM);
	ASSERT(!tree_has(dest, "d/new"));
	ASSERT(strstr(error.msg, "link or a file"));
}

/* Links that are harmless one by one and lead out together. */
TEST(links_cannot_be_added_up)
{
	int dest = make_dest();

	archive_begin();
	add(TAR_DIRECTORY, "x", "", "", 0755);
	add(TAR_DIRECTORY, "x/y", "", "", 0755);
	add(TAR_SYMLINK, "x/y/l", "..", "", 0777);
	add(TAR_SYMLINK, "out", "x/y/l/../..", "", 0777);
	add(TAR_SYMLINK, "x/y/root", "../..", "", 0777);
	add(TAR_SYMLINK, "down", "x/y/root/x", "", 0777);
	ASSERT_ERR(end_and_take_out(dest), -EPERM);
	ASSERT(result.refused == 1 && !tree_has(dest, "out"));
	ASSERT(tree_has(dest, "down/y"));
}

TEST(a_hard_link_over_its_own_source_is_no_loss)
{
	int dest = make_dest();

	archive_begin();
	add_file("a", "kept");
	add(TAR_HARDLINK, "a", "a", "", 0644);
	add(TAR_HARDLINK, "./a", "././a", "", 0644);
	ASSERT_OK(end_and_take_out(dest));
	ASSERT_STR(tree_text(dest, "a"), "kept");
}

TEST(too_many_too_deep_and_too_long_are_bounded)
{
	static char name[5000];
	int dest = make_dest();
	struct tar_reader in = TAR_READER_INIT(from_archive, NULL);

	archive_begin();
	for (int i = 0; i < 10; i++)
		add_file("same", "x");
	ASSERT_OK(tar_write_end(&writer));
	archive_at = 0;
	ASSERT(untar(&in, dest, UNTAR_FILES, 9, &result, &error) < 0 && error.code == CELL_ELIMIT);
	tar_reader_done(&in);
	ASSERT_OK(take_out(dest));

	archive_begin();
	for (int i = 0; i < UNTAR_MAX_DEPTH + 1; i++)
		memcpy(name + 2 * i, "d/", 2);
	memcpy(name + 2 * UNTAR_MAX_DEPTH + 2, "f", 2);
	add_file(name, "too deep");
	add_file(name + 2, "deep enough");
	memset(name, 'n', 256);
	name[256] = '\0';
	add_file(name, "name too long");
	add_file(name + 1, "long");
	for (size_t i = 0; i < 4998; i += 2)
		memcpy(name + i, "./", 2);
	add_file(name, "nothing but dots");
	memset(name, 'p', 4500);
	for (size_t i = 100; i < 4500; i += 100)
		name[i] = '/';
	name[4500] = '\0';
	add_file(name, "path too long");
	ASSERT_ERR(end_and_take_out(dest), -EPERM);
	CHECK_(result.entries == 3 && result.refused == 3, "%llu taken",
		(unsigned long long)result.entries);
}

TEST(a_cut_archive_leaves_no_half_file)
{
	int dest = make_dest();

	archive_begin();
	add_file("whole", "whole");
	add_file("half", "0123456789");
	ASSERT_OK(tar_write_end(&writer));
	tree_file(dest, "half", "the old one");
	archive.len -= 3 * TAR_BLOCK - 5;
	ASSERT(take_out(dest) < 0 && error.code == CELL_EINVAL);
	ASSERT(strstr(error.msg, "cut short"));
	ASSERT_STR(tree_text(dest, "whole"), "whole");
	ASSERT_STR(tree_text(dest, "half"), "the old one");
}

TEST(odd_names_are_names)
{
	int dest = make_dest();

	archive_begin();
	add_file("new\nline", "1");
	add_file("bad\xff\xfe", "2");
	add_file("-rf", "3");
	add_file(" ", "4");
	add_file("...", "5");
	add_file("a\\b", "6");
	ASSERT_OK(end_and_take_out(dest));
	ASSERT_STR(tree_text(dest, "new\nline"), "1");
	ASSERT_STR(tree_text(dest, "bad\xff\xfe"), "2");
	ASSERT_STR(tree_text(dest, "..."), "5");
}

TEST(a_directory_goes_through_a_stream_and_comes_back)
{
	int dest = make_dest(), top = tree_new();
	char deep[600] = "deep";
	struct stat a, b;

	tree_dir(top, "src");
	int src = openat(top, "src", O_PATH | O_DIRECTORY | O_CLOEXEC);
	tree_file(src, "a", "aaa");
	tree_dir(src, "d");
	tree_file(src, "d/b", "");
	tree_link(src, "d/l", "../a");
	ASSERT(mkfifoat(src, "fifo", 0600) == 0);
	tree_dir(src, deep);
	for (int i = 0; i < 40; i++) {
		size_t n = strlen(deep);
		(void)snprintf(deep + n, sizeof deep - n, "/level-%d", i);
		tree_dir(src, deep);
	}
	ASSERT(fchmodat(src, "a", 0750, 0) == 0);
	int big = openat(src, "big", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(ftruncate(big, 3 << 20) == 0 && pwrite(big, "end", 3, (3 << 20) - 3) == 3);
	close(big);

	archive_begin();
	ASSERT_OK(tartree_write(src, "src", &writer, -1, &error));
	ASSERT_OK(take_out(dest));
	ASSERT_STR(tree_text(dest, "a"), "aaa");
	ASSERT_STR(tree_text(dest, "d/l"), "aaa");
	ASSERT(tree_has(dest, deep) && !tree_has(dest, "fifo"));
	ASSERT(fstatat(src, "a", &a, 0) == 0 && fstatat(dest, "a", &b, 0) == 0);
	ASSERT(a.st_mode == b.st_mode && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec);
	ASSERT(fstatat(dest, "big", &b, 0) == 0 && b.st_size == 3 << 20);
	char end[3];
	big = openat(dest, "big", O_RDONLY | O_CLOEXEC);
	ASSERT(pread(big, end, 3, (3 << 20) - 3) == 3 && !memcmp(end, "end", 3));
	tree_remove();
}

/* A writer that makes the file shorter while it is packed. */
static int shrinking(const void *p, size_t n, void *user)
{
	int *fd = user;

	if (*fd >= 0 && n >= 1024) {
		ASSERT(ftruncate(*fd, 40000) == 0);
		*fd = -1;
	}
	return to_archive(p, n, NULL);
}

TEST(a_file_that_shrinks_meanwhile_is_filled_up)
{
	int dest = make_dest(), top = tree_new();
	int fd = openat(top, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	struct stat st;

	ASSERT(ftruncate(fd, 100000) == 0);
	archive_begin();
	writer.fn = shrinking;
	writer.user = &fd;
	ASSERT_OK(tartree_write(top, "top", &writer, -1, &error));
	ASSERT(fd == -1);
	ASSERT_OK(take_out(dest));
	ASSERT(fstatat(dest, "f", &st, 0) == 0 && st.st_size == 100000);
}

TEST(a_root_tree_has_links_for_whoever_has_it_as_root)
{
	int dest = make_dest();
	char link[64] = "";

	kind = UNTAR_ROOT_TREE;
	archive_begin();
	add(TAR_DIRECTORY, "bin", "", "", 0755);
	add_file("bin/busybox", "program");
	add(TAR_SYMLINK, "bin/sh", "/bin/busybox", "", 0777);
	add(TAR_SYMLINK, "up", "../../beside", "", 0777);
	add(TAR_CHAR, "dev/null", "", "", 0666);
	add(TAR_FIFO, "run/pipe", "", "", 0666);
	ASSERT_OK(end_and_take_out(dest));
	ASSERT(result.entries == 6 && result.refused == 0);
	ASSERT(readlinkat(dest, "bin/sh", link, sizeof link - 1) > 0);
	ASSERT_STR(link, "/bin/busybox");
	ASSERT(!tree_has(dest, "dev/null") && !tree_has(dest, "run/pipe"));
	check_beside(dest);
}

TEST(no_link_of_a_root_tree_is_followed)
{
	static const char *const targets[] = {"../beside", "/", ".."};

	kind = UNTAR_ROOT_TREE;
	for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
		int dest = make_dest();

		archive_begin();
		add(TAR_SYMLINK, "l", targets[i], "", 0777);
		add_file("l/new", "outside");
		add_file("l/victim", "outside");
		add(TAR_HARDLINK, "h", "l/victim", "", 0644);
		add_file("inside", "inside");
		ASSERT(end_and_take_out(dest) < 0 && error.code == CELL_EDENIED);
		ASSERT_EQ(result.refused, 3);
		ASSERT_STR(tree_text(dest, "inside"), "inside");
		check_beside(dest);
	}
}

/* Sizes as in the archive, space only for what is not zero. */
TEST(zeros_are_taken_out_as_holes)
{
	static const char zeros[65536];
	const uint64_t size = 4 << 20;
	struct tar_entry e = {TAR_FILE, "sparse", "", size, 0644, 0, 0, 0};
	struct stat st, plain;
	int dest = make_dest();

	tree_file(dest, "plain", "");
	auto_fd int fd = openat(dest, "plain", O_WRONLY | O_CLOEXEC);
	ASSERT(fd >= 0 && ftruncate(fd, (off_t)size) == 0 && fstat(fd, &plain) == 0);
	if (plain.st_blocks > 1024)
		SKIP("the file system of TMPDIR has no holes");
	archive_begin();
	ASSERT_OK(tar_write_entry(&writer, &e));
	ASSERT_OK(tar_write_data(&writer, "front", 5));
	for (uint64_t at = 5; at < size - 65536; at += 65536)
		ASSERT_OK(tar_write_data(&writer, zeros, 65536));
	ASSERT_OK(tar_write_fill(&writer));
	e.name = "zeros";
	e.size = 65536;
	ASSERT_OK(tar_write_entry(&writer, &e));
	ASSERT_OK(tar_write_fill(&writer));
	ASSERT_OK(end_and_take_out(dest));
	ASSERT_EQ(result.bytes, size + 65536);
	ASSERT(fstatat(dest, "sparse", &st, 0) == 0);
	ASSERT_EQ((uint64_t)st.st_size, size);
	ASSERT(st.st_blocks < 1024);
	ASSERT_STR(tree_text(dest, "sparse"), "front");
	ASSERT(fstatat(dest, "zeros", &st, 0) == 0);
	ASSERT_EQ(st.st_size, 65536);
}

TEST(a_root_tree_keeps_its_owners)
{
	struct tar_entry e = {TAR_FILE, "f", "", 0, 04755, 12345, 54321, 0};
	struct stat st;

	if (geteuid() != 0)
		SKIP("only root can give files away");
	int dest = make_dest();
	kind = UNTAR_ROOT_TREE;
	archive_begin();
	ASSERT_OK(tar_write_entry(&writer, &e));
	e.type = TAR_DIRECTORY;
	e.name = "d";
	ASSERT_OK(tar_write_entry(&writer, &e));
	e.type = TAR_SYMLINK;
	e.name = "l";
	e.link = "f";
	ASSERT_OK(tar_write_entry(&writer, &e));
	ASSERT_OK(end_and_take_out(dest));
	static const char *const names[] = {"f", "d", "l"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		ASSERT(fstatat(dest, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0);
		ASSERT(st.st_uid == 12345 && st.st_gid == 54321);
		ASSERT(!(st.st_mode & 04000));
	}
}
