/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layers.c: finding and reading configuration files, weakest first: the system's, the user's, the
 * workspace's, the one given by path.
 */
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "core/config/config.h"
#include "core/config/yaml.h"

#define SYSTEM_DIRECTORY "/etc/cell"

struct file_id {
	dev_t dev;
	ino_t ino;
};

struct finder {
	struct cell_config *cfg;
	struct cell_error *err;
	struct file_id seen[4]; /* a file reached by two ways is read once */
	size_t n_seen;
};

static int read_all(int fd, struct buf *text)
{
	for (;;) {
		int r = buf_reserve(text, 16384);
		if (r == -ENOBUFS)
			r = buf_reserve(text, text->max - text->len);
		if (r < 0)
			return r;
		size_t room = text->cap - 1 - text->len;
		if (!room)
			return -EFBIG;
		ssize_t n = read(fd, text->data + text->len, room);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return 0;
		text->len += (size_t)n;
		text->data[text->len] = '\0';
	}
}

static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (*path != '/') {
		auto_free char *cwd = getcwd(NULL, 0);
		size_t n = slash ? (size_t)(slash - path) : 0;
		char *full = NULL;
		if (!cwd)
			return NULL;
		if (asprintf(&full, "%s%s%.*s", cwd, n ? "/" : "", (int)n, path) < 0)
			return NULL;
		return full;
	}
	return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static int remember_file(struct cell_config *cfg, const char *path)
{
	char **files = reallocarray(cfg->files, cfg->n_files + 2, sizeof(char *));

	if (!files)
		return -ENOMEM;
	cfg->files = files;
	files[cfg->n_files] = strdup(path);
	if (!files[cfg->n_files])
		return -ENOMEM;
	files[++cfg->n_files] = NULL;
	return 0;
}

static int apply_file(struct finder *f, const char *path, int fd)
{
	auto_buf struct buf text = BUF_INIT(YAML_MAX_BYTES + 1);
	auto_node struct node *document = NULL;

	int r = read_all(fd, &text);
	if (r == -EFBIG || text.len > YAML_MAX_BYTES)
		return cell_fail(f->err, CELL_EINVAL, 0, "%s: larger than 1 MiB", path);
	if (r < 0)
		return cell_fail_errno(f->err, -r, "read the configuration '%s'", path);
	auto_free char *directory = directory_of(path);
	struct source *source = config_source(f->cfg, SOURCE_FILE, path, directory);
	if (!source || remember_file(f->cfg, path) < 0)
		return config_no_memory(f->err);
	r = yaml_parse(buf_str(&text), text.len, source, &document, f->err);
	if (r < 0 || !document)
		return r;
	return config_apply(f->cfg, document, f->err);
}

/* 1 when it was there, 0 when it was not. A discovered file must be an ordinary one: no pipe in a
 * workspace may hold us up. */
static int read_file(struct finder *f, const char *path, bool is_explicit)
{
	struct stat st;
	auto_fd int fd =
		open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | (is_explicit ? 0 : O_NONBLOCK));

	if (fd < 0 && !is_explicit && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0 || fstat(fd, &st) < 0)
		return cell_fail_errno(f->err, errno, "open the configuration '%s'", path);
	if (S_ISDIR(st.st_mode))
		return cell_error_hint(f->err,
			cell_fail(f->err, CELL_EINVAL, EISDIR, "read the configuration '%s'", path),
			"name the file in it");
	if (!is_explicit && !S_ISREG(st.st_mode))
		return cell_fail(f->err, CELL_EINVAL, 0,
			"read the configuration '%s': not a regular file", path);
	for (size_t i = 0; i < f->n_seen; i++)
		if (f->seen[i].dev == st.st_dev && f->seen[i].ino == st.st_ino)
			return 1;
	if (f->n_seen < sizeof f->seen / sizeof f->seen[0])
		f->seen[f->n_seen++] = (struct file_id){st.st_dev, st.st_ino};
	int r = apply_file(f, path, fd);
	return r < 0 ? r : 1;
}

static int read_in(struct finder *f, const char *directory, const char *name)
{
	char path[PATH_MAX];

	int n = snprintf(path, sizeof path, "%s/%s", strcmp(directory, "/") ? directory : "", name);
	if (n < 0 || (size_t)n >= sizeof path)
		return 0;
	return read_file(f, path, false);
}

static int read_system(struct finder *f)
{
	const char *directory = getenv("CELL_CONFIG_SYSTEM_DIR");

	return read_in(f, directory && *directory ? directory : SYSTEM_DIRECTORY, "cell.yaml");
}

static int read_user(struct finder *f)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char directory[PATH_MAX];
	int n;

	if (xdg && *xdg == '/')
		n = snprintf(directory, sizeof directory, "%s/cell", xdg);
	else if (home && *home == '/')
		n = snprintf(directory, sizeof directory, "%s/.config/cell", home);
	else
		return 0;
	return n < 0 || (size_t)n >= sizeof directory ? 0 : read_in(f, directory, "cell.yaml");
}

/* A file above the starting directory speaks for us only if we, or root, wrote it: anybody can put
 * a cell.yaml into /tmp. */
static int refuse_stranger(struct finder *f, const char *directory, const char *name)
{
	char path[PATH_MAX];
	struct stat st;
	const char *sudo = getenv("SUDO_UID");
	char uid[24];

	int n = snprintf(path, sizeof path, "%s/%s", strcmp(directory, "/") ? directory : "", name);
	if (n < 0 || (size_t)n >= sizeof path || stat(path, &st) < 0)
		return 0;
	if (st.st_uid == 0 || st.st_uid == geteuid())
		return 0;
	(void)snprintf(uid, sizeof uid, "%u", (unsigned)st.st_uid);
	if (geteuid() == 0 && sudo && !strcmp(sudo, uid))
		return 0;
	return cell_error_hint(f->err,
		cell_fail(f->err, CELL_EDENIED, 0,
			"read the configuration '%s': it belongs to another user (uid %s)", path,
			uid),
		"give it by path if you trust it");
}

static int read_workspace(struct finder *f, const char *start)
{
	static const char *const names[] = {"cell.yaml", "cognition.yaml"};
	auto_free char *at = realpath(start, NULL);
	struct stat first, st;

	if (!at || stat(at, &first) < 0)
		return cell_error_hint(f->err,
			cell_fail_errno(f->err, errno, "look for cell.yaml in '%s'", start),
			"go to a directory that exists: this one was removed, or cannot be "
			"entered");
	auto_free char *home = getenv("HOME") ? realpath(getenv("HOME"), NULL) : NULL;
	for (bool is_first = true;; is_first = false) {
		if (stat(at, &st) < 0 || st.st_dev != first.st_dev)
			return 0;
		for (size_t i = 0; i < 2; i++) {
			int r = is_first ? 0 : refuse_stranger(f, at, names[i]);
			if (r == 0)
				r = read_in(f, at, names[i]);
			if (r != 0)
				return r < 0 ? r : 0;
		}
		char *slash = strrchr(at, '/');
		if (!at[1] || (home && !strcmp(at, home)))
			return 0;
		slash[slash == at] = '\0';
	}
}

int config_read_layers(struct cell_config *cfg, const struct cell_config_args *args,
	struct cell_error *err)
{
	struct finder f = {.cfg = cfg, .err = err};
	int r = 0;

	if (!args->no_files) {
		r = read_system(&f);
		if (r >= 0)
			r = read_user(&f);
		if (r >= 0)
			r = read_workspace(&f, args->directory ? args->directory : ".");
	}
	if (r >= 0 && args->path) {
		f.n_seen =
			0; /* given by path, it stands over the others even if it is one of them */
		r = read_file(&f, args->path, true);
	}
	return r < 0 ? r : 0;
}
