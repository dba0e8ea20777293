/* SPDX-License-Identifier: Apache-2.0 */
/*
 * park.c: what the next cell will be like. A client that has asked twice for the same kind of cell will do so
 * again; while nobody waits, that cell is made ahead, all of it: namespaces, groups, root, filter, guest.
 * What a request brings of its own comes with the lease (birth.c): the stream, a workspace, limits, a name.
 *
 * A parked cell is used once, by one client, like any other: nothing goes back from a cell. It holds no fd
 * of a client or of another cell, is sealed before it waits, and dies with the launcher. What a request may
 * bring that cannot come later (an image, mounts, a network, a filter of its own) is made when asked for.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "launcher/mount.h"
#include "wire/lease.h"

#define ENOUGH_TIMES 2
#define FAILURES_MAX 3
#define TEXTS_MAX    1024

/* All of a request that cannot come with the lease: what is not known here to be able to must be the same
 * to the byte. Compared as bytes. */
struct kind {
	struct launcher_head head;
	dev_t guest_dev;
	ino_t guest_ino;
	char texts[TEXTS_MAX]; /* all but the title, with their NULs */
};

static struct kind current, candidate;
static bool has_current;
static unsigned n_candidate, n_failures;
static size_t n_wanted = 1, n_pinned;
/* the last of its kind, without fds */
static struct launcher_request like = LAUNCHER_REQUEST_INIT(LAUNCHER_CREATE);
static int guest_fd = -1;
static char title[LEASE_TITLE_SIZE];

/* Leave of a head what must be the same. Of a limit that counts for a group, which the cell has to be in from
 * its start, that is only whether there is one. */
static void forget_values(struct launcher_head *h)
{
	h->control_fd = h->stream_fd = h->guest_fd = 0; /* always there */
	h->workspace_fd = h->workspace_fd != LAUNCHER_NO_FD;
	h->size = h->slot = h->owner_uid = h->owner_gid = 0;
	h->n_fds = 0;
	h->flags &= ~(uint32_t)(LAUNCHER_WORKSPACE_RO | LAUNCHER_KEEP | LAUNCHER_FILL);
	h->memory_bytes = h->memory_bytes != 0;
	h->cpu_millis = h->cpu_millis != 0;
	h->pids = h->pids != 0;
	h->io_weight = h->io_weight != 0;
	h->files = h->cpu_time_s = 0;
	h->file_size_bytes = h->process_memory_bytes = 0;
}

/* false: it has something that must be there from the start. */
static bool kind_of(const struct launcher_request *rq, struct kind *ret)
{
	const uint32_t known =
		LAUNCHER_BEST_EFFORT | LAUNCHER_WORKSPACE_RO | LAUNCHER_KEEP | LAUNCHER_FILL;
	unsigned n_own = rq->head.flags & LAUNCHER_FILL ? 2 : 3;
	struct stat st;
	size_t n = 0;

	/* a workspace is mounted later by a call that may be missing; and without idmaps it is the workspace
	 * that says who the cell is */
	if (mount_is_classic() || (rq->workspace_fd >= 0 && host.n_uids && !host.has_idmap))
		return false;
	/* what is set aside for one cell is set aside when that is there */
	if (rq->head.reserve_bytes || rq->head.cpu_weight || rq->head.n_cpus)
		return false;
	/* no other fds than the four that a lease brings */
	if ((rq->head.flags & ~known) || rq->n_layers || rq->n_mounts ||
		rq->head.n_fds != n_own + (rq->workspace_fd >= 0) || fstat(rq->guest_fd, &st) < 0)
		return false;
	memset(ret, 0, sizeof *ret);
	ret->head = rq->head;
	forget_values(&ret->head);
	ret->guest_dev = st.st_dev;
	ret->guest_ino = st.st_ino;
	for (size_t i = 0; i < LAUNCHER_TEXT_COUNT; i++) {
		size_t len = i == LAUNCHER_TEXT_TITLE ? 0 : strlen(rq->texts[i]);

		if (n + len + 1 > sizeof ret->texts)
			return false;
		memcpy(ret->texts + n, rq->texts[i], len);
		n += len + 1;
	}
	return true;
}

/* Both were set to zero before they were filled: padding too is the same. */
static bool is_same(const struct kind *a, const struct kind *b)
{
	const unsigned char *x = (const void *)a, *y = (const void *)b;

	return !memcmp(x, y, sizeof *a);
}

bool park_serves(const struct launcher_request *rq)
{
	struct kind k;

	return has_current && kind_of(rq, &k) && is_same(&k, &current);
}

static void make_current(const struct launcher_request *rq, const struct kind *k)
{
	if (guest_fd >= 0)
		close(guest_fd);
	guest_fd = fcntl(rq->guest_fd, F_DUPFD_CLOEXEC, 0);
	current = *k;
	has_current = guest_fd >= 0;
	n_candidate = 0;
	like.head = rq->head;
}

bool park_learn(const struct launcher_request *rq)
{
	struct kind k;

	if (!kind_of(rq, &k) || n_failures >= FAILURES_MAX)
		return false;
	if (has_current && is_same(&k, &current)) {
		like.head = rq->head; /* its limits are the best guess for the next */
		n_candidate = 0;
		return false;
	}
	if (n_pinned)
		return false;
	if (!n_candidate || !is_same(&k, &candidate)) {
		candidate = k;
		n_candidate = 0;
	}
	if (++n_candidate < ENOUGH_TIMES)
		return false;
	make_current(rq, &candidate);
	return true;
}

bool park_pin(const struct launcher_request *rq, size_t n)
{
	struct kind k;

	if (!kind_of(rq, &k))
		return false;
	if (!has_current || !is_same(&k, &current))
		make_current(rq, &k);
	n_pinned = n < PARK_MAX ? n : PARK_MAX;
	n_failures = 0;
	return has_current;
}

void park_missed(void)
{
	if (n_wanted < PARK_LEARNED_MAX)
		n_wanted++;
}

void park_calm(void)
{
	n_wanted = 1;
}

void park_failed(void)
{
	if (++n_failures >= FAILURES_MAX)
		has_current = false;
}

void park_served(void)
{
	n_failures = 0;
}

size_t park_wanted(void)
{
	if (!has_current)
		return 0;
	return n_wanted > n_pinned ? n_wanted : n_pinned;
}

size_t park_least(void)
{
	return n_pinned > 1 ? n_pinned : 1;
}

const struct launcher_request *park_request(int *ret_lease_fd, int *ret_their_fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return NULL;
	/* as long as any title: the guest writes its own over it */
	memset(title, '-', sizeof title - 1);
	memcpy(title, "cell-guest:parked", strlen("cell-guest:parked"));
	like.head.flags = current.head.flags | BIRTH_PARKED;
	if (current.head.workspace_fd)
		like.head.flags |= BIRTH_WORKSPACE_LATER;
	const char *text = current.texts;
	for (size_t i = 0; i < LAUNCHER_TEXT_COUNT; i++) {
		like.texts[i] = text;
		text += strlen(text) + 1;
	}
	like.texts[LAUNCHER_TEXT_TITLE] = title;
	like.guest_fd = guest_fd;
	like.stream_fd = *ret_their_fd = pair[1];
	*ret_lease_fd = pair[0];
	return &like;
}
