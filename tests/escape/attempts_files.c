/* SPDX-License-Identifier: Apache-2.0 */
/* attempts_files.c: files of the host, mounts, devices, setuid. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attempt.h"

/* Does the file begin with the canary's text? */
static bool is_canary(int dir, const char *path)
{
	char text[32] = "";
	int fd = openat(dir, path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (fd >= 0)
		close(fd);
	return n > 0 && !strncmp(text, "CELL-ESCAPE-CANARY", 18);
}

static enum result read_canary(const char *path)
{
	return is_canary(AT_FDCWD, path) ? DID_IT : REFUSED;
}

/* Up from /, from the working directory and from every open fd, then down to the canary. */
static enum result dotdot(const char *path)
{
	char up[PATH_MAX] = "";

	for (int i = 0; i < 60; i++)
		(void)snprintf(up + strlen(up), sizeof up - strlen(up), "../");
	(void)snprintf(up + strlen(up), sizeof up - strlen(up), "%s", path + 1);
	int root = open("/", O_PATH);
	if (is_canary(AT_FDCWD, up) || is_canary(root, up))
		return DID_IT;
	for (int fd = 0; fd < 64; fd++)
		if (is_canary(fd, up))
			return DID_IT;
	return REFUSED;
}

/* /proc/PID/{root,cwd,fd/N} of whoever can be seen. */
static enum result through_proc(const char *path)
{
	DIR *d = opendir("/proc");
	char p[PATH_MAX];

	for (struct dirent *e; d && (e = readdir(d));) {
		if (e->d_name[0] < '0' || e->d_name[0] > '9' ||
			strtol(e->d_name, NULL, 10) == getpid())
			continue;
		(void)snprintf(p, sizeof p, "/proc/%s/root%s", e->d_name, path);
		if (is_canary(AT_FDCWD, p))
			return DID_IT;
		for (int fd = 0; fd < 16; fd++) {
			(void)snprintf(p, sizeof p, "/proc/%s/fd/%d/../../../../..%s", e->d_name,
				fd, path);
			if (is_canary(AT_FDCWD, p))
				return DID_IT;
		}
	}
	return REFUSED;
}

static enum result do_chroot(const char *arg)
{
	(void)arg;
	(void)mkdir("/tmp/jail-in-jail", 0755);
	long r = chroot("/tmp/jail-in-jail");
	(void)rmdir("/tmp/jail-in-jail");
	return outcome(r);
}

static enum result mknod_device(const char *arg)
{
	char path[] = "/tmp/cell-device";

	(void)arg;
	long r = mknod(path, S_IFCHR | 0666, makedev(1, 3));
	enum result did = outcome(r);
	if (r == 0) {
		int fd = open(path, O_RDWR); /* the node may be there and be good for nothing */
		if (fd < 0)
			did = REFUSED;
		(void)unlink(path);
	}
	return did;
}

static enum result write_program(const char *path)
{
	long r = open(path, O_WRONLY);

	return outcome(r);
}

/* A setuid file of our own making. The arg says to only tell the effective uid. */
static enum result setuid_program(const char *arg)
{
	if (!strcmp(arg, "who"))
		return geteuid() == 0 ? DID_IT : REFUSED;
	int status = 0;
	pid_t pid = fork();
	if (pid == 0) {
		execl(arg, "attempt", "setuid", "who", (char *)NULL);
		_exit(CANNOT);
	}
	(void)waitpid(pid, &status, 0);
	return WIFEXITED(status) ? (enum result)WEXITSTATUS(status) : REFUSED;
}

/* A set-id file on the host's disk, by every call that takes a mode. */
static enum result leave_setuid(const char *how)
{
	static const char name[] = "left-setuid";
	struct {
		uint64_t flags, mode, resolve;
	} open_how = {O_WRONLY | O_CREAT, 04755, 0};
	struct stat st = {0};
	char path[64];
	int fd = -1;

	(void)unlink(name);
	(void)umask(0);
	if (!strcmp(how, "openat2")) {
		fd = (int)syscall(SYS_openat2, AT_FDCWD, name, &open_how, sizeof open_how);
	} else if (!strcmp(how, "open")) {
		fd = open(name, O_WRONLY | O_CREAT, 04755);
	} else if (!strcmp(how, "tmpfile")) {
		fd = open(".", O_WRONLY | O_TMPFILE, 04755);
		(void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		(void)linkat(AT_FDCWD, path, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
	} else if (!strcmp(how, "mknod")) {
		(void)mknod(name, S_IFREG | 04755, 0);
	} else {
		fd = open(name, O_WRONLY | O_CREAT, 0755);
		(void)(!strcmp(how, "fchmod") ? fchmod(fd, 04755) : chmod(name, 02755));
	}
	(void)stat(name, &st);
	(void)unlink(name);
	say("mode %o", st.st_mode);
	return st.st_mode & 06000 ? DID_IT : REFUSED;
}

static enum result mount_tmpfs(const char *arg)
{
	(void)arg;
	return outcome(mount("none", "/tmp", "tmpfs", 0, NULL));
}

static enum result mount_proc(const char *arg)
{
	(void)arg;
	return outcome(mount("none", "/tmp", "proc", 0, NULL));
}

static enum result mount_new_api(const char *arg)
{
	(void)arg;
	return outcome(syscall(SYS_fsopen, "tmpfs", 0));
}

static enum result clone_tree(const char *arg)
{
	(void)arg;
	return outcome(syscall(SYS_open_tree, AT_FDCWD, "/usr", 1 /* OPEN_TREE_CLONE */));
}

static enum result remount(const char *arg)
{
	(void)arg;
	return outcome(mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL));
}

static enum result unmount_proc(const char *arg)
{
	(void)arg;
	return outcome(umount2("/proc", MNT_DETACH));
}

static enum result pivot(const char *arg)
{
	(void)arg;
	long r = syscall(SYS_pivot_root, "/", "/");
	/* outside it is allowed but these are no two mounts: EBUSY or EINVAL */
	return r == 0 || errno == EBUSY || errno == EINVAL ? DID_IT : outcome(r);
}

static enum result by_handle(const char *arg)
{
	union {
		struct file_handle h;
		char room[sizeof(struct file_handle) + 128];
	} u = {.h.handle_bytes = 128};
	int id;

	(void)arg;
	if (name_to_handle_at(AT_FDCWD, "/usr", &u.h, &id, 0) < 0)
		return CANNOT;
	int dir = open("/usr", O_RDONLY);
	return outcome(open_by_handle_at(dir, &u.h, O_RDONLY));
}

/* Does /proc/self/mountinfo name this directory of the host? */
static enum result mountinfo(const char *part)
{
	char line[8192];
	FILE *f = fopen("/proc/self/mountinfo", "re");

	while (f && fgets(line, sizeof line, f))
		if (strstr(line, part))
			return DID_IT;
	return REFUSED;
}

static enum result environment(const char *name)
{
	return getenv(name) ? DID_IT : REFUSED;
}

static enum result extra_fds(const char *arg)
{
	(void)arg;
	for (int fd = 3; fd < 65536; fd++)
		if (fcntl(fd, F_GETFD) >= 0) {
			say("fd %d is open", fd);
			return DID_IT;
		}
	return REFUSED;
}

const struct attempt attempts_files[] = {
	{"canary", read_canary},
	{"dotdot", dotdot},
	{"through-proc", through_proc},
	{"chroot", do_chroot},
	{"mknod", mknod_device},
	{"write-program", write_program},
	{"setuid", setuid_program},
	{"leave-setuid", leave_setuid},
	{"mount-tmpfs", mount_tmpfs},
	{"mount-proc", mount_proc},
	{"fsopen", mount_new_api},
	{"open-tree", clone_tree},
	{"remount", remount},
	{"umount-proc", unmount_proc},
	{"pivot-root", pivot},
	{"by-handle", by_handle},
	{"mountinfo", mountinfo},
	{"env", environment},
	{"fds", extra_fds},
	{0},
};
