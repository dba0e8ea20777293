/* SPDX-License-Identifier: Apache-2.0 */
/* terminal.h: the user's terminal in raw mode while a terminal in a cell is shown on it. It is put
 * back at exit, on every signal that ends or stops the process, and when the process crashes. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* stdin's terminal into raw mode. -errno when stdin is no terminal. May be repeated: somebody
 * else may have changed the mode while this process was stopped. */
int cli_terminal_raw(void);
/* Back to what it was. Async-signal-safe; does nothing when not raw. */
void cli_terminal_restore(void);
bool cli_terminal_is_raw(void);
/* The size of the terminal of stdin, stdout or stderr, whichever is one; 24 x 80 when none is. */
void cli_terminal_size(uint16_t *rows, uint16_t *cols);

/* The way out of a terminal whose command does not end: Ctrl-] three times within a second. Feed it
 * what the user types; true when the sequence is complete. Zeroed means fresh. */
struct cli_escape {
	unsigned count;
	uint64_t first_ms;
};
bool cli_escape_feed(struct cli_escape *e, const uint8_t *p, size_t n, uint64_t now_ms);
