/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nft.h: tables, chains and rules of nf_tables, as messages of a batch. A rule is begun, gets its
 * expressions and is ended; expressions compare a packet with something and let the rule go on, the
 * last one is its verdict. All of family inet: IPv4 and IPv6.
 */
#pragma once
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "launcher/netlink.h"

struct nft_rule {
	size_t expressions;
};

void nft_begin(struct nl_batch *b);
/* Ends the batch. It takes effect as a whole or not at all. */
int nft_commit(int fd, struct nl_batch *b, char why[80]);

void nft_table(struct nl_batch *b, const char *table);
void nft_delete_table(struct nl_batch *b, const char *table);
/* A chain that packets come through by themselves; type "filter" or "nat". */
void nft_hook(struct nl_batch *b, const char *table, const char *chain, const char *type,
	unsigned hook, int priority);
void nft_chain(struct nl_batch *b, const char *table, const char *chain);

struct nft_rule nft_rule(struct nl_batch *b, const char *table, const char *chain);
void nft_rule_end(struct nl_batch *b, struct nft_rule r);

void nft_is_family(struct nl_batch *b, unsigned nfproto);
void nft_is_protocol(struct nl_batch *b, unsigned l4proto);
/* NFT_META_IIFNAME or OIFNAME begins with, or with its NUL is, these bytes. */
void nft_interface(struct nl_batch *b, unsigned key, const char *name, size_t n, bool is_equal);
/* Bytes of the network (or transport) header, under a mask where that is not NULL. */
void nft_header(struct nl_batch *b, unsigned base, unsigned offset, const void *value,
	const void *mask, unsigned n, bool is_equal);
/* NFT_FIB_RESULT_*: what the routing table says to an address; NFTA_FIB_F_*. */
void nft_fib(struct nl_batch *b, unsigned result, unsigned flags, uint32_t value, bool is_equal);
/* One of these states of the connection, NF_CT_STATE_BIT. */
void nft_state(struct nl_batch *b, uint32_t bits);

/* A set that nft_more_than() counts in: one count for each interface packets come from. */
void nft_counts(struct nl_batch *b, const char *table, const char *set);
/* The interface has more connections than that. */
void nft_more_than(struct nl_batch *b, const char *set, uint32_t count);

void nft_verdict(struct nl_batch *b, int code, const char *chain);
/* Tell the sender that it is forbidden, rather than let it wait. */
void nft_reject(struct nl_batch *b);
void nft_masquerade(struct nl_batch *b);
