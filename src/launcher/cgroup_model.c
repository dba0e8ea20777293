/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup_model.c: resource models beyond plain limits. A burstable cell has a weight instead of a
 * ceiling; a dedicated one has CPUs that no other cell runs on, and memory that is not taken from it.
 *
 * "No other cell" is held from both sides: the dedicated cell is confined to its CPUs, and every other
 * cell of the machine, whichever launcher made it, to the rest. With cgroup v2 each cell's own group says
 * so; with v1, where a cell without limits is in no group, all the others share one, `rest`.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/cgroup.h"
#include "launcher/cpus.h"

#define LIST_MAX      4096
#define PASSES	      4	 /* over processes that fork while they are moved */
#define RESERVE_PART  80 /* percent of the machine's memory that may be reserved */
#define NORMAL_WEIGHT 100u
#define NORMAL_SHARES 1024u

static bool is_v2(const struct cgroups *cg, int c)
{
	return cg->v2_controllers & 1u << c;
}

/* ---- CPUs ---- */

static void all_cpus(const struct cgroups *cg, struct cpus *ret)
{
	char text[LIST_MAX];

	memset(ret, 0, sizeof *ret);
	if (is_v2(cg, CG_CPUSET)) {
		if (cgroup_get(cg->v2.fd, "cpuset.cpus.effective", text, sizeof text) > 0)
			cpus_parse(text, ret);
	} else if (cg->v1[CG_CPUSET].fd >= 0 &&
		   cgroup_get(cg->v1[CG_CPUSET].above_fd, "cpuset.cpus", text, sizeof text) > 0) {
		cpus_parse(text, ret);
	}
}

static bool copy_setting(int from, int to, const char *name)
{
	char text[LIST_MAX];

	return cgroup_get(from, name, text, sizeof text) > 0 && cgroup_put(to, name, text);
}

/* A group of v1 begins with no CPUs and no memory nodes at all, and nobody can enter it. */
static bool fill_in(const struct cgroup_tree *t, int fd, const char *cpus)
{
	return copy_setting(t->above_fd, t->fd, "cpuset.cpus") &&
	       copy_setting(t->above_fd, t->fd, "cpuset.mems") &&
	       copy_setting(t->fd, fd, "cpuset.mems") && cgroup_put(fd, "cpuset.cpus", cpus);
}

static int open_rest(struct cgroups *cg)
{
	struct cgroup_tree *t = &cg->v1[CG_CPUSET];

	if (t->fd < 0)
		return -1;
	/* another launcher may have removed an empty `cell` */
	if (mkdirat(t->fd, CGROUP_REST, 0755) < 0 && errno != EEXIST &&
		(!cgroup_make_again(cg, t) || mkdirat(t->fd, CGROUP_REST, 0755) < 0))
		return -1;
	return openat(t->fd, CGROUP_REST, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static void move_all(int from_fd, int to_fd)
{
	char text[8192];

	for (int pass = 0; pass < PASSES; pass++) {
		if (cgroup_get(from_fd, "cgroup.procs", text, sizeof text) <= 0)
			return;
		for (char *p = text, *end; (end = strchr(p, '\n')); p = end + 1) {
			*end = '\0';
			(void)cgroup_put(to_fd, "cgroup.procs", p);
		}
	}
}

/* Every cell that has no CPUs of its own: off those that others have. */
static void keep_others_off(struct cgroups *cg)
{
	struct cpus all, left;
	char text[LIST_MAX];

	all_cpus(cg, &all);
	if (cpus_is_empty(&all))
		return;
	bool is_any = cpus_left(&all, &left);
	cpus_format(&left, text, sizeof text);
	auto_fd int rest = is_v2(cg, CG_CPUSET) ? -1 : open_rest(cg);
	if (rest >= 0)
		(void)fill_in(&cg->v1[CG_CPUSET], rest, text);
	int copy = cg->v2.fd < 0 ? -1 : openat(cg->v2.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);
	for (struct dirent *e; d && (e = readdir(d));) {
		char *end;
		unsigned long n = strtoul(e->d_name, &end, 10);

		if (end == e->d_name || *end || n >= LAUNCHER_MAX_SLOTS ||
			cpus_is_claimed_by((uint32_t)n))
			continue;
		auto_fd int leaf = openat(cg->v2.fd, e->d_name,
			O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (leaf < 0)
			continue;
		if (is_v2(cg, CG_CPUSET))
			/* all of them by number: a group with processes cannot be made empty again */
			(void)cgroup_put(leaf, "cpuset.cpus", text);
		else if (rest >= 0 && is_any)
			move_all(leaf, rest);
	}
}

static bool set_cpus(struct cgroups *cg, struct cgroup_slot *s, uint32_t number, unsigned n,
	struct failure *f)
{
	struct cpus all, own;
	char text[LIST_MAX];
	int fd = cgroup_group_for(cg, s, CG_CPUSET, number);

	all_cpus(cg, &all);
	if (fd < 0 || cpus_is_empty(&all)) {
		(void)fail_with(f, LAUNCHER_STEP_CPUS, EOPNOTSUPP, "there is no cpuset to use",
			NULL);
		return false;
	}
	if (cpus_claim(&all, n, number, &own, f) < 0)
		return false;
	s->is_dedicated = true;
	cpus_format(&own, text, sizeof text);
	bool is_set = is_v2(cg, CG_CPUSET) ? cgroup_put(fd, "cpuset.cpus", text)
					   : fill_in(&cg->v1[CG_CPUSET], fd, text);
	if (!is_set) {
		(void)fail(f, LAUNCHER_STEP_CPUS, "confine the cell to CPUs", text);
		cgroup_model_release(cg, s, number);
		return false;
	}
	keep_others_off(cg);
	return true;
}

void cgroup_model_release(struct cgroups *cg, struct cgroup_slot *s, uint32_t number)
{
	s->is_dedicated = false;
	if (cpus_release(number))
		keep_others_off(cg);
}

void cgroup_model_sweep(struct cgroups *cg)
{
	if (cpus_sweep())
		keep_others_off(cg);
}

bool cgroup_model_enter(struct cgroups *cg, struct cgroup_slot *s, pid_t pid)
{
	struct cpus all, left;
	char text[LIST_MAX], number[16];

	if (s->is_dedicated || !(cg->can & LAUNCHER_CAN_CPUSET) || !cpus_is_any_claimed())
		return true;
	cgroup_model_sweep(cg); /* nobody is kept off for the sake of the dead */
	all_cpus(cg, &all);
	if (cpus_is_empty(&all) || !cpus_left(&all, &left))
		return true;
	cpus_format(&left, text, sizeof text);
	if (is_v2(cg, CG_CPUSET))
		return s->v2_fd < 0 || cgroup_put(s->v2_fd, "cpuset.cpus", text);
	auto_fd int rest = open_rest(cg);
	(void)snprintf(number, sizeof number, "%d", (int)pid);
	return rest >= 0 && fill_in(&cg->v1[CG_CPUSET], rest, text) &&
	       cgroup_put(rest, "cgroup.procs", number);
}

/* ---- weight ---- */

static bool set_weight(struct cgroups *cg, struct cgroup_slot *s, uint32_t number, uint32_t weight)
{
	int fd = cgroup_group_for(cg, s, CG_CPU, number);
	uint32_t shares = weight * NORMAL_SHARES / NORMAL_WEIGHT;

	if (fd < 0)
		return false;
	if (is_v2(cg, CG_CPU)) {
		if (!cgroup_put_u64(fd, "cpu.weight", weight))
			return false;
	} else {
		long n = sysconf(_SC_NPROCESSORS_ONLN);

		/* cells without a group compete as single processes of the top: so that the weight
		 * is one against those too, all cells with a group together weigh as the machine */
		(void)cgroup_put_u64(cg->v1[CG_CPU].fd, "cpu.shares",
			NORMAL_SHARES * (uint64_t)(n > 0 ? n : 1));
		if (!cgroup_put_u64(fd, "cpu.shares", shares < 2 ? 2 : shares))
			return false;
	}
	s->cpu_weight = weight;
	return true;
}

/* ---- memory ---- */

static uint64_t machine_memory(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

static uint64_t reserved_by_all(const struct cgroups *cg)
{
	int copy = openat(cg->v2.fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *d = copy < 0 ? NULL : fdopendir(copy);
	char text[32], name[280];
	uint64_t sum = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		(void)snprintf(name, sizeof name, "%s/memory.min", e->d_name);
		if (e->d_name[0] >= '0' && e->d_name[0] <= '9' &&
			cgroup_get(cg->v2.fd, name, text, sizeof text) > 0)
			sum += strtoull(text, NULL, 10);
	}
	return sum;
}

/* What a group is promised comes out of what the one above it is promised. */
static bool reserve(struct cgroups *cg, struct cgroup_slot *s, uint64_t bytes)
{
	if (!(cg->can & LAUNCHER_CAN_RESERVE) || s->v2_fd < 0) {
		errno = EOPNOTSUPP;
		return false;
	}
	if (bytes && reserved_by_all(cg) + bytes > machine_memory() / 100 * RESERVE_PART) {
		errno = ENOMEM;
		return false;
	}
	bool is_set = cgroup_put_u64(s->v2_fd, "memory.min", bytes);
	is_set = cgroup_put_u64(cg->v2.fd, "memory.min", reserved_by_all(cg)) && is_set;
	s->reserved_bytes = is_set ? bytes : 0;
	return is_set;
}

/* ---- the model of a request ---- */

int cgroup_model_prepare(struct cgroups *cg, struct cgroup_slot *s, uint32_t number,
	const struct launcher_request *rq, uint32_t *enforced, struct failure *f)
{
	const struct launcher_head *h = &rq->head;
	bool is_soft = h->flags & LAUNCHER_BEST_EFFORT;

	if (h->cpu_weight) {
		errno = 0;
		if ((cg->can & LAUNCHER_CAN_CPU) && set_weight(cg, s, number, h->cpu_weight))
			*enforced |= LAUNCHER_CAN_CPU;
		else if (!is_soft)
			return fail_with(f, LAUNCHER_STEP_CGROUP, errno ? errno : EOPNOTSUPP,
				"set the weight of", "cpus");
	}
	if (h->flags & LAUNCHER_DEDICATED) {
		if (set_cpus(cg, s, number, h->n_cpus, is_soft ? NULL : f))
			*enforced |= LAUNCHER_CAN_CPUSET;
		else if (!is_soft)
			return -1;
		else
			s->used &= ~(1u << CG_CPUSET); /* without CPUs nobody can enter it */
	}
	if (h->reserve_bytes) {
		if (reserve(cg, s, h->reserve_bytes))
			*enforced |= LAUNCHER_CAN_RESERVE;
		else if (!is_soft)
			return fail(f, LAUNCHER_STEP_RESERVE, "set memory.min", NULL);
	}
	return 0;
}

void cgroup_model_reset(struct cgroups *cg, struct cgroup_slot *s)
{
	if (s->cpu_weight) {
		if (is_v2(cg, CG_CPU))
			(void)cgroup_put_u64(s->v2_fd, "cpu.weight", NORMAL_WEIGHT);
		else
			(void)cgroup_put_u64(s->v1_fd[CG_CPU], "cpu.shares", NORMAL_SHARES);
		s->cpu_weight = 0;
	}
	if (s->reserved_bytes)
		(void)reserve(cg, s, 0);
}

void cgroup_model_settle(struct cgroups *cg)
{
	if (cg->can & LAUNCHER_CAN_RESERVE)
		(void)cgroup_put_u64(cg->v2.fd, "memory.min", reserved_by_all(cg));
}

void cgroup_model_find(struct cgroups *cg)
{
	/* a promise holds only if every group above makes it too; the top alone needs none */
	if (is_v2(cg, CG_MEMORY) && faccessat(cg->v2.fd, "memory.min", W_OK, AT_EACCESS) == 0 &&
		faccessat(cg->v2.above_fd, "memory.min", F_OK, 0) < 0)
		cg->can |= LAUNCHER_CAN_RESERVE;
}

void cgroup_model_done(struct cgroups *cg)
{
	if (cg->v1[CG_CPUSET].fd >= 0) /* gone only when empty */
		(void)unlinkat(cg->v1[CG_CPUSET].fd, CGROUP_REST, AT_REMOVEDIR);
}
