/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_frame.c: bytes from the other side of a connection. They are read as frames, each payload as
 * the fields or records it may hold, and what was taken must come out the same when written again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "wire/wire.h"

#define MUST(e)                  \
	do {                     \
		if (!(e))        \
			abort(); \
	} while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_field(const struct wire_field *f, const uint8_t *p, size_t n)
{
	uint64_t v = 0;
	char *s = NULL;

	MUST(f->p >= p && f->len <= n && (size_t)(f->p - p) <= n - f->len);
	MUST(f->tag < WIRE_CRITICAL);
	MUST((wire_field_u64(f, &v) == 0) == (f->len == 8));
	if (wire_field_str(f, 256, &s) == 0) {
		MUST(strlen(s) == f->len && f->len <= 256);
		free(s);
	}
}

static void check_fields(const uint8_t *p, size_t n)
{
	static const uint16_t known[] = {WIRE_T_ARG, WIRE_T_ENV, WIRE_T_PATH, WIRE_T_LIMIT};
	struct wire_reader r = {.p = p, .len = n};
	auto_buf struct buf again = BUF_INIT(WIRE_MAX_PAYLOAD);
	bool has_unknown_critical = false;
	struct wire_field f, first;
	unsigned tag = 0;
	int more;

	while ((more = wire_next(&r, &f)) > 0) {
		bool is_known = false;

		check_field(&f, p, n);
		MUST(wire_find(p, n, f.tag, &first) && first.tag == f.tag && first.p <= f.p);
		(void)wire_find_u64(p, n, f.tag, 0);
		free(wire_find_str(p, n, f.tag, 64));
		for (size_t i = 0; i < sizeof known / sizeof *known; i++)
			is_known |= known[i] == f.tag;
		has_unknown_critical |= f.is_critical && !is_known;
		MUST(wire_put(&again, f.tag | (f.is_critical ? WIRE_CRITICAL : 0), f.p, f.len) ==
			0);
	}
	MUST(again.len <= n && (again.len == 0 || memcmp(again.data, p, again.len) == 0));
	MUST((more == 0) == (again.len == n));
	int checked = wire_check(p, n, known, sizeof known / sizeof *known, &tag);
	MUST((checked == 0) == (more == 0 && !has_unknown_critical));
}

static void check_records(const uint8_t *p, size_t n)
{
	const uint8_t *record;
	size_t len, used;

	while (wire_record_next(p, n, &record, &len, &used) > 0) {
		MUST(used == len + 4 && used <= n && record == p + 4 && len <= WIRE_MAX_RECORD);
		check_fields(record, len);
		p += used;
		n -= used;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *why;

	while (size >= WIRE_HEADER_SIZE) {
		struct wire_header h;
		uint8_t again[WIRE_HEADER_SIZE];

		int r = wire_header_get(data, &h, &why);
		MUST((r == 0) == !why);
		if (r < 0)
			break;
		wire_header_put(again, &h);
		MUST(memcmp(again, data, sizeof again) == 0);
		data += WIRE_HEADER_SIZE;
		size -= WIRE_HEADER_SIZE;
		if (h.len > size)
			break;
		check_fields(data, h.len);
		if (h.type == WIRE_DATA)
			check_records(data + 8, h.len - 8);
		else if (h.type == WIRE_REQUEST && h.len >= 2)
			check_fields(data + 2, h.len - 2);
		data += h.len;
		size -= h.len;
	}
	check_fields(data, size);
	check_records(data, size);
	return 0;
}
