/* SPDX-License-Identifier: Apache-2.0 */
/*
 * netlink.h: messages to the kernel's network side, without a library. Several messages are put one
 * behind the other into a batch and sent at once; the kernel has acted when sending returns.
 *
 * A netlink socket belongs to the network namespace it was opened in, whatever namespace its owner
 * goes to afterwards.
 */
#pragma once
#include <endian.h>
#include <linux/netlink.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NL_BATCH_BYTES 65536

struct nl_batch {
	size_t len, message; /* used bytes; where the last message begins */
	uint32_t n;	     /* messages */
	bool is_full;	     /* something did not fit: sending will refuse */
	_Alignas(8) char bytes[NL_BATCH_BYTES];
};

void nl_reset(struct nl_batch *b);
/* Begin a message: type, NLM_F_* beyond REQUEST, the family's own head. */
void nl_message(struct nl_batch *b, uint16_t type, uint16_t flags, const void *head, size_t n);
void nl_put(struct nl_batch *b, uint16_t type, const void *data, size_t n);
void nl_put_u8(struct nl_batch *b, uint16_t type, uint8_t value);
void nl_put_u32(struct nl_batch *b, uint16_t type, uint32_t value);
void nl_put_be32(struct nl_batch *b, uint16_t type, uint32_t value);
void nl_put_text(struct nl_batch *b, uint16_t type, const char *text); /* with its NUL */
/* Attributes inside of one: nl_nest() gives what nl_end() wants. */
size_t nl_nest(struct nl_batch *b, uint16_t type);
size_t nl_nest_with(struct nl_batch *b, uint16_t type, const void *head, size_t n);
void nl_end(struct nl_batch *b, size_t nest);

/* A socket for NETLINK_ROUTE or NETLINK_NETFILTER of the namespace we are in. -1 with errno. */
int nl_open(int protocol);
/* Send and take the answers. 0, or -1 with errno and, in why (may be NULL), the kernel's own words or
 * "". The last message must have asked for an answer (NLM_F_ACK). */
int nl_send(int fd, const struct nl_batch *b, char why[80]);
/* Send one request and show every answer to fn: its type and payload. Stops when fn says so by a
 * nonzero value, which is returned; 0 at the end; -1 with errno. */
int nl_ask(int fd, const struct nl_batch *b,
	int (*fn)(void *user, uint16_t type, const char *payload, size_t n), void *user);
/* The attribute of that type in a row of them, or NULL. */
const char *nl_find(const char *attributes, size_t n, uint16_t type, size_t *ret_n);
