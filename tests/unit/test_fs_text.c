/* SPDX-License-Identifier: Apache-2.0 */
/* Looking for text and replacing it: grep and edit of the guest's file operations. */
#include "fs_call.h"

#define FIXED	1
#define NO_CASE 2

static int do_grep(const char *path, const char *pattern, const char *glob, uint64_t flags,
	uint64_t limit)
{
	fs_request(path);
	fs_text(WIRE_T_PATTERN, pattern);
	fs_text(WIRE_T_GLOB, glob);
	fs_number(WIRE_T_FLAGS, flags);
	fs_number(WIRE_T_LIMIT, limit);
	return fs_do(WIRE_OP_GREP);
}

/* "path:line:text" of each record, joined by '|'. */
static const char *matches(void)
{
	static struct buf b = BUF_INIT(1 << 20);
	size_t at = 0, len, used;
	const uint8_t *record;
	struct wire_field path, text;

	buf_reset(&b);
	while (wire_record_next(fs_out.data + at, fs_out.len - at, &record, &len, &used) > 0) {
		ASSERT(wire_find(record, len, WIRE_T_PATH, &path));
		ASSERT(wire_find(record, len, WIRE_T_TEXT, &text));
		ASSERT_OK(buf_addf(&b, "%s%.*s:%d:%.*s", at ? "|" : "", (int)path.len, path.p,
			(int)wire_find_u64(record, len, WIRE_T_LINE, 0), (int)text.len, text.p));
		at += used;
	}
	ASSERT(at == fs_out.len);
	return buf_str(&b);
}

TEST(grep_finds_lines_in_files_and_trees)
{
	fs_begin();
	tree_file(fs_root, "a.c", "int main\nreturn 0;\n\nMAIN");
	tree_dir(fs_root, "d");
	tree_file(fs_root, "d/b.h", "no\r\nmain.x\n");
	tree_link(fs_root, "d/l.c", "../a.c");
	tree_link(fs_root, "d/out", "../../secret");
	ASSERT_OK(do_grep(NULL, "main", NULL, 0, 0));
	ASSERT_STR(matches(), "a.c:1:int main|d/b.h:2:main.x");
	ASSERT(fs_reply(WIRE_T_TRUNCATED) == 0);
	ASSERT_OK(do_grep(NULL, "main", NULL, NO_CASE, 0));
	ASSERT_STR(matches(), "a.c:1:int main|a.c:4:MAIN|d/b.h:2:main.x");
	ASSERT_OK(do_grep(NULL, "MaIn", NULL, FIXED | NO_CASE, 0));
	ASSERT_STR(matches(), "a.c:1:int main|a.c:4:MAIN|d/b.h:2:main.x");
	ASSERT_OK(do_grep(NULL, "main.", NULL, FIXED, 0));
	ASSERT_STR(matches(), "d/b.h:2:main.x");
	ASSERT_OK(do_grep(NULL, "^(int|re.*;)$|^$", NULL, 0, 0));
	ASSERT_STR(matches(), "a.c:2:return 0;|a.c:3:");
	ASSERT_OK(do_grep(NULL, "main", "*.h", 0, 0));
	ASSERT_STR(matches(), "d/b.h:2:main.x");
	ASSERT_OK(do_grep(NULL, "main", "d/*.h", 0, 0));
	ASSERT_STR(matches(), "d/b.h:2:main.x");
	ASSERT_OK(do_grep(NULL, "main", "x/*.h", 0, 0));
	ASSERT(fs_out.len == 0);
	ASSERT_OK(do_grep("d/l.c", "main", NULL, 0, 0));
	ASSERT_STR(matches(), "d/l.c:1:int main");
	ASSERT_OK(do_grep(NULL, "secret", NULL, 0, 0));
	ASSERT(fs_out.len == 0);
}

TEST(grep_stops_at_its_limit_and_says_so)
{
	fs_begin();
	tree_file(fs_root, "f", "x1\nx2\nx3\n");
	ASSERT_OK(do_grep(NULL, "x", NULL, 0, 2));
	ASSERT_STR(matches(), "f:1:x1|f:2:x2");
	ASSERT(fs_reply(WIRE_T_TRUNCATED) == 1);
	ASSERT_OK(do_grep(NULL, "x", NULL, 0, 3));
	ASSERT(fs_reply(WIRE_T_TRUNCATED) == 0);
}

TEST(grep_refuses_bad_expressions)
{
	static const char *const bad[] = {
		"(", "[a", "a{2,1}", "*(", "a{999}{999}", "((a{100}){100}){100}", ""};

	fs_begin();
	tree_file(fs_root, "f", "a{9}\n");
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		CHECK_(do_grep(NULL, bad[i], NULL, 0, 0) < 0, "accepted: %s", bad[i]);
		ASSERT(fs_last.err.code == CELL_EINVAL);
	}
	ASSERT_OK(do_grep(NULL, "a\\{9\\}", NULL, 0, 0));
	ASSERT_STR(matches(), "f:1:a{9}");
	ASSERT_OK(do_grep(NULL, "(", NULL, FIXED, 0));
}

TEST(grep_passes_over_binary_files)
{
	fs_begin();
	int fd = openat(fs_root, "bin", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(write(fd, "text\n\0text\n", 11) == 11);
	close(fd);
	fd = openat(fs_root, "late", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	for (int i = 0; i < 2000; i++)
		ASSERT(write(fd, "fill\n", 5) == 5);
	ASSERT(write(fd, "a\0text\n", 7) == 7);
	close(fd);
	ASSERT_OK(do_grep(NULL, "a.text", NULL, 0, 0));
	ASSERT_STR(matches(), "late:2001:a");
	struct wire_field f;
	ASSERT(wire_find(fs_out.data + 4, fs_out.len - 4, WIRE_T_TEXT, &f) && f.len == 6);
	ASSERT_OK(do_grep(NULL, "text", NULL, FIXED, 0));
	ASSERT(wire_find(fs_out.data + 4, fs_out.len - 4, WIRE_T_TEXT, &f) && f.len == 6);
}

/* Lines of every length around the window's, with something to find at every place that matters. */
TEST(grep_sees_all_of_long_lines)
{
	static const size_t lengths[] = {
		20, 4095, 4096, 65530, 65535, 65536, 65537, 131072, 300000};
	static char line[300001];

	fs_begin();
	for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
		size_t n = lengths[i];
		const size_t places[] = {0, 1, n / 2, n - 7, n - 6};
		for (size_t k = 0; k < sizeof places / sizeof places[0]; k++) {
			memset(line, '.', n);
			memcpy(line + places[k], "NEEDLE", 6);
			line[n] = '\0';
			int fd = openat(fs_root, "f", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
				0600);
			ASSERT(write(fd, "first\n", 6) == 6);
			ASSERT(write(fd, line, n) == (ssize_t)n);
			ASSERT(write(fd, "\nlast", 5) == 5);
			close(fd);
			for (uint64_t flags = 0; flags <= (FIXED | NO_CASE); flags++) {
				ASSERT_OK(do_grep("f", "NEEDLE", NULL, flags, 0));
				const char *got = matches();
				CHECK_(strncmp(got, "f:2:", 4) == 0 && !strchr(got, '|'),
					"length %zu, place %zu", n, places[k]);
				ASSERT(strlen(got) == 4 + (n < 4096 ? n : 4096));
			}
			ASSERT_OK(do_grep("f", "^NEEDLE", NULL, 0, 0));
			ASSERT((fs_out.len > 0) == (places[k] == 0));
			ASSERT_OK(do_grep("f", "NEEDLE$", NULL, 0, 0));
			ASSERT((fs_out.len > 0) == (places[k] == n - 6));
			ASSERT_OK(do_grep("f", "last", NULL, 0, 0));
			ASSERT_STR(matches(), "f:3:last");
		}
	}
}

static int do_edit(const char *path, const char *old, const char *new, bool is_all)
{
	fs_request(path);
	fs_text(WIRE_T_OLD, old);
	fs_text(WIRE_T_NEW, new);
	fs_number(WIRE_T_FLAGS, is_all);
	return fs_do(WIRE_OP_EDIT);
}

TEST(edit_replaces_exactly_one_unless_told)
{
	struct stat st;

	fs_begin();
	tree_file(fs_root, "f", "one two two three");
	tree_link(fs_root, "l", "f");
	ASSERT(fchmodat(fs_root, "f", 0754, 0) == 0);
	ASSERT_OK(do_edit("f", "one", "1", false));
	ASSERT(fs_reply(WIRE_T_COUNT) == 1);
	ASSERT_STR(tree_text(fs_root, "f"), "1 two two three");
	ASSERT(do_edit("f", "two", "2", false) < 0 && fs_last.err.code == CELL_EINVAL);
	ASSERT(strstr(fs_last.err.msg, "2 times"));
	ASSERT(do_edit("f", "four", "4", false) < 0 && fs_last.err.code == CELL_ENOTFOUND);
	ASSERT(do_edit("f", "four", "4", true) < 0 && fs_last.err.code == CELL_ENOTFOUND);
	ASSERT_STR(tree_text(fs_root, "f"), "1 two two three");
	ASSERT_OK(do_edit("l", "two", "2", true));
	ASSERT(fs_reply(WIRE_T_COUNT) == 2);
	ASSERT_STR(tree_text(fs_root, "f"), "1 2 2 three");
	ASSERT_OK(do_edit("f", " three", "", false));
	ASSERT_STR(tree_text(fs_root, "f"), "1 2 2");
	ASSERT(fstatat(fs_root, "f", &st, 0) == 0 && (st.st_mode & 07777) == 0754);
	ASSERT(do_edit("f", "", "x", false) < 0 && fs_last.err.code == CELL_EINVAL);
	ASSERT_ERR(do_edit("none", "a", "b", false), -ENOENT);
	ASSERT(fs_count(".") == 2);
}

TEST(edit_does_not_overlap)
{
	fs_begin();
	tree_file(fs_root, "f", "aaaaa");
	ASSERT_OK(do_edit("f", "aa", "b", true));
	ASSERT(fs_reply(WIRE_T_COUNT) == 2);
	ASSERT_STR(tree_text(fs_root, "f"), "bba");
}

TEST(edit_finds_text_across_every_border)
{
	static const size_t sizes[] = {10, 131065, 131069, 131070, 131071, 131072, 262140, 500000};

	fs_begin();
	for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		int fd = openat(fs_root, "f", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		ASSERT(ftruncate(fd, (off_t)sizes[i] + 100) == 0);
		ASSERT(pwrite(fd, "needle", 6, (off_t)sizes[i]) == 6);
		close(fd);
		ASSERT_OK(do_edit("f", "needle", "longer needle", false));
		char got[14] = "";
		struct stat st;
		fd = openat(fs_root, "f", O_RDONLY | O_CLOEXEC);
		ASSERT(pread(fd, got, 13, (off_t)sizes[i]) == 13);
		ASSERT_STR(got, "longer needle");
		ASSERT(fstat(fd, &st) == 0 && (size_t)st.st_size == sizes[i] + 107);
		close(fd);
	}
}

TEST(edit_takes_bytes_of_any_kind_and_megabytes_of_them)
{
	enum {
		N = 1500000
	};
	char *big = malloc(N);
	struct stat st;

	fs_begin();
	ASSERT(big);
	for (int i = 0; i < N; i++)
		big[i] = (char)(i * 31 + i / 256);
	int fd = openat(fs_root, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (int i = 0; i < 3; i++)
		ASSERT(write(fd, big, N) == N && write(fd, "\0\0", 2) == 2);
	close(fd);
	fs_request("f");
	ASSERT_OK(wire_put(&fs_fields, WIRE_T_OLD, big, N));
	ASSERT_OK(wire_put(&fs_fields, WIRE_T_NEW, "x\0y", 3));
	ASSERT(fs_do(WIRE_OP_EDIT) < 0 && fs_last.err.code == CELL_EINVAL);
	fs_number(WIRE_T_FLAGS, 1);
	ASSERT_OK(fs_do(WIRE_OP_EDIT));
	ASSERT(fs_reply(WIRE_T_COUNT) == 3);
	ASSERT(fstatat(fs_root, "f", &st, 0) == 0 && st.st_size == 15);
	free(big);
}

TEST(edit_of_a_huge_file_has_bounded_memory)
{
	fs_begin();
	int fd = openat(fs_root, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(ftruncate(fd, 400 << 20) == 0 && pwrite(fd, "needle", 6, 399 << 20) == 6);
	close(fd);
	ASSERT(do_edit("f", "nowhere", "x", false) < 0 && fs_last.err.code == CELL_ENOTFOUND);
	fs_check_memory(2048);
}
