/* SPDX-License-Identifier: Apache-2.0 */
/*
 * room.h: space that the host's file systems keep, however much a cell has to give. What comes out of a cell is as long as the
 * cell wants it to be; so whoever writes it down looks from time to time, and stops before the disk is full for everybody else.
 */
#pragma once
#include <stdint.h>

#include "base/error.h"

struct room {
	int fd;		   /* a file or directory of the file system; borrowed */
	uint64_t unlooked; /* bytes since it was last looked at */
};

/* Is there room for n bytes more on the file system of fd? CELL_ENOSPACE (-ENOSPC) when less is left than others need: a twentieth of
 * it, at most 1 GiB. */
int room_check(int fd, uint64_t n, struct cell_error *err);
/* n bytes more have been written. Looks once in a few megabytes, so that little things may still be had from a disk that is nearly full. */
int room_take(struct room *r, uint64_t n, struct cell_error *err);
