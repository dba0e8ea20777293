/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cgroup2.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

#define SUPERVISOR "cell-supervisor"

static bool write_at(int fd, const char *name, const char *text)
{
	auto_fd int file = openat(fd, name, O_WRONLY | O_CLOEXEC);

	return file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
}

bool cgroup2_find_top(const char *own, size_t floor, char *ret, size_t size)
{
	char path[4096];
	size_t n = strlen(own);

	*ret = '\0';
	if (n >= sizeof path || n >= size)
		return false;
	memcpy(path, own, n + 1);
	while (n > floor) {
		auto_fd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		if (fd < 0 || faccessat(fd, "cgroup.procs", W_OK, AT_EACCESS) < 0)
			break;
		memcpy(ret, path, n + 1);
		while (n > floor && path[--n] != '/')
			;
		path[n] = '\0';
	}
	return *ret != '\0';
}

/* Not to be found out by trying: cpu and pids are let through, but make the group threaded, and then nobody can enter a group
 * below. The root of the machine's hierarchy, the one without cgroup.type, has no such rule. */
bool cgroup2_is_in_the_way(int fd)
{
	char text[16];
	auto_fd int procs = openat(fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);

	return procs >= 0 && read(procs, text, sizeof text) > 0 &&
	       faccessat(fd, "cgroup.type", F_OK, 0) == 0;
}

void cgroup2_step_aside(int fd)
{
	char text[4096];

	if (mkdirat(fd, SUPERVISOR, 0755) < 0 && errno != EEXIST)
		return;
	auto_fd int aside = openat(fd, SUPERVISOR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int round = 0; aside >= 0 && round < 16; round++) {
		auto_fd int file = openat(fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
		ssize_t n = file < 0 ? 0 : read(file, text, sizeof text - 1);

		if (n <= 0)
			return;
		text[n] = '\0';
		for (char *p = text, *end; (end = strchr(p, '\n')); p = end + 1) {
			*end = '\0';
			(void)write_at(aside, "cgroup.procs", p);
		}
	}
}

bool cgroup2_has(int fd, const char *controller)
{
	char text[512];
	auto_fd int file = openat(fd, "cgroup.controllers", O_RDONLY | O_CLOEXEC);
	ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
	size_t size = strlen(controller);

	text[n > 0 ? n : 0] = '\0';
	for (const char *p = text; *p; p += strspn(p, " \n")) {
		size_t word = strcspn(p, " \n");
		if (word == size && !memcmp(p, controller, word))
			return true;
		p += word;
	}
	return false;
}

void cgroup2_hand_down(int fd)
{
	static const char *const names[] = {"memory", "cpu", "pids", "io", "cpuset"};
	char text[16];

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		(void)snprintf(text, sizeof text, "+%s", names[i]);
		if (cgroup2_has(fd, names[i]))
			(void)write_at(fd, "cgroup.subtree_control", text);
	}
}
