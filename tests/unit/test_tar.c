/* SPDX-License-Identifier: Apache-2.0 */
/* The tar format: what is written is read again, by us and by the system's tar, and what is broken
 * is told. */
#include <errno.h>

#include "base/tar.h"
#include "tree.h"

#define SECOND INT64_C(1000000000)

struct pipe_buf {
	struct buf b;
	size_t at;
	size_t part; /* most bytes given at once */
};

static int to_buf(const void *p, size_t n, void *user)
{
	return buf_add(&((struct pipe_buf *)user)->b, p, n);
}

static ssize_t from_buf(void *p, size_t n, void *user)
{
	struct pipe_buf *b = user;
	size_t left = b->b.len - b->at;

	if (n > left)
		n = left;
	if (b->part && n > b->part)
		n = b->part;
	if (n)
		memcpy(p, b->b.data + b->at, n);
	b->at += n;
	return (ssize_t)n;
}

static const struct tar_entry samples[] = {
	{TAR_FILE, "plain", "", 5, 0644, 0, 0, 1700000000 * SECOND},
	{TAR_DIRECTORY, "dir", "", 0, 0755, 1000, 1000, 5 * SECOND},
	{TAR_FILE, "dir/empty", "", 0, 0600, 0, 0, 0},
	{TAR_FILE, "dir/512", "", 512, 0600, 0, 0, 1 * SECOND},
	{TAR_FILE, "ns", "", 1, 0600, 0, 0, 1700000000 * SECOND + 123456789},
	{TAR_FILE, "before-1970", "", 1, 0600, 0, 0, -3 * SECOND / 2},
	{TAR_SYMLINK, "link", "dir/empty", 0, 0777, 0, 0, 7 * SECOND},
	{TAR_HARDLINK, "hard", "plain", 0, 0644, 0, 0, 7 * SECOND},
	{TAR_FILE, "new\nline", "", 1, 04755, 3000000, 4000000, 7 * SECOND},
	{TAR_FILE, "bad\xff\xfe utf-8", "", 1, 0644, 0, 0, 7 * SECOND},
	{TAR_FILE, "h\xc3\xa9", "", 1, 0644, 0, 0, 7 * SECOND},
	{TAR_FILE,
		"0123456789012345678901234567890123456789012345678901234567890123456789012345678901"
		"234"
		"56789012345",
		"", 1, 0644, 0, 0, 7 * SECOND},
	{TAR_FILE,
		"exactly 101 bytes: "
		"012345678901234567890123456789012345678901234567890123456789012345678901234567890"
		"x",
		"", 1, 0644, 0, 0, 7 * SECOND},
	{TAR_SYMLINK, "far",
		"a/link/of/more/than/one/hundred/bytes/"
		"0123456789012345678901234567890123456789012345"
		"67890123456789",
		0, 0777, 0, 0, 7 * SECOND},
};
#define N_SAMPLES (sizeof samples / sizeof samples[0])

static void write_samples(struct pipe_buf *p)
{
	struct tar_writer w = {.fn = to_buf, .user = p};

	for (size_t i = 0; i < N_SAMPLES; i++) {
		ASSERT_OK(tar_write_entry(&w, &samples[i]));
		for (uint64_t n = 0; n < samples[i].size; n++)
			ASSERT_OK(tar_write_data(&w, "x", 1));
	}
	ASSERT_OK(tar_write_end(&w));
	ASSERT(p->b.len % TAR_BLOCK == 0);
}

static void check_samples(struct pipe_buf *p, bool is_data_read)
{
	struct tar_reader r = TAR_READER_INIT(from_buf, p);
	struct tar_entry e;

	for (size_t i = 0; i < N_SAMPLES; i++) {
		const struct tar_entry *want = &samples[i];
		CHECK_(tar_read_entry(&r, &e) == 1, "entry %zu: %s", i, r.why ? r.why : "?");
		ASSERT_STR(e.name, want->name);
		ASSERT_STR(e.link, want->link);
		ASSERT(e.type == want->type && e.size == want->size && e.mode == want->mode);
		ASSERT(e.uid == want->uid && e.gid == want->gid);
		CHECK_(e.mtime_ns == want->mtime_ns, "%s: mtime %lld", e.name,
			(long long)e.mtime_ns);
		char data[600];
		for (uint64_t left = e.size; is_data_read && left > 0;) {
			ssize_t n = tar_read_data(&r, data, sizeof data);
			ASSERT(n > 0 && (uint64_t)n <= left && data[0] == 'x');
			left -= (uint64_t)n;
		}
		if (is_data_read)
			ASSERT(tar_read_data(&r, data, sizeof data) == 0);
	}
	ASSERT(tar_read_entry(&r, &e) == 0);
	ASSERT(tar_read_entry(&r, &e) == 0);
	tar_reader_done(&r);
}

TEST(what_is_written_is_read_again)
{
	struct pipe_buf p = {.b = BUF_INIT(1 << 20)};

	write_samples(&p);
	check_samples(&p, true);
	p.at = 0;
	check_samples(&p, false);
	p.at = 0;
	p.part = 1;
	check_samples(&p, true);
	buf_done(&p.b);
}

/* Run the system's tar; SKIP without one. */
static int run_tar(const char *const *argv, int in_fd)
{
	int status;
	pid_t pid = fork();

	ASSERT(pid >= 0);
	if (pid == 0) {
		if (in_fd >= 0)
			(void)dup2(in_fd, 0);
		execvp("tar", (char *const *)(uintptr_t)argv);
		_exit(77);
	}
	ASSERT(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		SKIP("no tar program");
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(the_systems_tar_reads_what_we_write)
{
	struct pipe_buf p = {.b = BUF_INIT(1 << 20)};
	int dir = tree_new();
	struct stat st;

	write_samples(&p);
	int fd = openat(dir, "a.tar", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(write(fd, p.b.data, p.b.len) == (ssize_t)p.b.len && lseek(fd, 0, SEEK_SET) == 0);
	const char *argv[] = {"tar", "-xf", "-", "-C", tree_path, "--no-same-owner", NULL};
	ASSERT(run_tar(argv, fd) == 0);
	ASSERT_STR(tree_text(dir, "plain"), "xxxxx");
	ASSERT_STR(tree_text(dir, samples[9].name), "x");
	ASSERT_STR(tree_text(dir, samples[12].name), "x");
	ASSERT(fstatat(dir, "ns", &st, 0) == 0 && st.st_mtim.tv_nsec == 123456789);
	ASSERT(fstatat(dir, "before-1970", &st, 0) == 0 && st.st_mtim.tv_sec == -2);
	buf_done(&p.b);
}

static void read_system_archive(const char *format)
{
	char option[32], name[200], link[130];
	struct pipe_buf p = {.b = BUF_INIT(1 << 20)};
	int dir = tree_new();

	memset(name, 'n', 150);
	name[150] = '\0';
	memset(link, 'l', 120);
	link[120] = '\0';
	tree_dir(dir, "t");
	int t = openat(dir, "t", O_PATH | O_DIRECTORY | O_CLOEXEC);
	tree_file(t, name, "long");
	tree_file(t, "h\xc3\xa9", "e");
	tree_link(t, "link", link);
	(void)snprintf(option, sizeof option, "--format=%s", format);
	char archive[300], from[300];
	(void)snprintf(archive, sizeof archive, "%s/a.tar", tree_path);
	(void)snprintf(from, sizeof from, "%s/t", tree_path);
	const char *argv[] = {"tar", "-cf", archive, option, "--sort=name", "-C", from, ".", NULL};
	ASSERT(run_tar(argv, -1) == 0);
	int fd = openat(dir, "a.tar", O_RDONLY | O_CLOEXEC);
	char chunk[512];
	for (ssize_t n; (n = read(fd, chunk, sizeof chunk)) > 0;)
		ASSERT_OK(buf_add(&p.b, chunk, (size_t)n));
	struct tar_reader r = TAR_READER_INIT(from_buf, &p);
	struct tar_entry e;
	bool has_long = false, has_link = false;
	int n = 0;
	for (int more; (more = tar_read_entry(&r, &e)) != 0; n++) {
		CHECK_(more == 1, "%s", r.why ? r.why : "?");
		has_long |= strlen(e.name) == 152 && !strcmp(e.name + 2, name) && e.size == 4;
		has_link |= e.type == TAR_SYMLINK && !strcmp(e.link, link);
	}
	ASSERT(n == 4 && has_long && has_link);
	tar_reader_done(&r);
	buf_done(&p.b);
	tree_remove();
}

TEST(we_read_what_the_systems_tar_writes)
{
	read_system_archive("gnu");
	read_system_archive("pax");
}

TEST(big_sizes_go_through_headers)
{
	struct pipe_buf p = {.b = BUF_INIT(1 << 16)};
	struct tar_writer w = {.fn = to_buf, .user = &p};
	struct tar_entry big = {TAR_FILE, "big", "", UINT64_C(1) << 40, 0644, 0, 0, 0}, e;
	struct tar_reader r = TAR_READER_INIT(from_buf, &p);

	ASSERT_OK(tar_write_entry(&w, &big));
	ASSERT_ERR(tar_write_entry(&w, &big), -EINVAL); /* its data first */
	ASSERT(tar_read_entry(&r, &e) == 1);
	ASSERT(e.size == UINT64_C(1) << 40);
	ASSERT_ERR((int)tar_read_entry(&r, &e), -EBADMSG);
	ASSERT_STR(r.why, "the archive is cut short");
	tar_reader_done(&r);
	buf_done(&p.b);
}

TEST(more_data_than_said_is_refused_and_less_can_be_filled)
{
	struct pipe_buf p = {.b = BUF_INIT(1 << 16)};
	struct tar_writer w = {.fn = to_buf, .user = &p};

	ASSERT_OK(tar_write_entry(&w, &samples[0]));
	ASSERT_ERR(tar_write_data(&w, "123456", 6), -EFBIG);
	ASSERT_OK(tar_write_data(&w, "12", 2));
	ASSERT_ERR(tar_write_end(&w), -EINVAL);
	ASSERT_OK(tar_write_fill(&w));
	ASSERT_OK(tar_write_end(&w));
	ASSERT(p.b.len == 4 * TAR_BLOCK);
	buf_done(&p.b);
}

/* Read to the end or to an error. */
static int read_all(struct pipe_buf *p, const char **why)
{
	struct tar_reader r = TAR_READER_INIT(from_buf, p);
	struct tar_entry e;
	int more;

	p->at = 0;
	while ((more = tar_read_entry(&r, &e)) > 0)
		;
	*why = r.why;
	tar_reader_done(&r);
	return more;
}

TEST(every_cut_is_noticed)
{
	struct pipe_buf p = {.b = BUF_INIT(1 << 20)};
	const char *why;

	write_samples(&p);
	size_t whole = p.b.len;
	ASSERT_OK(read_all(&p, &why));
	for (size_t n = 0; n + 2 * TAR_BLOCK < whole; n += 100) {
		p.b.len = n;
		ASSERT_ERR(read_all(&p, &why), -EBADMSG);
		ASSERT_STR(why, "the archive is cut short");
	}
	buf_done(&p.b);
}

TEST(a_changed_header_is_noticed)
{
	struct pipe_buf p = {.b = BUF_INIT(1 << 20)};
	const char *why;

	write_samples(&p);
	for (size_t i = 0; i < TAR_BLOCK; i++) {
		p.b.data[i] ^= 1;
		if (i < 148 || i >= 156) {
			ASSERT_ERR(read_all(&p, &why), -EBADMSG);
			ASSERT_STR(why, "a header's checksum is wrong");
		}
		p.b.data[i] ^= 1;
	}
	ASSERT_OK(read_all(&p, &why));
	buf_done(&p.b);
}

static void seal(uint8_t *h)
{
	unsigned sum = 0;

	memset(h + 148, ' ', 8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += h[i];
	(void)snprintf((char *)h + 148, 8, "%06o", sum);
}

static void extension(struct pipe_buf *p, const char *text, char type)
{
	uint8_t h[TAR_BLOCK] = "x", data[TAR_BLOCK] = {0};

	(void)snprintf((char *)h + 124, 12, "%011zo", strlen(text));
	h[156] = (uint8_t)type;
	seal(h);
	memcpy(data, text, strlen(text));
	buf_reset(&p->b);
	ASSERT_OK(buf_add(&p->b, h, sizeof h));
	ASSERT_OK(buf_add(&p->b, data, sizeof data));
	memset(h, 0, sizeof h);
	(void)snprintf((char *)h, 100, "after");
	h[156] = '0';
	seal(h);
	ASSERT_OK(buf_add(&p->b, h, sizeof h));
	memset(h, 0, sizeof h);
	ASSERT_OK(buf_add(&p->b, h, sizeof h));
	ASSERT_OK(buf_add(&p->b, h, sizeof h));
}

TEST(broken_extended_headers_are_refused)
{
	static const char *const bad[] = {"5 a=b", "0 a=b\n", "99 a=b\n", "x a=b\n", " 6 a=b\n",
		"-6 a=b\n", "6 a b\n", "7 a=b\n", "99999999999999999999 a=b\n", "12 size=1x2\n",
		"12 size=-12\n", "28 size=99999999999999999999\n", "13 mtime=1..2\n", "9 mtime=\n",
		"22 GNU.sparse.major=1\n", "\n", "6 a=b\n6 a"};
	struct pipe_buf p = {.b = BUF_INIT(1 << 16)};
	const char *why = NULL;

	extension(&p, "6 a=b\n11 path=xy\n", 'x'); /* control */
	ASSERT_OK(read_all(&p, &why));
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		extension(&p, bad[i], 'x');
		CHECK_(read_all(&p, &why) == -EBADMSG, "accepted: %s", bad[i]);
		ASSERT(why);
		extension(&p, bad[i], 'g'); /* global headers are passed over */
		ASSERT_OK(read_all(&p, &why));
	}
	extension(&p, "", 'S');
	ASSERT_ERR(read_all(&p, &why), -EBADMSG);
	buf_done(&p.b);
}

TEST(huge_extended_headers_are_refused_before_they_are_read)
{
	struct pipe_buf p = {.b = BUF_INIT(1 << 16)};
	const char *why;
	uint8_t h[TAR_BLOCK] = "x";

	memcpy(h + 124, "77777777777", 11);
	for (const char *type = "xLK"; *type; type++) {
		h[156] = (uint8_t)*type;
		seal(h);
		buf_reset(&p.b);
		ASSERT_OK(buf_add(&p.b, h, sizeof h));
		ASSERT_ERR(read_all(&p, &why), -EBADMSG);
		ASSERT_STR(why, "an extended header is too long");
	}
	h[124] = 0xff; /* negative, base 256 */
	seal(h);
	buf_reset(&p.b);
	ASSERT_OK(buf_add(&p.b, h, sizeof h));
	ASSERT_ERR(read_all(&p, &why), -EBADMSG);
	buf_done(&p.b);
}

static int fail_write(const void *p, size_t n, void *user)
{
	(void)p, (void)n, (void)user;
	return -EPIPE;
}

static ssize_t fail_read(void *p, size_t n, void *user)
{
	(void)p, (void)n, (void)user;
	return -EIO;
}

TEST(errors_of_the_stream_come_through)
{
	struct tar_writer w = {.fn = fail_write};
	struct tar_reader r = TAR_READER_INIT(fail_read, NULL);
	struct tar_entry e;

	ASSERT_ERR(tar_write_entry(&w, &samples[0]), -EPIPE);
	ASSERT_ERR(tar_read_entry(&r, &e), -EIO);
	ASSERT(!r.why);
	tar_reader_done(&r);
}
