/* SPDX-License-Identifier: Apache-2.0 */
/* env.c: see env.h. */
#include "core/deps/env.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/deps/env_files.h"
#include "core/remove_tree.h"

#define LOCK_WAIT_S  60
#define STATE_FORMAT 1
#define LIB	     "lib/py"

static int take_lock(int dir_fd, const char *name, struct cell_error *err)
{
	auto_fd int fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	struct timespec start, now;

	if (fd < 0)
		return cell_fail_errno(err, errno, "open the environment's lock");
	(void)clock_gettime(CLOCK_MONOTONIC, &start);
	while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return cell_fail_errno(err, errno, "lock the environment");
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		if (now.tv_sec - start.tv_sec >= LOCK_WAIT_S)
			return cell_error_hint(err,
				cell_fail(err, CELL_EBUSY, 0,
					"somebody else is changing the packages of this cell"),
				"try again when it is done");
		(void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
	}
	return steal_fd(fd);
}

static int load_state(struct env *e, struct cell_error *err)
{
	e->state = deps_load_json(e->dir_fd, "current/state.json");
	if (json_integer_value(json_object_get(e->state, "format")) == STATE_FORMAT &&
		json_is_object(json_object_get(e->state, "requested")) &&
		json_is_object(json_object_get(e->state, "packages")))
		return 0;
	json_decref(e->state);
	e->state = json_pack("{s:i, s:{}, s:{}}", "format", STATE_FORMAT, "requested", "packages");
	return e->state ? 0 : cell_fail_errno(err, ENOMEM, "open the environment");
}

int env_look(struct env *e, const struct deps_place *place, struct cell_error *err)
{
	*e = (struct env)ENV_INIT;
	e->place = place;
	e->dir_fd = open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (e->dir_fd < 0)
		return cell_fail_errno(err, errno, "open the environment '%.200s'", place->dir);
	return load_state(e, err);
}

int env_open(struct env *e, const struct deps_place *place, int lock_dir_fd, struct cell_error *err)
{
	*e = (struct env)ENV_INIT;
	e->place = place;
	e->dir_fd = open(place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (e->dir_fd < 0)
		return cell_fail_errno(err, errno, "open the environment '%.200s'", place->dir);
	/* not where code in the cell could hold it, but where several cells share the directory */
	int r = e->lock_fd = place->is_kept ? take_lock(e->dir_fd, ".lock", err)
					    : take_lock(lock_dir_fd, "env.lock", err);
	return r < 0 ? r : load_state(e, err);
}

void env_done(struct env *e)
{
	cell_closep(&e->dir_fd);
	cell_closep(&e->lock_fd);
	json_decref(e->state);
	*e = (struct env)ENV_INIT;
}

/* ---- a new one ---- */

/* bin/python and its names; any version finds its packages in the same directory. */
static int make_python(const struct env *e, int gen, struct cell_error *err)
{
	const char *python = json_string_value(json_object_get(e->state, "python"));
	char text[2048], name[32];

	for (unsigned minor = 8; minor <= 24; minor++) {
		(void)snprintf(name, sizeof name, "lib/python3.%u", minor);
		if (symlinkat("py", gen, name) < 0)
			return cell_fail_errno(err, errno, "make the environment's library");
	}
	if (!python)
		return 0;
	const char *slash = strrchr(python, '/');
	(void)snprintf(text, sizeof text,
		"home = %.*s\ninclude-system-site-packages = true\nversion = %s\n",
		slash == python ? 1 : (int)(slash - python), python,
		json_is_string(json_object_get(e->state, "version"))
			? json_string_value(json_object_get(e->state, "version"))
			: "3");
	if (symlinkat(python, gen, "bin/python3") < 0 ||
		symlinkat("python3", gen, "bin/python") < 0)
		return cell_fail_errno(err, errno, "make the environment's interpreter");
	if (!strncmp(slash + 1, "python3.", 8))
		(void)snprintf(name, sizeof name, "bin/%.24s", slash + 1);
	else
		name[0] = '\0';
	if (*name && symlinkat("python3", gen, name) < 0)
		return cell_fail_errno(err, errno, "make the environment's interpreter");
	return env_write_file(gen, "pyvenv.cfg", text, strlen(text), 0444, err);
}

static int make_skeleton(const struct env *e, int gen, struct cell_error *err)
{
	static const char *const dirs[] = {"bin", "lib", LIB, LIB "/site-packages", "node_modules"};

	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
		if (mkdirat(gen, dirs[i], 0755) < 0 || fchmodat(gen, dirs[i], 0755, 0) < 0)
			return cell_fail_errno(err, errno, "make the environment");
	if (symlinkat("lib", gen, "lib64") < 0)
		return cell_fail_errno(err, errno, "make the environment");
	return make_python(e, gen, err);
}

static int write_state(const struct env *e, int gen, struct cell_error *err)
{
	auto_free char *text = json_dumps(e->state, JSON_INDENT(1) | JSON_SORT_KEYS);

	if (!text)
		return cell_fail_errno(err, ENOMEM, "write the environment's state");
	return env_write_file(gen, "state.json", text, strlen(text), 0444, err);
}

/* The number of the next one, and away with those that do not count. */
static unsigned long next_number(const struct env *e)
{
	char target[64] = "";
	ssize_t n = readlinkat(e->dir_fd, "current", target, sizeof target - 1);
	unsigned long number =
		n > 4 && !strncmp(target, "gen-", 4) ? strtoul(target + 4, NULL, 10) : 0;

	return number < ULONG_MAX / 2 ? number + 1 : 1;
}

static void remove_others(const struct env *e, const char *keep)
{
	int copy = openat(e->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);

	for (struct dirent *x; d && (x = readdir(d));)
		if (!strncmp(x->d_name, "gen-", 4) && strcmp(x->d_name, keep) != 0)
			(void)cell_remove_tree(e->dir_fd, x->d_name, NULL);
}

static int put_in_place(const struct env *e, const char *name, struct cell_error *err)
{
	(void)unlinkat(e->dir_fd, ".current.new", 0);
	if (symlinkat(name, e->dir_fd, ".current.new") < 0 ||
		renameat(e->dir_fd, ".current.new", e->dir_fd, "current") < 0)
		return cell_fail_errno(err, errno, "put the environment in place");
	return 0;
}

static bool is_linked(const struct env *e, const char *name)
{
	char path[300];

	(void)snprintf(path, sizeof path, "current/node_modules/%s", name);
	return faccessat(e->dir_fd, path, F_OK, 0) == 0;
}

/* /node_modules of a cell that has mounts, where `import` looks from anywhere: a link for each name. Names that go or come while this is
 * done lead nowhere for that moment. */
static void link_modules(const struct env *e)
{
	auto_fd int modules =
		openat(e->dir_fd, DEPS_MODULES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int copy = openat(e->dir_fd, DEPS_MODULES, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	auto_dir DIR *old = copy < 0 ? NULL : fdopendir(copy);
	int now = openat(e->dir_fd, "current/node_modules", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *new = now < 0 ? NULL : fdopendir(now);
	char target[PATH_MAX];

	for (struct dirent *x; old && (x = readdir(old));)
		if (x->d_name[0] != '.' && !is_linked(e, x->d_name))
			(void)unlinkat(modules, x->d_name, 0);
	for (struct dirent *x; modules >= 0 && new && (x = readdir(new));) {
		(void)snprintf(target, sizeof target, "%s/current/node_modules/%s", e->place->at,
			x->d_name);
		if (x->d_name[0] != '.' && symlinkat(target, modules, x->d_name) < 0 &&
			errno != EEXIST)
			break; /* `require` finds it all the same */
	}
}

int env_switch(struct env *e, const struct env_package *packages, size_t n, struct cell_error *err)
{
	char name[32];
	int r = 0;

	(void)snprintf(name, sizeof name, "gen-%lu", next_number(e));
	(void)cell_remove_tree(e->dir_fd, name, NULL);
	if (mkdirat(e->dir_fd, name, 0755) < 0 || fchmodat(e->dir_fd, name, 0755, 0) < 0)
		return cell_fail_errno(err, errno, "make the environment");
	auto_fd int gen = openat(e->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (gen < 0)
		r = cell_fail_errno(err, errno, "make the environment");
	if (r == 0)
		r = make_skeleton(e, gen, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = env_add_package(e, gen, LIB "/site-packages", &packages[i], err);
	if (r == 0)
		r = env_make_installers(e, gen, LIB "/site-packages", err);
	if (r == 0)
		r = write_state(e, gen, err);
	if (r == 0)
		r = put_in_place(e, name, err);
	if (r < 0) {
		(void)cell_remove_tree(e->dir_fd, name, NULL);
		return r;
	}
	if (e->place->is_mounted)
		link_modules(e);
	remove_others(e, name);
	return 0;
}
