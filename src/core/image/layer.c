/* SPDX-License-Identifier: Apache-2.0 */
/* layer.c: see layer.h. Directories are opened one component at a time, none of them a link. */
#include "core/image/layer.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"

#define REFUSED	       1 /* the layer is bad; why is in the struct */
#define NS_PER_S       INT64_C(1000000000)
#define MAX_DEPTH      256
#define MAX_META_BYTES (128u * 1024 * 1024)
#define MAX_ID	       65535u
#define NOBODY	       65534u
#define WHITEOUT       ".wh."
#define OPAQUE	       ".wh..wh..opq"
#define WHITEOUT_META  ".wh..wh." /* what aufs keeps for itself */
#define DIR_FLAGS      (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* What a directory gets when all is in it. */
struct dir_meta {
	struct dir_meta *next;
	uint32_t mode, uid, gid;
	int64_t mtime_ns;
	char path[];
};

struct unpack {
	int root_fd; /* borrowed */
	int dir_fd;  /* of dir */
	char dir[PATH_MAX];
	bool is_owner_given; /* until the kernel refuses to */
	bool is_trusted;     /* overlay's trusted attributes can be set */
	struct dir_meta *metas, **last_meta;
	size_t meta_bytes;
	const struct layer_limits *limits;
	struct layer_result *res;
	const char *why;
};

static int refuse(struct unpack *u, const char *why)
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
	times[0] = (struct timespec){.tv_sec = (time_t)s, .tv_nsec = (long)rest};
	times[1] = times[0];
}

/* Ids a cell has; the kernel would take others, but no cell's range maps them. */
static uint32_t to_id(uint64_t id)
{
	return id <= MAX_ID ? (uint32_t)id : NOBODY;
}

static int clean_name(struct unpack *u, const char *name, char out[PATH_MAX])
{
	size_t n = 0, depth = 0;

	while (*name) {
		size_t len = strcspn(name, "/");
		if (len == 2 && memcmp(name, "..", 2) == 0)
			return refuse(u, "has '..' in its name");
		if (len > NAME_MAX || n + len + 2 > PATH_MAX)
			return refuse(u, "has too long a name");
		if (len > 0 && !(len == 1 && name[0] == '.')) {
			if (++depth > MAX_DEPTH)
				return refuse(u, "lies too deep");
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

/* Split into the directory (may be "") and the last name, in place. */
static const char *split(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash)
		return path;
	*slash = '\0';
	return slash + 1;
}

static bool is_whiteout(const struct stat *st)
{
	return S_ISCHR(st->st_mode) && st->st_rdev == makedev(0, 0);
}

static int set_opaque(struct unpack *u, int dir_fd, const char *name)
{
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	if (u->is_trusted && fsetxattr(fd, LAYER_OPAQUE_TRUSTED, "y", 1, 0) < 0)
		return -errno;
	if (fsetxattr(fd, LAYER_OPAQUE_USER, "y", 1, 0) < 0)
		return u->is_trusted && errno == EOPNOTSUPP ? 0 : -errno;
	return 0;
}

/* One directory below fd, made if missing; a whiteout there gives way and the new one is opaque. */
static int enter(struct unpack *u, int fd, const char *name)
{
	struct stat st;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_whiteout(&st)) {
		if (unlinkat(fd, name, 0) < 0 || mkdirat(fd, name, 0700) < 0)
			return -errno;
		int r = set_opaque(u, fd, name);
		if (r < 0)
			return r;
	} else if (mkdirat(fd, name, 0755) < 0 && errno != EEXIST) {
		return -errno;
	}
	int next = openat(fd, name, DIR_FLAGS);
	if (next < 0 && (errno == ENOTDIR || errno == ELOOP))
		return -ENOTDIR;
	return next < 0 ? -errno : next;
}

/* Walk to a directory by plain names. -ENOTDIR when something on the way is a link or a file. */
static int walk(struct unpack *u, const char *path, bool is_made)
{
	auto_fd int fd = openat(u->root_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && *path) {
		char name[NAME_MAX + 1];
		size_t len = strcspn(path, "/");
		memcpy(name, path, len);
		name[len] = '\0';
		int next = is_made ? enter(u, fd, name) : openat(fd, name, DIR_FLAGS);
		int r = next >= 0 ? 0 : is_made ? next : -errno;
		close(fd);
		fd = next;
		if (r < 0)
			return r;
		path += len + (path[len] == '/');
	}
	return fd < 0 ? -errno : steal_fd(fd);
}

static int go_to(struct unpack *u, const char *dir)
{
	if (u->dir_fd >= 0 && strcmp(u->dir, dir) == 0)
		return 0;
	int fd = walk(u, dir, true);
	if (fd == -ENOTDIR)
		return refuse(u, "goes through a link or a file");
	if (fd < 0)
		return fd;
	if (u->dir_fd >= 0)
		close(u->dir_fd);
	u->dir_fd = fd;
	memcpy(u->dir, dir, strlen(dir) + 1);
	return 0;
}

/* Whatever is no directory gives way. */
static int make_room(struct unpack *u, const char *name)
{
	struct stat st;

	if (fstatat(u->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (S_ISDIR(st.st_mode))
		return refuse(u, "is no directory where there is one already");
	return unlinkat(u->dir_fd, name, 0) < 0 ? -errno : 0;
}

/* Root of a user namespace may have only some ids to give: then all stays with us. */
static int give_owner(struct unpack *u, int fd, const char *name, uint32_t uid, uint32_t gid)
{
	if (!u->is_owner_given ||
		fchownat(fd, name, uid, gid, AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != EPERM && errno != EINVAL)
		return -errno;
	u->is_owner_given = false;
	return 0;
}

static int make_file(struct unpack *u, struct tar_reader *in, const struct tar_entry *e,
	const char *name)
{
	struct timespec times[2];
	char chunk[32768];

	if (e->size > u->limits->max_bytes - u->res->bytes)
		return -EFBIG;
	int r = make_room(u, name);
	if (r != 0)
		return r;
	auto_fd int fd =
		openat(u->dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n = tar_read_data(in, chunk, sizeof chunk);
		if (n == 0)
			break;
		r = n < 0 ? (int)n : fd_write_all(fd, chunk, (size_t)n);
		if (r < 0)
			return r;
		u->res->bytes += (uint64_t)n;
	}
	r = give_owner(u, fd, "", to_id(e->uid), to_id(e->gid));
	if (r < 0)
		return r;
	if (fchmod(fd, (e->mode & 01777) | (u->is_owner_given ? 0 : 0400)) < 0)
		return -errno;
	to_times(e->mtime_ns, times);
	(void)futimens(fd, times);
	return 0;
}

static int make_symlink(struct unpack *u, const struct tar_entry *e, const char *name)
{
	struct timespec times[2];

	if (!e->link[0] || strlen(e->link) >= PATH_MAX)
		return refuse(u, "is a link with no target or too long a one");
	int r = make_room(u, name);
	if (r != 0)
		return r;
	if (symlinkat(e->link, u->dir_fd, name) < 0)
		return -errno;
	to_times(e->mtime_ns, times);
	(void)utimensat(u->dir_fd, name, times, AT_SYMLINK_NOFOLLOW);
	return give_owner(u, u->dir_fd, name, to_id(e->uid), to_id(e->gid));
}

static int make_hardlink(struct unpack *u, const struct tar_entry *e, const char *name)
{
	char source[PATH_MAX];
	struct stat st, old;

	int r = clean_name(u, e->link, source);
	if (r != 0 || !source[0])
		return refuse(u, "is a hard link to a path outside");
	const char *last = split(source);
	auto_fd int source_dir = walk(u, last == source ? "" : source, false);
	if (source_dir < 0 || fstatat(source_dir, last, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return refuse(u, "is a hard link to something that is not in the layer");
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return refuse(u, "is a hard link to something that is no file");
	if (fstatat(u->dir_fd, name, &old, AT_SYMLINK_NOFOLLOW) == 0 && old.st_ino == st.st_ino)
		return 0;
	r = make_room(u, name);
	if (r != 0)
		return r;
	return linkat(source_dir, last, u->dir_fd, name, 0) < 0 ? -errno : 0;
}

static int remember_dir(struct unpack *u, const struct tar_entry *e, const char *path)
{
	size_t size = sizeof(struct dir_meta) + strlen(path) + 1;

	if (size > MAX_META_BYTES - u->meta_bytes)
		return refuse(u, "is one directory too many");
	struct dir_meta *m = malloc(size);
	if (!m)
		return -ENOMEM;
	u->meta_bytes += size;
	*m = (struct dir_meta){.mode = e->mode & 01777,
		.uid = to_id(e->uid),
		.gid = to_id(e->gid),
		.mtime_ns = e->mtime_ns};
	memcpy(m->path, path, strlen(path) + 1);
	*u->last_meta = m;
	u->last_meta = &m->next;
	return 0;
}

/* ".wh.NAME" hides NAME of lower layers. Where this layer has a directory of that name it is that
 * directory which hides. */
static int make_whiteout(struct unpack *u, const char *name)
{
	const char *hidden = name + strlen(WHITEOUT);
	struct stat st;

	if (strcmp(name, OPAQUE) == 0)
		return set_opaque(u, u->dir_fd, ".");
	if (strncmp(name, WHITEOUT_META, strlen(WHITEOUT_META)) == 0) {
		u->res->skipped++;
		return 0;
	}
	if (!*hidden || strcmp(hidden, ".") == 0 || strcmp(hidden, "..") == 0)
		return refuse(u, "is a whiteout of nothing that can be named");
	if (fstatat(u->dir_fd, hidden, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return S_ISDIR(st.st_mode) ? set_opaque(u, u->dir_fd, hidden) : 0;
	if (mknodat(u->dir_fd, hidden, S_IFCHR, makedev(0, 0)) < 0)
		return -errno;
	return 0;
}

static int take_entry(struct unpack *u, struct tar_reader *in, const struct tar_entry *e)
{
	char path[PATH_MAX];
	int r = clean_name(u, e->name, path);

	if (r != 0)
		return r;
	if (e->type == TAR_DIRECTORY) {
		r = go_to(u, path);
		return r != 0 ? r : remember_dir(u, e, path);
	}
	if (!path[0])
		return refuse(u, "has no name");
	const char *last = split(path);
	r = go_to(u, last == path ? "" : path);
	if (r != 0)
		return r;
	if (strncmp(last, WHITEOUT, strlen(WHITEOUT)) == 0)
		return make_whiteout(u, last);
	switch (e->type) {
	case TAR_FILE:
		return make_file(u, in, e, last);
	case TAR_SYMLINK:
		return make_symlink(u, e, last);
	case TAR_HARDLINK:
		return make_hardlink(u, e, last);
	default:
		u->res->skipped++;
		return 0;
	}
}

/* In the order they came: the last word on a directory counts. */
static int finish_dirs(struct unpack *u)
{
	for (struct dir_meta *m = u->metas; m; m = m->next) {
		struct timespec times[2];
		auto_fd int path_fd = walk(u, m->path, false);
		if (path_fd == -ENOENT || path_fd == -ENOTDIR)
			continue;
		auto_fd int fd = path_fd < 0 ? -1 : openat(path_fd, ".", O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return path_fd < 0 ? path_fd : -errno;
		int r = give_owner(u, fd, "", m->uid, m->gid);
		if (r < 0)
			return r;
		to_times(m->mtime_ns, times);
		(void)futimens(fd, times);
		/* Without root the owner must get through, and be able to rename the top. */
		uint32_t more = u->is_owner_given ? 0 : m->path[0] ? 0500 : 0700;
		if (fchmod(fd, m->mode | more) < 0)
			return -errno;
	}
	return 0;
}

static void unpack_done(struct unpack *u)
{
	while (u->metas) {
		struct dir_meta *next = u->metas->next;
		free(u->metas);
		u->metas = next;
	}
	if (u->dir_fd >= 0)
		close(u->dir_fd);
}

static int fail_entry(struct unpack *u, const struct tar_entry *e, int r, struct cell_error *err)
{
	if (r == REFUSED)
		return cell_fail(err, CELL_EDENIED, 0, "unpack a layer: '%.200s' %s", e->name,
			u->why);
	if (r == -EFBIG)
		return cell_fail(err, CELL_ELIMIT, 0,
			"unpack a layer: it has more than %llu bytes with '%.200s'",
			(unsigned long long)u->limits->max_bytes, e->name);
	r = cell_fail_errno(err, -r, "unpack a layer: '%.200s'", e->name);
	if (r == -EOPNOTSUPP)
		return cell_error_hint(err, r,
			"the image store must be on a file system with extended attributes: set "
			"CELL_IMAGE_DIR");
	return r;
}

static int run(struct unpack *u, struct tar_reader *in, struct cell_error *err)
{
	struct tar_entry e;
	int r;

	while ((r = tar_read_entry(in, &e)) > 0) {
		if (u->res->entries++ >= u->limits->max_entries)
			return cell_fail(err, CELL_ELIMIT, 0,
				"unpack a layer: it has more than %llu entries",
				(unsigned long long)u->limits->max_entries);
		r = take_entry(u, in, &e);
		if (r < 0 && in->why)
			break;
		if (r != 0)
			return fail_entry(u, &e, r, err);
	}
	if (r < 0 && in->why)
		return cell_fail(err, CELL_EINVAL, 0, "unpack a layer: %s", in->why);
	if (r < 0)
		return r;
	r = finish_dirs(u);
	return r < 0 ? cell_fail_errno(err, -r, "unpack a layer: finish its directories") : 0;
}

bool layer_has_trusted(int dir_fd)
{
	auto_fd int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && fsetxattr(fd, "trusted.cell.probe", "y", 1, 0) == 0 &&
	       fremovexattr(fd, "trusted.cell.probe") == 0;
}

bool layer_is_opaque(int dir_fd)
{
	auto_fd int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char v;

	return fd >= 0 && (fgetxattr(fd, LAYER_OPAQUE_USER, &v, 1) == 1 ||
				  fgetxattr(fd, LAYER_OPAQUE_TRUSTED, &v, 1) == 1);
}

int layer_unpack(struct tar_reader *in, int dir_fd, const struct layer_limits *limits,
	struct layer_result *ret, struct cell_error *err)
{
	auto_free struct unpack *u = calloc(1, sizeof *u);

	*ret = (struct layer_result){0};
	if (!u)
		return cell_fail_errno(err, ENOMEM, "unpack a layer");
	u->root_fd = dir_fd;
	u->dir_fd = -1;
	u->last_meta = &u->metas;
	u->is_owner_given = geteuid() == 0;
	u->is_trusted = layer_has_trusted(dir_fd);
	u->limits = limits;
	u->res = ret;
	int r = run(u, in, err);
	unpack_done(u);
	return r;
}
