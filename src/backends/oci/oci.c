/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci.c: the back end `oci`: a bundle of our own, run by whatever OCI runtime there is. No daemon: the runtime's program makes the
 * container and ends, its state is in the cell's directory, and the guest comes to its door (core/guest_door.h).
 */
#include "backends/oci/oci.h"

#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "core/guest_door.h"
#include "core/guest_process.h"
#include "core/remove_tree.h"
#include "launcher/seccomp_profiles.h"

#define STALE_S 60 /* no runtime takes that long to put a process into the group it made */

static void oci_probe(struct cell_probe *p)
{
	struct cell_error err = {0};
	auto_free char *program = NULL;

	if (oci_runtime_find(NULL, &program, &err) < 0)
		cell_probe_refuse(p, err.msg, err.hint);
	else if (geteuid() != 0)
		cell_probe_refuse(p, "runtimes are run as root only so far",
			"run as root, or use the jail, which needs none");
}

struct launch {
	struct oci_plan *plan;
	struct guest_door *door;
	const char *program;
};

/* guest_options.start */
static int launch(void *user, const char *title, int stream_fd, pid_t *ret_pid, int *ret_pidfd,
	struct cell_error *err)
{
	struct launch *l = user;
	struct oci_plan *p = l->plan;
	bool is_held = p->image.hold_fd >= 0;
	const char *args[] = {"run", "--detach", "--bundle", p->bundle, "--preserve-fds",
		is_held ? "1" : "0", p->id, NULL};
	struct oci_call call = {.program = l->program,
		.directory = cell_directory(p->c),
		.args = args,
		.pass_fd = p->image.hold_fd,
		.enter = oci_enter,
		.user = p};
	char said[200];
	int r = oci_runtime_call(&call, said, sizeof said, err);

	if (r < 0 && strstr(said, "hybrid"))
		return cell_error_hint(err, r,
			"this runtime wants cgroup v2 alone: use --runtime runc");
	return r < 0 ? r
		     : guest_door_answer(l->door, title, stream_fd, &p->spec->limits, NULL, NULL,
			       ret_pid, ret_pidfd, err);
}

static int check_spec(const struct cell_spec *spec, struct cell_error *err)
{
	int r;

	if (spec->seccomp && !seccomp_profile(spec->seccomp)) {
		r = cell_fail(err, CELL_ENOTSUP, 0,
			"seccomp: a file is not taken by back end 'oci'");
		return cell_error_hint(err, r,
			"use default, strict or debug, or the back ends jail or docker");
	}
	if (spec->runtime && strstr(spec->runtime, "runsc")) {
		r = cell_fail(err, CELL_ENOTSUP, 0,
			"runtime: a guest in runsc cannot take its stream over a socket of the "
			"host");
		return cell_error_hint(err, r,
			"use it by an engine: --backend docker --runtime runsc");
	}
	return 0;
}

typedef bool (*group_fn)(const char *path);

/* Calls fn for each cgroup of ours whose name ends so; false when one said so. */
static bool each_group(const char *ending, group_fn fn)
{
	static const char *const places[] = {"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"};
	bool is_fine = true;

	for (size_t k = 0; k < 2; k++) {
		char pattern[300];
		glob_t found = {0};

		(void)snprintf(pattern, sizeof pattern, "%s" OCI_GROUP "%s", places[k], ending);
		if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
			for (size_t i = 0; i < found.gl_pathc; i++)
				is_fine &= fn(found.gl_pathv[i]);
		globfree(&found);
	}
	return is_fine;
}

static bool remove_group(const char *path)
{
	return rmdir(path) == 0 || errno == ENOENT;
}

/* A cell whose record was lost is never told of. What is empty, and was made long ago, is nobody's: a group that still has
 * processes cannot be removed. */
static bool sweep_group(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && st.st_mtime + STALE_S < time(NULL))
		(void)rmdir(path);
	return true;
}

/* The guest is dead, and with the first process of its namespace all others. What the runtime would do now takes another
 * start of its program; it is only this. False: let it. */
static bool remove_remains(struct cell *c, const char *id)
{
	const struct timespec pause = {.tv_nsec = 2 * 1000000};
	bool is_done = each_group(id, remove_group);

	for (int i = 0; !is_done && i < 250; i++) {
		(void)nanosleep(&pause, NULL);
		is_done = each_group(id, remove_group);
	}
	return is_done && cell_remove_tree(cell_directory_fd(c), "oci", NULL) == 0;
}

static int oci_destroy(struct cell *c, struct cell_error *err)
{
	const char *id = cell_note(c, "container"), *program = cell_note(c, "runtime");
	bool has_guest = cell_note_int(c, "guest_pid", 0) > 0;
	char said[200];

	if (!id || !program)
		return 0;
	guest_door_remove(c);
	int r = has_guest ? cell_guest_stop(c, err) : 0;
	if (r < 0)
		return r;
	if (!has_guest || !remove_remains(c, id)) {
		const char *args[] = {"delete", "--force", id, NULL};
		struct oci_call call = {.program = program,
			.directory = cell_directory(c),
			.args = args,
			.pass_fd = -1};
		r = oci_runtime_call(&call, said, sizeof said, err);
		if (r < 0 && !strstr(said, "does not exist") && !strstr(said, "No such file"))
			return r;
	}
	(void)each_group("*", sweep_group);
	return 0;
}

static int note(struct cell *c, const char *id, const char *program, struct cell_error *err)
{
	int r = cell_note_set(c, "container", id, err);

	if (r == 0)
		r = cell_note_set(c, "runtime", program, err);
	return r == 0 ? cell_note_save(c, err) : r;
}

static int oci_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	__attribute__((cleanup(oci_plan_done))) struct oci_plan p = OCI_PLAN_INIT;
	auto_door struct guest_door door = GUEST_DOOR_INIT;
	auto_free char *program = NULL;
	char id[160];
	uint32_t number;
	int r = check_spec(spec, err);

	if (r == 0 && getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
		r = cell_fail_errno(err, errno, "choose an id for the container");
	(void)snprintf(id, sizeof id, "cell-%.120s-%08" PRIx32, cell_name(c), number);
	p.c = c;
	p.spec = spec;
	p.id = id;
	if (r == 0)
		r = oci_runtime_find(spec->runtime, &program, err);
	if (r == 0)
		r = oci_plan_make(&p, err);
	if (r == 0)
		r = guest_door_open(c, seccomp_profile(spec->seccomp ? spec->seccomp : "default"),
			&door, err);
	p.door = door.path;
	if (r == 0)
		r = oci_bundle_write(&p, err);
	if (r == 0)
		r = note(c, id, program, err);
	struct launch l = {.plan = &p, .door = &door, .program = program};
	struct guest_options o = {.start = launch, .user = &l};
	if (r == 0)
		r = cell_guest_start(c, &o, err);
	guest_door_remove(c);
	if (r < 0 && cell_note(c, "container"))
		(void)oci_destroy(c, NULL);
	return r;
}

static int oci_walls(cell_wall_fn fn, void *user)
{
	struct cell_error err;
	auto_free char *program = NULL;
	char how[600];

	if (oci_runtime_find(NULL, &program, &err) < 0)
		return 0;
	(void)snprintf(how, sizeof how, "%s; no daemon, state in the cell's directory", program);
	const struct cell_wall walls[] = {
		{.name = "runtime", .how = how},
		{.name = "ids",
			.how = "root of a container would be root outside: cells are another user",
			.better = "an id for each cell, as in the jail"},
		{.name = "privileges", .how = "no capability, no_new_privs"},
		{.name = "processes", .how = "own pid, ipc, uts and cgroup namespaces"},
		{.name = "syscalls", .how = "seccomp: Cell's profile, taken by the guest"},
		{.name = "files",
			.how = "overlay of the image in a mount namespace of its own; no "
			       "devices but the usual ones"},
		{.name = "network", .how = "none: an empty namespace"},
		{.name = "limits", .how = "memory with swap, cpus, pids by the runtime's cgroups"},
		{.name = "disk", .how = "size and number of files of its scratch space in memory"},
	};
	int r = 0;
	for (size_t i = 0; r == 0 && i < sizeof walls / sizeof *walls; i++)
		r = fn(&walls[i], user);
	return r;
}

#define CAP(name) CELL_CAP_BIT(CELL_CAP_##name)

const struct cell_backend cell_backend_oci = {
	.name = "oci",
	.summary = "a bundle of our own, run by runc or crun; no daemon, as root",
	.wall = "Namespaces, no capabilities, a syscall filter and limits, made by an OCI runtime "
		"on the "
		"kernel it shares with the host.",
	.tier = 2,
	.caps = CAP(EXEC) | CAP(PTY) | CAP(FILES) | CAP(WATCH) | CAP(BACKGROUND) | CAP(NAMED) |
		CAP(DEFAULT_USER) | CAP(WORKSPACE) | CAP(PRIVATE_HOME) | CAP(KILL_TREE) |
		CAP(HIDE_FILES) | CAP(HIDE_PROCESSES) | CAP(SYSCALL_FILTER) | CAP(IMAGE) |
		CAP(ROOT_DIR) | CAP(ROOT_TAR) | CAP(RUNTIME) | CAP(MOUNTS) | CAP(LIMIT_MEMORY) |
		CAP(LIMIT_CPUS) | CAP(LIMIT_PIDS) | CAP(LIMIT_DISK) | CAP(LIMIT_INODES) |
		CAP(LIMIT_FILES) | CAP(LIMIT_FILE_SIZE) | CAP(LIMIT_PROCESS_MEMORY) |
		CAP(LIMIT_CPU_TIME) | CAP(SCRATCH_MEMORY) | CAP(SCRATCH_DISK) | CAP(NET_NONE) |
		CAP(PORTS),
	.probe = oci_probe,
	.create = oci_create,
	.open_guest = cell_guest_connect,
	.destroy = oci_destroy,
	.walls = oci_walls,
};
