/* SPDX-License-Identifier: Apache-2.0 */
/* The line of the progress bar. */
#include "cli/progress.h"
#include "test.h"

static const char *line(const char *title, uint64_t bytes, uint64_t total, uint64_t ms,
	unsigned columns)
{
	static char out[512];

	return cli_progress_line(out, sizeof(out), title, bytes, total, ms, columns);
}

TEST(a_known_total_gives_percent_and_what_is_left)
{
	const char *l = line("big.bin", 50u << 20, 100u << 20, 1000, 100);

	ASSERT(strstr(l, "big.bin"));
	ASSERT(strstr(l, " 50% ["));
	ASSERT(strstr(l, "50 MiB/s"));
	ASSERT(strstr(l, "  1s"));
}

TEST(an_unknown_total_gives_bytes_and_speed)
{
	const char *l = line("dir", 3u << 20, 0, 1000, 100);

	ASSERT(strstr(l, "3.0 MiB") && strstr(l, "/s"));
	ASSERT(!strchr(l, '%'));
}

TEST(the_line_fits_and_odd_numbers_do_no_harm)
{
	static const unsigned widths[] = {0, 1, 2, 10, 40, 80, 200, 400};

	for (size_t i = 0; i < sizeof(widths) / sizeof(widths[0]); i++) {
		(void)line("x", UINT64_MAX, 1, 0, widths[i]);
		(void)line("x", UINT64_MAX, UINT64_MAX, 1, widths[i]);
		const char *l = line("a name that is rather long\n\x1b[2J", 5, 10, 1, widths[i]);
		ASSERT(!strchr(l, '\x1b') && !strchr(l, '\n'));
		ASSERT(!widths[i] || strlen(l) < widths[i]);
	}
}
