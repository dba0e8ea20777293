/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c: signals as something to poll for, and their names. */
#include "cli/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/terminal.h"
#include "cli/units.h"

static int pipe_fds[2] = {-1, -1};
static volatile sig_atomic_t stop_signal;
static volatile sig_atomic_t n_stops;
static volatile sig_atomic_t patience = CLI_PATIENT;

static bool is_stop(int signal)
{
	return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

static void handle(int signal)
{
	int saved = errno;
	uint8_t byte = (uint8_t)signal;

	if (is_stop(signal)) {
		stop_signal = signal;
		n_stops = n_stops + 1;
		if (patience != CLI_PATIENT && n_stops > patience) {
			cli_terminal_restore();
			_exit(CLI_EXIT_SIGNAL + signal);
		}
	}
	/* Full: a thousand signals are waiting already, one more makes no difference. */
	if (write(pipe_fds[1], &byte, 1) < 0)
		errno = saved;
	errno = saved;
}

static void do_nothing(int signal)
{
	(void)signal;
}

void cli_signals_catch(void)
{
	static const int caught[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
	struct sigaction act = {.sa_handler = handle, .sa_flags = SA_RESTART};

	if (pipe_fds[0] >= 0)
		return;
	if (pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK) < 0)
		abort();
	for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++) {
		struct sigaction old;
		/* What our parent ignores (nohup, a background job of a plain shell) stays so. */
		if (sigaction(caught[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
			(void)sigaction(caught[i], &act, NULL);
	}
	act.sa_handler = do_nothing;
	(void)sigaction(SIGPIPE, &act, NULL);
}

int cli_signals_fd(void)
{
	return pipe_fds[0];
}

int cli_signals_next(void)
{
	uint8_t byte;

	return pipe_fds[0] >= 0 && read(pipe_fds[0], &byte, 1) == 1 ? byte : 0;
}

int cli_signals_stop(void)
{
	return stop_signal;
}

void cli_signals_patience(int n_signals)
{
	patience = n_signals;
	n_stops = 0;
}

void cli_signals_suspend(void)
{
	bool was_raw = cli_terminal_is_raw();

	cli_terminal_restore();
	(void)raise(SIGSTOP);
	if (was_raw)
		(void)cli_terminal_raw();
}

int cli_signal_number(const char *word)
{
	uint64_t number;

	if (cli_parse_number(word, &number) == 0)
		return number < NSIG && number > 0 ? (int)number : -1;
	if (!strncasecmp(word, "SIG", 3))
		word += 3;
	for (int i = 1; i < NSIG; i++) {
		const char *name = sigabbrev_np(i);
		if (name && !strcasecmp(name, word))
			return i;
	}
	return -1;
}

const char *cli_signal_name(int signal)
{
	return signal > 0 && signal < NSIG ? sigabbrev_np(signal) : NULL;
}
