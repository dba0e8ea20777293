/* SPDX-License-Identifier: Apache-2.0 */
/*
 * remains.c: what a container leaves when Cell, the runtime or both died in the middle. Nothing is on the host's mount table and the
 * runtime's state is in the cell's directory, so it is processes and cgroups. A process is the cell's when the cell's bundle is among
 * its mounts, or when it is the runtime with the cell's state; a group by its name.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cell/cell.h"

#include "backends/oci/oci.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/process.h"

#define STALE_S	 60 /* no runtime takes that long to put a process into the group it made */
#define PAUSE_MS 2
#define PATIENCE 5000 /* pauses for processes to be gone */
#define TEXT_MAX (1u << 20)

static void pause_briefly(void)
{
	const struct timespec t = {.tv_nsec = PAUSE_MS * 1000000};

	(void)nanosleep(&t, NULL);
}

/* ---- processes ---- */

static bool file_has(const char *pid, const char *name, const void *what, size_t n)
{
	auto_buf struct buf text = BUF_INIT(TEXT_MAX);
	char path[300], chunk[16384];

	(void)snprintf(path, sizeof path, "/proc/%s/%s", pid, name);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	for (ssize_t got; fd >= 0 && (got = read(fd, chunk, sizeof chunk)) > 0;)
		if (buf_add(&text, chunk, (size_t)got) < 0)
			break;
	return text.len && memmem(text.data, text.len, what, n);
}

struct marks {
	char mount[4200], root[4200], root_joined[4200];
	size_t n_mount, n_root, n_root_joined;
};

static void make_marks(const struct cell *c, struct marks *ret)
{
	const char *dir = cell_directory(c);

	ret->n_mount = (size_t)snprintf(ret->mount, sizeof ret->mount, "%s/bundle/", dir);
	/* as arguments are in /proc, the NUL behind them too */
	ret->n_root =
		(size_t)snprintf(ret->root, sizeof ret->root, "--root%c%s/" OCI_STATE, 0, dir) + 1;
	ret->n_root_joined = (size_t)snprintf(ret->root_joined, sizeof ret->root_joined,
				     "--root=%s/" OCI_STATE, dir) +
			     1;
}

/* Kills what it finds; how many that were. */
static size_t kill_marked(const struct marks *m)
{
	size_t n = 0;
	auto_dir DIR *d = opendir("/proc");

	for (struct dirent *e; d && (e = readdir(d));) {
		pid_t pid = isdigit((unsigned char)e->d_name[0])
				    ? (pid_t)strtol(e->d_name, NULL, 10)
				    : 0;
		if (pid <= 0 || pid == getpid())
			continue;
		auto_fd int pidfd = cell_process_open(pid, cell_process_start_time(pid));
		if (pidfd < 0)
			continue;
		if (!file_has(e->d_name, "mountinfo", m->mount, m->n_mount) &&
			!file_has(e->d_name, "cmdline", m->root, m->n_root) &&
			!file_has(e->d_name, "cmdline", m->root_joined, m->n_root_joined))
			continue;
		n += cell_process_kill(pidfd) != -ESRCH;
	}
	return n;
}

int oci_remains_kill(struct cell *c, struct cell_error *err)
{
	struct marks m;

	make_marks(c, &m);
	for (int i = 0; i < PATIENCE; i++) {
		if (kill_marked(&m) == 0)
			return 0;
		pause_briefly();
	}
	int r = cell_fail(err, CELL_EBUSY, 0, "processes of cell '%s' were killed but do not end",
		cell_name(c));
	return cell_error_hint(err, r, "they hang in the kernel, often on a network file system");
}

/* ---- cgroups ---- */

bool oci_each_group(const char *dir, const char *ending, oci_group_fn fn)
{
	const char *const places[] = {
		*dir ? dir : "/sys/fs/cgroup", *dir ? NULL : "/sys/fs/cgroup/*"};
	bool is_fine = true;

	for (size_t k = 0; k < 2 && places[k]; k++) {
		char pattern[OCI_GROUP_PATH + 300];
		glob_t found = {0};

		(void)snprintf(pattern, sizeof pattern, "%s/" OCI_GROUP "%s", places[k], ending);
		if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
			for (size_t i = 0; i < found.gl_pathc; i++)
				is_fine &= fn(found.gl_pathv[i]);
		globfree(&found);
	}
	return is_fine;
}

bool oci_each_group_of(const struct cell *c, oci_group_fn fn)
{
	const char *dir = cell_note(c, OCI_GROUP_DIR);

	return oci_each_group(dir ? dir : "", cell_note(c, "container"), fn);
}

static void kill_members(const char *group)
{
	char path[4200], line[32];

	(void)snprintf(path, sizeof path, "%s/cgroup.procs", group);
	auto_file FILE *f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f)) {
		pid_t pid = (pid_t)strtol(line, NULL, 10);
		if (pid > 0)
			(void)kill(pid, SIGKILL);
	}
}

static bool remove_group(const char *path)
{
	if (rmdir(path) == 0 || errno == ENOENT)
		return true;
	kill_members(path);
	return rmdir(path) == 0 || errno == ENOENT;
}

bool oci_remains_ungroup(const struct cell *c)
{
	bool is_done = oci_each_group_of(c, remove_group);

	for (int i = 0; !is_done && i < PATIENCE; i++) {
		pause_briefly();
		is_done = oci_each_group_of(c, remove_group);
	}
	return is_done;
}

/* A cell whose record was lost is never told of. What is empty, and was made long ago, is nobody's: a group that still has
 * processes cannot be removed. */
static bool sweep_group(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && st.st_mtime + STALE_S < time(NULL))
		(void)rmdir(path);
	return true;
}

void oci_remains_sweep(void)
{
	struct oci_groups g;

	oci_groups_find(&g);
	if (g.is_there)
		(void)oci_each_group(g.dir, "*", sweep_group);
}
