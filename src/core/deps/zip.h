/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zip.h: reading zip archives that somebody hostile may have made. What a wheel needs and nothing more: stored or
 * deflated files with a central directory. Encrypted or patched entries, links, archives in several parts or of more
 * than 4 GiB, entries that share bytes, names that differ between the two headers: refused.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/error.h"

struct zip_entry {
	char *name; /* as in the archive; a directory's ends with a slash */
	uint64_t packed, size, offset;
	uint32_t crc;
	uint16_t method;
	bool is_directory, is_executable;
};

struct zip {
	int fd;	      /* borrowed, seekable */
	uint64_t end; /* where the entries' bytes end */
	struct zip_entry *entries;
	size_t n;
	uint64_t total; /* bytes of all entries together, unpacked */
};

#define ZIP_INIT         \
	{                \
		.fd = -1 \
	}

#define ZIP_ENTRIES_MAX 100000
#define ZIP_NAME_MAX	1024
#define ZIP_TOTAL_MAX	(UINT64_C(4) << 30)

/* Reads the directory of entries. Nothing is unpacked yet, but what is known to be a trick is refused. */
int zip_open(struct zip *z, int fd, struct cell_error *err);
void zip_done(struct zip *z);

/* Gives the bytes of one entry to fn, piece by piece; its length and checksum are what the directory says, or it
 * fails. A non-zero return of fn stops and is returned. */
typedef int (*zip_sink)(const void *p, size_t n, void *user);
int zip_read(const struct zip *z, const struct zip_entry *e, zip_sink fn, void *user,
	struct cell_error *err);
/* A small one whole, NUL-terminated; the caller's. */
int zip_load(const struct zip *z, const struct zip_entry *e, size_t max, char **ret,
	size_t *ret_len, struct cell_error *err);
const struct zip_entry *zip_find(const struct zip *z, const char *name); /* NULL: not there */
