/* SPDX-License-Identifier: Apache-2.0 */
/* archive.h: a tar archive in memory, for tests of what reads one: written by `writer`, read
 * from archive_at on. */
#pragma once
#include <string.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/tar.h"
#include "test.h"

static struct buf archive = BUF_INIT(16 << 20);
static size_t archive_at;

static inline int to_archive(const void *p, size_t n, void *user)
{
	(void)user;
	return buf_add(&archive, p, n);
}

static struct tar_writer writer = {.fn = to_archive};

static inline ssize_t from_archive(void *p, size_t n, void *user)
{
	(void)user;
	if (n > archive.len - archive_at)
		n = archive.len - archive_at;
	if (n)
		memcpy(p, archive.data + archive_at, n);
	archive_at += n;
	return (ssize_t)n;
}

static inline void archive_begin(void)
{
	buf_reset(&archive);
	writer = (struct tar_writer){.fn = to_archive};
}
