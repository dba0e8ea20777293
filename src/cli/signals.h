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
/* While true, a second INT, TERM, HUP or QUIT ends the process at once (128 + n), terminal put
 * back: for stretches that block outside our loop. */
void cli_signals_impatient(bool is_impatient);
/* INT, TERM, HUP and QUIT have their default effect again: for verbs that only look, and wait
 * inside the library. */
void cli_signals_die_at_once(void);
/* Stop this process as Ctrl-Z would, terminal put back; returns when it is continued. */
void cli_signals_suspend(void);

/* "TERM", "SIGTERM", "15": the number, or -1. */
int cli_signal_number(const char *word);
/* "TERM"; NULL when there is no such signal. */
const char *cli_signal_name(int signal);
