/* SPDX-License-Identifier: Apache-2.0 */
/* history.h: what was typed before, in a file of the user's: one entry a line, with \n and \\ for a new line and a backslash. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#define HISTORY_MAX 1000

struct history {
	char **entries; /* oldest first */
	size_t n;
	size_t at;   /* the one shown; n: none, what is being typed */
	char *path;  /* NULL: not kept */
	char *draft; /* what was being typed when the user went back */
};

/* Reads $XDG_STATE_HOME/cell/history-LANGUAGE (~/.local/state without it). What cannot be read is empty. */
void history_open(struct history *h, const char *language);
void history_close(struct history *h);
/* At the end, and in the file; not twice the same in a row, nor what is blank. */
void history_add(struct history *h, const char *text);
/* The entry before or after the one shown; NULL: there is none. `now` is what is typed, kept when leaving it. */
const char *history_older(struct history *h, const char *now);
const char *history_newer(struct history *h);
/* The newest entry before `from` (n: from the end) that has the text in it; its place, or SIZE_MAX. */
size_t history_search(const struct history *h, const char *text, size_t from);
