/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile images. A canary file and directory lie beside the store; whatever an archive says, they
 * must stay as they are, and an archive that is refused must leave nothing in the store. Each kind of
 * attack stands beside a harmless sibling that is accepted.
 */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/xattr.h>

#include "image_maker.h"

static char canary[96], canary_dir[96];

static void set_out(void)
{
	enter_work();
	(void)snprintf(canary, sizeof canary, "%s/canary", work_dir);
	(void)snprintf(canary_dir, sizeof canary_dir, "%s/prey", work_dir);
	struct buf b = BUF_INIT(64);
	ASSERT_OK(buf_addz(&b, "alive"));
	write_file(canary, &b);
	ASSERT(mkdir(canary_dir, 0711) == 0);
	buf_done(&b);
	alarm(120);
}

static unsigned count_in(const char *path)
{
	unsigned n = 0;
	auto_dir DIR *d = opendir(path);

	for (const struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	return n;
}

static void check_canary(void)
{
	char text[16] = "";
	struct stat st;
	int fd = open(canary, O_RDONLY | O_CLOEXEC);

	ASSERT(fd >= 0 && read(fd, text, sizeof text - 1) == 5);
	close(fd);
	ASSERT_STR(text, "alive");
	ASSERT(stat(canary, &st) == 0 && st.st_nlink == 1 && (st.st_mode & 07777) == 0644);
	ASSERT(stat(canary_dir, &st) == 0 && (st.st_mode & 07777) == 0711);
	ASSERT(count_in(canary_dir) == 0);
	char v;
	ASSERT(getxattr(canary_dir, "user.overlay.opaque", &v, 1) < 0);
	ASSERT(getxattr(canary_dir, "trusted.overlay.opaque", &v, 1) < 0);
}

static int import(const char *path, const struct cell_image_limits *limits, struct cell_error *err)
{
	*err = (struct cell_error){0};
	int r = cell_image_import(path, NULL, limits, NULL, err);
	check_canary();
	return r;
}

static void expect_refused(const struct buf *tar, enum cell_code code, const char *part)
{
	struct cell_error err;

	write_file("bad.tar", tar);
	CHECK_(import("bad.tar", NULL, &err) < 0, "accepted, wanted '%s'", part);
	CHECK_(err.code == code && strstr(err.msg, part), "code %d: '%s', wanted '%s'", err.code,
		err.msg, part);
	ASSERT(count_in("store/tmp") == 0 && count_in("store/images") == 0);
}

static struct cell_image expect_taken(const struct buf *tar)
{
	struct cell_image image = CELL_IMAGE_INIT;
	struct cell_error err = {0};

	write_file("good.tar", tar);
	int r = cell_image_resolve("./good.tar", &image, &err);
	CHECK_(r == 0, "%s", err.msg);
	check_canary();
	return image;
}

static bool is_in(const struct cell_image *image, const char *name, mode_t type)
{
	auto_buf struct buf path = BUF_INIT(8192);
	struct stat st;

	ASSERT_OK(buf_addf(&path, "%s/%s", image->layers[0], name));
	return lstat(buf_str(&path), &st) == 0 && (st.st_mode & S_IFMT) == type;
}

static struct maker m;

static void begin(void)
{
	if (m.out.data)
		buf_done(&m.out);
	maker_init(&m);
	put_file(&m, "usr/before", "x");
}

TEST(names_with_dots_are_refused_and_absolute_ones_stay_inside)
{
	static const char *const bad[] = {"../canary", "usr/../../canary", "usr/..", "..", "./../x",
		"a/b/../../../x", "/../canary"};

	set_out();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		begin();
		put_file(&m, bad[i], "dead");
		put_end(&m);
		expect_refused(&m.out, CELL_EDENIED, "'..' in its name");
	}
	begin();
	put_file(&m, canary, "dead");
	put_file(&m, "usr/..b/c..", "fine");
	put_end(&m);
	struct cell_image image = expect_taken(&m.out);
	ASSERT(is_in(&image, canary, S_IFREG) && is_in(&image, "usr/..b/c..", S_IFREG));
	cell_image_done(&image);
}

TEST(nothing_is_written_through_a_symbolic_link)
{
	set_out();
	begin();
	put_entry(&m, TAR_SYMLINK, "d", canary_dir, 0777, NULL);
	put_file(&m, "d/file", "dead");
	put_end(&m);
	expect_refused(&m.out, CELL_EDENIED, "goes through a link");

	begin();
	put_entry(&m, TAR_SYMLINK, "a", "usr", 0777, NULL);
	put_entry(&m, TAR_SYMLINK, "a/b", canary_dir, 0777, NULL);
	put_end(&m);
	expect_refused(&m.out, CELL_EDENIED, "goes through a link");

	begin();
	put_entry(&m, TAR_SYMLINK, "d", canary_dir, 0777, NULL);
	put_entry(&m, TAR_DIRECTORY, "d", NULL, 0777, NULL);
	put_end(&m);
	expect_refused(&m.out, CELL_EDENIED, "goes through a link");

	begin();
	put_entry(&m, TAR_SYMLINK, "d", canary_dir, 0777, NULL);
	put_file(&m, "d/.wh..wh..opq", "");
	put_end(&m);
	expect_refused(&m.out, CELL_EDENIED, "goes through a link");

	/* A file in the place of a link replaces the link. */
	begin();
	put_entry(&m, TAR_SYMLINK, "f", canary, 0777, NULL);
	put_file(&m, "f", "dead");
	put_entry(&m, TAR_SYMLINK, "kept", canary_dir, 0777, NULL);
	put_end(&m);
	struct cell_image image = expect_taken(&m.out);
	ASSERT(is_in(&image, "f", S_IFREG) && is_in(&image, "kept", S_IFLNK));
	cell_image_done(&image);
}

TEST(a_later_layer_does_not_write_through_an_earlier_one_s_link)
{
	struct image_parts p = {0};
	struct maker a, b;

	set_out();
	maker_init(&a);
	put_entry(&a, TAR_SYMLINK, "d", canary_dir, 0777, NULL);
	put_file(&a, "usr/x", "x");
	maker_init(&b);
	put_file(&b, "d/file", "dead");
	put_file(&b, ".wh.usr", "");
	parts_add(&p, &a, 'g');
	parts_add(&p, &b, 'g');
	struct buf tar = make_oci(&p, NULL);
	struct cell_image image = expect_taken(&tar);
	ASSERT(image.n_layers == 2 && is_in(&image, "d", S_IFLNK));
	auto_buf struct buf path = BUF_INIT(4096);
	struct stat st;
	ASSERT_OK(buf_addf(&path, "%s/d", image.layers[1]));
	ASSERT(lstat(buf_str(&path), &st) == 0 && S_ISDIR(st.st_mode));
	cell_image_done(&image);
}

TEST(hard_links_reach_only_files_of_the_same_layer)
{
	const char *const bad[] = {canary, "../canary", "../../../../../../etc/passwd",
		"/etc/passwd", "nothing", "usr", "link/canary", ".", ""};

	set_out();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		begin();
		put_entry(&m, TAR_SYMLINK, "link", work_dir, 0777, NULL);
		put_entry(&m, TAR_HARDLINK, "h", bad[i], 0644, NULL);
		put_end(&m);
		expect_refused(&m.out, CELL_EDENIED, "is a hard link");
	}
	/* A link to a link is the link, not what it points to. */
	begin();
	put_entry(&m, TAR_SYMLINK, "link", canary, 0777, NULL);
	put_entry(&m, TAR_HARDLINK, "h", "link", 0644, NULL);
	put_file(&m, "h", "dead");
	put_entry(&m, TAR_HARDLINK, "ok", "/usr/before", 0644, NULL);
	put_end(&m);
	struct cell_image image = expect_taken(&m.out);
	ASSERT(is_in(&image, "link", S_IFLNK) && is_in(&image, "h", S_IFREG));
	ASSERT(is_in(&image, "ok", S_IFREG));
	cell_image_done(&image);
}

TEST(devices_and_fifos_are_passed_over)
{
	set_out();
	begin();
	put_entry(&m, TAR_CHAR, "dev/mem", NULL, 0666, NULL);
	put_entry(&m, TAR_CHAR, "usr/whiteout", NULL, 0, NULL);
	put_entry(&m, TAR_BLOCKDEV, "dev/sda", NULL, 0666, NULL);
	put_entry(&m, TAR_FIFO, "dev/pipe", NULL, 0666, NULL);
	put_file(&m, "usr/after", "x");
	put_end(&m);
	struct cell_image image = expect_taken(&m.out);
	ASSERT(!is_in(&image, "dev/mem", S_IFCHR) && !is_in(&image, "usr/whiteout", S_IFCHR));
	ASSERT(!is_in(&image, "dev/sda", S_IFBLK) && !is_in(&image, "dev/pipe", S_IFIFO));
	ASSERT(is_in(&image, "usr/after", S_IFREG));
	cell_image_done(&image);
}

TEST(whiteouts_of_what_has_no_name_are_refused)
{
	static const char *const bad[] = {".wh.", ".wh..", ".wh...", "usr/.wh...", "usr/.wh."};

	set_out();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		begin();
		put_file(&m, bad[i], "");
		put_end(&m);
		expect_refused(&m.out, CELL_EDENIED, "whiteout");
	}
	begin();
	put_file(&m, "usr/.wh....", "");
	put_end(&m);
	struct cell_image image = expect_taken(&m.out);
	ASSERT(is_in(&image, "usr/...", S_IFCHR));
	cell_image_done(&image);
}

TEST(depth_and_length_of_names_are_bounded)
{
	struct buf deep = BUF_INIT(65536);

	set_out();
	for (int i = 0; i < 300; i++)
		ASSERT_OK(buf_addz(&deep, "d/"));
	begin();
	put_file(&m, buf_str(&deep), NULL);
	put_end(&m);
	expect_refused(&m.out, CELL_EDENIED, "lies too deep");
	buf_reset(&deep);
	for (int i = 0; i < 300; i++)
		ASSERT_OK(buf_addc(&deep, 'n'));
	begin();
	put_file(&m, buf_str(&deep), "x");
	put_end(&m);
	expect_refused(&m.out, CELL_EDENIED, "too long a name");
	for (int i = 0; i < 5000; i++)
		ASSERT_OK(buf_addc(&deep, 'n'));
	begin();
	put_entry(&m, TAR_SYMLINK, "l", buf_str(&deep), 0777, NULL);
	put_end(&m);
	expect_refused(&m.out, CELL_EDENIED, "too long");
	buf_done(&deep);
}

TEST(cut_and_damaged_archives_are_refused_wherever_they_break)
{
	struct cell_error err;
	unsigned refused = 0, tried = 0;

	set_out();
	begin();
	put_file(&m, "etc/a", "some content that is long enough to be compressed, is it not?");
	put_end(&m);
	struct buf packed[] = {gzipped(&m.out), zstandard(&m.out), m.out};
	for (int k = 0; k < 3; k++) {
		struct buf part = packed[k];
		for (size_t len = 0; len < packed[k].len - (k == 2 ? 512 : 0); len += 1 + len / 9) {
			part.len = len;
			write_file("cut.tar", &part);
			tried++;
			refused += import("cut.tar", NULL, &err) < 0;
			CHECK_(count_in("store/tmp") == 0, "tmp at %zu", len);
		}
	}
	CHECK_(refused == tried && tried > 60, "%u of %u", refused, tried);
	struct cell_image image = expect_taken(&packed[0]);
	cell_image_done(&image);
	/* A flipped bit is either refused or, in a field nobody reads, another archive. */
	for (size_t i = 0; i < packed[1].len; i++) {
		packed[1].data[i] ^= 0x20;
		write_file("flip.tar", &packed[1]);
		(void)import("flip.tar", NULL, &err);
		packed[1].data[i] ^= 0x20;
		ASSERT(count_in("store/tmp") == 0);
	}
}

TEST(bombs_are_stopped_at_the_limit)
{
	struct cell_image_limits small = {.max_bytes = 1 << 20, .max_entries = 100};
	struct buf zeros = BUF_INIT(MAKER_MAX);
	struct cell_error err;

	set_out();
	ASSERT_OK(buf_reserve(&zeros, 40u << 20));
	zeros.len = 40u << 20;
	memset(zeros.data, 0, zeros.len);
	begin();
	put_blob(&m, "usr/big", &zeros);
	put_end(&m);
	struct buf gz = gzipped(&m.out);
	ASSERT(gz.len < 100000);
	write_file("bomb.tgz", &gz);
	ASSERT(import("bomb.tgz", &small, &err) < 0);
	CHECK_(err.code == CELL_ELIMIT, "%s", err.msg);
	ASSERT(count_in("store/tmp") == 0 && count_in("store/layers") == 0);
	begin();
	for (int i = 0; i < 200; i++) {
		char name[32];
		(void)snprintf(name, sizeof name, "usr/%d", i);
		put_file(&m, name, "");
	}
	put_end(&m);
	write_file("many.tar", &m.out);
	ASSERT(import("many.tar", &small, &err) < 0 && err.code == CELL_ELIMIT);
	small.max_entries = 300;
	ASSERT_OK(import("many.tar", &small, &err));
	buf_done(&zeros);
	buf_done(&gz);
}

TEST(a_size_that_is_a_lie_is_refused)
{
	set_out();
	begin();
	struct tar_entry e = {.type = TAR_FILE,
		.name = "usr/huge",
		.link = "",
		.mode = 0644,
		.size = UINT64_C(1) << 62};
	ASSERT_OK(tar_write_entry(&m.w, &e));
	expect_refused(&m.out, CELL_EINVAL, "cut short");
}

static struct image_parts small_parts(void)
{
	struct image_parts p = {0};
	struct maker a;

	maker_init(&a);
	put_file(&a, "usr/x", "x");
	parts_add(&p, &a, 'g');
	return p;
}

TEST(layers_and_blobs_with_another_digest_are_refused)
{
	set_out();
	struct image_parts p = small_parts();
	p.has_wrong_diff_id = true;
	struct buf tar = make_oci(&p, NULL);
	expect_refused(&tar, CELL_EINVAL, "not what the image says");
	p = small_parts();
	p.has_wrong_diff_id = true;
	tar = make_docker(&p);
	expect_refused(&tar, CELL_EINVAL, "not what the image says");
	p = small_parts();
	p.has_wrong_blob_digest = true;
	tar = make_oci(&p, NULL);
	expect_refused(&tar, CELL_EINVAL, "a layer is damaged");
	ASSERT(count_in("store/layers") == 0);

	/* The configuration, changed behind the manifest's back. */
	p = small_parts();
	tar = make_oci(&p, NULL);
	char *at = memmem(tar.data, tar.len, "\"config\": {}", 12);
	ASSERT(at);
	at[10] = ' ';
	at[11] = ' ';
	expect_refused(&tar, CELL_EINVAL, "is damaged");
	p = small_parts();
	tar = make_oci(&p, NULL);
	struct cell_image image = expect_taken(&tar);
	cell_image_done(&image);
}

TEST(a_layout_cannot_lead_out_of_itself)
{
	set_out();
	struct image_parts p = small_parts();
	parts_finish(&p);
	maker_init(&m);
	char config[80];
	(void)snprintf(config, sizeof config, "%s.json", p.config_hex);
	put_blob(&m, config, &p.made_config);
	put_file(&m, "manifest.json", "[{\"Config\": \"../canary\", \"Layers\": [\"../canary\"]}]");
	put_end(&m);
	expect_refused(&m.out, CELL_EDENIED, "../canary");

	maker_init(&m);
	put_entry(&m, TAR_SYMLINK, "c.json", canary, 0777, NULL);
	put_file(&m, "manifest.json", "[{\"Config\": \"c.json\", \"Layers\": [\"c.json\"]}]");
	put_end(&m);
	write_file("bad.tar", &m.out);
	struct cell_error err;
	ASSERT(import("bad.tar", NULL, &err) < 0 && err.code == CELL_EDENIED);

	/* The same as a directory, where nobody looked at the links before. */
	ASSERT(mkdir("layout", 0755) == 0 && symlink(canary, "layout/c.json") == 0);
	struct buf text = BUF_INIT(256);
	ASSERT_OK(buf_addz(&text, "[{\"Config\": \"c.json\", \"Layers\": [\"c.json\"]}]"));
	write_file("layout/manifest.json", &text);
	ASSERT(import("layout", NULL, &err) < 0);
	CHECK_(!strstr(err.msg, "alive"), "%s", err.msg);
	ASSERT(unlink("layout/c.json") == 0 && mkfifo("layout/c.json", 0644) == 0);
	ASSERT(import("layout", NULL, &err) < 0);
	CHECK_(strstr(err.msg, "no file"), "%s", err.msg);
	buf_done(&text);
}

TEST(json_that_is_not_what_it_should_be_is_refused)
{
	static const char *const bad[] = {"", "[]", "{}", "{\"manifests\": 1}",
		"{\"manifests\": [1]}",
		"{\"manifests\": [{\"digest\": \"sha256:../../x\", \"size\": 1}]}",
		"{\"manifests\": [{\"digest\": \"md5:d41d8cd98f00b204e9800998ecf8427e\", \"size\": "
		"1}]}",
		"{\"manifests\": [{\"digest\": "
		"\"sha256:0000000000000000000000000000000000000000000000000000000000000000\", "
		"\"size\": "
		"-1}]}",
		"{\"manifests\": [{\"digest\": "
		"\"sha256:0000000000000000000000000000000000000000000000000000000000000000\", "
		"\"size\": "
		"1e400}]}"};
	struct cell_error err;

	set_out();
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct image_parts p = small_parts();
		struct buf tar = make_oci(&p, bad[i]);
		write_file("bad.tar", &tar);
		CHECK_(import("bad.tar", NULL, &err) < 0, "accepted: %s", bad[i]);
		ASSERT(count_in("store/tmp") == 0 && count_in("store/images") == 0);
	}
}

TEST(what_is_no_archive_is_refused_without_waiting)
{
	struct cell_error err;
	struct buf b = BUF_INIT(64);

	set_out();
	ASSERT(mkfifo("pipe", 0644) == 0);
	ASSERT(import("pipe", NULL, &err) < 0 && err.code == CELL_EINVAL);
	ASSERT(import("missing", NULL, &err) < 0 && err.code == CELL_ENOTFOUND);
	ASSERT(import("/dev/zero", NULL, &err) < 0);
	ASSERT_OK(buf_addz(&b, "BZh91AY"));
	write_file("b.tar", &b);
	ASSERT(import("b.tar", NULL, &err) < 0 && strstr(err.msg, "bzip2"));
	buf_done(&b);
}

TEST(a_write_that_fails_is_reported_and_leaves_nothing)
{
	struct cell_error err;
	struct buf big = BUF_INIT(MAKER_MAX);

	set_out();
	ASSERT_OK(buf_reserve(&big, 1 << 20));
	big.len = 1 << 20;
	memset(big.data, 7, big.len);
	begin();
	put_blob(&m, "usr/big", &big);
	put_end(&m);
	write_file("a.tar", &m.out);
	signal(SIGXFSZ, SIG_IGN);
	struct rlimit few = {4096, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
	ASSERT(setrlimit(RLIMIT_FSIZE, &few) == 0);
	ASSERT(import("a.tar", NULL, &err) < 0);
	ASSERT(setrlimit(RLIMIT_FSIZE, &all) == 0);
	ASSERT(count_in("store/tmp") == 0 && count_in("store/layers") == 0);
	ASSERT_OK(import("a.tar", NULL, &err));
	buf_done(&big);
}
