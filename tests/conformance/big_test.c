/* SPDX-License-Identifier: Apache-2.0 */
/*
 * big_test.c: large streams with little memory. Peak memory of every process of the test is read
 * from /proc. CELL_TEST_BIG=1 adds the sizes that take minutes.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include "suite.h"

#define MAX_RSS (UINT64_C(64) << 20)

static void check_memory(const char *when)
{
	struct census all = take_census(NULL);

	if (all.max_rss_bytes >= MAX_RSS)
		DIE("%s: a process has %llu MiB", when,
			(unsigned long long)all.max_rss_bytes >> 20);
}

/* Send `total` bytes through a command and count what comes back, without keeping it. */
static void pump_through(struct cell *c, const char *const *argv, uint64_t total)
{
	static uint8_t chunk[256 * 1024];
	auto_exec struct cell_exec *x = NULL;
	struct cell_exec_opts o = {.argv = argv, .flags = CELL_EXEC_STDIN, .keep_bytes = 65536};
	struct cell_event e = {0};
	uint64_t sent = 0, got = 0, checked = 0;

	for (size_t i = 0; i < sizeof(chunk); i++)
		chunk[i] = (uint8_t)(i * 7 + (i >> 8)); /* repeats with the chunk */
	OK(cell_exec_start(c, &o, &x, &E));
	while (e.type != CELL_EVENT_EXIT) {
		bool did = false;
		if (sent < total) {
			size_t at = sent % sizeof(chunk), n = sizeof(chunk) - at;
			if (n > total - sent)
				n = (size_t)(total - sent);
			long long w = OK(cell_exec_write(x, chunk + at, n, 0, &E));
			sent += (uint64_t)w;
			did = w > 0;
			if (sent == total)
				OK(cell_exec_close_stdin(x, &E));
		}
		OK(cell_exec_next(x, did ? 0 : 1000, &e, &E));
		if (e.type != CELL_EVENT_STDOUT)
			continue;
		ASSERT_INT(e.offset, got);
		if (got >= checked) { /* each byte of some frames, the ends of all */
			for (size_t i = 0; i < e.len; i++)
				ASSERT_INT(e.data[i], chunk[(got + i) % sizeof(chunk)]);
			checked = got + (UINT64_C(8) << 20);
			check_memory("on the way");
		}
		ASSERT_INT(e.data[e.len - 1], chunk[(got + e.len - 1) % sizeof(chunk)]);
		got += e.len;
	}
	ASSERT_INT(got, total);
	ASSERT_INT(e.exit.exit_code, 0);
	check_memory("at the end");
}

TEST(a_gibibyte_goes_through_cat_with_little_memory)
{
	auto_cell struct cell *c = open_cell(s);

	pump_through(c, ARGV("cat"), UINT64_C(1) << 30);
}

TEST(ten_gibibytes_go_through_cat_with_little_memory)
{
	if (!getenv("CELL_TEST_BIG"))
		SKIP("set CELL_TEST_BIG=1");
	auto_cell struct cell *c = open_cell(s);
	pump_through(c, ARGV("cat"), UINT64_C(10) << 30);
}

/* The command's own count, or 0 before it has written one. */
static uint64_t counter(struct cell *c)
{
	char *text = NULL;
	size_t n = 0;

	if (cell_file_load(c, "counter", 100, &text, &n, &E) < 0)
		return 0;
	uint64_t v = strtoull(text, NULL, 10);
	free(text);
	return v;
}

TEST(a_command_nobody_reads_is_held_back)
{
	auto_cell struct cell *c = open_cell(s);
	auto_exec struct cell_exec *x = NULL;
	struct cell_exec_opts o = {.argv = ARGV("./probe", "endless", "counter")};
	struct cell_event e = {0};
	uint64_t last = 0, now = 1;
	uint64_t got = 0;

	OK(cell_exec_start(c, &o, &x, &E));
	WAIT_FOR(counter(c) > 0);
	for (int i = 0; i < 100 && now != last; i++) { /* until it stands still */
		last = now;
		usleep(300 * 1000);
		now = counter(c);
	}
	ASSERT_INT(now, last);
	ASSERT(now < UINT64_C(48) << 20);
	check_memory("held back");
	while (got < now + 1000000) { /* reading sets it going again */
		OK(cell_exec_next(x, 20000, &e, &E));
		ASSERT_INT(e.type, CELL_EVENT_STDOUT);
		got += e.len;
	}
	WAIT_FOR(counter(c) > now);
	OK(cell_exec_signal(x, SIGKILL, &E));
	do
		OK(cell_exec_next(x, 20000, &e, &E));
	while (e.type == CELL_EVENT_STDOUT);
	ASSERT_INT(e.type, CELL_EVENT_EXIT);
	ASSERT_INT(e.exit.signal, SIGKILL);
}

TEST(a_command_that_is_held_back_holds_up_no_other)
{
	auto_cell struct cell *c = open_cell(s);
	auto_exec struct cell_exec *x = NULL;
	struct cell_exec_opts o = {.argv = ARGV("./probe", "endless", "counter")};

	OK(cell_exec_start(c, &o, &x, &E));
	WAIT_FOR(counter(c) > 100000);
	struct cell_exec_opts other = {
		.argv = ARGV("./probe", "gen", "20000000"), .max_output = 30000000};
	auto_result struct cell_result r = run_opts(c, &other, NULL, 0);
	ASSERT_INT(r.out_len, 20000000);
	store(c, "file", "fine");
	OK(cell_exec_signal(x, SIGKILL, &E));
}

TEST_NEEDS(a_background_command_does_not_fill_the_disk, NEEDS(BACKGROUND))
{
	auto_cell struct cell *c = open_cell(s);
	auto_exec struct cell_exec *x = NULL;
	struct cell_exec_info info;
	struct cell_exec_opts o = {.argv = ARGV("./probe", "gen", "300000000"),
		.id = "much",
		.flags = CELL_EXEC_DETACH,
		.keep_bytes = 1 << 20};

	OK(cell_exec_start(c, &o, &x, &E));
	cell_exec_free(x);
	x = NULL;
	WAIT_FOR(find_exec(c, "much", &info) && info.state == CELL_EXEC_EXITED);
	ASSERT_INT(info.out_bytes, 300000000);
	ASSERT(info.out_oldest >= 300000000 - (16 << 20));
	check_memory("afterwards");
}

struct progress {
	uint64_t next;
};

static int watch_memory(uint64_t bytes, void *user)
{
	struct progress *p = user;

	if (bytes >= p->next) {
		check_memory("in a transfer");
		p->next = bytes + (UINT64_C(16) << 20);
	}
	return 0;
}

static void transfer(struct suite *s, uint64_t size)
{
	auto_cell struct cell *c = open_cell(s);
	char in[256], out[256];
	struct progress p = {0};
	struct stat a, b;

	snprintf(in, sizeof(in), "%s/in", s->dir);
	snprintf(out, sizeof(out), "%s/out", s->dir);
	int fd = open(in, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	ASSERT(fd >= 0);
	ASSERT_INT(pwrite(fd, "begin", 5, 0),
		5); /* sparse in the middle: the disk is not the point */
	ASSERT_INT(pwrite(fd, "middle", 6, (off_t)size / 2), 6);
	ASSERT_INT(pwrite(fd, "end", 3, (off_t)size - 3), 3);
	close(fd);
	OK(cell_file_upload(c, in, "big", watch_memory, &p, &E));
	p.next = 0;
	OK(cell_file_download(c, "big", out, watch_memory, &p, &E));
	ASSERT_INT(stat(in, &a), 0);
	ASSERT_INT(stat(out, &b), 0);
	ASSERT_INT(a.st_size, b.st_size);
	auto_result struct cell_result r = RUN(c, "sh", "-c", "wc -c < big");
	ASSERT_INT(strtoll(r.out, NULL, 10), a.st_size);
	fd = open(out, O_RDONLY | O_CLOEXEC);
	char text[8] = "";
	ASSERT_INT(pread(fd, text, 6, (off_t)size / 2), 6);
	ASSERT_STR(text, "middle");
	ASSERT_INT(pread(fd, text, 3, (off_t)size - 3), 3);
	ASSERT(!memcmp(text, "end", 3));
	close(fd);
	check_memory("afterwards");
}

TEST_NEEDS(a_large_file_goes_in_and_out_with_little_memory, NEEDS(FILES))
{
	transfer(s, UINT64_C(200) << 20);
}

TEST_NEEDS(two_gibibytes_go_in_and_out_with_little_memory, NEEDS(FILES))
{
	if (!getenv("CELL_TEST_BIG"))
		SKIP("set CELL_TEST_BIG=1");
	transfer(s, (UINT64_C(2) << 30) + 12345);
}

static int count_match(const struct cell_grep_match *m, void *user)
{
	ASSERT_STR(m->line, "needle");
	(*(int *)user)++;
	return 0;
}

TEST_NEEDS(searching_a_large_file_takes_little_memory, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = sh(c, "./probe gen 80000000 | tr '\\000\\n' xy > long; "
						 "printf '\\nneedle\\n' >> long");
	struct cell_grep_opts o = {.pattern = "^needle$", .path = "long"};
	int n = 0;

	ASSERT_INT(r.exit.exit_code, 0);
	OK(cell_file_grep(c, &o, count_match, &n, NULL, &E));
	ASSERT_INT(n, 1);
	check_memory("after a search");
}
