/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_upstream: an answer of a hostile program in a cell. The first byte says how the bytes are cut up and whether the request was HEAD;
 * cut up or not, the same head and body must come out, and nothing in a field that would break the head it is put into. */
#include <stdlib.h>
#include <string.h>

#include "net/text.h"
#include "net/upstream.h"

static int head(void *arg, int status, const struct http_field *fields, int64_t length)
{
	uint64_t *h = arg;

	*h = *h * 31 + (uint64_t)status + (uint64_t)length;
	for (; fields->name; fields++) {
		if (!net_is_token(fields->name, strlen(fields->name)) ||
			!net_is_field_value(fields->value, strlen(fields->value)))
			abort();
		for (const char *s = fields->value; *s; s++)
			*h = *h * 31 + (uint8_t)*s;
	}
	return 0;
}

static int body(void *arg, const void *p, size_t n)
{
	uint64_t *h = arg;

	for (size_t i = 0; i < n; i++)
		*h = *h * 31 + ((const uint8_t *)p)[i];
	return 0;
}

static uint64_t run(const uint8_t *p, size_t n, size_t step, bool is_head)
{
	static const struct upstream_events events = {head, body};
	uint64_t h = 1;
	struct upstream *u = upstream_new(is_head, &events, &h);
	int r = 0;

	for (size_t at = 0; u && r == 0 && at < n && !upstream_is_complete(u);) {
		size_t k = n - at < step ? n - at : step, used;
		r = upstream_feed(u, p + at, k, &used);
		if (used > k || (r == 0 && used < k && !upstream_is_complete(u)))
			abort();
		at += used;
		if (upstream_is_complete(u))
			h = h * 31 + at;
	}
	if (u && r == 0)
		r = upstream_finish(u);
	upstream_free(u);
	return r == 0 ? h : 0; /* how much of a bad one was seen depends on the pieces */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 1 || size > 65536)
		return 0;
	bool is_head = data[0] & 1;
	size_t step = 1 + (data[0] >> 1);
	if (run(data + 1, size - 1, size, is_head) != run(data + 1, size - 1, step, is_head))
		abort();
	return 0;
}
