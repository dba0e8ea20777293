/* SPDX-License-Identifier: Apache-2.0 */
/* process.c: see process.h. Knows nothing of cells. */
#include "core/process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/closefds.h"

#define IMAGE_FD   4
#define FIRST_FREE 10 /* fds of the parent are moved up to here, out of the child's way */
#define LOOK_MS	   5
#define STACK_SIZE ((size_t)128 * 1024)

static ssize_t read_small(const char *path, char *ret, size_t size)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	ret[n > 0 ? n : 0] = '\0';
	return n;
}

uint64_t cell_process_start_time(pid_t pid)
{
	char path[48], text[1024];
	uint64_t start = 0;
	char state = 0;

	(void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	if (read_small(path, text, sizeof text) <= 0)
		return 0;
	const char *p = strrchr(text, ')'); /* the name before it may hold anything */
	if (!p || sscanf(p + 1,
			  " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d "
			  "%*d %*d %*d %" SCNu64,
			  &state, &start) != 2)
		return 0;
	return state == 'Z' || state == 'X' ? 0 : start;
}

void cell_process_boot_id(char ret[64])
{
	(void)read_small("/proc/sys/kernel/random/boot_id", ret, 64);
	ret[strcspn(ret, "\n")] = '\0';
}

/* The child runs on a stack that ASan does not know and would warn of at _exit. */
#define IN_CHILD __attribute__((no_sanitize("address")))

#ifdef __SANITIZE_THREAD__
/* The sanitizer's own clone() takes a child that lives in our memory for a forked one, and from then on no longer sees this thread's
 * locks. */
extern int __clone(int (*fn)(void *), void *stack, int flags, void *arg, ...);
#define clone __clone
#endif

struct child {
	struct cell_spawn *spawn;
	int image_fd, pass_fd, null_fd;
	char *inner_stack_top;
	int error;
};

IN_CHILD static void reset_signals(void)
{
	struct sigaction sa = {.sa_handler = SIG_DFL};
	sigset_t none;

#ifdef __SANITIZE_THREAD__
	(void)sa; /* it would forget our handlers, which it keeps in our memory; exec resets them */
#else
	for (int sig = 1; sig < NSIG; sig++)
		(void)sigaction(sig, &sa, NULL);
#endif
	(void)sigemptyset(&none);
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Runs in the parent's memory while the parent's thread waits: async-signal-safe calls only. */
IN_CHILD static int run_child(void *arg)
{
	struct child *c = arg;
	struct cell_spawn *s = c->spawn;
	int r = s->enter ? s->enter(s->user) : 0;

	if (r < 0) {
		c->error = -r;
		_exit(127);
	}
	s->has_entered = true;
	if (dup2(c->null_fd, 0) < 0 || dup2(c->null_fd, 1) < 0 || dup2(c->null_fd, 2) < 0 ||
		dup2(c->pass_fd, CELL_SPAWN_FD) < 0 || dup3(c->image_fd, IMAGE_FD, O_CLOEXEC) < 0 ||
		chdir("/") < 0) {
		c->error = errno;
		_exit(127);
	}
	close_fds(IMAGE_FD + 1, ~0u);
	reset_signals();
	(void)execveat(IMAGE_FD, "", s->argv, s->envp, AT_EMPTY_PATH);
	c->error = errno;
	_exit(127);
}

IN_CHILD static int run_session(void *arg)
{
	struct child *c = arg;

	(void)setsid();
	if (!c->spawn->is_detached)
		return run_child(arg);
	pid_t pid = clone(run_child, c->inner_stack_top, CLONE_VM | CLONE_VFORK | SIGCHLD, c);
	if (pid < 0)
		c->error = errno;
	c->spawn->pid = pid;
	_exit(0);
}

int cell_process_spawn(struct cell_spawn *s)
{
	auto_fd int image = fcntl(s->image_fd, F_DUPFD_CLOEXEC, FIRST_FREE);
	auto_fd int pass = fcntl(s->pass_fd, F_DUPFD_CLOEXEC, FIRST_FREE);
	auto_fd int null_low = open("/dev/null", O_RDWR | O_CLOEXEC);
	auto_fd int null = null_low < 0 ? -1 : fcntl(null_low, F_DUPFD_CLOEXEC, FIRST_FREE);

	if (image < 0 || pass < 0 || null < 0)
		return -errno;
	char *stacks = mmap(NULL, 2 * STACK_SIZE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	if (stacks == MAP_FAILED)
		return -errno;
	struct child c = {.spawn = s,
		.image_fd = image,
		.pass_fd = pass,
		.null_fd = null,
		.inner_stack_top = stacks + STACK_SIZE};
	sigset_t all, old;

	s->pid = -1;
	s->has_entered = false;
	/* a handler of ours must not run in the child: it would do so in our memory */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	pid_t pid = clone(run_session, stacks + 2 * STACK_SIZE, CLONE_VM | CLONE_VFORK, &c);
	int clone_errno = errno;
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	(void)munmap(stacks, 2 * STACK_SIZE);
	if (pid < 0)
		return -clone_errno;
	if (!s->is_detached)
		s->pid = pid;
	if (s->is_detached || c.error)
		while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
			;
	return -c.error;
}

/* A pidfd; in containers whose filter does not know pidfd_open, the process's directory in /proc: signals can
 * be sent by it as well, and it too never becomes another process's. */
static int open_process(pid_t pid)
{
	char path[32];
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
		return fd;
	(void)snprintf(path, sizeof path, "/proc/%d", (int)pid);
	return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* For such a directory: nothing tells, so look. -1: it is a pidfd. */
static int has_ended(int fd)
{
	struct stat st;
	char text[512];

	if (fstat(fd, &st) < 0 || !S_ISDIR(st.st_mode))
		return -1;
	auto_fd int file = openat(fd, "stat", O_RDONLY | O_CLOEXEC);
	ssize_t n = file < 0 ? -1 : read(file, text, sizeof text - 1);
	if (n <= 0)
		return 1;
	text[n] = '\0';
	const char *p = strrchr(text, ')');
	return !p || !p[1] || p[2] == 'Z' || p[2] == 'X';
}

int cell_process_open(pid_t pid, uint64_t start_time)
{
	auto_fd int fd = open_process(pid);

	if (fd < 0)
		return -errno;
	/* checked after opening: from here on the fd is this process and no other */
	return start_time && cell_process_start_time(pid) == start_time ? steal_fd(fd) : -ESRCH;
}

bool cell_process_wait(int pidfd, int timeout_ms)
{
	struct pollfd p = {.fd = pidfd, .events = POLLIN};
	struct timespec now;
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	int64_t end_ms = now.tv_sec * 1000 + now.tv_nsec / 1000000 + timeout_ms;

	for (;;) {
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
		int64_t left = end_ms - (now.tv_sec * 1000 + now.tv_nsec / 1000000);
		int ended = has_ended(pidfd);
		if (ended > 0 || (ended == 0 && left <= 0))
			return ended;
		if (ended == 0) {
			(void)poll(NULL, 0, left < LOOK_MS ? (int)left : LOOK_MS);
			continue;
		}
		int n = poll(&p, 1, left > 0 ? (int)left : 0);
		if (n > 0)
			return true;
		if (n == 0 || errno != EINTR)
			return false;
	}
}

int cell_process_kill(int pidfd)
{
	return syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, NULL, 0) < 0 ? -errno : 0;
}

static bool is_called(pid_t pid, const char *argv0)
{
	char path[48], text[256];

	(void)snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
	return read_small(path, text, sizeof text) > 0 && !strcmp(text, argv0);
}

size_t cell_process_each(const char *argv0, void (*fn)(int pidfd))
{
	auto_dir DIR *proc = opendir("/proc");
	size_t n = 0;

	for (struct dirent *e; proc && (e = readdir(proc));) {
		char *end;
		long pid = strtol(e->d_name, &end, 10);
		if (pid <= 0 || *end || !is_called((pid_t)pid, argv0))
			continue;
		auto_fd int fd = open_process((pid_t)pid);
		if (fd < 0 || !is_called((pid_t)pid, argv0))
			continue;
		n++;
		if (fn)
			fn(fd);
	}
	return n;
}
