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

void net_init(void)
{
	struct stat st;

	host_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	if (host_fd >= 0 && fstat(host_fd, &st) == 0)
		host_id = st.st_ino;
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
		r = net_link_outer(a, cell_fd, f);
	if (r == 0)
		r = net_host_forward(a->name, host_id, f);
	if (r < 0 && lock >= 0)
		net_host_release(host_id);
	net_host_unlock(lock);
	return r;
}

int net_open(const struct launcher_request *rq, uint32_t slot, int pid, struct failure *f)
{
	struct net_address a;
	char path[40];
	int r;

	(void)snprintf(path, sizeof path, "/proc/%d/ns/net", pid);
	auto_fd int own_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	auto_fd int cell_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (own_fd < 0 || cell_fd < 0 || (host.is_rootful && host_fd < 0))
		return fail(f, LAUNCHER_STEP_NET, "open", path);
	/* the filter first: at no time is there a way out without it */
	r = go_to(cell_fd, f);
	if (r == 0)
		r = net_filter(rq, f);
	if (r == 0 && host.is_rootful) {
		r = go_to(host_fd, f);
		if (r == 0)
			r = make_link(slot, cell_fd, &a, f);
		if (r == 0)
			r = go_to(cell_fd, f);
		if (r == 0)
			r = net_link_inner(&a, f);
	}
	go_back(own_fd);
	return r;
}

/* In the host's namespace, if that can be. */
static void at_home(uint32_t slot, bool has_slot)
{
	auto_fd int own_fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	if (own_fd < 0 || host_fd < 0 || setns(host_fd, CLONE_NEWNET) < 0)
		return;
	int lock = net_host_lock(NULL);
	if (lock >= 0) {
		if (has_slot)
			net_link_remove(slot);
		net_host_release(host_id);
	}
	net_host_unlock(lock);
	go_back(own_fd);
}

void net_close(uint32_t slot)
{
	if (host.is_rootful)
		at_home(slot, true);
}

void net_sweep(void)
{
	if (host.is_rootful && net_host_is_marked(host_id))
		at_home(0, false);
}
