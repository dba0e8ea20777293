/* SPDX-License-Identifier: Apache-2.0 */
/* The way out of a terminal, and the names of signals. Raw mode itself is tested with real terminals in
 * tests/cli. */
#include <signal.h>

#include "cli/signals.h"
#include "cli/terminal.h"
#include "test.h"

static bool feed(struct cli_escape *e, const char *keys, uint64_t now_ms)
{
	return cli_escape_feed(e, (const uint8_t *)keys, strlen(keys), now_ms);
}

TEST(three_times_the_key_within_a_second_leaves)
{
	struct cli_escape e = {0};

	ASSERT(!feed(&e, "\x1d", 1000));
	ASSERT(!feed(&e, "\x1d", 1400));
	ASSERT(feed(&e, "\x1d", 1900));
}

TEST(the_keys_may_come_at_once)
{
	struct cli_escape e = {0};

	ASSERT(feed(&e, "ls\x1d\x1d\x1d", 5));
}

TEST(two_times_or_another_key_in_between_does_not_leave)
{
	struct cli_escape e = {0};

	ASSERT(!feed(&e, "\x1d\x1dx\x1d\x1dy", 1000));
	ASSERT(!feed(&e, "\x1d", 1001));
}

TEST(slow_keys_do_not_leave)
{
	struct cli_escape e = {0};

	ASSERT(!feed(&e, "\x1d", 1000));
	ASSERT(!feed(&e, "\x1d", 1500));
	ASSERT(!feed(&e, "\x1d", 2100));
	ASSERT(!feed(&e, "\x1d", 2200));
	ASSERT(feed(&e, "\x1d", 2300));
}

TEST(signals_have_names_and_numbers)
{
	ASSERT(cli_signal_number("TERM") == SIGTERM);
	ASSERT(cli_signal_number("sigkill") == SIGKILL);
	ASSERT(cli_signal_number("9") == 9);
	ASSERT(cli_signal_number("0") == -1);
	ASSERT(cli_signal_number("999") == -1);
	ASSERT(cli_signal_number("99999999999999999999") == -1);
	ASSERT(cli_signal_number("") == -1);
	ASSERT(cli_signal_number("SIG") == -1);
	ASSERT(cli_signal_number("NOPE") == -1);
	ASSERT_STR(cli_signal_name(SIGINT), "INT");
	ASSERT(!cli_signal_name(0));
	ASSERT(!cli_signal_name(-3));
}

TEST(caught_signals_are_read_one_by_one)
{
	cli_signals_catch();
	ASSERT(cli_signals_next() == 0);
	ASSERT(cli_signals_stop() == 0);
	raise(SIGUSR1);
	raise(SIGTERM);
	ASSERT(cli_signals_next() == SIGUSR1);
	ASSERT(cli_signals_next() == SIGTERM);
	ASSERT(cli_signals_next() == 0);
	ASSERT(cli_signals_stop() == SIGTERM);
}

TEST(an_impatient_process_ends_at_the_second_signal)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		cli_signals_catch();
		cli_signals_patience(1);
		raise(SIGINT);
		if (cli_signals_stop() != SIGINT)
			_exit(1);
		raise(SIGINT);
		_exit(2);
	}
	ASSERT(waitpid(pid, &status, 0) == pid);
	ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT);
}
