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
#include "core/seccomp_file.h"
#include "launcher/seccomp_profiles.h"

static int add(json_t *object, const char *key, json_t *value)
{
	return json_object_set_new(object, key, value);
}

static int no_memory(struct cell_error *err)
{
	return cell_fail_errno(err, ENOMEM, "describe the container");
}

/* --- files --- */

static json_t *bind_mount(const struct engine_plan *p, const char *source, const char *target,
	bool is_ro)
{
	/* before 1.44 only the topmost mount became read-only: then what is mounted below it stays outside */
	bool is_flat = is_ro && (p->e->minor < 44 || p->e->is_libpod);
	json_t *m = json_pack("{s:s,s:s,s:s,s:b}", "Type", "bind", "Source", source, "Target",
		target, "ReadOnly", is_ro);

	if (!is_flat || add(m, "BindOptions", json_pack("{s:b}", "NonRecursive", 1)) == 0)
		return m;
	json_decref(m);
	return NULL;
}

struct mounting {
	const struct engine_plan *p;
	json_t *mounts, *groups;
};

/* container_mount_fn */
static int add_mount(void *user, const struct cell_mount *m, const char *source,
	const struct stat *st, struct cell_error *err)
{
	struct mounting *to = user;
	int r = json_array_append_new(to->mounts,
		bind_mount(to->p, source, m->target, m->is_read_only));

	if (S_ISSOCK(st->st_mode)) /* or it would be there and not to be used */
		r |= json_array_append_new(to->groups, json_sprintf("%u", st->st_gid));
	return r ? no_memory(err) : 0;
}

static int add_scratch(const struct engine_plan *p, json_t *tmpfs)
{
	struct container_scratch parts[3];
	size_t n = container_scratch(p->at.spec, parts);
	unsigned uid = 0, gid = 0;
	char more[100], owner[40] = "";
	int r = 0;

	if (sscanf(p->at.user, "%u:%u", &uid, &gid) == 2)
		(void)snprintf(owner, sizeof owner, ",uid=%u,gid=%u", uid, gid);
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(more, sizeof more, "nr_inodes=%" PRIu64 "%s", parts[i].inodes,
			owner);
		/* podman knows neither owner nor number of files, and would copy what the image has there */
		r |= add(tmpfs, parts[i].path,
			json_sprintf("rw,exec,nosuid,nodev,mode=1777,size=%" PRIu64 ",%s",
				parts[i].bytes, p->e->is_libpod ? "notmpcopyup" : more));
	}
	return r;
}

static int add_files(const struct engine_plan *p, json_t *host, struct cell_error *err)
{
	const struct cell_spec *spec = p->at.spec;
	json_t *mounts = json_object_get(host, "Mounts");
	int r = add_scratch(p, json_object_get(host, "Tmpfs"));

	r |= json_array_append_new(mounts,
		p->at.door
			? bind_mount(p, p->at.door, CONTAINER_GUEST_DIR, true)
			: json_pack("{s:s,s:s}", "Type", "volume", "Target", CONTAINER_GUEST_DIR));
	if (spec->workspace)
		r |= json_array_append_new(mounts,
			bind_mount(p, spec->workspace, CONTAINER_WORKSPACE, false));
	if (spec->limits.disk_bytes && spec->scratch == CELL_SCRATCH_DISK)
		r |= add(host, "StorageOpt",
			json_pack("{s:o}", "size",
				json_sprintf("%" PRIu64, spec->limits.disk_bytes)));
	struct mounting to = {p, mounts, json_object_get(host, "GroupAdd")};
	return r ? no_memory(err) : container_mounts(p->at.c, spec, add_mount, &to, err);
}

/* --- walls --- */

/* A profile in Docker's format, which the engine loads; the built-in ones are the guest's to load, behind the engine's default. */
static int add_filter(const struct engine_plan *p, json_t *host, struct cell_error *err)
{
	const char *path = p->at.spec->seccomp;
	auto_free char *text = NULL;
	int r = !seccomp_chosen(path) ? seccomp_file_text(path, &text, err) : 0;

	if (r < 0)
		return r;
	json_t *options = text ? json_pack("[s,s+]", "no-new-privileges", "seccomp=", text)
			       : json_pack("[s]", "no-new-privileges");
	return add(host, "SecurityOpt", options) < 0 ? no_memory(err) : 0;
}

static json_t *ulimit(const char *name, rlim_t soft, rlim_t hard)
{
	return json_pack("{s:s,s:I,s:I}", "Name", name, "Soft", (json_int_t)soft, "Hard",
		(json_int_t)hard);
}

/* No core dumps. And podman gives 1,048,576 files and processes unless told, which is an error where its own limit is
 * less and it may not raise it: on one machine its limit of files is ours, that of processes may be the kernel's usual
 * highest pid. */
static json_t *ulimits(const struct engine_plan *p)
{
	const rlim_t most = 1048576, most_pids = 32768;
	struct rlimit files, processes;

	if (!p->e->is_libpod || getrlimit(RLIMIT_NOFILE, &files) < 0 ||
		getrlimit(RLIMIT_NPROC, &processes) < 0)
		return json_pack("[o]", ulimit("core", 0, 0));
	rlim_t hard = files.rlim_max < most ? files.rlim_max : most;
	rlim_t count = processes.rlim_max < most_pids ? processes.rlim_max : most_pids;
	return json_pack("[o,o,o]", ulimit("core", 0, 0),
		ulimit("nofile", hard < 1024 ? hard : 1024, hard), ulimit("nproc", count, count));
}

static const char *network(const struct cell_spec *spec)
{
	const char *usual = spec->network == CELL_NETWORK_OPEN ? "default" : "none";

	return spec->network_name ? spec->network_name : usual;
}

/* 0: nothing is said. */
static int add_amount(json_t *host, const char *key, uint64_t n)
{
	return n ? add(host, key, json_integer((json_int_t)n)) : 0;
}

static int add_limits(const struct cell_spec *spec, json_t *host)
{
	const struct cell_limits *l = &spec->limits;
	bool is_burstable = spec->resources == CELL_RESOURCES_BURSTABLE;

	/* swap counts as memory: none beyond it */
	return add_amount(host, "Memory", l->memory_bytes) |
	       add_amount(host, "MemorySwap", l->memory_bytes) |
	       add_amount(host, "CpuShares",
		       l->cpu_millis && is_burstable ? container_cpu_shares(l) : 0) |
	       add_amount(host, "NanoCpus", is_burstable ? 0 : l->cpu_millis * UINT64_C(1000000)) |
	       add_amount(host, "PidsLimit", l->pids) |
	       (spec->gpus ? add(host, "DeviceRequests",
				     json_pack("[{s:i,s:[[s]]}]", "Count", (int)spec->gpus,
					     "Capabilities", "gpu"))
			   : 0);
}

static json_t *host_config(const struct engine_plan *p)
{
	return json_pack("{s:s,s:b,s:b,s:[s],s:s,s:s,s:{s:s},s:o,s:s*,s:[],s:[],s:{},s:b}",
		"NetworkMode", network(p->at.spec), "AutoRemove", 1, "Privileged", 0, "CapDrop",
		"ALL", "IpcMode", "private", "CgroupnsMode", "private", "LogConfig", "Type", "none",
		"Ulimits", ulimits(p), "Runtime", p->at.spec->runtime, "Mounts", "GroupAdd",
		"Tmpfs", "ReadonlyRootfs", container_is_read_only(p->at.spec));
}

int engine_container(const struct engine_plan *p, json_t **ret, struct cell_error *err)
{
	const char *id = json_text_at(p->image, "Id");
	json_t *host = host_config(p);
	/* by its digest: the one we looked at, whatever its name is given to meanwhile */
	json_auto_t *j = json_pack("{s:s,s:s,s:o,s:[],s:s,s:s,s:{s:[s]},s:o,s:o}", "Image",
		id ? id : p->at.spec->image, "User", p->at.user, "Entrypoint",
		container_args(&p->at), "Cmd", "WorkingDir", "/", "Hostname", "cell", "Healthcheck",
		"Test", "NONE", "Labels", container_labels(&p->at), "HostConfig", host);
	int r = !j || add_limits(p->at.spec, host) ? no_memory(err) : add_filter(p, host, err);
	if (r == 0)
		r = add_files(p, host, err);
	if (r == 0)
		*ret = steal_ptr(j);
	return r;
}
