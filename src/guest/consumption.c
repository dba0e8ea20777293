/* SPDX-License-Identifier: Apache-2.0 */
/*
 * consumption.c: what the whole cell takes: CPU time since it began, memory now, processes now. Only where the guest is the first process of
 * a pid namespace: elsewhere /proc shows the host's processes, which are not the cell's.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/platform.h"
#include "wire/wire.h"

int consumption_add(const char *stat, struct consumption *c)
{
	uint64_t utime, stime;
	int64_t child_utime, child_stime, rss;
	const char *p = strrchr(stat, ')'); /* the name before it may hold anything */

	/* state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt utime stime cutime cstime prio nice threads itreal start vsize rss */
	if (!p || sscanf(p + 1,
			  " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64
			  " %" SCNd64 " %" SCNd64 " %*d %*d %*d %*d %*u %*u %" SCNd64,
			  &utime, &stime, &child_utime, &child_stime, &rss) != 5)
		return -1;
	/* what ended was waited for by somebody who still lives, in the end by us */
	c->ticks += utime + stime + (uint64_t)child_utime + (uint64_t)child_stime;
	c->pages += rss > 0 ? (uint64_t)rss : 0;
	c->processes++;
	return 0;
}

static void look_at(int proc_fd, const char *pid, struct consumption *c)
{
	char path[40], text[1024];

	(void)snprintf(path, sizeof path, "%.20s/stat", pid);
	auto_fd int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	if (n <= 0)
		return; /* it has just ended */
	text[n] = '\0';
	(void)consumption_add(text, c);
}

void consumption_put(struct buf *b)
{
	struct consumption c = {0};
	long hz = sysconf(_SC_CLK_TCK);
	auto_dir DIR *d = getpid() == 1 ? opendir("/proc") : NULL;

	if (!d || hz <= 0)
		return;
	for (struct dirent *e; (e = readdir(d));)
		if (isdigit((unsigned char)e->d_name[0]))
			look_at(dirfd(d), e->d_name, &c);
	(void)wire_put_u64(b, WIRE_T_CPU_NS, c.ticks * (UINT64_C(1000000000) / (uint64_t)hz));
	(void)wire_put_u64(b, WIRE_T_USED_MEMORY, c.pages * (uint64_t)sysconf(_SC_PAGESIZE));
	(void)wire_put_u64(b, WIRE_T_PROCESSES, c.processes);
}
