/* SPDX-License-Identifier: Apache-2.0 */
/* host.c: what the kernel keeps for cells, counted from outside. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "bench.h"

double bench_meminfo_kib(const char *word)
{
	char line[256];
	auto_file FILE *f = fopen("/proc/meminfo", "re");

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, word, strlen(word)) && line[strlen(word)] == ':')
			return strtod(strchr(line, ':') + 1, NULL);
	return 0;
}

double bench_process_kib(int64_t pid, const char *word)
{
	char path[64], line[256];
	double sum = 0;

	(void)snprintf(path, sizeof path, "/proc/%lld/smaps_rollup", (long long)pid);
	auto_file FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, word, strlen(word)))
			sum += strtod(strchr(line, ':') + 1, NULL);
	return sum;
}

static double lines_of(const char *path)
{
	char line[4096];
	double n = 0;
	auto_file FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof line, f))
		n += strchr(line, '\n') != NULL;
	return n;
}

static double entries_of(const char *path)
{
	double n = 0;
	auto_dir DIR *d = opendir(path);

	for (struct dirent *e; d && (e = readdir(d));)
		n += e->d_name[0] != '.';
	return n;
}

size_t bench_family(pid_t *all, size_t max)
{
	char path[64], line[4096];
	size_t n = 1;

	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)all[i],
			(int)all[i]);
		auto_file FILE *f = fopen(path, "re");
		if (!f || !fgets(line, sizeof line, f))
			continue;
		for (char *p = line, *end; n < max; p = end) {
			long pid = strtol(p, &end, 10);
			if (end == p)
				break;
			all[n++] = (pid_t)pid;
		}
	}
	return n;
}

/* Of this process, and of what it has started and what those have: the launcher, its cells. */
static void count_family(double *ret_processes, double *ret_fds)
{
	pid_t all[4096] = {getpid()};
	size_t n = bench_family(all, 4096);
	char path[64];

	*ret_processes = (double)n;
	*ret_fds = 0;
	for (size_t i = 0; i < n; i++) {
		(void)snprintf(path, sizeof path, "/proc/%d/fd", (int)all[i]);
		*ret_fds += entries_of(path);
	}
}

static double cgroups(void)
{
	char line[256], name[64];
	double sum = 0, n;
	int hierarchy;
	auto_file FILE *f = fopen("/proc/cgroups", "re");

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "%63s %d %lf", name, &hierarchy, &n) == 3)
			sum += n;
	return sum;
}

/* Objects in use of one slab; only root may look. What lies about free on the lists of a CPU counts as in use until the
 * slab is told to give back what it can: 161 pid namespaces were 5. */
static double slab_objects(const char *name)
{
	char line[512];
	size_t len = strlen(name);

	(void)snprintf(line, sizeof line, "/sys/kernel/slab/%s/shrink", name);
	auto_fd int shrink = open(line, O_WRONLY | O_CLOEXEC);
	if (shrink >= 0)
		(void)!write(shrink, "1", 1);
	auto_file FILE *f = fopen("/proc/slabinfo", "re");

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, name, len) && line[len] == ' ')
			return strtod(line + len, NULL);
	return 0;
}

size_t bench_counts(struct bench_count *ret, size_t max)
{
	double processes, fds;

	count_family(&processes, &fds);
	const struct bench_count all[] = {
		{"processes of ours", processes},
		{"fds of ours", fds},
		{"mounts here", lines_of("/proc/self/mountinfo")},
		{"cgroups, all controllers", cgroups()},
		{"network interfaces here", lines_of("/proc/self/net/dev")},
		{"slab: network namespaces", slab_objects("net_namespace")},
		{"slab: pid namespaces", slab_objects("pid_namespace")},
		{"slab: user namespaces", slab_objects("user_namespace")},
		{"slab: uts namespaces", slab_objects("uts_namespace")},
		{"slab: sets of namespaces", slab_objects("nsproxy")},
		{"slab: mounts", slab_objects("mnt_cache")},
		{"slab: tmpfs inodes", slab_objects("shmem_inode_cache")},
		{"slab: proc inodes", slab_objects("proc_inode_cache")},
		{"slab: all that cannot be reclaimed, KiB", bench_meminfo_kib("SUnreclaim")},
	};
	size_t n = 0;

	for (size_t i = 0; i < sizeof all / sizeof *all && n < max; i++)
		if (all[i].value > 0)
			ret[n++] = all[i];
	return n;
}
