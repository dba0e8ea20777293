/* SPDX-License-Identifier: Apache-2.0 */
/* attempts_net.c: sockets, the host's services, other cells. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "attempt.h"

static enum result family(int domain, int type, int protocol)
{
	int fd = socket(domain, type, protocol);

	return outcome(fd);
}

static enum result packet(const char *arg)
{
	(void)arg;
	return family(AF_PACKET, SOCK_RAW, 0);
}

static enum result raw(const char *arg)
{
	(void)arg;
	return family(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

static enum result alg(const char *arg)
{
	(void)arg;
	return family(38 /* AF_ALG */, SOCK_SEQPACKET, 0);
}

static enum result vsock(const char *arg)
{
	(void)arg;
	return family(40 /* AF_VSOCK */, SOCK_STREAM, 0);
}

static enum result netfilter(const char *arg)
{
	(void)arg;
	return family(AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER);
}

static enum result netlink_generic(const char *arg)
{
	(void)arg;
	return family(AF_NETLINK, SOCK_RAW, NETLINK_GENERIC);
}

/* "127.0.0.1:4711" */
static enum result tcp(const char *arg)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};
	char host[64];
	unsigned port = 0;

	if (sscanf(arg, "%63[^:]:%u", host, &port) != 2 ||
		inet_pton(AF_INET, host, &sa.sin_addr) != 1)
		return CANNOT;
	sa.sin_port = htons((uint16_t)port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	return outcome(connect(fd, (struct sockaddr *)&sa, sizeof sa));
}

static enum result udp(const char *arg)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(53)};

	if (inet_pton(AF_INET, arg, &sa.sin_addr) != 1)
		return CANNOT;
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	return outcome(sendto(fd, "x", 1, MSG_DONTWAIT, (struct sockaddr *)&sa, sizeof sa));
}

static enum result connect_unix(const char *name, bool is_abstract, int type)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	size_t n = strlen(name);

	memcpy(sa.sun_path + is_abstract, name, n);
	int fd = socket(AF_UNIX, type, 0);
	return outcome(connect(fd, (struct sockaddr *)&sa,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + is_abstract)));
}

static enum result abstract(const char *name)
{
	return connect_unix(name, true, SOCK_STREAM);
}

static enum result path_socket(const char *name)
{
	return connect_unix(name, false, SOCK_STREAM);
}

/* Leave something everywhere that a neighbour might find, and stay. */
static enum result leave_traces(const char *mark)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET,
		.sin_port = htons(47111),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char path[128];
	const char *const dirs[] = {"/tmp", "/dev/shm", "/var/tmp"};

	for (int i = 0; i < 3; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", dirs[i], mark);
		int fd = open(path, O_WRONLY | O_CREAT, 0666);
		if (fd < 0)
			return CANNOT;
		(void)fchmod(fd, 0666);
	}
	int id = shmget(0x63656c6c, 4096, IPC_CREAT | 0666);
	memcpy(sa.sun_path + 1, mark, strlen(mark));
	int s = socket(AF_UNIX, SOCK_STREAM, 0), t = socket(AF_INET, SOCK_STREAM, 0);
	if (id < 0 ||
		bind(s, (struct sockaddr *)&sa,
			(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(mark))) <
			0 ||
		listen(s, 1) < 0 || bind(t, (struct sockaddr *)&in, sizeof in) < 0 ||
		listen(t, 1) < 0)
		return CANNOT;
	say("ready");
	(void)getchar();
	(void)shmctl(id, IPC_RMID, NULL);
	for (int i = 0; i < 3; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", dirs[i], mark);
		(void)unlink(path);
	}
	return DID_IT;
}

static enum result find_traces(const char *mark)
{
	const char *const dirs[] = {"/tmp", "/dev/shm", "/var/tmp"};
	char path[128];

	for (int i = 0; i < 3; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", dirs[i], mark);
		if (access(path, F_OK) == 0) {
			say("%s is there", path);
			return DID_IT;
		}
	}
	if (shmget(0x63656c6c, 4096, 0666) >= 0 || abstract(mark) == DID_IT ||
		tcp("127.0.0.1:47111") == DID_IT)
		return DID_IT;
	return REFUSED;
}

const struct attempt attempts_net[] = {
	{"packet", packet},
	{"raw", raw},
	{"alg", alg},
	{"vsock", vsock},
	{"netfilter", netfilter},
	{"genetlink", netlink_generic},
	{"tcp", tcp},
	{"udp", udp},
	{"abstract", abstract},
	{"path-socket", path_socket},
	{"leave-traces", leave_traces},
	{"find-traces", find_traces},
	{0},
};
