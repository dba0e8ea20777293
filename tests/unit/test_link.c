/* SPDX-License-Identifier: Apache-2.0 */
/* test_link.c: the host's end of a connection, against a guest that is played by hand. */
#include <sys/socket.h>

#include "core/link.h"
#include "test.h"

static struct link *the_link;
static int peer;

static void say(unsigned type, unsigned chan, uint32_t stream, const void *p, size_t n)
{
	uint8_t frame[WIRE_HEADER_SIZE + WIRE_MAX_PAYLOAD];

	wire_header_put(frame, &(struct wire_header){.len = (uint32_t)n,
				       .type = (uint8_t)type,
				       .chan = (uint8_t)chan,
				       .stream = stream});
	if (n)
		memcpy(frame + WIRE_HEADER_SIZE, p, n);
	ASSERT_EQ(send(peer, frame, WIRE_HEADER_SIZE + n, MSG_NOSIGNAL), WIRE_HEADER_SIZE + n);
}

static void say_data(uint32_t stream, uint64_t offset, size_t n)
{
	static uint8_t data[WIRE_MAX_PAYLOAD];

	wire_u64_put(data, offset);
	say(WIRE_DATA, WIRE_CHAN_OUT, stream, data, 8 + n);
}

static void say_hello(void)
{
	auto_buf struct buf b = BUF_INIT(256);

	(void)wire_put_u64(&b, WIRE_T_MAGIC, WIRE_MAGIC);
	(void)wire_put_u64(&b, WIRE_T_VERSION, WIRE_VERSION);
	say(WIRE_HELLO, 0, 0, b.data, b.len);
}

static void open_link(void)
{
	int sv[2];

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	peer = sv[1];
	say_hello();
	ASSERT_OK(link_open(sv[0], 1000, &the_link, NULL));
}

/* Read away what the host said, so that it is never blocked. */
static void ignore_host(void)
{
	static uint8_t junk[65536];

	while (recv(peer, junk, sizeof junk, MSG_DONTWAIT) > 0)
		;
}

TEST(a_reader_of_two_streams_may_lag_behind_for_ever)
{
	struct link_stream *a, *b;
	struct link_event ev;
	uint64_t sent_a = 0, sent_b = 0, got_a = 0;

	open_link();
	ASSERT_OK(link_request(the_link, WIRE_OP_INFO, NULL, &a, NULL));
	ASSERT_OK(link_request(the_link, WIRE_OP_INFO, NULL, &b, NULL));
	for (int i = 0; i < 3; i++, sent_a += 32768) /* a's inbox is never empty from here on */
		say_data(1, sent_a, 32768);
	for (int i = 0; i < 1000; i++) { /* 32 MiB: four times what an inbox may hold */
		say_data(1, sent_a, 32768);
		sent_a += 32768;
		say_data(2, sent_b, 1);
		sent_b++;
		ASSERT_OK(link_next(b, 1000, &ev, NULL));
		ASSERT_EQ(ev.type, LINK_DATA);
		ASSERT_OK(link_next(a, 1000, &ev, NULL));
		ASSERT_EQ(ev.type, LINK_DATA);
		ASSERT_EQ(ev.offset, got_a);
		got_a += ev.len;
		ignore_host();
	}
	link_free(the_link);
}

TEST(more_than_a_window_for_a_stream_nobody_reads_breaks_the_link)
{
	struct link_stream *a, *b;
	struct link_event ev;
	uint64_t sent = 0;
	int r = 0;

	open_link();
	ASSERT_OK(link_request(the_link, WIRE_OP_INFO, NULL, &a, NULL));
	ASSERT_OK(link_request(the_link, WIRE_OP_INFO, NULL, &b, NULL));
	for (int i = 0; i < 1000 && r == 0; i++) {
		say_data(1, sent, 32768);
		sent += 32768;
		r = link_next(b, 0, &ev, NULL);
	}
	ASSERT(r < 0);
	ASSERT(sent <= WIRE_MAX_WINDOW + (1u << 20));
	link_free(the_link);
}

static pid_t flood(void)
{
	pid_t pid = fork();

	ASSERT(pid >= 0);
	if (pid > 0)
		return pid;
	for (;;)
		say(WIRE_PING, 0, 0, "12345678", 8);
}

TEST(a_guest_that_chatters_does_not_keep_a_reader_past_its_time)
{
	struct link_stream *a, *b;
	struct link_event ev;

	open_link();
	ASSERT_OK(link_request(the_link, WIRE_OP_INFO, NULL, &a, NULL));
	ASSERT_OK(link_request(the_link, WIRE_OP_INFO, NULL, &b, NULL));
	pid_t pid = flood();
	ASSERT_OK(link_next(a, 50, &ev, NULL)); /* the test's own deadline is the assertion */
	ASSERT_EQ(ev.type, LINK_NONE);
	ASSERT(kill(pid, SIGKILL) == 0);
	link_free(the_link);
}

TEST(a_guest_that_chatters_instead_of_a_hello_is_given_up)
{
	struct cell_error err = {0};
	int sv[2];

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	peer = sv[1];
	pid_t pid = flood();
	ASSERT(link_open(sv[0], 50, &the_link, &err) < 0);
	ASSERT(kill(pid, SIGKILL) == 0);
}

TEST(a_limit_the_guest_has_reached_is_told_as_one)
{
	auto_buf struct buf b = BUF_INIT(256);
	struct cell_error err = {0};
	int sv[2];

	ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv) == 0);
	peer = sv[1];
	(void)wire_put_u64(&b, WIRE_T_CODE, CELL_ELIMIT);
	(void)wire_put_str(&b, WIRE_T_MESSAGE, "too many clients");
	say(WIRE_GOAWAY, 0, 0, b.data, b.len);
	ASSERT_ERR(link_open(sv[0], 1000, &the_link, &err), -EAGAIN);
	ASSERT_EQ(err.code, CELL_ELIMIT);
	ASSERT(strstr(err.msg, "too many clients"));
}

TEST(a_connection_that_ends_ends_every_wait)
{
	struct cell_error err = {0};
	struct link_stream *a;
	struct link_event ev;

	open_link();
	ASSERT_OK(link_request(the_link, WIRE_OP_INFO, NULL, &a, NULL));
	close(peer);
	ASSERT(link_next(a, -1, &ev, &err) < 0);
	ASSERT_EQ(err.code, CELL_EGONE);
	ASSERT(link_send(a, "x", 1, -1, NULL) < 0);
	link_free(the_link);
}
