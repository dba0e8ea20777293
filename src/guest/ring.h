/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.h: the last bytes of one output stream, addressed by their offset in it.
 *
 * Bytes are read from the pipe straight into the ring and written from it straight to sockets. A
 * small ring is plain memory; a large one is an unlinked file in the spool directory (or a memfd),
 * mapped a window at a time by the page cache, so that it costs the guest next to no memory of its
 * own.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define RING_SMALL (256u * 1024)

struct ring {
	uint8_t *map; /* NULL until the first byte */
	size_t size;
	size_t allocated;   /* of a file: bytes the disk has promised; grows in the first lap */
	uint64_t kept_from; /* bytes below it went past the ring */
	uint64_t head;	    /* bytes ever written */
	int fd;		    /* backing file, or -1 */
};

void ring_init(struct ring *r, size_t size);
void ring_done(struct ring *r);
/* Oldest offset still there. */
uint64_t ring_oldest(const struct ring *r);
/* Room to write behind head without touching bytes at or behind `hold` (UINT64_MAX: overwrite the
 * oldest). 0 when there is none; else *ret and how many contiguous bytes. -ENOMEM. */
ssize_t ring_room(struct ring *r, uint64_t hold, int spool_fd, uint8_t **ret);
/* A larger one with the same bytes; only before the first byte was overwritten. Stays as it is when there is no memory. */
void ring_enlarge(struct ring *r, size_t size, int spool_fd);
void ring_wrote(struct ring *r, size_t n);
/* n bytes of the stream went another way: nothing up to here is kept. */
void ring_skip(struct ring *r, size_t n);
/* Contiguous bytes from `offset` on; 0 at head. offset must not be below ring_oldest(). */
size_t ring_view(const struct ring *r, uint64_t offset, const uint8_t **ret);
