/* SPDX-License-Identifier: Apache-2.0 */
/* env_files.c: see env_files.h. */
#include "core/deps/env_files.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fdcopy.h"
#include "core/deps/refuse.h"

#define SCRIPT_MAX  (16u << 20)
#define SHEBANG_MAX 120 /* older kernels cut at 127 */
#define PATH_BYTES  2048

int env_write_file(int at, const char *path, const void *text, size_t n, unsigned mode,
	struct cell_error *err)
{
	auto_fd int fd =
		openat(at, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, n);

	if (r == 0 && fchmod(fd, mode) < 0)
		r = -errno;
	if (r == -EEXIST)
		return cell_fail(err, CELL_EEXISTS, 0, "two packages bring the file '%.200s'",
			path);
	return r < 0 ? cell_fail_errno(err, -r, "write '%.200s'", path) : 0;
}

static int make_refusal(const struct env *e, int gen, const char *site, struct cell_error *err)
{
	auto_fd int bin = openat(gen, "bin", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char path[256], text[PATH_BYTES];

	if (bin < 0)
		return cell_fail_errno(err, errno, "open the environment");
	(void)snprintf(path, sizeof path, "%s/_cell_refuse.pth", site);
	(void)snprintf(text, sizeof text, "import sys; sys.path.insert(0, '%s/" REFUSE_DIR "')\n",
		e->place->at);
	int r = strpbrk(e->place->at, "'\\\n")
			? 0
			: env_write_file(gen, path, text, strlen(text), 0444, err);
	return r < 0 ? r : refuse_programs(bin, err);
}

/* The interpreter's own pip, where it has one: /usr/bin/pip would be that of the system. */
static int make_pip(const struct env *e, int gen, struct cell_error *err)
{
	static const char *const names[] = {"bin/pip", "bin/pip3", NULL};
	char text[PATH_BYTES];
	int r = 0;

	(void)snprintf(text, sizeof text,
		"#!/bin/sh\nexec '%s/current/bin/python3' -m pip \"$@\"\n", e->place->at);
	for (size_t i = 0; r == 0 && names[i] && !strchr(e->place->at, '\''); i++)
		if (faccessat(gen, names[i], F_OK, AT_SYMLINK_NOFOLLOW) < 0)
			r = env_write_file(gen, names[i], text, strlen(text), 0555, err);
	return r;
}

int env_make_installers(const struct env *e, int gen, const char *site, struct cell_error *err)
{
	return e->place->is_forbidden ? make_refusal(e, gen, site, err) : make_pip(e, gen, err);
}

/* ---- directories ---- */

struct adding {
	const struct env *env;
	const struct env_package *package;
	int gen;
	const char *site;
	char last_dir[PATH_BYTES]; /* files of one directory follow one another */
};

static int make_parents(struct adding *a, const char *path)
{
	const char *end = strrchr(path, '/');
	char part[PATH_BYTES];

	if (!end || (size_t)(end - path) >= sizeof a->last_dir)
		return end ? -ENAMETOOLONG : 0;
	if (!strncmp(a->last_dir, path, (size_t)(end - path)) && !a->last_dir[end - path])
		return 0;
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		(void)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		if (mkdirat(a->gen, part, 0755) == 0) {
			if (fchmodat(a->gen, part, 0755, 0) < 0)
				return -errno;
		} else if (errno != EEXIST) {
			return -errno;
		}
	}
	(void)snprintf(a->last_dir, sizeof a->last_dir, "%.*s", (int)(end - path), path);
	return 0;
}

/* ---- files ---- */

static int copy(int tree, const char *from, int gen, const char *to)
{
	struct stat st;
	auto_fd int in = openat(tree, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (in < 0 || fstat(in, &st) < 0)
		return -errno;
	auto_fd int out = openat(gen, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		st.st_mode & 0777);
	if (out < 0)
		return -errno;
	int r = ioctl(out, FICLONE, in) == 0 ? 0 : fd_copy(in, out, UINT64_MAX, NULL);
	return r == 0 && fchmod(out, st.st_mode & 0777) < 0 ? -errno : r;
}

static bool is_same(int tree, const char *from, int gen, const char *to)
{
	auto_fd int a = openat(tree, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_fd int b = openat(gen, to, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat x, y;
	char p[8192], q[sizeof p];
	ssize_t n;

	if (a < 0 || b < 0 || fstat(a, &x) < 0 || fstat(b, &y) < 0 || x.st_size != y.st_size)
		return false;
	if (x.st_ino == y.st_ino && x.st_dev == y.st_dev)
		return true;
	while ((n = read(a, p, sizeof p)) > 0)
		if (read(b, q, (size_t)n) != n || memcmp(p, q, (size_t)n) != 0)
			return false;
	return n == 0;
}

static int place_file(struct adding *a, const char *from, const char *to, struct cell_error *err)
{
	int tree = a->package->tree->fd;
	int r = make_parents(a, to);

	if (r == 0) {
		r = -EXDEV;
		if (a->env->place->is_mounted && !a->env->place->is_kept)
			r = linkat(tree, from, a->gen, to, 0) < 0 ? -errno : 0;
		if (r == -EXDEV || r == -EMLINK || r == -EPERM || r == -ENOTSUP)
			r = copy(tree, from, a->gen, to);
	}
	if (r == -EEXIST && is_same(tree, from, a->gen, to))
		return 0;
	if (r == -EEXIST || r == -ENOTDIR || r == -EISDIR)
		return cell_error_hint(err,
			cell_fail(err, CELL_EEXISTS, 0,
				"'%s' brings '%.200s', which another package has brought already",
				a->package->name, to),
			"the two cannot be in one environment");
	return r < 0 ? cell_fail_errno(err, -r, "install '%s': '%.200s'", a->package->name, to) : 0;
}

/* The first line of a script: straight, or through the shell where the path is long or has spaces. */
static int put_shebang(const struct env *e, struct buf *b)
{
	const char *at = e->place->at;

	if (strlen(at) + strlen("/current/bin/python3") + 3 <= SHEBANG_MAX && !strpbrk(at, " \t\n"))
		return buf_addf(b, "#!%s/current/bin/python3\n", at);
	return buf_addf(b, "#!/bin/sh\n'''exec' \"%s/current/bin/python3\" \"$0\" \"$@\"\n' '''\n",
		at);
}

/* A script of the wheel's: "#!python" or "#!pythonw" stands for the interpreter. */
static int place_script(struct adding *a, const char *from, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(SCRIPT_MAX + 4096);
	auto_fd int in = openat(a->package->tree->fd, from, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (in < 0 || fstat(in, &st) < 0)
		return cell_fail_errno(err, errno, "install '%s'", a->package->name);
	char start[9] = "";
	ssize_t n = pread(in, start, 8, 0);
	if (n != 8 || strncmp(start, "#!python", 8) != 0 || st.st_size > SCRIPT_MAX)
		return place_file(a, from, from, err);
	auto_free char *text = malloc((size_t)st.st_size + 1);
	if (!text || (n = pread(in, text, (size_t)st.st_size, 0)) < 0)
		return cell_fail_errno(err, errno, "install '%s'", a->package->name);
	const char *rest = memchr(text, '\n', (size_t)n);
	rest = rest ? rest + 1 : text + n;
	if (put_shebang(a->env, &b) < 0 || buf_add(&b, rest, (size_t)(text + n - rest)) < 0)
		return cell_fail_errno(err, ENOMEM, "install '%s'", a->package->name);
	return env_write_file(a->gen, from, b.data, b.len, 0555, err);
}

static int place_entry_points(struct adding *a, struct cell_error *err)
{
	json_t *x;
	size_t i;

	json_array_foreach (json_object_get(a->package->tree->manifest, "entry_points"), i, x) {
		auto_buf struct buf b = BUF_INIT(65536);
		const char *name = json_string_value(json_array_get(x, 0));
		const char *module = json_string_value(json_array_get(x, 1));
		const char *attribute = json_string_value(json_array_get(x, 2));
		char path[300];

		if (!name || !module || !attribute)
			return cell_fail(err, CELL_EINTERNAL, 0, "the manifest of '%s' is damaged",
				a->package->name);
		int first = (int)strcspn(attribute, ".");
		int r = put_shebang(a->env, &b);
		if (r == 0)
			r = buf_addf(&b,
				"import sys\nfrom %s import %.*s\n"
				"if __name__ == '__main__':\n    sys.exit(%s())\n",
				module, first, attribute, attribute);
		(void)snprintf(path, sizeof path, "bin/%s", name);
		r = r < 0 ? cell_fail_errno(err, -r, "install '%s'", a->package->name)
			  : env_write_file(a->gen, path, b.data, b.len, 0555, err);
		if (r < 0)
			return cell_error_prefix(err, r, "install '%s'", a->package->name);
	}
	return 0;
}

/* importlib.metadata and pip show who installed it. */
static int place_installer(struct adding *a, const char *info_dir, struct cell_error *err)
{
	char path[PATH_BYTES];

	(void)snprintf(path, sizeof path, "%s/%sINSTALLER", a->site, info_dir);
	(void)unlinkat(a->gen, path, 0);
	return env_write_file(a->gen, path, "cell\n", 5, 0444, err);
}

static int add_wheel(struct adding *a, struct cell_error *err)
{
	json_t *f;
	size_t i;
	int r = 0;

	json_array_foreach (json_object_get(a->package->tree->manifest, "files"), i, f) {
		const char *path = json_string_value(json_array_get(f, 0));
		char to[PATH_BYTES];

		if (!path)
			return cell_fail(err, CELL_EINTERNAL, 0, "the manifest of '%s' is damaged",
				a->package->name);
		if (!strncmp(path, "lib/", 4)) {
			size_t n = strlen(path);
			if (n > 20 && !strcmp(path + n - 20, ".dist-info/INSTALLER"))
				continue;
			(void)snprintf(to, sizeof to, "%s/%s", a->site, path + 4);
			r = place_file(a, path, to, err);
			if (r == 0 && n > 19 && !strcmp(path + n - 19, ".dist-info/METADATA")) {
				(void)snprintf(to, sizeof to, "%.*s", (int)(n - 4 - 8), path + 4);
				r = place_installer(a, to, err);
			}
		} else if (!strncmp(path, "bin/", 4)) {
			r = place_script(a, path, err);
		} else {
			r = place_file(a, path, !strncmp(path, "data/", 5) ? path + 5 : path, err);
		}
		if (r < 0)
			return r;
	}
	return place_entry_points(a, err);
}

/* For those at the top: node_modules/.bin/NAME, as npm has it, and a program in PATH. */
static int place_bins(struct adding *a, struct cell_error *err)
{
	json_t *x;
	size_t i;

	if (strchr(a->package->at + strlen("node_modules/"), '/') && !strchr(a->package->at, '@'))
		return 0;
	if ((mkdirat(a->gen, "node_modules/.bin", 0755) < 0 && errno != EEXIST) ||
		fchmodat(a->gen, "node_modules/.bin", 0755, 0) < 0)
		return cell_fail_errno(err, errno, "install '%s'", a->package->name);
	json_array_foreach (json_object_get(a->package->tree->manifest, "bins"), i, x) {
		const char *name = json_string_value(json_array_get(x, 0));
		const char *path = json_string_value(json_array_get(x, 1));
		char target[PATH_BYTES], link[300];

		(void)snprintf(link, sizeof link, "node_modules/.bin/%s", name);
		(void)snprintf(target, sizeof target, "../%s/%s",
			a->package->at + strlen("node_modules/"), path);
		if (symlinkat(target, a->gen, link) < 0 && errno != EEXIST)
			return cell_fail_errno(err, errno, "install '%s'", a->package->name);
		(void)snprintf(link, sizeof link, "bin/%s", name);
		(void)snprintf(target, sizeof target, "../%s/%s", a->package->at, path);
		if (symlinkat(target, a->gen, link) < 0)
			return cell_fail(err, CELL_EEXISTS, 0,
				"'%s' brings the program '%s', which is there already",
				a->package->name, name);
	}
	return 0;
}

static int add_npm(struct adding *a, struct cell_error *err)
{
	json_t *f;
	size_t i;

	json_array_foreach (json_object_get(a->package->tree->manifest, "files"), i, f) {
		const char *path = json_string_value(json_array_get(f, 0));
		char to[PATH_BYTES];

		if (!path || strncmp(path, "package/", 8) != 0)
			return cell_fail(err, CELL_EINTERNAL, 0, "the manifest of '%s' is damaged",
				a->package->name);
		(void)snprintf(to, sizeof to, "%s/%s", a->package->at, path + 8);
		int r = place_file(a, path, to, err);
		if (r < 0)
			return r;
	}
	return place_bins(a, err);
}

int env_add_package(const struct env *e, int gen, const char *site, const struct env_package *p,
	struct cell_error *err)
{
	struct adding a = {.env = e, .package = p, .gen = gen, .site = site};

	return p->at ? add_npm(&a, err) : add_wheel(&a, err);
}
