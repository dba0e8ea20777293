/* SPDX-License-Identifier: Apache-2.0 */
/* tree_hash.c: see tree_hash.h. Every part goes in with its length, so that no two trees share their
 * bytes. */
#include "core/image/tree_hash.h"

#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/treewalk.h"
#include "core/image/layer.h"

static void add_number(struct digest *d, uint64_t v)
{
	uint8_t raw[8];

	for (size_t i = 0; i < sizeof raw; i++)
		raw[i] = (uint8_t)(v >> 8 * i);
	digest_add(d, raw, sizeof raw);
}

static void add_text(struct digest *d, const char *s)
{
	add_number(d, strlen(s));
	digest_add(d, s, strlen(s));
}

static int add_file(struct digest *d, const struct treewalk_entry *e)
{
	char chunk[65536];
	uint64_t size = 0;
	ssize_t n;

	auto_fd int fd = openat(e->dir_fd, e->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while ((n = read(fd, chunk, sizeof chunk)) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		digest_add(d, chunk, (size_t)n);
		size += (uint64_t)n;
	}
	add_number(d, size);
	return 0;
}

static int add_link(struct digest *d, const struct treewalk_entry *e)
{
	char target[PATH_MAX + 1];
	ssize_t n = readlinkat(e->dir_fd, e->name, target, sizeof target - 1);

	if (n < 0)
		return -errno;
	target[n] = '\0';
	add_text(d, target);
	return 0;
}

static int add_dir(struct digest *d, const struct treewalk_entry *e)
{
	auto_fd int fd = openat(e->dir_fd, e->name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	add_number(d, layer_is_opaque(fd));
	return 0;
}

static int add_entry(struct digest *d, const struct treewalk_entry *e)
{
	add_text(d, e->path);
	add_number(d, e->st.st_mode);
	add_number(d, e->st.st_uid);
	add_number(d, e->st.st_gid);
	if (S_ISREG(e->st.st_mode))
		return add_file(d, e);
	if (S_ISLNK(e->st.st_mode))
		return add_link(d, e);
	if (S_ISDIR(e->st.st_mode))
		return add_dir(d, e);
	add_number(d, e->st.st_rdev);
	return 0;
}

int tree_hash(int dir_fd, const char *path, char ret[DIGEST_HEX + 1], uint64_t *bytes_ret,
	struct cell_error *err)
{
	struct treewalk *w = NULL;
	struct treewalk_entry e;
	struct digest d;
	uint64_t bytes = 0;

	digest_init(&d);
	add_number(&d, layer_is_opaque(dir_fd));
	int r = treewalk_new(dir_fd, 0, 0, &w);
	while (r == 0 && (r = treewalk_next(w, &e)) > 0) {
		r = e.type == TREEWALK_FAILED ? -e.error : add_entry(&d, &e);
		if (r < 0)
			cell_fail_errno(err, -r, "read '%.200s' of '%s'", e.path, path);
		bytes += S_ISREG(e.st.st_mode) ? (uint64_t)e.st.st_size : 0;
		if (r < 0) {
			treewalk_free(w);
			return r;
		}
	}
	treewalk_free(w);
	if (r < 0)
		return cell_fail_errno(err, -r, "read '%s'", path);
	digest_hex(&d, ret);
	if (bytes_ret)
		*bytes_ret = bytes;
	return 0;
}
