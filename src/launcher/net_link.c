/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_link.c: a pair of virtual interfaces, one end with the host, the other as eth0 in a cell, by
 * rtnetlink. The host's end has no address at all: there is nothing of the host's to talk to on it.
 * The cell's has a single address, and a neighbour as its gateway that is there by decree: no ARP, no
 * neighbour discovery, nothing to be spoofed.
 *
 * Both ends go when either namespace goes: a cell that dies by any death takes its interface along.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/launcher.h"
#include "launcher/net.h"

#define ACKED (NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)
#define SET   (NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE)

#define ADDR_GEN_NONE 1 /* IN6_ADDR_GEN_MODE_NONE */
#define FLAG_NODAD    0x02

static const uint8_t gateway4[4] = {169, 254, 1, 1};
static const uint8_t gateway6[16] = {0xfe, 0x80, [15] = 1};

/* Where a cell's address may come from, the first that the host does not route elsewhere: ranges that
 * hardly any network uses. The address is seen by the host and the cell only. */
static const struct range {
	uint32_t base, size;
} ranges[] = {
	{0xc6120000, 1u << 17}, /* 198.18.0.0/15: benchmarks */
	{0x645c0000, 1u << 18}, /* 100.92.0.0/14: providers' own */
	{0x0ae50000, 1u << 16}, /* 10.229.0.0/16 */
};

#define batch net_batch

struct route {
	struct rtmsg rt;
	uint32_t oif;
};

static int look_at_route(void *user, uint16_t type, const char *payload, size_t n)
{
	struct route *ret = user;
	size_t len = 0;

	if (type != RTM_NEWROUTE || n < sizeof ret->rt)
		return 0;
	memcpy(&ret->rt, payload, sizeof ret->rt);
	const char *oif = nl_find(payload + NLMSG_ALIGN(sizeof ret->rt),
		n - NLMSG_ALIGN(sizeof ret->rt), RTA_OIF, &len);
	if (oif && len == sizeof ret->oif)
		memcpy(&ret->oif, oif, sizeof ret->oif);
	return 1;
}

/* How the host would route to an address. False: not at all. */
static bool find_route(int fd, int family, const void *addr, unsigned n, struct route *ret)
{
	struct rtmsg rt = {.rtm_family = (unsigned char)family,
		.rtm_dst_len = (unsigned char)(n * 8),
		.rtm_flags = RTM_F_FIB_MATCH};

	*ret = (struct route){0};
	nl_reset(&batch);
	nl_message(&batch, RTM_GETROUTE, 0, &rt, sizeof rt);
	nl_put(&batch, RTA_DST, addr, n);
	return nl_ask(fd, &batch, look_at_route, ret) == 1 &&
	       (ret->rt.rtm_type == RTN_UNICAST || ret->rt.rtm_type == RTN_LOCAL);
}

/* Does nobody use it: no route but the default one, or that of a cell which is about to be gone? */
static bool is_free(int fd, const uint8_t v4[4])
{
	struct route r;
	char name[IF_NAMESIZE];

	return !find_route(fd, AF_INET, v4, 4, &r) || r.rt.rtm_dst_len == 0 ||
	       (if_indextoname(r.oif, name) && !strncmp(name, NET_PREFIX, NET_PREFIX_LEN));
}

/* A host that does not pass on IPv6 already is not made to: it would no longer listen to its router's
 * announcements, and lose its own way out. */
static bool host_passes_v6(int fd)
{
	static const uint8_t somewhere[16] = {0x26, 0x06};
	struct route r;
	char text[4] = "";
	auto_fd int knob = open("/proc/sys/net/ipv6/conf/all/forwarding", O_RDONLY | O_CLOEXEC);

	return knob >= 0 && read(knob, text, 2) > 0 && text[0] == '1' &&
	       find_route(fd, AF_INET6, somewhere, 16, &r);
}

static void put_be32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

int net_link_choose(uint32_t slot, struct net_address *ret, struct failure *f)
{
	auto_fd int fd = nl_open(NETLINK_ROUTE);

	if (fd < 0)
		return fail(f, LAUNCHER_STEP_NET_LINK, "open rtnetlink", NULL);
	*ret = (struct net_address){
		.outer_mac = {0x02, 0xce, 0x11, (uint8_t)(slot >> 16), (uint8_t)(slot >> 8),
			(uint8_t)slot},
		.inner_mac = {0x06, 0xce, 0x11, (uint8_t)(slot >> 16), (uint8_t)(slot >> 8),
			(uint8_t)slot},
		.v6 = {0xfd, 'c', 'e', 'l', 'l'},
		.has_v6 = host_passes_v6(fd),
	};
	put_be32(ret->v6 + 12, slot + 1);
	for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
		if (slot >= ranges[i].size - 2)
			continue;
		put_be32(ret->v4, ranges[i].base + slot + 1);
		if (is_free(fd, ret->v4))
			return 0;
	}
	return fail_with(f, LAUNCHER_STEP_NET_LINK, EADDRNOTAVAIL,
		"the host routes every range that cells take their addresses from", NULL);
}

static void put_pair(const struct net_address *a, int inner_ns_fd)
{
	struct ifinfomsg ifi = {.ifi_family = AF_UNSPEC};

	nl_message(&batch, RTM_NEWLINK, ACKED, &ifi, sizeof ifi);
	nl_put_text(&batch, IFLA_IFNAME, a->name);
	nl_put(&batch, IFLA_ADDRESS, a->outer_mac, 6);
	size_t info = nl_nest(&batch, IFLA_LINKINFO);
	nl_put_text(&batch, IFLA_INFO_KIND, "veth");
	size_t data = nl_nest(&batch, IFLA_INFO_DATA);
	size_t peer = nl_nest_with(&batch, VETH_INFO_PEER | NLA_F_NESTED, &ifi, sizeof ifi);
	nl_put_text(&batch, IFLA_IFNAME, NET_INNER);
	nl_put(&batch, IFLA_ADDRESS, a->inner_mac, 6);
	nl_put_u32(&batch, IFLA_NET_NS_FD, (uint32_t)inner_ns_fd);
	nl_end(&batch, peer);
	nl_end(&batch, data);
	nl_end(&batch, info);
}

/* No address that the kernel would make up, and up. */
static void put_up(int index, bool is_ipv6_here)
{
	struct ifinfomsg ifi = {.ifi_family = AF_UNSPEC, .ifi_index = index};

	if (is_ipv6_here) {
		nl_message(&batch, RTM_SETLINK, NLM_F_ACK, &ifi, sizeof ifi);
		size_t spec = nl_nest(&batch, IFLA_AF_SPEC);
		size_t inet6 = nl_nest(&batch, AF_INET6);
		nl_put_u8(&batch, IFLA_INET6_ADDR_GEN_MODE, ADDR_GEN_NONE);
		nl_end(&batch, inet6);
		nl_end(&batch, spec);
	}
	ifi.ifi_flags = ifi.ifi_change = IFF_UP;
	nl_message(&batch, RTM_SETLINK, NLM_F_ACK, &ifi, sizeof ifi);
}

static void put_neighbour(int index, int family, const void *addr, size_t n, const uint8_t *mac)
{
	struct ndmsg nd = {
		.ndm_family = (uint8_t)family, .ndm_ifindex = index, .ndm_state = NUD_PERMANENT};

	nl_message(&batch, RTM_NEWNEIGH, SET, &nd, sizeof nd);
	nl_put(&batch, NDA_DST, addr, n);
	nl_put(&batch, NDA_LLADDR, mac, 6);
}

static void put_route(int index, int family, const void *to, const void *via, size_t n)
{
	struct rtmsg rt = {.rtm_family = (unsigned char)family,
		.rtm_dst_len = to ? (unsigned char)(n * 8) : 0,
		.rtm_table = RT_TABLE_MAIN,
		.rtm_protocol = RTPROT_STATIC,
		.rtm_scope = via ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK,
		.rtm_type = RTN_UNICAST,
		.rtm_flags = via ? RTNH_F_ONLINK : 0};

	nl_message(&batch, RTM_NEWROUTE, SET, &rt, sizeof rt);
	if (to)
		nl_put(&batch, RTA_DST, to, n);
	if (via)
		nl_put(&batch, RTA_GATEWAY, via, n);
	nl_put_u32(&batch, RTA_OIF, (uint32_t)index);
}

static void put_address(int index, int family, const void *addr, size_t n)
{
	struct ifaddrmsg ifa = {.ifa_family = (uint8_t)family,
		.ifa_prefixlen = (uint8_t)(n * 8),
		.ifa_flags = family == AF_INET6 ? FLAG_NODAD : 0,
		.ifa_index = (uint32_t)index};

	nl_message(&batch, RTM_NEWADDR, SET, &ifa, sizeof ifa);
	nl_put(&batch, IFA_LOCAL, addr, n);
	nl_put(&batch, IFA_ADDRESS, addr, n);
}

static bool has_ipv6(const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof path, "/proc/sys/net/ipv6/conf/%s", name);
	return access(path, F_OK) == 0;
}

static int commit(int fd, struct failure *f, const char *what)
{
	char why[80];

	if (nl_send(fd, &batch, why) == 0)
		return 0;
	return fail(f, LAUNCHER_STEP_NET_LINK, what, *why ? why : NULL);
}

static void remove_link(int fd, const char *name)
{
	struct ifinfomsg ifi = {.ifi_family = AF_UNSPEC};

	nl_reset(&batch);
	nl_message(&batch, RTM_DELLINK, NLM_F_ACK, &ifi, sizeof ifi);
	nl_put_text(&batch, IFLA_IFNAME, name);
	(void)nl_send(fd, &batch, NULL);
}

/* Slots are used again before the kernel has removed what their last owner had, which takes long
 * compared with making one: so each has a name of its own. */
static void choose_name(uint32_t slot, char ret[16])
{
	static uint32_t counter;

	if (!counter && getrandom(&counter, sizeof counter, GRND_NONBLOCK) < 0)
		counter = (uint32_t)getpid();
	(void)snprintf(ret, 16, NET_PREFIX "%x.%x", slot & 0xfffff, ++counter & 0xfff);
}

void net_link_remove(uint32_t slot)
{
	char prefix[16];
	int n = snprintf(prefix, sizeof prefix, NET_PREFIX "%x.", slot);
	struct if_nameindex *all = if_nameindex();
	auto_fd int fd = nl_open(NETLINK_ROUTE);

	for (const struct if_nameindex *i = all; fd >= 0 && i && i->if_name; i++)
		if (!strncmp(i->if_name, prefix, (size_t)n))
			remove_link(fd, i->if_name);
	if (all)
		if_freenameindex(all);
}

void net_link_remove_dead(void)
{
	struct if_nameindex *all = if_nameindex();
	auto_fd int fd = nl_open(NETLINK_ROUTE);

	for (const struct if_nameindex *i = all; fd >= 0 && i && i->if_name; i++) {
		char *end;
		unsigned long slot;

		if (strncmp(i->if_name, NET_PREFIX, NET_PREFIX_LEN) != 0)
			continue;
		slot = strtoul(i->if_name + NET_PREFIX_LEN, &end, 16);
		if (*end == '.' && slot < LAUNCHER_MAX_SLOTS && !slot_is_alive((uint32_t)slot))
			remove_link(fd, i->if_name);
	}
	if (all)
		if_freenameindex(all);
}

int net_link_outer(struct net_address *a, uint32_t slot, int inner_ns_fd, struct failure *f)
{
	auto_fd int fd = nl_open(NETLINK_ROUTE);

	if (fd < 0)
		return fail(f, LAUNCHER_STEP_NET_LINK, "open rtnetlink", NULL);
	for (int i = 0;; i++) {
		choose_name(slot, a->name);
		nl_reset(&batch);
		put_pair(a, inner_ns_fd);
		if (commit(fd, f, "make a pair of interfaces") == 0)
			break;
		if (errno != EEXIST || i == 16)
			return -1;
	}
	int index = (int)if_nametoindex(a->name);
	nl_reset(&batch);
	put_up(index, has_ipv6(a->name));
	put_neighbour(index, AF_INET, a->v4, 4, a->inner_mac);
	put_route(index, AF_INET, a->v4, NULL, 4);
	if (a->has_v6) {
		put_neighbour(index, AF_INET6, a->v6, 16, a->inner_mac);
		put_route(index, AF_INET6, a->v6, NULL, 16);
	}
	return commit(fd, f, "set up the host's interface");
}

int net_link_inner(const struct net_address *a, struct failure *f)
{
	int index = (int)if_nametoindex(NET_INNER);
	auto_fd int fd = nl_open(NETLINK_ROUTE);

	if (fd < 0)
		return fail(f, LAUNCHER_STEP_NET_LINK, "open rtnetlink", NULL);
	nl_reset(&batch);
	put_up(index, has_ipv6(NET_INNER));
	put_address(index, AF_INET, a->v4, 4);
	put_neighbour(index, AF_INET, gateway4, 4, a->outer_mac);
	put_route(index, AF_INET, NULL, gateway4, 4);
	if (a->has_v6) {
		put_address(index, AF_INET6, a->v6, 16);
		put_neighbour(index, AF_INET6, gateway6, 16, a->outer_mac);
		put_route(index, AF_INET6, NULL, gateway6, 16);
	}
	return commit(fd, f, "set up the cell's interface");
}
