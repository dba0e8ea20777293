/* SPDX-License-Identifier: Apache-2.0 */
/*
 * container.c: what a cell is to containerd: a snapshot of its image, a container that says how to run it, and a task that runs. All
 * three have the same name, which is in the cell's record before the first of them exists, and labels that say whose they are.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cell/cell.h"

#include "backends/bundle/bundle.h"
#include "backends/containerd/ctd.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/image/image.h"
#include "net/protobuf.h"

#define SHIM_TRIES   60
#define REMOVE_TRIES 100
#define RUNC_SHIM    "io.containerd.runc.v2"
#define SPEC_TYPE    "types.containerd.io/opencontainers/runtime-spec/1/Spec"
#define GROUP	     "cell-containerd-" /* how its cgroups' names begin */

static int no_memory(struct cell_error *err)
{
	return cell_fail_errno(err, ENOMEM, "describe the container");
}

/* ---- the spec ---- */

/* They come before all other mounts, which may lie in them. */
static int add_scratch(const struct cell_spec *spec, json_t *mounts, uid_t uid, gid_t gid)
{
	struct container_scratch parts[3];
	size_t n = container_scratch(spec, parts);
	int r = 0;

	for (size_t i = 0; i < n; i++)
		r |= json_array_insert_new(mounts, 0,
			json_pack("{s:s,s:s,s:s,s:[s,s,s,o,o,o,o]}", "destination", parts[i].path,
				"type", "tmpfs", "source", "tmpfs", "options", "nosuid", "nodev",
				"mode=1777", json_sprintf("size=%" PRIu64, parts[i].bytes),
				json_sprintf("nr_inodes=%" PRIu64, parts[i].inodes),
				json_sprintf("uid=%u", uid), json_sprintf("gid=%u", gid)));
	return r;
}

/* Where the image's files are on this machine: the directories of the mounts that make its root, lowest first. */
struct roots {
	char *text;
	const char *list[CELL_IMAGE_MAX_LAYERS + 1];
	size_t n;
};

static int find_roots(const struct buf *mounts, struct roots *ret)
{
	struct pb_field mount, f;
	char *lower = NULL;

	if (!pb_find(mounts->data, mounts->len, 1, &mount))
		return 0;
	struct pb_reader r = pb_read(mount.data, mount.size);
	while (pb_next(&r, &f)) {
		bool is_lower = f.number == 4 && f.size > 9 && !memcmp(f.data, "lowerdir=", 9);

		if (!is_lower && (f.number != 2 || f.size == 0 || f.data[0] != '/'))
			continue;
		free(ret->text);
		ret->text = strndup((const char *)f.data, f.size);
		if (!ret->text)
			return -ENOMEM;
		lower = is_lower ? ret->text + 9 : ret->text;
	}
	/* overlay has the topmost first */
	for (char *at = lower ? ret->text + strlen(ret->text) : NULL;
		at && ret->n < CELL_IMAGE_MAX_LAYERS;) {
		*at = '\0';
		char *colon = strrchr(lower, ':');
		ret->list[ret->n++] = colon ? colon + 1 : lower;
		at = colon;
	}
	return 0;
}

static int choose_user(const struct cell_spec *spec, const struct buf *mounts, uid_t *uid,
	gid_t *gid, struct cell_error *err)
{
	struct roots roots = {0};
	char end;
	int n = spec->user ? sscanf(spec->user, "%u:%u%c", uid, gid, &end) : 0;

	if (!spec->user)
		return container_owner(spec, uid, gid, err);
	if (n == 1 && !strchr(spec->user, ':'))
		*gid = *uid;
	else if (n != 2) {
		int r = find_roots(mounts, &roots);
		r = r < 0 ? no_memory(err)
			  : bundle_find_user(roots.list, roots.n, spec->user, uid, gid, err);
		free(roots.text);
		return r;
	}
	return 0;
}

static int describe(const struct ctd_plan *p, const struct buf *mounts, char **ret,
	struct cell_error *err)
{
	char group[200];
	struct bundle b = {.c = p->at.c,
		.spec = p->at.spec,
		.root = "rootfs", /* where containerd puts it, beside the spec */
		.door = p->at.door,
		.reach = CONTAINER_CALLS,
		.has_floor = p->at.floor != NULL,
		.has_cgroups = true,
		.has_memory = true,
		.has_cpus = true,
		.has_pids = true,
		.group = group};
	json_t *j = NULL;

	(void)snprintf(group, sizeof group, "/" GROUP "%s", p->at.name);
	int r = choose_user(p->at.spec, mounts, &b.uid, &b.gid, err);
	if (r == 0)
		r = bundle_config(&b, &j, err);
	if (r < 0)
		return r;
	if (add_scratch(p->at.spec, json_object_get(j, "mounts"), b.uid, b.gid) < 0 ||
		json_object_set_new(json_object_get(j, "root"), "readonly",
			json_boolean(container_is_read_only(p->at.spec))) < 0 ||
		!(*ret = json_dumps(j, JSON_COMPACT)))
		r = no_memory(err);
	json_decref(j);
	return r;
}

/* ---- making ---- */

/* A shim by its own name, else a program that runc's shim runs instead of runc. */
static int add_runtime(struct buf *container, const char *runtime)
{
	auto_buf struct buf message = BUF_INIT(8192), any = BUF_INIT(8192),
			    options = BUF_INIT(4096);
	bool is_shim = runtime && !strncmp(runtime, "io.containerd.", 14);
	int r = pb_add_str(&message, 1, is_shim ? runtime : RUNC_SHIM);

	if (r == 0 && runtime && !is_shim) {
		r = pb_add_str(&options, 6, runtime);
		if (r == 0)
			r = pb_add_str(&any, 1, "containerd.runc.v1.Options");
		if (r == 0)
			r = pb_add_message(&any, 2, &options);
		if (r == 0)
			r = pb_add_message(&message, 2, &any);
	}
	return r < 0 ? r : pb_add_message(container, 4, &message);
}

static int add_spec(struct buf *container, const char *text)
{
	auto_buf struct buf any = BUF_INIT(CTD_TEXT_MAX);
	int r = pb_add_str(&any, 1, SPEC_TYPE);

	if (r == 0)
		r = pb_add_str(&any, 2, text);
	return r < 0 ? r : pb_add_message(container, 5, &any);
}

static int make_container(struct ctd *d, const struct ctd_plan *p, const char *spec,
	const struct ctd_label *labels, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(CTD_TEXT_MAX), container = BUF_INIT(CTD_TEXT_MAX);
	int r = pb_add_str(&container, 1, p->at.name);

	if (r == 0)
		r = ctd_add_labels(&container, 2, labels);
	if (r == 0)
		r = pb_add_str(&container, 3, p->image->name);
	if (r == 0)
		r = add_runtime(&container, p->at.spec->runtime);
	if (r == 0)
		r = add_spec(&container, spec);
	if (r == 0)
		r = pb_add_str(&container, 6, d->snapshotter);
	if (r == 0)
		r = pb_add_str(&container, 7, p->at.name);
	if (r == 0)
		r = pb_add_message(&request, 1, &container);
	return r < 0 ? no_memory(err)
		     : ctd_call(d, "containers.v1.Containers/Create", &request, NULL,
			       "make the container", err);
}

/* Without its input and output: the guest has a stream of its own. */
static int make_task(struct ctd *d, const struct ctd_plan *p, const struct buf *mounts,
	struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(65536);
	struct pb_reader r = pb_read(mounts->data, mounts->len);
	struct pb_field f;
	struct cell_error why;
	int rc = pb_add_str(&request, 1, p->at.name);

	while (rc == 0 && pb_next(&r, &f))
		if (f.number == 1)
			rc = pb_add_bytes(&request, 3, f.data, f.size);
	if (rc < 0)
		return no_memory(err);
	rc = ctd_call(d, "tasks.v1.Tasks/Create", &request, NULL, "make the task", &why);
	if (rc == 0)
		return 0;
	if (p->at.spec->runtime)
		(void)cell_error_hint(&why, rc,
			"'%.80s' must be a program that containerd finds (runc, crun), its path, "
			"or "
			"a shim it has (io.containerd.NAME.vN)",
			p->at.spec->runtime);
	rc = cell_error_known(&why, rc, why.msg, bundle_words);
	if (err)
		*err = why;
	return rc;
}

int ctd_container_make(struct ctd *d, const struct ctd_plan *p, struct cell_error *err)
{
	auto_buf struct buf mounts = BUF_INIT(65536);
	auto_free char *spec = NULL;
	char here[32];
	const struct ctd_label labels[] = {{CONTAINER_LABEL_NAME, cell_name(p->at.c)},
		{CONTAINER_LABEL_DIR, cell_directory(p->at.c)}, {CTD_LABEL_SIGHT, here},
		{CONTAINER_LABEL_STATE, d->state},
		{"containerd.io/gc.root",
			"cell"}, /* not to be collected before its container is there */
		{0}};

	ctd_sight(here);
	int r = ctd_prepare(d, p->at.name, p->image->chain, labels, &mounts, err);
	if (r == -ENOENT) { /* nobody has used this image yet */
		buf_reset(&mounts);
		r = ctd_image_unpack(d, p->image, err);
		if (r < 0)
			return r;
		r = ctd_prepare(d, p->at.name, p->image->chain, labels, &mounts, err);
		if (r == -ENOENT)
			r = cell_fail(err, CELL_EBACKEND, 0, "the image's layers are gone again");
	}
	if (r == 0)
		r = describe(p, &mounts, &spec, err);
	if (r == 0)
		r = make_container(d, p, spec, labels, err);
	return r < 0 ? r : make_task(d, p, &mounts, err);
}

int ctd_about(struct ctd *d, const char *method, const char *id, struct buf *ret, const char *doing,
	struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(1024);

	if (pb_add_str(&request, 1, id) < 0)
		return no_memory(err);
	return ctd_try(d, method, &request, ret, doing, -ENOENT, err);
}

int ctd_container_start(void *at, const char *id, struct cell_error *err)
{
	int r = ctd_about(at, "tasks.v1.Tasks/Start", id, NULL, "start the task", err);

	return r == -ENOENT
		       ? cell_fail(err, CELL_EBACKEND, 0, "the task was gone before it was started")
		       : r;
}

bool ctd_container_runs(void *at, const char *id)
{
	enum {
		STOPPED = 3
	};
	auto_buf struct buf answer = BUF_INIT(65536);
	struct pb_field process, status = {0};
	int r = ctd_about(at, "tasks.v1.Tasks/Get", id, &answer, "ask for the task", NULL);

	if (r < 0)
		return r != -ENOENT;
	if (pb_find(answer.data, answer.len, 1, &process))
		(void)pb_find(process.data, process.size, 4, &status);
	return status.value != STOPPED;
}

/* ---- removing ---- */

static int kill_task(struct ctd *d, const char *id, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(1024);

	if (pb_add_str(&request, 1, id) < 0 || pb_add_uint(&request, 3, SIGKILL) < 0 ||
		pb_add_uint(&request, 4, 1) < 0)
		return no_memory(err);
	return ctd_call(d, "tasks.v1.Tasks/Kill", &request, NULL, "kill the task", err);
}

/* Nothing but the dead is removed. It is waited for, not asked again and again; and once more where a shim died on the way. */
static int remove_task(struct ctd *d, const char *id, bool is_dead, struct cell_error *err)
{
	const struct timespec pause = {.tv_nsec = 50 * 1000000};
	int r = 0;

	for (int i = 0; i < REMOVE_TRIES && !d->is_broken; i++) {
		if (i > 0)
			(void)nanosleep(&pause, NULL);
		if (!is_dead || i > 0)
			(void)kill_task(d, id, NULL);
		if (!d->is_broken)
			r = ctd_about(d, "tasks.v1.Tasks/Wait", id, NULL, "wait for the task", err);
		/* also one that is not there: its shim may be, when containerd died between the two */
		if (r == 0 || r == -ENOENT)
			r = ctd_about(d, "tasks.v1.Tasks/Delete", id, NULL, "remove the task", err);
		if (r == 0 || r == -ENOENT)
			return 0;
	}
	return r;
}

/* The process that watches over the task of that id; 0: none that we see. */
static pid_t find_shim(const char *id)
{
	auto_dir DIR *all = opendir("/proc");
	pid_t found = 0;

	for (struct dirent *e; all && !found && (e = readdir(all));) {
		char path[300], line[4096];
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);

		(void)snprintf(path, sizeof path, "/proc/%s/cmdline", e->d_name);
		auto_fd int fd = pid > 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
		ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
		if (n <= 0)
			continue;
		line[n] = '\0';
		if (!strstr(line, "containerd-shim"))
			continue;
		for (const char *arg = line; arg < line + n; arg += strlen(arg) + 1)
			if (!strcmp(arg, id))
				found = pid;
	}
	return found;
}

/* Of a container that was being made when its maker died. Containerd may still be at it, and forgets about its shim when it
 * finds that nobody waits: then no call reaches it any more. */
static void remove_shim(struct ctd *d, const char *id)
{
	const struct timespec pause = {.tv_nsec = 50 * 1000000};
	pid_t pid = find_shim(id);

	for (int i = 0; pid > 0 && i < SHIM_TRIES; i++) {
		(void)nanosleep(&pause, NULL);
		(void)remove_task(d, id, true, NULL);
		pid = find_shim(id);
	}
	if (pid > 0)
		(void)kill(pid, SIGKILL);
}

/* The runtime removes them; one that was killed does not. */
static void remove_groups(const char *id)
{
	static const char *const places[] = {"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"};
	const struct timespec pause = {.tv_nsec = 5 * 1000000};

	for (size_t k = 0; k < 2; k++) {
		char pattern[300];
		glob_t found = {0};

		(void)snprintf(pattern, sizeof pattern, "%s" GROUP "%s", places[k], id);
		if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
			for (size_t i = 0; i < found.gl_pathc; i++)
				/* the last of its processes is dead, and may not have left yet */
				for (int tries = 0; rmdir(found.gl_pathv[i]) < 0 &&
						    errno == EBUSY && tries < 100;
					tries++)
					(void)nanosleep(&pause, NULL);
		globfree(&found);
	}
}

int ctd_container_remove(struct ctd *d, const char *id, bool is_dead, struct cell_error *err)
{
	int r = remove_task(d, id, is_dead, err);

	if (r == 0 && !is_dead)
		remove_shim(d, id);

	if (r == 0)
		r = ctd_about(d, "containers.v1.Containers/Delete", id, NULL,
			"remove the container", err);
	if (r < 0 && r != -ENOENT)
		return r;
	remove_groups(id);
	return ctd_remove_snapshot(d, id, err);
}
