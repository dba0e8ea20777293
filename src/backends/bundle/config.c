/* SPDX-License-Identifier: Apache-2.0 */
/*
 * config.c: from a spec to config.json. Everything that makes a wall is said outright: namespaces, no capability, no new
 * privileges, no devices, what of /proc and /sys is covered. The syscall filter is the guest's to take upon itself, so
 * that it does not matter what a runtime was built with.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/bundle/bundle.h"
#include "base/cleanup.h"
#include "base/error.h"

static int no_memory(struct cell_error *err)
{
	return cell_fail_errno(err, ENOMEM, "describe the container");
}

/* --- files --- */

static int add_mount(json_t *mounts, const char *target, const char *type, const char *source,
	const char *options)
{
	json_t *list = json_array();

	for (const char *p = options; *p; p += *p == ',') {
		size_t n = strcspn(p, ",");
		json_array_append_new(list, json_stringn(p, n));
		p += n;
	}
	return json_array_append_new(mounts,
		json_pack("{s:s,s:s,s:s,s:o}", "destination", target, "type", type, "source",
			source, "options", list));
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
	return add_mount(mounts, BUNDLE_RUN_DIR, "tmpfs", "tmpfs",
		"nosuid,nodev,noexec,mode=1777,size=64k");
}

static int add_given(const struct cell_spec *spec, json_t *mounts, struct cell_error *err)
{
	for (size_t i = 0; i < spec->n_mounts; i++) {
		const struct cell_mount *m = &spec->mounts[i];
		auto_free char *source = realpath(m->source, NULL);
		struct stat st;

		if (!source || stat(source, &st) < 0)
			return cell_fail_errno(err, errno, "mount '%s'", m->source);
		if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode) || !strcmp(source, "/")) {
			int r = cell_fail(err, CELL_EINVAL, 0, "mount '%s': it is %s", m->source,
				S_ISDIR(st.st_mode) ? "the host's whole root" : "a device");
			return cell_error_hint(err, r, "cells get neither");
		}
		/* not recursive when read-only: a mount below it would stay writable */
		if (add_mount(mounts, m->target, "bind", source,
			    m->is_read_only ? "bind,ro,nosuid,nodev,rprivate"
					    : "rbind,rw,nosuid,nodev,rprivate") < 0)
			return no_memory(err);
	}
	return 0;
}

static int add_mounts(const struct bundle *b, json_t *mounts, struct cell_error *err)
{
	int r = add_usual(b, mounts);

	r |= add_mount(mounts, BUNDLE_GUEST_DIR, "bind", b->door, "bind,ro,nosuid,nodev,rprivate");
	if (b->reach == BUNDLE_LISTENS)
		r |= add_run(mounts);
	if (b->tmp)
		r |= add_mount(mounts, "/tmp", "bind", b->tmp, "bind,rw,nosuid,nodev,rprivate");
	if (b->spec->workspace)
		r |= add_mount(mounts, BUNDLE_WORKSPACE, "bind", b->spec->workspace,
			"rbind,rw,nosuid,nodev,rprivate");
	return r ? no_memory(err) : add_given(b->spec, mounts, err);
}

/* --- limits --- */

static json_t *resources(const struct bundle *b)
{
	const struct cell_limits *l = &b->spec->limits;
	json_t *r = json_pack("{s:[{s:b,s:s}]}", "devices", "allow", 0, "access", "rwm");
	bool is_burstable = b->spec->resources == CELL_RESOURCES_BURSTABLE;

	if (!b->has_cgroups)
		return r;
	if (l->memory_bytes) /* swap counts as memory: none beyond it */
		json_object_set_new(r, "memory",
			json_pack("{s:I,s:I}", "limit", (json_int_t)l->memory_bytes, "swap",
				(json_int_t)l->memory_bytes));
	if (l->cpu_millis && is_burstable)
		json_object_set_new(r, "cpu",
			json_pack("{s:I}", "shares",
				(json_int_t)(l->cpu_millis < 2 ? 2 : l->cpu_millis * 1024 / 1000)));
	else if (l->cpu_millis)
		json_object_set_new(r, "cpu",
			json_pack("{s:I,s:I}", "quota", (json_int_t)l->cpu_millis * 100, "period",
				(json_int_t)100000));
	if (l->pids && b->has_pids)
		json_object_set_new(r, "pids", json_pack("{s:I}", "limit", (json_int_t)l->pids));
	return r;
}

/* --- the guest --- */

static int add_option(json_t *args, const char *name, const char *value)
{
	return json_array_append_new(args, json_string(name)) |
	       json_array_append_new(args, json_string(value));
}

/* A guest at a door is given most of them with its lease. */
static int add_rlimits(const struct bundle *b, json_t *args)
{
	const struct cell_limits *l = &b->spec->limits;
	bool has_lease = b->reach == BUNDLE_CALLS;
	const struct {
		const char *name;
		uint64_t value;
	} limits[] = {{"nofile", has_lease ? 0 : l->files},
		{"fsize", has_lease ? 0 : l->file_size_bytes},
		{"as", has_lease ? 0 : l->process_memory_bytes},
		{"cpu", has_lease ? 0 : l->cpu_time_s}, {"nproc", b->has_nproc ? l->pids : 0}};
	char text[48];
	int r = 0;

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		(void)snprintf(text, sizeof text, "%s=%llu", limits[i].name,
			(unsigned long long)limits[i].value);
		if (limits[i].value)
			r |= add_option(args, "--rlimit", text);
	}
	return r;
}

static json_t *guest_command(const struct bundle *b)
{
	static const char *const reach[][2] = {
		[BUNDLE_CALLS] = {"--call", BUNDLE_GUEST_DIR "/sock"},
		[BUNDLE_HAS_IT] = {"--fd", "0"},
		[BUNDLE_LISTENS] = {"--listen", BUNDLE_SOCKET}};
	json_t *args = json_pack("[s]", BUNDLE_GUEST_DIR "/guest");
	char ids[40];
	int r = 0;

	(void)snprintf(ids, sizeof ids, "%u:%u", (unsigned)b->uid, (unsigned)b->gid);
	if (b->is_alone) /* first: the filter would not let it */
		r |= add_option(args, "--alone-as", ids);
	r |= add_option(args, "--filter", BUNDLE_GUEST_DIR "/filter");
	r |= add_option(args, reach[b->reach][0], reach[b->reach][1]);
	r |= add_option(args, "--workspace", BUNDLE_WORKSPACE);
	r |= add_option(args, "--home", BUNDLE_HOME);
	r |= add_option(args, "--tmp", "/tmp");
	if (shows_cgroups(b))
		r |= add_option(args, "--oom-cgroup", "/sys/fs/cgroup");
	if (b->has_hold_fd)
		r |= add_option(args, "--hold-fd", "3");
	r |= add_rlimits(b, args);
	if (r == 0)
		return args;
	json_decref(args);
	return NULL;
}

/* None. But Linux lets nobody have root's id in a namespace who could not make root's capabilities of files anyway: the guest that
 * does has that one until it is there, and there none. */
static json_t *capabilities(const struct bundle *b)
{
	static const char *const sets[] = {"bounding", "effective", "permitted"};
	json_t *j = json_object();

	for (size_t i = 0; b->is_alone && i < sizeof sets / sizeof *sets; i++)
		json_object_set_new(j, sets[i], json_pack("[s]", "CAP_SETFCAP"));
	return j;
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

	if (j && b->has_cgroups && b->group)
		json_object_set_new(j, "cgroupsPath", json_string(b->group));
	return j;
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
