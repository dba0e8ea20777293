/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_guard.c: a guard's answer. Only a plain yes is yes; and a token that somebody made up is refused. */
#include <stdlib.h>
#include <string.h>

#include "server/guard.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	for (int status = 0; status <= 400; status += 200) {
		struct policy_decision d = {.effect = POLICY_ASK};
		guard_judge(status, (const char *)data, size, &d);
		if (d.effect == POLICY_ASK || strcmp(d.rule, "guard") != 0)
			abort();
		if (d.effect == POLICY_ALLOW &&
			(status != 200 || !memmem(data, size, "decision", 8)))
			abort();
		for (const char *p = d.reason; *p && status == 200; p++)
			if ((unsigned char)*p < 0x20)
				abort();
	}
	return 0;
}
