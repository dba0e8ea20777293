/* SPDX-License-Identifier: Apache-2.0 */
/* test_launcher_net.c: messages for the kernel's network side, and what it says to them in a network
 * namespace of our own. What the rules do is shown by tests/network. */
#include <errno.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/launcher.h"
#include "launcher/net.h"
#include "launcher/nft.h"
#include "test.h"

struct host host = {.outer_mnt_fd = -1, .stage_mnt_fd = -1, .slots_fd = -1};

static struct nl_batch b;

TEST(attributes_are_aligned_and_nested)
{
	struct rtmsg rt = {.rtm_family = AF_INET};
	size_t n = 0, inner_n = 0;

	nl_reset(&b);
	nl_message(&b, RTM_NEWROUTE, NLM_F_ACK, &rt, sizeof rt);
	nl_put(&b, 1, "abc", 3);
	size_t nest = nl_nest(&b, 2);
	nl_put_be32(&b, 3, 0x01020304);
	nl_end(&b, nest);
	nl_put_text(&b, 4, "x");
	const struct nlmsghdr *h = (const void *)b.bytes;
	ASSERT_EQ(h->nlmsg_len, b.len);
	ASSERT_EQ(h->nlmsg_flags, NLM_F_ACK | NLM_F_REQUEST);
	const char *a = b.bytes + NLMSG_HDRLEN + NLMSG_ALIGN(sizeof rt);
	size_t left = b.len - (size_t)(a - b.bytes);
	ASSERT_EQ(memcmp(nl_find(a, left, 1, &n), "abc", 3), 0);
	ASSERT_EQ(n, 3);
	const char *inner = nl_find(a, left, 2, &n);
	ASSERT(inner);
	const char *value = nl_find(inner, n, 3, &inner_n);
	ASSERT_EQ(inner_n, 4);
	ASSERT_EQ(memcmp(value, "\1\2\3\4", 4), 0);
	ASSERT_EQ(memcmp(nl_find(a, left, 4, &n), "x", 2), 0);
	ASSERT(!nl_find(a, left, 5, &n));
}

TEST(a_row_of_attributes_that_lies_is_not_followed)
{
	size_t n;
	const unsigned char endless[] = {0, 0, 1, 0}, beyond[] = {200, 0, 1, 0, 0, 0, 0, 0};

	ASSERT(!nl_find((const char *)endless, sizeof endless, 1, &n));
	ASSERT(!nl_find((const char *)beyond, sizeof beyond, 1, &n));
	ASSERT(!nl_find((const char *)beyond, 3, 1, &n));
	ASSERT(!nl_find(NULL, 0, 1, &n));
}

TEST(what_does_not_fit_is_never_sent)
{
	char block[1000] = {0};

	nl_reset(&b);
	nl_message(&b, RTM_NEWROUTE, NLM_F_ACK, block, 12);
	for (int i = 0; i < 100; i++)
		nl_put(&b, 1, block, sizeof block);
	ASSERT(b.is_full);
	ASSERT(b.len <= sizeof b.bytes);
	nl_message(&b, RTM_NEWROUTE, NLM_F_ACK, block, 12);
	ASSERT_EQ(nl_send(-1, &b, NULL), -1);
	ASSERT_EQ(errno, E2BIG);
}

static void own_network(void)
{
	if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
		SKIP("no network namespace");
}

TEST(the_kernel_takes_the_filter_with_as_many_rules_as_a_request_may_have)
{
	static struct launcher_request rq;
	struct failure f = {0};

	own_network();
	rq.n_rules = LAUNCHER_MAX_RULES;
	for (size_t i = 0; i < rq.n_rules; i++) {
		struct launcher_rule *r = &rq.rules[i];

		*r = (struct launcher_rule){.family = i % 2 ? 4 : 6,
			.kind = i % 3 ? LAUNCHER_RULE_NAMED : LAUNCHER_RULE_OWN,
			.prefix = i % 2 ? 32 : 128,
			.port = i % 5 ? 0 : 443,
			.addr = {0xfd, [3] = (uint8_t)i, [15] = i % 2 ? 0 : 1}};
		if (i % 2)
			r->addr[0] = 10;
	}
	int r = net_filter(&rq, &f);
	if (r < 0 && (f.sys_errno == EPROTONOSUPPORT || f.sys_errno == EOPNOTSUPP))
		SKIP("no nf_tables");
	CHECK_(r == 0, "%s: %s", f.text, strerror(f.sys_errno));
	/* a second table of that name is not made silently different */
	ASSERT_OK(net_filter(&rq, &f));
}

TEST(the_kernels_own_words_reach_the_caller)
{
	struct rtmsg rt = {.rtm_family = AF_INET, .rtm_dst_len = 200};
	char why[80];

	own_network();
	int fd = ASSERT_OK(nl_open(NETLINK_ROUTE));
	nl_reset(&b);
	nl_message(&b, RTM_NEWROUTE, NLM_F_ACK | NLM_F_CREATE, &rt, sizeof rt);
	ASSERT_EQ(nl_send(fd, &b, why), -1);
	ASSERT_EQ(errno, EINVAL);
	ASSERT(*why);
	close(fd);
}
