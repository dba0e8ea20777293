/* SPDX-License-Identifier: Apache-2.0 */
/* npm_unpack.c: taking a .tgz apart, trusting nothing in it. */
#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fdcopy.h"
#include "base/tar.h"
#include "core/deps/npm.h"
#include "core/deps/semver.h"
#include "core/deps/wheel.h"
#include "core/deps/wheel_path.h"
#include "core/image/stream.h"

#define UNPACKED_MAX (UINT64_C(2) << 30)
#define FILES_MAX    100000
#define PACKAGE_MAX  (4u << 20)
#define REQUIRES_MAX 2000
#define TREE_DIR     "package/"

bool npm_is_name(const char *name)
{
	const char *p = name;
	size_t n = strlen(name);

	if (!n || n >= NPM_NAME_MAX)
		return false;
	if (*p == '@') {
		p++;
		size_t scope = strcspn(p, "/");
		if (!scope || !p[scope] || *p == '.')
			return false;
		for (size_t i = 0; i < scope; i++)
			if (!isalnum((unsigned char)p[i]) && !strchr("-._~", p[i]))
				return false;
		p += scope + 1;
	}
	if (!*p || *p == '.' || *p == '_' || !strcmp(p, "node_modules"))
		return false;
	for (; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("-._~", *p))
			return false;
	return true;
}

int npm_wish_parse(const char *text, char name[NPM_NAME_MAX], char *range, size_t size,
	struct cell_error *err)
{
	const char *at = strchr(*text == '@' ? text + 1 : text, '@');
	size_t n = at ? (size_t)(at - text) : strlen(text);

	(void)snprintf(name, NPM_NAME_MAX, "%.*s", (int)(n < NPM_NAME_MAX ? n : NPM_NAME_MAX - 1),
		text);
	const char *r = at ? at + 1 : "";
	if (!strcmp(r, "latest"))
		r = "";
	if (n >= NPM_NAME_MAX || !npm_is_name(name) || strlen(r) >= size ||
		!semver_range_is_valid(r))
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "'%.160s' is no package", text),
			"write name, name@1.2.3, name@^1.2 or the path of a .tgz file; URLs, tags "
			"and "
			"git are not taken");
	(void)snprintf(range, size, "%s", r);
	return 0;
}

static int refuse(struct cell_error *err, const char *path, const char *why)
{
	return cell_fail(err, CELL_EINVAL, 0, "the package is refused: '%.200s' %s", path, why);
}

struct taking {
	int dir_fd;
	json_t *files;
	struct buf package; /* package.json */
	bool has_package;
};

static int make_parents(int dir_fd, const char *path)
{
	char part[1280];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		(void)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		if (mkdirat(dir_fd, part, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static int take_data(struct tar_reader *tar, int fd, struct buf *copy, const char *name,
	struct cell_error *err)
{
	char piece[65536];
	ssize_t n;

	while ((n = tar_read_data(tar, piece, sizeof piece)) > 0) {
		int r = fd_write_all(fd, piece, (size_t)n);
		if (r < 0)
			return cell_fail_errno(err, -r, "unpack '%.200s'", name);
		if (copy && buf_add(copy, piece, (size_t)n) < 0)
			return refuse(err, name, "is too large");
	}
	return (int)n;
}

static int take_entry(struct taking *t, struct tar_reader *tar, const struct tar_entry *e,
	struct cell_error *err)
{
	const char *rest = strchr(e->name, '/');
	char place[1280];
	int r;

	if (e->type == TAR_DIRECTORY)
		return 0;
	if (e->type != TAR_FILE)
		return refuse(err, e->name, "is neither a file nor a directory");
	r = wheel_check_path(e->name, err);
	if (r < 0)
		return r;
	if (!rest || json_array_size(t->files) >= FILES_MAX)
		return refuse(err, e->name, rest ? "is one file too many" : "is in no directory");
	rest++;
	(void)snprintf(place, sizeof place, TREE_DIR "%s", rest);
	if (!strncmp(rest, "node_modules/",
		    13)) /* packages in packages: what they are is not known */
		return refuse(err, e->name, "brings packages of its own");
	if ((r = make_parents(t->dir_fd, place)) < 0)
		return cell_fail_errno(err, -r, "unpack '%.200s'", e->name);
	auto_fd int fd = openat(t->dir_fd, place,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (fd < 0 && (errno == EEXIST || errno == EISDIR || errno == ENOTDIR))
		return refuse(err, e->name, "is there twice");
	if (fd < 0)
		return cell_fail_errno(err, errno, "unpack '%.200s'", e->name);
	bool is_package = !strcmp(rest, "package.json");
	uint64_t size = e->size;
	mode_t mode = e->mode & 0111 ? 0555 : 0444;
	auto_free char *name = strdup(e->name);
	t->has_package |= is_package;
	r = take_data(tar, fd, is_package ? &t->package : NULL, name ? name : "", err);
	if (r < 0)
		return r;
	if (fchmod(fd, mode) < 0)
		return cell_fail_errno(err, errno, "unpack '%.200s'", place);
	return json_array_append_new(t->files, json_pack("[s, I]", place, (json_int_t)size)) < 0
		       ? refuse(err, place, "has a name that is no UTF-8")
		       : 0;
}

/* {name: range}; what this cannot honour is an error, not a surprise later. */
static int copy_requires(const json_t *from, json_t *to, struct cell_error *err)
{
	const char *name;
	json_t *range;

	json_object_foreach ((json_t *)(uintptr_t)from, name, range) {
		const char *text = json_string_value(range);
		if (text && !strcmp(text, "latest"))
			text = "";
		if (!text || !npm_is_name(name) || !semver_range_is_valid(text) ||
			strlen(text) > 500)
			return cell_fail(err, CELL_EINVAL, 0,
				"the package needs '%.100s' as '%.100s', which is no version", name,
				text ? text : "?");
		if (json_object_size(to) >= REQUIRES_MAX ||
			json_object_set_new(to, name, json_string(text)) < 0)
			return cell_fail(err, CELL_ELIMIT, 0, "the package needs too many others");
	}
	return 0;
}

static bool has_file(const json_t *files, const char *place)
{
	json_t *f;
	size_t i;

	json_array_foreach (files, i, f)
		if (!strcmp(json_string_value(json_array_get(f, 0)), place))
			return true;
	return false;
}

static int add_bin(struct taking *t, json_t *bins, const char *name, const char *path,
	struct cell_error *err)
{
	char place[1280];

	if (!strncmp(path, "./", 2))
		path += 2;
	const char *slash = strrchr(name, '/'); /* of a scoped package */
	name = slash ? slash + 1 : name;
	int r = wheel_check_path(path, err);
	if (r == 0)
		r = wheel_check_script_name(name, err);
	if (r < 0)
		return r;
	(void)snprintf(place, sizeof place, TREE_DIR "%s", path);
	if (!has_file(t->files, place))
		return 0; /* npm passes over it, too */
	if (fchmodat(t->dir_fd, place, 0555, 0) < 0)
		return cell_fail_errno(err, errno, "unpack '%.200s'", place);
	return json_array_append_new(bins, json_pack("[s, s]", name, path)) < 0
		       ? cell_fail_errno(err, ENOMEM, "unpack a package")
		       : 0;
}

static int read_package(struct taking *t, json_t *manifest, struct cell_error *err)
{
	json_t *o = json_loadb(buf_str(&t->package), t->package.len, 0, NULL), *path;
	const json_t *bin = json_object_get(o, "bin");
	const char *name = json_string_value(json_object_get(o, "name"));
	const char *version = json_string_value(json_object_get(o, "version")), *key;
	json_t *bins = json_object_get(manifest, "bins");
	struct semver v;
	int r = 0;

	if (!json_is_object(o) || !name || !npm_is_name(name) || !version ||
		strlen(version) > 100 || !semver_parse(version, &v))
		r = cell_fail(err, CELL_EINVAL, 0,
			"the package is refused: its package.json has no name and version");
	if (r == 0 && (json_object_set_new(manifest, "name", json_string(name)) < 0 ||
			      json_object_set_new(manifest, "version", json_string(version)) < 0))
		r = cell_fail_errno(err, ENOMEM, "unpack a package");
	json_t *requires = json_object_get(manifest, "requires"),
	       *optional = json_object_get(manifest, "optional");
	if (r == 0)
		r = copy_requires(json_object_get(o, "dependencies"), requires, err);
	if (r == 0)
		r = copy_requires(json_object_get(o, "optionalDependencies"), optional, err);
	json_object_foreach (optional, key, path)
		(void)json_object_del(requires, key);
	for (int i = 0; r == 0 && i < 2; i++) {
		const char *list = i ? "cpu" : "os";
		if (json_is_array(json_object_get(o, list)))
			(void)json_object_set(manifest, list, json_object_get(o, list));
	}
	if (r == 0 && json_is_string(bin))
		r = add_bin(t, bins, name, json_string_value(bin), err);
	json_object_foreach ((json_t *)(uintptr_t)bin, key, path)
		if (r == 0 && json_is_string(path))
			r = add_bin(t, bins, key, json_string_value(path), err);
	json_decref(o);
	return r;
}

static void stream_freep(struct stream **s)
{
	stream_free(*s);
}

int npm_unpack(int fd, const char *filename, int dir_fd, json_t **ret, struct cell_error *err)
{
	auto_(stream_freep) struct stream *stream = NULL;
	struct taking t = {
		.dir_fd = dir_fd, .files = json_array(), .package = BUF_INIT(PACKAGE_MAX)};
	json_t *manifest = json_pack("{s:i, s:s, s:s, s:{}, s:{}, s:o, s:[]}", "format",
		WHEEL_FORMAT, "kind", "npm", "filename", filename, "requires", "optional", "files",
		t.files, "bins");
	int r = manifest ? 0 : cell_fail_errno(err, ENOMEM, "unpack a package");

	if (err)
		err->code = CELL_OK;
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = cell_fail_errno(err, errno, "unpack '%.160s'", filename);
	if (r == 0)
		r = stream_open(&stream, fd, UNPACKED_MAX, err);
	if (r == 0) {
		struct tar_reader tar = TAR_READER_INIT(stream_read, stream);
		struct tar_entry e;
		int k = 0;
		while (r == 0 && (k = tar_read_entry(&tar, &e)) > 0)
			r = take_entry(&t, &tar, &e, err);
		if (r == 0 && k < 0)
			r = tar.why ? cell_fail(err, CELL_EINVAL, 0, "the archive is damaged: %s",
					      tar.why)
				    : stream_fail(stream, k, err);
		else if (r < 0 && err && !err->code)
			r = tar.why ? cell_fail(err, CELL_EINVAL, 0, "the archive is damaged: %s",
					      tar.why)
				    : stream_fail(stream, r, err);
		tar_reader_done(&tar);
	}
	if (r == 0 && !t.has_package)
		r = cell_fail(err, CELL_EINVAL, 0,
			"the package is refused: it has no package.json");
	if (r == 0)
		r = read_package(&t, manifest, err);
	buf_done(&t.package);
	if (r < 0) {
		json_decref(manifest);
		return cell_error_prefix(err, r, "%.160s", filename);
	}
	*ret = manifest;
	return 0;
}
