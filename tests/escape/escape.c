/* SPDX-License-Identifier: Apache-2.0 */
/*
 * escape.c: runs every attempt outside of a cell, where it has to succeed, and inside a jail, where it
 * must not: as root, and once more as an ordinary user. Needs root for the former and for the controls.
 * `escape ATTEMPT [OWNER]`: whose root's workspaces are; where there are no idmapped mounts, not root's.
 * With CELL_ESCAPE_BACKEND (and CELL_TEST_IMAGE) the place is a container of that back end instead: then
 * what only the jail promises is left out, with the reason; CELL_ESCAPE_WITHOUT=ATTEMPT=REASON;... leaves out more.
 * CELL_ESCAPE_AS_USER: made by an ordinary user.
 */
#include "escape.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <pty.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/cell.h"

#include "../scene.h"
#include "attempt.h"

static char scratch[64], place[2][128], marker[32], bystander[16], port[64], host_port[64];
static struct scene_tap tap;
static char canary[128], sock[128], suid_path[160];

enum {
	TTY = 1,     /* in a terminal */
	AS_USER = 2, /* the control is an ordinary user */
	NO_CONTROL = 4,
	IN_USERS = 8, /* holds in containers of ordinary users, whatever not_in_containers says */
	IN_OCI =
		16, /* likewise in those that a runtime makes as Cell says, oci's and containerd's */
};

struct trial {
	const char *name;  /* of the attempt */
	const char *arg;   /* outside */
	const char *inner; /* inside; NULL: the same */
	unsigned flags;
	struct cell_limits limits;
	enum cell_cap needs; /* 0: nothing beyond the jail */
	const char *what;
	const char *not_in_containers; /* why it is no promise there; NULL: it is */
};

static struct trial trials[] = {
	{"privileges", "", NULL, 0, {0}, 0,
		"every capability set is empty, no_new_privs and the filter are on"},
	{"canary", canary, NULL, 0, {0}, 0, "a file of the host cannot be read"},
	{"dotdot", canary, NULL, 0, {0}, 0, "going up leads nowhere"},
	{"through-proc", canary, NULL, 0, {0}, 0, "no process in sight has another root"},
	{"chroot", "", NULL, 0, {0}, 0, "no chroot"},
	{"mknod", "", NULL, 0, {0}, 0, "no device nodes"},
	{"write-program", "/usr/bin/tsort", NULL, 0, {0}, 0,
		"programs of the host cannot be written"},
	{"setuid", suid_path, "/workspace/suid", AS_USER, {0}, 0, "a setuid file gives nothing"},
	{"leave-setuid", "chmod", NULL, 0, {0}, 0, "no set-id file is left on the host, by chmod"},
	{"leave-setuid", "fchmod", NULL, 0, {0}, 0,
		"no set-id file is left on the host, by fchmod"},
	{"leave-setuid", "open", NULL, 0, {0}, 0, "no set-id file is left on the host, by open"},
	{"leave-setuid", "openat2", NULL, 0, {0}, 0,
		"no set-id file is left on the host, by openat2"},
	{"leave-setuid", "tmpfile", NULL, 0, {0}, 0,
		"no set-id file is left on the host, by tmpfile"},
	{"leave-setuid", "mknod", NULL, 0, {0}, 0, "no set-id file is left on the host, by mknod"},
	{"mount-tmpfs", "", NULL, 0, {0}, 0, "no mounts"},
	{"mount-proc", "", NULL, 0, {0}, 0, "no second /proc"},
	{"fsopen", "", NULL, 0, {0}, 0, "no mounts by the new calls"},
	{"open-tree", "", NULL, 0, {0}, 0, "no copies of mounts"},
	{"remount", "", NULL, 0, {0}, 0, "no remounting of /"},
	{"umount-proc", "", NULL, 0, {0}, 0, "/proc and its covers stay"},
	{"pivot-root", "", NULL, 0, {0}, 0, "no other root"},
	{"by-handle", "", NULL, 0, {0}, 0, "no files by handle"},
	{"mountinfo", "/sys/fs/cgroup", NULL, 0, {0}, 0, "mounts of the host are not in sight",
		"an engine shows a container its own cgroups"},
	{"env", "CELL_ESCAPE_MARKER", NULL, 0, {0}, 0, "nothing of the host's environment"},
	{"fds", "", NULL, 0, {0}, 0, "no file descriptor but 0, 1 and 2"},
	{"unshare-user", "", NULL, 0, {0}, 0, "no user namespace by unshare"},
	{"unshare-net", "", NULL, 0, {0}, 0, "no network namespace"},
	{"unshare-mount", "", NULL, 0, {0}, 0, "no mount namespace"},
	{"clone-user", "", NULL, 0, {0}, 0, "no user namespace by clone"},
	{"clone3-user", "", NULL, 0, {0}, 0, "no user namespace by clone3"},
	{"setns", "", NULL, 0, {0}, 0, "no joining of namespaces"},
	{"setuid-0", "", NULL, 0, {0}, 0, "nobody becomes uid 0"},
	{"setgroups", "", NULL, 0, {0}, 0, "no other groups"},
	{"uid-map", "", NULL, 0, {0}, 0, "ids stay mapped as they are"},
	{"ptrace", bystander, "1", 0, {0}, 0, "pid 1 cannot be traced"},
	{"vm-read", bystander, "1", 0, {0}, 0, "nor its memory read"},
	{"look-into", bystander, "1", 0, {0}, 0, "nor looked into by /proc"},
	{"take-fd", bystander, "1", 0, {0}, 0, "nor its fds be taken"},
	{"see-process", marker, NULL, 0, {0}, 0, "processes of the host are not in sight"},
	{"kill", bystander, NULL, 0, {0}, 0, "nor can be sent a signal"},
	{"knobs", "", NULL, 0, {0}, 0, "no file that sets the kernel can be written"},
	{"facts", "", NULL, 0, {0}, 0, "no file that tells of the kernel has anything in it",
		"an engine leaves /proc/kallsyms in sight"},
	{"bpf", "", NULL, 0, {0}, 0, "no bpf"},
	{"perf", "", NULL, 0, {0}, 0, "no perf events"},
	{"userfaultfd", "", NULL, 0, {0}, 0, "no userfaultfd"},
	{"io-uring", "", NULL, 0, {0}, 0, "no io_uring"},
	{"add-key", "", NULL, 0, {0}, 0, "no keys"},
	{"keyctl", "", NULL, 0, {0}, 0, "no keyrings of the host's users"},
	{"syslog", "", NULL, 0, {0}, 0, "no kernel log"},
	{"fanotify", "", NULL, 0, {0}, 0, "no fanotify"},
	{"module", "", NULL, 0, {0}, 0, "no kernel modules"},
	{"swapon", "", NULL, 0, {0}, 0, "no swap"},
	{"realtime", "", NULL, 0, {0}, 0, "no realtime priority"},
	{"nice", "", NULL, 0, {0}, 0, "no higher priority"},
	{"oom-score", "", NULL, 0, {0}, 0, "nobody is spared when memory ends"},
	{"mlock", "", NULL, 0, {0}, 0, "little memory can be locked"},
	{"int80", "", NULL, 0, {0}, 0, "no system calls of i386"},
	{"x32", "", NULL, 0, {0}, 0, "no system calls of x32"},
	{"tiocsti", "", NULL, TTY, {0}, 0, "no keys into the terminal"},
	{"tiocsti-high", "", NULL, TTY, {0}, 0, "nor with the upper half set"},
	{"packet", "", NULL, 0, {0}, 0, "no packet sockets"},
	{"raw", "", NULL, 0, {0}, 0, "no raw sockets"},
	{"alg", "", NULL, 0, {0}, 0, "no AF_ALG"},
	{"vsock", "", NULL, 0, {0}, 0, "no AF_VSOCK"},
	{"netfilter", "", NULL, 0, {0}, 0, "no netfilter"},
	{"genetlink", "", NULL, 0, {0}, 0, "no generic netlink"},
	{"tcp", port, NULL, 0, {0}, 0, "a service on the host's loopback is out of reach"},
	{"tcp", host_port, NULL, 0, {0}, 0, "and on its other addresses"},
	{"udp", "192.0.2.1", NULL, 0, {0}, 0, "no packet goes out"},
	{"udp", "169.254.169.254", NULL, 0, {0}, 0, "nor to the metadata address"},
	{"abstract", marker, NULL, 0, {0}, 0, "abstract sockets of the host are out of reach"},
	{"path-socket", sock, NULL, 0, {0}, 0, "and so are those with a path"},
	{"families", "", NULL, 0, {0}, 0, "no socket of a rare family"},
	{"netlink", "", NULL, 0, {0}, 0, "no netlink but that of routes"},
	{"owner-of-network", "", NULL, IN_USERS, {0}, 0,
		"the network's user namespace is out of reach",
		"it is the one the container is in, where it has no right"},
	{"lease", "", NULL, 0, {0}, 0, "nobody waits for a cell to give back a file"},
	{"terminals", "", NULL, IN_OCI, {0}, 0, "terminals are left to others",
		"engines mount /dev/pts without a bound of its own"},
	{"aio", "", NULL, 0, {0}, 0, "and contexts of aio"},
	{"huge-pages", "", NULL, 0, {0}, 0, "and huge pages"},
	{"memory", "", NULL, 0, {.memory_bytes = 64u << 20}, CELL_CAP_LIMIT_MEMORY,
		"memory is limited"},
	{"memfd", "", NULL, 0, {.memory_bytes = 64u << 20}, CELL_CAP_LIMIT_MEMORY, "in memfds too"},
	{"shm", "", NULL, 0, {.memory_bytes = 64u << 20}, CELL_CAP_LIMIT_MEMORY,
		"in shared memory too"},
	{"fill", "/tmp", NULL, 0, {.memory_bytes = 64u << 20}, CELL_CAP_LIMIT_MEMORY,
		"in files in memory too"},
	{"fill", "/tmp", NULL, 0, {.disk_bytes = 10u << 20}, CELL_CAP_LIMIT_DISK,
		"the disk is limited"},
	{"fill", "/dev/shm", NULL, 0, {.disk_bytes = 10u << 20}, CELL_CAP_LIMIT_DISK,
		"in /dev/shm too"},
	{"inodes", "/tmp", NULL, 0, {.disk_bytes = 10u << 20}, CELL_CAP_LIMIT_DISK,
		"and so is the number of files"},
	{"processes", "", NULL, 0, {.pids = 40}, CELL_CAP_LIMIT_PIDS,
		"the number of processes is limited"},
	{"threads", "", NULL, 0, {.pids = 40}, CELL_CAP_LIMIT_PIDS, "and of threads"},
	{"files", "", NULL, 0, {.files = 64}, CELL_CAP_LIMIT_FILES, "and of open files"},
};
#define N_TRIALS (sizeof trials / sizeof *trials)
static int controls[N_TRIALS];

void escape_result(bool is_ok, const char *mode, const char *name, const char *skip,
	const char *fmt, ...)
{
	va_list ap;

	char title[300];

	(void)snprintf(title, sizeof title, "%s: %s", mode, name);
	va_start(ap, fmt);
	scene_vresult(&tap, is_ok, title, skip, fmt, ap);
	va_end(ap);
}

/* ---- outside ---- */

static void exec_control(const struct trial *t)
{
	char path[160];

	/* mounts of a control stay its own */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		_exit(CANNOT);
	if (t->flags & AS_USER && !scene_become(65534))
		_exit(CANNOT);
	(void)dup2(0, 9); /* something to find */
	if (chdir(place[t->flags & AS_USER ? 1 : 0]) < 0)
		_exit(CANNOT);
	(void)snprintf(path, sizeof path, "%s/attempt", place[0]);
	execl(path, "attempt", t->name, t->arg, (char *)NULL);
	_exit(CANNOT);
}

static int control(const struct trial *t)
{
	int terminal = -1;
	(void)fflush(NULL);
	pid_t pid = t->flags & TTY ? forkpty(&terminal, NULL, NULL, NULL) : fork();

	if (pid == 0) {
		int null = open("/dev/null", O_RDWR);
		if (!(t->flags & TTY)) {
			(void)dup2(null, 1);
			(void)setsid(); /* some signal their whole group */
		}
		exec_control(t);
	}
	int r = scene_wait(pid);
	if (terminal >= 0)
		close(terminal);
	return r;
}

/* ---- inside ---- */

static const char *backend(void)
{
	const char *named = getenv("CELL_ESCAPE_BACKEND");

	return named ? named : "jail";
}

static bool is_container(void)
{
	return strcmp(backend(), "jail") != 0;
}

/* Of all descendants: not in gVisor. */
static bool has_deadlines(void)
{
	static int has = -1;
	struct cell_backend_info info;

	if (has < 0)
		has = cell_backend_probe(backend(), &info, NULL) == 0 &&
		      (info.caps & CELL_CAP_BIT(CELL_CAP_KILL_TREE));
	return has;
}

struct cell *escape_open(const char *workspace, const struct cell_limits *limits)
{
	struct cell_spec spec = {.backend = backend(),
		.image = is_container() ? getenv("CELL_TEST_IMAGE") : NULL,
		.scratch = is_container() ? CELL_SCRATCH_MEMORY : CELL_SCRATCH_DEFAULT,
		.workspace = workspace,
		.timeout_ms = has_deadlines() ? 20000 : 0,
		.seccomp = getenv("CELL_ESCAPE_SECCOMP")};
	struct cell_error err = {0};
	struct cell *c = NULL;

	struct cell_mount programs = {.source = workspace, .target = "/data", .is_read_only = true};
	if (limits)
		spec.limits = *limits;
	if (spec.limits.disk_bytes) { /* counts with a private workspace only */
		spec.workspace = NULL;
		spec.mounts = &programs;
		spec.n_mounts = 1;
	}
	if (cell_open(&spec, &c, &err) < 0) {
		printf("# open a cell: %s (%s)\n", err.msg, err.hint);
		return NULL;
	}
	return c;
}

/* Why it is no promise in this container; NULL: it is. */
static const char *why_not(const struct trial *t)
{
	static char reason[200];
	size_t n = strlen(t->name);

	for (const char *p = getenv("CELL_ESCAPE_WITHOUT"); p; p = strchr(p, ';')) {
		p += *p == ';';
		if (strncmp(p, t->name, n) != 0 || p[n] != '=')
			continue;
		(void)snprintf(reason, sizeof reason, "%.*s", (int)strcspn(p + n + 1, ";"),
			p + n + 1);
		return reason;
	}
	if ((t->flags & IN_USERS && getenv("CELL_ESCAPE_AS_USER")) ||
		(t->flags & IN_OCI &&
			(!strcmp(backend(), "oci") || !strcmp(backend(), "containerd"))))
		return NULL;
	return t->not_in_containers;
}

static void inside(const char *mode, const char *workspace, size_t i)
{
	const struct trial *t = &trials[i];
	struct cell_backend_info info;
	struct cell_result r = {0};
	struct cell_error err = {0};
	const char *argv[] = {t->limits.disk_bytes ? "/data/attempt" : "/workspace/attempt",
		t->name, t->inner ? t->inner : t->arg, NULL};
	struct cell_exec_opts opts = {.argv = argv, .flags = t->flags & TTY ? CELL_EXEC_TTY : 0};
	char title[200];

	(void)snprintf(title, sizeof title, "%s (%s)", t->what, t->name);
	if (controls[i] != DID_IT) {
		escape_result(true, mode, title, "the attempt does not succeed outside either",
			" ");
		return;
	}
	if (is_container() && why_not(t)) {
		escape_result(true, mode, title, why_not(t), " ");
		return;
	}
	if (t->flags & TTY && (cell_backend_probe(backend(), &info, &err) < 0 ||
				      !(info.caps & CELL_CAP_BIT(CELL_CAP_PTY)))) {
		escape_result(true, mode, title, "there are no terminals here", " ");
		return;
	}
	if (t->needs && (cell_backend_probe(backend(), &info, &err) < 0 ||
				!(info.caps & CELL_CAP_BIT(t->needs)))) {
		escape_result(true, mode, title, "this limit cannot be had here", " ");
		return;
	}
	struct cell *c = escape_open(workspace, &t->limits);
	if (!c) {
		escape_result(false, mode, title, NULL, "no cell");
		return;
	}
	int e = cell_run(c, &opts, NULL, 0, &r, &err);
	bool is_memory = t->limits.memory_bytes != 0;
	bool is_held =
		e == 0 && (r.exit.exit_code == REFUSED || r.exit.exit_code == CANNOT ||
				  r.exit.signal == SIGSYS || (r.exit.exit_code == 128 + SIGSYS) ||
				  (is_memory && r.exit.oom));
	/* to the host a kernel of its own is one process, which the limit ends whole */
	if (is_memory && e < 0 && err.code == CELL_EGONE &&
		cell_backend_probe(backend(), &info, NULL) == 0 &&
		info.caps & CELL_CAP_BIT(CELL_CAP_OWN_KERNEL))
		is_held = true;
	escape_result(is_held, mode, title, NULL, "exit %d, signal %d, oom %d: %s%s %s",
		r.exit.exit_code, r.exit.signal, r.exit.oom, r.out ? r.out : "", r.err ? r.err : "",
		e < 0 ? err.msg : "");
	cell_result_done(&r);
	if (cell_close(c, &err) < 0)
		escape_result(false, mode, "closing the cell", NULL, "%s", err.msg);
}

/* ---- what attempts look for ---- */

static void copy_program(const char *from, const char *to, mode_t mode)
{
	char part[65536];
	int in = open(from, O_RDONLY | O_CLOEXEC),
	    out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);

	if (in < 0 || out < 0)
		scene_die(from);
	for (ssize_t n; (n = read(in, part, sizeof part)) > 0;)
		if (write(out, part, (size_t)n) != n)
			scene_die(to);
	if (fchmod(out, mode) < 0)
		scene_die(to);
	close(in);
	close(out);
}

static void make_place(int i, const char *program, uid_t uid)
{
	char path[200];

	(void)snprintf(place[i], sizeof place[i], "%s/work%d", scratch, i);
	if (mkdir(place[i], 0755) < 0)
		scene_die(place[i]);
	(void)snprintf(path, sizeof path, "%s/attempt", place[i]);
	copy_program(program, path, 0755);
	/* as a cell would make it: its own, setuid */
	(void)snprintf(path, sizeof path, "%s/suid", place[i]);
	copy_program(program, path, 0755);
	if (chown(path, i ? uid : 0, i ? uid : 0) < 0 || chmod(path, 04755) < 0 ||
		chown(place[i], uid, uid) < 0)
		scene_die(path);
	if (i == 0)
		memcpy(suid_path, path, sizeof suid_path);
}

static void listen_on(struct sockaddr *sa, socklen_t len)
{
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, sa, len) < 0 || listen(fd, 64) < 0 || getsockname(fd, sa, &len) < 0)
		scene_die("listen");
}

static void own_address(char *ret, size_t size, unsigned number)
{
	struct sockaddr_in out = {.sin_family = AF_INET, .sin_port = htons(53)}, us;
	socklen_t len = sizeof us;
	char text[32] = "127.0.0.1";
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)inet_pton(AF_INET, "192.0.2.1", &out.sin_addr);
	if (connect(fd, (struct sockaddr *)&out, sizeof out) == 0 &&
		getsockname(fd, (struct sockaddr *)&us, &len) == 0)
		(void)inet_ntop(AF_INET, &us.sin_addr, text, sizeof text);
	close(fd);
	(void)snprintf(ret, size, "%s:%u", text, number);
}

static void set_the_scene(const char *program, uid_t owner)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};

	(void)snprintf(scratch, sizeof scratch, "/tmp/cell-escape.XXXXXX");
	if (!mkdtemp(scratch) || chmod(scratch, 0755) < 0)
		scene_die("mkdtemp");
	(void)snprintf(marker, sizeof marker, "cell-m-%d", (int)getpid());
	(void)snprintf(canary, sizeof canary, "%s/canary", scratch);
	int fd = open(canary, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, "CELL-ESCAPE-CANARY\n", 19) != 19)
		scene_die(canary);
	close(fd);
	make_place(0, program, owner);
	make_place(1, program, 65534);
	(void)snprintf(sock, sizeof sock, "%s/sock", scratch);
	memcpy(un.sun_path, sock, strlen(sock));
	listen_on((struct sockaddr *)&un, sizeof un);
	un = (struct sockaddr_un){.sun_family = AF_UNIX};
	memcpy(un.sun_path + 1, marker, strlen(marker));
	listen_on((struct sockaddr *)&un,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(marker)));
	listen_on((struct sockaddr *)&in, sizeof in);
	(void)snprintf(port, sizeof port, "127.0.0.1:%u", ntohs(in.sin_port));
	own_address(host_port, sizeof host_port, ntohs(in.sin_port));
	(void)setenv("CELL_ESCAPE_MARKER", "1", 1);
}

static pid_t start_bystander(void)
{
	(void)fflush(NULL);
	pid_t pid = fork();

	if (pid == 0) {
		(void)prctl(PR_SET_NAME, marker);
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			(void)pause();
	}
	(void)snprintf(bystander, sizeof bystander, "%d", (int)pid);
	return pid;
}

static void run_all(const char *mode, int which)
{
	char state[160];

	(void)snprintf(state, sizeof state, "%s/state%d", scratch, which);
	if ((mkdir(state, 0700) < 0 && errno != EEXIST) || setenv("CELL_STATE_DIR", state, 1) < 0)
		scene_die(state);
	for (size_t i = 0; i < N_TRIALS; i++)
		inside(mode, place[which], i);
	if (is_container())
		return;
	escape_neighbours(mode, place[which]);
	escape_parked(mode, place[which]);
	(void)snprintf(state, sizeof state, "%s/attempt", place[0]);
	escape_shared(mode, place[which], state);
	escape_leftovers(mode, place[which]);
}

int main(int argc, char **argv)
{
	struct cell_backend_info info;
	char state[160];

	if (argc < 2 || geteuid() != 0) {
		printf("1..0 # SKIP %s\n",
			argc < 2 ? "no attempt program given" : "the controls need root");
		return 0;
	}
	if (cell_backend_probe(backend(), &info, NULL) < 0 || !info.is_usable) {
		printf("1..0 # SKIP %s does not hold here: %s\n", backend(), info.reason);
		return 0;
	}
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..%zu\n", is_container() ? N_TRIALS : 2 * (N_TRIALS + ESCAPE_MORE));
	set_the_scene(argv[1], argc > 2 ? (uid_t)strtoul(argv[2], NULL, 10) : 0);
	pid_t standing_by = start_bystander();
	for (size_t i = 0; i < N_TRIALS; i++)
		controls[i] = control(&trials[i]);
	/* whoever makes it, the cell is who owns the workspace */
	if (is_container() && !getenv("CELL_ESCAPE_AS_USER")) {
		run_all(backend(), 1);
		goto done;
	}
	if (!is_container()) {
		(void)snprintf(state, sizeof state, "%s/attempt", place[0]);
		escape_shared_controls(state);
		run_all("root", 0);
	}
	(void)snprintf(state, sizeof state, "%s/state1", scratch);
	if (mkdir(state, 0700) < 0 || chown(state, 65534, 65534) < 0)
		scene_die(state);
	(void)fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		tap.n_bad = 0;
		if (!scene_become(65534))
			scene_die("become an ordinary user");
		run_all(is_container() ? "container of a user" : "user", 1);
		exit(tap.n_bad ? 1 : 0);
	}
	tap.n_bad += scene_wait(pid) != 0;
done:
	(void)kill(standing_by, SIGKILL);
	scene_remove(scratch);
	return tap.n_bad != 0;
}
