/* SPDX-License-Identifier: Apache-2.0 */
/* store.c: the state directory; see store.h. Everything below it is reached by file descriptors. */
#include "core/store.h"

#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "core/remove_tree.h"
#include "core/store_spare.h"

#define GONE_PREFIX ".gone-"

int cell_store_path(char **ret, struct cell_error *err)
{
	const char *dir = getenv("CELL_STATE_DIR");
	int n;

	if (dir && *dir) {
		if (dir[0] != '/') {
			int r = cell_fail(err, CELL_EINVAL, 0,
				"state directory '%s' (CELL_STATE_DIR) is not absolute", dir);
			return cell_error_hint(err, r, "give it from the root: /...");
		}
		n = asprintf(ret, "%s", dir);
	} else if (geteuid() == 0) {
		n = asprintf(ret, "/var/lib/cell");
	} else if ((dir = getenv("XDG_STATE_HOME")) && dir[0] == '/') {
		n = asprintf(ret, "%s/cell", dir);
	} else {
		dir = getenv("HOME");
		if (!dir || dir[0] != '/') {
			const struct passwd *pw = getpwuid(geteuid());
			dir = pw ? pw->pw_dir : NULL;
		}
		if (!dir || dir[0] != '/') {
			int r = cell_fail(err, CELL_ENOTFOUND, 0,
				"find a state directory: this user has no home");
			return cell_error_hint(err, r,
				"set CELL_STATE_DIR to a directory of yours");
		}
		n = asprintf(ret, "%s/.local/state/cell", dir);
	}
	if (n < 0) {
		*ret = NULL;
		return cell_fail_errno(err, ENOMEM, "name the state directory");
	}
	return 0;
}

static int make_parents(const char *path)
{
	char p[PATH_MAX];
	int n = snprintf(p, sizeof p, "%s", path);

	if (n < 0 || (size_t)n >= sizeof p)
		return -ENAMETOOLONG;
	for (char *slash = strchr(p + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(p, 0755) < 0 && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(p, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int fail_state(struct cell_error *err, int r, const char *what, const char *path)
{
	cell_fail_errno(err, -r, "%s the state directory '%s'", what, path);
	if (r == -ENOSPC || r == -EDQUOT)
		return cell_error_hint(err, r,
			"free some space there, or set CELL_STATE_DIR to a directory elsewhere");
	return cell_error_hint(err, r, "set CELL_STATE_DIR to a directory you can write to");
}

static int check_owner(int fd, const char *path, struct cell_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return fail_state(err, -errno, "look at", path);
	if (st.st_uid != geteuid()) {
		int r = cell_fail(err, CELL_EDENIED, 0,
			"state directory '%s' belongs to user %u, not to user %u", path,
			(unsigned)st.st_uid, (unsigned)geteuid());
		return cell_error_hint(err, r, "set CELL_STATE_DIR to a directory of your own");
	}
	if (st.st_mode & 022) {
		int r = cell_fail(err, CELL_EDENIED, 0,
			"state directory '%s' can be written to by others (mode %03o)", path,
			(unsigned)st.st_mode & 0777);
		return cell_error_hint(err, r, "chmod go-w '%s'", path);
	}
	return 0;
}

/* s->path is set. */
static int open_store(struct cell_store *s, bool is_made, struct cell_error *err)
{
	int r;

	s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->fd < 0 && errno == ENOENT && is_made) {
		r = make_parents(s->path);
		if (r < 0) {
			fail_state(err, r, "make", s->path);
			goto fail;
		}
		s->fd = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (s->fd < 0) {
		r = -errno;
		if (r != -ENOENT || is_made)
			fail_state(err, r, "open", s->path);
		goto fail;
	}
	r = check_owner(s->fd, s->path, err);
	if (r < 0)
		goto fail;
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	s->cells_fd = openat(s->fd, "cells", flags);
	if (s->cells_fd < 0 && errno == ENOENT && is_made) {
		if (mkdirat(s->fd, "cells", 0700) < 0 && errno != EEXIST) {
			r = fail_state(err, -errno, "make 'cells' in", s->path);
			goto fail;
		}
		s->cells_fd = openat(s->fd, "cells", flags);
	}
	if (s->cells_fd < 0) {
		r = -errno;
		if (r != -ENOENT || is_made)
			fail_state(err, r, "open 'cells' in", s->path);
		goto fail;
	}
	r = check_owner(s->cells_fd, s->path, err);
	if (r < 0)
		goto fail;
	s->lock_fd = openat(s->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->lock_fd < 0) {
		r = fail_state(err, -errno, "open 'lock' in", s->path);
		goto fail;
	}
	return 0;
fail:
	cell_store_done(s);
	return r;
}

int cell_store_open(struct cell_store *s, bool is_made, struct cell_error *err)
{
	*s = (struct cell_store)CELL_STORE_INIT;
	int r = cell_store_path(&s->owned_path, err);

	s->path = s->owned_path;
	return r < 0 ? r : open_store(s, is_made, err);
}

int cell_store_open_for(struct cell_store *s, int cell_fd, const char *path, struct cell_error *err)
{
	*s = (struct cell_store)CELL_STORE_INIT;
	s->path = path;
	s->cells_fd = openat(cell_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->cells_fd >= 0)
		s->fd = openat(s->cells_fd, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->fd >= 0)
		s->lock_fd = openat(s->fd, "lock", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (s->lock_fd >= 0)
		return 0;
	int r = -errno;
	if (r != -ENOENT)
		cell_fail_errno(err, -r, "open the state directory of '%s'", path);
	cell_store_done(s);
	return r;
}

static int read_id(int dir_fd, char ret[33])
{
	auto_fd int fd = openat(dir_fd, "id", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, 32);

	ret[n == 32 ? 32 : 0] = '\0';
	return n == 32 ? 0 : fd < 0 ? -errno : -EBADMSG;
}

int cell_store_id(const struct cell_store *s, char ret[33], struct cell_error *err)
{
	uint64_t id[2];
	int r = read_id(s->fd, ret);

	if (r == 0)
		return 0;
	if (r != -ENOENT || getrandom(id, sizeof id, 0) != sizeof id)
		return fail_state(err, r, "read 'id' of", s->path);
	/* whole under another name first: nobody reads half of one, and the first one wins */
	char text[33], name[48];
	(void)snprintf(text, sizeof text, "%016llx%016llx", (unsigned long long)id[0],
		(unsigned long long)id[1]);
	(void)snprintf(name, sizeof name, "id.%s", text);
	auto_fd int fd = openat(s->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail_state(err, -errno, "make 'id' in", s->path);
	r = write(fd, text, 32) == 32 ? 0 : -EIO;
	if (r == 0 && linkat(s->fd, name, s->fd, "id", 0) < 0 && errno != EEXIST)
		r = -errno;
	(void)unlinkat(s->fd, name, 0);
	if (r == 0)
		r = read_id(s->fd, ret);
	return r < 0 ? fail_state(err, r, "make 'id' in", s->path) : 0;
}

void cell_store_done(struct cell_store *s)
{
	free(s->owned_path);
	cell_closep(&s->fd);
	cell_closep(&s->cells_fd);
	cell_closep(&s->lock_fd);
	*s = (struct cell_store)CELL_STORE_INIT;
}

int cell_store_check_name(const char *name, struct cell_error *err)
{
	size_t n = strnlen(name, CELL_NAME_MAX);
	bool is_good = n > 0 && n < CELL_NAME_MAX && strchr("._-", name[0]) == NULL;

	for (size_t i = 0; i < n; i++)
		is_good &= (name[i] >= 'a' && name[i] <= 'z') ||
			   (name[i] >= '0' && name[i] <= '9') || strchr("._-", name[i]) != NULL;
	if (is_good)
		return 0;
	char shown[CELL_NAME_MAX];
	size_t len = 0;
	for (; len < sizeof shown - 1 && name[len]; len++)
		shown[len] = (char)(name[len] >= ' ' && name[len] < 127 ? name[len] : '?');
	shown[len] = '\0';
	int r = cell_fail(err, CELL_EINVAL, 0, "'%s' is no name for a cell", shown);
	return cell_error_hint(err, r,
		"use a-z 0-9 . _ -, beginning with a letter or digit, at most %d long",
		CELL_NAME_MAX - 1);
}

void cell_slot_done(struct cell_slot *slot)
{
	free(slot->path);
	cell_closep(&slot->fd);
	cell_closep(&slot->lock_fd);
	*slot = (struct cell_slot)CELL_SLOT_INIT;
}

static int open_slot(struct cell_store *s, const char *name, struct cell_slot *slot)
{
	*slot = (struct cell_slot)CELL_SLOT_INIT;
	slot->fd = openat(s->cells_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (slot->fd < 0)
		return -errno;
	if (asprintf(&slot->path, "%s/cells/%s", s->path, name) < 0) {
		slot->path = NULL;
		cell_slot_done(slot);
		return -ENOMEM;
	}
	return 0;
}

static int lock_file(const struct cell_slot *slot, int flags)
{
	int fd = openat(slot->fd, "lock", O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600);

	return fd < 0 ? -errno : fd;
}

static int flock_retry(int fd, int op)
{
	int r;

	do
		r = flock(fd, op);
	while (r < 0 && errno == EINTR);
	return r < 0 ? -errno : 0;
}

int cell_store_create(struct cell_store *s, const char *name, struct cell_slot *ret,
	struct cell_error *err)
{
	auto_slot struct cell_slot slot = CELL_SLOT_INIT;
	const char *what = "lock";
	int r = flock_retry(s->lock_fd, LOCK_SH);

	if (r < 0)
		return fail_state(err, r, what, s->path);
	if (mkdirat(s->cells_fd, name, 0700) < 0) {
		r = -errno;
		(void)flock(s->lock_fd, LOCK_UN);
		if (r != -EEXIST)
			return fail_state(err, r, "make a cell in", s->path);
		cell_fail(err, CELL_EEXISTS, 0, "there is already a cell '%s'", name);
		return cell_error_hint(err, r, "choose another name, or remove it: cell rm %s",
			name);
	}
	r = open_slot(s, name, &slot);
	if (!r)
		r = slot.lock_fd = lock_file(&slot, O_CREAT | O_EXCL);
	/* a reaper's look may have it for a moment */
	if (r >= 0)
		r = flock_retry(slot.lock_fd, LOCK_EX);
	if (r < 0) {
		(void)unlinkat(s->cells_fd, name, AT_REMOVEDIR);
		(void)cell_remove_tree(s->cells_fd, name, NULL);
		(void)flock(s->lock_fd, LOCK_UN);
		return fail_state(err, r, "make a cell in", s->path);
	}
	(void)flock(s->lock_fd, LOCK_UN);
	*ret = slot;
	slot = (struct cell_slot)CELL_SLOT_INIT;
	return 0;
}

int cell_store_find(struct cell_store *s, const char *name, struct cell_slot *ret,
	struct cell_error *err)
{
	int r = cell_store_check_name(name, err);

	if (r < 0)
		return r;
	r = open_slot(s, name, ret);
	if (r == -ENOENT) {
		cell_fail(err, CELL_ENOTFOUND, 0, "there is no cell '%s'", name);
		return cell_error_hint(err, r, "`cell ls` lists those there are");
	}
	if (r < 0)
		cell_fail_errno(err, -r, "open cell '%s' in '%s'", name, s->path);
	return r;
}

static bool is_current(struct cell_store *s, const char *name, const struct cell_slot *slot)
{
	struct stat a, b;

	return !fstatat(s->cells_fd, name, &a, AT_SYMLINK_NOFOLLOW) && !fstat(slot->fd, &b) &&
	       a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int cell_store_hold(struct cell_store *s, const char *name, struct cell_slot *slot, bool is_judging,
	enum cell_hold *ret, struct cell_error *err)
{
	auto_fd int fd = -1;
	int r = is_judging ? flock_retry(s->lock_fd, LOCK_EX) : 0;

	if (r < 0)
		return fail_state(err, r, "lock", s->path);
	r = fd = lock_file(slot, is_judging ? O_CREAT : 0);
	if (r >= 0)
		r = flock_retry(fd, LOCK_EX | LOCK_NB);
	if (is_judging)
		(void)flock(s->lock_fd, LOCK_UN);
	if (!is_current(s, name, slot)) {
		*ret = CELL_HOLD_GONE;
		return 0;
	}
	if (r == -EWOULDBLOCK || r == -ENOENT) {
		*ret = r == -ENOENT ? CELL_HOLD_UNSURE : CELL_HOLD_OTHER;
		return 0;
	}
	if (r < 0) {
		cell_fail_errno(err, -r, "lock cell '%s' in '%s'", name, s->path);
		return cell_error_hint(err, r, "look at the owner and mode of its files");
	}
	slot->lock_fd = steal_fd(fd);
	*ret = CELL_HOLD_OURS;
	return 0;
}

void cell_slot_release(struct cell_slot *slot)
{
	cell_closep(&slot->lock_fd);
	slot->lock_fd = -1;
}

bool cell_slot_is_held(const struct cell_slot *slot)
{
	auto_fd int fd = lock_file(slot, 0);

	return fd >= 0 && flock_retry(fd, LOCK_SH | LOCK_NB) == -EWOULDBLOCK;
}

int cell_store_remove(struct cell_store *s, const char *name, const struct cell_slot *slot,
	struct cell_error *err)
{
	char gone[48];
	uint64_t id = 0;

	if (getrandom(&id, sizeof id, 0) != sizeof id)
		return cell_fail_errno(err, errno, "remove cell '%s': random number", name);
	if (!is_current(s, name, slot))
		return 0;
	(void)snprintf(gone, sizeof gone, GONE_PREFIX "%016llx", (unsigned long long)id);
	if (renameat(s->cells_fd, name, s->cells_fd, gone) < 0) {
		int r = -errno;
		if (r == -ENOENT)
			return 0;
		cell_fail_errno(err, -r, "remove cell '%s' from '%s'", name, s->path);
		return cell_error_hint(err, r, "look at the owner and mode of '%s'", s->path);
	}
	int r = cell_remove_tree(s->cells_fd, gone, err);
	return r < 0 ? cell_error_prefix(err, r, "remove cell '%s' from '%s'", name, s->path) : 0;
}

typedef int (*entry_fn)(struct cell_store *s, const char *name, void *user);

static int each_entry(struct cell_store *s, entry_fn fn, void *user)
{
	int fd = openat(s->cells_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir) {
		int r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	for (struct dirent *e; (e = readdir(dir));) {
		int r = fn(s, e->d_name, user);
		if (r)
			return r;
	}
	return 0;
}

static int sweep_entry(struct cell_store *s, const char *name, void *user)
{
	(void)user;
	if (!strncmp(name, GONE_PREFIX, strlen(GONE_PREFIX)))
		(void)cell_remove_tree(s->cells_fd, name, NULL);
	if (!strncmp(name, CELL_SPARE_PREFIX, strlen(CELL_SPARE_PREFIX))) {
		auto_slot struct cell_slot slot = CELL_SLOT_INIT;
		if (open_slot(s, name, &slot) == 0 && !cell_slot_is_held(&slot))
			(void)cell_remove_tree(s->cells_fd, name, NULL);
	}
	return 0;
}

void cell_store_sweep(struct cell_store *s)
{
	(void)each_entry(s, sweep_entry, NULL);
}

struct names {
	char **list;
	size_t n, cap, max;
};

static int add_name(struct cell_store *s, const char *name, void *user)
{
	struct names *names = user;

	(void)s;
	if (cell_store_check_name(name, NULL) < 0)
		return 0;
	if (names->max && names->n == names->max)
		return 1;
	if (names->n + 1 >= names->cap) {
		size_t cap = names->cap ? names->cap * 2 : 32;
		char **list = realloc(names->list, cap * sizeof *list);
		if (!list)
			return -ENOMEM;
		names->list = list;
		names->cap = cap;
	}
	names->list[names->n] = strdup(name);
	if (!names->list[names->n])
		return -ENOMEM;
	names->list[++names->n] = NULL;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int cell_store_names(struct cell_store *s, size_t max, char ***ret, struct cell_error *err)
{
	struct names names = {.max = max};
	int r = each_entry(s, add_name, &names);

	if (!r && !names.list) {
		names.list = calloc(1, sizeof *names.list);
		r = names.list ? 0 : -ENOMEM;
	}
	if (r < 0) {
		cell_store_names_free(&names.list);
		return fail_state(err, r, "list", s->path);
	}
	if (names.n > 1)
		qsort(names.list, names.n, sizeof *names.list, by_name);
	*ret = names.list;
	return 0;
}

void cell_store_names_free(char ***names)
{
	for (char **n = *names; n && *n; n++)
		free(*n);
	free(*names);
	*names = NULL;
}
