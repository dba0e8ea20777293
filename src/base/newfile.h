/* SPDX-License-Identifier: Apache-2.0 */
/*
 * newfile.h: a file that appears under its name whole, or not at all.
 *
 * Written without a name where the file system allows (O_TMPFILE), so that a killed writer leaves
 * nothing. To replace a file it gets a name of the form NEWFILE_PREFIX<n> for the moment between
 * two system calls; such names are reserved, locked while in use, and one left by a killed writer
 * is removed by the next writer in that directory. libc only.
 */
#pragma once
#include <stdbool.h>
#include <sys/types.h>

#define NEWFILE_PREFIX ".cell-partial-"

struct newfile {
	int dir_fd;			       /* borrowed */
	int fd;				       /* write to it; -1 when there is none */
	char temp[sizeof NEWFILE_PREFIX + 24]; /* its name while it has one, else "" */
};

#define NEWFILE_INIT                   \
	{                              \
		.dir_fd = -1, .fd = -1 \
	}

/* Mode 0600 until told otherwise. Negative errno on failure. */
int newfile_open(struct newfile *f, int dir_fd);
/* Give it its name; without is_replacing -EEXIST when that is taken (a link counts as taken and is
 * never followed). Closes fd: an error of close() is reported. */
int newfile_commit(struct newfile *f, const char *name, bool is_replacing);
/* Drop what was not committed. */
void newfile_done(struct newfile *f);
