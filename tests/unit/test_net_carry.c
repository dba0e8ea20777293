/* SPDX-License-Identifier: Apache-2.0 */
/* test_net_carry.c: a stream as a file descriptor, whole and in pieces. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "net/carry.h"
#include "test.h"

/* Two bytes before each piece: whose it is, how long it is. */
static bool read_head(const uint8_t *head, uint32_t *ret_size)
{
	*ret_size = head[1];
	return head[0] == 'o';
}
static const struct net_framing framing = {.head_size = 2, .read = read_head};

/* far: what is at the other end of the stream. */
static int begin(int *far, struct buf *rest, const struct net_framing *f)
{
	struct net_stream s;
	int pair[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	ASSERT_OK(fcntl(pair[0], F_SETFL, O_NONBLOCK));
	ASSERT_OK(net_stream_init(&s, pair[0], NULL, false, NULL, NULL));
	*far = pair[1];
	int fd = net_carry(&s, rest, f);
	ASSERT(fd >= 0);
	ASSERT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	return fd;
}

static void expect(int fd, const char *text)
{
	char have[256];
	size_t n = 0, want = strlen(text);

	while (n < want) {
		ssize_t k = read(fd, have + n, want - n);
		ASSERT(k > 0);
		n += (size_t)k;
	}
	have[n] = '\0';
	ASSERT_STR(have, text);
}

static void say(int fd, const char *text)
{
	ASSERT_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

TEST(bytes_go_both_ways_and_what_came_before_is_first)
{
	struct buf rest = BUF_INIT(64);
	int far;

	ASSERT_OK(buf_addz(&rest, "early "));
	auto_fd int fd = begin(&far, &rest, NULL);
	ASSERT_EQ(rest.len, 0); /* taken */
	say(far, "late");
	expect(fd, "early late");
	say(fd, "back");
	expect(far, "back");
	close(far);
}

TEST(pieces_lose_their_heads_wherever_they_are_cut)
{
	struct buf rest = BUF_INIT(64);
	int far;

	ASSERT_OK(buf_addz(&rest, "o\003on"));
	auto_fd int fd = begin(&far, &rest, &framing);
	expect(fd, "on");
	say(far, "eo");
	expect(fd, "e");
	say(far, "\005 two ");
	expect(fd, " two ");
	say(far, "o\005three");
	expect(fd, "three");
	say(fd, "o\003raw"); /* the other way has no pieces */
	expect(far, "o\003raw");
	close(far);
}

TEST(what_is_not_ours_is_passed_over)
{
	struct buf rest = {0};
	int far;
	auto_fd int fd = begin(&far, &rest, &framing);

	say(far, "e\007unheardo\004heare\001xo\001d");
	expect(fd, "heard");
	close(far);
}

TEST(each_side_that_ends_ends_the_other)
{
	struct buf rest = {0};
	char c;
	int far, fd = begin(&far, &rest, NULL);

	close(far);
	ASSERT_EQ(read(fd, &c, 1), 0);
	close(fd);
	fd = begin(&far, &rest, NULL);
	close(fd);
	ASSERT_EQ(read(far, &c, 1), 0);
	close(far);
}

/* Gives back what it gets. */
static void *echo(void *arg)
{
	char piece[4096];
	int fd = *(int *)arg;

	for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0;)
		for (ssize_t sent = 0, k; sent < n; sent += k)
			if ((k = write(fd, piece + sent, (size_t)(n - sent))) < 0)
				return NULL;
	return NULL;
}

TEST(more_than_either_side_holds_arrives_whole)
{
	enum {
		SIZE = 3 << 20
	};
	struct buf rest = {0};
	int far, fd = begin(&far, &rest, NULL);
	auto_free char *bytes = malloc(SIZE);
	auto_free char *back = malloc(SIZE);
	size_t n = 0;
	pthread_t other;

	for (size_t i = 0; i < SIZE; i++)
		bytes[i] = (char)(i * 7 + i / 251);
	ASSERT_EQ(pthread_create(&other, NULL, echo, &far), 0);
	for (size_t sent = 0; n < SIZE;) {
		struct pollfd p = {fd, (short)(POLLIN | (sent < SIZE ? POLLOUT : 0)), 0};
		ASSERT(poll(&p, 1, -1) > 0);
		ssize_t k =
			p.revents & POLLOUT ? send(fd, bytes + sent, SIZE - sent, MSG_DONTWAIT) : 0;
		sent += k > 0 ? (size_t)k : 0;
		k = p.revents & POLLIN ? recv(fd, back + n, SIZE - n, MSG_DONTWAIT) : -1;
		ASSERT(k != 0);
		n += k > 0 ? (size_t)k : 0;
	}
	ASSERT(memcmp(bytes, back, SIZE) == 0);
	close(fd);
	ASSERT_EQ(pthread_join(other, NULL), 0);
	close(far);
}
