/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container.c: from a spec to a container. Everything that makes a wall is said outright, whatever the engine's own
 * defaults are: no capability, no new privileges, the default system call filter or the given one, namespaces of its own, no
 * log of the engine's, no network unless asked for.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cell/cell.h"

#include "backends/engine/engine.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "launcher/seccomp_profiles.h"

#define SCRATCH_BYTES (UINT64_C(1) << 30) /* of each file system in memory, when nothing is said */

static int add(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value);
}

static int no_memory(struct cell_error *err)
{
	return cell_fail_errno(err, ENOMEM, "describe the container");
}

/* --- files --- */

static bool is_read_only(const struct cell_spec *spec)
{
	return spec->scratch == CELL_SCRATCH_MEMORY ||
	       (spec->limits.disk_bytes && spec->scratch != CELL_SCRATCH_DISK);
}

static int add_bind(const struct engine_plan *p, json_t *mounts, const char *source,
	const char *target, bool is_ro)
{
	unsigned minor = 0;
	json_t *m = json_pack("{s:s,s:s,s:s,s:b}", "Type", "bind", "Source", source, "Target",
		target, "ReadOnly", is_ro);

	(void)sscanf(p->engine->version, "/v1.%u", &minor);
	/* before 1.44 only the topmost mount became read-only: then what is mounted below it stays outside */
	if (is_ro && (minor < 44 || p->engine->is_libpod))
		(void)add(m, "BindOptions", json_pack("{s:b}", "NonRecursive", 1));
	return json_array_append_new(mounts, m);
}

/* The socket of an engine gives its holder the whole machine. It may be asked for, but not silently. */
static int note_socket(const struct engine_plan *p, const char *path, const struct stat *st,
	json_t *groups, struct cell_error *err)
{
	char gid[16];
	const char *name = strrchr(path, '/');

	(void)snprintf(gid, sizeof gid, "%u", st->st_gid);
	if (json_array_append_new(groups, json_string(gid)) < 0)
		return no_memory(err);
	if (!strstr(name ? name : path, "docker") && !strstr(name ? name : path, "podman") &&
		!strstr(name ? name : path, "containerd"))
		return 0;
	cell_degrade(p->c, CELL_CAP_HIDE_FILES);
	cell_degrade(p->c, CELL_CAP_HIDE_PROCESSES);
	return cell_note_set(p->c, "void_walls", path, err);
}

static int add_mounts(const struct engine_plan *p, json_t *mounts, json_t *groups,
	struct cell_error *err)
{
	for (size_t i = 0; i < p->spec->n_mounts; i++) {
		const struct cell_mount *m = &p->spec->mounts[i];
		auto_free char *source = realpath(m->source, NULL);
		struct stat st;

		if (!source || stat(source, &st) < 0)
			return cell_fail_errno(err, errno, "mount '%s'", m->source);
		if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) {
			int r = cell_fail(err, CELL_EINVAL, 0, "mount '%s': it is a device",
				m->source);
			return cell_error_hint(err, r, "cells get no devices of the host");
		}
		if (!strcmp(source, "/")) {
			int r = cell_fail(err, CELL_EINVAL, 0, "mount '%s': the host's whole root",
				m->source);
			return cell_error_hint(err, r, "name the directories that are needed");
		}
		int r = S_ISSOCK(st.st_mode) ? note_socket(p, source, &st, groups, err) : 0;
		if (r < 0)
			return r;
		if (add_bind(p, mounts, source, m->target, m->is_read_only) < 0)
			return no_memory(err);
	}
	return 0;
}

int engine_user(const struct engine_plan *p, char ret[128], struct cell_error *err)
{
	unsigned uid = ENGINE_UID, gid = ENGINE_UID;
	struct stat st;

	if (p->spec->user) {
		(void)snprintf(ret, 128, "%.127s", p->spec->user);
		return 0;
	}
	if (p->spec->workspace) { /* files in it stay with whom it belongs to */
		if (stat(p->spec->workspace, &st) < 0)
			return cell_fail_errno(err, errno, "workspace '%s'", p->spec->workspace);
		uid = st.st_uid;
		gid = st.st_gid;
		if (p->engine->info
				.is_rootless) { /* we are its root; others have ids we cannot know */
			if (uid != geteuid()) {
				int r = cell_fail(err, CELL_EDENIED, 0,
					"workspace '%s' is not yours, and a rootless engine cannot "
					"be "
					"its owner",
					p->spec->workspace);
				return cell_error_hint(err, r, "use a directory of your own");
			}
			uid = gid = 0;
		}
	}
	(void)snprintf(ret, 128, "%u:%u", uid, gid);
	return 0;
}

/* /tmp, HOME and a private workspace are in memory, and have a size. With a limit of the disk they share it, and
 * the rest of the container cannot be written to. */
static int add_scratch(const struct engine_plan *p, json_t *tmpfs, const char *user)
{
	const struct cell_limits *l = &p->spec->limits;
	bool is_private = !p->spec->workspace;
	unsigned uid = 0, gid = 0;
	char text[200], more[80];
	const struct {
		const char *path;
		unsigned share; /* of eight */
		bool is_wanted;
	} parts[] = {{"/tmp", is_private ? 2 : 4, true}, {ENGINE_HOME, is_private ? 2 : 4, true},
		{ENGINE_WORKSPACE, 4, is_private}};

	bool is_known = sscanf(user, "%u:%u", &uid, &gid) == 2;
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		uint64_t size = l->disk_bytes && is_read_only(p->spec)
					? l->disk_bytes / 8 * parts[i].share
					: SCRATCH_BYTES;
		size = size < 4096 ? 4096 : size;
		/* podman knows neither owner nor number of files, and would copy what the image has there */
		(void)snprintf(more, sizeof more, ",notmpcopyup");
		if (!p->engine->is_libpod) {
			int n = snprintf(more, sizeof more, ",nr_inodes=%" PRIu64,
				size / 4096 + 64);
			if (is_known)
				(void)snprintf(more + n, sizeof more - (size_t)n, ",uid=%u,gid=%u",
					uid, gid);
		}
		(void)snprintf(text, sizeof text,
			"rw,exec,nosuid,nodev,mode=1777,size=%" PRIu64 "%s", size, more);
		if (parts[i].is_wanted && add(tmpfs, parts[i].path, json_string(text)) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_files(const struct engine_plan *p, json_t *host, const char *user,
	struct cell_error *err)
{
	const struct cell_spec *spec = p->spec;
	json_t *mounts = json_array(), *groups = json_array(), *tmpfs = json_object();
	int r = add(host, "Mounts", mounts) | add(host, "GroupAdd", groups) |
		add(host, "Tmpfs", tmpfs) |
		add(host, "ReadonlyRootfs", json_boolean(is_read_only(spec)));

	if (r == 0)
		r = p->door ? add_bind(p, mounts, p->door, ENGINE_GUEST_DIR, true)
			    : json_array_append_new(mounts, json_pack("{s:s,s:s}", "Type", "volume",
								    "Target", ENGINE_GUEST_DIR));
	if (r == 0 && spec->workspace)
		r = add_bind(p, mounts, spec->workspace, ENGINE_WORKSPACE, false);
	if (r == 0)
		r = add_scratch(p, tmpfs, user);
	if (r != 0)
		return no_memory(err);
	r = cell_degrade_workspace(p->c, spec, err);
	if (r < 0)
		return r;
	if (spec->limits.disk_bytes && spec->scratch == CELL_SCRATCH_DISK) {
		char size[32];
		if (p->engine->is_libpod) { /* which would leave it out */
			r = cell_fail(err, CELL_ENOTSUP, 0,
				"limits.disk: Podman cannot limit what is on disk");
			return cell_error_hint(err, r, "use --scratch memory");
		}
		(void)snprintf(size, sizeof size, "%llu",
			(unsigned long long)spec->limits.disk_bytes);
		if (add(host, "StorageOpt", json_pack("{s:s}", "size", size)) < 0)
			return no_memory(err);
	}
	return add_mounts(p, mounts, groups, err);
}

/* --- limits --- */

static int add_limits(const struct engine_plan *p, json_t *host, struct cell_error *err)
{
	const struct cell_limits *l = &p->spec->limits;
	bool is_burstable = p->spec->resources == CELL_RESOURCES_BURSTABLE;
	json_int_t memory = (json_int_t)l->memory_bytes;
	int r = 0;

	/* an engine refuses a limit that its kernel has not got, but for memory, which it leaves out */
	if (memory && memory < 6 << 20) {
		r = cell_fail(err, CELL_EINVAL, 0, "limits.memory: %lld bytes hold no container",
			(long long)memory);
		return cell_error_hint(err, r, "give at least 6m; most programs want 16m and more");
	}
	if (memory) /* swap counts as memory: none beyond it */
		r = add(host, "Memory", json_integer(memory)) |
		    add(host, "MemorySwap", json_integer(memory));
	if (l->cpu_millis && is_burstable)
		r |= add(host, "CpuShares",
			json_integer(l->cpu_millis < 2 ? 2 : l->cpu_millis * 1024 / 1000));
	else if (l->cpu_millis)
		r |= add(host, "NanoCpus", json_integer((json_int_t)l->cpu_millis * 1000000));
	if (l->pids)
		r |= add(host, "PidsLimit", json_integer(l->pids));
	return r ? no_memory(err) : 0;
}

/* --- walls --- */

const struct sock_fprog *engine_filter(const char *seccomp)
{
	const struct sock_fprog *program = seccomp_profile(seccomp ? seccomp : "default");

	return program ? program : seccomp_profile("floor");
}

static int read_profile(const char *path, char **ret, struct cell_error *err)
{
	json_error_t why;
	json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, &why);

	if (!j) {
		int r = cell_fail(err, CELL_EINVAL, 0, "seccomp '%s': %s", path, why.text);
		return cell_error_hint(err, r, "give a profile in Docker's JSON format");
	}
	*ret = json_dumps(j, JSON_COMPACT);
	json_decref(j);
	return *ret ? 0 : no_memory(err);
}

static int add_ulimit(json_t *list, const char *name, rlim_t soft, rlim_t hard)
{
	return json_array_append_new(list, json_pack("{s:s,s:I,s:I}", "Name", name, "Soft",
						   (json_int_t)soft, "Hard", (json_int_t)hard));
}

/* No core dumps. And podman gives 1,048,576 files and processes unless told, which is an error where its own limit is
 * less and it may not raise it: on one machine its limit of files is ours, that of processes may be the kernel's usual
 * highest pid. */
static int add_ulimits(const struct engine_plan *p, json_t *host)
{
	const rlim_t most = 1048576, most_pids = 32768;
	json_t *list = json_array();
	struct rlimit files, processes;
	int r = add(host, "Ulimits", list) | add_ulimit(list, "core", 0, 0);

	if (!p->engine->is_libpod || getrlimit(RLIMIT_NOFILE, &files) < 0 ||
		getrlimit(RLIMIT_NPROC, &processes) < 0)
		return r;
	rlim_t hard = files.rlim_max < most ? files.rlim_max : most;
	rlim_t count = processes.rlim_max < most_pids ? processes.rlim_max : most_pids;
	return r | add_ulimit(list, "nofile", hard < 1024 ? hard : 1024, hard) |
	       add_ulimit(list, "nproc", count, count);
}

static int add_walls(const struct engine_plan *p, json_t *host, struct cell_error *err)
{
	const struct cell_spec *spec = p->spec;
	const char *profile = spec->seccomp;
	json_t *options = json_pack("[s]", "no-new-privileges");
	int r = add(host, "SecurityOpt", options) | add(host, "CapDrop", json_pack("[s]", "ALL")) |
		add(host, "Privileged", json_false()) |
		add(host, "IpcMode", json_string("private")) |
		add(host, "CgroupnsMode", json_string("private")) |
		add(host, "LogConfig", json_pack("{s:s}", "Type", "none")) | add_ulimits(p, host);

	if (spec->runtime)
		r |= add(host, "Runtime", json_string(spec->runtime));
	if (spec->gpus)
		r |= add(host, "DeviceRequests",
			json_pack("[{s:i,s:[[s]]}]", "Count", (int)spec->gpus, "Capabilities",
				"gpu"));
	if (r != 0)
		return no_memory(err);
	/* the built-in ones are the guest's to load, behind the engine's default */
	if (profile && !seccomp_profile(profile)) {
		auto_free char *json = NULL;
		auto_free char *option = NULL;

		r = read_profile(profile, &json, err);
		if (r < 0)
			return r;
		if (asprintf(&option, "seccomp=%s", json) < 0) {
			option = NULL;
			return no_memory(err);
		}
		if (json_array_append_new(options, json_string(option)) < 0)
			return no_memory(err);
	}
	return 0;
}

static const char *network(const struct cell_spec *spec)
{
	if (spec->network_name)
		return spec->network_name;
	return spec->network == CELL_NETWORK_OPEN ? "default" : "none";
}

static json_t *guest_command(const struct engine_plan *p)
{
	const char *how = p->door		    ? "--call"
			  : cell_is_ephemeral(p->c) ? "--listen-once"
						    : "--listen";

	return json_pack("[s,s,s,s,s,s,s,s,s,s,s,s,s]", ENGINE_GUEST, "--filter", ENGINE_FILTER,
		how, p->door ? ENGINE_GUEST_DIR "/sock" : ENGINE_SOCKET, "--workspace",
		ENGINE_WORKSPACE, "--home", ENGINE_HOME, "--tmp", "/tmp", "--oom-cgroup",
		"/sys/fs/cgroup");
}

/* A far guest gets with its command what a near one is given with its lease. */
static int add_rlimits(const struct engine_plan *p, json_t *command)
{
	const struct cell_limits *l = &p->spec->limits;
	const struct {
		const char *name;
		uint64_t value;
	} limits[] = {{"nofile", l->files}, {"fsize", l->file_size_bytes},
		{"as", l->process_memory_bytes}, {"cpu", l->cpu_time_s}};
	char text[48];

	for (size_t i = 0; !p->door && i < sizeof limits / sizeof *limits; i++) {
		(void)snprintf(text, sizeof text, "%s=%llu", limits[i].name,
			(unsigned long long)limits[i].value);
		if (limits[i].value &&
			(json_array_append_new(command, json_string("--rlimit")) < 0 ||
				json_array_append_new(command, json_string(text)) < 0))
			return -ENOMEM;
	}
	return 0;
}

int engine_container(const struct engine_plan *p, json_t **ret, struct cell_error *err)
{
	const char *id = json_string_value(json_object_get(p->image, "Id"));
	json_t *host = json_object(), *command = guest_command(p);
	char user[128], state[CELL_STATE_ID_SIZE] = "";
	int r = engine_user(p, user, err);

	if (r == 0)
		r = cell_state_id(p->c, state, err);
	/* by its digest: the one we looked at, whatever its name is given to meanwhile */
	json_t *j = json_pack("{s:s,s:s,s:o,s:[],s:s,s:s,s:{s:[s]},s:{s:s,s:s,s:s},s:o}", "Image",
		id ? id : p->spec->image, "User", r < 0 ? "" : user, "Entrypoint", command, "Cmd",
		"WorkingDir", "/", "Hostname", "cell", "Healthcheck", "Test", "NONE", "Labels",
		"cell.name", cell_name(p->c), "cell.directory", cell_directory(p->c),
		ENGINE_STATE_LABEL, state, "HostConfig", host);
	if (!j)
		return r < 0 ? r : no_memory(err);
	if (r == 0 &&
		(add(host, "NetworkMode", json_string(network(p->spec))) < 0 ||
			add(host, "AutoRemove", json_true()) < 0 || add_rlimits(p, command) < 0))
		r = no_memory(err);
	if (r == 0)
		r = add_walls(p, host, err);
	if (r == 0)
		r = add_limits(p, host, err);
	if (r == 0)
		r = add_files(p, host, user, err);
	if (r < 0) {
		json_decref(j);
		return r;
	}
	*ret = j;
	return 0;
}
