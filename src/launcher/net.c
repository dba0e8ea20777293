/* SPDX-License-Identifier: Apache-2.0 */
/* net.c: see net.h. Goes from namespace to namespace; the parts do the work. */
#include "launcher/net.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/launcher.h"

struct nl_batch net_batch;
static int host_fd = -1; /* the network namespace we were started in */
static uint64_t host_id;

/* Slots whose cell is gone and whose interface may still be there; how often to look once more. */
#define MAX_CLOSED 256
#define MAX_SWEEPS 30
static uint32_t closed[MAX_CLOSED];
static size_t n_closed;
static unsigned n_sweeps;

void net_init(void)
{
	struct stat st;

	host_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (host_fd >= 0 && fstat(host_fd, &st) == 0)
		host_id = st.st_ino;
}

static void forget_closed(uint32_t slot)
{
	for (size_t i = 0; i < n_closed; i++)
		if (closed[i] == slot) {
			closed[i] = closed[--n_closed];
			return;
		}
}

static int go_to(int ns_fd, struct failure *f)
{
	return setns(ns_fd, CLONE_NEWNET) < 0
		       ? fail(f, LAUNCHER_STEP_NET, "enter a network namespace", NULL)
		       : 0;
}

/* What follows would be done to another network than was meant: nothing may follow. */
static void go_back(int ns_fd)
{
	if (setns(ns_fd, CLONE_NEWNET) < 0)
		_exit(1);
}

static int make_link(uint32_t slot, int cell_fd, struct net_address *a, struct failure *f)
{
	int lock = net_host_lock(f);
	int r = lock < 0 ? -1 : net_host_prepare(host_id, f);

	if (r == 0)
		r = net_link_choose(slot, a, f);
	if (r == 0)
		r = net_link_outer(a, slot, cell_fd, f);
	if (r == 0)
		r = net_host_forward(a->name, host_id, f);
	if (r < 0 && lock >= 0)
		net_host_release(host_id);
	net_host_unlock(lock);
	return r;
}

/* The namespaces of one who is to have a network, and ours, to come back to. */
struct places {
	int own_fd, cell_fd;
};

static int find_places(int pid, struct places *ret, struct failure *f)
{
	char path[40];

	(void)snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
	ret->own_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	ret->cell_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (ret->own_fd < 0 || ret->cell_fd < 0 || (host.is_rootful && host_fd < 0))
		return fail(f, LAUNCHER_STEP_NET, "open", path);
	return 0;
}

static void places_done(const struct places *p)
{
	if (p->own_fd >= 0)
		close(p->own_fd);
	if (p->cell_fd >= 0)
		close(p->cell_fd);
}

int net_try(const struct launcher_request *rq, uint32_t slot, int pid, struct failure *f)
{
	auto_(places_done) struct places p = {-1, -1};
	struct net_address a;
	int r = find_places(pid, &p, f);

	if (r == 0)
		r = go_to(p.cell_fd, f);
	if (r < 0)
		return r;
	r = net_filter(rq, f);
	if (r == 0 && host.is_rootful)
		r = net_host_try(false, f);
	if (r == 0 && host.is_rootful)
		r = net_link_choose(slot, &a, f);
	if (r == 0 && host.is_rootful)
		r = net_link_outer(&a, slot, p.cell_fd, f);
	if (r == 0 && host.is_rootful)
		r = net_link_inner(&a, f);
	if (r == 0 && host.is_rootful)
		r = go_to(host_fd, f);
	if (r == 0 && host.is_rootful)
		r = net_host_try(true, f);
	go_back(p.own_fd);
	return r;
}

int net_open(const struct launcher_request *rq, uint32_t slot, int pid, struct failure *f)
{
	auto_(places_done) struct places p = {-1, -1};
	struct net_address a;
	int r = find_places(pid, &p, f);

	if (r == 0)
		r = go_to(p.cell_fd, f);
	if (r < 0)
		return r;
	forget_closed(slot);
	/* the filter first: at no time is there a way out without it */
	r = net_filter(rq, f);
	if (r == 0 && host.is_rootful) {
		r = go_to(host_fd, f);
		if (r == 0)
			r = make_link(slot, p.cell_fd, &a, f);
		if (r == 0)
			r = go_to(p.cell_fd, f);
		if (r == 0)
			r = net_link_inner(&a, f);
	}
	go_back(p.own_fd);
	return r;
}

/* In the host's namespace, if that can be; with the interfaces of these slots first. */
static void at_home(const uint32_t *slots, size_t n)
{
	auto_fd int own_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	if (own_fd < 0 || host_fd < 0 || setns(host_fd, CLONE_NEWNET) < 0)
		return;
	int lock = net_host_lock(NULL);
	if (lock >= 0) {
		for (size_t i = 0; i < n; i++)
			net_link_remove(slots[i]);
		if (!n)
			net_link_remove_dead();
		net_host_release(host_id);
	}
	net_host_unlock(lock);
	go_back(own_fd);
}

void net_closed(uint32_t slot)
{
	if (!host.is_rootful)
		return;
	forget_closed(slot);
	if (n_closed < MAX_CLOSED)
		closed[n_closed++] = slot;
	n_sweeps = MAX_SWEEPS;
}

bool net_is_to_sweep(void)
{
	return n_sweeps;
}

void net_sweep(void)
{
	n_sweeps -= n_sweeps != 0;
	if (host.is_rootful && net_host_is_marked(host_id))
		at_home(NULL, 0);
	if (!host.is_rootful || !net_host_is_marked(host_id)) {
		n_sweeps = 0;
		n_closed = 0;
	}
}

void net_settle(void)
{
	for (int i = 0; i < 20 && host.is_rootful && net_host_is_marked(host_id); i++) {
		at_home(NULL, 0);
		if (net_host_is_marked(host_id))
			(void)usleep(10000);
	}
}

void net_close(uint32_t slot)
{
	forget_closed(slot);
	if (host.is_rootful && net_host_is_marked(host_id))
		at_home(&slot, 1);
}

void net_leave(void)
{
	if (host.is_rootful && n_closed)
		at_home(closed, n_closed);
	if (host.is_rootful && host.slots_fd >= 0)
		net_forget_gone(host_id);
}
