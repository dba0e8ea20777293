/* SPDX-License-Identifier: Apache-2.0 */
/* test_jail_probe.c: a launcher that dies while it is asked what it can do. The kernel stops it at its first
 * unshare() or clone3() and asks us; the first time it is killed, then it may go on. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "core/contract.h"
#include "scratch.h"

static atomic_int to_kill;
static atomic_int killed;

static void *mind(void *arg)
{
	int fd = -1;

	if (read(*(int *)arg, &fd, sizeof fd) != sizeof fd)
		return NULL;
	for (;;) {
		struct seccomp_notif rq = {0};
		struct seccomp_notif_resp rs = {0};

		if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &rq) < 0) {
			if (errno == EINTR || errno == ENOENT)
				continue;
			return NULL;
		}
		if (atomic_load(&to_kill) > 0) {
			atomic_fetch_sub(&to_kill, 1);
			atomic_fetch_add(&killed, 1);
			(void)kill((pid_t)rq.pid, SIGKILL);
			continue;
		}
		rs.id = rq.id;
		rs.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
		(void)ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &rs);
	}
}

/* For this process and all it starts from now on; the thread that minds is made before. */
static int stop_at_unshare(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_unshare, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};

	if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
		&program);
}

TEST(a_launcher_that_dies_is_no_lack_and_not_remembered)
{
	struct cell_backend_info info;
	struct cell_error err = {0};
	struct cell_spec spec = {.backend = "jail"};
	struct cell *c = NULL;
	static int told[2];
	pthread_t minder;

	scratch_make();
	pid_t pid = fork(); /* can the jail be had at all? Asked elsewhere: the answer is kept */
	if (pid == 0)
		_exit(cell_backend_probe("jail", &info, &err) == 0 && info.is_usable ? 0 : 1);
	int status = 0;
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	if (status != 0)
		SKIP("the jail is not usable here");
	ASSERT_EQ(pipe(told), 0);
	ASSERT_EQ(pthread_create(&minder, NULL, mind, &told[0]), 0);
	int fd = stop_at_unshare();
	if (fd < 0)
		SKIP("no seccomp filter with a listener can be had here");
	ASSERT_EQ(write(told[1], &fd, sizeof fd), sizeof fd);

	atomic_store(&to_kill, 1);
	ASSERT(cell_open(&spec, &c, &err) < 0);
	ASSERT_EQ(atomic_load(&killed), 1);
	ASSERT_EQ(err.code, CELL_EBACKEND);
	CHECK_(strstr(err.msg, "the launcher died"), "%s", err.msg);
	CHECK_(strstr(err.hint, "try again"), "%s", err.hint);

	err = (struct cell_error){0};
	CHECK_(cell_open(&spec, &c, &err) == 0, "%s (%s)", err.msg, err.hint);
	ASSERT_EQ(cell_destroy(c, &err), 0);

	/* and when somebody only wants to know */
	ASSERT_EQ(cell_backend_probe("jail", &info, &err), 0);
	ASSERT(info.is_usable);
}
