/* SPDX-License-Identifier: Apache-2.0 */
/* net.c: see net.h. */
#include "backends/jail/net.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "core/destination.h"
#include "core/guest_process.h"
#include "core/process.h"

#define CARRIER_TIMEOUT_MS 20000
#define TUN		   "/dev/net/tun"

/* ---- without root: who carries packets ---- */

static bool find_carrier(char *ret, size_t size)
{
	const char *path = getenv("PATH");

	for (const char *p = path && *path ? path : "/usr/local/bin:/usr/bin:/bin"; *p;) {
		size_t n = strcspn(p, ":");

		if (*p == '/' && (size_t)snprintf(ret, size, "%.*s/pasta", (int)n, p) < size &&
			access(ret, X_OK) == 0)
			return true;
		p += n + (p[n] == ':');
	}
	return false;
}

const char *jail_net_lack(const char **ret_fix)
{
	char path[512];

	if (!find_carrier(path, sizeof path)) {
		*ret_fix = "install the package passt, or run Cell as root";
		return "without root an open network needs the program pasta, which is not there";
	}
	if (access(TUN, R_OK | W_OK) < 0) {
		*ret_fix = errno == ENOENT ? "as root: modprobe tun" : "as root: chmod 0666 " TUN;
		return "without root an open network needs " TUN ", which cannot be opened";
	}
	return NULL;
}

/* Two fds and a byte to the keeper. */
static int hand_over(int fd, int pidfd, int userns)
{
	const int fds[2] = {pidfd, userns};
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof fds)];
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof fds),
			     .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {.iov_base = (char[]){0}, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control};

	memcpy(CMSG_DATA(&control.head), fds, sizeof fds);
	return sendmsg(fd, &m, MSG_NOSIGNAL) == 1 ? 0 : -errno;
}

static int await_carrier(int fd, struct cell_error *err)
{
	char text[400];
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int r;

	do
		r = poll(&p, 1, CARRIER_TIMEOUT_MS);
	while (r < 0 && errno == EINTR);
	ssize_t n = r > 0 ? recv(fd, text, sizeof text - 1, 0) : -1;
	if (n == 1 && !text[0])
		return 0;
	if (r == 0)
		return cell_fail(err, CELL_ETIMEOUT, ETIMEDOUT, "connect the network: pasta hangs");
	text[n > 0 ? n : 0] = '\0';
	r = cell_fail(err, CELL_EBACKEND, EIO, "connect the network: %.180s",
		n > 0 ? text : "its keeper died");
	const char *fix = NULL;
	if (jail_net_lack(&fix))
		return cell_error_hint(err, r, "%s", fix);
	return cell_error_hint(err, r,
		"the host itself must have a default route; or use --network none, or root");
}

int jail_net_carry(const struct jail_net *net, pid_t pid, int pidfd, struct cell_error *err)
{
	/* no port of the host leads into the cell or back; the gateway's address is the gateway's;
	 * nothing is said to a cell that asks by DHCP or router solicitation */
	static const char *const fixed[] = {"--quiet", "--config-net", "--no-map-gw", "--no-dhcp",
		"--no-dhcpv6", "--no-ra", "-t", "none", "-u", "none", "-T", "none", "-U", "none",
		"--ns-ifname", "eth0", NULL};
	const char *argv[32] = {"cell-net"};
	char *const envp[] = {NULL};
	char number[16];
	size_t n = 1;
	int pair[2];

	(void)snprintf(number, sizeof number, "%d", (int)pid);
	argv[n++] = number;
	argv[n++] = net->carrier;
	for (size_t i = 0; fixed[i]; i++)
		argv[n++] = fixed[i];
	if (net->forwards_dns) {
		argv[n++] = "--dns-forward";
		argv[n++] = JAIL_NET_RESOLVER;
	}
	auto_fd int userns = jail_client_userns(err);
	if (userns < 0)
		return userns;
	auto_fd int image = jail_client_image(err);
	if (image < 0)
		return image;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cell_fail_errno(err, errno, "make a socket pair for the network");
	auto_fd int ours = pair[0];
	auto_fd int theirs = pair[1];
	struct cell_spawn s = {.image_fd = image,
		.argv = (char *const *)(uintptr_t)argv,
		.envp = envp,
		.pass_fd = theirs,
		.is_detached = true};
	int r = cell_process_spawn(&s);
	if (r < 0)
		return cell_fail_errno(err, -r, "start the keeper of the network");
	cell_closep(&theirs);
	theirs = -1;
	r = hand_over(ours, pidfd, userns);
	if (r < 0)
		return cell_fail_errno(err, -r, "start the keeper of the network");
	return await_carrier(ours, err);
}

/* ---- destinations ---- */

int jail_net_add(struct launcher_request *rq, const struct launcher_rule *r, struct cell_error *err)
{
	if (rq->n_rules == LAUNCHER_MAX_RULES) {
		int e = cell_fail(err, CELL_ELIMIT, E2BIG,
			"open the network: more than %u destinations and addresses of the host",
			LAUNCHER_MAX_RULES);
		return cell_error_hint(err, e, "name fewer, larger ranges");
	}
	rq->rules[rq->n_rules++] = *r;
	return 0;
}

bool jail_net_is_own(const struct launcher_request *rq, const struct launcher_rule *r)
{
	static const uint8_t loopback6[16] = {[15] = 1};

	if (r->family == 4 && (r->addr[0] == 127 || r->addr[0] == 0))
		return true;
	if (r->family == 6 && !memcmp(r->addr, loopback6, sizeof loopback6))
		return true;
	for (size_t i = 0; i < rq->n_rules; i++)
		if (rq->rules[i].kind == LAUNCHER_RULE_OWN && rq->rules[i].family == r->family &&
			!memcmp(rq->rules[i].addr, r->addr, sizeof r->addr))
			return true;
	return false;
}

/* The host's own addresses as they are now. Rootful, the host's rules know them at any time. */
static int add_own(struct launcher_request *rq, struct cell_error *err)
{
	struct ifaddrs *all = NULL;
	int r = 0;

	if (getifaddrs(&all) < 0)
		return cell_fail_errno(err, errno, "list the host's addresses");
	for (const struct ifaddrs *i = all; i && r == 0; i = i->ifa_next) {
		struct launcher_rule own = {.kind = LAUNCHER_RULE_OWN};

		if (!i->ifa_addr)
			continue;
		if (i->ifa_addr->sa_family == AF_INET) {
			own.family = 4;
			own.prefix = 32;
			memcpy(own.addr,
				&((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr,
				4);
		} else if (i->ifa_addr->sa_family == AF_INET6) {
			own.family = 6;
			own.prefix = 128;
			memcpy(own.addr,
				&((const struct sockaddr_in6 *)(const void *)i->ifa_addr)
					 ->sin6_addr,
				16);
		}
		/* loopback and link-local ones are closed anyway */
		if (own.family && !jail_net_is_own(rq, &own) &&
			!(own.family == 6 && own.addr[0] == 0xfe))
			r = jail_net_add(rq, &own, err);
	}
	freeifaddrs(all);
	return r;
}

static int add_named(const char *text, struct launcher_request *rq, struct cell_error *err)
{
	struct cell_destination d;

	if (cell_destination_parse(text, &d) < 0) {
		int r = cell_fail(err, CELL_EINVAL, 0, "network.private: '%s'", text);
		return cell_error_hint(err, r,
			"give an address or a range: 10.1.2.0/24, 10.1.2.3:5432, [fd00::1]:443");
	}
	struct launcher_rule rule = {.kind = LAUNCHER_RULE_NAMED,
		.family = d.family,
		.prefix = d.prefix,
		.port = d.port};
	memcpy(rule.addr, d.addr, sizeof rule.addr);
	const char *problem = launcher_rule_problem(&rule);
	if (problem) {
		int r = cell_fail(err, CELL_EDENIED, 0, "network.private: '%s': %s", text, problem);
		return cell_error_hint(err, r, "leave it out, or give what is meant exactly");
	}
	if (d.prefix == (d.family == 4 ? 32 : 128) && jail_net_is_own(rq, &rule)) {
		int r = cell_fail(err, CELL_EDENIED, 0,
			"network.private: '%s' is an address of the host itself", text);
		return cell_error_hint(err, r,
			"services of the host are never open to a cell: run them elsewhere, or "
			"mount a socket of theirs");
	}
	return jail_net_add(rq, &rule, err);
}

int jail_net_plan(const struct cell_spec *spec, struct launcher_request *rq, struct jail_net *ret,
	struct cell_error *err)
{
	struct launcher_reply hello;
	int r = jail_client_hello(&hello, err);

	if (r < 0)
		return r;
	*ret = (struct jail_net){.is_rootful = hello.can & LAUNCHER_IS_ROOTFUL};
	if (!ret->is_rootful && !find_carrier(ret->carrier, sizeof ret->carrier)) {
		const char *fix = "", *why = jail_net_lack(&fix);

		r = cell_fail(err, CELL_ENOTSUP, ENOENT, "open the network: %s", why ? why : "");
		return cell_error_hint(err, r, "%s", fix);
	}
	rq->head.flags |= LAUNCHER_NET_OPEN;
	r = add_own(rq, err);
	for (size_t i = 0; r == 0 && spec->network_private && spec->network_private[i]; i++)
		r = add_named(spec->network_private[i], rq, err);
	if (r == 0)
		r = jail_net_resolvers(spec, rq, ret, err);
	rq->texts[LAUNCHER_TEXT_RESOLV] = ret->resolv;
	return r;
}
