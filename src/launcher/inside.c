/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inside.c: the first process of a cell, until it becomes the guest. It is a copy of the launcher in
 * new namespaces: it has every capability over those and none over the host. It builds the root, makes
 * it /, lets go of everything else, and seals itself (seal.c). Nothing untrusted has run in the cell
 * before the last line, so there is nobody to race with.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/closefds.h"
#include "launcher/launcher.h"
#include "launcher/masks.h"
#include "launcher/mount.h"
#include "launcher/mount_classic.h"
#include "launcher/reply.h"
#include "launcher/resolv.h"
#include "launcher/stage.h"
#include "launcher/sys.h"

#define DEFAULT_DISK	(UINT64_C(1) << 30)
#define SHM_BESIDE_DISK (UINT64_C(64) << 20)
#define OWN_INODES	8     /* directories of ours, not the cell's */
#define OOM_SCORE	"300" /* guest/keeper.c gives commands more */
#define ATTR_SCRATCH	(ATTR_NOSUID | ATTR_NODEV)
#define FIRST_HIGH_FD	64
#define FD_STREAM	3
#define FD_LOCK		4
#define FD_OOM		5
#define FD_HOLD		6
#define FD_GUEST	7 /* from here on gone at exec */
#define FD_GO		8
#define FD_CONTROL	9

__attribute__((noreturn)) static void give_up(const struct birth *b, const struct failure *f)
{
	(void)send(b->go_fd, f, sizeof *f, MSG_NOSIGNAL);
	_exit(125);
}

/* A file system in memory of this size and with this many files. */
static int mount_memory(uint64_t bytes, uint64_t inodes)
{
	char size[24], count[24];
	const char *const options[] = {
		"size", size, "nr_inodes", count, "mode", "0755", "source", "cell", NULL};

	(void)snprintf(size, sizeof size, "%" PRIu64, bytes);
	(void)snprintf(count, sizeof count, "%" PRIu64, inodes);
	return mount_new("tmpfs", options, ATTR_SCRATCH);
}

/* A private file system for everything the cell writes: one size, one number of files. In memory, or
 * the one on disk that the launcher has mounted. */
static int mount_scratch(const struct birth *b, struct failure *f)
{
	const struct launcher_head *h = &b->rq->head;
	uint64_t bytes = h->disk_bytes ? h->disk_bytes : DEFAULT_DISK;
	auto_fd int fd = b->scratch_fd >= 0 ? dup(b->scratch_fd)
					    : mount_memory(bytes, h->inodes ? h->inodes + OWN_INODES
									    : 1024 + bytes / 4096);

	if (fd < 0 || mount_move(fd, AT_FDCWD, "/" STAGE_SCRATCH) < 0)
		return fail(f, LAUNCHER_STEP_SCRATCH, "mount", "it");
	(void)umask(0);
	if (mkdirat(fd, "tmp", 01777) < 0 || mkdirat(fd, "shm", 01777) < 0 ||
		mkdirat(fd, "home", 0755) < 0)
		return fail(f, LAUNCHER_STEP_SCRATCH, "make directories", NULL);
	if (b->scratch_fd < 0)
		return steal_fd(fd);
	/* shared memory is memory, wherever the rest is */
	auto_fd int shm = mount_memory(SHM_BESIDE_DISK, 1024);
	if (shm < 0 || fchmodat(shm, ".", 01777, 0) < 0 || mount_at(shm, fd, "shm") < 0)
		return fail(f, LAUNCHER_STEP_SCRATCH, "mount", "shared memory");
	return steal_fd(fd);
}

static int bind_scratch(int scratch, const char *name, int root, const char *target, unsigned attr,
	struct failure *f)
{
	auto_fd int tree = mount_clone_one(scratch, name, attr);

	if (tree < 0 || mount_at(tree, root, target) < 0)
		return fail(f, LAUNCHER_STEP_SCRATCH, "mount", target);
	return 0;
}

/* "lowerdir=2:1:0": names relative to the working directory, or many layers would not fit. */
static int overlay_options(const struct birth *b, char *ret, size_t size)
{
	size_t n = (size_t)snprintf(ret, size, "lowerdir=");

	for (size_t i = b->rq->n_layers; i-- > 0;)
		n += (size_t)snprintf(ret + n, size - n, "%zu%s", i, i ? ":" : "");
	n += (size_t)snprintf(ret + n, size - n, ",upperdir=upper,workdir=work,userxattr");
	return n < size ? 0 : -1;
}

/* The image's layers read-only below, what the cell changes above. Names of layers are ours: the cell
 * sees them in /proc/mounts. */
static int mount_overlay(const struct birth *b, int scratch, struct failure *f)
{
	static const char *const targets[] = {
		"proc", "dev", "tmp", CELL_HOME, CELL_WORKSPACE, NULL};
	char options[1024], name[16];

	if (mkdirat(scratch, "image", 0700) < 0 || fchdir(scratch) < 0 || chdir("image") < 0 ||
		mkdir("upper", 0755) < 0 || mkdir("work", 0700) < 0)
		return fail(f, LAUNCHER_STEP_OVERLAY, "make directories", NULL);
	for (size_t i = 0; i < b->rq->n_layers; i++) {
		(void)snprintf(name, sizeof name, "%zu", i);
		if (mkdir(name, 0700) < 0 || mount_move(b->layer_fds[i], AT_FDCWD, name) < 0)
			return fail(f, LAUNCHER_STEP_OVERLAY, "mount layer", name);
	}
	if (overlay_options(b, options, sizeof options) < 0 ||
		mount("cell", "/" STAGE_CELL, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return fail(f, LAUNCHER_STEP_OVERLAY, "mount", "overlay");
	auto_fd int root = open("/" STAGE_CELL, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root < 0 || chdir("/") < 0)
		return fail(f, LAUNCHER_STEP_ROOT, "open the root", NULL);
	for (int i = 0; targets[i]; i++)
		if (mount_make_target(root, targets[i], false) < 0)
			return fail(f, LAUNCHER_STEP_OVERLAY, "make in the image", targets[i]);
	auto_fd int dev = mount_clone(AT_FDCWD, "/" STAGE_HOST "/dev", 0);
	/* an image whose /dev is a link is refused here (CVE-2026-41579, CVE-2026-47766) */
	if (dev < 0 || mount_at(dev, root, "dev") < 0)
		return fail(f, LAUNCHER_STEP_DEV, "mount", "/dev");
	return steal_fd(root);
}

/* Can images be had? Only a mount in a cell's own user namespace tells: Linux before 5.11 has overlays and
 * does not allow them there. */
static bool try_overlay(int scratch)
{
	const char options[] = "lowerdir=0:1,upperdir=upper,workdir=work,userxattr";

	bool is_good =
		mkdirat(scratch, "trial", 0700) == 0 && fchdir(scratch) == 0 &&
		chdir("trial") == 0 && mkdir("upper", 0755) == 0 && mkdir("work", 0700) == 0 &&
		mkdir("0", 0755) == 0 && mkdir("1", 0755) == 0 &&
		mount("cell", "/" STAGE_LOWER, "overlay", MS_NOSUID | MS_NODEV, options) == 0 &&
		umount2("/" STAGE_LOWER, MNT_DETACH) == 0;
	return chdir("/") == 0 && is_good;
}

static int take_entry(int from, int to, const char *name)
{
	struct stat st;
	char link[256];

	if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (S_ISLNK(st.st_mode)) {
		ssize_t n = readlinkat(from, name, link, sizeof link - 1);
		if (n < 0)
			return -1;
		link[n] = '\0';
		return symlinkat(link, to, name);
	}
	auto_fd int tree = mount_clone(from, name, 0);
	return tree < 0 || mkdirat(to, name, 0755) < 0 ? -1 : mount_at(tree, to, name);
}

/* A root of its own made of the template's parts, for mounts at names the template does not have. */
static int mount_own_root(const struct birth *b, int scratch, struct failure *f)
{
	if (mount_move(b->root_fd, AT_FDCWD, "/" STAGE_LOWER) < 0 ||
		mkdirat(scratch, "root", 0755) < 0)
		return fail(f, LAUNCHER_STEP_ROOT, "attach the template", NULL);
	auto_fd int root = mount_clone_one(scratch, "root", ATTR_SCRATCH);
	if (root < 0 || mount_move(root, AT_FDCWD, "/" STAGE_CELL) < 0)
		return fail(f, LAUNCHER_STEP_ROOT, "attach the root", NULL);
	int copy = openat(b->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);
	if (!d)
		return fail(f, LAUNCHER_STEP_ROOT, "read the template", NULL);
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.' && take_entry(b->root_fd, root, e->d_name) < 0)
			return fail(f, LAUNCHER_STEP_ROOT, "take from the template", e->d_name);
	return steal_fd(root);
}

static int mount_root(const struct birth *b, int scratch, struct failure *f)
{
	if (b->rq->n_layers)
		return mount_overlay(b, scratch, f);
	if (b->rq->n_mounts)
		return mount_own_root(b, scratch, f);
	if (mount_move(b->root_fd, AT_FDCWD, "/" STAGE_CELL) < 0)
		return fail(f, LAUNCHER_STEP_ROOT, "attach the root", NULL);
	return dup(b->root_fd);
}

/* Settings of the kernel (core_pattern and its like: CVE-2025-52881, CVE-2022-0492) are read-only even
 * for somebody who found a way to be root here. */
static int hold_settings(int proc, struct failure *f)
{
	auto_fd int sys =
		mount_clone_one(proc, "sys", ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC);

	if (sys < 0 || mount_move(sys, proc, "sys") < 0)
		return fail(f, LAUNCHER_STEP_PROC, "make read-only", "/proc/sys");
	return 0;
}

/* A fresh one: only this cell's processes are in it. No hidepid: the guest must see a process that
 * calls itself undumpable, or such a process would outlive its deadline. */
static int mount_proc(struct birth *b, int root, struct failure *f)
{
	static const char *const whole[] = {"source", "cell", NULL};
	static const char *const pids_only[] = {"source", "cell", "subset", "pid", NULL};
	const unsigned attr = ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC;
	auto_fd int proc = host.has_full_proc ? mount_new("proc", whole, attr) : -1;

	b->has_full_proc = proc >= 0;
	if (proc < 0) /* in a container whose /proc is masked, this much is allowed */
		proc = mount_new("proc", pids_only, attr);
	if (proc < 0 || mount_at(proc, root, "proc") < 0)
		return fail(f, LAUNCHER_STEP_PROC, "mount", "proc");
	if (!b->has_full_proc)
		return 0;
	return hold_settings(proc, f) < 0 ? -1 : masks_cover(proc, f);
}

static int mount_system(struct birth *b, int root, int scratch, struct failure *f)
{
	/* own instance: no terminal of the host's or of another cell has a name here (CVE-2025-52565) */
	static const char *const pts_options[] = {
		"source", "cell", "ptmxmode", "0666", "mode", "0620", NULL};

	if (mount_proc(b, root, f) < 0)
		return -1;
	auto_fd int pts = mount_new("devpts", pts_options, ATTR_NOSUID | ATTR_NOEXEC);
	if (pts < 0 || mount_at(pts, root, "dev/pts") < 0)
		return fail(f, LAUNCHER_STEP_DEV, "mount", "/dev/pts");
	if (bind_scratch(scratch, "shm", root, "dev/shm", ATTR_SCRATCH | ATTR_NOEXEC, f) < 0 ||
		bind_scratch(scratch, "tmp", root, "tmp", 0, f) < 0 ||
		bind_scratch(scratch, "home", root, CELL_HOME, 0, f) < 0)
		return -1;
	return 0;
}

static int mount_named(const struct birth *b, int root, int scratch, struct failure *f)
{
	const struct launcher_request *rq = b->rq;
	struct stat st;

	if (b->workspace_fd >= 0) {
		if (mount_at(b->workspace_fd, root, CELL_WORKSPACE) < 0)
			return fail(f, LAUNCHER_STEP_WORKSPACE, "mount", CELL_WORKSPACE);
	} else if (!(rq->head.flags & BIRTH_WORKSPACE_LATER) &&
		   (mkdirat(scratch, "work-space", 0755) < 0 ||
			   bind_scratch(scratch, "work-space", root, CELL_WORKSPACE, 0, f) < 0)) {
		return fail(f, LAUNCHER_STEP_WORKSPACE, "make a private", "workspace");
	}
	for (size_t i = 0; i < rq->n_mounts; i++) {
		const char *target = rq->mounts[i].target;

		if (fstat(b->mount_fds[i], &st) < 0 ||
			mount_make_target(root, target, !S_ISDIR(st.st_mode)) < 0 ||
			mount_at(b->mount_fds[i], root, target) < 0)
			return fail(f, LAUNCHER_STEP_MOUNT, "mount", target);
	}
	return 0;
}

static int enter_root(int root, bool is_read_only, struct failure *f)
{
	char cwd[16];

	if (is_read_only && mount_attr(root, ATTR_RDONLY, -1, false) < 0)
		return fail(f, LAUNCHER_STEP_ROOT, "make read-only", "/");
	/* not chroot: what was / before is unmounted, there is no way back to it */
	if (fchdir(root) < 0 || sys_pivot_root(".", ".") < 0 || umount2(".", MNT_DETACH) < 0 ||
		chdir("/") < 0)
		return fail(f, LAUNCHER_STEP_PIVOT, "change the root", NULL);
	/* CVE-2024-21626: a working directory outside the root looks like one inside */
	if (syscall(SYS_getcwd, cwd, sizeof cwd) < 0 || strcmp(cwd, "/") != 0)
		return fail_with(f, LAUNCHER_STEP_PIVOT, ENOENT,
			"the working directory is outside of the root", NULL);
	return 0;
}

/* Without detached mounts the launcher has put them into its own namespace, of which we have a copy: take
 * our own of each. */
static int take_trees(struct birth *b, struct failure *f)
{
	const struct launcher_request *rq = b->rq;
	int *fds[LAUNCHER_MAX_LAYERS + LAUNCHER_MAX_MOUNTS + 2];
	size_t n = 0;

	for (size_t i = 0; i < rq->n_layers; i++)
		fds[n++] = &b->layer_fds[i];
	for (size_t i = 0; i < rq->n_mounts; i++)
		fds[n++] = &b->mount_fds[i];
	if (b->workspace_fd >= 0)
		fds[n++] = &b->workspace_fd;
	if (b->scratch_fd >= 0)
		fds[n++] = &b->scratch_fd;
	if (classic_born() < 0)
		return fail(f, LAUNCHER_STEP_ROOT, "find the copies", NULL);
	for (size_t i = 0; i < n; i++) {
		int fd = classic_inherit(*fds[i]);
		if (fd < 0)
			return fail(f, LAUNCHER_STEP_ROOT, "take a copy", NULL);
		*fds[i] = fd; /* the old one is not closed: its number says which place is taken */
	}
	if (!rq->n_layers && (b->root_fd = mount_clone(AT_FDCWD, "/" STAGE_HOST, 0)) < 0)
		return fail(f, LAUNCHER_STEP_ROOT, "copy the template", NULL);
	return 0;
}

static int build(struct birth *b, struct failure *f)
{
	/* when the whole machine runs out of memory, cells go first; commands before the guest */
	if (spare_write_proc("/proc/self/oom_score_adj", OOM_SCORE) < 0)
		return fail(f, LAUNCHER_STEP_LIMITS, "raise", "oom_score_adj");
	/* files of ours must belong to the cell's only user */
	if (setresgid(CELL_GID, CELL_GID, CELL_GID) < 0 ||
		setresuid(CELL_UID, CELL_UID, CELL_UID) < 0)
		return fail(f, LAUNCHER_STEP_MAP_IDS, "become the cell's user", NULL);
	/* a user namespace inside would give capabilities over fresh namespaces, where most kernel
	 * holes of the last years were found; the filter forbids it too */
	if (spare_write_proc("/proc/sys/user/max_user_namespaces", "0") < 0)
		return fail(f, LAUNCHER_STEP_NESTING, "write", "user.max_user_namespaces");
	if (mount_is_classic() && take_trees(b, f) < 0)
		return -1;
	auto_fd int scratch = mount_scratch(b, f);
	b->has_overlay =
		scratch >= 0 && (b->rq->head.flags & LAUNCHER_TRIAL) && try_overlay(scratch);
	auto_fd int root = scratch < 0 ? -1 : mount_root(b, scratch, f);
	if (root < 0)
		return -1;
	if (mount_system(b, root, scratch, f) < 0 || mount_named(b, root, scratch, f) < 0)
		return -1;
	const char *resolv = b->rq->texts[LAUNCHER_TEXT_RESOLV];
	if (*resolv && resolv_place(root, scratch, resolv, b->rq->n_layers, f) < 0)
		return -1;
	/* only now is it in all its groups: they look like the top from inside */
	if (unshare(CLONE_NEWCGROUP) < 0 && errno != EINVAL)
		return fail(f, LAUNCHER_STEP_NAMESPACES, "make a cgroup namespace", NULL);
	return enter_root(root, b->rq->n_mounts && !b->rq->n_layers, f);
}

/* Exactly 0, 1, 2, the stream, the locks on slot and image and the oom event survive; everything else of the
 * launcher's is closed for good, not only at exec (CVE-2024-21626, CVE-2016-9962). */
static int hand_over(struct birth *b, struct failure *f)
{
	const int from[] = {b->rq->stream_fd, b->slot->lock_fd, b->oom_fd, b->rq->hold_fd,
		b->rq->guest_fd, b->go_fd, b->rq->control_fd};
	const int to[] = {FD_STREAM, FD_LOCK, FD_OOM, FD_HOLD, FD_GUEST, FD_GO, FD_CONTROL};
	enum {
		N = sizeof from / sizeof *from
	};
	int high[N];
	unsigned top = FIRST_HIGH_FD;

	for (int i = 0; i < N; i++) {
		high[i] = from[i] < 0 ? -1 : fcntl(from[i], F_DUPFD_CLOEXEC, FIRST_HIGH_FD);
		if (from[i] >= 0 && high[i] < 0)
			return fail(f, LAUNCHER_STEP_FDS, "copy", NULL);
		if (high[i] >= (int)top)
			top = (unsigned)high[i] + 1;
	}
	close_fds(top, ~0u);
	close_fds(0, FIRST_HIGH_FD - 1);
	b->go_fd = high[5];
	if (open("/dev/null", O_RDWR) != 0 || dup2(0, 1) != 1 || dup2(0, 2) != 2)
		return fail(f, LAUNCHER_STEP_FDS, "open", "/dev/null");
	for (int i = 0; i < N; i++)
		if (high[i] >= 0 && dup3(high[i], to[i], to[i] >= FD_GUEST ? O_CLOEXEC : 0) < 0)
			return fail(f, LAUNCHER_STEP_FDS, "place", NULL);
	b->go_fd = FD_GO;
	close_fds(FD_CONTROL + 1, ~0u);
	return 0;
}

struct arguments {
	const char *v[40];
	size_t n;
	char text[8][48];
	size_t n_text;
};

static void arg(struct arguments *a, const char *flag, const char *value)
{
	a->v[a->n++] = flag;
	a->v[a->n++] = value;
}

static void arg_limit(struct arguments *a, const char *name, uint64_t value)
{
	if (!value)
		return;
	(void)snprintf(a->text[a->n_text], sizeof a->text[0], "%s=%" PRIu64, name, value);
	arg(a, "--rlimit", a->text[a->n_text++]);
}

static void execute(const struct birth *b)
{
	static const char home[] = "HOME=" CELL_HOME;
	static const char *const env[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", home,
		"USER=cell", "LOGNAME=cell", "SHELL=/bin/sh", "LANG=C.UTF-8", NULL};
	const struct launcher_head *h = &b->rq->head;
	const char *title = b->rq->texts[LAUNCHER_TEXT_TITLE];
	struct arguments a = {.n = 1};

	a.v[0] = *title ? title : "cell-guest";
	arg(&a,
		h->flags & BIRTH_PARKED	   ? "--wait-fd"
		: h->flags & LAUNCHER_KEEP ? "--listen-fd"
					   : "--fd",
		"3");
	arg(&a, "--workspace", CELL_WORKSPACE);
	arg(&a, "--home", CELL_HOME);
	arg(&a, "--tmp", "/tmp");
	if (*b->rq->texts[LAUNCHER_TEXT_WARM])
		arg(&a, "--warm", b->rq->texts[LAUNCHER_TEXT_WARM]);
	if (b->oom_fd >= 0)
		arg(&a,
			cgroup_oom_is_eventfd(&b->slot->cgroup) ? "--oom-eventfd"
								: "--oom-events-fd",
			"5");
	if (!(h->flags & BIRTH_PARKED)) {
		arg_limit(&a, "nofile", h->files);
		arg_limit(&a, "fsize", h->file_size_bytes);
		arg_limit(&a, "as", h->process_memory_bytes);
		arg_limit(&a, "cpu", h->cpu_time_s);
	}
	(void)syscall(SYS_execveat, FD_GUEST, "", a.v, env, AT_EMPTY_PATH);
}

/* Straight to the client: what is left is exec, which does not fail. */
static void say_ready(const struct birth *b)
{
	struct launcher_reply r = {.magic = LAUNCHER_MAGIC,
		.answer = LAUNCHER_READY,
		.pid = b->go.pid,
		.slot = b->go.slot,
		.can = b->go.enforced | (b->has_full_proc ? LAUNCHER_CAN_FULL_PROC : 0) |
		       (b->has_overlay ? LAUNCHER_CAN_OVERLAY : 0)};
	const char word = b->has_full_proc ? BIRTH_READY_FULL_PROC : BIRTH_READY;

	(void)send(FD_GO, &word, 1, MSG_NOSIGNAL);
	if (b->rq->control_fd < 0) /* parked: nobody to tell yet */
		return;
	int pidfd = (int)syscall(SYS_pidfd_open, getpid(), 0);
	(void)reply_send(FD_CONTROL, &r, pidfd);
	if (pidfd >= 0)
		close(pidfd);
}

void inside_main(struct birth *b)
{
	struct failure f = {0};
	struct pollfd p = {.fd = FD_GO, .events = 0};

	/* our copy of the launcher's end: with it open, the launcher's death would go unheard for ever */
	close(b->parent_fd);
	if (recv(b->go_fd, &b->go, sizeof b->go, 0) != (ssize_t)sizeof b->go)
		_exit(125);
	if (build(b, &f) < 0 || seal_read_filter(b->rq, &f) < 0 || hand_over(b, &f) < 0 ||
		seal_limits(b, &f) < 0 || seal_session(&f) < 0 ||
		seal_privileges(b->rq->head.flags & LAUNCHER_KEEP, &f) < 0 || seal_landlock(&f) < 0)
		give_up(b, &f);
	/* the launcher's death kills us from here on; had it died before, this would be its end */
	if (poll(&p, 1, 0) > 0 && (p.revents & POLLHUP))
		_exit(125);
	if (seal_filter(&f) < 0)
		give_up(b, &f);
	say_ready(b);
	if (b->rq->head.flags & LAUNCHER_TRIAL)
		_exit(0);
	execute(b);
	(void)fail(&f, LAUNCHER_STEP_EXEC, "execute the guest", NULL);
	give_up(b, &f);
}
