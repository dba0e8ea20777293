/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_host.c: what open cells share on the host, rootful: one table of nf_tables and the leave to pass
 * packets on. The rules speak of interfaces whose names begin with "cell-" and of nothing else: while
 * there is none they do nothing. They are made with the first open cell and go with the last; a file
 * among the slots' locks says that they are there, so that they go also when whoever made them was
 * killed.
 *
 * Not seen from here: rules of the old iptables. Its FORWARD chain is asked after ours and may drop.
 *
 * Where a cell may send to is decided in its own namespace (net_filter.c); here is what only the host
 * knows: its own addresses, which interface a packet came from, who else is a cell.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/launcher.h"
#include "launcher/net.h"
#include "launcher/nft.h"

#define TABLE		"cell"
#define PRIORITY_RAW	(-300) /* before the kernel keeps any state of a packet */
#define PRIORITY_NAT	100
#define MAX_CONNECTIONS 8192 /* of one cell, at once */
#define KNOBS		"/proc/sys/net/ipv4/conf"
#define batch		net_batch

/* ---- the lock and the mark ---- */

int net_host_lock(struct failure *f)
{
	auto_fd int fd = openat(host.slots_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; fd >= 0 && i < 5000; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return steal_fd(fd);
		if (errno != EWOULDBLOCK && errno != EINTR)
			break;
		(void)usleep(1000);
	}
	return fail(f, LAUNCHER_STEP_NET_HOST, "lock the host's network against other launchers",
		NULL);
}

void net_host_unlock(int lock)
{
	if (lock >= 0)
		close(lock);
}

static const char *mark_of(uint64_t ns_id, char ret[40])
{
	(void)snprintf(ret, 40, NET_MARK "%" PRIu64, ns_id);
	return ret;
}

bool net_host_is_marked(uint64_t ns_id)
{
	char name[40];

	return faccessat(host.slots_fd, mark_of(ns_id, name), F_OK, 0) == 0;
}

/* ---- passing packets on ---- */

static bool is_on(const char *path)
{
	char text[2] = "";
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, text, 1) == 1 && text[0] == '1';
}

static int set_knob(const char *name, const char *value)
{
	char path[64];

	(void)snprintf(path, sizeof path, KNOBS "/%.20s/forwarding", name);
	return spare_write_proc(path, value);
}

static bool is_forwarding(const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof path, KNOBS "/%.20s/forwarding", name);
	return is_on(path);
}

static bool is_cell(const char *name)
{
	return !strncmp(name, NET_PREFIX, NET_PREFIX_LEN);
}

/* Answers come in by some other interface, which must pass them on too. Where the machine as a whole
 * does (ip_forward) there is nothing to do. Else it is asked of each interface that does not, written
 * down first, and taken back afterwards; the switch for all stays as it was, so that programs which
 * look at it do what they always do. By an interface that passed nothing on before, nobody but cells
 * gets anything: strangers on that network are refused. */
static int allow_forwarding(int mark_fd, struct failure *f)
{
	auto_dir DIR *d = opendir(KNOBS);
	auto_fd int fd = nl_open(NETLINK_NETFILTER);

	if (!d || fd < 0)
		return fail(f, LAUNCHER_STEP_NET_HOST, "read", KNOBS);
	for (struct dirent *e; (e = readdir(d));) {
		size_t n = strlen(e->d_name);

		if (e->d_name[0] == '.' || n > 15 || !strcmp(e->d_name, "all") ||
			!strcmp(e->d_name, "default") || !strcmp(e->d_name, "lo") ||
			is_cell(e->d_name) || is_forwarding(e->d_name))
			continue;
		char line[20];
		int len = snprintf(line, sizeof line, "%s\n", e->d_name);
		nft_begin(&batch);
		struct nft_rule r = nft_rule(&batch, TABLE, "strangers");
		nft_interface(&batch, NFT_META_IIFNAME, e->d_name, n + 1, true);
		nft_state(&batch, NF_CT_STATE_BIT(IP_CT_NEW));
		nft_verdict(&batch, NF_DROP, NULL);
		nft_rule_end(&batch, r);
		if (nft_commit(fd, &batch, NULL) < 0)
			return fail(f, LAUNCHER_STEP_NET_HOST, "keep strangers from", e->d_name);
		/* interfaces come and go: one that is gone needs nothing */
		if (write(mark_fd, line, (size_t)len) != len ||
			(set_knob(e->d_name, "1") < 0 && errno != ENOENT))
			return fail(f, LAUNCHER_STEP_NET_HOST, "let pass packets on", e->d_name);
	}
	return 0;
}

static void restore_forwarding(int mark_fd)
{
	char text[512];
	size_t kept = 0;

	/* meanwhile the machine was made to pass on everything: no longer ours to decide */
	if (is_on("/proc/sys/net/ipv4/ip_forward"))
		return;
	for (off_t at = 0; kept < sizeof text - 1;) {
		ssize_t n = pread(mark_fd, text + kept, sizeof text - 1 - kept, at);
		char *line = text;

		if (n <= 0)
			return;
		at += n;
		text[kept + (size_t)n] = '\0';
		for (char *end; (end = strchr(line, '\n')); line = end + 1) {
			*end = '\0';
			(void)set_knob(line, "0");
		}
		kept = strlen(line);
		memmove(text, line, kept + 1);
	}
}

int net_host_forward(const char *name, uint64_t ns_id, struct failure *f)
{
	char mark[40];

	if (is_on("/proc/sys/net/ipv4/ip_forward"))
		return 0;
	auto_fd int fd =
		openat(host.slots_fd, mark_of(ns_id, mark), O_WRONLY | O_APPEND | O_CLOEXEC);
	if (fd < 0 || set_knob(name, "1") < 0)
		return fail(f, LAUNCHER_STEP_NET_HOST, "let pass packets on", name);
	return allow_forwarding(fd, f);
}

/* ---- the table ---- */

static struct nft_rule rule(const char *chain)
{
	return nft_rule(&batch, TABLE, chain);
}

static void from_cell(bool is_equal)
{
	nft_interface(&batch, NFT_META_IIFNAME, NET_PREFIX, NET_PREFIX_LEN, is_equal);
}

static void to_cell(bool is_equal)
{
	nft_interface(&batch, NFT_META_OIFNAME, NET_PREFIX, NET_PREFIX_LEN, is_equal);
}

static void end(struct nft_rule r, int verdict)
{
	nft_verdict(&batch, verdict, NULL);
	nft_rule_end(&batch, r);
}

static void make_arrival(void)
{
	const uint8_t no_options = 5, length = 0x0f;
	struct nft_rule r;

	nft_hook(&batch, TABLE, "arrival", "filter", NF_INET_PRE_ROUTING, PRIORITY_RAW);
	/* the host's own addresses, whichever it has at that moment; broadcast, multicast */
	r = rule("arrival");
	from_cell(true);
	nft_fib(&batch, NFT_FIB_RESULT_ADDRTYPE, NFTA_FIB_F_DADDR, RTN_UNICAST, false);
	end(r, NF_DROP);
	/* no other sender than the one address that is routed to this interface */
	r = rule("arrival");
	from_cell(true);
	nft_fib(&batch, NFT_FIB_RESULT_OIF, NFTA_FIB_F_SADDR | NFTA_FIB_F_IIF, 0, true);
	end(r, NF_DROP);
	/* source routing and other options */
	r = rule("arrival");
	from_cell(true);
	nft_is_family(&batch, NFPROTO_IPV4);
	nft_header(&batch, NFT_PAYLOAD_NETWORK_HEADER, 0, &no_options, &length, 1, false);
	end(r, NF_DROP);
	/* and should anything get this far to the host itself */
	nft_hook(&batch, TABLE, "input", "filter", NF_INET_LOCAL_IN, 0);
	r = rule("input");
	from_cell(true);
	end(r, NF_DROP);
}

static bool can_count = true; /* the kernel has connlimit */

static void make_passage(void)
{
	struct nft_rule r;

	nft_hook(&batch, TABLE, "passage", "filter", NF_INET_FORWARD, 0);
	r = rule("passage"); /* no cell to another */
	from_cell(true);
	to_cell(true);
	end(r, NF_DROP);
	r = rule("passage"); /* answers only into a cell */
	to_cell(true);
	nft_state(&batch, NF_CT_STATE_BIT(IP_CT_ESTABLISHED) | NF_CT_STATE_BIT(IP_CT_RELATED));
	end(r, NF_ACCEPT);
	r = rule("passage");
	to_cell(true);
	end(r, NF_DROP);
	/* the host's table of connections is one for all: no cell may fill it */
	if (can_count) {
		nft_counts(&batch, TABLE, "connections");
		r = rule("passage");
		from_cell(true);
		nft_state(&batch, NF_CT_STATE_BIT(IP_CT_NEW));
		nft_more_than(&batch, "connections", MAX_CONNECTIONS);
		end(r, NF_DROP);
	}
	r = rule("passage");
	from_cell(true);
	end(r, NF_ACCEPT);
	nft_chain(&batch, TABLE, "strangers"); /* see allow_forwarding() */
	r = rule("passage");
	nft_verdict(&batch, NFT_JUMP, "strangers");
	nft_rule_end(&batch, r);
	nft_hook(&batch, TABLE, "departure", "nat", NF_INET_POST_ROUTING, PRIORITY_NAT);
	r = rule("departure");
	from_cell(true);
	to_cell(false);
	nft_masquerade(&batch);
	nft_rule_end(&batch, r);
}

/* ---- other firewalls ---- */

struct obstacle {
	char table[64], chain[64];
	uint8_t family;
};

static int look_at_chain(void *user, uint16_t type, const char *payload, size_t n)
{
	struct obstacle *ret = user;
	const size_t head = NLMSG_ALIGN(sizeof(struct nfgenmsg));
	size_t hook_n = 0, len = 0, name_n = 0, table_n = 0;
	uint32_t number = 0, policy = 0;

	(void)type;
	if (n < head)
		return 0;
	const char *a = payload + head, *hook = nl_find(a, n - head, NFTA_CHAIN_HOOK, &hook_n);
	const char *value = hook ? nl_find(hook, hook_n, NFTA_HOOK_HOOKNUM, &len) : NULL;
	if (!value || len != 4)
		return 0;
	memcpy(&number, value, 4);
	value = nl_find(a, n - head, NFTA_CHAIN_POLICY, &len);
	if (!value || len != 4)
		return 0;
	memcpy(&policy, value, 4);
	const char *table = nl_find(a, n - head, NFTA_CHAIN_TABLE, &table_n);
	const char *chain = nl_find(a, n - head, NFTA_CHAIN_NAME, &name_n);
	if (number != htobe32(NF_INET_FORWARD) || policy != htobe32(NF_DROP) || !table || !chain)
		return 0;
	ret->family = (uint8_t)payload[0];
	(void)snprintf(ret->table, sizeof ret->table, "%.*s", (int)table_n, table);
	(void)snprintf(ret->chain, sizeof ret->chain, "%.*s", (int)name_n, chain);
	return 1;
}

static int look_for_cells(void *user, uint16_t type, const char *payload, size_t n)
{
	(void)user, (void)type;
	return memmem(payload, n, NET_PREFIX, NET_PREFIX_LEN) != NULL;
}

static void ask(uint16_t type, uint8_t family, uint16_t attribute, const char *table)
{
	struct nfgenmsg head = {.nfgen_family = family};

	nl_reset(&batch);
	nl_message(&batch, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), NLM_F_DUMP, &head,
		sizeof head);
	if (table)
		nl_put_text(&batch, attribute, table);
}

/* A chain that drops what it does not know is asked after ours and has the last word (Docker's
 * `iptables -P FORWARD DROP`). Unless its table speaks of our interfaces, say so: a network that
 * silently leads nowhere is worse than none. */
static int check_obstacles(int fd, struct failure *f)
{
	struct obstacle o = {0};
	char text[150];

	ask(NFT_MSG_GETCHAIN, NFPROTO_UNSPEC, 0, NULL);
	if (nl_ask(fd, &batch, look_at_chain, &o) != 1)
		return 0;
	ask(NFT_MSG_GETRULE, o.family, NFTA_RULE_TABLE, o.table);
	if (nl_ask(fd, &batch, look_for_cells, NULL) == 1)
		return 0;
	(void)snprintf(text, sizeof text, "%.40s %.40s", o.table, o.chain);
	return fail_with(f, LAUNCHER_STEP_NET_FORWARD, EACCES,
		"a chain of the host's firewall drops what it does not know:", text);
}

static int is_there(void *user, uint16_t type, const char *payload, size_t n)
{
	(void)user, (void)payload, (void)n;
	return type == (NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_NEWTABLE);
}

/* The mark may be that of another namespace, gone since, whose number the kernel gave to this one. */
static bool has_table(int fd)
{
	struct nfgenmsg head = {.nfgen_family = NFPROTO_INET};

	nl_reset(&batch);
	nl_message(&batch, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETTABLE, 0, &head, sizeof head);
	nl_put_text(&batch, NFTA_TABLE_NAME, TABLE);
	return nl_ask(fd, &batch, is_there, NULL) == 1;
}

static int make_table(int fd, struct failure *f)
{
	char why[80];

	for (;;) {
		nft_begin(&batch);
		nft_table(&batch, TABLE); /* so that there is one to delete, if one was left */
		nft_delete_table(&batch, TABLE);
		nft_table(&batch, TABLE);
		make_arrival();
		make_passage();
		if (nft_commit(fd, &batch, why) == 0)
			return 0;
		if (errno != ENOENT || !can_count)
			break;
		can_count = false; /* once more without: it is good manners, no wall */
	}
	return fail(f, LAUNCHER_STEP_NET_HOST, "make the rules of nf_tables", *why ? why : NULL);
}

int net_host_try(bool is_host, struct failure *f)
{
	auto_fd int fd = nl_open(NETLINK_NETFILTER);

	if (fd < 0)
		return fail(f, LAUNCHER_STEP_NET_HOST, "open nf_tables", NULL);
	return is_host ? check_obstacles(fd, f) : make_table(fd, f);
}

int net_host_prepare(uint64_t ns_id, struct failure *f)
{
	static bool is_checked;
	char name[40];
	auto_fd int fd = nl_open(NETLINK_NETFILTER);

	if (fd < 0)
		return fail(f, LAUNCHER_STEP_NET_HOST, "open nf_tables", NULL);
	if (!is_checked && check_obstacles(fd, f) < 0)
		return -1;
	is_checked = true; /* once: a host may have thousands of chains */
	if (net_host_is_marked(ns_id) && has_table(fd))
		return 0;
	auto_fd int mark = openat(host.slots_fd, mark_of(ns_id, name),
		O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (mark < 0)
		return fail(f, LAUNCHER_STEP_NET_HOST, "make", name);
	if (make_table(fd, f) == 0)
		return 0;
	(void)unlinkat(host.slots_fd, name, 0);
	return -1;
}

void net_host_release(uint64_t ns_id)
{
	char name[40];

	if (!net_host_is_marked(ns_id))
		return;
	auto_dir DIR *d = opendir(KNOBS);
	for (struct dirent *e; d && (e = readdir(d));)
		if (is_cell(e->d_name))
			return; /* somebody still has one */
	auto_fd int fd = nl_open(NETLINK_NETFILTER);
	auto_fd int mark =
		openat(host.slots_fd, mark_of(ns_id, name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (!d || fd < 0 || mark < 0)
		return;
	restore_forwarding(mark);
	nft_begin(&batch);
	nft_delete_table(&batch, TABLE);
	if (nft_commit(fd, &batch, NULL) == 0 || errno == ENOENT)
		(void)unlinkat(host.slots_fd, name, 0);
}
