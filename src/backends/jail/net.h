/* SPDX-License-Identifier: Apache-2.0 */
/* net.h: the client's part of an open network: which destinations are named, which resolvers a cell
 * asks, and, without root, the program that carries its packets. */
#pragma once
#include <sys/types.h>

#include "cell/spec.h"

#include "backends/jail/client.h"

/* What pasta takes for the host's resolver: an address that is nobody's. */
#define JAIL_NET_RESOLVER "169.254.53.53"

struct jail_net {
	bool is_rootful;
	bool forwards_dns; /* pasta passes queries on to the host's own resolver */
	char resolv[2048]; /* /etc/resolv.conf */
	char carrier[512]; /* path of pasta; "" when rootful */
};

/* What this machine lacks for it without root, or NULL: the program, a device. */
const char *jail_net_lack(const char **ret_fix);
/* Fill the request's rules and texts; *ret must live as long as the request. */
int jail_net_plan(const struct cell_spec *spec, struct launcher_request *rq, struct jail_net *ret,
	struct cell_error *err);
/* Without root: connect the network namespace of that process, whose pidfd this is. */
int jail_net_carry(const struct jail_net *net, pid_t pid, int pidfd, struct cell_error *err);

/* ---- net_resolv.c ---- */
/* Choose resolvers; add a rule for each that would be closed otherwise. */
int jail_net_resolvers(const struct cell_spec *spec, struct launcher_request *rq,
	struct jail_net *net, struct cell_error *err);
/* Is it one of the host's own addresses, by the rules in the request, or its loopback? */
bool jail_net_is_own(const struct launcher_request *rq, const struct launcher_rule *r);
int jail_net_add(struct launcher_request *rq, const struct launcher_rule *r,
	struct cell_error *err);
