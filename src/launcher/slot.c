/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slot.c: numbers that one living cell at a time has, on the whole machine (rootful) or for this
 * user. The number gives the cell its ids on the host and the names of its cgroups. A number is held
 * by an flock on a file of that name: the launcher has it open and so has the cell's first process,
 * so a crash of either, or of both, gives it back without anybody having to notice.
 *
 * The file's text says whose it is, so that a number from an old record never ends another cell.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/launcher.h"
#include "launcher/split.h"
#include "launcher/sys.h"

#define IDLE_MAX 64 /* kept warm: what many cells at once have left is given back */
#define SWEEP_MAX \
	256 /* looked at by each launcher that ends, on a machine with thousands of cells */

static struct slot slots[MAX_CELLS];
static struct slot *idle[MAX_CELLS]; /* held, nobody in it */
static size_t n_idle, n_slots;
static uint8_t is_ours[LAUNCHER_MAX_SLOTS / 8];
static uint32_t next_number;

static bool is_held_by_us(uint32_t n)
{
	return is_ours[n / 8] & 1u << n % 8;
}

static void note_ours(uint32_t n, bool is_held)
{
	if (is_held)
		is_ours[n / 8] |= (uint8_t)(1u << n % 8);
	else
		is_ours[n / 8] &= (uint8_t) ~(1u << n % 8);
	if (!is_held && n < next_number)
		next_number = n;
}

static const char *name_of(uint32_t number, char ret[16])
{
	(void)snprintf(ret, 16, "%" PRIu32, number);
	return ret;
}

/* The lock, or -1: EWOULDBLOCK when it is another's. */
static int lock_number(uint32_t number, bool is_made)
{
	char name[16];

	(void)name_of(number, name);
	for (int i = 0; i < 16; i++) {
		struct stat mine, now;
		auto_fd int fd = openat(host.slots_fd, name,
			O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | (is_made ? O_CREAT : 0),
			0600);

		if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
			return -1;
		/* who had it before may have removed the name since we opened it */
		if (fstat(fd, &mine) == 0 &&
			fstatat(host.slots_fd, name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
			mine.st_ino == now.st_ino && mine.st_dev == now.st_dev)
			return steal_fd(fd);
	}
	errno = EWOULDBLOCK;
	return -1;
}

bool slot_is_alive(uint32_t number)
{
	if (is_held_by_us(number))
		return true;
	int fd = lock_number(number, false);
	if (fd < 0)
		return errno == EWOULDBLOCK;
	close(fd);
	return false;
}

static void forget_name(uint32_t number)
{
	char name[16];

	(void)unlinkat(host.slots_fd, name_of(number, name), 0);
}

void slot_name_owner(struct slot *s, const char *title)
{
	if (!*title && !s->has_title)
		return;
	char name[16];

	s->has_title = *title;
	auto_fd int fd = openat(host.slots_fd, name_of(s->number, name),
		O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0 && *title)
		(void)!write(fd, title, strlen(title));
}

/* What a dead cell's lock says must not be said of the next one: who still removes the former would kill
 * that. Before the groups change hands, so that whoever finds the name has opened the dead cell's. */
static bool forget_owner(struct slot *s)
{
	struct stat st;

	if (fstat(s->lock_fd, &st) == 0 && st.st_size == 0)
		return true;
	s->has_title = true;
	slot_name_owner(s, "");
	return fstat(s->lock_fd, &st) == 0 && st.st_size == 0;
}

bool slot_is_owned_by(uint32_t number, const char *title)
{
	char name[16], text[256];
	auto_fd int fd = openat(host.slots_fd, name_of(number, name),
		O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return !strcmp(text, title);
}

static struct slot *new_slot(uint32_t number, int lock_fd)
{
	struct slot *s = NULL;

	for (size_t i = 0; i < n_slots && !s; i++)
		if (!slots[i].is_held)
			s = &slots[i];
	if (!s && n_slots < MAX_CELLS)
		s = &slots[n_slots++];
	if (!s)
		return NULL;
	*s = (struct slot){.number = number,
		.is_held = true,
		.lock_fd = lock_fd,
		.idmaps = {{.fd = -1}, {.fd = -1}}};
	cgroup_slot_init(&s->cgroup);
	s->uid = host.n_uids ? host.first_uid + number : host.uid;
	s->gid = host.n_uids ? host.first_uid + number : host.gid;
	note_ours(number, true);
	return s;
}

/* Give the number back, leaving its groups alone. */
static void slot_drop(struct slot *s)
{
	note_ours(s->number, false);
	next_number = s->number + 1;
	close(s->lock_fd);
	*s = (struct slot){.lock_fd = -1, .idmaps = {{.fd = -1}, {.fd = -1}}};
}

struct slot *slot_take(struct failure *f)
{
	uint32_t max =
		host.n_uids && host.n_uids < LAUNCHER_MAX_SLOTS ? host.n_uids : LAUNCHER_MAX_SLOTS;

	if (n_idle)
		return idle[--n_idle];
	for (uint32_t n = next_number; n < max; n++) {
		if (is_held_by_us(n))
			continue;
		int fd = lock_number(n, true);
		if (fd < 0 && errno == EWOULDBLOCK)
			continue;
		if (fd < 0) {
			(void)fail(f, LAUNCHER_STEP_SLOT, "lock a number of our own", NULL);
			return NULL;
		}
		struct slot *s = new_slot(n, fd);
		if (!s) {
			close(fd);
			(void)fail_with(f, LAUNCHER_STEP_SLOT, EAGAIN, "too many cells at once",
				NULL);
			return NULL;
		}
		next_number = n + 1;
		/* CPUs and limits that a crashed launcher left there are not ours; and who lives there under
		 * another lock than ours must not be mixed with us */
		bool is_nobodys = forget_owner(s);
		cgroup_model_release(&host.cgroups, &s->cgroup, n);
		if (is_nobodys && cgroup_remove(&host.cgroups, &s->cgroup, n))
			return s;
		slot_drop(s);
	}
	(void)fail_with(f, LAUNCHER_STEP_SLOT, EAGAIN, "no number is free", NULL);
	return NULL;
}

struct slot *slot_adopt(uint32_t number, const char *title, struct failure *f)
{
	for (size_t i = 0; i < n_slots; i++)
		if (slots[i].is_held && slots[i].number == number)
			return NULL;
	struct cgroup_slot groups;
	cgroup_slot_init(&groups);
	cgroup_adopt(&host.cgroups, &groups, number);
	int fd = -1;
	for (int i = 0; i < 2000; i++) { /* who is killed needs a moment to be gone */
		/* asked again with the groups open: another may have removed the cell just now, and
		 * the number have gone to one that must not be killed. A name is there only as long
		 * as its cell's groups are, so those are its own, or gone and nobody's */
		if (!slot_is_owned_by(number, title)) {
			cgroup_close(&groups);
			slot_sweep_one(number);
			return NULL;
		}
		cgroup_kill(&host.cgroups, &groups);
		fd = lock_number(number, true);
		if (fd >= 0 || errno != EWOULDBLOCK)
			break;
		(void)usleep(i < 20 ? 200 : 5000);
	}
	if (fd < 0) {
		cgroup_close(&groups);
		(void)fail(f, LAUNCHER_STEP_KILL, "wait for the cell's first process to end", NULL);
		return NULL;
	}
	struct slot *s = new_slot(number, fd);
	if (!s) {
		close(fd);
		(void)fail_with(f, LAUNCHER_STEP_SLOT, EAGAIN, "too many cells at once", NULL);
		return NULL;
	}
	s->cgroup = groups;
	return s;
}

void slot_recycle(struct slot *s)
{
	slot_name_owner(s, "");
	if (s->cgroup.is_dedicated)
		cgroup_model_release(&host.cgroups, &s->cgroup, s->number);
	/* since Linux 6.14 a process that clone3 puts into a group that was ever killed dies at once */
	if (s->cgroup.was_killed)
		(void)cgroup_remove(&host.cgroups, &s->cgroup, s->number);
	else
		cgroup_reset(&host.cgroups, &s->cgroup);
	idle[n_idle++] = s;
}

void slot_free(struct slot *s)
{
	if (!s || !s->is_held)
		return;
	for (size_t i = 0; i < n_idle; i++)
		if (idle[i] == s)
			idle[i] = idle[--n_idle];
	cgroup_model_release(&host.cgroups, &s->cgroup, s->number);
	(void)cgroup_remove(&host.cgroups, &s->cgroup, s->number);
	cgroup_model_settle(&host.cgroups);
	forget_name(s->number);
	note_ours(s->number, false);
	close(s->lock_fd);
	for (size_t i = 0; i < 2; i++)
		if (s->idmaps[i].fd >= 0)
			close(s->idmaps[i].fd);
	*s = (struct slot){.lock_fd = -1, .idmaps = {{.fd = -1}, {.fd = -1}}};
}

bool slot_trim(bool is_asked)
{
	if (n_idle <= IDLE_MAX)
		return false;
	if (is_asked)
		slot_free(idle[0]);
	return true;
}

void slot_free_all(void)
{
	while (n_idle)
		slot_free(idle[n_idle - 1]);
}

/* false: somebody lives there. */
static bool sweep_number(uint32_t number, bool is_made)
{
	int fd = is_held_by_us(number) ? -1 : lock_number(number, is_made);

	if (fd < 0)
		return false;
	struct cgroup_slot groups;
	cgroup_slot_init(&groups);
	cgroup_adopt(&host.cgroups, &groups, number);
	cgroup_kill(&host.cgroups, &groups);
	(void)cgroup_remove(&host.cgroups, &groups, number);
	forget_name(number);
	close(fd);
	return true;
}

void slot_sweep_one(uint32_t number)
{
	(void)sweep_number(number, true);
}

/* How many were free. */
static size_t sweep_names(size_t max)
{
	size_t n_swept = 0;
	int copy = openat(host.slots_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);

	for (struct dirent *e; d && max && (e = readdir(d));) {
		char *end;
		unsigned long n = strtoul(e->d_name, &end, 10);

		if (end == e->d_name || *end || n >= LAUNCHER_MAX_SLOTS)
			continue;
		n_swept += sweep_number((uint32_t)n, false);
		max--;
	}
	return n_swept;
}

void slot_sweep(void)
{
	(void)sweep_names(SIZE_MAX);
	cgroup_each(&host.cgroups, slot_sweep_one);
	cgroup_model_sweep(&host.cgroups);
	cgroup_model_settle(&host.cgroups);
}

void slot_sweep_some(void)
{
	if (!sweep_names(SWEEP_MAX))
		return;
	cgroup_model_sweep(&host.cgroups);
	cgroup_model_settle(&host.cgroups);
}

static int write_proc_file(pid_t pid, const char *name, const char *text)
{
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* The kernel takes the mapping of an idmapped mount from a user namespace. This one has no process:
 * a child that only waits is started in it, the maps are written, the child is ended. */
static int make_idmap(const struct slot *s, uint32_t uid, uint32_t gid, struct failure *f)
{
	char text[48], path[48];
	int pidfd = -1, fd = -1;
	pid_t parent = getpid(), pid = split(CLONE_NEWUSER, -1, &pidfd, NULL);

	if (pid < 0)
		return fail(f, LAUNCHER_STEP_WORKSPACE,
			"make a user namespace for an idmapped mount", NULL);
	if (pid == 0) {
		/* it has our locks: left behind by a launcher that was killed, it would keep them for ever */
		if (prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || getppid() != parent)
			_exit(1);
		for (;;)
			(void)pause();
	}
	(void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
	(void)snprintf(text, sizeof text, "%" PRIu32 " %" PRIu32 " 1", uid, s->uid);
	int r = write_proc_file(pid, "uid_map", text);
	(void)snprintf(text, sizeof text, "%" PRIu32 " %" PRIu32 " 1", gid, s->gid);
	if (r == 0)
		r = write_proc_file(pid, "gid_map", text);
	if (r == 0)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		(void)fail(f, LAUNCHER_STEP_WORKSPACE, "map the owner's ids", NULL);
	(void)sys_pidfd_signal(pidfd, SIGKILL);
	siginfo_t info;
	while (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED | __WALL) < 0 &&
		errno == EINTR)
		;
	close(pidfd);
	return fd;
}

int slot_idmap(struct slot *s, uint32_t uid, uint32_t gid, struct failure *f)
{
	struct slot_idmap *m = &s->idmaps[0];

	for (size_t i = 0; i < 2; i++) {
		m = &s->idmaps[i];
		if (m->fd >= 0 && m->uid == uid && m->gid == gid)
			return m->fd;
		if (m->fd < 0)
			break;
	}
	if (m->fd >= 0)
		close(m->fd);
	*m = (struct slot_idmap){.fd = make_idmap(s, uid, gid, f), .uid = uid, .gid = gid};
	return m->fd;
}
