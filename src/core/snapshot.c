/* SPDX-License-Identifier: Apache-2.0 */
/*
 * snapshot.c: saved cells, one directory each: the cell's record without its environment, and what its back end does not save
 * itself, as tar archives. The directory is there, under another name and locked, before anything is saved elsewhere: whoever
 * dies at it leaves an id by which the rest is found and removed.
 *
 *	<state>/snapshots/<name>/cell.json, workspace.tar, home.tar
 *	<state>/snapshots/.new-<id>/    being saved: locked by who does
 */
#include "core/snapshot.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/contract.h"
#include "core/record.h"
#include "core/remove_tree.h"
#include "core/snapshot_part.h"
#include "wire/wire.h"

#define NEW_PREFIX ".new-"
#define PATH_SIZE  (2 * CELL_NAME_MAX)

static const struct {
	unsigned bit;
	const char *file;
	unsigned from; /* WIRE_TREE_* */
} parts[] = {
	{CELL_APART_WORKSPACE, "workspace.tar", 0}, {CELL_APART_HOME, "home.tar", WIRE_TREE_HOME}};

/* ---- names and directories ---- */

/* "name" or "owner/name" -> the directory's name. */
static int path_of(const char *name, char ret[PATH_SIZE], struct cell_error *err)
{
	const char *slash = strchr(name, '/');
	char owner[CELL_NAME_MAX] = "";
	int r = 0;

	if (slash && slash - name >= CELL_NAME_MAX) /* its beginning may be somebody else */
		r = -EINVAL;
	else if (slash) {
		(void)snprintf(owner, sizeof owner, "%.*s", (int)(slash - name), name);
		r = cell_store_check_name(owner, NULL);
	}
	if (r == 0)
		r = cell_store_check_name(slash ? slash + 1 : name, NULL);
	if (r < 0) {
		r = cell_fail(err, CELL_EINVAL, 0, "'%.80s' is no name for a snapshot", name);
		return cell_error_hint(err, r,
			"use a-z 0-9 . _ -, beginning with a letter or digit, at most %d long",
			CELL_NAME_MAX - 1);
	}
	(void)snprintf(ret, PATH_SIZE, "%s%s%s", owner, slash ? "~" : "", slash ? slash + 1 : name);
	return 0;
}

static int open_all(const struct cell_store *s, bool is_made, struct cell_error *err)
{
	if (is_made && mkdirat(s->fd, "snapshots", 0700) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "make 'snapshots' in '%s'", s->path);
	int fd = openat(s->fd, "snapshots", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 && errno != ENOENT)
		return cell_fail_errno(err, errno, "open 'snapshots' in '%s'", s->path);
	return fd < 0 ? -ENOENT : fd;
}

static int open_one(int all, const char *path)
{
	int fd = openat(all, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int fail_missing(const char *name, struct cell_error *err)
{
	int r = cell_fail(err, CELL_ENOTFOUND, 0, "there is no snapshot '%.130s'", name);

	return cell_error_hint(err, r, "`cell snapshot ls` lists those there are");
}

static bool is_there(int all, const char *path)
{
	struct stat st;

	return fstatat(all, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The store, the directory of all, and the one of this name (-1 when there is none). */
static int open_named(const char *name, struct cell_store *store, int *ret_all,
	char ret_path[PATH_SIZE], struct cell_error *err)
{
	int r = path_of(name, ret_path, err);

	if (r >= 0)
		r = cell_store_open(store, false, err);
	if (r >= 0)
		r = *ret_all = open_all(store, false, err);
	if (r >= 0)
		r = open_one(*ret_all, ret_path);
	return r == -ENOENT		      ? fail_missing(name, err)
	       : r < 0 && !(err && err->code) ? cell_fail_errno(err, -r, "open snapshot '%s'", name)
					      : r;
}

/* A handle for the back end, of the cell that was saved. */
static int handle_of(int dir, const char *path, struct cell **ret, struct cell_error *err)
{
	json_t *record = NULL;
	struct cell_slot slot = CELL_SLOT_INIT;
	int r = cell_record_load(dir, &record, err);

	if (r < 0) {
		r = r == -ENOENT ? cell_fail(err, CELL_EBACKEND, 0, "it has no record") : r;
		(void)cell_error_prefix(err, r, "snapshot '%s'", path);
		return cell_error_hint(err, r, "all that can be done is to remove it");
	}
	const char *cell = cell_record_str(record, "name");
	slot.fd = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	slot.path = strdup(path);
	r = slot.fd < 0 || !slot.path
		    ? cell_fail_errno(err, ENOMEM, "open snapshot '%s'", path)
		    : cell_handle_from_record(cell ? cell : "?", record, &slot, ret, err);
	json_decref(record);
	cell_slot_done(&slot);
	return r;
}

/* No record, or none that can be read: a disk that was full, a Cell that was newer. One of these must not be in the way of the others. */
static bool is_broken(int dir)
{
	json_t *record = NULL;
	int r = cell_record_load(dir, &record, NULL);

	json_decref(record);
	return r == -ENOENT || r == -EBADMSG;
}

static const json_t *about(const struct cell *c)
{
	return json_object_get(c->record, "snapshot");
}

/* ---- files that the back end does not bring ---- */

int snapshot_restore(struct cell *c, const struct snapshot_held *h, bool has_workspace,
	struct cell_error *err)
{
	int r = 0;

	for (size_t i = 0; h->fd >= 0 && r >= 0 && i < sizeof parts / sizeof *parts; i++)
		if (h->apart & parts[i].bit &&
			!(has_workspace && parts[i].bit == CELL_APART_WORKSPACE))
			r = snapshot_part_restore(c, h->fd, parts[i].file, parts[i].from, err);
	return r < 0 ? cell_error_prefix(err, r, "restore the snapshot") : 0;
}

/* ---- saving ---- */

static int64_t now_unix_ms(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* The cell's own, without what it was told in confidence. */
static json_t *make_record(const struct cell *c, const char *name, const char *id)
{
	json_t *record = json_deep_copy(c->record), *s = json_object();

	if (!record || !s || json_object_set_new(record, "snapshot", s) < 0 ||
		cell_record_set_str(s, "name", name) < 0 || cell_record_set_str(s, "id", id) < 0 ||
		cell_record_set_int(s, "created_unix_ms", now_unix_ms()) < 0) {
		json_decref(record);
		return NULL;
	}
	(void)json_object_del(record, "env");
	return record;
}

static int save_apart(struct cell *c, int dir, json_t *record, unsigned apart, uint64_t max_bytes,
	struct cell_error *err)
{
	int r = 0;

	if (cell_record_str(c->record, "workspace")) /* the host's */
		apart &= ~(unsigned)CELL_APART_WORKSPACE;
	for (size_t i = 0; r >= 0 && i < sizeof parts / sizeof *parts; i++)
		if (apart & parts[i].bit)
			r = snapshot_part_save(c, dir, parts[i].file, parts[i].from, &max_bytes,
				err);
	if (r >= 0 && cell_record_set_int(json_object_get(record, "snapshot"), "apart",
			      (int64_t)apart) < 0)
		r = cell_fail_errno(err, ENOMEM, "save the cell");
	return r < 0 ? r : cell_record_save(dir, record, true, err);
}

static int save(struct cell *c, int all, const char *path, const char *name, uint64_t max_bytes,
	struct cell_error *err)
{
	uint64_t random[2];
	char id[40], fresh[48];
	unsigned apart = 0;

	if (getrandom(random, sizeof random, 0) != sizeof random)
		return cell_fail_errno(err, errno, "choose an id for the snapshot");
	(void)snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)random[0],
		(unsigned long long)random[1]);
	(void)snprintf(fresh, sizeof fresh, NEW_PREFIX "%s", id);
	json_t *record = make_record(c, name, id);
	if (!record)
		return cell_fail_errno(err, ENOMEM, "save the cell");
	/* together: who sweeps finds it locked, or not at all */
	(void)flock(all, LOCK_SH);
	auto_fd int dir = mkdirat(all, fresh, 0700) < 0 ? -errno : open_one(all, fresh);
	int r = dir < 0 ? dir : flock(dir, LOCK_EX) < 0 ? -errno : 0;
	(void)flock(all, LOCK_UN);
	if (r < 0)
		(void)cell_fail_errno(err, -r, "make a directory for the snapshot");
	if (r >= 0)
		r = cell_record_save(dir, record, true, err);
	bool is_begun = r >= 0;
	if (r >= 0)
		r = cell_place_snapshot(c, id, &apart, err);
	if (r >= 0)
		r = save_apart(c, dir, record, apart, max_bytes, err);
	json_decref(record);
	if (r >= 0 && renameat2(all, fresh, all, path, RENAME_NOREPLACE) < 0)
		r = errno == EEXIST ? cell_fail(err, CELL_EEXISTS, 0,
					      "there is already a snapshot '%s'", name)
				    : cell_fail_errno(err, errno, "name the snapshot '%s'", name);
	if (r < 0) {
		if (!is_begun || cell_place_forget(c, id, NULL) >= 0)
			(void)cell_remove_tree(all, fresh, NULL);
		return r;
	}
	return fsync(all) < 0 ? cell_fail_errno(err, errno, "name the snapshot '%s'", name) : 0;
}

int cell_snapshot_within(const char *cell, const char *name, uint64_t max_bytes,
	struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	auto_fd int all = -1;
	struct cell *c = NULL;
	char path[PATH_SIZE];
	int r = path_of(name, path, err);

	if (r >= 0)
		r = cell_reopen(cell, &c, err);
	if (r >= 0)
		r = cell_contract_require(c, CELL_CAP_BIT(CELL_CAP_SNAPSHOT), "save the files",
			err);
	if (r >= 0)
		r = cell_store_open_for(&store, c->directory_fd, c->directory, err);
	if (r == -ENOENT)
		r = cell_fail_no_cell(cell, err);
	if (r >= 0) {
		snapshot_sweep(&store);
		r = all = open_all(&store, true, err);
	}
	if (r >= 0 && is_there(all, path)) {
		r = cell_fail(err, CELL_EEXISTS, 0, "there is already a snapshot '%s'", name);
		r = cell_error_hint(err, r, "take another name, or remove it: cell snapshot rm %s",
			name);
	}
	if (r >= 0)
		r = save(c, all, path, name, max_bytes, err);
	if (c)
		(void)cell_close(c, NULL);
	return r < 0 ? r : 0;
}

int cell_snapshot(const char *cell, const char *name, struct cell_error *err)
{
	return cell_snapshot_within(cell, name, UINT64_MAX, err);
}

/* ---- beginning with one ---- */

void snapshot_release(struct snapshot_held *h)
{
	cell_closep(&h->fd);
	h->fd = -1;
}

static const char *place_of(const char *backend)
{
	const char *colon = strrchr(backend, ':');

	return colon ? colon + 1 : backend;
}

int snapshot_hold(struct cell_spec *spec, struct snapshot_held *ret, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	auto_cell struct cell *c = NULL;
	auto_fd int all = -1;
	char path[PATH_SIZE];

	if (!spec->from)
		return 0;
	if (spec->image || spec->root) {
		int r = cell_fail(err, CELL_EINVAL, 0,
			"from: a snapshot, and %s: a cell begins with one of them",
			spec->image ? "image" : "root");
		return cell_error_hint(err, r, "leave one of the two out");
	}
	int r = open_named(spec->from, &store, &all, path, err);
	if (r < 0)
		return r;
	ret->fd = r;
	if (flock(ret->fd, LOCK_SH | LOCK_NB) < 0)
		return cell_fail(err, CELL_EBUSY, 0, "snapshot '%s' is being removed", spec->from);
	r = handle_of(ret->fd, path, &c, err);
	if (r < 0)
		return r;
	const char *id = cell_record_str(about(c), "id"),
		   *backend = cell_record_str(c->record, "backend");
	if (!id || !backend)
		return cell_fail(err, CELL_EINTERNAL, 0, "snapshot '%s' has a broken record",
			spec->from);
	(void)snprintf(ret->id, sizeof ret->id, "%s", id);
	(void)snprintf(ret->backend, sizeof ret->backend, "%s", backend);
	ret->apart = (unsigned)cell_record_int(about(c), "apart", 0);
	if (!spec->backend) {
		spec->backend = ret->backend;
	} else if (strcmp(place_of(spec->backend), place_of(backend)) != 0) {
		r = cell_fail(err, CELL_ENOTSUP, 0, "snapshot '%s' is of back end '%s', not '%s'",
			spec->from, backend, spec->backend);
		return cell_error_hint(err, r, "leave --backend out, or use --backend %s", backend);
	}
	return 0;
}

/* ---- all of them ---- */

struct names {
	char **list;
	size_t n;
};

static void names_done(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_names(int all, struct names *ret)
{
	int fd = openat(all, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	int r = 0;

	if (!dir) {
		r = -errno;
		if (fd >= 0)
			close(fd);
		return r;
	}
	for (struct dirent *e; r == 0 && (e = readdir(dir));) {
		if (e->d_name[0] == '.' && strncmp(e->d_name, NEW_PREFIX, strlen(NEW_PREFIX)) != 0)
			continue;
		char **list = realloc(ret->list, (ret->n + 1) * sizeof *list);
		r = list ? 0 : -ENOMEM;
		if (r == 0) {
			ret->list = list;
			ret->list[ret->n] = strdup(e->d_name);
			r = ret->list[ret->n] ? 0 : -ENOMEM;
		}
		ret->n += r == 0;
	}
	(void)closedir(dir);
	if (ret->n > 1)
		qsort(ret->list, ret->n, sizeof *ret->list, by_name);
	return r;
}

static const char *text_or(const char *text, const char *otherwise)
{
	return text ? text : otherwise;
}

static uint64_t space_of(int dir)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		bytes += snapshot_space(dir, parts[i].file);
	return bytes;
}

/* Only what its directory tells. */
static int tell_broken(int dir, const char *path, cell_snapshot_fn fn, void *user)
{
	char name[PATH_SIZE];

	(void)snprintf(name, sizeof name, "%s", path);
	char *owner_end = strchr(name, '~');
	if (owner_end)
		*owner_end = '/';
	const struct cell_snapshot_info info = {
		.name = name, .cell = "", .from = "", .backend = "", .size_bytes = space_of(dir)};
	return fn(&info, user);
}

static int tell(int all, const char *path, cell_snapshot_fn fn, void *user, struct cell_error *err)
{
	auto_fd int dir = open_one(all, path);
	auto_cell struct cell *c = NULL;

	if (dir >= 0 && is_broken(dir))
		return tell_broken(dir, path, fn, user);
	int r = dir < 0 ? dir : handle_of(dir, path, &c, err);
	if (dir == -ENOENT || dir == -ENOTDIR) /* removed meanwhile; a stray file */
		return 0;
	if (r < 0)
		return dir < 0 ? cell_fail_errno(err, -dir, "open snapshot '%s'", path) : r;
	const char *from = cell_record_str(c->record, "from");
	const struct cell_snapshot_info info = {
		.name = text_or(cell_record_str(about(c), "name"), path),
		.cell = c->name,
		.from = text_or(from ? from : cell_note(c, "image"), ""),
		.backend = text_or(cell_record_str(c->record, "backend"), ""),
		.created_unix_ms = (uint64_t)cell_record_int(about(c), "created_unix_ms", 0),
		.size_bytes = space_of(dir),
	};
	return fn(&info, user);
}

int cell_snapshot_list(cell_snapshot_fn fn, void *user, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	auto_fd int all = -1;
	struct names names = {0};
	int r = cell_store_open(&store, false, err);

	if (r >= 0)
		r = all = open_all(&store, false, err);
	if (r < 0)
		return r == -ENOENT ? 0 : r;
	r = read_names(all, &names);
	if (r < 0)
		(void)cell_fail_errno(err, -r, "list the snapshots of '%s'", store.path);
	for (size_t i = 0; r == 0 && i < names.n; i++)
		if (names.list[i][0] != '.')
			r = tell(all, names.list[i], fn, user, err);
	names_done(&names);
	return r;
}

/* Locked by the caller. First what is elsewhere: the record is what it is found by. Without one it is left to cell_prune(). */
static int remove_one(int all, int dir, const char *path, struct cell_error *err)
{
	auto_cell struct cell *c = NULL;

	if (is_broken(dir))
		return cell_remove_tree(all, path, err);
	int r = handle_of(dir, path, &c, err);
	const char *id = r < 0 ? NULL : cell_record_str(about(c), "id");

	if (id)
		r = cell_place_forget(c, id, err);
	return r < 0 ? r : cell_remove_tree(all, path, err);
}

int cell_snapshot_remove(const char *name, struct cell_error *err)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	auto_fd int all = -1;
	char path[PATH_SIZE];
	auto_fd int dir = open_named(name, &store, &all, path, err);

	if (dir < 0)
		return dir;
	if (flock(dir, LOCK_EX | LOCK_NB) < 0) {
		int r = cell_fail(err, CELL_EBUSY, 0, "remove snapshot '%s': it is in use", name);
		return cell_error_hint(err, r, "a cell is being made from it: try again");
	}
	int r = remove_one(all, dir, path, err);
	return r < 0 ? cell_error_prefix(err, r, "remove snapshot '%s'", name) : 0;
}

bool snapshot_is_known(const struct cell_store *s, const char *id)
{
	auto_fd int all = open_all(s, false, NULL);
	struct names names = {0};
	bool is = all < 0 ? all != -ENOENT : read_names(all, &names) < 0;

	for (size_t i = 0; !is && i < names.n; i++) {
		auto_fd int dir = open_one(all, names.list[i]);
		json_t *record = NULL;
		int r = dir < 0 ? dir : cell_record_load(dir, &record, NULL);
		const char *have = cell_record_str(json_object_get(record, "snapshot"), "id");

		is = r == 0 ? have && !strcmp(have, id) : r != -ENOENT && r != -ENOTDIR;
		json_decref(record);
	}
	names_done(&names);
	return is;
}

void snapshot_sweep(struct cell_store *s)
{
	auto_fd int all = open_all(s, false, NULL);
	struct names names = {0};

	if (all < 0 || read_names(all, &names) < 0)
		return;
	for (int is_begun = 0; is_begun < 2; is_begun++) {
		/* those without a record have nothing elsewhere; but one may not have its lock yet */
		if (!is_begun && flock(all, LOCK_EX) < 0)
			break;
		for (size_t i = 0; i < names.n; i++) {
			auto_fd int dir =
				names.list[i][0] == '.' ? open_one(all, names.list[i]) : -1;
			struct stat st;

			if (dir < 0 || flock(dir, LOCK_EX | LOCK_NB) < 0)
				continue;
			bool has_record = fstatat(dir, "cell.json", &st, 0) == 0;
			if (is_begun && has_record)
				(void)remove_one(all, dir, names.list[i], NULL);
			else if (!is_begun && !has_record)
				(void)cell_remove_tree(all, names.list[i], NULL);
		}
		if (!is_begun)
			(void)flock(all, LOCK_UN);
	}
	names_done(&names);
}
