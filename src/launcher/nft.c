/* SPDX-License-Identifier: Apache-2.0 */
/* nft.c: see nft.h. */
#include "launcher/nft.h"

#include <linux/netfilter/nfnetlink.h>
#include <string.h>

static void message(struct nl_batch *b, uint16_t type, uint16_t flags)
{
	struct nfgenmsg head = {.nfgen_family = NFPROTO_INET};

	nl_message(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, &head, sizeof head);
}

static void bracket(struct nl_batch *b, uint16_t type)
{
	struct nfgenmsg head = {.res_id = htobe16(NFNL_SUBSYS_NFTABLES)};

	nl_message(b, type, 0, &head, sizeof head);
}

void nft_begin(struct nl_batch *b)
{
	nl_reset(b);
	bracket(b, NFNL_MSG_BATCH_BEGIN);
}

int nft_commit(int fd, struct nl_batch *b, char why[80])
{
	/* the last one answers for all: whatever fails answers anyway */
	if (!b->is_full)
		((struct nlmsghdr *)(void *)(b->bytes + b->message))->nlmsg_flags |= NLM_F_ACK;
	bracket(b, NFNL_MSG_BATCH_END);
	return nl_send(fd, b, why);
}

void nft_table(struct nl_batch *b, const char *table)
{
	message(b, NFT_MSG_NEWTABLE, NLM_F_CREATE);
	nl_put_text(b, NFTA_TABLE_NAME, table);
}

void nft_delete_table(struct nl_batch *b, const char *table)
{
	message(b, NFT_MSG_DELTABLE, 0);
	nl_put_text(b, NFTA_TABLE_NAME, table);
}

void nft_chain(struct nl_batch *b, const char *table, const char *chain)
{
	message(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE);
	nl_put_text(b, NFTA_CHAIN_TABLE, table);
	nl_put_text(b, NFTA_CHAIN_NAME, chain);
}

void nft_hook(struct nl_batch *b, const char *table, const char *chain, const char *type,
	unsigned hook, int priority)
{
	nft_chain(b, table, chain);
	size_t nest = nl_nest(b, NFTA_CHAIN_HOOK);
	nl_put_be32(b, NFTA_HOOK_HOOKNUM, hook);
	nl_put_be32(b, NFTA_HOOK_PRIORITY, (uint32_t)priority);
	nl_end(b, nest);
	nl_put_be32(b, NFTA_CHAIN_POLICY, NF_ACCEPT);
	nl_put_text(b, NFTA_CHAIN_TYPE, type);
}

struct nft_rule nft_rule(struct nl_batch *b, const char *table, const char *chain)
{
	message(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND);
	nl_put_text(b, NFTA_RULE_TABLE, table);
	nl_put_text(b, NFTA_RULE_CHAIN, chain);
	return (struct nft_rule){nl_nest(b, NFTA_RULE_EXPRESSIONS)};
}

void nft_rule_end(struct nl_batch *b, struct nft_rule r)
{
	nl_end(b, r.expressions);
}

struct expression {
	size_t element, data;
};

static struct expression expression(struct nl_batch *b, const char *name)
{
	struct expression e = {.element = nl_nest(b, NFTA_LIST_ELEM)};

	nl_put_text(b, NFTA_EXPR_NAME, name);
	e.data = nl_nest(b, NFTA_EXPR_DATA);
	return e;
}

static void expression_end(struct nl_batch *b, struct expression e)
{
	nl_end(b, e.data);
	nl_end(b, e.element);
}

static void put_value(struct nl_batch *b, uint16_t type, const void *value, size_t n)
{
	size_t nest = nl_nest(b, type);

	nl_put(b, NFTA_DATA_VALUE, value, n);
	nl_end(b, nest);
}

/* Every expression that loads something uses the first register. */
static void compare(struct nl_batch *b, const void *value, size_t n, bool is_equal)
{
	struct expression e = expression(b, "cmp");

	nl_put_be32(b, NFTA_CMP_SREG, NFT_REG_1);
	nl_put_be32(b, NFTA_CMP_OP, is_equal ? NFT_CMP_EQ : NFT_CMP_NEQ);
	put_value(b, NFTA_CMP_DATA, value, n);
	expression_end(b, e);
}

static void mask_with(struct nl_batch *b, const void *mask, unsigned n)
{
	static const char zero[16];
	struct expression e = expression(b, "bitwise");

	nl_put_be32(b, NFTA_BITWISE_SREG, NFT_REG_1);
	nl_put_be32(b, NFTA_BITWISE_DREG, NFT_REG_1);
	nl_put_be32(b, NFTA_BITWISE_LEN, n);
	put_value(b, NFTA_BITWISE_MASK, mask, n);
	put_value(b, NFTA_BITWISE_XOR, zero, n);
	expression_end(b, e);
}

static void meta(struct nl_batch *b, unsigned key)
{
	struct expression e = expression(b, "meta");

	nl_put_be32(b, NFTA_META_DREG, NFT_REG_1);
	nl_put_be32(b, NFTA_META_KEY, key);
	expression_end(b, e);
}

void nft_is_family(struct nl_batch *b, unsigned nfproto)
{
	uint8_t value = (uint8_t)nfproto;

	meta(b, NFT_META_NFPROTO);
	compare(b, &value, sizeof value, true);
}

void nft_is_protocol(struct nl_batch *b, unsigned l4proto)
{
	uint8_t value = (uint8_t)l4proto;

	meta(b, NFT_META_L4PROTO);
	compare(b, &value, sizeof value, true);
}

void nft_interface(struct nl_batch *b, unsigned key, const char *name, size_t n, bool is_equal)
{
	meta(b, key);
	compare(b, name, n, is_equal);
}

void nft_header(struct nl_batch *b, unsigned base, unsigned offset, const void *value,
	const void *mask, unsigned n, bool is_equal)
{
	struct expression e = expression(b, "payload");

	nl_put_be32(b, NFTA_PAYLOAD_DREG, NFT_REG_1);
	nl_put_be32(b, NFTA_PAYLOAD_BASE, base);
	nl_put_be32(b, NFTA_PAYLOAD_OFFSET, offset);
	nl_put_be32(b, NFTA_PAYLOAD_LEN, n);
	expression_end(b, e);
	if (mask)
		mask_with(b, mask, n);
	compare(b, value, n, is_equal);
}

void nft_fib(struct nl_batch *b, unsigned result, unsigned flags, uint32_t value, bool is_equal)
{
	struct expression e = expression(b, "fib");

	nl_put_be32(b, NFTA_FIB_DREG, NFT_REG_1);
	nl_put_be32(b, NFTA_FIB_RESULT, result);
	nl_put_be32(b, NFTA_FIB_FLAGS, flags);
	expression_end(b, e);
	compare(b, &value, sizeof value, is_equal);
}

void nft_state(struct nl_batch *b, uint32_t bits)
{
	const uint32_t none = 0;
	struct expression e = expression(b, "ct");

	nl_put_be32(b, NFTA_CT_DREG, NFT_REG_1);
	nl_put_be32(b, NFTA_CT_KEY, NFT_CT_STATE);
	expression_end(b, e);
	mask_with(b, &bits, sizeof bits);
	compare(b, &none, sizeof none, false);
}

#define COUNTS_ID      1
#define COUNTS_SIZE    65535
#define IFINDEX_OF_NFT 20 /* what nft(8) calls such a key; the kernel does not care */

void nft_counts(struct nl_batch *b, const char *table, const char *set)
{
	message(b, NFT_MSG_NEWSET, NLM_F_CREATE);
	nl_put_text(b, NFTA_SET_TABLE, table);
	nl_put_text(b, NFTA_SET_NAME, set);
	nl_put_be32(b, NFTA_SET_ID, COUNTS_ID);
	nl_put_be32(b, NFTA_SET_FLAGS, NFT_SET_EVAL);
	nl_put_be32(b, NFTA_SET_KEY_TYPE, IFINDEX_OF_NFT);
	nl_put_be32(b, NFTA_SET_KEY_LEN, sizeof(uint32_t));
	size_t nest = nl_nest(b, NFTA_SET_DESC);
	nl_put_be32(b, NFTA_SET_DESC_SIZE, COUNTS_SIZE);
	nl_end(b, nest);
}

void nft_more_than(struct nl_batch *b, const char *set, uint32_t count)
{
	meta(b, NFT_META_IIF);
	struct expression e = expression(b, "dynset");

	nl_put_text(b, NFTA_DYNSET_SET_NAME, set);
	nl_put_be32(b, NFTA_DYNSET_SET_ID, COUNTS_ID);
	nl_put_be32(b, NFTA_DYNSET_OP, NFT_DYNSET_OP_ADD);
	nl_put_be32(b, NFTA_DYNSET_SREG_KEY, NFT_REG_1);
	size_t inner = nl_nest(b, NFTA_DYNSET_EXPR);
	nl_put_text(b, NFTA_EXPR_NAME, "connlimit");
	size_t data = nl_nest(b, NFTA_EXPR_DATA);
	nl_put_be32(b, NFTA_CONNLIMIT_COUNT, count);
	nl_put_be32(b, NFTA_CONNLIMIT_FLAGS, NFT_CONNLIMIT_F_INV);
	nl_end(b, data);
	nl_end(b, inner);
	expression_end(b, e);
}

void nft_verdict(struct nl_batch *b, int code, const char *chain)
{
	struct expression e = expression(b, "immediate");

	nl_put_be32(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
	size_t data = nl_nest(b, NFTA_IMMEDIATE_DATA);
	size_t verdict = nl_nest(b, NFTA_DATA_VERDICT);
	nl_put_be32(b, NFTA_VERDICT_CODE, (uint32_t)code);
	if (chain)
		nl_put_text(b, NFTA_VERDICT_CHAIN, chain);
	nl_end(b, verdict);
	nl_end(b, data);
	expression_end(b, e);
}

void nft_reject(struct nl_batch *b)
{
	struct expression e = expression(b, "reject");

	nl_put_be32(b, NFTA_REJECT_TYPE, NFT_REJECT_ICMPX_UNREACH);
	nl_put_u8(b, NFTA_REJECT_ICMP_CODE, NFT_REJECT_ICMPX_ADMIN_PROHIBITED);
	expression_end(b, e);
}

void nft_masquerade(struct nl_batch *b)
{
	expression_end(b, expression(b, "masq"));
}
