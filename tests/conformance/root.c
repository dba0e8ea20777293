/* SPDX-License-Identifier: Apache-2.0 */
/*
 * root.c: a root tree for back ends that want one, made of what this machine has: a static busybox
 * (Debian: busybox-static) or else /bin/sh and friends with the libraries ldd names.
 */
#include "suite.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

static const char *const programs[] = {"sh", "cat", "echo", "printf", "sleep", "env", "ls", "head",
	"tail", "true", "false", "stty", "id", "kill", "wc", "dd", "mkdir", "rm", "ln", "touch",
	"sort", "tr", "pwd", "seq", "mv", "cp", "grep", "chmod", "readlink"};

static int put_file(const char *dir, const char *name, const char *text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "we");
	if (!f || fputs(text, f) < 0)
		return -1;
	return fclose(f);
}

static int make_parents(char *path)
{
	for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
		*at = '\0';
		int r = mkdir(path, 0755);
		*at = '/';
		if (r < 0 && errno != EEXIST)
			return -1;
	}
	return 0;
}

/* Copy a file of the host to the same place in the tree, once. */
static int copy_in(const char *dir, const char *from, const char *to)
{
	char path[PATH_MAX];
	size_t n = 0;

	snprintf(path, sizeof(path), "%s%s", dir, to);
	if (access(path, F_OK) == 0)
		return 0;
	auto_free char *bytes = host_load(from, &n);
	if (!bytes || make_parents(path) < 0)
		return -1;
	host_store(path, bytes, n);
	return chmod(path, 0755);
}

/* A program without an interpreter of its own runs anywhere. */
static bool is_static(const char *path)
{
	size_t n = 0;
	auto_free char *bytes = host_load(path, &n);

	return bytes && n > 64 && !memmem(bytes, n < 4096 ? n : 4096, "/ld-", 4);
}

static int copy_libraries(const char *dir, const char *program)
{
	int p[2], st = 0;
	char line[PATH_MAX];
	posix_spawn_file_actions_t fa;
	pid_t pid;
	const char *argv[] = {"ldd", program, NULL};

	if (pipe2(p, O_CLOEXEC) < 0)
		return -1;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, p[1], 1);
	int r = posix_spawnp(&pid, "ldd", &fa, NULL, (char *const *)(uintptr_t)argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	close(p[1]);
	FILE *f = fdopen(p[0], "re");
	while (r == 0 && f && fgets(line, sizeof(line), f)) {
		char *at = strchr(line, '/'), *end = at ? strchr(at, ' ') : NULL;
		if (!end)
			continue;
		*end = '\0';
		if (copy_in(dir, at, at) < 0)
			r = -1;
	}
	if (f)
		(void)fclose(f);
	if (r == 0)
		waitpid(pid, &st, 0);
	return r;
}

static int add_programs(const char *dir, char *why, size_t why_size)
{
	static const char *const boxes[] = {"/bin/busybox", "/usr/bin/busybox"};
	char path[PATH_MAX], to[PATH_MAX];

	for (size_t i = 0; i < sizeof(boxes) / sizeof(*boxes); i++) {
		if (access(boxes[i], X_OK) < 0 || !is_static(boxes[i]))
			continue;
		if (copy_in(dir, boxes[i], "/bin/busybox") < 0)
			return -1;
		for (size_t k = 0; k < sizeof(programs) / sizeof(*programs); k++) {
			snprintf(path, sizeof(path), "%s/bin/%s", dir, programs[k]);
			if (symlink("busybox", path) < 0)
				return -1;
		}
		return 0;
	}
	for (size_t k = 0; k < sizeof(programs) / sizeof(*programs); k++) {
		snprintf(path, sizeof(path), "/bin/%s", programs[k]);
		if (access(path, X_OK) < 0)
			snprintf(path, sizeof(path), "/usr/bin/%s", programs[k]);
		snprintf(to, sizeof(to), "/bin/%s", programs[k]);
		if (access(path, X_OK) == 0 &&
			(copy_in(dir, path, to) < 0 || copy_libraries(dir, path) < 0)) {
			snprintf(why, why_size, "copy '%s': %s", path, strerror(errno));
			return -1;
		}
	}
	return 0;
}

int root_build(const char *dir, char *why, size_t why_size)
{
	static const char *const dirs[] = {"", "/bin", "/dev", "/dev/pts", "/dev/shm", "/etc",
		"/proc", "/root", "/tmp", "/usr", "/usr/bin", "/var", "/workspace"};
	static const struct {
		const char *name;
		unsigned major, minor;
	} devices[] = {{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8},
		{"urandom", 1, 9}, {"tty", 5, 0}};
	char path[PATH_MAX];

	for (size_t i = 0; i < sizeof(dirs) / sizeof(*dirs); i++) {
		snprintf(path, sizeof(path), "%s%s", dir, dirs[i]);
		if (mkdir(path, 0755) < 0 || (!strcmp(dirs[i], "/tmp") && chmod(path, 01777) < 0)) {
			snprintf(why, why_size, "mkdir '%s': %s", path, strerror(errno));
			return -1;
		}
	}
	for (size_t i = 0; geteuid() == 0 && i < sizeof(devices) / sizeof(*devices); i++) {
		snprintf(path, sizeof(path), "%s/dev/%s", dir, devices[i].name);
		if (mknod(path, S_IFCHR | 0666, makedev(devices[i].major, devices[i].minor)) < 0 ||
			chmod(path, 0666) < 0) {
			snprintf(why, why_size, "mknod '%s': %s", path, strerror(errno));
			return -1;
		}
	}
	if (put_file(dir, "etc/passwd",
		    "root:x:0:0:root:/root:/bin/sh\n"
		    "nobody:x:65534:65534:nobody:/:/bin/sh\n") < 0 ||
		put_file(dir, "etc/group", "root:x:0:\nnogroup:x:65534:\n") < 0 ||
		put_file(dir, "etc/os-release", "PRETTY_NAME=\"Conformance root tree\"\n") < 0)
		return -1;
	return add_programs(dir, why, why_size);
}

static const char *clone_from, *clone_to;

static int clone_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	char to[PATH_MAX], target[PATH_MAX];

	(void)ftw;
	snprintf(to, sizeof(to), "%s%s", clone_to, path + strlen(clone_from));
	if (type == FTW_D)
		return mkdir(to, 0755) < 0 || chmod(to, st->st_mode & 07777) < 0;
	if (type != FTW_SL) /* what a test writes to must not be shared; only programs are */
		return link(path, to) < 0;
	ssize_t n = readlink(path, target, sizeof(target) - 1);
	target[n > 0 ? n : 0] = '\0';
	return symlink(target, to) < 0;
}

int root_clone(const char *from, const char *to)
{
	clone_from = from;
	clone_to = to;
	return nftw(from, clone_entry, 32, FTW_PHYS) ? -1 : 0;
}
