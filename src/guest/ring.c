/* SPDX-License-Identifier: Apache-2.0 */
/* ring.c: see ring.h. The byte at stream offset o lives at o % size. */
#include "guest/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STEP (1024u * 1024) /* the disk is asked for this much at a time */

/* One small map of those that were used a little: making and unmaking one costs more than most commands have to say.
 * What is still in it nobody can see: nothing beyond `head` is ever shown. */
#define SPARE_USED (64u * 1024) /* at most: more would stay in memory for nothing */
static uint8_t *spare;

static bool keep_spare(const struct ring *r)
{
	if (spare || r->fd >= 0 || r->size != RING_SMALL || r->head > SPARE_USED)
		return false;
	spare = r->map;
	return true;
}

void ring_init(struct ring *r, size_t size)
{
	*r = (struct ring){.size = size, .fd = -1};
}

void ring_done(struct ring *r)
{
	if (r->map && !keep_spare(r))
		munmap(r->map, r->size);
	if (r->fd >= 0)
		close(r->fd);
	r->map = NULL;
	r->fd = -1;
}

uint64_t ring_oldest(const struct ring *r)
{
	uint64_t oldest = r->head > r->size ? r->head - r->size : 0;

	return oldest > r->kept_from ? oldest : r->kept_from;
}

static int open_backing(int spool_fd)
{
	int fd = -1;

	if (spool_fd >= 0)
		fd = openat(spool_fd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0)
		fd = memfd_create("cell-output", MFD_CLOEXEC);
	return fd;
}

/* Have the disk promise more of the file. A full disk makes the ring smaller, never the guest dead:
 * within the first lap every byte stays where a smaller modulus expects it too. */
static void promise(struct ring *r, size_t want)
{
	size_t step = r->size - r->allocated < STEP ? r->size - r->allocated : STEP;

	while (r->allocated < want) {
		if (fallocate(r->fd, 0, (off_t)r->allocated, (off_t)step) < 0) {
			static const uint8_t zeros[4096];

			if ((errno != EOPNOTSUPP && errno != ENOSYS) ||
				pwrite(r->fd, zeros, 1, (off_t)(r->allocated + step - 1)) != 1) {
				size_t rest = r->size - r->allocated;

				munmap(r->map + r->allocated, rest);
				r->size = r->allocated;
				return;
			}
		}
		r->allocated += step;
	}
}

static int allocate(struct ring *r, int spool_fd)
{
	if (r->size > RING_SMALL)
		r->fd = open_backing(spool_fd);
	if (r->fd >= 0 && ftruncate(r->fd, (off_t)r->size) == 0) {
		void *p = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);

		if (p != MAP_FAILED) {
			r->map = p;
			promise(r, 1);
			if (r->allocated)
				return 0;
			r->map = NULL; /* promise() has unmapped all of it */
		}
	}
	if (r->fd >= 0)
		close(r->fd);
	r->fd = -1;
	if (r->size == 0 || r->size > RING_SMALL)
		r->size = RING_SMALL;
	if (spare && r->size == RING_SMALL) {
		r->map = spare;
		spare = NULL;
	} else {
		void *p = mmap(NULL, r->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);

		if (p == MAP_FAILED)
			return -ENOMEM;
		r->map = p;
	}
	r->allocated = r->size;
	return 0;
}

void ring_enlarge(struct ring *r, size_t size, int spool_fd)
{
	struct ring larger;

	if (r->head > r->size || r->kept_from || size <= r->size)
		return;
	ring_init(&larger, size);
	for (uint64_t at = 0; at < r->head;) {
		const uint8_t *from;
		uint8_t *to;
		ssize_t room = ring_room(&larger, UINT64_MAX, spool_fd, &to);
		size_t n = room > 0 ? ring_view(r, at, &from) : 0;

		if (n == 0 || larger.size <= r->size) { /* a full disk gave less than there is */
			ring_done(&larger);
			return;
		}
		n = n < (size_t)room ? n : (size_t)room;
		memcpy(to, from, n);
		ring_wrote(&larger, n);
		at += n;
	}
	ring_done(r);
	*r = larger;
}

ssize_t ring_room(struct ring *r, uint64_t hold, int spool_fd, uint8_t **ret)
{
	if (!r->map && allocate(r, spool_fd) < 0)
		return -ENOMEM;
	if (r->head < r->size && r->head == r->allocated)
		promise(r, r->allocated + 1);

	size_t at = (size_t)(r->head % r->size);
	size_t room = r->head < r->allocated ? r->allocated - at : r->size - at;

	if (hold != UINT64_MAX) {
		uint64_t held = r->head > hold ? r->head - hold : 0;

		if (held >= r->size)
			return 0;
		if (room > r->size - held)
			room = (size_t)(r->size - held);
	}
	*ret = r->map + at;
	return (ssize_t)room;
}

void ring_wrote(struct ring *r, size_t n)
{
	uint64_t before = r->head;

	r->head += n;
	/* keep our resident set small: what was just finished can be had again from the page cache
	 */
	if (r->fd >= 0 && before / STEP != r->head / STEP) {
		size_t at = (size_t)(before / STEP * STEP % r->size);
		size_t len = r->size - at < STEP ? r->size - at : STEP;

		(void)madvise(r->map + at, len, MADV_DONTNEED);
	}
}

void ring_skip(struct ring *r, size_t n)
{
	r->head += n;
	r->kept_from = r->head;
}

size_t ring_view(const struct ring *r, uint64_t offset, const uint8_t **ret)
{
	if (offset >= r->head || !r->map)
		return 0;
	size_t at = (size_t)(offset % r->size);
	uint64_t n = r->head - offset;

	*ret = r->map + at;
	return n < r->size - at ? (size_t)n : r->size - at;
}
