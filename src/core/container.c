/* SPDX-License-Identifier: Apache-2.0 */
#include "core/container.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "base/error.h"

#define SCRATCH_BYTES (UINT64_C(1) << 30) /* of each file system in memory, when nothing is said */
#define MEMORY_MIN    (UINT64_C(6) << 20)
#define PAGE_BYTES    UINT64_C(4096)

int container_name(const struct cell *c, char ret[CONTAINER_NAME_SIZE], struct cell_error *err)
{
	uint64_t number;

	if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
		return cell_fail_errno(err, errno, "choose a name for the container");
	(void)snprintf(ret, CONTAINER_NAME_SIZE, "cell-%.50s-%016" PRIx64, cell_name(c), number);
	return 0;
}

void container_snapshot(const char *id, char ret[CONTAINER_SNAPSHOT_SIZE])
{
	(void)snprintf(ret, CONTAINER_SNAPSHOT_SIZE, CONTAINER_SNAPSHOTS ":%.64s", id);
}

int container_owner(const struct cell_spec *spec, uid_t *ret_uid, gid_t *ret_gid,
	struct cell_error *err)
{
	struct stat st = {.st_uid = CONTAINER_UID, .st_gid = CONTAINER_UID};

	if (spec->workspace && stat(spec->workspace, &st) < 0)
		return cell_fail_errno(err, errno, "workspace '%s'", spec->workspace);
	*ret_uid = st.st_uid;
	*ret_gid = st.st_gid;
	return 0;
}

/* ---- its guest ---- */

static int add_option(json_t *args, const char *name, const char *value)
{
	return json_array_append_new(args, json_string(name)) |
	       json_array_append_new(args, json_string(value));
}

/* A guest at a door is given most of them with its lease. */
static int add_rlimits(const struct container_guest *g, json_t *args)
{
	const struct cell_limits *l = g->limits;
	bool has_lease = g->reach == CONTAINER_CALLS;
	const struct {
		const char *name;
		uint64_t value;
	} limits[] = {{"nofile", has_lease ? 0 : l->files},
		{"fsize", has_lease ? 0 : l->file_size_bytes},
		{"as", has_lease ? 0 : l->process_memory_bytes},
		{"cpu", has_lease ? 0 : l->cpu_time_s}, {"nproc", g->has_nproc ? l->pids : 0}};
	char text[48];
	int r = 0;

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		(void)snprintf(text, sizeof text, "%s=%" PRIu64, limits[i].name, limits[i].value);
		if (limits[i].value)
			r |= add_option(args, "--rlimit", text);
	}
	return r;
}

json_t *container_guest_args(const struct container_guest *g)
{
	static const char *const reach[][2] = {
		[CONTAINER_CALLS] = {"--call", CONTAINER_GUEST_DIR "/sock"},
		[CONTAINER_HAS_IT] = {"--fd", "0"},
		[CONTAINER_LISTENS] = {"--listen", CONTAINER_SOCKET},
		[CONTAINER_LISTENS_ONCE] = {"--listen-once", CONTAINER_SOCKET}};
	json_t *args = json_pack("[s]", CONTAINER_GUEST);
	int r = 0;

	if (g->alone_as) /* first: the filter would not let it */
		r |= add_option(args, "--alone-as", g->alone_as);
	if (g->has_floor)
		r |= add_option(args, "--filter", CONTAINER_GUEST_DIR "/floor");
	r |= add_option(args, "--filter", CONTAINER_GUEST_DIR "/filter");
	r |= add_option(args, reach[g->reach][0], reach[g->reach][1]);
	r |= add_option(args, "--workspace", CONTAINER_WORKSPACE);
	r |= add_option(args, "--home", CONTAINER_HOME);
	r |= add_option(args, "--tmp", "/tmp");
	if (g->sees_cgroup)
		r |= add_option(args, "--oom-cgroup", "/sys/fs/cgroup");
	if (g->has_hold_fd)
		r |= add_option(args, "--hold-fd", "3");
	r |= add_rlimits(g, args);
	if (r == 0)
		return args;
	json_decref(args);
	return NULL;
}

/* ---- its files ---- */

bool container_is_read_only(const struct cell_spec *spec)
{
	return spec->scratch == CELL_SCRATCH_MEMORY ||
	       (spec->limits.disk_bytes && spec->scratch != CELL_SCRATCH_DISK);
}

size_t container_scratch(const struct cell_spec *spec, struct container_scratch ret[3])
{
	bool is_private = !spec->workspace;
	bool is_shared = spec->limits.disk_bytes && container_is_read_only(spec);
	const struct {
		const char *path;
		unsigned share; /* of eight */
	} parts[] = {{"/tmp", is_private ? 2 : 4}, {CONTAINER_HOME, is_private ? 2 : 4},
		{CONTAINER_WORKSPACE, 4}};
	size_t n = is_private ? 3 : 2;

	for (size_t i = 0; i < n; i++) {
		uint64_t bytes =
			is_shared ? spec->limits.disk_bytes / 8 * parts[i].share : SCRATCH_BYTES;
		bytes = bytes < PAGE_BYTES ? PAGE_BYTES : bytes;
		ret[i] = (struct container_scratch){parts[i].path, bytes, bytes / PAGE_BYTES + 64};
	}
	return n;
}

static int mark_engine_socket(struct cell *c, const char *path, struct cell_error *err)
{
	static const char *const engines[] = {"containerd", "docker", "podman"};
	const char *slash = strrchr(path, '/');

	for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
		if (!strstr(slash ? slash : path, engines[i]))
			continue;
		cell_degrade(c, CELL_CAP_HIDE_FILES);
		cell_degrade(c, CELL_CAP_HIDE_PROCESSES);
		return cell_note_set(c, "void_walls", path, err);
	}
	return 0;
}

int container_mounts(struct cell *c, const struct cell_spec *spec, container_mount_fn fn,
	void *user, struct cell_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < spec->n_mounts; i++) {
		const struct cell_mount *m = &spec->mounts[i];
		auto_free char *source = realpath(m->source, NULL);
		struct stat st;

		if (!source || stat(source, &st) < 0)
			return cell_fail_errno(err, errno, "mount '%s'", m->source);
		if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) {
			r = cell_fail(err, CELL_EINVAL, 0, "mount '%s': it is a device", m->source);
			return cell_error_hint(err, r, "cells get no devices of the host");
		}
		if (!strcmp(source, "/")) {
			r = cell_fail(err, CELL_EINVAL, 0, "mount '%s': the host's whole root",
				m->source);
			return cell_error_hint(err, r, "name the directories that are needed");
		}
		if (S_ISSOCK(st.st_mode))
			r = mark_engine_socket(c, source, err);
		if (r == 0)
			r = fn(user, m, source, &st, err);
	}
	return r;
}

/* ---- its limits ---- */

int container_check_memory(const struct cell_limits *l, struct cell_error *err)
{
	if (!l->memory_bytes || l->memory_bytes >= MEMORY_MIN)
		return 0;
	int r = cell_fail(err, CELL_EINVAL, 0, "limits.memory: %" PRIu64 " bytes hold no container",
		l->memory_bytes);
	return cell_error_hint(err, r, "give at least 6m; most programs want 16m and more");
}

uint64_t container_cpu_shares(const struct cell_limits *l)
{
	return l->cpu_millis < 2 ? 2 : (uint64_t)l->cpu_millis * 1024 / 1000;
}

/* ---- its walls, in words ---- */

static const char *text_or(const char *text, const char *otherwise)
{
	return text ? text : otherwise;
}

int container_walls_tell(const struct container_walls *w, cell_wall_fn fn, void *user)
{
	const struct cell_wall walls[] = {
		{.name = w->maker, .how = w->how},
		{.name = "kernel", .how = w->kernel, .better = w->kernel_better},
		{.name = "ids",
			.how = text_or(w->ids, "root of a container would be root outside: cells "
					       "are another user"),
			.better = w->ids ? w->ids_better
					 : text_or(w->ids_better,
						   "an id for each cell, as in the jail")},
		{.name = "privileges", .how = "no capability, no_new_privs"},
		{.name = "processes", .how = "own pid, ipc, uts and cgroup namespaces"},
		{.name = "syscalls",
			.how = text_or(w->syscalls, "seccomp: Cell's profile, taken by the guest")},
		{.name = "files", .how = w->files},
		{.name = "network", .how = text_or(w->network, "none: an empty namespace")},
		{.name = "limits",
			.how = text_or(w->limits,
				"memory with swap, cpus, pids by the runtime's cgroups"),
			.is_weak = w->is_unlimited},
		{.name = "disk",
			.how = text_or(w->disk, "with limits.disk: read-only root, the rest in "
						"memory, with a size")},
	};
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof walls / sizeof *walls; i++)
		if (walls[i].how)
			r = fn(&walls[i], user);
	return r;
}
