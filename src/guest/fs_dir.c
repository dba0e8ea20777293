/* SPDX-License-Identifier: Apache-2.0 */
/* fs_dir.c: make directories, remove and move entries. Links are moved and removed, never followed.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/newfile.h"
#include "guest/fs_op.h"

#define FLATTEN_ROUNDS_MAX 100000

/* The parent and the name of an entry that is to be changed itself. */
static int open_entry(const struct fs_call *call, const char *verb, const char *path,
	char name[NAME_MAX + 1], struct cell_error *err)
{
	int dir = beneath_open_parent(call->root_fd, path, false, name);

	if (dir == -EINVAL)
		return cell_fail(err, CELL_EINVAL, 0,
			"%s '%.256s': the workspace itself and paths that end in '.' or '..' "
			"cannot "
			"be the object",
			verb, path);
	return dir < 0 ? fs_fail(err, dir, verb, path) : dir;
}

int fs_mkdir(struct fs_call *call, struct cell_error *err)
{
	struct fs_path path;
	char name[NAME_MAX + 1];
	mode_t mode = fs_get_u64(call, WIRE_T_MODE, 0) & 0777;
	bool has_parents = fs_get_u64(call, WIRE_T_FLAGS, 0) & 1;
	struct stat st;

	int r = fs_get_path(call, WIRE_T_PATH, "mkdir", &path, err);
	if (r < 0)
		return r;
	if (has_parents) {
		auto_fd int there = beneath_open(call->root_fd, path.text, O_PATH | O_DIRECTORY, 0);
		if (there >= 0)
			return 0;
		auto_fd int fd = beneath_mkdirs(call->root_fd, path.text, 0755);
		if (fd < 0)
			return fs_fail(err, fd, "mkdir", path.text);
		if (!mode || (fstat(fd, &st) == 0 && (st.st_mode & 0777) == mode))
			return 0;
		auto_fd int dir = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0 || fchmod(dir, mode) < 0)
			return fs_fail(err, -errno, "set the mode of", path.text);
		return 0;
	}
	auto_fd int dir = beneath_open_parent(call->root_fd, path.text, false, name);
	if (dir < 0)
		return fs_fail(err, dir == -EINVAL ? -EEXIST : dir, "mkdir", path.text);
	if (mkdirat(dir, name, mode ? mode : 0755) < 0)
		return fs_fail(err, -errno, "mkdir", path.text);
	if (!mode)
		return 0;
	auto_fd int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0)
		(void)fchmod(fd, mode);
	return 0;
}

/* Bring a directory that lies too deep up to where the walk began, to be met again in the next
 * round. */
static int bring_up(const struct treewalk_entry *e, int top_fd, unsigned *counter)
{
	char name[sizeof NEWFILE_PREFIX + 24];

	for (;;) {
		(void)snprintf(name, sizeof name, NEWFILE_PREFIX "deep-%u", (*counter)++);
		if (syscall(SYS_renameat2, e->dir_fd, e->name, top_fd, name, RENAME_NOREPLACE) == 0)
			return 0;
		if (errno == EINVAL || errno == ENOSYS)
			return renameat(e->dir_fd, e->name, top_fd, name) < 0 ? -errno : 0;
		if (errno != EEXIST)
			return -errno;
	}
}

/* Empty a directory. 1 when it has to be done again. */
static int empty_once(int dir_fd, unsigned *counter, const char *path, struct cell_error *err)
{
	auto_(fs_walk_freep) struct treewalk *w = NULL;
	struct treewalk_entry e;
	int has_more = 0;
	int r = treewalk_new(dir_fd, 0, TREEWALK_WITH_LEAVE, &w);

	if (r < 0)
		return fs_fail(err, r, "remove", path);
	while ((r = treewalk_next(w, &e)) > 0) {
		int flags = 0;

		if (e.type == TREEWALK_FAILED && e.error == EOVERFLOW) {
			r = bring_up(&e, dir_fd, counter);
			if (r < 0)
				return fs_fail(err, r, "remove", e.path);
			has_more = 1;
			continue;
		}
		if (e.type == TREEWALK_ENTRY && S_ISDIR(e.st.st_mode))
			continue;
		/* A directory that cannot be read may be empty all the same. */
		if (e.type != TREEWALK_ENTRY)
			flags = AT_REMOVEDIR;
		if (unlinkat(e.dir_fd, e.name, flags) < 0 && errno != ENOENT) {
			r = e.type == TREEWALK_FAILED ? -e.error : -errno;
			return fs_fail(err, r, "remove", e.path);
		}
	}
	return r < 0 ? fs_fail(err, r, "remove", path) : has_more;
}

int fs_remove(struct fs_call *call, struct cell_error *err)
{
	struct fs_path path;
	char name[NAME_MAX + 1];
	struct stat st;
	unsigned counter = 0;
	bool is_recursive = fs_get_u64(call, WIRE_T_FLAGS, 0) & 1;

	int r = fs_get_path(call, WIRE_T_PATH, "remove", &path, err);
	if (r < 0)
		return r;
	auto_fd int dir = open_entry(call, "remove", path.text, name, err);
	if (dir < 0)
		return dir;
	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return fs_fail(err, -errno, "remove", path.text);
	if (!S_ISDIR(st.st_mode))
		return unlinkat(dir, name, 0) < 0 ? fs_fail(err, -errno, "remove", path.text) : 0;
	if (!is_recursive)
		return cell_error_hint(err, fs_fail(err, -EISDIR, "remove", path.text),
			"a directory is removed with all in it when the removal is recursive");
	auto_fd int fd = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return fs_fail(err, -errno, "remove", path.text);
	r = 1;
	for (int i = 0; r > 0 && i < FLATTEN_ROUNDS_MAX; i++) {
		r = empty_once(fd, &counter, path.text, err);
		/* A directory that cannot be read may be empty all the same. */
		if (r == -EACCES)
			break;
	}
	int saved = r;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return 0;
	return saved < 0 ? saved : fs_fail(err, -errno, "remove", path.text);
}

static int rename_new(int from_dir, const char *from, int to_dir, const char *to)
{
	struct stat st;

	if (syscall(SYS_renameat2, from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	/* EINVAL: a file system without it, or a directory into itself, which the next call tells.
	 */
	if (fstatat(to_dir, to, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return -EEXIST;
	return renameat(from_dir, from, to_dir, to) < 0 ? -errno : 0;
}

int fs_move(struct fs_call *call, struct cell_error *err)
{
	struct fs_path from, to;
	char from_name[NAME_MAX + 1], to_name[NAME_MAX + 1];
	struct wire_field f;
	bool is_replacing = fs_get_u64(call, WIRE_T_FLAGS, 0) & 1;

	int r = fs_get_path(call, WIRE_T_PATH, "move", &from, err);
	if (r == 0)
		r = fs_get_path(call, WIRE_T_TARGET, "move to", &to, err);
	if (r < 0)
		return r;
	if (!wire_find(call->fields, call->fields_len, WIRE_T_TARGET, &f))
		return cell_fail(err, CELL_EINVAL, 0, "move '%.256s': where to is not said",
			from.text);
	auto_fd int from_dir = open_entry(call, "move", from.text, from_name, err);
	if (from_dir < 0)
		return from_dir;
	auto_fd int to_dir = open_entry(call, "move to", to.text, to_name, err);
	if (to_dir < 0)
		return to_dir;
	if (is_replacing)
		r = renameat(from_dir, from_name, to_dir, to_name) < 0 ? -errno : 0;
	else
		r = rename_new(from_dir, from_name, to_dir, to_name);
	if (r == -EXDEV) {
		r = cell_fail(err, CELL_ENOTSUP, EXDEV, "move '%.150s' to '%.150s'", from.text,
			to.text);
		return cell_error_hint(err, r,
			"they lie on different file systems of the cell: copy and remove instead");
	}
	if (r == -EEXIST)
		return cell_error_hint(err, fs_fail(err, r, "move to", to.text),
			"say replace to put it in the other's place");
	if (r < 0)
		return cell_fail_errno(err, -r, "move '%.150s' to '%.150s'", from.text, to.text);
	return 0;
}
