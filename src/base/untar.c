/* SPDX-License-Identifier: Apache-2.0 */
/* untar.c: a stack of open directories follows the entries' names; no component is ever a link. */
#include "base/untar.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "base/newfile.h"

#define REFUSED	 1 /* the entry is passed over; why is in the struct */
#define NS_PER_S INT64_C(1000000000)
#define PATH_CAP 4096

struct level {
	int fd; /* O_PATH; that of level 0 is borrowed */
	size_t path_len;
	bool has_meta; /* mode and time to set when all in it is done */
	mode_t mode;
	int64_t mtime_ns;
	uid_t uid;
	gid_t gid;
};

struct untar {
	struct level levels[UNTAR_MAX_DEPTH + 1];
	size_t n;	     /* levels[n - 1] is where we are */
	char path[PATH_CAP]; /* of levels[n - 1] */
	const char *why;     /* of REFUSED */
	bool is_root_tree;
	bool has_owners; /* they are restored */
};

static int refuse(struct untar *u, const char *why)
{
	u->why = why;
	return REFUSED;
}

static void to_times(int64_t ns, struct timespec times[2])
{
	int64_t s = ns / NS_PER_S, rest = ns % NS_PER_S;

	if (rest < 0) {
		rest += NS_PER_S;
		s--;
	}
	times[0].tv_sec = 0;
	times[0].tv_nsec = UTIME_OMIT;
	times[1].tv_sec = (time_t)s;
	times[1].tv_nsec = (long)rest;
}

/* A directory that was there before may not be ours to change: that is no error. */
static void pop(struct untar *u)
{
	struct level *l = &u->levels[--u->n];

	if (l->has_meta) {
		struct timespec times[2];
		auto_fd int fd = openat(l->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		to_times(l->mtime_ns, times);
		if (fd >= 0) {
			if (u->has_owners)
				(void)!fchown(fd, l->uid, l->gid);
			(void)futimens(fd, times);
			(void)fchmod(fd, l->mode & 01777);
		}
	}
	if (u->n > 0) {
		close(l->fd);
		u->path[u->levels[u->n - 1].path_len] = '\0';
	}
}

static void pop_all(struct untar *u)
{
	while (u->n > 0)
		pop(u);
}

/* Go down into one directory, made if missing. */
static int push(struct untar *u, const char *name, size_t len, mode_t mode)
{
	struct level *here = &u->levels[u->n - 1];
	size_t begin = here->path_len + (here->path_len > 0);
	char *p = u->path + begin;

	if (u->n > UNTAR_MAX_DEPTH)
		return refuse(u, "lies too deep");
	if (begin + len + 1 > sizeof u->path)
		return refuse(u, "has too long a name");
	if (begin)
		p[-1] = '/';
	memcpy(p, name, len);
	p[len] = '\0';
	int fd = -1, r = 0;
	if (mkdirat(here->fd, p, mode) < 0 && errno != EEXIST)
		r = -errno;
	if (r == 0) {
		fd = openat(here->fd, p, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0)
			r = errno == ENOTDIR || errno == ELOOP
				    ? refuse(u, "goes through a link or a file")
				    : -errno;
	}
	if (r != 0) {
		u->path[here->path_len] = '\0';
		return r;
	}
	u->levels[u->n++] = (struct level){.fd = fd, .path_len = begin + len};
	return 0;
}

/* Make dir (dir_len bytes of a clean name; 0: the root) the current directory. */
static int go_to(struct untar *u, const char *dir, size_t dir_len, mode_t mode)
{
	for (;;) {
		size_t have = u->levels[u->n - 1].path_len;
		if (have == 0 || (have <= dir_len && memcmp(u->path, dir, have) == 0 &&
					 (have == dir_len || dir[have] == '/')))
			break;
		pop(u);
	}
	size_t at = u->levels[u->n - 1].path_len;
	while (at < dir_len) {
		const char *name = dir + at + (at > 0);
		const char *slash = memchr(name, '/', dir_len - (size_t)(name - dir));
		size_t len = slash ? (size_t)(slash - name) : dir_len - (size_t)(name - dir);
		bool is_last = (size_t)(name - dir) + len == dir_len;
		int r = push(u, name, len, is_last ? mode : 0755);
		if (r != 0)
			return r;
		at = (size_t)(name - dir) + len;
	}
	return 0;
}

/* Drop '.' and doubled slashes; refuse what leads elsewhere. */
static int clean_name(struct untar *u, const char *name, char out[PATH_CAP])
{
	size_t n = 0;

	if (name[0] == '/')
		return refuse(u, "has an absolute name");
	while (*name) {
		size_t len = strcspn(name, "/");
		if (len == 2 && name[0] == '.' && name[1] == '.')
			return refuse(u, "has '..' in its name");
		if (len > NAME_MAX || n + len + 2 > PATH_CAP)
			return refuse(u, "has too long a name");
		if (len > 0 && !(len == 1 && name[0] == '.')) {
			if (n > 0)
				out[n++] = '/';
			memcpy(out + n, name, len);
			n += len;
		}
		name += len;
		name += strspn(name, "/");
	}
	out[n] = '\0';
	return 0;
}

/* Where a link lies is made of true directories only, so leading '..' mean what they say; behind a
 * name they would not, since that name may be a link itself. */
static int check_target(struct untar *u, const char *name, const char *target)
{
	size_t depth = 0;
	bool has_name = false;

	if (!target[0] || strlen(target) >= PATH_CAP)
		return refuse(u, "is a link with no target or too long a one");
	if (u->is_root_tree)
		return 0;
	if (target[0] == '/')
		return refuse(u, "is a link to an absolute path");
	for (; *name; name++)
		depth += *name == '/';
	while (*target) {
		size_t len = strcspn(target, "/");
		if (len == 2 && target[0] == '.' && target[1] == '.') {
			if (has_name || depth == 0)
				return refuse(u, "is a link that may lead out of the directory");
			depth--;
		} else if (len > 0 && !(len == 1 && target[0] == '.')) {
			has_name = true;
		}
		target += len;
		target += strspn(target, "/");
	}
	return 0;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static size_t dir_len_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

static int make_file(struct untar *u, struct tar_reader *in, const struct tar_entry *e,
	const char *name, uint64_t *bytes)
{
	auto_(newfile_done) struct newfile f = NEWFILE_INIT;
	int dir = u->levels[u->n - 1].fd;
	struct timespec times[2];
	struct stat st;
	char chunk[32768];

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode))
		return refuse(u, "is a file where a directory is");
	int r = newfile_open(&f, dir);
	if (r < 0)
		return r;
	for (;;) {
		ssize_t n = tar_read_data(in, chunk, sizeof chunk);
		if (n == 0)
			break;
		r = n < 0 ? (int)n : fd_write_holes(f.fd, chunk, (size_t)n);
		if (r < 0)
			return r;
		*bytes += (uint64_t)n;
	}
	r = fd_end_holes(f.fd);
	if (r < 0)
		return r;
	if (u->has_owners && fchown(f.fd, (uid_t)e->uid, (gid_t)e->gid) < 0)
		return -errno;
	to_times(e->mtime_ns, times);
	(void)futimens(f.fd, times);
	if (fchmod(f.fd, e->mode & 0777) < 0)
		return -errno;
	r = newfile_commit(&f, name, false);
	return r == -EEXIST ? newfile_commit(&f, name, true) : r;
}

/* Something that is no directory makes room for a link. */
static int make_room(struct untar *u, int dir, const char *name)
{
	struct stat st;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return refuse(u, "is a link where a directory is");
	return unlinkat(dir, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

static int make_symlink(struct untar *u, const struct tar_entry *e, const char *name)
{
	int dir = u->levels[u->n - 1].fd;
	struct timespec times[2];

	int r = make_room(u, dir, name);
	if (r != 0)
		return r;
	if (symlinkat(e->link, dir, name) < 0)
		return -errno;
	if (u->has_owners &&
		fchownat(dir, name, (uid_t)e->uid, (gid_t)e->gid, AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	to_times(e->mtime_ns, times);
	(void)utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW);
	return 0;
}

static int open_source_dir(const struct untar *u, const char *path)
{
	size_t dir_len = dir_len_of(path);
	auto_fd int fd = openat(u->levels[0].fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (size_t at = 0; fd >= 0 && at < dir_len;) {
		char name[NAME_MAX + 1];
		size_t len = strcspn(path + at, "/");

		memcpy(name, path + at, len);
		name[len] = '\0';
		int next = openat(fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		int saved = errno;
		close(fd);
		fd = next;
		errno = saved;
		at += len + 1;
	}
	return fd < 0 ? -errno : steal_fd(fd);
}

static int make_hardlink(struct untar *u, const struct tar_entry *e, const char *name)
{
	char source[PATH_CAP];
	struct stat st, old;
	int dir = u->levels[u->n - 1].fd;

	int r = clean_name(u, e->link, source);
	if (r != 0)
		return refuse(u, "is a hard link to a path outside");
	auto_fd int source_dir = open_source_dir(u, source);
	if (source_dir < 0 || fstatat(source_dir, last_name(source), &st, AT_SYMLINK_NOFOLLOW) < 0)
		return refuse(u, "is a hard link to something that is not there");
	if (!S_ISREG(st.st_mode))
		return refuse(u, "is a hard link to something that is no regular file");
	if (fstatat(dir, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_ino == st.st_ino &&
		old.st_dev == st.st_dev)
		return 0;
	r = make_room(u, dir, name);
	if (r != 0)
		return r;
	return linkat(source_dir, last_name(source), dir, name, 0) < 0 ? -errno : 0;
}

static int make_directory(struct untar *u, const struct tar_entry *e, const char *name)
{
	int r = go_to(u, name, strlen(name), 0700);

	if (r == 0 && u->n > 1) {
		struct level *l = &u->levels[u->n - 1];
		l->has_meta = true;
		l->mode = e->mode;
		l->mtime_ns = e->mtime_ns;
		l->uid = (uid_t)e->uid;
		l->gid = (gid_t)e->gid;
	}
	return r;
}

static bool is_special(char type)
{
	return type == TAR_CHAR || type == TAR_BLOCKDEV || type == TAR_FIFO;
}

static int take_entry(struct untar *u, struct tar_reader *in, const struct tar_entry *e,
	uint64_t *bytes)
{
	char name[PATH_CAP];
	int r = clean_name(u, e->name, name);

	if (r != 0)
		return r;
	if (u->has_owners && (e->uid >= UINT32_MAX || e->gid >= UINT32_MAX))
		return refuse(u, "has an owner that cannot be");
	if (u->is_root_tree && is_special(e->type))
		return 0;
	if (e->type == TAR_DIRECTORY)
		return make_directory(u, e, name);
	if (!name[0])
		return refuse(u, "has no name");
	if (e->type != TAR_FILE && e->type != TAR_SYMLINK && e->type != TAR_HARDLINK)
		return refuse(u, "is a device or of another type that is not taken out");
	if (e->type == TAR_SYMLINK && (r = check_target(u, name, e->link)) != 0)
		return r;
	r = go_to(u, name, dir_len_of(name), 0755);
	if (r != 0)
		return r;
	const char *last = last_name(name);
	if (e->type == TAR_SYMLINK)
		return make_symlink(u, e, last);
	if (e->type == TAR_HARDLINK)
		return make_hardlink(u, e, last);
	return make_file(u, in, e, last, bytes);
}

static int run(struct untar *u, struct tar_reader *in, uint64_t max_entries,
	struct untar_result *res, char first[400], struct cell_error *err)
{
	struct tar_entry e = {0};
	int r;

	while ((r = tar_read_entry(in, &e)) > 0) {
		if (res->entries + res->refused == max_entries)
			return cell_fail(err, CELL_ELIMIT, 0,
				"the archive has more than %llu entries",
				(unsigned long long)max_entries);
		r = take_entry(u, in, &e, &res->bytes);
		if (r < 0 && in->why)
			break;
		if (r < 0)
			return cell_fail_errno(err, -r, "take '%.256s' out of the archive", e.name);
		if (r == REFUSED && res->refused++ == 0)
			(void)snprintf(first, 400, "'%.256s' %s", e.name, u->why);
		res->entries += r == 0;
	}
	if (r < 0 && in->why)
		return cell_fail(err, CELL_EINVAL, 0, "read the archive: %s", in->why);
	if (r < 0)
		return cell_fail_errno(err, -r, "read the archive");
	return 0;
}

int untar(struct tar_reader *in, int dir_fd, enum untar_kind kind, uint64_t max_entries,
	struct untar_result *ret, struct cell_error *err)
{
	struct untar_result res = {0};
	char first[400] = "";
	auto_free struct untar *u = calloc(1, sizeof *u);

	if (!u)
		return cell_fail_errno(err, ENOMEM, "unpack an archive");
	u->levels[0] = (struct level){.fd = dir_fd};
	u->n = 1;
	u->is_root_tree = kind == UNTAR_ROOT_TREE;
	u->has_owners = u->is_root_tree && geteuid() == 0;
	int r = run(u, in, max_entries ? max_entries : UNTAR_MAX_ENTRIES, &res, first, err);
	pop_all(u);
	if (ret)
		*ret = res;
	if (r < 0 || res.refused == 0)
		return r;
	r = cell_fail(err, CELL_EDENIED, 0, "unpack the archive: %llu of %llu entries refused: %s",
		(unsigned long long)res.refused, (unsigned long long)(res.entries + res.refused),
		first);
	return cell_error_hint(err, r,
		"everything else was taken out; remove or change that entry in the source");
}
