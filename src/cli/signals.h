/* SPDX-License-Identifier: Apache-2.0 */
/*
 * signals.h: signals as something to poll for. Handlers, not a blocked mask and not SIG_IGN: both
 * would be inherited by what the library starts, a handler is not.
 */
#pragma once
#include <stdbool.h>

/* From now on INT, TERM, HUP, QUIT, USR1, USR2, TSTP, CONT, WINCH are kept for cli_signals_next(),
 * and PIPE does nothing (writes give EPIPE). Call once. */
void cli_signals_catch(void);
/* Readable when there is something for cli_signals_next(). */
int cli_signals_fd(void);
/* The next signal, 0 when there is none. Never blocks. */
int cli_signals_next(void);
/* The last signal among INT, TERM, HUP and QUIT that has come, 0 if none has: for callbacks of long
 * operations, which stop when it is not 0. */
int cli_signals_stop(void);
/* After so many of INT, TERM, HUP and QUIT the next one ends the process at once with 128 + n, terminal put
 * back: 1 for stretches that block outside our loop, 0 for those that only wait. CLI_PATIENT: never. */
#define CLI_PATIENT (-1)
void cli_signals_patience(int n_signals);
/* Stop this process as Ctrl-Z would, terminal put back; returns when it is continued. */
void cli_signals_suspend(void);

/* "TERM", "SIGTERM", "15": the number, or -1. */
int cli_signal_number(const char *word);
/* "TERM"; NULL when there is no such signal. */
const char *cli_signal_name(int signal);
