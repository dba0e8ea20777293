/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ids.c: a runtime without root. It is root all the same, of a user namespace in which that means the ordinary user who started it.
 * Where /etc/subuid and /etc/subgid give that user more ids, newuidmap and newgidmap map them too, and a cell that needs no files of
 * the user is one of those: what gets out of it is nobody.
 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/oci/oci.h"
#include "base/cleanup.h"
#include "base/error.h"

#define NEWUIDMAP "/usr/bin/newuidmap"
#define NEWGIDMAP "/usr/bin/newgidmap"

/* The longest of the user's ranges, by name or number: "user:100000:65536". */
static uint32_t find_range(const char *path, const char *name, uid_t uid, uint32_t *ret_first)
{
	auto_file FILE *f = fopen(path, "re");
	char line[512], number[16];
	uint32_t best = 0;

	(void)snprintf(number, sizeof number, "%u", (unsigned)uid);
	while (f && fgets(line, sizeof line, f)) {
		char *colon = strchr(line, ':');
		unsigned long first, n;

		if (!colon)
			continue;
		*colon = '\0';
		if (strcmp(line, number) != 0 && (!name || strcmp(line, name) != 0))
			continue;
		if (sscanf(colon + 1, "%lu:%lu", &first, &n) == 2 && n > best && n <= UINT32_MAX &&
			first > 0 && first <= UINT32_MAX - n) {
			best = (uint32_t)n;
			*ret_first = (uint32_t)first;
		}
	}
	return best;
}

void oci_ids_find(struct oci_ids *ret)
{
	*ret = (struct oci_ids){
		.is_rootless = geteuid() != 0, .own_uid = geteuid(), .own_gid = getegid()};
	if (!ret->is_rootless)
		return;
	struct passwd pw, *found = NULL;
	char text[2048];
	const char *name = getpwuid_r(ret->own_uid, &pw, text, sizeof text, &found) == 0 && found
				   ? pw.pw_name
				   : NULL;
	ret->n_uids = find_range("/etc/subuid", name, ret->own_uid, &ret->first_uid);
	ret->n_gids = find_range("/etc/subgid", name, ret->own_uid, &ret->first_gid);
	/* one that has not got the usual user of cells is of no use */
	ret->has_range = ret->n_uids >= CONTAINER_UID && ret->n_gids >= CONTAINER_UID &&
			 access(NEWUIDMAP, X_OK) == 0 && access(NEWGIDMAP, X_OK) == 0;
	(void)snprintf(ret->uid_map, sizeof ret->uid_map, "0 %u 1", (unsigned)ret->own_uid);
	(void)snprintf(ret->gid_map, sizeof ret->gid_map, "0 %u 1", (unsigned)ret->own_gid);
}

static long read_number(const char *path, long otherwise)
{
	auto_file FILE *f = fopen(path, "re");
	char line[32];

	return f && fgets(line, sizeof line, f) ? strtol(line, NULL, 10) : otherwise;
}

const char *oci_ids_refusal(const char **ret_fix)
{
	if (read_number("/proc/sys/user/max_user_namespaces", 1) == 0) {
		*ret_fix = "sysctl user.max_user_namespaces=10000, or run as root";
		return "no user namespaces may be made here (user.max_user_namespaces is 0)";
	}
	if (read_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0) {
		*ret_fix = "sysctl kernel.unprivileged_userns_clone=1, or run as root";
		return "ordinary users may make no user namespaces here";
	}
	return NULL;
}

/* ---- in the child ---- */

static int put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	size_t n = strlen(text);

	if (fd < 0)
		return -errno;
	int r = write(fd, text, n) == (ssize_t)n ? 0 : -errno;
	close(fd);
	return r;
}

int oci_ids_enter(const struct oci_ids *ids, int sync_fd)
{
	char byte = 'm';
	ssize_t n;

	/* of a program that was root before its /proc belongs to root, and with it the maps */
	if (prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) < 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
		return -errno;
	if (!ids->has_range) {
		int r = put("/proc/self/setgroups", "deny");
		if (r == 0)
			r = put("/proc/self/uid_map", ids->uid_map);
		return r == 0 ? put("/proc/self/gid_map", ids->gid_map) : r;
	}
	if (write(sync_fd, &byte, 1) != 1)
		return -errno;
	do
		n = read(sync_fd, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1)
		return -ECANCELED; /* the parent has said why */
	/* by the calls themselves: the library would tell threads that a fork has not got */
	return syscall(SYS_setresgid, 0, 0, 0) < 0 || syscall(SYS_setresuid, 0, 0, 0) < 0 ? -errno
											  : 0;
}

/* ---- in the parent ---- */

static int run_mapper(const char *program, pid_t child, uint32_t own, uint32_t first, uint32_t n,
	struct cell_error *err)
{
	char text[4][16];
	const char *argv[] = {program, text[0], "0", text[1], "1", "1", text[2], text[3], NULL};
	const char *env[] = {NULL};
	int status = 0;
	pid_t pid;

	(void)snprintf(text[0], sizeof text[0], "%d", (int)child);
	(void)snprintf(text[1], sizeof text[1], "%u", own);
	(void)snprintf(text[2], sizeof text[2], "%u", first);
	(void)snprintf(text[3], sizeof text[3], "%u", n);
	int e = posix_spawn(&pid, program, NULL, NULL, (char *const *)(uintptr_t)argv,
		(char *const *)(uintptr_t)env);
	while (e == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (e == 0 && status == 0)
		return 0;
	int r = cell_fail(err, CELL_EBACKEND, e, "map ids for the container: %s failed", program);
	return cell_error_hint(err, r,
		"it must be setuid root, and /etc/subuid and /etc/subgid must give you the range");
}

int oci_ids_map(const struct oci_ids *ids, pid_t child, struct cell_error *err)
{
	int r = run_mapper(NEWUIDMAP, child, ids->own_uid, ids->first_uid, ids->n_uids, err);

	return r < 0 ? r
		     : run_mapper(NEWGIDMAP, child, ids->own_gid, ids->first_gid, ids->n_gids, err);
}
