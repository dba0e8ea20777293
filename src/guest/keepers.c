/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keepers.c: the guest's keepers: forking them, handing them commands, keeping one idle.
 *
 * The first command a keeper gets is the one it was forked for, unless that was before there was any; it
 * finds it in the memory it inherited. Later ones come as a message on its socket: a fixed head, then NUL-terminated strings,
 * with its fds attached. A command too large for a message simply gets a new keeper.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "guest/guest.h"
#include "guest/keeper.h"
#include "guest/oom.h"

#define MESSAGE_MAX 65536u
#define MAX_IDLE    1

struct kept {
	struct kept *next;
	pid_t pid;
	int sock;
	bool is_idle;
	uint32_t number; /* of the command it has */
	struct keeper_slot *slot;
};
static struct kept *all;

/* Shared with every keeper, so that it can be looked up without waking anybody. */
#define N_SLOTS (GUEST_MAX_JOBS + MAX_IDLE)
static struct keeper_slot *slots;

struct message_head {
	uint32_t number;
	uint32_t n_argv, n_env, n_groups;
	uint32_t uid, gid;
	uint64_t timeout_ms, grace_ms;
	uint8_t is_tty, has_ids, reserved[6];
};

#define N_FDS	4 /* cwd, stdin, stdout, stderr */
#define MAX_FDS (N_FDS + 2)

/* ---- in the guest ---- */

static int encode(const struct launch *l, struct buf *b)
{
	struct message_head h = {
		.number = l->number,
		.n_groups = (uint32_t)l->n_groups,
		.uid = l->uid,
		.gid = l->gid,
		.timeout_ms = l->timeout_ms,
		.grace_ms = l->grace_ms,
		.is_tty = l->is_tty,
		.has_ids = l->has_ids,
	};
	while (l->argv[h.n_argv])
		h.n_argv++;
	while (l->env[h.n_env])
		h.n_env++;
	int r = buf_add(b, &h, sizeof h);
	if (r == 0)
		r = buf_add(b, l->groups, l->n_groups * sizeof *l->groups);
	for (uint32_t i = 0; r == 0 && i < h.n_argv; i++)
		r = buf_add(b, l->argv[i], strlen(l->argv[i]) + 1);
	for (uint32_t i = 0; r == 0 && i < h.n_env; i++)
		r = buf_add(b, l->env[i], strlen(l->env[i]) + 1);
	return r;
}

static int hand_over(const struct kept *k, const struct launch *l)
{
	auto_buf struct buf b = BUF_INIT(MESSAGE_MAX);
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control = {0};
	int r = encode(l, &b);

	if (r < 0)
		return r;
	struct iovec iov = {b.data, b.len};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	const int fds[MAX_FDS] = {
		l->cwd_fd, l->stdio[0], l->stdio[1], l->stdio[2], l->extra[0], l->extra[1]};
	size_t n_fds = l->extra[0] < 0 ? N_FDS : MAX_FDS;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(n_fds * sizeof *fds);
	m.msg_controllen = CMSG_SPACE(n_fds * sizeof *fds);
	memcpy(CMSG_DATA(c), fds, n_fds * sizeof *fds);
	return sendmsg(k->sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

int keeper_init(void)
{
	void *p = mmap(NULL, N_SLOTS * sizeof *slots, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	slots = p;
	return p == MAP_FAILED ? -errno : 0;
}

static struct keeper_slot *free_slot(void)
{
	bool is_taken[N_SLOTS] = {0};

	for (const struct kept *k = all; k; k = k->next)
		is_taken[k->slot - slots] = true;
	for (size_t i = 0; i < N_SLOTS; i++) {
		if (!is_taken[i])
			return &slots[i];
	}
	return NULL;
}

static struct kept *find(pid_t pid)
{
	struct kept *k = all;

	while (k && k->pid != pid)
		k = k->next;
	return k;
}

bool keeper_is_known(pid_t pid)
{
	return find(pid) != NULL;
}

void keeper_forget(pid_t pid)
{
	struct kept **at = &all;

	while (*at && (*at)->pid != pid)
		at = &(*at)->next;
	if (*at) {
		struct kept *k = *at;

		*at = k->next;
		close(k->sock);
		free(k);
	}
}

pid_t keeper_leader(pid_t pid)
{
	const struct kept *k = find(pid);

	return k ? k->slot->leader : 0;
}

int keeper_signal(pid_t pid, int sig, bool tree)
{
	pid_t leader = tree ? 0 : keeper_leader(pid);

	/* at once, so that what the client sends after a SIGSTOP finds it stopped; the keeper clears
	 * the slot as soon as it has reaped the command */
	if (leader > 0)
		return kill(-leader, sig) < 0 ? -errno : 0;

	/* a command may have stopped it: they are of one user */
	if (tree && sig == SIGKILL)
		(void)kill(pid, SIGCONT);
	const struct kept *k = find(pid);
	const union sigval v = {
		.sival_int = sig | (tree ? KEEPER_TREE : 0) | KEEPER_FOR(k ? k->number : 0)};

	if (sigqueue(pid, SIGRTMIN, v) == 0)
		return 0;
	/* the user's queue of signals is full, perhaps by a command's doing; a plain SIGTERM needs no place in
	 * it, and says the same to a keeper as a SIGKILL for the tree */
	if (errno == EAGAIN && tree && sig == SIGKILL)
		return kill(pid, SIGTERM) < 0 ? -errno : 0;
	return -errno;
}

void keeper_release(pid_t pid)
{
	struct kept *k = find(pid);
	int idle = 0;

	for (const struct kept *i = all; i; i = i->next)
		idle += i->is_idle;
	if (k && idle < MAX_IDLE)
		k->is_idle = true;
	else
		keeper_forget(pid); /* its socket ends, so does it */
}

void keeper_dismiss_all(void)
{
	while (all) {
		pid_t pid = all->pid;

		keeper_forget(pid);
		(void)waitpid(pid, NULL, 0);
	}
}

/* ---- in the keeper ---- */

static const char *take_string(const char **at, const char *end)
{
	const char *s = *at;
	const char *nul = memchr(s, 0, (size_t)(end - s));

	if (!nul)
		_exit(1); /* only our own guest writes here */
	*at = nul + 1;
	return s;
}

/* Decode in place: the strings stay in the message. */
static void decode(char *p, size_t n, const int fds[MAX_FDS], struct launch *l)
{
	const struct message_head *h = (const void *)p;
	const char *at = p + sizeof *h + h->n_groups * sizeof(gid_t), *end = p + n;
	char **strings = calloc((size_t)h->n_argv + h->n_env + 2, sizeof *strings);

	if (!strings || at > end)
		_exit(1);
	*l = (struct launch){
		.number = h->number,
		.argv = strings,
		.env = strings + h->n_argv + 1,
		.cwd_fd = fds[0],
		.stdio = {fds[1], fds[2], fds[3]},
		.extra = {fds[4], fds[5]},
		.is_tty = h->is_tty,
		.has_ids = h->has_ids,
		.uid = h->uid,
		.gid = h->gid,
		.groups = (const void *)(p + sizeof *h),
		.n_groups = h->n_groups,
		.timeout_ms = h->timeout_ms,
		.grace_ms = h->grace_ms,
	};
	for (uint32_t i = 0; i < h->n_argv; i++)
		l->argv[i] = p + (take_string(&at, end) - p);
	for (uint32_t i = 0; i < h->n_env; i++)
		l->env[i] = p + (take_string(&at, end) - p);
}

/* The next command for this keeper; leaves when the guest has no more use for it. */
static void await_command(int sock, char *message, struct launch *l)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov = {message, MESSAGE_MAX};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof control.bytes};
	ssize_t n;
	int fds[MAX_FDS] = {[N_FDS] = -1, -1};

	do {
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (n < (ssize_t)sizeof(struct message_head) || !c ||
		(c->cmsg_len != CMSG_LEN(sizeof fds) &&
			c->cmsg_len != CMSG_LEN(N_FDS * sizeof *fds)))
		_exit(0);
	memcpy(fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	decode(message, (size_t)n, fds, l);
}

/* 2 is only held: a command's fds must never arrive at 0-2, where its own stdio goes. */
enum {
	KEEPER_REPORT_FD = 0,
	KEEPER_SOCK_FD = 1,
	KEEPER_HELD_FD = 2,
	KEEPER_FIRST_OTHER_FD = 3
};

__attribute__((noreturn)) static void keeper_main(const struct launch *first,
	struct keeper_slot *slot, int sock, int report_fd, pid_t parent)
{
	struct launch own = {0};
	sigset_t all_signals;

	(void)prctl(PR_SET_NAME, "cell-keeper");
	(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(0);
	sigfillset(&all_signals);
	(void)sigprocmask(SIG_SETMASK, &all_signals, NULL);
	if (dup3(report_fd, KEEPER_REPORT_FD, O_CLOEXEC) < 0 ||
		dup3(sock, KEEPER_SOCK_FD, O_CLOEXEC) < 0 ||
		dup3(report_fd, KEEPER_HELD_FD, O_CLOEXEC) < 0)
		_exit(1);
	if (first) {
		own = *first;
		keeper_run(&own, slot, KEEPER_REPORT_FD, KEEPER_FIRST_OTHER_FD);
	} else {
		keeper_close_from(KEEPER_FIRST_OTHER_FD);
	}

	char *message = malloc(MESSAGE_MAX);
	if (!message)
		_exit(1);
	for (;;) {
		await_command(KEEPER_SOCK_FD, message, &own);
		keeper_run(&own, slot, KEEPER_REPORT_FD, KEEPER_FIRST_OTHER_FD);
		free(own.argv);
	}
}

/* ---- starting ---- */

static pid_t fork_keeper(const struct launch *l, int report_fd)
{
	struct kept *k = calloc(1, sizeof *k);
	struct keeper_slot *slot = free_slot();
	pid_t parent = getpid();
	int sv[2];

	if (!k || !slot || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv) < 0) {
		int e = !k ? ENOMEM : !slot ? EAGAIN : errno;

		free(k);
		return -e;
	}
	oom_raise_score();
	pid_t pid = fork();
	if (pid != 0)
		oom_restore_score();
	if (pid == 0)
		keeper_main(l, slot, sv[1], report_fd, parent);
	int e = errno;
	close(sv[1]);
	if (pid < 0) {
		close(sv[0]);
		free(k);
		return -e;
	}
	*k = (struct kept){
		.next = all, .pid = pid, .sock = sv[0], .slot = slot, .number = l ? l->number : 0};
	all = k;
	return pid;
}

pid_t keeper_park(int report_fd)
{
	pid_t pid = fork_keeper(NULL, report_fd);
	struct kept *k = pid > 0 ? find(pid) : NULL;

	if (k)
		k->is_idle = true;
	return pid;
}

pid_t keeper_start(const struct launch *l, int report_fd)
{
	for (struct kept *k = all; k; k = k->next) {
		if (k->is_idle && hand_over(k, l) == 0) {
			k->is_idle = false;
			k->number = l->number;
			return k->pid;
		}
	}
	return fork_keeper(l, report_fd);
}
