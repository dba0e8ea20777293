/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of server/spool.h. */
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "scratch.h"
#include "server/spool.h"
#include "test.h"

static struct cell_error E;
#define MAX (64u << 20)

static int place(void)
{
	int fd = open(scratch_make(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	ASSERT(fd >= 0);
	return fd;
}

static struct spool *make(int dir, const char *name, uint64_t max)
{
	struct spool *s = NULL;

	ASSERT_EQ(spool_create(NULL, dir, name, "{\"a\":1}", 7, max, &s, &E), 0);
	return s;
}

static struct spool *again(int dir, const char *name)
{
	struct spool *s = NULL;

	ASSERT_EQ(spool_open(dir, name, MAX, &s, &E), 0);
	return s;
}

static void expect(struct spool *s, struct spool_cursor *c, enum spool_kind kind, uint64_t offset,
	const char *text)
{
	struct spool_event e;

	ASSERT_EQ(spool_read(s, c, &e, &E), 0);
	ASSERT_EQ(e.kind, kind);
	ASSERT_EQ(e.offset, offset);
	ASSERT_EQ(e.len, strlen(text));
	ASSERT(!e.len || memcmp(e.data, text, e.len) == 0);
}

TEST(records_come_back_in_order)
{
	int dir = place();
	struct spool *s = make(dir, "x", MAX);
	struct spool_cursor c = {0};

	expect(s, &c, SPOOL_NONE, 0, "");
	ASSERT_EQ(spool_append(s, 1, 0, "one", 3, &E), 0);
	ASSERT_EQ(spool_append(s, 2, 0, "err", 3, &E), 0);
	expect(s, &c, SPOOL_OUT, 0, "one");
	ASSERT_EQ(spool_append(s, 1, 3, "two", 3, &E), 0);
	expect(s, &c, SPOOL_ERR, 0, "err");
	expect(s, &c, SPOOL_OUT, 3, "two");
	expect(s, &c, SPOOL_NONE, 0, "");
	ASSERT_EQ(spool_finish(s, "end", 3, &E), 0);
	expect(s, &c, SPOOL_END, 0, "end");
	expect(s, &c, SPOOL_NONE, 0, "");
	ASSERT(spool_append(s, 1, 6, "late", 4, &E) < 0);
	spool_free(s);
	close(dir);
}

TEST(a_reader_begins_in_the_middle_of_a_record)
{
	int dir = place();
	struct spool *s = make(dir, "x", MAX);
	struct spool_cursor c = {.want = {0, 4, 99}};

	ASSERT_EQ(spool_append(s, 1, 0, "0123456789", 10, &E), 0);
	ASSERT_EQ(spool_append(s, 2, 0, "unwanted", 8, &E), 0);
	expect(s, &c, SPOOL_OUT, 4, "456789");
	expect(s, &c, SPOOL_NONE, 0, "");
	spool_free(s);
	close(dir);
}

TEST(a_second_writer_is_refused)
{
	int dir = place();
	struct spool *s = make(dir, "x", MAX), *t = NULL;

	ASSERT(spool_create(NULL, dir, "x", "", 0, MAX, &t, &E) < 0);
	ASSERT_EQ(E.code, CELL_EEXISTS);
	ASSERT(spool_open(dir, "y", MAX, &t, &E) < 0);
	ASSERT_EQ(E.code, CELL_ENOTFOUND);
	spool_free(s);
	close(dir);
}

TEST(opened_again_it_goes_on_where_it_was)
{
	int dir = place();
	struct spool *s = make(dir, "x", MAX);
	const uint8_t *meta;
	size_t n;

	ASSERT_EQ(spool_append(s, 1, 0, "one", 3, &E), 0);
	ASSERT_EQ(spool_append(s, 2, 0, "err", 3, &E), 0);
	spool_free(s);
	s = again(dir, "x");
	ASSERT_EQ(spool_next(s, 1), 3);
	ASSERT_EQ(spool_next(s, 2), 3);
	ASSERT(!spool_has_ended(s));
	ASSERT_EQ(spool_meta(s, &meta, &n, &E), 0);
	ASSERT(n == 7 && !memcmp(meta, "{\"a\":1}", 7));
	ASSERT_EQ(spool_append(s, 1, 3, "two", 3, &E), 0);
	ASSERT_EQ(spool_finish(s, "e", 1, &E), 0);
	spool_free(s);
	s = again(dir, "x");
	ASSERT(spool_has_ended(s));
	struct spool_cursor c = {.want = {0, 3, 3}};
	expect(s, &c, SPOOL_OUT, 3, "two");
	expect(s, &c, SPOOL_END, 0, "e");
	spool_free(s);
	close(dir);
}

/* A crash may cut the last record anywhere: the file is tried cut at every length. */
TEST(a_torn_end_is_cut_off_at_whatever_byte)
{
	int dir = place();
	struct spool *s = make(dir, "x", MAX);
	struct stat st;

	ASSERT_EQ(spool_append(s, 1, 0, "whole", 5, &E), 0);
	ASSERT_EQ(fstatat(dir, "x", &st, 0), 0);
	off_t whole = st.st_size;
	ASSERT_EQ(spool_append(s, 1, 5, "torn apart", 10, &E), 0);
	ASSERT_EQ(fstatat(dir, "x", &st, 0), 0);
	spool_free(s);
	for (off_t size = st.st_size - 1; size >= whole; size--) {
		int fd = openat(dir, "x", O_WRONLY | O_CLOEXEC);
		ASSERT_EQ(ftruncate(fd, size), 0);
		close(fd);
		s = again(dir, "x");
		ASSERT_EQ(spool_next(s, 1), 5);
		ASSERT_EQ(spool_append(s, 1, 5, "torn apart", 10, &E), 0);
		struct spool_cursor c = {0};
		expect(s, &c, SPOOL_OUT, 0, "whole");
		expect(s, &c, SPOOL_OUT, 5, "torn apart");
		spool_free(s);
	}
	close(dir);
}

TEST(what_is_no_spool_is_refused)
{
	int dir = place();
	struct spool *s = NULL;
	static const char *const bad[] = {"hello", "clspool2", "x"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		int fd = openat(dir, "x", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
		ASSERT(write(fd, bad[i], strlen(bad[i])) == (ssize_t)strlen(bad[i]));
		close(fd);
		ASSERT(spool_open(dir, "x", MAX, &s, &E) < 0);
		ASSERT_HAS(E.msg, "damaged");
	}
	close(dir);
}

TEST(it_stays_within_its_maximum_and_tells_the_gap)
{
	static uint8_t block[65536];
	int dir = place();
	struct spool *s = make(dir, "x", 2u << 20);
	struct spool_cursor early = {0}, late = {0};
	struct spool_event e;
	struct stat st;

	ASSERT_EQ(spool_read(s, &early, &e, &E), 0);
	for (uint64_t i = 0; i < 256; i++) {
		memset(block, (int)i, sizeof block);
		ASSERT_EQ(spool_append(s, 1, i * sizeof block, block, sizeof block, &E), 0);
	}
	ASSERT_EQ(fstatat(dir, "x", &st, 0), 0);
	ASSERT(st.st_blocks * 512 < 4 << 20);
	uint64_t oldest = spool_oldest(s, 1);
	ASSERT(oldest > 12u << 20);
	ASSERT_EQ(oldest % sizeof block, 0);
	for (int i = 0; i < 2; i++) {
		struct spool_cursor *c = i ? &late : &early;
		ASSERT_EQ(spool_read(s, c, &e, &E), 0);
		ASSERT_EQ(e.kind, SPOOL_GAP);
		ASSERT_EQ(e.offset, oldest);
		ASSERT_EQ(spool_read(s, c, &e, &E), 0);
		ASSERT_EQ(e.kind, SPOOL_OUT);
		ASSERT_EQ(e.offset, oldest);
		ASSERT_EQ(e.data[0], (oldest / sizeof block) & 255);
	}
	spool_free(s);
	s = again(dir, "x");
	ASSERT_EQ(spool_oldest(s, 1), oldest);
	ASSERT_EQ(spool_next(s, 1), 16u << 20);
	struct spool_cursor at_end = {.want = {0, (16u << 20) - 5, 0}};
	ASSERT_EQ(spool_read(s, &at_end, &e, &E), 0);
	ASSERT_EQ(e.kind, SPOOL_OUT);
	ASSERT_EQ(e.len, 5);
	spool_free(s);
	close(dir);
}

TEST(a_full_disk_adds_nothing_and_can_be_tried_again)
{
	static uint8_t block[65536];
	int dir = place();
	struct spool *s = make(dir, "x", MAX);
	struct rlimit old, small;

	ASSERT_EQ(spool_append(s, 1, 0, "one", 3, &E), 0);
	ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = (struct rlimit){4096, old.rlim_max};
	(void)signal(SIGXFSZ, SIG_IGN);
	ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
	ASSERT(spool_append(s, 1, 3, block, sizeof block, &E) < 0);
	ASSERT_EQ(spool_next(s, 1), 3);
	ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
	ASSERT_EQ(spool_append(s, 1, 3, block, sizeof block, &E), 0);
	struct spool_cursor c = {0};
	struct spool_event e;
	expect(s, &c, SPOOL_OUT, 0, "one");
	ASSERT_EQ(spool_read(s, &c, &e, &E), 0);
	ASSERT_EQ(e.len, sizeof block);
	spool_free(s);
	close(dir);
}

TEST(one_whose_maker_was_killed_in_the_middle_was_never_there)
{
	int dir = place();
	struct spool *s = make(dir, "x", MAX);

	spool_free(s);
	for (int size = 0; size < 64 + 7; size += 10) {
		int fd = openat(dir, "x", O_RDWR);
		ASSERT(fd >= 0);
		ASSERT_EQ(ftruncate(fd, size), 0);
		close(fd);
		s = NULL;
		ASSERT(spool_open(dir, "x", MAX, &s, &E) < 0);
		ASSERT_EQ(E.code, CELL_ENOTFOUND);
		/* and its name is free */
		spool_free(make(dir, "x", MAX));
	}
	close(dir);
}

TEST(a_seal_is_seen_without_opening_and_only_behind_the_end)
{
	int dir = place();
	struct spool *s = make(dir, "x", MAX);
	struct stat st;

	spool_seal(s);
	ASSERT_EQ(fstatat(dir, "x", &st, 0), 0);
	ASSERT(!spool_is_sealed(&st));
	ASSERT_EQ(spool_finish(s, "{}", 2, &E), 0);
	spool_seal(s);
	ASSERT_EQ(fstatat(dir, "x", &st, 0), 0);
	ASSERT(spool_is_sealed(&st));
	spool_free(s);
	s = again(dir, "x");
	ASSERT(spool_has_ended(s));
	spool_free(s);
	close(dir);
}

TEST(what_begins_is_marked_and_given_whole)
{
	int dir = place();
	struct spool *s = make(dir, "x", MAX);
	struct spool_cursor c = {.want = {0, 4, 0}, .is_whole = true}, plain = {.want = {0, 4, 0}};
	struct spool_event e;

	ASSERT_EQ(spool_append_begin(s, 1, 0, "begin", 5, &E), 0);
	ASSERT_EQ(spool_append(s, 1, 5, "rest", 4, &E), 0);
	spool_free(s);
	s = again(dir, "x");
	ASSERT_EQ(spool_read(s, &c, &e, &E), 0);
	ASSERT(e.is_begin && e.offset == 0 && e.len == 5);
	ASSERT_EQ(spool_read(s, &c, &e, &E), 0);
	ASSERT(!e.is_begin && e.offset == 5);
	ASSERT_EQ(spool_read(s, &plain, &e, &E), 0);
	ASSERT(!e.is_begin && e.offset == 4 && e.len == 1);
	spool_free(s);
	close(dir);
}
