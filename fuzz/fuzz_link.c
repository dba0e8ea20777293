/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_link: a hostile guest. The input's first byte chooses what the host asks for and whether a proper hello
 * comes first; the rest is what the guest says. Whatever it is, the host's calls return once the connection
 * has ended.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/link.h"

static void say_hello(int fd)
{
	auto_buf struct buf b = BUF_INIT(256);
	uint8_t header[WIRE_HEADER_SIZE];

	(void)wire_put_u64(&b, WIRE_T_MAGIC, WIRE_MAGIC);
	(void)wire_put_u64(&b, WIRE_T_VERSION, WIRE_VERSION);
	wire_header_put(header, &(struct wire_header){.len = (uint32_t)b.len, .type = WIRE_HELLO});
	(void)!send(fd, header, sizeof header, MSG_NOSIGNAL);
	(void)!send(fd, b.data, b.len, MSG_NOSIGNAL);
}

/* Take events of two streams in turn, writing in between, until both are over or the link is. */
static void talk(struct link *l, bool is_writing)
{
	struct link_stream *s[2] = {NULL, NULL};
	struct cell_error err;
	bool is_over[2] = {false, false};

	for (int i = 0; i < 2; i++) {
		if (link_request(l, (uint16_t)(WIRE_OP_EXEC + i), NULL, &s[i], &err) < 0)
			is_over[i] = true;
	}
	while (!is_over[0] || !is_over[1]) {
		for (int i = 0; i < 2; i++) {
			struct link_event ev;

			if (is_over[i])
				continue;
			if (is_writing && link_send(s[i], "some bytes", 10, 0, &err) < 0)
				is_over[i] = true;
			if (!is_over[i] && link_next(s[i], -1, &ev, &err) < 0)
				is_over[i] = true;
			else if (!is_over[i] && ev.type == LINK_END)
				is_over[i] = link_end_error(&ev, &err) <= 0;
		}
	}
	link_stream_free(s[0]);
	link_stream_free(s[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cell_error err;
	struct link *l;
	int sv[2];

	if (size < 1 || size > 65536 || socketpair(AF_UNIX, SOCK_STREAM, 0, sv) < 0)
		return 0;
	if (data[0] & 1)
		say_hello(sv[1]);
	if (size > 1)
		(void)!send(sv[1], data + 1, size - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
	(void)shutdown(sv[1], SHUT_WR);
	if (link_open(sv[0], data[0] & 2 ? 1000 : 0, &l, &err) == 0) {
		if (data[0] & 4)
			(void)link_call(l, WIRE_OP_INFO, NULL, NULL, &err);
		else
			talk(l, data[0] & 8);
		link_free(l);
	}
	close(sv[1]);
	return 0;
}
