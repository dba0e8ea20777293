/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net.h: a cell's way to the network. Every cell has a network namespace of its own that belongs to
 * the launcher; an open one gets a filter in it (net_filter.c), and then a way out: rootful a pair of
 * interfaces and address translation on the host (net_link.c, net_host.c), without root a program
 * that the client starts (net_keeper.c holds it).
 */
#pragma once
#include "launcher/fail.h"
#include "launcher/netlink.h"
#include "launcher/request.h"

#define NET_PREFIX     "cell-" /* of the host's interfaces: what the host's rules go by */
#define NET_PREFIX_LEN (sizeof NET_PREFIX - 1)
#define NET_INNER      "eth0"

extern struct nl_batch net_batch; /* too large for a stack; one at a time is made */

/* Keep what leads back to the host's network; before the first namespace is made. */
void net_init(void);
/* Give the network namespace of a cell's first process its filter and, rootful, its way out. Nothing
 * of the cell's may have run in it. */
int net_open(const struct launcher_request *rq, uint32_t slot, int pid, struct failure *f);
/* Could it be done? Everything is tried in the namespace of that process, nothing on the host. */
int net_try(const struct launcher_request *rq, uint32_t slot, int pid, struct failure *f);
/* The cell is gone. The kernel takes its interface away when it gets round to it; when that was the
 * last one, what the host had for them all is to go too: net_sweep() a little later. */
void net_closed(uint32_t slot);
bool net_is_to_sweep(void);
/* Now, and wait for it: the slot is about to be given back to the machine. */
void net_close(uint32_t slot);
/* For all of those: the launcher ends. While it still holds the slots of cells that are gone. */
void net_leave(void);
/* Remove what all cells shared, if there is no interface any more: after the last, after a crash.
 * Costs one look at a file where there is nothing to do. */
void net_sweep(void);
/* The same, waiting a moment for an interface that is on its way out. */
void net_settle(void);

/* ---- net_filter.c: in the cell's namespace ---- */
int net_filter(const struct launcher_request *rq, struct failure *f);

/* ---- net_link.c: a pair of interfaces ---- */
struct net_address {
	uint8_t v4[4], v6[16];
	bool has_v6;
	uint8_t outer_mac[6], inner_mac[6];
	char name[16]; /* of the host's end: NET_PREFIX, slot, a number */
};
/* In the host's namespace: choose, then make both ends, the inner one in that namespace. */
int net_link_choose(uint32_t slot, struct net_address *ret, struct failure *f);
int net_link_outer(struct net_address *a, uint32_t slot, int inner_ns_fd, struct failure *f);
/* In the cell's. */
int net_link_inner(const struct net_address *a, struct failure *f);
/* In the host's: remove those of a slot; they may be gone already. */
void net_link_remove(uint32_t slot);
/* Those of cells that nobody holds any more: the kernel takes its time, and who asks may not stay to see it. */
void net_link_remove_dead(void);

/* ---- net_host.c: what all cells share on the host, in its namespace ---- */
/* Holding the lock until net_host_unlock(): nobody of ours changes it meanwhile. */
int net_host_lock(struct failure *f);
void net_host_unlock(int lock);
int net_host_prepare(uint64_t ns_id, struct failure *f);
/* Would it work? In the host's namespace changes nothing; in another one it is really done. */
int net_host_try(bool is_host, struct failure *f);
/* Packets of this interface may be passed on. */
int net_host_forward(const char *name, uint64_t ns_id, struct failure *f);
bool net_host_is_marked(uint64_t ns_id);
void net_host_release(uint64_t ns_id);

/* ---- net_gone.c: marks of namespaces that ended with their rules ---- */
#define NET_MARK "network." /* and the number of a network namespace */
void net_forget_gone(uint64_t own_id);

/* ---- net_keeper.c: another program made of the launcher's image ---- */
#define NET_KEEPER "cell-net"
__attribute__((noreturn)) void net_keeper(int argc, char **argv);
