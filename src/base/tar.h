/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tar.h: tar streams, written and read in bounded memory. Knows the format only: what may be taken
 * out of an archive and where it may go is untar.h's.
 *
 * Written: ustar, with pax records where ustar cannot say it (long or non-ASCII names, sizes from 8
 * GiB, parts of a second). Read: ustar, pax, GNU long names and base-256 numbers, old tar.
 * Checksums are verified; an archive without its end mark is an error, since it was cut short. libc
 * only.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

#define TAR_BLOCK	  512u
#define TAR_MAX_NAME	  65536u	/* bytes of a name or link target */
#define TAR_MAX_EXTENSION (256u * 1024) /* bytes of a pax header */

enum tar_type {
	TAR_FILE = '0',
	TAR_HARDLINK = '1',
	TAR_SYMLINK = '2',
	TAR_CHAR = '3',
	TAR_BLOCKDEV = '4',
	TAR_DIRECTORY = '5',
	TAR_FIFO = '6',
};

struct tar_entry {
	char type;	  /* enum tar_type, or what the archive says */
	const char *name; /* no trailing slash, but "" is possible when read */
	const char *link; /* target of a link, else "" */
	uint64_t size;	  /* of the data that follows; 0 unless a file */
	uint32_t mode;	  /* permission bits with set-id and sticky */
	uint64_t uid, gid;
	int64_t mtime_ns;
};

/* Take all n bytes: 0 or negative errno. */
typedef int (*tar_write_fn)(const void *p, size_t n, void *user);

struct tar_writer {
	tar_write_fn fn;
	void *user;
	uint64_t left; /* data still to come for the entry */
	unsigned pad;  /* zeros after it */
};

/* Each gives 0, what fn returned, -EINVAL for an entry that cannot be said, or -ENOMEM. */
int tar_write_entry(struct tar_writer *w, const struct tar_entry *e);
/* -EFBIG for more data than the entry's size. */
int tar_write_data(struct tar_writer *w, const void *p, size_t n);
/* Zeros for data that is missing. */
int tar_write_fill(struct tar_writer *w);
/* Call instead of tar_write_data when n bytes were put in the stream another way. */
int tar_written_aside(struct tar_writer *w, uint64_t n);
int tar_write_end(struct tar_writer *w);

/* Up to n bytes: how many, 0 at the end, negative errno. */
typedef ssize_t (*tar_read_fn)(void *p, size_t n, void *user);

struct tar_reader {
	tar_read_fn fn;
	void *user;
	uint64_t left; /* of the entry's data */
	unsigned pad;
	bool is_ended;
	struct buf name, link, extension;
	const char *why; /* after an error: what is wrong with the archive, else NULL */
};

#define TAR_READER_INIT(read_fn, read_user)                                              \
	{                                                                                \
		.fn = (read_fn), .user = (read_user), .name = BUF_INIT(TAR_MAX_NAME),    \
		.link = BUF_INIT(TAR_MAX_NAME), .extension = BUF_INIT(TAR_MAX_EXTENSION) \
	}

/* 1 and the next entry (data not read is skipped), 0 at the end mark, -EBADMSG with why for a bad
 * archive, or what fn returned. Strings are valid until the next call. */
int tar_read_entry(struct tar_reader *r, struct tar_entry *e);
/* Up to n bytes of the entry's data: how many, 0 at its end, negative errno as above. */
ssize_t tar_read_data(struct tar_reader *r, void *p, size_t n);
void tar_reader_done(struct tar_reader *r);
