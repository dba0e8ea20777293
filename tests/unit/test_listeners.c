/* SPDX-License-Identifier: Apache-2.0 */
/* Mirrors src/guest/listeners.c. */
#include <string.h>

#include "guest/listeners.h"
#include "test.h"

static char seen[512];

static int note(const struct listener *l, void *user)
{
	size_t at = strlen(seen);

	(void)user;
	snprintf(seen + at, sizeof seen - at, "%s %u %u\n", l->address, l->port, l->uid);
	return 0;
}

static const char *read_text(const char *text)
{
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

	seen[0] = '\0';
	(void)listeners_read(f, note, NULL);
	fclose(f);
	return seen;
}

#define REST                                                                                       \
	" 00000000:00000000 00:00000000 00000000  1000        0 12345 1 0000000000000000 100 0 0 " \
	"10 0\n"

TEST(listening_sockets_are_told_and_no_others)
{
	ASSERT_STR(read_text("  sl  local_address rem_address   st tx_queue rx_queue tr tm->when "
			     "retrnsmt   uid  timeout inode\n"
			     "   0: 0100007F:1F90 00000000:0000 0A" REST
			     "   1: 00000000:0050 00000000:0000 0A" REST
			     "   2: 0100007F:1F90 0100007F:D431 01" REST),
		"127.0.0.1 8080 1000\n0.0.0.0 80 1000\n");
	ASSERT_STR(read_text("   0: 00000000000000000000000001000000:1F90 "
			     "00000000000000000000000000000000:0000 0A" REST
			     "  10: 00000000000000000000000000000000:0016 "
			     "00000000000000000000000000000000:0000 0A" REST),
		"::1 8080 1000\n:: 22 1000\n");
}

TEST(what_is_no_line_is_passed_over)
{
	ASSERT_STR(read_text("\n0\n0: zz:1 0:0 0A\n0: 0100007:1F90 00000000:0000 0A" REST
			     "0: 0100007F:0000 00000000:0000 0A" REST "0: 0100007F:1F90\n"),
		"");
}
