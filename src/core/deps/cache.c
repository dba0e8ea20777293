/* SPDX-License-Identifier: Apache-2.0 */
/* cache.c: see cache.h. */
#include "core/deps/cache.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fdcopy.h"
#include "base/newfile.h"
#include "core/deps/wheel.h"
#include "core/remove_tree.h"

#define CHUNK	     (256u * 1024)
#define MANIFEST_MAX (64u << 20)

static int open_dir(int at, const char *name, struct cell_error *err)
{
	if (mkdirat(at, name, 0700) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "make the directory '%s' for packages", name);
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? cell_fail_errno(err, errno, "open the directory '%s' for packages", name)
		      : fd;
}

/* What has no holder any more. Whoever makes a directory there shares the lock until it holds it. */
static void sweep(const struct deps_cache *c)
{
	int copy = openat(c->staging_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);

	if (!d || flock(c->lock_fd, LOCK_EX | LOCK_NB) < 0)
		return;
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		auto_fd int fd = openat(c->staging_fd, e->d_name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
			(void)cell_remove_tree(c->staging_fd, e->d_name, NULL);
	}
	(void)flock(c->lock_fd, LOCK_UN);
}

int deps_cache_open(struct deps_cache *c, int state_fd, uint64_t max_bytes, struct cell_error *err)
{
	*c = (struct deps_cache)DEPS_CACHE_INIT;
	c->max_bytes = max_bytes ? max_bytes : DEPS_CACHE_BYTES;
	int r = c->fd = open_dir(state_fd, "deps", err);
	if (r >= 0)
		r = c->trees_fd = open_dir(c->fd, "trees", err);
	if (r >= 0)
		r = c->staging_fd = open_dir(c->fd, "staging", err);
	if (r >= 0)
		r = c->known_fd = open_dir(c->fd, "known", err);
	if (r < 0)
		return r;
	c->lock_fd = openat(c->fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (c->lock_fd < 0)
		return cell_fail_errno(err, errno, "open the lock of the packages");
	sweep(c);
	return 0;
}

void deps_cache_done(struct deps_cache *c)
{
	cell_closep(&c->fd);
	cell_closep(&c->trees_fd);
	cell_closep(&c->staging_fd);
	cell_closep(&c->known_fd);
	cell_closep(&c->lock_fd);
	*c = (struct deps_cache)DEPS_CACHE_INIT;
}

void deps_tree_done(struct deps_tree *t)
{
	cell_closep(&t->fd);
	json_decref(t->manifest);
	*t = (struct deps_tree)DEPS_TREE_INIT;
}

uint64_t deps_manifest_bytes(const json_t *manifest)
{
	uint64_t total = 0;
	json_t *f;
	size_t i;

	json_array_foreach (json_object_get(manifest, "files"), i, f)
		total += (uint64_t)json_integer_value(json_array_get(f, 1)) +
			 512; /* a file is never nothing */
	return total;
}

/* Not json_loadfd(): that reads byte by byte. */
json_t *deps_load_json(int dir_fd, const char *path)
{
	auto_fd int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > MANIFEST_MAX)
		return NULL;
	size_t n = 0, size = (size_t)st.st_size;
	auto_free char *text = malloc(size + 1);
	while (text && n < size) {
		ssize_t k = read(fd, text + n, size - n);
		if (k <= 0)
			return NULL;
		n += (size_t)k;
	}
	return text ? json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL) : NULL;
}

bool deps_cache_find(const struct deps_cache *c, const char *hash, struct deps_tree *ret)
{
	if (!digest_is_hex(hash))
		return false;
	*ret = (struct deps_tree)DEPS_TREE_INIT;
	ret->fd = openat(c->trees_fd, hash, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (ret->fd < 0)
		return false;
	/* whoever has just made it, or removes it, lets go in a moment; then it is this one, or gone */
	int r = 0;
	while ((r = flock(ret->fd, LOCK_SH)) < 0 && errno == EINTR)
		;
	struct stat mine, now;
	if (r < 0 || fstat(ret->fd, &mine) < 0 ||
		fstatat(c->trees_fd, hash, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
		mine.st_ino != now.st_ino) {
		deps_tree_done(ret);
		return false;
	}
	(void)futimens(ret->fd, NULL); /* used last now */
	ret->manifest = deps_load_json(ret->fd, "manifest.json");
	if (json_integer_value(json_object_get(ret->manifest, "format")) != WHEEL_FORMAT) {
		deps_tree_done(ret);
		return false;
	}
	memcpy(ret->hash, hash, DIGEST_HEX + 1);
	return true;
}

/* ---- an archive on its way in ---- */

int deps_intake_begin(struct deps_intake *in, const struct deps_cache *c, struct cell_error *err)
{
	in->cache = c;
	in->size = 0;
	digest_init(&in->digest);
	in->fd = openat(c->staging_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (in->fd < 0) /* a file system that has none */
		in->fd = memfd_create("cell-package", MFD_CLOEXEC);
	return in->fd < 0 ? cell_fail_errno(err, errno, "make a place for a package") : 0;
}

int deps_intake_add(struct deps_intake *in, const void *p, size_t n, struct cell_error *err)
{
	in->size += n;
	if (in->size > DEPS_ARCHIVE_MAX)
		return cell_fail(err, CELL_ELIMIT, 0, "the package has more than 2 GiB");
	digest_add(&in->digest, p, n);
	int r = fd_write_all(in->fd, p, n);
	return r < 0 ? cell_fail_errno(err, -r, "keep a package") : 0;
}

void deps_intake_done(struct deps_intake *in)
{
	cell_closep(&in->fd);
	in->fd = -1;
}

/* A directory of our own, held. */
static int make_staging(const struct deps_cache *c, char ret_name[24], struct cell_error *err)
{
	uint64_t id = 0;

	if (getrandom(&id, sizeof id, 0) != sizeof id)
		return cell_fail_errno(err, errno, "choose a name");
	(void)snprintf(ret_name, 24, "%016" PRIx64, id);
	while (flock(c->lock_fd, LOCK_SH) < 0)
		if (errno != EINTR)
			return cell_fail_errno(err, errno, "lock the packages");
	int fd = -1, e = 0;
	if (mkdirat(c->staging_fd, ret_name, 0755) == 0)
		fd = openat(c->staging_fd, ret_name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
		e = errno;
	(void)flock(c->lock_fd, LOCK_UN);
	if (!e)
		return fd;
	if (fd >= 0)
		close(fd);
	return cell_fail_errno(err, e, "make a place for a package");
}

static int write_manifest(int dir_fd, json_t *manifest, struct cell_error *err)
{
	auto_fd int fd =
		openat(dir_fd, "manifest.json", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

	auto_free char *text = json_dumps(manifest, JSON_COMPACT);
	if (fd < 0 || !text)
		return cell_fail_errno(err, text ? errno : ENOMEM, "write the package's manifest");
	int r = fd_write_all(fd, text, strlen(text));
	return r < 0 ? cell_fail_errno(err, -r, "write the package's manifest") : 0;
}

/* ---- keeping it small ---- */

struct kept {
	char name[DIGEST_HEX + 1];
	uint64_t bytes;
	struct timespec used;
};

static uint64_t size_of(int trees_fd, const char *name)
{
	char path[DIGEST_HEX + 8], text[32] = "";

	(void)snprintf(path, sizeof path, "%s/size", name);
	auto_fd int fd = openat(trees_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd >= 0 && read(fd, text, sizeof text - 1) > 0 ? strtoull(text, NULL, 10) : 0;
}

static int by_use(const void *a, const void *b)
{
	const struct timespec *x = &((const struct kept *)a)->used,
			      *y = &((const struct kept *)b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Environments keep what they have: their links, or copies, are their own. */
static void evict(const struct deps_cache *c, const char *name)
{
	auto_fd int fd = openat(c->trees_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
		renameat(c->trees_fd, name, c->staging_fd, name) == 0)
		(void)cell_remove_tree(c->staging_fd, name, NULL);
}

static void shrink(const struct deps_cache *c, const char *keep)
{
	int copy = openat(c->trees_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);
	auto_free struct kept *list = NULL;
	size_t n = 0, max = 0;
	uint64_t total = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		struct stat st;
		if (!digest_is_hex(e->d_name) ||
			fstatat(c->trees_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (n == max) {
			max = max ? max * 2 : 64;
			struct kept *more = reallocarray(list, max, sizeof *list);
			if (!more)
				return;
			list = more;
		}
		struct kept *k = &list[n++];
		(void)snprintf(k->name, sizeof k->name, "%s", e->d_name);
		k->bytes = size_of(c->trees_fd, k->name);
		k->used = st.st_mtim;
		total += k->bytes;
	}
	if (total <= c->max_bytes || !n)
		return;
	qsort(list, n, sizeof *list, by_use);
	for (size_t i = 0; i < n && total > c->max_bytes; i++)
		if (strcmp(list[i].name, keep) != 0) {
			evict(c, list[i].name);
			total -= list[i].bytes;
		}
}

static int write_size(int dir_fd, const json_t *manifest, struct cell_error *err)
{
	auto_fd int fd = openat(dir_fd, "size", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);
	char text[32];
	int n = snprintf(text, sizeof text, "%" PRIu64 "\n", deps_manifest_bytes(manifest));
	int r = fd < 0 ? -errno : fd_write_all(fd, text, (size_t)n);

	return r < 0 ? cell_fail_errno(err, -r, "write the package's size") : 0;
}

static int make_tree(struct deps_intake *in, const char *filename, const char *hash,
	deps_unpack_fn unpack, struct cell_error *err)
{
	const struct deps_cache *c = in->cache;
	json_t *manifest = NULL;
	char name[24];
	auto_fd int dir = make_staging(c, name, err);

	if (dir < 0)
		return dir;
	int r = fchmod(dir, 0755) < 0 ? cell_fail_errno(err, errno, "make a place for a package")
				      : 0;
	if (r == 0)
		r = unpack(in->fd, filename, dir, &manifest, err);
	if (r == 0)
		r = write_manifest(dir, manifest, err);
	if (r == 0)
		r = write_size(dir, manifest, err);
	json_decref(manifest);
	/* a tree that has its name is whole, also after a power cut */
	if (r == 0 && syncfs(dir) < 0)
		r = cell_fail_errno(err, errno, "write the package '%.160s'", filename);
	if (r == 0 && renameat2(c->staging_fd, name, c->trees_fd, hash, RENAME_NOREPLACE) == 0)
		return 0;
	if (r == 0 && errno == EEXIST) {
		struct deps_tree other;
		if (deps_cache_find(c, hash, &other)) { /* somebody else was faster */
			deps_tree_done(&other);
		} else {
			(void)cell_remove_tree(c->trees_fd, hash, NULL); /* of another format */
			if (renameat2(c->staging_fd, name, c->trees_fd, hash, RENAME_NOREPLACE) ==
				0)
				return 0;
			r = cell_fail_errno(err, errno, "keep the package '%.160s'", filename);
		}
	} else if (r == 0) {
		r = cell_fail_errno(err, errno, "keep the package '%.160s'", filename);
	}
	(void)cell_remove_tree(c->staging_fd, name, NULL);
	return r;
}

int deps_intake_take(struct deps_intake *in, const char *filename, const char *hash,
	deps_unpack_fn unpack, struct deps_tree *ret, struct cell_error *err)
{
	char is[DIGEST_HEX + 1];

	digest_hex(&in->digest, is);
	if (hash && strcmp(hash, is) != 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_EDENIED, 0,
				"'%.160s' is not what was asked for: its SHA-256 is %s and should "
				"be %.64s",
				filename, is, hash),
			"somebody changed the file, or the hash is of another one; nothing was "
			"installed");
	if (deps_cache_find(in->cache, is, ret))
		return 0;
	int r = make_tree(in, filename, is, unpack, err);
	if (r < 0)
		return r;
	bool is_there = deps_cache_find(in->cache, is, ret);
	shrink(in->cache, is);
	return is_there ? 0
			: cell_fail(err, CELL_EINTERNAL, 0,
				  "the package '%.160s' cannot be found again", filename);
}

/* ---- files of the host ---- */

static int hash_fd(int fd, char ret[DIGEST_HEX + 1], struct cell_error *err)
{
	auto_free char *piece = malloc(CHUNK);
	struct digest d;
	ssize_t n;

	if (!piece)
		return cell_fail_errno(err, ENOMEM, "read a package");
	digest_init(&d);
	for (off_t at = 0; (n = pread(fd, piece, CHUNK, at)) != 0; at += n) {
		if (n < 0)
			return cell_fail_errno(err, errno, "read a package");
		digest_add(&d, piece, (size_t)n);
	}
	digest_hex(&d, ret);
	return 0;
}

static bool load_known(const struct deps_cache *c, const char *key, char ret[DIGEST_HEX + 1])
{
	auto_fd int fd = openat(c->known_fd, key, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 || read(fd, ret, DIGEST_HEX) != DIGEST_HEX)
		return false;
	ret[DIGEST_HEX] = '\0';
	return digest_is_hex(ret);
}

int deps_cache_hash(const struct deps_cache *c, int fd, char ret[DIGEST_HEX + 1],
	struct cell_error *err)
{
	char text[200], key[DIGEST_HEX + 1];
	struct stat st;
	struct digest d;

	if (fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "look at a package");
	int n = snprintf(text, sizeof text, "%jx %jx %jx %jx.%lx %jx.%lx", (uintmax_t)st.st_dev,
		(uintmax_t)st.st_ino, (uintmax_t)st.st_size, (uintmax_t)st.st_mtim.tv_sec,
		st.st_mtim.tv_nsec, (uintmax_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	digest_init(&d);
	digest_add(&d, text, (size_t)n);
	digest_hex(&d, key);
	if (load_known(c, key, ret))
		return 0;
	int r = hash_fd(fd, ret, err);
	if (r < 0)
		return r;
	/* a file changed within the clock's grain has the same times: only an old one is remembered */
	struct timespec now;
	(void)clock_gettime(CLOCK_REALTIME, &now);
	if (now.tv_sec - st.st_ctim.tv_sec < 2)
		return 0;
	struct newfile f = NEWFILE_INIT;
	if (newfile_open(&f, c->known_fd) == 0 && fd_write_all(f.fd, ret, DIGEST_HEX) == 0)
		(void)newfile_commit(&f, key, true);
	newfile_done(&f);
	return 0;
}
