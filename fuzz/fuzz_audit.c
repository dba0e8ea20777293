/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_audit.c: a file of the audit log that somebody else wrote: lines, records, filters,
 * export. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "server/audit_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const char *line, size_t len)
{
	static const struct audit_filter filter = {
		.action = "exec.*", .since_ns = 1, .tenant = "acme"};
	struct audit_line l;
	char hash[AUDIT_HASH_TEXT];

	if (audit_line_parse(line, len, &l) == 0) {
		if (!l.seq || l.hashed >= len || l.hash + 64 > line + len || l.prev + 64 > l.hash)
			abort();
		audit_hash(line, l.hashed, hash);
	}
	json_t *record = json_loadb(line, len, JSON_REJECT_DUPLICATES, NULL);
	if (json_is_object(record)) {
		(void)audit_matches(&filter, record);
		json_t *event = audit_to_ocsf(record);
		if (!event || !json_object_get(event, "class_uid"))
			abort();
		json_decref(event);
		if (redact_json(NULL, record) < 0)
			abort();
	}
	json_decref(record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	auto_fd int fd = memfd_create("fuzz", MFD_CLOEXEC);
	auto_audit_reader struct audit_reader reader = {.fd = fd};
	const char *line;
	size_t len, total = 0;
	int r;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET) != 0)
		return 0;
	while ((r = audit_reader_next(&reader, &line, &len)) > 0) {
		total += len + 1;
		use(line, len);
	}
	if (r == 0 && total + len != size)
		abort(); /* a byte was lost */
	return 0;
}
