/* SPDX-License-Identifier: Apache-2.0 */
/* transfer_test.c: files and directories between host and cell, whole or as tar streams. */
#include <limits.h>
#include <sys/stat.h>

#include "suite.h"

#define BLOCK 512

static char *on_host(const struct suite *s, const char *name, char path[PATH_MAX])
{
	snprintf(path, PATH_MAX, "%s/%s", s->dir, name);
	return path;
}

TEST_NEEDS(a_file_goes_in_and_comes_out, NEEDS(FILES))
{
	enum {
		N = 5000000
	};
	auto_cell struct cell *c = open_cell(s);
	auto_free char *bytes = malloc(N);
	char in[PATH_MAX], out[PATH_MAX];
	size_t n = 0;

	ASSERT(bytes);
	for (size_t i = 0; i < N; i++)
		bytes[i] = (char)gen_byte(i);
	host_store(on_host(s, "in", in), bytes, N);
	OK(cell_file_upload(c, in, "file", NULL, NULL, &E));
	auto_result struct cell_result r = sh(c, "./probe sum < file");
	char want[64];
	snprintf(want, sizeof(want), "%d %016llx\n", N, (unsigned long long)gen_hash(N));
	ASSERT_STR(r.out, want);
	OK(cell_file_download(c, "file", on_host(s, "out", out), NULL, NULL, &E));
	auto_free char *back = host_load(out, &n);
	ASSERT_INT(n, N);
	ASSERT(!memcmp(back, bytes, N));
}

TEST_NEEDS(a_file_keeps_its_mode_on_the_way, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	char in[PATH_MAX], out[PATH_MAX];
	struct stat st;

	host_store(on_host(s, "tool", in), "#!/bin/sh\necho it runs\n", 23);
	ASSERT_INT(chmod(in, 0755), 0);
	OK(cell_file_upload(c, in, "tool", NULL, NULL, &E));
	auto_result struct cell_result r = RUN(c, "./tool");
	ASSERT_STR(r.out, "it runs\n");
	OK(cell_file_download(c, "tool", on_host(s, "back", out), NULL, NULL, &E));
	ASSERT_INT(stat(out, &st), 0);
	ASSERT_INT(st.st_mode & 0777, 0755);
}

TEST_NEEDS(a_directory_goes_in_and_comes_out, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	char dir[PATH_MAX], path[PATH_MAX], target[64] = "";

	mkdir(on_host(s, "tree", dir), 0755);
	mkdir(on_host(s, "tree/empty", path), 0700);
	mkdir(on_host(s, "tree/sub", path), 0755);
	host_store(on_host(s, "tree/sub/new\nline \xff", path), "odd", 3);
	host_store(on_host(s, "tree/zero", path), "", 0);
	ASSERT_INT(symlink("sub", on_host(s, "tree/link", path)), 0);
	OK(cell_file_upload(c, dir, "copy", NULL, NULL, &E));
	auto_free char *odd = load(c, "copy/link/new\nline \xff");
	ASSERT_STR(odd, "odd");
	ASSERT(exists(c, "copy/empty"));
	ASSERT(exists(c, "copy/zero"));
	OK(cell_file_download(c, "copy", on_host(s, "back", dir), NULL, NULL, &E));
	auto_free char *back = host_load(on_host(s, "back/sub/new\nline \xff", path), NULL);
	ASSERT(back);
	ASSERT_STR(back, "odd");
	ASSERT(access(on_host(s, "back/empty", path), F_OK) == 0);
	ASSERT_INT(readlink(on_host(s, "back/link", path), target, sizeof(target) - 1), 3);
	ASSERT_STR(target, "sub");
}

TEST_NEEDS(long_names_survive_a_transfer, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	char name[251], path[1200], host[PATH_MAX];

	memset(name, 'n', 250);
	name[250] = '\0';
	snprintf(path, sizeof(path), "t/%s/%s/%s", name, name, name);
	OK(cell_file_store(c, path, 0, CELL_WRITE_PARENTS, "deep", 4, &E));
	OK(cell_file_download(c, "t", on_host(s, "t", host), NULL, NULL, &E));
	OK(cell_file_upload(c, host, "u", NULL, NULL, &E));
	path[0] = 'u';
	auto_free char *text = load(c, path);
	ASSERT_STR(text, "deep");
}

static int stop_soon(uint64_t bytes, void *user)
{
	*(uint64_t *)user = bytes;
	return bytes > 1000000 ? 9 : 0;
}

static int count_up(uint64_t bytes, void *user)
{
	uint64_t *last = user;

	ASSERT(bytes >= *last);
	*last = bytes;
	return 0;
}

TEST_NEEDS(progress_is_told_and_can_stop_it, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_free char *bytes = calloc(1, 20000000);
	char in[PATH_MAX], out[PATH_MAX];
	uint64_t last = 0;

	ASSERT(bytes);
	host_store(on_host(s, "in", in), bytes, 20000000);
	OK(cell_file_upload(c, in, "whole", count_up, &last, &E));
	ASSERT(last >= 20000000);
	ASSERT_INT(cell_file_upload(c, in, "part", stop_soon, &last, &E), 9);
	ASSERT(!exists(c, "part"));
	last = 0;
	OK(cell_file_download(c, "whole", on_host(s, "out", out), count_up, &last, &E));
	ASSERT(last >= 20000000);
	ASSERT_INT(cell_file_download(c, "whole", on_host(s, "out2", out), stop_soon, &last, &E),
		9);
}

TEST_NEEDS(what_is_missing_on_either_side_is_not_found, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	char path[PATH_MAX];

	FAILS(NOT_FOUND, cell_file_upload(c, on_host(s, "none", path), "x", NULL, NULL, &E));
	ASSERT_HAS(E.msg, "none");
	ASSERT(!exists(c, "x"));
	FAILS(NOT_FOUND, cell_file_download(c, "none", on_host(s, "x", path), NULL, NULL, &E));
	ASSERT(access(path, F_OK) < 0);
}

TEST_NEEDS(missing_parents_of_the_destination_are_made, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	char path[PATH_MAX];

	store(c, "here", "x");
	OK(cell_file_download(c, "here", on_host(s, "no/such/dir/x", path), NULL, NULL, &E));
	ASSERT(access(path, F_OK) == 0);
	OK(cell_file_upload(c, path, "nor/such/x", NULL, NULL, &E));
	ASSERT(exists(c, "nor/such/x"));
}

TEST_NEEDS(a_download_makes_no_link_out_of_its_place, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	char secret[PATH_MAX], dest[PATH_MAX], path[PATH_MAX], line[PATH_MAX * 2];

	host_store(on_host(s, "secret", secret), "host secret", 11);
	snprintf(line, sizeof(line),
		"mkdir d; echo fine > d/ok; ln -s '%s' d/abs; ln -s ../secret d/rel; ln -s ok "
		"d/in; "
		"ln -s .. d/up",
		secret);
	auto_result struct cell_result r = sh(c, line);
	ASSERT_INT(r.exit.exit_code, 0);
	int e = cell_file_download(c, "d", on_host(s, "dest", dest), NULL, NULL, &E);
	static const char *const names[] = {"dest/abs", "dest/rel", "dest/up"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		struct stat st;
		if (lstat(on_host(s, names[i], path), &st) == 0)
			ASSERT(!S_ISLNK(st.st_mode));
	}
	if (e >= 0) {
		auto_free char *ok = host_load(on_host(s, "dest/ok", path), NULL);
		ASSERT(ok);
		ASSERT_STR(ok, "fine\n");
	} else {
		ASSERT(E.msg[0]);
	}
	auto_free char *still = host_load(secret, NULL);
	ASSERT_STR(still, "host secret");
}

TEST_NEEDS(a_download_does_not_write_through_a_link_that_waits_there, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	char victim[PATH_MAX], dest[PATH_MAX], path[PATH_MAX];

	mkdir(on_host(s, "victim", victim), 0755);
	mkdir(on_host(s, "dest", dest), 0755);
	ASSERT_INT(symlink(victim, on_host(s, "dest/sub", path)), 0);
	OK(cell_file_store(c, "d/sub/f", 0, CELL_WRITE_PARENTS, "x", 1, &E));
	(void)cell_file_download(c, "d", dest, NULL, NULL, &E);
	ASSERT(access(on_host(s, "victim/f", path), F_OK) < 0);
}

/* A tar stream made by hand, so that it can say what no honest tar would. */
struct tar {
	uint8_t bytes[64 * BLOCK];
	size_t len, given;
};

static void tar_add(struct tar *t, char type, const char *name, const char *link, const char *text)
{
	uint8_t *h = t->bytes + t->len;
	unsigned sum = 0;
	size_t n = text ? strlen(text) : 0;

	ASSERT(t->len + 2 * BLOCK + n < sizeof(t->bytes));
	memcpy(h, name, strlen(name) < 100 ? strlen(name) : 100);
	snprintf((char *)h + 100, 8, "%07o", type == '5' ? 0755 : 0644);
	snprintf((char *)h + 108, 8, "%07o", 0);
	snprintf((char *)h + 116, 8, "%07o", 0);
	snprintf((char *)h + 124, 12, "%011o", (unsigned)n & 0xffffu);
	snprintf((char *)h + 136, 12, "%011o", 1000000000);
	h[156] = (uint8_t)type;
	memcpy(h + 157, link, strlen(link));
	memcpy(h + 257, "ustar\00000", 8);
	snprintf((char *)h + 329, 8, "%07o", 1);
	snprintf((char *)h + 337, 8, "%07o", 3);
	memset(h + 148, ' ', 8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += h[i];
	snprintf((char *)h + 148, 8, "%06o", sum);
	if (n)
		memcpy(h + BLOCK, text, n);
	t->len += BLOCK + (n + BLOCK - 1) / BLOCK * BLOCK;
}

static ssize_t tar_give(void *p, size_t n, void *user)
{
	struct tar *t = user;

	if (n > t->len - t->given)
		n = t->len - t->given;
	memcpy(p, t->bytes + t->given, n);
	t->given += n;
	return (ssize_t)n;
}

static int untar(struct cell *c, struct tar *t, bool has_end)
{
	if (has_end)
		t->len += 2 * BLOCK;
	E = (struct cell_error){0};
	return cell_file_untar(c, "into", tar_give, t, &E);
}

TEST_NEEDS(a_tar_stream_is_unpacked, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_free struct tar *t = calloc(1, sizeof(*t));

	ASSERT(t);
	OK(cell_file_mkdir(c, "into", 0, false, &E));
	tar_add(t, '5', "dir/", "", NULL);
	tar_add(t, '0', "dir/file", "", "content");
	tar_add(t, '2', "dir/link", "file", NULL);
	tar_add(t, '0', "no/parents/listed", "", "too");
	if (untar(c, t, true) < 0)
		DIE("untar: %s", E.msg);
	auto_free char *a = load(c, "into/dir/link");
	auto_free char *b = load(c, "into/no/parents/listed");
	ASSERT_STR(a, "content");
	ASSERT_STR(b, "too");
}

TEST_NEEDS(a_hostile_tar_stream_stays_in_its_place, NEEDS(FILES))
{
	static const struct {
		const char *what;
		struct {
			char type;
			const char *name, *link, *text;
		} entries[3];
	} all[] = {
		{"dots", {{'0', "../evil", "", "x"}}},
		{"dots within", {{'0', "a/../../evil", "", "x"}}},
		{"absolute", {{'0', "/tmp/cell-conformance-evil", "", "x"}}},
		{"through a link up", {{'2', "l", "..", NULL}, {'0', "l/evil", "", "x"}}},
		{"through a link out", {{'2', "l", "/tmp", NULL}, {'0', "l/evil", "", "x"}}},
		{"a link out", {{'2', "l", "../../../etc/passwd", NULL}}},
		{"hard link out", {{'1', "h", "../sentinel", NULL}, {'0', "h", "", "x"}}},
		{"a device", {{'3', "dev", "", NULL}}},
		{"a block device", {{'4', "dev", "", NULL}}},
	};
	auto_cell struct cell *c = open_cell(s);

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		auto_free struct tar *t = calloc(1, sizeof(*t));
		ASSERT(t);
		auto_result struct cell_result r =
			sh(c, "rm -rf into evil; mkdir into; printf sentinel > sentinel");
		ASSERT_INT(r.exit.exit_code, 0);
		for (size_t k = 0; k < 3 && all[i].entries[k].type; k++)
			tar_add(t, all[i].entries[k].type, all[i].entries[k].name,
				all[i].entries[k].link, all[i].entries[k].text);
		if (untar(c, t, true) >= 0)
			DIE("%s: was taken", all[i].what);
		if (!E.msg[0] || E.code == CELL_EINTERNAL)
			DIE("%s: no proper error: %s", all[i].what, E.msg);
		auto_result struct cell_result after =
			sh(c, "ls evil ../evil /tmp/evil /tmp/cell-conformance-evil into/dev "
			      "2>/dev/null; "
			      "cat sentinel");
		if (strcmp(after.out, "sentinel") != 0)
			DIE("%s: left %s", all[i].what, after.out);
	}
}

TEST_NEEDS(a_broken_tar_stream_is_an_error, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	auto_free struct tar *t = calloc(1, sizeof(*t));

	ASSERT(t);
	OK(cell_file_mkdir(c, "into", 0, false, &E));
	memset(t->bytes, 'g', 3000);
	t->len = 3000;
	ASSERT(untar(c, t, false) < 0);
	ASSERT(E.msg[0] && E.code != CELL_EINTERNAL);
	*t = (struct tar){0};
	tar_add(t, '0', "cut", "", "a text that will be cut short");
	t->len = BLOCK + 5;
	ASSERT(untar(c, t, false) < 0);
	ASSERT(E.msg[0] && E.code != CELL_EINTERNAL);
	store(c, "after", "fine");
	ASSERT(exists(c, "after"));
}

struct tar_seen {
	uint8_t head[262];
	size_t len;
};

static int note_head(const void *p, size_t n, void *user)
{
	struct tar_seen *t = user;

	for (size_t i = 0; i < n && t->len + i < sizeof(t->head); i++)
		t->head[t->len + i] = ((const uint8_t *)p)[i];
	t->len += n;
	return 0;
}

TEST_NEEDS(a_directory_comes_as_a_tar_stream, NEEDS(FILES))
{
	auto_cell struct cell *c = open_cell(s);
	struct tar_seen t = {0};

	OK(cell_file_store(c, "d/f", 0, CELL_WRITE_PARENTS, "x", 1, &E));
	OK(cell_file_tar(c, "d", note_head, &t, &E));
	ASSERT(t.len >= 3 * BLOCK);
	ASSERT_INT(t.len % BLOCK, 0);
	ASSERT(!memcmp(t.head + 257, "ustar", 5));
}
