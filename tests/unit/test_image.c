/* SPDX-License-Identifier: Apache-2.0 */
/* Images of every kind through the store and out again. */
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include "image_maker.h"

static char *slurp(const char *dir, const char *name)
{
	static char text[4096];
	auto_buf struct buf path = BUF_INIT(8192);

	ASSERT_OK(buf_addf(&path, "%s/%s", dir, name));
	int fd = open(buf_str(&path), O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	ssize_t n = read(fd, text, sizeof text - 1);
	ASSERT(n >= 0);
	text[n] = '\0';
	close(fd);
	return text;
}

static struct stat stat_in(const char *dir, const char *name)
{
	auto_buf struct buf path = BUF_INIT(8192);
	struct stat st;

	ASSERT_OK(buf_addf(&path, "%s/%s", dir, name));
	CHECK_(lstat(buf_str(&path), &st) == 0, "no %s", buf_str(&path));
	return st;
}

static struct cell_image resolve_ok(const char *ref)
{
	struct cell_image image = CELL_IMAGE_INIT;
	struct cell_error err = {0};

	int r = cell_image_resolve(ref, &image, &err);
	CHECK_(r == 0, "resolve %s: %s", ref, err.msg);
	return image;
}

static void expect_fail(const char *ref, enum cell_code code, const char *part)
{
	struct cell_image image = CELL_IMAGE_INIT;
	struct cell_error err = {0};

	CHECK_(cell_image_resolve(ref, &image, &err) < 0, "%s was accepted", ref);
	CHECK_(err.code == code && strstr(err.msg, part), "%d: %s", err.code, err.msg);
}

static unsigned count_in(const char *path)
{
	unsigned n = 0;
	auto_dir DIR *d = opendir(path);

	CHECK_(d, "no %s", path);
	for (const struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	return n;
}

static void put_base(struct maker *m)
{
	maker_init(m);
	put_entry(m, TAR_DIRECTORY, "./", NULL, 0755, NULL);
	put_entry(m, TAR_DIRECTORY, "etc", NULL, 0750, NULL);
	put_file(m, "etc/name", "lower");
	put_file(m, "etc/gone", "x");
	put_entry(m, TAR_DIRECTORY, "dir", NULL, 0755, NULL);
	put_file(m, "dir/old", "old");
	put_entry(m, TAR_FILE, "bin/su", NULL, 06755, "setuid");
	put_entry(m, TAR_HARDLINK, "bin/su2", "bin/su", 0755, NULL);
	put_entry(m, TAR_SYMLINK, "link", "/etc/name", 0777, NULL);
	put_entry(m, TAR_SYMLINK, "up", "../../../../etc", 0777, NULL);
}

static void put_top(struct maker *m)
{
	maker_init(m);
	put_file(m, "etc/name", "upper");
	put_file(m, "etc/.wh.gone", "");
	put_file(m, "dir/.wh..wh..opq", "");
	put_file(m, "dir/new", "new");
}

TEST(a_directory_is_used_in_place)
{
	enter_work();
	ASSERT(mkdir("root", 0755) == 0 && mkdir("root/usr", 0755) == 0);
	struct cell_image image = resolve_ok("./root");
	ASSERT(image.n_layers == 1 && !image.layers[1] && image.layers[0][0] == '/');
	ASSERT(strstr(image.layers[0], work_dir) && strstr(image.layers[0], "/root"));
	ASSERT_STR(image.digest, "");
	ASSERT(image.hold_fd == -1 && !image.env && !image.cwd);
	cell_image_done(&image);
	cell_image_done(&image);
	cell_image_done(NULL);
}

TEST(a_tarball_is_unpacked_once_whatever_its_compression)
{
	struct maker m;
	char digest[3][CELL_IMAGE_DIGEST_CAP];

	enter_work();
	put_base(&m);
	put_end(&m);
	write_file("a.tar", &m.out);
	struct buf gz = gzipped(&m.out), zst = zstandard(&m.out);
	write_file("a.tgz", &gz);
	write_file("a.tzst", &zst);
	for (int i = 0; i < 3; i++) {
		static const char *const names[] = {"./a.tar", "./a.tgz", "./a.tzst"};
		struct cell_image image = resolve_ok(names[i]);
		ASSERT(image.n_layers == 1);
		ASSERT_STR(slurp(image.layers[0], "etc/name"), "lower");
		(void)snprintf(digest[i], sizeof digest[i], "%s", image.digest);
		cell_image_done(&image);
	}
	ASSERT_STR(digest[0], digest[1]);
	ASSERT_STR(digest[0], digest[2]);
	ASSERT(count_in("store/images") == 1 && count_in("store/layers") == 2);
	ASSERT(count_in("store/tmp") == 0);
	buf_done(&m.out);
	buf_done(&gz);
	buf_done(&zst);
}

TEST(modes_links_and_times_are_kept_but_set_id_bits_are_not)
{
	struct maker m;

	enter_work();
	put_base(&m);
	put_end(&m);
	write_file("a.tar", &m.out);
	struct cell_image image = resolve_ok("./a.tar");
	const char *dir = image.layers[0];
	struct stat su = stat_in(dir, "bin/su"), su2 = stat_in(dir, "bin/su2");
	ASSERT((su.st_mode & 07777) == 0755);
	ASSERT(su.st_ino == su2.st_ino && su.st_nlink == 2);
	ASSERT((stat_in(dir, "etc").st_mode & 07777) == 0750);
	ASSERT(stat_in(dir, "etc").st_mtim.tv_sec == 1 && su.st_mtim.tv_sec == 1);
	char target[64];
	auto_buf struct buf path = BUF_INIT(4096);
	ASSERT_OK(buf_addf(&path, "%s/up", dir));
	ssize_t n = readlink(buf_str(&path), target, sizeof target - 1);
	ASSERT(n > 0);
	target[n] = '\0';
	ASSERT_STR(target, "../../../../etc");
	cell_image_done(&image);
	buf_done(&m.out);
}

static void check_two_layers(const char *ref)
{
	struct cell_image image = resolve_ok(ref);

	ASSERT(image.n_layers == 2 && image.hold_fd >= 0);
	ASSERT_STR(slurp(image.layers[0], "etc/name"), "lower");
	ASSERT_STR(slurp(image.layers[1], "etc/name"), "upper");
	struct stat gone = stat_in(image.layers[1], "etc/gone");
	ASSERT(S_ISCHR(gone.st_mode) && gone.st_rdev == makedev(0, 0));
	auto_buf struct buf path = BUF_INIT(4096);
	char v = 0;
	ASSERT_OK(buf_addf(&path, "%s/dir", image.layers[1]));
	ASSERT(getxattr(buf_str(&path),
		       image.is_user_xattr ? "user.overlay.opaque" : "trusted.overlay.opaque", &v,
		       1) == 1 &&
		v == 'y');
	ASSERT(!slurp(image.layers[1], "dir/.wh..wh..opq") &&
		!slurp(image.layers[1], "etc/.wh.gone"));
	ASSERT_STR(image.env[0], "PATH=/bin");
	ASSERT(!image.env[2]);
	ASSERT_STR(image.entrypoint[0], "/e");
	ASSERT_STR(image.cmd[1], "b");
	ASSERT_STR(image.cwd, "/srv");
	ASSERT_STR(image.user, "1000:1000");
	cell_image_done(&image);
}

static void make_two_layers(struct image_parts *p, char how)
{
	struct maker a, b;

	*p = (struct image_parts){
		.config = "{\"Env\": [\"PATH=/bin\", \"A=b c\"], \"Entrypoint\": [\"/e\"], "
			  "\"Cmd\": [\"a\", "
			  "\"b\"], \"WorkingDir\": \"/srv\", \"User\": \"1000:1000\"}"};
	put_base(&a);
	put_top(&b);
	parts_add(p, &a, how);
	parts_add(p, &b, how);
}

TEST(oci_layouts_load_as_tar_and_as_directory)
{
	struct image_parts p;

	enter_work();
	for (const char *how = "pgz"; *how; how++) {
		make_two_layers(&p, *how);
		struct buf tar = make_oci(&p, NULL);
		write_file("oci.tar", &tar);
		check_two_layers("./oci.tar");
	}
	ASSERT(mkdir("layout", 0755) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		execlp("tar", "tar", "xf", "oci.tar", "-C", "layout", (char *)NULL);
		_exit(127);
	}
	int st;
	ASSERT(waitpid(pid, &st, 0) == pid && st == 0);
	check_two_layers("./layout");
	ASSERT(count_in("store/images") == 1 && count_in("store/layers") == 4);
}

TEST(docker_save_archives_load)
{
	struct image_parts p;

	enter_work();
	make_two_layers(&p, 'p');
	struct buf tar = make_docker(&p);
	struct buf gz = gzipped(&tar);
	write_file("saved.tar.gz", &gz);
	check_two_layers("./saved.tar.gz");
}

TEST(an_index_in_an_index_leads_to_this_machine_s_image)
{
	struct image_parts p;
	auto_buf struct buf inner = BUF_INIT(65536), outer = BUF_INIT(65536);
	char hex[DIGEST_HEX + 1];

	enter_work();
	make_two_layers(&p, 'g');
	parts_finish(&p);
	ASSERT_OK(buf_addf(&inner,
		"{\"manifests\": [{\"digest\": \"sha256:%064d\", \"size\": 1, \"platform\": "
		"{\"os\": "
		"\"linux\", \"architecture\": \"riscv64\"}}, {\"digest\": \"sha256:%s\", \"size\": "
		"1, "
		"\"platform\": {\"os\": \"linux\", \"architecture\": \"" MAKER_ARCH "\"}}]}",
		0, p.manifest_hex));
	hex_of_buf(&inner, hex);
	ASSERT_OK(buf_addf(&outer,
		"{\"manifests\": [{\"mediaType\": \"application/vnd.oci.image.index.v1+json\", "
		"\"digest\": \"sha256:%s\", \"size\": 1}]}",
		hex));
	struct buf tar = make_oci(&p, buf_str(&outer));
	struct maker m;
	maker_init(&m);
	tar.len -= 1024; /* the end mark */
	ASSERT_OK(buf_add(&m.out, tar.data, tar.len));
	put_oci_blob(&m, &inner, false);
	put_end(&m);
	write_file("i.tar", &m.out);
	check_two_layers("./i.tar");
}

TEST(images_for_other_machines_and_several_in_one_are_refused)
{
	struct image_parts p;

	enter_work();
	make_two_layers(&p, 'g');
	p.arch = "s390x";
	struct buf tar = make_oci(&p, NULL);
	write_file("a.tar", &tar);
	expect_fail("./a.tar", CELL_ENOTSUP, "s390x");
	make_two_layers(&p, 'g');
	char index[400];
	(void)snprintf(index, sizeof index,
		"{\"manifests\": [{\"digest\": \"sha256:%064d\", \"size\": 1}, {\"digest\": "
		"\"sha256:%064d\", \"size\": 1}]}",
		1, 2);
	tar = make_oci(&p, index);
	write_file("b.tar", &tar);
	expect_fail("./b.tar", CELL_EINVAL, "more than one image");
}

TEST(names_and_digests_find_what_was_imported)
{
	struct image_parts p;
	struct cell_error err = {0};
	char digest[CELL_IMAGE_DIGEST_CAP];

	enter_work();
	make_two_layers(&p, 'g');
	struct buf tar = make_oci(&p, NULL);
	write_file("a.tar", &tar);
	expect_fail("tools/py:3", CELL_ENOTFOUND, "there is no image");
	ASSERT_OK(cell_image_import("a.tar", "tools/py:3", NULL, digest, &err));
	ASSERT_OK(cell_image_import("a.tar", "py", NULL, NULL, &err));
	ASSERT(unlink("a.tar") == 0);
	check_two_layers("tools/py:3");
	check_two_layers("py");
	check_two_layers("py:latest");
	check_two_layers(digest);
	static const char *const wrong[] = {
		"", "Py!", "a//b", "a:", "-a", "../x:y", "sha256:12", "a b"};
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
		CHECK_(cell_image_import(".", wrong[i], NULL, NULL, NULL) < 0, "'%s'", wrong[i]);
}

TEST(list_remove_and_prune_keep_what_is_needed)
{
	struct image_parts p, q;
	struct cell_image_info *list;
	struct cell_error err = {0};
	uint64_t bytes = 0;
	size_t n;

	enter_work();
	make_two_layers(&p, 'g');
	struct buf tar = make_oci(&p, NULL);
	write_file("a.tar", &tar);
	struct maker m;
	put_base(&m);
	q = (struct image_parts){0};
	parts_add(&q, &m, 'p');
	tar = make_docker(&q);
	write_file("b.tar", &tar);
	ASSERT_OK(cell_image_import("a.tar", "two", NULL, NULL, &err));
	ASSERT_OK(cell_image_import("a.tar", "again", NULL, NULL, &err));
	ASSERT_OK(cell_image_import("b.tar", "one", NULL, NULL, &err));
	ASSERT_OK(cell_image_list(&list, &n, &err));
	ASSERT(n == 2);
	for (size_t i = 0; i < n; i++) {
		ASSERT(list[i].bytes > 0);
		if (list[i].n_layers == 1)
			ASSERT_STR(list[i].names[0], "one:latest");
		else
			ASSERT(!strcmp(list[i].names[0], "again:latest") &&
				!strcmp(list[i].names[1], "two:latest") && !list[i].names[2]);
	}
	cell_image_list_free(list, n);
	ASSERT_OK(cell_image_remove("two", &err));
	check_two_layers("again");
	struct cell_image held = resolve_ok("again");
	ASSERT(cell_image_remove("again", &err) < 0 && err.code == CELL_EBUSY);
	cell_image_done(&held);
	ASSERT_OK(cell_image_remove("again", &err));
	ASSERT_OK(cell_image_prune(&bytes, &err));
	ASSERT(bytes > 0 && count_in("store/layers") == 2);
	struct cell_image one = resolve_ok("one");
	ASSERT_STR(slurp(one.layers[0], "etc/name"), "lower");
	cell_image_done(&one);
	ASSERT(cell_image_remove("two", &err) < 0 && err.code == CELL_ENOTFOUND);
	ASSERT_OK(cell_image_remove("one", &err));
	ASSERT_OK(cell_image_prune(NULL, &err));
	ASSERT(count_in("store/layers") == 0 && count_in("store/paths") == 0);
	struct cell_image back = resolve_ok("./a.tar");
	cell_image_done(&back);
}

TEST(verify_sees_a_changed_byte_mode_name_and_mark)
{
	struct image_parts p;
	struct cell_error err = {0};
	static const char *const changes[] = {"printf y >etc/name", "chmod 700 etc/name",
		"mv etc/name etc/other", "ln -sf /x etc/name", "touch more"};

	for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
		enter_work();
		make_two_layers(&p, 'g');
		struct buf tar = make_oci(&p, NULL);
		write_file("a.tar", &tar);
		ASSERT_OK(cell_image_import("a.tar", "x", NULL, NULL, &err));
		ASSERT_OK(cell_image_verify("x", &err));
		struct cell_image image = resolve_ok("x");
		pid_t pid = fork();
		if (pid == 0) {
			ASSERT(chdir(image.layers[0]) == 0);
			execl("/bin/sh", "sh", "-c", changes[i], (char *)NULL);
			_exit(127);
		}
		int st;
		ASSERT(waitpid(pid, &st, 0) == pid && st == 0);
		ASSERT(cell_image_verify("x", &err) < 0 && err.code == CELL_EBACKEND);
		cell_image_done(&image);
		leave_work();
	}
}

TEST(a_changed_tarball_is_read_again_and_an_unchanged_one_is_not)
{
	struct maker m;

	enter_work();
	put_base(&m);
	put_end(&m);
	write_file("a.tar", &m.out);
	struct cell_image first = resolve_ok("./a.tar");
	struct cell_image again = resolve_ok("./a.tar");
	ASSERT_STR(first.digest, again.digest);
	buf_done(&m.out);
	maker_init(&m);
	put_file(&m, "usr/other", "1");
	put_end(&m);
	write_file("a.tar", &m.out);
	struct cell_image other = resolve_ok("./a.tar");
	ASSERT(strcmp(first.digest, other.digest) != 0);
	cell_image_done(&first);
	cell_image_done(&again);
	cell_image_done(&other);
	buf_done(&m.out);
}

TEST(ten_importers_at_once_agree_and_leave_nothing_behind)
{
	struct image_parts p;
	int st;

	enter_work();
	make_two_layers(&p, 'g');
	struct buf tar = make_oci(&p, NULL);
	write_file("a.tar", &tar);
	for (int i = 0; i < 10; i++) {
		if (fork() == 0) {
			struct cell_image image = CELL_IMAGE_INIT;
			int r = i % 5 == 4 ? cell_image_prune(NULL, NULL)
					   : cell_image_resolve("./a.tar", &image, NULL);
			_exit(r < 0);
		}
	}
	for (int i = 0; i < 10; i++)
		ASSERT(wait(&st) > 0 && st == 0);
	check_two_layers("./a.tar");
	ASSERT_OK(cell_image_prune(NULL, NULL));
	ASSERT(count_in("store/layers") == 4 && count_in("store/tmp") == 0);
}

TEST(an_importer_killed_at_any_moment_leaves_a_store_that_works)
{
	struct image_parts p;

	enter_work();
	make_two_layers(&p, 'g');
	struct buf tar = make_oci(&p, NULL);
	write_file("a.tar", &tar);
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();
		if (pid == 0) {
			struct cell_image image = CELL_IMAGE_INIT;
			(void)cell_image_resolve("./a.tar", &image, NULL);
			_exit(0);
		}
		usleep((useconds_t)(i * 300));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		if (i % 8 == 7) {
			check_two_layers("./a.tar");
			struct cell_image image = resolve_ok("./a.tar");
			ASSERT_OK(cell_image_verify(image.digest, NULL));
			cell_image_done(&image);
			ASSERT_OK(cell_image_prune(NULL, NULL));
			ASSERT(count_in("store/tmp") == 0);
		}
	}
}

TEST(a_layer_that_comes_twice_counts_on_top_and_one_that_hides_all_ends_the_stack)
{
	struct image_parts p = {0};
	struct maker a, b, c;

	enter_work();
	put_base(&a);
	put_top(&b);
	put_base(&c);
	parts_add(&p, &a, 'p');
	parts_add(&p, &b, 'p');
	parts_add(&p, &c, 'p');
	struct buf tar = make_docker(&p);
	write_file("a.tar", &tar);
	struct cell_image image = resolve_ok("./a.tar");
	ASSERT(image.n_layers == 2);
	ASSERT_STR(slurp(image.layers[1], "etc/name"), "lower");
	cell_image_done(&image);

	p = (struct image_parts){0};
	put_base(&a);
	maker_init(&b);
	put_file(&b, ".wh..wh..opq", "");
	put_file(&b, "usr/only", "1");
	parts_add(&p, &a, 'p');
	parts_add(&p, &b, 'p');
	tar = make_docker(&p);
	write_file("b.tar", &tar);
	image = resolve_ok("./b.tar");
	ASSERT(image.n_layers == 1);
	ASSERT_STR(slurp(image.layers[0], "usr/only"), "1");
	cell_image_done(&image);
}

TEST(whiteouts_never_hide_what_their_own_layer_has)
{
	struct maker m;
	char v;

	enter_work();
	maker_init(&m);
	put_file(&m, "usr/.wh.before", "");
	put_file(&m, "usr/before", "kept");
	put_file(&m, "usr/after", "kept");
	put_file(&m, "usr/.wh.after", "");
	put_file(&m, "usr/.wh.dir", "");
	put_file(&m, "usr/dir/file", "kept");
	put_file(&m, "usr/.wh..wh.plnk", "");
	put_end(&m);
	write_file("a.tar", &m.out);
	struct cell_image image = resolve_ok("./a.tar");
	ASSERT_STR(slurp(image.layers[0], "usr/before"), "kept");
	ASSERT_STR(slurp(image.layers[0], "usr/after"), "kept");
	ASSERT_STR(slurp(image.layers[0], "usr/dir/file"), "kept");
	auto_buf struct buf path = BUF_INIT(4096);
	ASSERT_OK(buf_addf(&path, "%s/usr/dir", image.layers[0]));
	ASSERT(getxattr(buf_str(&path), "user.overlay.opaque", &v, 1) == 1 ||
		getxattr(buf_str(&path), "trusted.overlay.opaque", &v, 1) == 1);
	cell_image_done(&image);
	buf_done(&m.out);
}

TEST(a_store_that_others_may_write_to_is_refused)
{
	struct cell_error err = {0};

	enter_work();
	ASSERT(chmod("store", 0777) == 0);
	ASSERT(cell_image_prune(NULL, &err) < 0 && err.code == CELL_EDENIED);
	ASSERT(chmod("store", 0700) == 0);
	ASSERT_OK(cell_image_prune(NULL, &err));
	ASSERT(setenv("CELL_IMAGE_DIR", "relative", 1) == 0);
	ASSERT(cell_image_prune(NULL, &err) < 0 && err.code == CELL_EINVAL);
}

/* Mounts the two layers and looks at the result: as root, or in a user namespace. */
static int look_through_overlay(void)
{
	struct image_parts p;
	auto_buf struct buf options = BUF_INIT(8192);

	make_two_layers(&p, 'g');
	struct buf tar = make_oci(&p, NULL);
	write_file("a.tar", &tar);
	struct cell_image image = resolve_ok("./a.tar");
	bool is_root = geteuid() == 0;
	ASSERT(image.is_user_xattr == !is_root);
	if (unshare(CLONE_NEWNS | (is_root ? 0 : CLONE_NEWUSER)) < 0 || mkdir("mnt", 0755) < 0)
		return 77;
	ASSERT_OK(buf_addf(&options, "lowerdir=%s:%s%s", image.layers[1], image.layers[0],
		image.is_user_xattr ? ",userxattr" : ""));
	(void)mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
	if (mount("overlay", "mnt", "overlay", MS_NOSUID | MS_NODEV, buf_str(&options)) < 0)
		return 77;
	ASSERT_STR(slurp("mnt", "etc/name"), "upper");
	ASSERT_STR(slurp("mnt", "dir/new"), "new");
	ASSERT(!slurp("mnt", "etc/gone") && !slurp("mnt", "dir/old"));
	ASSERT_STR(slurp("mnt", "bin/su"), "setuid");
	return 0;
}

TEST(overlay_shows_what_the_image_means_as_root)
{
	enter_work();
	if (geteuid() != 0)
		SKIP("needs root");
	pid_t pid = fork();
	int st;
	if (pid == 0)
		_exit(look_through_overlay());
	ASSERT(waitpid(pid, &st, 0) == pid);
	if (WIFEXITED(st) && WEXITSTATUS(st) == 77)
		SKIP("no overlay can be mounted here");
	ASSERT(st == 0);
}

TEST(overlay_shows_what_the_image_means_without_root)
{
	enter_work();
	if (geteuid() == 0)
		ASSERT(chown(".", 65534, 65534) == 0 && chown("store", 65534, 65534) == 0);
	pid_t pid = fork();
	int st;
	if (pid == 0) {
		if (geteuid() == 0)
			ASSERT(setgroups(0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0 &&
				setresuid(65534, 65534, 65534) == 0);
		_exit(look_through_overlay());
	}
	ASSERT(waitpid(pid, &st, 0) == pid);
	if (WIFEXITED(st) && WEXITSTATUS(st) == 77)
		SKIP("no overlay can be mounted in a user namespace here");
	ASSERT(st == 0);
}
