/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c: from a spec to config.json. Everything that makes a wall is said outright: namespaces, no capability, no new
 * privileges, no devices, what of /proc and /sys is covered. The syscall filter is the guest's to take upon itself, so
 * that it does not matter what a runtime was built with.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "backends/bundle/bundle.h"
#include "base/error.h"

static int no_memory(struct cell_error *err)
{
	return cell_fail_errno(err, ENOMEM, "describe the container");
}

/* r: whether all of it could be added. A wall that is left out for want of memory would be worse than an error. */
static json_t *whole(json_t *j, int r)
{
	if (r == 0)
		return j;
	json_decref(j);
	return NULL;
}

/* --- files --- */

static int add_mount(json_t *mounts, const char *target, const char *type, const char *source,
	const char *options)
{
	json_t *list = json_array();
	int r = 0;

	for (const char *p = options; *p; p += *p == ',') {
		size_t n = strcspn(p, ",");
		r |= json_array_append_new(list, json_stringn(p, n));
		p += n;
	}
	return json_array_append_new(mounts,
		json_pack("{s:s,s:s,s:s,s:o}", "destination", target, "type", type, "source",
			source, "options", whole(list, r)));
}

/* Programs look there for their limits. Without any there is nothing to see, and a dozen mounts are spared. */
static bool shows_cgroups(const struct bundle *b)
{
	const struct cell_limits *l = &b->spec->limits;

	return b->has_cgroups && (l->memory_bytes || l->cpu_millis || l->pids);
}

static int add_usual(const struct bundle *b, json_t *mounts)
{
	static const struct {
		const char *target, *type, *options;
	} usual[] = {
		{"/proc", "proc", "nosuid,noexec,nodev"},
		{"/dev", "tmpfs", "nosuid,strictatime,mode=755,size=65536k"},
		{"/dev/pts", "devpts", "nosuid,noexec,newinstance,ptmxmode=0666,mode=0620,max=256"},
		{"/dev/shm", "tmpfs", "nosuid,noexec,nodev,mode=1777,size=65536k"},
		{"/sys", "sysfs", "nosuid,noexec,nodev,ro"},
	};
	int r = 0;

	for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
		r |= add_mount(mounts, usual[i].target, usual[i].type, usual[i].type,
			usual[i].options);
	if (shows_cgroups(b))
		r |= add_mount(mounts, "/sys/fs/cgroup", "cgroup", "cgroup",
			"nosuid,noexec,nodev,relatime,ro");
	return r;
}

/* Where the guest listens. Not by owner, which gVisor does not know for such a mount: everybody in a cell is its one user, and the socket
 * says so again. */
static int add_run(json_t *mounts)
{
	return add_mount(mounts, CONTAINER_RUN_DIR, "tmpfs", "tmpfs",
		"nosuid,nodev,noexec,mode=1777,size=64k");
}

/* container_mount_fn */
static int add_given(void *mounts, const struct cell_mount *m, const char *source,
	const struct stat *st, struct cell_error *err)
{
	(void)st;
	/* not recursive when read-only: a mount below it would stay writable */
	return add_mount(mounts, m->target, "bind", source,
		       m->is_read_only ? "bind,ro,nosuid,nodev,rprivate"
				       : "rbind,rw,nosuid,nodev,rprivate") < 0
		       ? no_memory(err)
		       : 0;
}

static int add_mounts(const struct bundle *b, json_t *mounts, struct cell_error *err)
{
	int r = add_usual(b, mounts);

	r |= add_mount(mounts, CONTAINER_GUEST_DIR, "bind", b->door,
		"bind,ro,nosuid,nodev,rprivate");
	if (b->reach == CONTAINER_LISTENS)
		r |= add_run(mounts);
	if (b->tmp)
		r |= add_mount(mounts, "/tmp", "bind", b->tmp, "bind,rw,nosuid,nodev,rprivate");
	if (b->spec->workspace)
		r |= add_mount(mounts, CONTAINER_WORKSPACE, "bind", b->spec->workspace,
			"rbind,rw,nosuid,nodev,rprivate");
	return r ? no_memory(err) : container_mounts(b->c, b->spec, add_given, mounts, err);
}

/* --- limits --- */

static json_t *resources(const struct bundle *b)
{
	const struct cell_limits *l = &b->spec->limits;
	json_t *j = json_pack("{s:[{s:b,s:s}]}", "devices", "allow", 0, "access", "rwm");
	bool is_burstable = b->spec->resources == CELL_RESOURCES_BURSTABLE;
	int r = 0;

	if (!b->has_cgroups)
		return j;
	if (l->memory_bytes && b->has_memory) /* swap counts as memory: none beyond it */
		r |= json_object_set_new(j, "memory",
			json_pack("{s:I,s:I}", "limit", (json_int_t)l->memory_bytes, "swap",
				(json_int_t)l->memory_bytes));
	if (l->cpu_millis && b->has_cpus && is_burstable)
		r |= json_object_set_new(j, "cpu",
			json_pack("{s:I}", "shares", (json_int_t)container_cpu_shares(l)));
	else if (l->cpu_millis && b->has_cpus)
		r |= json_object_set_new(j, "cpu",
			json_pack("{s:I,s:I}", "quota", (json_int_t)l->cpu_millis * 100, "period",
				(json_int_t)100000));
	if (l->pids && b->has_pids)
		r |= json_object_set_new(j, "pids",
			json_pack("{s:I}", "limit", (json_int_t)l->pids));
	return whole(j, r);
}

/* --- the guest --- */

static json_t *guest_command(const struct bundle *b)
{
	char ids[40];
	const struct container_guest g = {.reach = b->reach,
		.limits = &b->spec->limits,
		.alone_as = b->is_alone ? ids : NULL,
		.has_floor = b->has_floor,
		.sees_cgroup = shows_cgroups(b),
		.has_hold_fd = b->has_hold_fd,
		.has_nproc = b->has_nproc};

	(void)snprintf(ids, sizeof ids, "%u:%u", (unsigned)b->uid, (unsigned)b->gid);
	return container_guest_args(&g);
}

/* None. But Linux lets nobody have root's id in a namespace who could not make root's capabilities of files anyway: the guest that
 * does has that one until it is there, and there none. */
static json_t *capabilities(const struct bundle *b)
{
	static const char *const sets[] = {"bounding", "effective", "permitted"};
	json_t *j = json_object();
	int r = 0;

	for (size_t i = 0; b->is_alone && i < sizeof sets / sizeof *sets; i++)
		r |= json_object_set_new(j, sets[i], json_pack("[s]", "CAP_SETFCAP"));
	return whole(j, r);
}

static json_t *process(const struct bundle *b)
{
	return json_pack("{s:{s:I,s:I},s:o,s:[s],s:s,s:b,s:o,s:[{s:s,s:i,s:i}]}", "user", "uid",
		(json_int_t)(b->is_alone ? 0 : b->uid), "gid",
		(json_int_t)(b->is_alone ? 0 : b->gid), "args", guest_command(b), "env",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "cwd", "/",
		"noNewPrivileges", 1, "capabilities", capabilities(b), "rlimits", "type",
		"RLIMIT_CORE", "hard", 0, "soft", 0);
}

/* --- the whole --- */

static json_t *kernel_part(const struct bundle *b)
{
	json_t *j =
		json_pack("{s:[{s:s},{s:s},{s:s},{s:s},{s:s},{s:s}],s:o,s:[s,s,s,s,s,s,s,s,s,s],"
			  "s:[s,s,s,s,s]}",
			"namespaces", "type", "pid", "type", "mount", "type", "ipc", "type", "uts",
			"type", "network", "type", "cgroup", "resources", resources(b),
			"maskedPaths", "/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys",
			"/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug",
			"/proc/scsi", "/proc/kallsyms", "/sys/firmware", "readonlyPaths",
			"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger");

	return b->has_cgroups && b->group
		       ? whole(j, json_object_set_new(j, "cgroupsPath", json_string(b->group)))
		       : j;
}

int bundle_config(const struct bundle *b, json_t **ret, struct cell_error *err)
{
	json_t *mounts = json_array();
	int r = add_mounts(b, mounts, err);

	if (r < 0) {
		json_decref(mounts);
		return r;
	}
	*ret = json_pack("{s:s,s:o,s:{s:s,s:b},s:s,s:o,s:o}", "ociVersion", "1.0.2", "process",
		process(b), "root", "path", b->root, "readonly", 0, "hostname", "cell", "mounts",
		mounts, "linux", kernel_part(b));
	return *ret ? 0 : no_memory(err);
}

const struct cell_known_words bundle_words[] = {{"no space left", CELL_ENOSPACE, NULL},
	{"hybrid", CELL_OK, "this runtime wants cgroup v2 alone: use --runtime runc"},
	{NULL, CELL_OK, NULL}};
