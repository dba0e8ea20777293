/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors are let go of, with close_range and without, with /proc and without. */
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/closefds.h"
#include "test.h"

#define FIRST 40
#define COUNT 700 /* more than are closed in one round */

/* Answer ENOSYS to one call, or to two. */
static void forget(int a, int b)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)a, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)b, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};

	ASSERT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	ASSERT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static void open_many(void)
{
	struct rlimit files = {FIRST + 2 * COUNT, FIRST + 2 * COUNT};

	ASSERT(setrlimit(RLIMIT_NOFILE, &files) == 0);
	for (int i = 0; i < COUNT; i++) {
		int fd = fcntl(2, F_DUPFD_CLOEXEC, FIRST + 2 * i); /* with holes */
		ASSERT(fd >= FIRST + 2 * i);
	}
}

static void check(void)
{
	open_many();
	close_fds(FIRST + 10, FIRST + 100);
	for (int fd = FIRST; fd < FIRST + 2 * COUNT; fd += 2)
		ASSERT(is_open(fd) == (fd < FIRST + 10 || fd > FIRST + 100));
	close_fds(FIRST, ~0u);
	for (int fd = FIRST; fd < FIRST + 2 * COUNT; fd++)
		ASSERT(!is_open(fd));
	ASSERT(is_open(2));
}

TEST(a_range_is_closed_and_nothing_else)
{
	check();
}

TEST(without_close_range_too)
{
	forget(SYS_close_range, SYS_close_range);
	ASSERT(syscall(SYS_close_range, ~0u, ~0u, 0) < 0 && errno == ENOSYS);
	check();
}

TEST(without_a_list_of_what_is_open_too)
{
	forget(SYS_close_range, SYS_getdents64);
	check();
}
