/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oci.c: the back end `oci`: a bundle of our own, run by whatever OCI runtime there is. No daemon: the runtime's program makes the
 * container and ends, its state is in the cell's directory, and the guest comes to its door (core/guest_door.h). In a runtime with a
 * kernel of its own (gVisor) no socket of the host is to be seen: there the stream is the guest's standard input, or what a relay
 * carries that the runtime is asked to run inside.
 */
#include "backends/oci/oci.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "core/guest_door.h"
#include "core/guest_process.h"
#include "core/process.h"
#include "core/remove_tree.h"
#include "core/seccomp_file.h"
#include "launcher/seccomp_profiles.h"

static void runtime_done(struct oci_runtime *r)
{
	free(r->program);
}
#define auto_runtime __attribute__((cleanup(runtime_done)))

/* ---- probe ---- */

/* RLIMIT_NPROC counts each user namespace by itself. */
static bool has_own_nproc(void)
{
	struct utsname un;
	unsigned major = 0, minor = 0;

	return uname(&un) == 0 && sscanf(un.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 5 || (major == 5 && minor >= 14));
}

static void lack_rootless(struct cell_probe *p, enum oci_kind kind)
{
	static const char reason[] = "no cgroup with it was delegated to you";
	static const char fix[] =
		"systemd-run --user --scope -p Delegate=yes cell ... (cgroup v2), or "
		"run it as root";
	struct oci_groups g;

	oci_groups_find(&g);
	if (kind == OCI_RUNSC) /* which uses none without root */
		g = (struct oci_groups){0};
	cell_probe_need(p, g.has_memory, CELL_CAP_LIMIT_MEMORY, reason, fix);
	cell_probe_need(p, g.has_cpu, CELL_CAP_LIMIT_CPUS, reason, fix);
	cell_probe_need(p, g.is_there, CELL_CAP_PAUSE, reason, fix);
	cell_probe_need(p, g.has_pids || has_own_nproc(), CELL_CAP_LIMIT_PIDS,
		"before Linux 5.14 RLIMIT_NPROC would count your other processes too", fix);
}

/* What is so with gVisor of 2022, which Debian has, and depends on no setting. */
static void lack_gvisor(struct cell_probe *p)
{
	cell_probe_lack(p, CELL_CAP_LIMIT_PIDS, OCI_RUNSC_PIDS, OCI_RUNSC_FIX);
	cell_probe_lack(p, CELL_CAP_PTY,
		"gVisor's terminals know no control characters: no interrupt, no end of input",
		OCI_RUNSC_FIX);
	cell_probe_lack(p, CELL_CAP_KILL_TREE, OCI_RUNSC_TREE,
		"use runc or crun (CELL_OCI_RUNTIME), or leave timeout out");
}

static void oci_probe(struct cell_probe *p)
{
	struct cell_error err = {0};
	auto_runtime struct oci_runtime runtime = {0};
	const char *fix = "", *refusal = geteuid() == 0 ? NULL : oci_ids_refusal(&fix);

	if (oci_runtime_find(NULL, &runtime, &err) < 0)
		cell_probe_refuse(p, err.msg, err.hint);
	else if (refusal)
		cell_probe_refuse(p, refusal, fix);
	else if (geteuid() != 0)
		lack_rootless(p, runtime.kind);
	if (runtime.program && runtime.kind == OCI_RUNSC)
		lack_gvisor(p);
	else
		cell_probe_lack(p, CELL_CAP_OWN_KERNEL, "runc and crun share the host's kernel",
			"use runsc: CELL_OCI_RUNTIME=runsc");
}

/* ---- create ---- */

/* Of a handle. */
struct oci_state {
	struct oci_aside reaper; /* of a runtime that had nothing more to do when the guest came */
};

struct launch {
	struct oci_plan *plan;
	char pid_file[4200];
	const char *args[12];
	struct oci_call call;
	struct oci_running running;
	pid_t pid;     /* of the container's first process */
	int errors_fd; /* what the guest says when it cannot begin */
};

static pid_t read_pid(const char *path)
{
	auto_file FILE *f = fopen(path, "re");
	char line[32];

	return f && fgets(line, sizeof line, f) ? (pid_t)strtol(line, NULL, 10) : 0;
}

/* `run --detach`: one start of the program makes the container and starts it. */
static int begin(struct launch *l, int stdin_fd, struct cell_error *err)
{
	const struct oci_plan *p = l->plan;
	bool has_fds = p->runtime->kind != OCI_RUNSC; /* which passes on three, and no others */
	bool shares_keys = has_fds && p->ids.is_rootless;
	const char *const args[] = {
		"run", "--detach", "--bundle", p->bundle, "--pid-file", l->pid_file};
	size_t n = sizeof args / sizeof *args;
	int errors[2];

	memcpy(l->args, args, sizeof args);
	if (has_fds) {
		l->args[n++] = "--preserve-fds";
		l->args[n++] = p->image.hold_fd >= 0 ? "1" : "0";
	}
	if (shares_keys)
		l->args[n++] = OCI_NO_KEYRING;
	l->args[n] = p->id;
	(void)snprintf(l->pid_file, sizeof l->pid_file, "%s/pid", p->bundle);
	if (pipe2(errors, O_CLOEXEC | O_NONBLOCK) < 0)
		return cell_fail_errno(err, errno, "run '%s'", p->runtime->program);
	l->errors_fd = errors[0];
	l->call = (struct oci_call){.program = p->runtime->program,
		.directory = cell_directory(p->c),
		.args = l->args,
		.ids = &p->ids,
		.stdin_fd = stdin_fd,
		.stdout_fd = has_fds ? -1 : p->image.hold_fd, /* the guest says nothing there */
		.stderr_fd = errors[1],
		.pass_fd = has_fds ? p->image.hold_fd : -1,
		.has_cgroups = p->has_cgroups,
		.shares_keys = shares_keys,
		.enter = oci_enter,
		.user = l->plan};
	int r = oci_runtime_begin(&l->call, &l->running, err);
	close(errors[1]);
	return r;
}

static int finish(struct launch *l, struct cell_error *err)
{
	char said[200];
	int r = oci_runtime_end(&l->running, said, sizeof said, err);

	l->pid = r < 0 ? 0 : read_pid(l->pid_file);
	return r;
}

/* The guest's last words, in one line. */
static int ended(struct launch *l, struct cell_error *err)
{
	char text[160];
	ssize_t n = read(l->errors_fd, text, sizeof text - 1);

	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return cell_fail(err, CELL_EBACKEND, 0, "the guest ended before it was reached%s%s",
		*text ? ": " : "", text);
}

/* guest_maker.is_there */
static bool still_runs(void *user, struct cell_error *err)
{
	struct launch *l = user;
	struct pollfd p = {.fd = l->running.pidfd, .events = POLLIN};

	if (l->running.pid && p.fd >= 0 && poll(&p, 1, 0) == 0)
		return true; /* at work */
	if (l->running.pid && finish(l, err) < 0)
		return false;
	if (l->pid && cell_process_start_time(l->pid))
		return true;
	(void)ended(l, err);
	return false;
}

/* guest_maker.start */
static int launch(void *user, struct cell_error *err)
{
	return begin(user, -1, err);
}

static void *reap(void *pid)
{
	while (waitpid((pid_t)(intptr_t)pid, NULL, 0) < 0 && errno == EINTR)
		;
	return NULL;
}

/* The guest has come, or will not. A runtime takes a while to end after the guest has come; who has asked for a cell of one use need not wait for
 * that: destroy does. r: how it went. */
static int settle(struct launch *l, int r, struct cell_error *err)
{
	struct cell *c = l->plan->c;
	struct oci_state *state = cell_state(c);

	if (!l->running.pid)
		return r;
	if (r < 0) {
		(void)kill(l->running.pid, SIGKILL);
		(void)finish(l, NULL);
		return r;
	}
	if (!cell_is_ephemeral(c) ||
		!oci_aside(&state->reaper, reap, (void *)(intptr_t)l->running.pid))
		return finish(l, err);
	cell_closep(&l->running.pidfd);
	return 0;
}

/* guest_options.start: into a kernel of its own. What is waited for and killed is that kernel. */
static int launch_far(void *user, const char *title, int stream_fd, pid_t *ret_pid, int *ret_pidfd,
	struct cell_error *err)
{
	struct launch *l = user;
	int r = begin(l, cell_is_ephemeral(l->plan->c) ? stream_fd : -1, err);

	(void)title;
	if (r == 0)
		r = finish(l, err);
	if (r < 0)
		return r;
	auto_fd int pidfd =
		l->pid > 0 ? cell_process_open(l->pid, cell_process_start_time(l->pid)) : -ESRCH;
	if (pidfd < 0)
		return ended(l, err);
	*ret_pid = l->pid;
	*ret_pidfd = steal_fd(pidfd);
	return 0;
}

static int check_spec(const struct oci_plan *p, struct cell_error *err)
{
	const struct cell_spec *spec = p->spec;
	int r;

	if (p->runtime->kind != OCI_RUNSC || (!spec->limits.pids && !spec->timeout_ms))
		return 0;
	/* what probe says when it is the default runtime */
	if (spec->limits.is_best_effort) {
		cell_degrade(p->c, spec->limits.pids ? CELL_CAP_LIMIT_PIDS : CELL_CAP_KILL_TREE);
		return 0;
	}
	r = cell_fail(err, CELL_ENOTSUP, 0, "%s",
		spec->limits.pids ? "limits.pids: " OCI_RUNSC_PIDS : "timeout: " OCI_RUNSC_TREE);
	return cell_error_hint(err, r, OCI_RUNSC_FIX);
}

static int note(const struct oci_plan *p, struct cell_error *err)
{
	char user[40];
	bool is_far = p->runtime->kind == OCI_RUNSC;
	const char *const notes[][2] = {{"container", p->id}, {"runtime", p->runtime->program},
		{OCI_RELAY_USER, is_far ? user : NULL},
		{OCI_GROUP_DIR, p->has_cgroups && *p->groups.dir ? p->groups.dir : NULL}, {0}};

	/* as whom a relay is run: who the guest is in the container, not where it went from there */
	(void)snprintf(user, sizeof user, "%u:%u", p->is_alone ? 0 : (unsigned)p->uid,
		p->is_alone ? 0 : (unsigned)p->gid);
	return cell_notes_save(p->c, notes, err);
}

/* With a built-in filter, or the user's own, compiled by us, upon what no cell may do. */
static int open_door(struct cell *c, const char *seccomp, struct guest_door *ret,
	struct cell_error *err)
{
	const struct sock_fprog *filter = seccomp_chosen(seccomp);
	struct sock_fprog own = {0};
	int r = filter ? 0 : seccomp_file_compile(seccomp, &own, err);

	if (r == 0)
		r = guest_door_open(c, filter ? filter : &own,
			filter ? NULL : seccomp_profile("floor"), ret, err);
	free(own.filter);
	return r;
}

static int oci_destroy(struct cell *c, struct cell_error *err);

static int oci_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	auto_runtime struct oci_runtime runtime = {0};
	__attribute__((cleanup(oci_plan_done))) struct oci_plan p = OCI_PLAN_INIT;
	auto_door struct guest_door door = GUEST_DOOR_INIT;
	auto_aside struct oci_aside stir = {0};
	char id[CONTAINER_NAME_SIZE];
	int r = oci_runtime_find(spec->runtime, &runtime, err);

	p.c = c;
	p.spec = spec;
	p.id = id;
	p.runtime = &runtime;
	oci_ids_find(&p.ids);
	oci_groups_find(&p.groups);
	p.has_cgroups = p.groups.is_there && (!p.ids.is_rootless || runtime.kind != OCI_RUNSC);
	if (r == 0 && p.has_cgroups)
		oci_groups_begin(&p.groups);
	if (r == 0 && !p.ids.is_rootless) /* a user's process may just have been moved */
		oci_stir(&stir);
	if (r == 0)
		r = container_name(c, id, err);
	if (r == 0)
		r = check_spec(&p, err);
	if (r == 0)
		r = oci_plan_make(&p, err);
	if (r == 0)
		r = open_door(c, spec->seccomp, &door, err);
	p.door = door.path;
	if (r == 0)
		r = oci_plan_write(&p, err);
	if (r == 0)
		r = note(&p, err);
	bool is_far = runtime.kind == OCI_RUNSC;
	struct launch l = {.plan = &p, .errors_fd = -1, .running.pidfd = -1};
	const struct guest_options far = {.start = launch_far, .user = &l};
	const struct guest_maker near = {
		.start = launch, .is_there = still_runs, .news_fd = &l.running.pidfd, .user = &l};
	if (r == 0)
		r = is_far ? cell_guest_start(c, &far, err)
			   : guest_door_start(c, &door, &spec->limits, &near, err);
	r = settle(&l, r, err);
	cell_closep(&l.errors_fd);
	if (r < 0 ||
		!is_far) /* else nobody says when the guest has read its files, and relays are run from there */
		guest_door_remove(c);
	if (r < 0 && cell_note(c, "container"))
		(void)oci_destroy(c, NULL);
	return r;
}

/* ---- the rest ---- */

static int oci_open_guest(struct cell *c, struct cell_error *err)
{
	const char *id = cell_note(c, "container"), *program = cell_note(c, "runtime");

	if (!id || !program || cell_is_ephemeral(c) || oci_runtime_kind(program) != OCI_RUNSC)
		return cell_guest_connect(c, err);
	if (!cell_guest_is_alive(c)) {
		int r = cell_fail(err, CELL_EGONE, 0, "reach the guest of cell '%s'", cell_name(c));
		return cell_error_hint(err, r, "its sandbox has died; `cell prune` cleans up");
	}
	const char *user = cell_note(c, OCI_RELAY_USER);
	const char *args[] = {"exec", "--user", user ? user : "0:0", id, CONTAINER_GUEST, "--relay",
		CONTAINER_SOCKET, NULL};
	const struct oci_call call = oci_runtime_order(c, program, args);
	return oci_runtime_stream(&call, err);
}

/* What the runtime's own `delete` would do takes another start of its program, and it only does it for what it has finished: this is
 * for everything that it and we ever began. */
static int oci_destroy(struct cell *c, struct cell_error *err)
{
	const char *id = cell_note(c, "container"), *program = cell_note(c, "runtime");
	bool has_guest = cell_note_int(c, "guest_pid", 0) > 0;

	if (!id || !program)
		return 0;
	if (cell_note_int(c, OCI_FROZEN, 0))
		oci_thaw(c); /* version 1 kills nobody who is frozen */
	int r = has_guest ? cell_guest_stop(c, err) : 0;
	oci_aside_done(&((struct oci_state *)cell_state(c))->reaper);
	/* with the first process of a namespace all others are dead; gVisor has one for files besides */
	if (r == 0 && (!has_guest || oci_runtime_kind(program) == OCI_RUNSC))
		r = oci_remains_kill(c, err);
	if (r < 0)
		return r;
	guest_door_remove(c);
	if (!oci_remains_ungroup(c)) {
		r = cell_fail(err, CELL_EBUSY, EBUSY, "remove the cgroups of cell '%s'",
			cell_name(c));
		return cell_error_hint(err, r, "something was moved into them: /sys/fs/cgroup");
	}
	r = cell_remove_tree(cell_directory_fd(c), OCI_STATE, NULL);
	oci_remains_sweep();
	return r < 0 ? cell_fail_errno(err, -r, "remove the runtime's state") : 0;
}

const struct cell_backend cell_backend_oci = {
	.name = "oci",
	.summary =
		"a bundle of our own, run by runc, crun or runsc; no daemon, with root or without",
	.wall = "Namespaces, no capabilities, a syscall filter and limits, made by an OCI runtime "
		"on the "
		"kernel it shares with the host; with runsc on one of its own.",
	.tier = 2,
	.caps = CONTAINER_CAPS | CAP(ROOT_DIR) | CAP(ROOT_TAR) | CAP(LIMIT_INODES) |
		CAP(OWN_KERNEL),
	.state_size = sizeof(struct oci_state),
	.probe = oci_probe,
	.create = oci_create,
	.open_guest = oci_open_guest,
	.destroy = oci_destroy,
	.walls = oci_walls,
	.pause = oci_pause,
};
