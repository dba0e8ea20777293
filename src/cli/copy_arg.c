/* SPDX-License-Identifier: Apache-2.0 */
/* copy_arg.c: what an operand of `cell cp` means. */
#include "cli/copy_arg.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool could_be_name(const char *s, size_t n)
{
	static const char first[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	static const char rest[] = "abcdefghijklmnopqrstuvwxyz0123456789._-";

	if (!n || n >= CELL_NAME_MAX || !strchr(first, s[0]))
		return false;
	for (size_t i = 1; i < n; i++)
		if (!strchr(rest, s[i]))
			return false;
	return true;
}

int cli_copy_arg_parse(const char *word, struct cli_copy_arg *ret, struct cell_error *err)
{
	const char *colon = strchr(word, ':');

	*ret = (struct cli_copy_arg){.place = CLI_PLACE_HOST, .path = word};
	if (!*word) {
		cell_fail(err, CELL_EINVAL, 0, "cp: an operand is empty");
		return cell_error_hint(err, -EINVAL,
			"'.' is the current directory, CELL: a cell's workspace");
	}
	if (!strcmp(word, "-")) {
		ret->place = CLI_PLACE_STDIO;
		return 0;
	}
	if (!colon || !could_be_name(word, (size_t)(colon - word)))
		return 0;
	ret->place = CLI_PLACE_CELL;
	(void)snprintf(ret->cell, sizeof(ret->cell), "%.*s", (int)(colon - word), word);
	ret->path = colon[1] ? colon + 1 : ".";
	return 0;
}

int cli_copy_args_check(const struct cli_copy_arg *args, size_t n, struct cell_error *err)
{
	const struct cli_copy_arg *to = &args[n - 1];

	for (size_t i = 0; i + 1 < n; i++) {
		const struct cli_copy_arg *from = &args[i];
		if (from->place == CLI_PLACE_CELL && to->place == CLI_PLACE_CELL) {
			cell_fail(err, CELL_EINVAL, 0, "cp: both ends are in cells");
			return cell_error_hint(err, -EINVAL,
				"cell cp %s:%.60s - | cell cp - %s:%.60s", from->cell, from->path,
				to->cell, to->path);
		}
		if (from->place != CLI_PLACE_CELL && to->place != CLI_PLACE_CELL) {
			cell_fail(err, CELL_EINVAL, 0, "cp: neither end is in a cell");
			return cell_error_hint(err, -EINVAL,
				"write the one in a cell as CELL:PATH");
		}
		if (n > 2 && (from->place == CLI_PLACE_STDIO || to->place == CLI_PLACE_STDIO)) {
			cell_fail(err, CELL_EINVAL, 0, "cp: '-' takes one file at a time");
			return cell_error_hint(err, -EINVAL, "copy the files one by one");
		}
	}
	return 0;
}

const char *cli_copy_name(const char *path, char *out, size_t size)
{
	size_t end = strlen(path), begin;

	while (end && path[end - 1] == '/')
		end--;
	for (begin = end; begin && path[begin - 1] != '/'; begin--)
		;
	(void)snprintf(out, size, "%.*s", (int)(end - begin), path + begin);
	if (!strcmp(out, ".") || !strcmp(out, ".."))
		*out = 0;
	return out;
}
