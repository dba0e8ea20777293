/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_cron.c: schedules. What is accepted has a next run that fits it, or none at all. */
#include <stdlib.h>
#include <string.h>

#include "server/clock.h"
#include "server/cron.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cron c;
	struct cell_error err = {0};
	auto_zone struct zone *utc = NULL;
	char text[CRON_TEXT_MAX + 16];
	int64_t at = 1700000000, next, due[CRON_CATCH_UP];
	uint64_t dropped;

	if (size >= sizeof text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	if (cron_parse(text, &c, &err) < 0) {
		if (err.code != CELL_EINVAL)
			abort();
		return 0;
	}
	if (zone_open("UTC", &utc, &err) < 0)
		return 0;
	for (int i = 0; i < 3 && cron_next(&c, utc, at, &next) == 0; i++, at = next) {
		struct clock_date d;
		clock_split(next, &d);
		if (next <= at || d.second || !(c.minutes >> d.minute & 1) ||
			!(c.hours >> d.hour & 1) || !(c.months >> d.month & 1))
			abort();
	}
	if (cron_due(&c, utc, 1699990000, 1700000000, CRON_MISSED_ALL, due, &dropped) >
		CRON_CATCH_UP)
		abort();
	return 0;
}
