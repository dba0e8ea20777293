/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_filter.c: where packets of an open cell may go, as rules in the cell's own network namespace.
 * The namespace belongs to the launcher: nobody in the cell has rights over it, whatever he becomes
 * there. Rules, not routes: a socket that is bound to an interface (SO_BINDTODEVICE needs no
 * privilege) goes past the routing table.
 *
 * Every packet of a cell is one that a process in this namespace sent, so the output hook sees all:
 * packet sockets and raw ones, which could go past it, are forbidden.
 */
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/net.h"
#include "launcher/nft.h"

#define TABLE	  "cell"
#define V4_DADDR  16
#define V6_DADDR  24
#define V6_NEXT	  6
#define TH_DPORT  2
#define V6_IS_HBH 0
#define V6_IS_RT  43
#define V6_IS_OPT 60

struct prefix {
	uint8_t bits;
	uint8_t addr[16];
};

/* Never a public service. Multicast and class E are one range. */
static const struct prefix closed4[] = {
	{8, {0}},	   /* "this" network: Linux takes 0.0.0.0 for loopback */
	{8, {10}},	   /* private */
	{10, {100, 64}},   /* shared with the provider; Alibaba's metadata */
	{8, {127}},	   /* loopback */
	{16, {169, 254}},  /* link-local: metadata of most clouds */
	{12, {172, 16}},   /* private */
	{24, {192, 0, 0}}, /* protocol assignments; Oracle's metadata */
	{16, {192, 168}},  /* private */
	{15, {198, 18}},   /* benchmarks; our own cells */
	{3, {224}},	   /* multicast, reserved, broadcast */
};
/* Services for the machine itself, some on addresses that look public or that a range which is
 * named may contain: only by their exact address. */
static const struct prefix metadata4[] = {
	{32, {169, 254, 169, 254}}, {32, {100, 100, 100, 200}}, {32, {192, 0, 0, 192}},
	{32, {168, 63, 129, 16}}, /* Azure's wire server */
};
static const struct prefix metadata6[] = {
	{128, {0xfd, 0, 0x0e, 0xc2, [14] = 2, [15] = 0x54}}, /* EC2 */
	{128, {0xfd, 0x20, 0, 0xce, [14] = 2, [15] = 0x54}}, /* Google */
};
/* Inside of what is open in IPv6: ways to say an IPv4 address in other words. */
static const struct prefix closed6[] = {
	{32, {0x20, 0x01}}, /* Teredo */
	{16, {0x20, 0x02}}, /* 6to4 */
};
static const struct prefix global6 = {3, {0x20}};
static const struct prefix nat64 = {96, {0, 0x64, 0xff, 0x9b}}; /* 64:ff9b::/96 */

struct family {
	const char *chain;
	unsigned offset, n; /* of the destination */
};
static const struct family v4 = {"to4", V4_DADDR, 4}, v6 = {"to6", V6_DADDR, 16};

/* What refuses: with an answer where the kernel can, else silence. */
static bool can_reject = true;

static void refuse(struct nl_batch *b)
{
	if (can_reject)
		nft_reject(b);
	else
		nft_verdict(b, NF_DROP, NULL);
}

static void is_to(struct nl_batch *b, const struct family *f, const uint8_t *addr, unsigned bits)
{
	uint8_t mask[16] = {0};

	for (unsigned i = 0; i < bits; i++)
		mask[i / 8] |= (uint8_t)(0x80 >> i % 8);
	nft_header(b, NFT_PAYLOAD_NETWORK_HEADER, f->offset, addr, bits < f->n * 8 ? mask : NULL,
		f->n, true);
}

static void refuse_prefix(struct nl_batch *b, const struct family *f, const struct prefix *p)
{
	struct nft_rule r = nft_rule(b, TABLE, f->chain);

	is_to(b, f, p->addr, p->bits);
	refuse(b);
	nft_rule_end(b, r);
}

static void accept_prefix(struct nl_batch *b, const struct family *f, const struct prefix *p)
{
	struct nft_rule r = nft_rule(b, TABLE, f->chain);

	is_to(b, f, p->addr, p->bits);
	nft_verdict(b, NF_ACCEPT, NULL);
	nft_rule_end(b, r);
}

/* A destination that the spec names; with a port: that one, by TCP and UDP. */
static void accept_named(struct nl_batch *b, const struct family *f, const struct launcher_rule *n)
{
	static const uint8_t protocols[] = {IPPROTO_TCP, IPPROTO_UDP};
	uint8_t port[2] = {(uint8_t)(n->port >> 8), (uint8_t)n->port};

	for (size_t i = 0; i < (n->port ? sizeof protocols : 1); i++) {
		struct nft_rule r = nft_rule(b, TABLE, f->chain);

		is_to(b, f, n->addr, n->prefix);
		if (n->port) {
			nft_is_protocol(b, protocols[i]);
			nft_header(b, NFT_PAYLOAD_TRANSPORT_HEADER, TH_DPORT, port, NULL, 2, true);
		}
		nft_verdict(b, NF_ACCEPT, NULL);
		nft_rule_end(b, r);
	}
}

enum pass {
	PASS_OWN,   /* addresses of the host: never */
	PASS_EXACT, /* one address, or a resolver */
	PASS_RANGES,
};

static void add_rules(struct nl_batch *b, const struct family *f, const struct launcher_request *rq,
	enum pass pass)
{
	for (size_t i = 0; i < rq->n_rules; i++) {
		const struct launcher_rule *n = &rq->rules[i];
		bool is_exact = n->prefix == f->n * 8;
		struct prefix own = {n->prefix, {0}};

		if (n->family != (f->n == 4 ? 4 : 6))
			continue;
		memcpy(own.addr, n->addr, sizeof own.addr);
		if (n->kind == LAUNCHER_RULE_OWN) {
			if (pass == PASS_OWN)
				refuse_prefix(b, f, &own);
		} else if (pass == (is_exact ? PASS_EXACT : PASS_RANGES)) {
			accept_named(b, f, n);
		}
	}
}

/* Options make others forward a packet to where its header does not say (source routing). */
static void refuse_options4(struct nl_batch *b)
{
	const uint8_t no_options = 5, length = 0x0f; /* words of the header */
	struct nft_rule r = nft_rule(b, TABLE, v4.chain);

	nft_header(b, NFT_PAYLOAD_NETWORK_HEADER, 0, &no_options, &length, 1, false);
	refuse(b);
	nft_rule_end(b, r);
}

static void refuse_options6(struct nl_batch *b)
{
	static const uint8_t headers[] = {V6_IS_HBH, V6_IS_RT, V6_IS_OPT};

	for (size_t i = 0; i < sizeof headers; i++) {
		struct nft_rule r = nft_rule(b, TABLE, v6.chain);

		nft_header(b, NFT_PAYLOAD_NETWORK_HEADER, V6_NEXT, &headers[i], NULL, 1, true);
		refuse(b);
		nft_rule_end(b, r);
	}
}

/* The kernel itself asks neighbours for their addresses; no process of a cell can send these. */
static void accept_neighbours(struct nl_batch *b)
{
	for (uint8_t type = 133; type <= 136; type++) {
		struct nft_rule r = nft_rule(b, TABLE, v6.chain);

		nft_is_protocol(b, IPPROTO_ICMPV6);
		nft_header(b, NFT_PAYLOAD_TRANSPORT_HEADER, 0, &type, NULL, 1, true);
		nft_verdict(b, NF_ACCEPT, NULL);
		nft_rule_end(b, r);
	}
}

#define EACH(p, list) \
	for (const struct prefix *p = (list); p < (list) + sizeof(list) / sizeof *(list); p++)

static void rules4(struct nl_batch *b, const struct launcher_request *rq)
{
	refuse_options4(b);
	add_rules(b, &v4, rq, PASS_OWN);
	add_rules(b, &v4, rq, PASS_EXACT);
	EACH(p, metadata4)
	refuse_prefix(b, &v4, p);
	add_rules(b, &v4, rq, PASS_RANGES);
	EACH(p, closed4)
	refuse_prefix(b, &v4, p);
}

static void rules6(struct nl_batch *b, const struct launcher_request *rq)
{
	struct nft_rule r;

	accept_neighbours(b);
	refuse_options6(b);
	add_rules(b, &v6, rq, PASS_OWN);
	add_rules(b, &v6, rq, PASS_EXACT);
	EACH(p, metadata6)
	refuse_prefix(b, &v6, p);
	add_rules(b, &v6, rq, PASS_RANGES);
	EACH(p, closed6)
	refuse_prefix(b, &v6, p);
	/* a translator on the way would make these IPv4: what is closed there is closed here */
	EACH(p, closed4)
	{
		struct prefix embedded = nat64;

		embedded.bits = (uint8_t)(96 + p->bits);
		memcpy(embedded.addr + 12, p->addr, 4);
		refuse_prefix(b, &v6, &embedded);
	}
	EACH(p, metadata4)
	{
		struct prefix embedded = nat64;

		embedded.bits = 128;
		memcpy(embedded.addr + 12, p->addr, 4);
		refuse_prefix(b, &v6, &embedded);
	}
	accept_prefix(b, &v6, &nat64);
	accept_prefix(b, &v6, &global6);
	/* all else: loopback, mapped, link-local, unique local, multicast, unassigned */
	r = nft_rule(b, TABLE, v6.chain);
	refuse(b);
	nft_rule_end(b, r);
}

static void dispatch(struct nl_batch *b)
{
	struct nft_rule r = nft_rule(b, TABLE, "out");

	/* what goes out by the loopback stays in this namespace */
	nft_interface(b, NFT_META_OIFNAME, "lo", sizeof "lo", true);
	nft_verdict(b, NF_ACCEPT, NULL);
	nft_rule_end(b, r);
	r = nft_rule(b, TABLE, "out");
	nft_is_family(b, NFPROTO_IPV4);
	nft_verdict(b, NFT_GOTO, v4.chain);
	nft_rule_end(b, r);
	r = nft_rule(b, TABLE, "out");
	nft_is_family(b, NFPROTO_IPV6);
	nft_verdict(b, NFT_GOTO, v6.chain);
	nft_rule_end(b, r);
	r = nft_rule(b, TABLE, "out");
	nft_verdict(b, NF_DROP, NULL);
	nft_rule_end(b, r);
}

#define batch net_batch

int net_filter(const struct launcher_request *rq, struct failure *f)
{
	char why[80];
	auto_fd int fd = nl_open(NETLINK_NETFILTER);

	if (fd < 0)
		return fail(f, LAUNCHER_STEP_NET_FILTER, "open nf_tables", NULL);
	for (;;) {
		nft_begin(&batch);
		nft_table(&batch, TABLE);
		nft_chain(&batch, TABLE, v4.chain);
		nft_chain(&batch, TABLE, v6.chain);
		nft_hook(&batch, TABLE, "out", "filter", NF_INET_LOCAL_OUT, 0);
		rules4(&batch, rq);
		rules6(&batch, rq);
		dispatch(&batch);
		if (nft_commit(fd, &batch, why) == 0)
			return 0;
		if (errno != ENOENT || !can_reject)
			break;
		can_reject = false; /* the kernel has no `reject`: once more in silence */
	}
	return fail(f, LAUNCHER_STEP_NET_FILTER, "make the rules of nf_tables", *why ? why : NULL);
}
