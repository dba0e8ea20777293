/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_guest: a hostile client. The guest's connection code gets the bytes of the input after a proper
 * hello, in pieces whose sizes the input's first byte sets; commands and file operations are parsed to the
 * end, but nothing is started.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "guest/fs.h"
#include "guest/guest.h"
#include "guest/keeper.h"

struct guest guest = {.workspace = "/", .workspace_fd = -1, .spool_fd = -1, .null_fd = 0, .report_fd = -1};

void guest_shutdown(struct stream *s)
{
	(void)s;
	loop_stop();
}

void guest_maybe_leave(void)
{
}

void guest_forget(const struct stream *s)
{
	(void)s;
}

pid_t keeper_start(const struct launch *l, int report_fd)
{
	(void)l, (void)report_fd;
	return -EAGAIN;
}

int keeper_signal(pid_t pid, int sig, bool tree)
{
	(void)pid, (void)sig, (void)tree;
	return -ESRCH;
}

pid_t keeper_leader(pid_t pid)
{
	(void)pid;
	return 0;
}

bool fs_has(uint16_t op)
{
	return op >= WIRE_OP_STAT && op <= WIRE_OP_WATCH;
}

int worker_start(struct stream *s, const struct request *rq, struct cell_error *err)
{
	(void)s, (void)rq;
	return cell_fail(err, CELL_ENOTSUP, EOPNOTSUPP, "no workers here");
}

static void send_all(int fd, const uint8_t *p, size_t n)
{
	while (n) {
		ssize_t k = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (k <= 0)
			return; /* the guest hung up, or the input is larger than a socket's buffer */
		p += k;
		n -= (size_t)k;
	}
}

static void send_hello(int fd)
{
	auto_buf struct buf b = BUF_INIT(256);
	uint8_t header[WIRE_HEADER_SIZE];

	(void)wire_put_u64(&b, WIRE_T_MAGIC, WIRE_MAGIC);
	(void)wire_put_u64(&b, WIRE_T_VERSION, WIRE_VERSION);
	wire_header_put(header, &(struct wire_header){.len = (uint32_t)b.len, .type = WIRE_HELLO});
	send_all(fd, header, sizeof header);
	send_all(fd, b.data, b.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static bool is_ready;
	int sv[2];

	if (!is_ready) {
		if (loop_init() < 0)
			abort();
		is_ready = true;
	}
	if (size < 1 || size > 65536 || socketpair(AF_UNIX, SOCK_STREAM, 0, sv) < 0)
		return 0;
	if (conn_start(sv[1], true) < 0)
		abort();
	if (data[0] & 1)
		send_hello(sv[0]);
	send_all(sv[0], data + 1, size - 1);
	(void)shutdown(sv[0], SHUT_WR);
	if (loop_run() < 0)
		abort();
	close(sv[0]);
	return 0;
}
