/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.c: the groups of one cell. They are made when first needed and kept for the next cell of
 * the slot: making and removing groups at a high rate leaves thousands of dying ones in the kernel.
 * A cell never sees a cgroup file system (CVE-2022-0492: release_agent; nsjail #199).
 */
#include "launcher/cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define GROUP	  "cell"
#define PERIOD_US 100000u

void cgroup_slot_init(struct cgroup_slot *s)
{
	memset(s, 0, sizeof *s);
	s->v2_fd = -1;
	for (int i = 0; i < CG_COUNT; i++)
		s->v1_fd[i] = -1;
}

bool cgroup_put(int fd, const char *name, const char *text)
{
	auto_fd int file = openat(fd, name, O_WRONLY | O_CLOEXEC);

	return file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
}

bool cgroup_put_u64(int fd, const char *name, uint64_t v)
{
	char text[24];

	(void)snprintf(text, sizeof text, "%" PRIu64, v);
	return cgroup_put(fd, name, text);
}

ssize_t cgroup_get(int fd, const char *name, char *ret, size_t size)
{
	auto_fd int file = openat(fd, name, O_RDONLY | O_CLOEXEC);
	ssize_t n = file < 0 ? -1 : read(file, ret, size - 1);

	ret[n > 0 ? n : 0] = '\0';
	return n;
}

/* The value behind a word in a file of "word value" lines; 0 when it is not there. */
static uint64_t get_keyed(int fd, const char *name, const char *word)
{
	char text[1024];
	size_t n = strlen(word);

	if (cgroup_get(fd, name, text, sizeof text) <= 0)
		return 0;
	for (char *p = text; p; p = strchr(p, '\n'), p = p ? p + 1 : NULL)
		if (!strncmp(p, word, n) && p[n] == ' ')
			return strtoull(p + n + 1, NULL, 10);
	return 0;
}

/* The slot's group in one hierarchy. Another launcher may have removed an empty `cell`. */
static int open_leaf(struct cgroups *cg, struct cgroup_tree *t, uint32_t number)
{
	char name[16];

	(void)snprintf(name, sizeof name, "%" PRIu32, number);
	for (int i = 0; i < 200; i++) {
		if (mkdirat(t->fd, name, 0755) == 0)
			return openat(t->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		/* One is there that somebody left, with limits of its own, and perhaps killed: since Linux 6.14 a process that
		 * clone3 puts into a group that was ever killed dies at once. What is still in it is dying. */
		if (errno == EEXIST) {
			if (unlinkat(t->fd, name, AT_REMOVEDIR) < 0 && errno == EBUSY)
				(void)usleep(1000);
			continue;
		}
		if ((errno != ENOENT && errno != ENODEV) || i > 3 || !cgroup_make_again(cg, t))
			return -1;
	}
	errno = EBUSY;
	return -1;
}

int cgroup_group_for(struct cgroups *cg, struct cgroup_slot *s, int c, uint32_t number)
{
	if (cg->v2_controllers & 1u << c)
		return s->v2_fd;
	if (cg->v1[c].fd < 0)
		return -1;
	if (s->v1_fd[c] < 0)
		s->v1_fd[c] = open_leaf(cg, &cg->v1[c], number);
	if (s->v1_fd[c] >= 0)
		s->used |= 1u << c;
	return s->v1_fd[c];
}

static bool is_v2(const struct cgroups *cg, int c)
{
	return cg->v2_controllers & 1u << c;
}

static bool set_memory(struct cgroups *cg, struct cgroup_slot *s, int fd, uint64_t bytes)
{
	if (bytes == s->memory_bytes)
		return true;
	if (is_v2(cg, CG_MEMORY)) {
		if (!cgroup_put_u64(fd, "memory.max", bytes))
			return false;
		if (cg->has_memsw && !cgroup_put(fd, "memory.swap.max", "0"))
			return false;
	} else {
		/* limit <= memsw must hold after each write, whichever way it goes */
		bool is_growing = s->memory_bytes && bytes > s->memory_bytes;
		if (is_growing && cg->has_memsw &&
			!cgroup_put_u64(fd, "memory.memsw.limit_in_bytes", bytes))
			return false;
		if (!cgroup_put_u64(fd, "memory.limit_in_bytes", bytes))
			return false;
		if (!is_growing && cg->has_memsw &&
			!cgroup_put_u64(fd, "memory.memsw.limit_in_bytes", bytes))
			return false;
		if (!cg->has_memsw)
			(void)cgroup_put(fd, "memory.swappiness", "0");
	}
	s->memory_bytes = bytes;
	return true;
}

static bool set_cpu(struct cgroups *cg, struct cgroup_slot *s, int fd, uint32_t millis)
{
	char text[48];
	uint32_t quota = millis * (PERIOD_US / 1000);

	if (millis == s->cpu_millis)
		return true;
	if (quota < 1000) /* the kernel's least */
		quota = 1000;
	if (is_v2(cg, CG_CPU)) {
		(void)snprintf(text, sizeof text, "%" PRIu32 " %u", quota, PERIOD_US);
		if (!cgroup_put(fd, "cpu.max", text))
			return false;
	} else if (!cgroup_put_u64(fd, "cpu.cfs_period_us", PERIOD_US) ||
		   !cgroup_put_u64(fd, "cpu.cfs_quota_us", quota)) {
		return false;
	}
	s->cpu_millis = millis;
	return true;
}

static bool set_pids(struct cgroup_slot *s, int fd, uint32_t pids)
{
	if (pids != s->pids && !cgroup_put_u64(fd, "pids.max", pids))
		return false;
	s->pids = pids;
	return true;
}

static bool set_io(struct cgroups *cg, struct cgroup_slot *s, int fd, uint32_t weight)
{
	char text[32];

	if (weight == s->io_weight)
		return true;
	(void)snprintf(text, sizeof text, "default %" PRIu32, weight);
	/* bfq counts 1..1000; v1's blkio 10..1000 */
	uint32_t small = weight > 1000 ? 1000 : weight;
	if (!(is_v2(cg, CG_IO)
			    ? cgroup_put(fd, "io.weight", text) ||
				      cgroup_put_u64(fd, "io.bfq.weight", small)
			    : cgroup_put_u64(fd, "blkio.bfq.weight", small) ||
				      cgroup_put_u64(fd, "blkio.weight", small < 10 ? 10 : small)))
		return false;
	s->io_weight = weight;
	return true;
}

static int lacks(const struct launcher_request *rq, struct failure *f, const char *what)
{
	if (rq->head.flags & LAUNCHER_BEST_EFFORT)
		return 0;
	return fail_with(f, LAUNCHER_STEP_CGROUP, errno ? errno : EOPNOTSUPP, "set the limit of",
		what);
}

int cgroup_prepare(struct cgroups *cg, struct cgroup_slot *s, uint32_t number,
	const struct launcher_request *rq, uint32_t *ret_enforced, struct failure *f)
{
	const struct launcher_head *h = &rq->head;
	const struct {
		int controller;
		bool is_wanted;
		uint32_t bit;
		const char *what;
	} wanted[] = {
		{CG_MEMORY, h->memory_bytes, LAUNCHER_CAN_MEMORY, "memory"},
		{CG_CPU, h->cpu_millis, LAUNCHER_CAN_CPU, "cpus"},
		{CG_PIDS, h->pids, LAUNCHER_CAN_PIDS, "pids"},
		{CG_IO, h->io_weight, LAUNCHER_CAN_IO, "io"},
	};

	*ret_enforced = 0;
	s->used = 0;
	if (cg->v2.fd >= 0 && s->v2_fd < 0) {
		s->v2_fd = open_leaf(cg, &cg->v2, number);
		/* a cell that got at cgroupfs could make groups without end */
		if (s->v2_fd >= 0)
			(void)cgroup_put(s->v2_fd, "cgroup.max.descendants", "0");
	}
	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		bool is_set = false;
		int fd = -1;

		if (!wanted[i].is_wanted)
			continue;
		errno = 0;
		if (cg->can & wanted[i].bit)
			fd = cgroup_group_for(cg, s, wanted[i].controller, number);
		if (fd >= 0)
			is_set =
				wanted[i].controller == CG_MEMORY
					? set_memory(cg, s, fd, h->memory_bytes)
				: wanted[i].controller == CG_CPU ? set_cpu(cg, s, fd, h->cpu_millis)
				: wanted[i].controller == CG_PIDS ? set_pids(s, fd, h->pids)
								  : set_io(cg, s, fd, h->io_weight);
		/* without a group, RLIMIT_NPROC does it: seal.c */
		if (fd < 0 && wanted[i].controller == CG_PIDS && cg->has_own_nproc)
			is_set = true;
		if (is_set)
			*ret_enforced |= wanted[i].bit;
		else if (lacks(rq, f, wanted[i].what) < 0)
			return -1;
	}
	if (cgroup_model_prepare(cg, s, number, rq, ret_enforced, f) < 0)
		return -1;
	if ((*ret_enforced & LAUNCHER_CAN_MEMORY) && (cg->can & LAUNCHER_CAN_SWAP))
		*ret_enforced |= LAUNCHER_CAN_SWAP;
	s->oom_before = 0;
	s->oom_before = cgroup_oom_kills(s);
	return 0;
}

int cgroup_enter(struct cgroup_slot *s, pid_t pid, bool is_v2_too, struct failure *f)
{
	if (is_v2_too && s->v2_fd >= 0 && !cgroup_put_u64(s->v2_fd, "cgroup.procs", (uint64_t)pid))
		return fail(f, LAUNCHER_STEP_CGROUP, "enter the group of", "cgroup2");
	for (int i = 0; i < CG_COUNT; i++)
		if ((s->used & 1u << i) &&
			!cgroup_put_u64(s->v1_fd[i], "cgroup.procs", (uint64_t)pid))
			return fail(f, LAUNCHER_STEP_CGROUP, "enter the group of", cgroup_names[i]);
	return 0;
}

int cgroup_oom_fd(struct cgroup_slot *s)
{
	char text[48];

	if (!s->memory_bytes)
		return -1;
	if (!(s->used & 1u << CG_MEMORY))
		return openat(s->v2_fd, "memory.events", O_RDONLY | O_CLOEXEC);
	auto_fd int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	auto_fd int control =
		openat(s->v1_fd[CG_MEMORY], "memory.oom_control", O_RDONLY | O_CLOEXEC);
	(void)snprintf(text, sizeof text, "%d %d", event, control);
	if (event < 0 || control < 0 ||
		!cgroup_put(s->v1_fd[CG_MEMORY], "cgroup.event_control", text))
		return -1;
	return steal_fd(event);
}

bool cgroup_oom_is_eventfd(const struct cgroup_slot *s)
{
	return s->used & 1u << CG_MEMORY;
}

uint32_t cgroup_oom_kills(const struct cgroup_slot *s)
{
	uint64_t n = 0;

	if (!s->memory_bytes)
		return 0;
	n = s->used & 1u << CG_MEMORY
		    ? get_keyed(s->v1_fd[CG_MEMORY], "memory.oom_control", "oom_kill")
		    : get_keyed(s->v2_fd, "memory.events", "oom_kill");
	return (uint32_t)(n - s->oom_before);
}

/* What a kernel without cgroup.kill is given: every process of the list, again until it is empty. */
static void kill_listed(int fd)
{
	char text[4096];

	for (int round = 0; round < 64; round++) {
		if (cgroup_get(fd, "cgroup.procs", text, sizeof text) <= 0)
			return;
		for (char *p = text, *end; (end = strchr(p, '\n')); p = end + 1) {
			pid_t pid = (pid_t)strtol(p, NULL, 10);
			if (pid > 0)
				(void)kill(pid, SIGKILL);
		}
		(void)usleep(1000);
	}
}

void cgroup_lift_quota(const struct cgroups *cg, struct cgroup_slot *s)
{
	int fd = is_v2(cg, CG_CPU) ? s->v2_fd : s->v1_fd[CG_CPU];

	if (fd >= 0 && (is_v2(cg, CG_CPU) ? cgroup_put(fd, "cpu.max", "max")
					  : cgroup_put(fd, "cpu.cfs_quota_us", "-1")))
		s->cpu_millis = 0;
}

void cgroup_unthrottle(const struct cgroups *cg, struct cgroup_slot *s)
{
	if (s->cpu_millis)
		cgroup_lift_quota(cg, s);
}

void cgroup_kill(const struct cgroups *cg, struct cgroup_slot *s)
{
	s->was_killed = true;
	cgroup_lift_quota(cg, s);
	if (s->v2_fd >= 0 && cg->has_kill)
		(void)cgroup_put(s->v2_fd, "cgroup.kill", "1");
	else if (s->v2_fd >= 0)
		kill_listed(s->v2_fd);
	for (int i = 0; i < CG_COUNT; i++)
		if (s->v2_fd < 0 && s->v1_fd[i] >= 0)
			kill_listed(s->v1_fd[i]);
}

void cgroup_reset(struct cgroups *cg, struct cgroup_slot *s)
{
	if (s->memory_bytes) {
		/* page cache and tmpfs of the last cell must not count against the next */
		if (is_v2(cg, CG_MEMORY)) {
			(void)cgroup_put(s->v2_fd, "memory.max", "max");
			(void)cgroup_put(s->v2_fd, "memory.swap.max", "max");
		} else {
			(void)cgroup_put(s->v1_fd[CG_MEMORY], "memory.force_empty", "0");
			if (cg->has_memsw)
				(void)cgroup_put(s->v1_fd[CG_MEMORY], "memory.memsw.limit_in_bytes",
					"-1");
			(void)cgroup_put(s->v1_fd[CG_MEMORY], "memory.limit_in_bytes", "-1");
		}
		s->memory_bytes = 0;
	}
	cgroup_model_reset(cg, s);
	if (s->cpu_millis && is_v2(cg, CG_CPU) && cgroup_put(s->v2_fd, "cpu.max", "max"))
		s->cpu_millis = 0;
	if (s->pids && is_v2(cg, CG_PIDS) && cgroup_put(s->v2_fd, "pids.max", "max"))
		s->pids = 0;
	/* on v1 a cell without the limit does not enter the group: nothing to undo */
	s->used = 0;
}

static bool remove_leaf(struct cgroup_tree *t, int *fd, uint32_t number)
{
	char name[16];

	if (t->fd < 0)
		return true;
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
	(void)snprintf(name, sizeof name, "%" PRIu32, number);
	/* the last process is gone for us a moment before it is for the group */
	for (int i = 0; i < 100; i++) {
		if (unlinkat(t->fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT || errno == ENODEV)
			return true;
		if (errno != EBUSY)
			return false;
		(void)usleep(i < 10 ? 100 : 2000);
	}
	return false;
}

bool cgroup_remove(struct cgroups *cg, struct cgroup_slot *s, uint32_t number)
{
	bool is_gone = remove_leaf(&cg->v2, &s->v2_fd, number);

	for (int i = 0; i < CG_COUNT; i++)
		is_gone &= remove_leaf(&cg->v1[i], &s->v1_fd[i], number);
	cgroup_slot_init(s);
	return is_gone;
}

void cgroup_adopt(struct cgroups *cg, struct cgroup_slot *s, uint32_t number)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
	char name[16];

	(void)snprintf(name, sizeof name, "%" PRIu32, number);
	if (cg->v2.fd >= 0)
		s->v2_fd = openat(cg->v2.fd, name, flags);
	for (int i = 0; i < CG_COUNT; i++)
		if (cg->v1[i].fd >= 0)
			s->v1_fd[i] = openat(cg->v1[i].fd, name, flags);
}

void cgroup_close(struct cgroup_slot *s)
{
	if (s->v2_fd >= 0)
		close(s->v2_fd);
	for (int i = 0; i < CG_COUNT; i++)
		if (s->v1_fd[i] >= 0)
			close(s->v1_fd[i]);
	cgroup_slot_init(s);
}

static void each_in(struct cgroup_tree *t, void (*fn)(uint32_t number))
{
	int copy = t->fd < 0 ? -1 : openat(t->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);

	for (struct dirent *e; d && (e = readdir(d));) {
		char *end;
		unsigned long n = strtoul(e->d_name, &end, 10);

		if (end != e->d_name && !*end && n < LAUNCHER_MAX_SLOTS)
			fn((uint32_t)n);
	}
}

void cgroup_each(struct cgroups *cg, void (*fn)(uint32_t number))
{
	each_in(&cg->v2, fn);
	for (int i = 0; i < CG_COUNT; i++)
		each_in(&cg->v1[i], fn);
}

void cgroup_done(struct cgroups *cg)
{
	cgroup_model_done(cg);
	/* gone only when empty: other launchers may have cells in it */
	if (cg->v2.above_fd >= 0)
		(void)unlinkat(cg->v2.above_fd, GROUP, AT_REMOVEDIR);
	for (int i = 0; i < CG_COUNT; i++)
		if (cg->v1[i].above_fd >= 0)
			(void)unlinkat(cg->v1[i].above_fd, GROUP, AT_REMOVEDIR);
}
