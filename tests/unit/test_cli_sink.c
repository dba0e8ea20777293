/* SPDX-License-Identifier: Apache-2.0 */
/* Where a command's output goes: never blocking, never more than one piece in memory. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include "cli/sink.h"
#include "test.h"

#define PIECE (128u * 1024)

static uint8_t piece[PIECE];

TEST(a_slow_reader_makes_the_sink_full_and_loses_nothing)
{
	struct cell_error err = {0};
	struct cli_sink s;
	uint8_t got[4096];
	size_t total = 0, sent = 0;
	int fds[2];

	ASSERT_OK(pipe(fds));
	cli_sink_fd(&s, fds[1], false, 0);
	while (!cli_sink_is_full(&s)) {
		for (size_t i = 0; i < PIECE; i++)
			piece[i] = (uint8_t)((sent + i) * 7);
		ASSERT_OK(cli_sink_put(&s, piece, PIECE, &err));
		sent += PIECE;
	}
	ASSERT(s.waiting.len <= PIECE);
	while (total < sent) {
		ssize_t n = read(fds[0], got, sizeof(got));
		ASSERT(n > 0);
		for (ssize_t i = 0; i < n; i++)
			ASSERT(got[i] == (uint8_t)((total + (size_t)i) * 7));
		total += (size_t)n;
		ASSERT_OK(cli_sink_flush(&s, &err));
	}
	ASSERT(!cli_sink_is_full(&s) && s.total == sent);
	cli_sink_done(&s);
}

TEST(the_inherited_description_stays_blocking)
{
	struct cli_sink s;
	int fds[2];

	ASSERT_OK(pipe(fds));
	cli_sink_fd(&s, fds[1], false, 0);
	ASSERT(!(fcntl(fds[1], F_GETFL) & O_NONBLOCK));
	ASSERT(s.is_fd_owned && (fcntl(s.fd, F_GETFL) & O_NONBLOCK));
	cli_sink_done(&s);
}

TEST(a_reader_that_went_is_no_error)
{
	struct cell_error err = {0};
	struct cli_sink s;
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	ASSERT_OK(pipe(fds));
	cli_sink_fd(&s, fds[1], false, 0);
	close(fds[0]);
	ASSERT_OK(cli_sink_put(&s, "x", 1, &err));
	ASSERT(s.is_broken && !cli_sink_is_full(&s));
	ASSERT_OK(cli_sink_put(&s, "y", 1, &err));
	cli_sink_done(&s);
}

TEST(a_full_disk_is_an_error)
{
	struct cell_error err = {0};
	struct cli_sink s;
	int fd = open("/dev/full", O_WRONLY);

	if (fd < 0)
		SKIP("no /dev/full");
	cli_sink_fd(&s, fd, false, 0);
	ASSERT_ERR(cli_sink_put(&s, "x", 1, &err), -ENOSPC);
	ASSERT(err.code == CELL_ENOSPACE);
	cli_sink_done(&s);
}

TEST(a_socket_does_not_block_either)
{
	struct cell_error err = {0};
	struct cli_sink s;
	int fds[2];

	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds));
	cli_sink_fd(&s, fds[1], false, 0);
	for (int i = 0; i < 1000 && !cli_sink_is_full(&s); i++)
		ASSERT_OK(cli_sink_put(&s, piece, PIECE, &err));
	ASSERT(cli_sink_is_full(&s));
	cli_sink_done(&s);
}

TEST(collecting_stops_at_the_limit_and_counts_on)
{
	struct cell_error err = {0};
	struct cli_sink s;

	cli_sink_collect(&s, 10);
	ASSERT_OK(cli_sink_put(&s, "12345678", 8, &err));
	ASSERT(!s.is_truncated);
	ASSERT_OK(cli_sink_put(&s, "9abc", 4, &err));
	ASSERT_OK(cli_sink_put(&s, "d", 1, &err));
	ASSERT(s.is_truncated && s.total == 13 && s.waiting.len == 10);
	ASSERT_STR(buf_str(&s.waiting), "123456789a");
	ASSERT(!cli_sink_is_full(&s));
	cli_sink_done(&s);
}

TEST(exactly_the_limit_is_not_truncated)
{
	struct cell_error err = {0};
	struct cli_sink s;

	cli_sink_collect(&s, 4);
	ASSERT_OK(cli_sink_put(&s, "1234", 4, &err));
	ASSERT(!s.is_truncated && s.waiting.len == 4);
	cli_sink_done(&s);
}

TEST(a_dropped_stream_is_counted)
{
	struct cell_error err = {0};
	struct cli_sink s;

	cli_sink_drop(&s);
	ASSERT_OK(cli_sink_put(&s, piece, PIECE, &err));
	ASSERT(s.total == PIECE && !s.waiting.len);
	cli_sink_done(&s);
}
