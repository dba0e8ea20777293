/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_launcher.c: any bytes as a request to the launcher. The first byte says how many fds came. What
 * parses must hold to what request.h promises, and must parse again when it is packed. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/request.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct launcher_request rq, again;
	static char out[LAUNCHER_MAX_REQUEST];
	int fds[LAUNCHER_MAX_FDS + 8], packed[LAUNCHER_MAX_FDS];
	size_t n_packed = 0;
	const char *why = NULL;

	if (size < 1)
		return 0;
	size_t n_fds = data[0] % (LAUNCHER_MAX_FDS + 8);
	for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
		fds[i] = (int)i + 100;
	char *buf = malloc(size); /* its own block: reading past it is seen */
	if (!buf)
		return 0;
	memcpy(buf, data + 1, size - 1);
	if (launcher_parse(buf, size - 1, fds, n_fds, &rq, &why) == 0) {
		for (size_t i = 0; i < rq.n_mounts; i++)
			if (!launcher_is_clean_path(rq.mounts[i].target) || rq.mounts[i].fd < 100)
				abort();
		for (size_t i = 0; i < rq.n_rules; i++)
			if (rq.rules[i].kind != LAUNCHER_RULE_OWN &&
				launcher_rule_problem(&rq.rules[i]))
				abort();
		int len = launcher_pack(&rq, out, packed, &n_packed);
		if (len < 0 || n_packed != n_fds ||
			launcher_parse(out, (size_t)len, packed, n_packed, &again, &why) < 0 ||
			again.n_mounts != rq.n_mounts || again.n_rules != rq.n_rules ||
			again.control_fd != rq.control_fd)
			abort();
	} else if (!why || !*why) {
		abort();
	}
	free(buf);
	return 0;
}
