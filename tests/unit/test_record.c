/* SPDX-License-Identifier: Apache-2.0 */
/* test_record.c: cell.json, written and read, whole and broken. */
#include "core/record.h"
#include "scratch.h"

static int dir_fd(void)
{
	int fd = open(scratch, O_PATH | O_DIRECTORY | O_CLOEXEC);

	ASSERT(fd >= 0);
	return fd;
}

static json_t *minimal(void)
{
	json_t *r = json_object();

	ASSERT_OK(cell_record_set_int(r, "version", CELL_RECORD_VERSION));
	ASSERT_OK(cell_record_set_str(r, "backend", "null"));
	ASSERT_OK(cell_record_set_str(r, "state", "ready"));
	return r;
}

TEST(what_was_saved_is_loaded)
{
	const char *const env[] = {"A=b", "C=d\n\"e\"", NULL};
	char **list;
	json_t *back;

	scratch_make();
	json_t *r = minimal();
	ASSERT_OK(cell_record_set_list(r, "env", env));
	ASSERT_OK(cell_record_set_caps(r, "caps",
		CELL_CAP_BIT(CELL_CAP_PTY) | CELL_CAP_BIT(CELL_CAP_SECRETS)));
	ASSERT_OK(cell_record_set_int(r, "n", INT64_MIN));
	ASSERT_OK(cell_record_save(dir_fd(), r, true, NULL));
	ASSERT_OK(cell_record_load(dir_fd(), &back, NULL));
	ASSERT_OK(cell_record_list(back, "env", &list));
	ASSERT_STR(list[0], "A=b");
	ASSERT_STR(list[1], "C=d\n\"e\"");
	ASSERT(!list[2]);
	ASSERT_EQ(cell_record_caps(back, "caps"), cell_record_caps(r, "caps"));
	ASSERT_EQ(cell_record_int(back, "n", 0), INT64_MIN);
	ASSERT(!cell_record_str(back, "absent"));
	cell_record_list_free(&list);
	json_decref(r);
	json_decref(back);
}

TEST(bytes_that_are_not_text_survive)
{
	static const char *const values[] = {"/tmp/\xff\xfe", "\xc3\x28", "\xed\xa0\x80",
		"\xf0\x9f", "gr\xc3\xbc\xc3\x9f", "\xf4\x8f\xbc\x80 in the block used for escaping",
		"\xf4\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xc0\xaf", "\x01\x7f"};

	scratch_make();
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		json_t *r = minimal(), *back;

		ASSERT_OK(cell_record_set_str(r, "workspace", values[i]));
		ASSERT_OK(cell_record_save(dir_fd(), r, false, NULL));
		ASSERT_OK(cell_record_load(dir_fd(), &back, NULL));
		ASSERT_STR(cell_record_str(back, "workspace"), values[i]);
		json_decref(r);
		json_decref(back);
	}
}

TEST(every_single_byte_survives)
{
	char all[256];

	scratch_make();
	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	all[255] = '\0';
	json_t *r = minimal(), *back;
	ASSERT_OK(cell_record_set_str(r, "workspace", all));
	ASSERT_OK(cell_record_save(dir_fd(), r, false, NULL));
	ASSERT_OK(cell_record_load(dir_fd(), &back, NULL));
	ASSERT_STR(cell_record_str(back, "workspace"), all);
	json_decref(r);
	json_decref(back);
}

TEST(a_record_is_for_its_owner_alone)
{
	struct stat st;

	scratch_make();
	json_t *r = minimal();
	ASSERT_OK(cell_record_save(dir_fd(), r, false, NULL));
	ASSERT(stat(scratch_path("cell.json"), &st) == 0);
	ASSERT_EQ(st.st_mode & 0777, 0600);
	ASSERT_EQ(scratch_entries(scratch), 1);
	json_decref(r);
}

TEST(no_record_is_told_apart_from_a_broken_one)
{
	struct cell_error err = {0};
	json_t *r;

	scratch_make();
	ASSERT_ERR(cell_record_load(dir_fd(), &r, &err), -ENOENT);
	ASSERT_EQ(err.code, CELL_OK);
}

TEST(broken_records_say_what_is_wrong)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"", "empty"},
		{"{", "expected"},
		{"null", "expected"},
		{"[1]", "no object"},
		{"{\"version\": 1", "expected"},
		{"{}", "no version"},
		{"{\"version\": 2, \"backend\": \"x\", \"state\": \"ready\"}", "newer"},
		{"{\"version\": \"1\"}", "no version"},
		{"{\"version\": 1}", "no back end"},
		{"{\"version\": 1, \"backend\": 7, \"state\": \"ready\"}", "no back end"},
		{"{\"version\": 1, \"backend\": \"null\"}", "no state"},
		{"{\"version\": 1, \"version\": 1}", "duplicate"},
		{"{\"version\": 1, \"backend\": \"\xff\", \"state\": \"ready\"}", "decode"},
	};
	struct cell_error err = {0};
	json_t *r = NULL;

	scratch_make();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		scratch_write(scratch_path("cell.json"), bad[i].text);
		ASSERT_ERR(cell_record_load(dir_fd(), &r, &err), -EBADMSG);
		ASSERT_HAS(err.msg, bad[i].says);
		ASSERT_HAS(err.hint, "cell rm");
	}
	scratch_write(scratch_path("cell.json"),
		"{\"version\": 1, \"backend\": \"null\", \"state\": \"ready\"}");
	ASSERT_OK(cell_record_load(dir_fd(), &r, &err));
	json_decref(r);
}

TEST(records_cut_at_any_byte_are_broken_and_not_misread)
{
	char text[4096];
	json_t *r = minimal(), *back;

	scratch_make();
	ASSERT_OK(cell_record_set_list(r, "env", (const char *const[]){"A=b", NULL}));
	ASSERT_OK(cell_record_save(dir_fd(), r, false, NULL));
	json_decref(r);
	int fd = open(scratch_path("cell.json"), O_RDWR | O_CLOEXEC);
	ssize_t n = read(fd, text, sizeof text);
	ASSERT(n > 20);
	for (ssize_t len = n - 1; len >= 0; len--) {
		ASSERT(ftruncate(fd, len) == 0);
		if (len == n - 1 && text[n - 1] == '\n')
			continue;
		ASSERT_ERR(cell_record_load(dir_fd(), &back, NULL), -EBADMSG);
	}
	close(fd);
}

TEST(a_record_that_is_no_file_is_broken)
{
	json_t *r;

	scratch_make();
	ASSERT(mkdir(scratch_path("cell.json"), 0700) == 0);
	ASSERT_ERR(cell_record_load(dir_fd(), &r, NULL), -EBADMSG);
	ASSERT(rmdir(scratch_path("cell.json")) == 0);
	ASSERT(mkfifo(scratch_path("cell.json"), 0600) == 0);
	ASSERT_ERR(cell_record_load(dir_fd(), &r, NULL), -EBADMSG);
	ASSERT(unlink(scratch_path("cell.json")) == 0);
	ASSERT(symlink("/etc/passwd", scratch_path("cell.json")) == 0);
	ASSERT_ERR(cell_record_load(dir_fd(), &r, NULL), -EBADMSG);
}

TEST(a_record_of_any_nesting_is_survived)
{
	json_t *r;
	FILE *f;

	scratch_make();
	f = fopen(scratch_path("cell.json"), "we");
	ASSERT(f);
	(void)fputs("{\"version\": 1, \"backend\": \"null\", \"state\": \"ready\", \"x\": ", f);
	for (int i = 0; i < 1000; i++)
		(void)fputc('[', f);
	for (int i = 0; i < 1000; i++)
		(void)fputc(']', f);
	(void)fputc('}', f);
	(void)fclose(f);
	ASSERT_ERR(cell_record_load(dir_fd(), &r, NULL), -EBADMSG);
}
