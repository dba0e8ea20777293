/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_deps.c: packages from somebody else. The first byte says what the rest is: a wheel, which is unpacked into a directory that has a canary beside it, a
 * page of an index, a requirement with its marker, a list of requirements.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "core/deps/npm.h"
#include "core/deps/npm_list.h"
#include "core/deps/page.h"
#include "core/deps/reqfile.h"
#include "core/deps/requirement.h"
#include "core/deps/semver.h"
#include "core/deps/version.h"
#include "core/deps/wheel.h"
#include "core/image/digest.h"
#include "core/remove_tree.h"

#define MUST(e)                  \
	do {                     \
		if (!(e))        \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int dir_fd = -1;

static void open_directory(void)
{
	char path[] = "/tmp/fuzz-deps-XXXXXX";

	if (dir_fd >= 0)
		return;
	MUST(mkdtemp(path));
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(dir_fd >= 0 && rmdir(path) == 0 && mkdir(path, 0700) == 0);
	close(dir_fd);
	dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	MUST(dir_fd >= 0);
}

static void remove_directory(void) __attribute__((destructor));
static void remove_directory(void)
{
	char link[64], path[4096];

	if (dir_fd < 0)
		return;
	(void)snprintf(link, sizeof link, "/proc/self/fd/%d", dir_fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	if (n > 0) {
		path[n] = '\0';
		(void)rmdir(path);
	}
}

static void unpack(const uint8_t *data, size_t size, bool is_npm)
{
	struct cell_error err = {0};
	json_t *manifest = NULL;
	struct stat st;

	open_directory();
	MUST(mkdirat(dir_fd, "tree", 0700) == 0);
	auto_fd int tree = openat(dir_fd, "tree", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int canary = openat(dir_fd, "canary", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	auto_fd int fd = memfd_create("wheel", MFD_CLOEXEC);
	MUST(tree >= 0 && canary >= 0 && fd >= 0);
	MUST(write(fd, data, size) == (ssize_t)size);
	int r = is_npm ? npm_unpack(fd, "x-1.0.0.tgz", tree, &manifest, &err)
		       : wheel_unpack(fd, "x-1.0-py3-none-any.whl", tree, &manifest, &err);
	MUST((r < 0) == (err.code != CELL_OK) && (r < 0) == !manifest);
	MUST(fstat(canary, &st) == 0 && st.st_nlink == 1 && st.st_size == 0);
	json_decref(manifest);
	MUST(cell_remove_tree(dir_fd, "tree", NULL) == 0);
	MUST(unlinkat(dir_fd, "canary", 0) == 0);
}

static int look(const struct page_file *f, void *user)
{
	(void)user;
	MUST(*f->filename && !strchr(f->filename, '/'));
	MUST(!strncmp(f->url, "http://", 7) || !strncmp(f->url, "https://", 8));
	MUST(!*f->hash || digest_is_hex(f->hash));
	return 0;
}

static void read_requirement(const char *text)
{
	static const struct marker_env env = {
		.python_version = "3.11", .python_full_version = "3.11.2"};
	struct requirement q;
	struct version v, again;
	char normal[VERSION_TEXT_MAX];
	bool holds;

	if (requirement_parse(text, &q, NULL) == 0) {
		MUST(specifiers_are_valid(q.specifiers));
		(void)specifiers_allow(q.specifiers, "1.0");
		(void)marker_holds(q.marker, &env, "x", &holds, NULL);
	}
	if (version_parse(text, &v)) {
		MUST(version_parse(version_text(&v, normal), &again));
		MUST(version_compare(&v, &again) == 0);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > 1u << 20)
		return 0;
	char *text = strndup((const char *)data + 1, size - 1);
	json_t *list = json_array(), *hashes = NULL;

	MUST(text && list);
	switch (data[0]) {
	case 'w':
		unpack(data + 1, size - 1, false);
		break;
	case 't':
		unpack(data + 1, size - 1, true);
		break;
	case 's':
		(void)semver_allows(text, "1.2.3-beta.4");
		(void)npm_list_read(text, list, &hashes, NULL);
		break;
	case 'h':
		(void)page_read(text, strlen(text), "text/html", "https://x.org/simple/x/", look,
			NULL, NULL);
		break;
	case 'j':
		(void)page_read(text, strlen(text), "application/json", "https://x.org/simple/x/",
			look, NULL, NULL);
		break;
	case 'q':
		read_requirement(text);
		break;
	default:
		(void)reqfile_read(text, list, &hashes, NULL);
		break;
	}
	free(text);
	json_decref(list);
	json_decref(hashes);
	return 0;
}
