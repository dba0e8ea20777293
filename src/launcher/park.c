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
#include "wire/lease.h"

#define ENOUGH_TIMES 2
#define FAILURES_MAX 3

/* All of a request that cannot come with the lease. */
struct kind {
	bool has_memory, has_cpu, has_pids, has_io; /* which groups it enters, not how much */
	bool has_workspace;
	uint32_t flags;
	uint64_t disk_bytes, inodes;
	dev_t guest_dev;
	ino_t guest_ino;
	char hostname[65], profile[33];
};

static struct kind current, candidate;
static bool has_current;
static unsigned n_candidate, n_failures;
static size_t n_wanted = 1;
static struct launcher_request like; /* the last of its kind, without fds */
static int guest_fd = -1;
static char title[LEASE_TITLE_SIZE];

/* false: it has something that must be there from the start. */
static bool kind_of(const struct launcher_request *rq, struct kind *ret)
{
	const struct launcher_head *h = &rq->head;
	const uint32_t harmless = LAUNCHER_BEST_EFFORT | LAUNCHER_WORKSPACE_RO;
	struct stat st;

	memset(ret, 0, sizeof *ret); /* compared as bytes */
	if ((h->flags & ~harmless) || rq->n_layers || rq->n_mounts || rq->filter_fd >= 0 ||
		rq->scratch_fd >= 0 || rq->hold_fd >= 0 || fstat(rq->guest_fd, &st) < 0)
		return false;
	ret->has_memory = h->memory_bytes;
	ret->has_cpu = h->cpu_millis;
	ret->has_pids = h->pids;
	ret->has_io = h->io_weight;
	ret->has_workspace = rq->workspace_fd >= 0;
	ret->flags = h->flags & LAUNCHER_BEST_EFFORT;
	ret->disk_bytes = h->disk_bytes;
	ret->inodes = h->inodes;
	ret->guest_dev = st.st_dev;
	ret->guest_ino = st.st_ino;
	memcpy(ret->hostname, rq->texts[LAUNCHER_TEXT_HOSTNAME],
		strnlen(rq->texts[LAUNCHER_TEXT_HOSTNAME], sizeof ret->hostname - 1));
	memcpy(ret->profile, rq->texts[LAUNCHER_TEXT_PROFILE],
		strnlen(rq->texts[LAUNCHER_TEXT_PROFILE], sizeof ret->profile - 1));
	return true;
}

bool park_serves(const struct launcher_request *rq)
{
	struct kind k;

	return has_current && kind_of(rq, &k) && !memcmp(&k, &current, sizeof k);
}

bool park_learn(const struct launcher_request *rq)
{
	struct kind k;

	if (!kind_of(rq, &k) || n_failures >= FAILURES_MAX)
		return false;
	if (has_current && !memcmp(&k, &current, sizeof k)) {
		like.head = rq->head; /* its limits are the best guess for the next */
		n_candidate = 0;
		return false;
	}
	if (!n_candidate || memcmp(&k, &candidate, sizeof k) != 0) {
		candidate = k;
		n_candidate = 0;
	}
	if (++n_candidate < ENOUGH_TIMES)
		return false;
	if (guest_fd >= 0)
		close(guest_fd);
	guest_fd = fcntl(rq->guest_fd, F_DUPFD_CLOEXEC, 0);
	current = candidate;
	has_current = guest_fd >= 0;
	n_candidate = 0;
	like.head = rq->head;
	return true;
}

void park_missed(void)
{
	if (n_wanted < PARK_MAX)
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

size_t park_wanted(void)
{
	return has_current ? n_wanted : 0;
}

const struct launcher_request *park_request(int *ret_lease_fd, int *ret_their_fd)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return NULL;
	/* as long as any title: the guest writes its own over it */
	memset(title, '-', sizeof title - 1);
	memcpy(title, "cell-guest:parked", strlen("cell-guest:parked"));
	like.head.flags =
		current.flags | BIRTH_PARKED | (current.has_workspace ? BIRTH_WORKSPACE_LATER : 0);
	like.texts[LAUNCHER_TEXT_TITLE] = title;
	like.texts[LAUNCHER_TEXT_HOSTNAME] = current.hostname;
	like.texts[LAUNCHER_TEXT_PROFILE] = current.profile;
	like.control_fd = like.hold_fd = like.workspace_fd = like.filter_fd = like.scratch_fd = -1;
	like.slots_fd = -1;
	like.guest_fd = guest_fd;
	like.stream_fd = *ret_their_fd = pair[1];
	*ret_lease_fd = pair[0];
	return &like;
}
