/* SPDX-License-Identifier: Apache-2.0 */
/* attempts_limits.c: taking more than one's share. Run in cells with small limits. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"

#define LOTS ((size_t)256 << 20)

static enum result take_memory(const char *arg)
{
	char *p = mmap(NULL, LOTS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)arg;
	if (p == MAP_FAILED)
		return REFUSED;
	memset(p, 1, LOTS);
	return DID_IT;
}

static enum result fill(int fd)
{
	static char block[1 << 20];

	if (fd < 0)
		return CANNOT;
	memset(block, 1, sizeof block);
	for (size_t n = 0; n < LOTS; n += sizeof block)
		if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
			return REFUSED;
	return DID_IT;
}

static enum result take_memfd(const char *arg)
{
	(void)arg;
	return fill((int)syscall(SYS_memfd_create, "x", 0));
}

static enum result take_tmpfs(const char *dir)
{
	char path[64];

	(void)snprintf(path, sizeof path, "%s/cell-escape-fill", dir);
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	(void)unlink(path);
	return fill(fd);
}

static enum result take_shm(const char *arg)
{
	int id = shmget(IPC_PRIVATE, LOTS, IPC_CREAT | 0600);
	char *p = id < 0 ? (char *)-1 : shmat(id, NULL, 0);

	(void)arg;
	if (p == (char *)-1)
		return REFUSED;
	(void)shmctl(id, IPC_RMID, NULL);
	memset(p, 1, LOTS);
	return DID_IT;
}

static enum result leave_shm(const char *arg)
{
	size_t n = (size_t)strtoull(arg, NULL, 10) << 20;
	int id = shmget(IPC_PRIVATE, n, IPC_CREAT | 0600);
	char *p = id < 0 ? (char *)-1 : shmat(id, NULL, 0);

	if (p == (char *)-1)
		return CANNOT;
	memset(p, 1, n);
	return DID_IT;
}

/* Processes until there are 100, or until no more can be had. */
static enum result take_processes(const char *arg)
{
	int n = 0;

	(void)arg;
	while (n < 100) {
		pid_t pid = fork();
		if (pid == 0) {
			(void)pause();
			_exit(0);
		}
		if (pid < 0)
			break;
		n++;
	}
	say("%d processes", n);
	(void)signal(SIGTERM, SIG_IGN);
	(void)kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
	return n >= 100 ? DID_IT : REFUSED;
}

static void *sleep_long(void *arg)
{
	(void)pause();
	return arg;
}

static enum result take_threads(const char *arg)
{
	pthread_t t;
	int n = 0;

	(void)arg;
	while (n < 100 && pthread_create(&t, NULL, sleep_long, NULL) == 0)
		n++;
	say("%d threads", n);
	return n >= 100 ? DID_IT : REFUSED;
}

static enum result take_inodes(const char *dir)
{
	char path[96];
	int n = 0;

	for (; n < 20000; n++) {
		(void)snprintf(path, sizeof path, "%s/cell-escape-%d", dir, n);
		int fd = open(path, O_WRONLY | O_CREAT, 0600);
		if (fd < 0)
			break;
		close(fd);
	}
	say("%d files", n);
	for (int i = 0; i < n; i++) {
		(void)snprintf(path, sizeof path, "%s/cell-escape-%d", dir, i);
		(void)unlink(path);
	}
	return n >= 20000 ? DID_IT : REFUSED;
}

static enum result take_files(const char *arg)
{
	int n = 0;

	(void)arg;
	while (n < 500 && open("/dev/null", O_RDONLY) >= 0)
		n++;
	say("%d files open", n);
	return n >= 500 ? DID_IT : REFUSED;
}

const struct attempt attempts_limits[] = {
	{"memory", take_memory},
	{"memfd", take_memfd},
	{"fill", take_tmpfs},
	{"shm", take_shm},
	{"leave-shm", leave_shm},
	{"processes", take_processes},
	{"threads", take_threads},
	{"inodes", take_inodes},
	{"files", take_files},
	{0},
};
