/* SPDX-License-Identifier: Apache-2.0 */
/*
 * without-syscalls.c: run a command as on a kernel that lacks some system calls, or in a container whose
 * filter forbids them: `without-syscalls [--eperm] NAME[,NAME...]... -- COMMAND...`. A call is answered with
 * ENOSYS, or EPERM, for the command and all that comes from it; clone3 always with ENOSYS, as every
 * filter in use does, since the C library knows no other way back.
 *
 * Before the command runs each call is tried: one that is not blocked ends it with status 125.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/syscalls.h"

#define CALLS_MAX 64
#define CANNOT	  125

/* What Linux has got since 5.2 that the jail uses when it is there. */
static const char all_new[] = "open_tree,move_mount,fsopen,fsconfig,fsmount,mount_setattr,clone3,"
			      "openat2,close_range,pidfd_open";
static const char new_mounts[] = "open_tree,move_mount,fsopen,fsconfig,fsmount,mount_setattr";

static struct {
	int number;
	char name[32];
} calls[CALLS_MAX];
static size_t n_calls;

static int complain(const char *what, const char *name)
{
	fprintf(stderr, "without-syscalls: %s%s\n", what, name);
	return CANNOT;
}

static int add_calls(const char *names)
{
	if (!strcmp(names, "new"))
		names = all_new;
	else if (!strcmp(names, "mounts"))
		names = new_mounts;
	while (*names) {
		size_t n = strcspn(names, ",");

		if (n == 0 || n >= sizeof calls[0].name || n_calls == CALLS_MAX)
			return complain("too long a list, or an empty name: ", names);
		memcpy(calls[n_calls].name, names, n);
		calls[n_calls].number = syscall_number(SYSCALL_ARCH_NATIVE, calls[n_calls].name);
		if (calls[n_calls].number < 0)
			return complain("no such system call: ", calls[n_calls].name);
		n_calls++;
		names += n + (names[n] == ',');
	}
	return 0;
}

static int answer_to(size_t i, int answer)
{
	return strcmp(calls[i].name, "clone3") == 0 ? ENOSYS : answer;
}

static int load(int answer)
{
	struct sock_filter code[2 * CALLS_MAX + 8];
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		offsetof(struct seccomp_data, arch));
	code[n++] =
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYSCALL_ARCH_NATIVE, 1, 0);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
		offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < n_calls; i++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
			(unsigned)calls[i].number, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
			SECCOMP_RET_ERRNO | (unsigned)answer_to(i, answer));
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {.len = n, .filter = code};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0)
		return 0;
	/* who is not root may only if nothing it executes gets more rights */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
		return complain("cannot load a filter: ", strerror(errno));
	return 0;
}

/* With arguments that no call takes: one that is there answers something else. */
static int check(int answer)
{
	for (size_t i = 0; i < n_calls; i++) {
		errno = 0;
		if (syscall(calls[i].number, -1L, -1L, -1L, -1L, -1L, -1L) >= 0 ||
			errno != answer_to(i, answer))
			return complain("not blocked: ", calls[i].name);
	}
	return 0;
}

int main(int argc, char **argv)
{
	int answer = ENOSYS, i = 1;

	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		if (!strcmp(argv[i], "--eperm"))
			answer = EPERM;
		else if (add_calls(argv[i]) != 0)
			return CANNOT;
	}
	if (i + 1 >= argc || n_calls == 0)
		return complain("usage: without-syscalls [--eperm] new|mounts|NAME[,NAME...]... -- "
				"COMMAND...",
			"");
	if (load(answer) != 0 || check(answer) != 0)
		return CANNOT;
	execvp(argv[i + 1], argv + i + 1);
	return complain("cannot execute: ", argv[i + 1]);
}
