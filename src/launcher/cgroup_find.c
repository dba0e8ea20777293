/* SPDX-License-Identifier: Apache-2.0 */
/* cgroup_find.c: which hierarchies there are and where in them we may make our group. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cgroup2.h"
#include "base/cleanup.h"
#include "launcher/cgroup.h"

#define GROUP  "cell"
#define ROUNDS 64 /* against launchers that end meanwhile */

const char *const cgroup_names[CG_COUNT] = {"memory", "cpu", "pids", "io", "cpuset"};

const uint32_t cgroup_bits[CG_COUNT] = {LAUNCHER_CAN_MEMORY, LAUNCHER_CAN_CPU, LAUNCHER_CAN_PIDS,
	LAUNCHER_CAN_IO, LAUNCHER_CAN_CPUSET};

static int controller_of(const char *word, size_t n)
{
	for (int i = 0; i < CG_COUNT; i++)
		if (strlen(cgroup_names[i]) == n && !memcmp(cgroup_names[i], word, n))
			return i;
	return n == 5 && !memcmp(word, "blkio", 5) ? CG_IO : -1;
}

unsigned cgroup_parse_controllers(const char *words)
{
	unsigned mask = 0;

	while (*words) {
		size_t n = strcspn(words, " ,\n");
		int c = controller_of(words, n);

		if (n && c >= 0)
			mask |= 1u << c;
		words += n + (words[n] != '\0');
	}
	return mask;
}

/* Copy the field at *p, undoing the kernel's \040; moves *p behind it. */
static bool field(const char **p, char *ret, size_t size)
{
	size_t n = 0;
	const char *s = *p;

	while (*s == ' ')
		s++;
	for (; *s && *s != ' ' && *s != '\n'; s++) {
		char c = *s;

		if (c == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
			s[3] >= '0' && s[3] <= '7') {
			c = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 3;
		}
		if (n + 1 >= size)
			return false;
		ret[n++] = c;
	}
	ret[n] = '\0';
	*p = s;
	return n > 0;
}

bool cgroup_parse_mount(const char *line, struct cgroup_mount *ret)
{
	char word[256];
	const char *p = line;

	memset(ret, 0, sizeof *ret);
	for (int i = 0; i < 3; i++) /* id, parent, device */
		if (!field(&p, word, sizeof word))
			return false;
	if (!field(&p, ret->root, sizeof ret->root) || !field(&p, ret->path, sizeof ret->path))
		return false;
	p = strstr(p, " - ");
	if (!p)
		return false;
	p += 3;
	if (!field(&p, word, sizeof word))
		return false;
	ret->is_v2 = !strcmp(word, "cgroup2");
	if (!ret->is_v2 && strcmp(word, "cgroup") != 0)
		return false;
	if (!field(&p, word, sizeof word)) /* source */
		return false;
	if (!ret->is_v2 && field(&p, word, sizeof word))
		ret->controllers = cgroup_parse_controllers(word);
	return ret->is_v2 || ret->controllers;
}

bool cgroup_parse_own(const char *line, int controller, char *ret, size_t size)
{
	const char *names = strchr(line, ':');
	const char *path = names ? strchr(names + 1, ':') : NULL;
	char word[256];

	if (!path)
		return false;
	size_t n = (size_t)(path - names - 1);
	if (controller < 0) {
		if (n != 0)
			return false;
	} else {
		if (n >= sizeof word)
			return false;
		memcpy(word, names + 1, n);
		word[n] = '\0';
		if (!(cgroup_parse_controllers(word) & 1u << controller))
			return false;
	}
	path++;
	n = strcspn(path, "\n");
	if (n == 0 || n >= size || path[0] != '/')
		return false;
	memcpy(ret, path, n);
	ret[n] = '\0';
	return true;
}

bool cgroup_under_mount(const struct cgroup_mount *m, const char *group, char *ret, size_t size)
{
	size_t n = strcmp(m->root, "/") == 0 ? 0 : strlen(m->root);

	/* outside of what is mounted here, or seen from another cgroup namespace */
	if (strncmp(group, m->root, n) != 0 || (group[n] && group[n] != '/') ||
		strstr(group, "/..") != NULL)
		return false;
	int len = snprintf(ret, size, "%s%s", m->path, strcmp(group + n, "/") ? group + n : "");
	return len > 0 && (size_t)len < size;
}

static unsigned read_controllers(int fd)
{
	char text[256];
	auto_fd int file = openat(fd, "cgroup.controllers", O_RDONLY | O_CLOEXEC);
	ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);

	if (n < 0)
		return 0;
	text[n] = '\0';
	return cgroup_parse_controllers(text);
}

/* Another launcher that ends may remove an empty one before we have it open. */
static bool open_group(struct cgroup_tree *t)
{
	for (int i = 0; i < ROUNDS; i++) {
		if (mkdirat(t->above_fd, GROUP, 0755) < 0 && errno != EEXIST)
			return false;
		t->fd = openat(t->above_fd, GROUP, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (t->fd >= 0 || errno != ENOENT)
			break;
	}
	return t->fd >= 0;
}

bool cgroup_make_again(struct cgroups *cg, struct cgroup_tree *t)
{
	struct cgroup_tree again = *t;

	if (!open_group(&again))
		return false;
	close(t->fd);
	*t = again;
	if (t == &cg->v2)
		cgroup2_hand_down(t->fd);
	return true;
}

static bool try_v2(struct cgroups *cg, const char *path, bool is_own)
{
	struct cgroup_tree t = {.fd = -1};

	t.above_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (t.above_fd < 0)
		return false;
	if (faccessat(t.above_fd, "cgroup.procs", W_OK, AT_EACCESS) < 0 || !open_group(&t)) {
		close(t.above_fd);
		return false;
	}
	if (is_own && cgroup2_is_in_the_way(t.above_fd))
		cgroup2_step_aside(t.above_fd);
	if (!cgroup2_is_in_the_way(t.above_fd))
		cgroup2_hand_down(t.above_fd);
	cgroup2_hand_down(t.fd);
	cg->v2_controllers = read_controllers(t.fd);
	cg->v2_withheld = read_controllers(t.above_fd) & ~cg->v2_controllers;
	cg->has_kill = faccessat(t.fd, "cgroup.kill", W_OK, AT_EACCESS) == 0;
	cg->has_freeze = faccessat(t.fd, "cgroup.freeze", W_OK, AT_EACCESS) == 0;
	cg->v2 = t;
	return true;
}

static void find_v2(struct cgroups *cg, const struct cgroup_mount *m, const char *own,
	bool is_rootful)
{
	char path[600], top[600];
	bool is_below = cgroup_under_mount(m, own, path, sizeof path);

	/* in a container the top is a group like any other, and we are in it */
	if (is_rootful && try_v2(cg, m->path, is_below && !strcmp(path, m->path)))
		return;
	if (!is_below)
		return;
	/* the highest group above ours that was delegated to us: it has no processes of its own */
	if (!cgroup2_find_top(path, strlen(m->path), top, sizeof top))
		memcpy(top, path, sizeof top);
	(void)try_v2(cg, top, !strcmp(top, path));
}

static void find_v1(struct cgroups *cg, int c, const struct cgroup_mount *m, const char *own,
	bool is_rootful)
{
	char path[600];
	const char *tries[2] = {is_rootful ? m->path : NULL,
		cgroup_under_mount(m, own, path, sizeof path) ? path : NULL};

	for (int i = 0; i < 2; i++) {
		struct cgroup_tree t = {.fd = -1};

		if (!tries[i])
			continue;
		t.above_fd = open(tries[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (t.above_fd < 0)
			continue;
		if (faccessat(t.above_fd, "cgroup.procs", W_OK, AT_EACCESS) == 0 &&
			open_group(&t)) {
			cg->v1[c] = t;
			return;
		}
		close(t.above_fd);
	}
}

static bool read_own(int controller, char *ret, size_t size)
{
	char line[1024];
	auto_file FILE *f = fopen("/proc/self/cgroup", "re");

	while (f && fgets(line, sizeof line, f))
		if (cgroup_parse_own(line, controller, ret, size))
			return true;
	return false;
}

static bool has_swap(void)
{
	char line[256];
	int n = 0;
	auto_file FILE *f = fopen("/proc/swaps", "re");

	while (f && fgets(line, sizeof line, f))
		n++;
	return n > 1;
}

/* Is bfq (or the old cfq) the scheduler of any disk? The line is "none [mq-deadline] bfq". */
static bool has_fair_disk(void)
{
	char path[300], line[256];
	auto_dir DIR *d = opendir("/sys/block");

	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] == '.' || !strncmp(e->d_name, "loop", 4) ||
			!strncmp(e->d_name, "ram", 3))
			continue;
		(void)snprintf(path, sizeof path, "/sys/block/%s/queue/scheduler", e->d_name);
		auto_file FILE *f = fopen(path, "re");
		if (f && fgets(line, sizeof line, f) &&
			(strstr(line, "[bfq]") || strstr(line, "[cfq]")))
			return true;
	}
	return false;
}

/* cgroup v2's io.weight without bfq: only the cost model of the top group looks at it. */
static bool has_cost_model(const struct cgroups *cg)
{
	char text[1024];
	auto_fd int fd = cg->v2.above_fd < 0
				 ? -1
				 : openat(cg->v2.above_fd, "io.cost.qos", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (n <= 0)
		return false;
	text[n] = '\0';
	return strstr(text, "enable=1") != NULL;
}

/* Weights act only through a scheduler that knows them: that there is a file for them says nothing. */
static bool has_weights(const struct cgroups *cg)
{
	if (!has_fair_disk() && !has_cost_model(cg))
		return false;
	int fd = cg->v2_controllers & 1u << CG_IO ? cg->v2.fd : cg->v1[CG_IO].fd;

	if (fd < 0)
		return false;
	return faccessat(fd, "io.bfq.weight", W_OK, 0) == 0 ||
	       faccessat(fd, "blkio.bfq.weight", W_OK, 0) == 0 ||
	       faccessat(fd, "io.weight", W_OK, 0) == 0 ||
	       faccessat(fd, "blkio.weight", W_OK, 0) == 0;
}

static bool has_own_nproc(void)
{
	struct utsname un;
	unsigned major = 0, minor = 0;

	return uname(&un) == 0 && sscanf(un.release, "%u.%u", &major, &minor) == 2 &&
	       (major > 5 || (major == 5 && minor >= 14));
}

static void sum_up(struct cgroups *cg)
{
	for (int i = 0; i < CG_COUNT; i++)
		if ((cg->v2_controllers & 1u << i) || cg->v1[i].fd >= 0)
			cg->can |= cgroup_bits[i];
	cg->has_own_nproc = has_own_nproc();
	if (cg->has_own_nproc)
		cg->can |= LAUNCHER_CAN_PIDS;
	if (!has_weights(cg))
		cg->can &= ~(uint32_t)LAUNCHER_CAN_IO;
	if (cg->v2.fd >= 0)
		cg->can |= LAUNCHER_CAN_CLONE_INTO;
	if (cg->has_kill)
		cg->can |= LAUNCHER_CAN_CGROUP_KILL;
	if (cg->has_freeze)
		cg->can |= LAUNCHER_CAN_FREEZE;
	cg->has_swap = has_swap();
	cg->has_memsw = cg->v2_controllers & 1u << CG_MEMORY
				? faccessat(cg->v2.fd, "memory.swap.max", W_OK, 0) == 0
				: cg->v1[CG_MEMORY].fd >= 0 &&
					  faccessat(cg->v1[CG_MEMORY].fd,
						  "memory.memsw.limit_in_bytes", W_OK, 0) == 0;
	cgroup_model_find(cg);
	if ((cg->can & LAUNCHER_CAN_MEMORY) && (cg->has_memsw || !cg->has_swap))
		cg->can |= LAUNCHER_CAN_SWAP;
}

static void find(struct cgroups *cg, bool is_rootful)
{
	char line[4096], own[512];
	struct cgroup_mount m;

	memset(cg, 0, sizeof *cg);
	cg->v2 = (struct cgroup_tree){-1, -1};
	for (int i = 0; i < CG_COUNT; i++)
		cg->v1[i] = (struct cgroup_tree){-1, -1};
	auto_file FILE *f = fopen("/proc/self/mountinfo", "re");
	while (f && fgets(line, sizeof line, f)) {
		if (!cgroup_parse_mount(line, &m))
			continue;
		if (m.is_v2 && cg->v2.fd < 0 && read_own(-1, own, sizeof own))
			find_v2(cg, &m, own, is_rootful);
		for (int i = 0; !m.is_v2 && i < CG_COUNT; i++)
			if ((m.controllers & 1u << i) && cg->v1[i].fd < 0 &&
				read_own(i, own, sizeof own))
				find_v1(cg, i, &m, own, is_rootful);
	}
	sum_up(cg);
}

static bool is_there(const struct cgroup_tree *t)
{
	return t->fd < 0 || faccessat(t->fd, "cgroup.procs", F_OK, 0) == 0;
}

static bool are_there(const struct cgroups *cg)
{
	bool is_all = is_there(&cg->v2);

	for (int i = 0; i < CG_COUNT; i++)
		is_all &= is_there(&cg->v1[i]);
	return is_all;
}

static void let_go(struct cgroup_tree *t)
{
	if (t->fd >= 0)
		close(t->fd);
	if (t->above_fd >= 0)
		close(t->above_fd);
}

void cgroup_init(struct cgroups *cg, bool is_rootful)
{
	find(cg, is_rootful);
	/* removed by a launcher that ended while we looked: its files were missing for that reason, and for no other */
	for (int i = 1; i < ROUNDS && !are_there(cg); i++) {
		let_go(&cg->v2);
		for (int c = 0; c < CG_COUNT; c++)
			let_go(&cg->v1[c]);
		find(cg, is_rootful);
	}
}
