/* SPDX-License-Identifier: Apache-2.0 */
/*
 * treewalk.h: everything below a directory, by file descriptors, following no symbolic link.
 *
 * Entries come sorted by name (bytes) within each directory, a directory before what is in it.
 * Memory is bounded however many entries a directory has: names are read in passes of a few
 * megabytes, so a directory of a million entries costs several passes rather than memory, and what
 * is added or removed meanwhile may or may not be seen. One file descriptor per level is held,
 * hence the depth bound. libc only.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#define TREEWALK_MAX_DEPTH 256
#define TREEWALK_MAX_PATH  32768 /* bytes of an entry's path */

enum treewalk_type {
	TREEWALK_ENTRY = 1, /* a file, link, directory ... */
	TREEWALK_LEAVE,	    /* a directory, after all that is in it */
	TREEWALK_FAILED,    /* a directory, given before as ENTRY, that cannot be gone into */
};

enum treewalk_flags {
	TREEWALK_WITH_LEAVE = 1 << 0,
	TREEWALK_NO_KERNEL_FS = 1 << 1, /* stay out of /proc, /sys and their like mounted below */
};

/* Valid until the next call. */
struct treewalk_entry {
	enum treewalk_type type;
	const char *path; /* relative to the start */
	const char *name; /* the last component */
	int dir_fd;	  /* the directory it is in: borrowed */
	struct stat st;	  /* of the entry itself, not of a link's target */
	unsigned depth;	  /* 1: directly in the start */
	int error;	  /* of FAILED: errno; EOVERFLOW when what is in it would lie deeper than
			     TREEWALK_MAX_DEPTH or have a path over TREEWALK_MAX_PATH */
};

struct treewalk;

/* dir_fd (O_PATH will do) is borrowed. max_depth 0: no bound but TREEWALK_MAX_DEPTH. The start
 * itself must be readable, else negative errno. */
int treewalk_new(int dir_fd, unsigned max_depth, unsigned flags, struct treewalk **ret);
/* 1 and an entry, 0 at the end, negative errno when nothing sensible is left to do. */
int treewalk_next(struct treewalk *w, struct treewalk_entry *e);
/* Do not go into the directory just given. */
void treewalk_prune(struct treewalk *w);
void treewalk_free(struct treewalk *w);
