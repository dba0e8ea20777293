/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serve.c: requests in, cells out. A request is one message on the launcher's socket; from then on a
 * cell has a control socket of its own, so clients with several threads need no order among them. The
 * end of that socket is the end of its cell, unless it is to be kept.
 */
#include "launcher/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/launcher.h"
#include "launcher/net.h"
#include "launcher/reply.h"
#include "launcher/seccomp_profiles.h"
#include "launcher/sys.h"

enum source {
	FROM_CONTROL,
	FROM_STATUS,
	FROM_PID,
	N_SOURCES
};
#define FROM_SOCKET	UINT64_MAX
#define PATIENCE_MS	1000
#define CALM_MS		10000 /* without a request: keep less parked */
#define FAVOUR_MS	3
#define HURRY_MS	3 /* between the end of one cell and the request for the next */
#define GONE_MOUNTS_MAX 16
#define MANY_CELLS	256

struct cell {
	bool is_used;
	bool is_ready;	 /* its first process said that only exec is left */
	bool is_refused; /* it failed, and the client knows */
	bool is_kept;
	bool is_ending;	    /* END was asked for: say DONE when it is gone */
	bool is_parked;	    /* nobody has asked for it yet */
	bool is_leased;	    /* was parked: we tell the client when it is ready */
	bool has_full_proc; /* leased: what its first process found */
	uint64_t killed_ms; /* 0: not yet */
	int control_fd;
	struct newborn born;
	struct slot *slot;
};

static struct cell cells[MAX_CELLS];
static size_t n_cells, first_free, n_dying;
static struct cell *parked[PARK_MAX]; /* oldest first */
static size_t n_parked;
static int gone_mounts
	[GONE_MOUNTS_MAX]; /* namespaces of the dead, to be torn down when nobody waits */
static size_t n_gone_mounts;
static const struct cell
	*favoured; /* the last that was leased, until it ends or has lived for a moment */
static uint64_t favoured_ms;
static uint64_t busy_ms;  /* when something was last asked for, or a cell ended */
static bool is_hurried;	  /* what was asked for last came right after that */
static bool has_no_spare; /* could not be made: not again before something has happened */
static int epoll_fd = -1;

static void watch(struct cell *c, int fd, enum source from)
{
	struct epoll_event ev = {
		.events = EPOLLIN, .data.u64 = (uint64_t)(c - cells) * N_SOURCES + from};

	(void)epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Closing is not enough: a first process being made has a copy of all our fds for a while, and as long as
 * one is open somewhere its events would come again and again. */
static void drop_watched(int *fd)
{
	if (*fd >= 0)
		(void)epoll_ctl(epoll_fd, EPOLL_CTL_DEL, *fd, NULL);
	drop(fd);
}

static struct cell *new_cell(void)
{
	for (size_t i = first_free; i < MAX_CELLS; i++) {
		if (cells[i].is_used)
			continue;
		first_free = i + 1;
		n_cells++;
		cells[i] = (struct cell){.is_used = true, .control_fd = -1, .born = NEWBORN_INIT};
		return &cells[i];
	}
	return NULL;
}

/* Tearing down a tree of mounts takes the kernel longer than the rest of a cell's end. */
static void drop_mounts_later(int *fd)
{
	if (*fd >= 0 && n_gone_mounts == GONE_MOUNTS_MAX)
		drop(fd);
	if (*fd >= 0)
		gone_mounts[n_gone_mounts++] = *fd;
	*fd = -1;
}

static void forget_parked(const struct cell *c)
{
	size_t n = 0;

	for (size_t i = 0; i < n_parked; i++)
		if (parked[i] != c)
			parked[n++] = parked[i];
	n_parked = n;
}

static void free_cell(struct cell *c)
{
	forget_parked(c);
	if (favoured == c)
		favoured = NULL;
	drop(&c->born.lease_fd);
	drop_mounts_later(&c->born.mnt_fd);
	drop_watched(&c->control_fd);
	drop_watched(&c->born.pidfd);
	drop_watched(&c->born.status_fd);
	drop(&c->born.oom_fd);
	c->is_used = false;
	n_cells--;
	n_dying -= c->killed_ms != 0;
	if ((size_t)(c - cells) < first_free)
		first_free = (size_t)(c - cells);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void kill_cell(struct cell *c)
{
	/* pid 1 of a pid namespace takes all others with it, wherever they hid: setsid, double fork */
	if (c->born.pidfd >= 0)
		(void)sys_pidfd_signal(c->born.pidfd, SIGKILL);
	if (c->slot)
		cgroup_unthrottle(&host.cgroups, &c->slot->cgroup);
	if (!c->killed_ms)
		n_dying++;
	c->killed_ms = now_ms();
}

/* The second hammer, for what did not fall to the first in time. */
static void kill_again(void)
{
	uint64_t now = now_ms();

	for (size_t i = 0; i < MAX_CELLS; i++)
		if (cells[i].is_used && cells[i].killed_ms &&
			now - cells[i].killed_ms >= PATIENCE_MS) {
			cgroup_kill(&host.cgroups, &cells[i].slot->cgroup);
			kill_cell(&cells[i]);
		}
}

/* What its first process said that was not read before it died. */
static void hear_last_words(struct cell *c)
{
	struct failure f = {0};
	ssize_t n = 0;

	while (c->born.status_fd >= 0 && !c->is_refused &&
		(n = recv(c->born.status_fd, &f, sizeof f, MSG_DONTWAIT)) > 0) {
		if (n == 1)
			c->is_ready = true;
		else
			c->is_refused = n == (ssize_t)sizeof f;
	}
	if (c->is_ready || (c->is_refused && n <= 0))
		return;
	if (!c->is_refused)
		(void)fail_with(&f, LAUNCHER_STEP_LOST, ECHILD, "it ended without a word", NULL);
	f.text[sizeof f.text - 1] = '\0';
	c->is_refused = true;
	if (!c->is_ending)
		reply_failure(c->control_fd, &f);
}

/* Its first process is gone, and so is every other one. */
static void bury(struct cell *c)
{
	siginfo_t info = {0};
	struct launcher_reply r = {
		.slot = c->slot->number, .oom_kills = cgroup_oom_kills(&c->slot->cgroup)};

	/* never wait here: should an event ever come for another than was meant, all cells would wait with us */
	if (waitid((idtype_t)P_PIDFD, (id_t)c->born.pidfd, &info, WEXITED | WNOHANG | __WALL) ==
			0 &&
		!info.si_pid)
		return;
	r.status = info.si_code == CLD_EXITED ? info.si_status << 8 : info.si_status;
	if (c->is_parked && !c->killed_ms)
		park_failed();
	if (!c->is_ready)
		hear_last_words(c);
	r.answer = c->is_ending ? LAUNCHER_DONE : LAUNCHER_EXITED;
	if (c->born.is_open && c->is_kept)
		net_close(c->slot->number);
	else if (c->born.is_open)
		net_closed(c->slot->number);
	if (c->is_ending || c->is_ready)
		reply_answer(c->control_fd, &r);
	if (c->is_kept)
		slot_free(c->slot);
	else
		slot_recycle(c->slot);
	c->slot = NULL;
	busy_ms = now_ms();
	free_cell(c);
}

static uint32_t what_we_can(void)
{
	uint32_t can = host.cgroups.can;

	can |= host.has_new_mounts ? LAUNCHER_CAN_NEW_MOUNTS : 0;
	can |= host.may_exempt_oom ? LAUNCHER_CAN_OOM_EXEMPT : 0;
	can |= host.is_rootful ? LAUNCHER_IS_ROOTFUL : 0;
	can |= host.n_uids ? LAUNCHER_CAN_UNIQUE_IDS : 0;
	can |= host.has_idmap ? LAUNCHER_CAN_IDMAP : 0;
	can |= host.has_clone3 ? LAUNCHER_CAN_CLONE3 : 0;
	can |= host.has_openat2 ? LAUNCHER_CAN_OPENAT2 : 0;
	can |= host.has_close_range ? LAUNCHER_CAN_CLOSE_RANGE : 0;
	if (!host.has_clone_into)
		can &= ~(uint32_t)LAUNCHER_CAN_CLONE_INTO;
	return can;
}

/* For people to read: the client puts it into words. */
static void describe_host(struct launcher_reply *r)
{
	for (int i = 0; i < CG_COUNT; i++) {
		if (host.cgroups.v2_controllers & 1u << i)
			r->v2_controllers |= cgroup_bits[i];
		else if (host.cgroups.v1[i].fd >= 0)
			r->v1_controllers |= cgroup_bits[i];
		if (host.cgroups.v2_withheld & 1u << i)
			r->withheld |= cgroup_bits[i];
	}
	r->first_uid = host.first_uid;
	r->n_uids = host.is_rootful ? host.n_uids : 0;
	r->filter_len = seccomp_profile("default")->len;
}

/* A cell that nobody has asked for yet. */
static void park(void)
{
	struct failure f = {0};
	int lease_fd = -1, their_fd = -1;
	struct cell *c = new_cell();
	const struct launcher_request *rq = c ? park_request(&lease_fd, &their_fd) : NULL;

	if (rq)
		c->slot = slot_take(&f);
	int r = c && c->slot ? birth_begin(rq, c->slot, &c->born, &f) : -1;
	if (c)
		c->born.lease_fd = lease_fd;
	drop(&their_fd);
	if (r == 0) {
		c->is_parked = true;
		parked[n_parked++] = c;
		watch(c, c->born.status_fd, FROM_STATUS);
		watch(c, c->born.pidfd, FROM_PID);
		return;
	}
	park_failed();
	if (c && c->born.pidfd >= 0) {
		watch(c, c->born.pidfd, FROM_PID);
		kill_cell(c);
	} else if (c) {
		if (c->slot)
			slot_recycle(c->slot);
		free_cell(c);
	}
}

static void dismiss_parked(size_t left)
{
	while (n_parked > left) {
		struct cell *c = parked[n_parked - 1];

		forget_parked(c);
		kill_cell(c);
	}
}

static void say_ready(const struct cell *c)
{
	struct launcher_reply r = {.magic = LAUNCHER_MAGIC,
		.answer = LAUNCHER_READY,
		.pid = c->born.pid,
		.slot = c->slot->number,
		.can = c->born.enforced | (c->has_full_proc ? LAUNCHER_CAN_FULL_PROC : 0)};

	(void)reply_send(c->control_fd, &r, c->born.pidfd);
}

/* false: there is none that can be it. */
static bool lease(const struct launcher_request *rq, int control_fd)
{
	struct failure f = {0};
	struct cell *c = n_parked ? parked[0] : NULL;

	/* one that is still being made will find its lease waiting; but a workspace needs a root to be in */
	if (!c || (rq->workspace_fd >= 0 && !c->is_ready))
		return false;
	forget_parked(c);
	if (birth_lease(rq, c->slot, &c->born, &f) < 0) {
		kill_cell(c); /* a new one will do, or say why not */
		return false;
	}
	park_served();
	c->is_parked = false;
	c->is_leased = true;
	favoured = c;
	favoured_ms = now_ms();
	is_hurried = favoured_ms - busy_ms < HURRY_MS;
	busy_ms = favoured_ms;
	c->is_kept = rq->head.flags & LAUNCHER_KEEP;
	c->control_fd = control_fd;
	drop(&c->born.lease_fd);
	/* files of the client's must be free when its cell is gone; and of fds there is an end */
	if (rq->workspace_fd >= 0 || c->is_kept || n_cells > MANY_CELLS)
		drop(&c->born.mnt_fd);
	watch(c, c->control_fd, FROM_CONTROL);
	if (c->is_ready)
		say_ready(c);
	return true;
}

/* Cells of this kind from now on; they are made when nobody waits. */
static void fill(const struct launcher_request *rq, int control_fd)
{
	struct launcher_reply r = {.answer = LAUNCHER_DONE};
	struct failure f = {0};

	if (!park_serves(rq))
		dismiss_parked(0);
	if (park_pin(rq, rq->head.slot)) {
		reply_answer(control_fd, &r);
	} else {
		(void)fail_with(&f, LAUNCHER_STEP_REQUEST, EOPNOTSUPP,
			"cells of this kind cannot be made ahead", NULL);
		reply_failure(control_fd, &f);
	}
	close(control_fd);
}

static void create(const struct launcher_request *rq, int control_fd)
{
	struct failure f = {0};

	if (rq->head.flags & LAUNCHER_FILL) {
		fill(rq, control_fd);
		return;
	}
	if (park_learn(rq))
		dismiss_parked(0);
	if (park_serves(rq)) {
		if (lease(rq, control_fd))
			return;
		park_missed();
	}
	struct cell *c = new_cell();
	if (!c) {
		(void)fail_with(&f, LAUNCHER_STEP_SLOT, EAGAIN, "too many cells at once", NULL);
		reply_failure(control_fd, &f);
		close(control_fd);
		return;
	}
	c->control_fd = control_fd;
	c->is_kept = rq->head.flags & LAUNCHER_KEEP;
	c->slot = slot_take(&f);
	if (c->slot && birth_begin(rq, c->slot, &c->born, &f) == 0) {
		watch(c, c->control_fd, FROM_CONTROL);
		watch(c, c->born.status_fd, FROM_STATUS);
		watch(c, c->born.pidfd, FROM_PID);
		if (c->born.is_open && !host.is_rootful) {
			struct launcher_reply r = {.magic = LAUNCHER_MAGIC,
				.answer = LAUNCHER_NETWORK,
				.pid = c->born.pid};
			(void)reply_send(c->control_fd, &r, c->born.pidfd);
		}
		return;
	}
	c->is_refused = true;
	reply_failure(control_fd, &f);
	if (c->born.pidfd >= 0) {
		watch(c, c->born.pidfd, FROM_PID);
		kill_cell(c);
		return;
	}
	if (c->slot)
		slot_recycle(c->slot);
	free_cell(c);
}

static void remove_slot(const struct launcher_request *rq, int control_fd)
{
	struct launcher_reply r = {.answer = LAUNCHER_DONE, .slot = rq->head.slot};
	struct failure f = {0};

	for (size_t i = 0; i < MAX_CELLS; i++) /* one of ours: the answer comes when it is gone */
		if (cells[i].is_used && cells[i].slot && cells[i].slot->number == rq->head.slot &&
			slot_is_owned_by(rq->head.slot, rq->texts[LAUNCHER_TEXT_TITLE])) {
			drop_watched(&cells[i].control_fd);
			cells[i].control_fd = control_fd;
			cells[i].is_ending = true;
			kill_cell(&cells[i]);
			return;
		}
	struct slot *s = slot_adopt(rq->head.slot, rq->texts[LAUNCHER_TEXT_TITLE], &f);
	if (s)
		net_close(s->number);
	else if (!f.step)
		net_settle(); /* somebody swept it, and knew nothing of its network */
	slot_free(s);
	if (f.step)
		reply_failure(control_fd, &f);
	else
		reply_answer(control_fd, &r);
	close(control_fd);
}

static void handle(void *buf, size_t len, int *fds, size_t n_fds, const struct failure *broken)
{
	struct launcher_reply r = {.answer = LAUNCHER_DONE};
	static struct launcher_request rq;
	const char *why = "";
	struct failure f = {0};

	if (launcher_parse(buf, len, fds, n_fds, &rq, &why) < 0) {
		(void)fail_with(&f, LAUNCHER_STEP_REQUEST, EPROTO, why, NULL);
		if (n_fds) /* the first is where a client of ours would wait for it */
			reply_failure(fds[0], &f);
	} else {
		int control = fcntl(rq.control_fd, F_DUPFD_CLOEXEC, 0);

		if (control < 0) {
			/* nobody to tell: its end tells */
		} else if (broken->step) {
			reply_failure(control, broken);
			close(control);
		} else if (rq.head.op == LAUNCHER_CREATE) {
			create(&rq, control);
		} else if (rq.head.op == LAUNCHER_REMOVE) {
			remove_slot(&rq, control);
		} else if (launcher_is_about_motion(rq.head.op)) {
			freeze_slot(&rq, control);
			close(control);
		} else {
			if (rq.head.op == LAUNCHER_HELLO) {
				if (host.slots_fd < 0)
					host.slots_fd = fcntl(rq.slots_fd, F_DUPFD_CLOEXEC, 0);
				net_sweep();
				r.answer = LAUNCHER_CAN;
				r.can = what_we_can();
				r.landlock_abi = (uint32_t)host.landlock_abi;
				describe_host(&r);
			} else {
				slot_sweep();
				net_sweep();
			}
			reply_answer(control, &r);
			close(control);
		}
	}
	for (size_t i = 0; i < n_fds; i++)
		close(fds[i]);
}

/* false: the client is gone. */
static bool take_request(int socket_fd, const struct failure *broken)
{
	static char buf[LAUNCHER_MAX_REQUEST + 1];
	static union {
		struct cmsghdr head;
		char space[CMSG_SPACE(LAUNCHER_MAX_FDS * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = buf, .iov_len = sizeof buf};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control};
	int fds[LAUNCHER_MAX_FDS];
	size_t n_fds = 0;
	ssize_t n = recvmsg(socket_fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

	if (n < 0)
		return errno == EINTR || errno == EAGAIN;
	if (n == 0)
		return false;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t more = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		if (more > LAUNCHER_MAX_FDS - n_fds)
			more = LAUNCHER_MAX_FDS - n_fds;
		memcpy(fds + n_fds, CMSG_DATA(c), more * sizeof(int));
		n_fds += more;
	}
	if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		n = 0; /* the parser refuses it */
	handle(buf, (size_t)n, fds, n_fds, broken);
	return true;
}

static void on_status(struct cell *c)
{
	struct failure f;
	ssize_t n = recv(c->born.status_fd, &f, sizeof f, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1) { /* only exec is left; it has told the client, if there was one */
		c->is_ready = true;
		c->has_full_proc = *(const char *)&f == BIRTH_READY_FULL_PROC;
		if (c->is_leased)
			say_ready(c);
		return;
	}
	if (n == (ssize_t)sizeof f && !c->is_refused) {
		f.text[sizeof f.text - 1] = '\0';
		reply_failure(c->control_fd, &f);
		c->is_refused = true;
		if (c->is_parked) { /* nobody may lease it, and the next would hardly do better */
			park_failed();
			forget_parked(c);
		}
		kill_cell(c);
	}
	drop_watched(&c->born.status_fd); /* its end: the guest runs, or its pidfd will tell */
}

static void on_control(struct cell *c)
{
	char order;
	ssize_t n = recv(c->control_fd, &order, 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n == 1 && order == LAUNCHER_GO && !c->is_ready) {
		(void)birth_go(&c->born, c->slot->number);
		return;
	}
	if (n == 1 && order == LAUNCHER_END) {
		c->is_ending = true;
	} else {
		drop_watched(&c->control_fd); /* gone, or talking nonsense */
		if (c->is_kept && c->is_ready)
			return;
	}
	kill_cell(c);
}

__attribute__((noreturn)) static void leave(void)
{
	for (size_t i = 0; i < MAX_CELLS; i++)
		if (cells[i].is_used && !(cells[i].is_kept && cells[i].is_ready))
			kill_cell(&cells[i]);
	for (size_t i = 0; i < MAX_CELLS; i++) {
		struct cell *c = &cells[i];
		siginfo_t info;

		if (!c->is_used || (c->is_kept && c->is_ready))
			continue;
		while (c->born.pidfd >= 0 &&
			waitid((idtype_t)P_PIDFD, (id_t)c->born.pidfd, &info, WEXITED | __WALL) <
				0 &&
			errno == EINTR)
			;
		if (c->born.is_open)
			net_closed(c->slot->number);
	}
	net_leave();
	for (size_t i = 0; i < MAX_CELLS; i++)
		if (cells[i].is_used && !(cells[i].is_kept && cells[i].is_ready))
			slot_free(cells[i].slot);
	slot_free_all();
	slot_sweep_some(); /* launchers that were killed cannot */
	cgroup_done(&host.cgroups);
	_exit(0);
}

enum chore {
	NO_CHORE,
	MAKE_SPARE, /* the next cell's namespaces */
	MAKE_PARKED,
	DROP_MOUNTS,
	TRIM_SLOTS
};

/* What is to be done while nobody waits. Whoever asks for one cell right after the other needs us again when
 * that has ended: until then only the next one is made, beside it, and nothing that takes long. Who asks now
 * and then has the processors to himself for a moment. */
static enum chore next_chore(void)
{
	bool is_spare = spare_is_ready();
	bool is_making = n_parked && !parked[n_parked - 1]->is_ready;
	bool is_favouring = favoured && now_ms() - favoured_ms < FAVOUR_MS;

	if (is_spare && n_parked < park_wanted() && (is_hurried || !is_favouring))
		return MAKE_PARKED;
	if (is_making || is_favouring)
		return NO_CHORE;
	if (!is_spare && !has_no_spare)
		return MAKE_SPARE;
	if (n_gone_mounts)
		return DROP_MOUNTS;
	return slot_trim(false) ? TRIM_SLOTS : NO_CHORE;
}

static void do_chore(enum chore what)
{
	/* a client that was answered just now may be waiting for this very processor */
	(void)sched_yield();
	if (what == MAKE_SPARE)
		has_no_spare = spare_ready(NULL) < 0;
	else if (what == MAKE_PARKED)
		park();
	else if (what == DROP_MOUNTS)
		drop(&gone_mounts[--n_gone_mounts]);
	else
		(void)slot_trim(true);
}

/* How long to sleep when there is no chore; -1: until something happens. */
static int patience_ms(void)
{
	if (favoured)
		return FAVOUR_MS;
	if (n_dying || net_is_to_sweep())
		return PATIENCE_MS;
	return n_parked > park_least() ? CALM_MS : -1;
}

static void after_patience(int waited_ms)
{
	favoured = NULL;
	kill_again();
	if (net_is_to_sweep())
		net_sweep();
	if (waited_ms == CALM_MS) {
		park_calm();
		dismiss_parked(park_least());
	}
}

void serve(int socket_fd, const struct failure *broken)
{
	struct epoll_event ev = {.events = EPOLLIN, .data.u64 = FROM_SOCKET}, got[64];

	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, socket_fd, &ev) < 0)
		_exit(1);
	for (;;) {
		enum chore chore = broken->step ? NO_CHORE : next_chore();
		int wait_ms = chore == NO_CHORE ? patience_ms() : 0;
		int n = epoll_wait(epoll_fd, got, 64, wait_ms);

		if (n == 0 && chore != NO_CHORE)
			do_chore(chore);
		else if (n == 0)
			after_patience(wait_ms);
		has_no_spare &= n <= 0;
		bool is_over = false;
		for (int i = 0; i < n; i++) {
			if (got[i].data.u64 == FROM_SOCKET) {
				is_over |= !take_request(socket_fd, broken);
				continue;
			}
			struct cell *c = &cells[got[i].data.u64 / N_SOURCES];
			enum source from = (enum source)(got[i].data.u64 % N_SOURCES);

			/* an event before this one may have ended the cell */
			if (!c->is_used)
				continue;
			if (from == FROM_STATUS && c->born.status_fd >= 0)
				on_status(c);
			else if (from == FROM_PID)
				bury(c);
			else if (from == FROM_CONTROL && c->control_fd >= 0)
				on_control(c);
		}
		if (is_over)
			leave();
	}
}
