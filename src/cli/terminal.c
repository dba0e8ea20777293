/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.c: raw mode and back, whatever happens; and the way out of a terminal in a cell. */
#include "cli/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#define ESCAPE_BYTE	 0x1d /* Ctrl-] */
#define ESCAPE_TIMES	 3
#define ESCAPE_WITHIN_MS 1000

static struct termios cooked;
static volatile sig_atomic_t is_raw;

void cli_terminal_restore(void)
{
	int saved = errno;

	if (is_raw) {
		is_raw = 0;
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &cooked);
	}
	errno = saved;
}

static void restore_and_die(int signal)
{
	cli_terminal_restore();
	(void)raise(signal); /* the handler was reset: this ends the process */
}

static void guard_once(void)
{
	static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
	static bool is_guarded;

	if (is_guarded)
		return;
	is_guarded = true;
	(void)atexit(cli_terminal_restore);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++) {
		struct sigaction act = {.sa_handler = restore_and_die,
					 .sa_flags = (int)SA_RESETHAND | SA_NODEFER},
				 old;
		if (sigaction(crashes[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			(void)sigaction(crashes[i], &act, NULL);
	}
}

int cli_terminal_raw(void)
{
	struct termios raw;

	if (!is_raw && tcgetattr(STDIN_FILENO, &cooked) < 0)
		return -errno;
	raw = cooked;
	cfmakeraw(&raw);
	guard_once();
	is_raw = 1; /* before: a signal in between must put it back */
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0) {
		int r = -errno;
		is_raw = 0;
		return r;
	}
	return 0;
}

bool cli_terminal_is_raw(void)
{
	return is_raw;
}

void cli_terminal_size(uint16_t *rows, uint16_t *cols)
{
	struct winsize ws;

	*rows = 24;
	*cols = 80;
	for (int fd = 0; fd < 3; fd++) {
		if (ioctl(fd, TIOCGWINSZ, &ws) == 0 && ws.ws_row && ws.ws_col) {
			*rows = ws.ws_row;
			*cols = ws.ws_col;
			return;
		}
	}
}

bool cli_escape_feed(struct cli_escape *e, const uint8_t *p, size_t n, uint64_t now_ms)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] != ESCAPE_BYTE) {
			e->count = 0;
			continue;
		}
		if (!e->count || now_ms - e->first_ms > ESCAPE_WITHIN_MS) {
			e->count = 0;
			e->first_ms = now_ms;
		}
		if (++e->count == ESCAPE_TIMES) {
			e->count = 0;
			return true;
		}
	}
	return false;
}
