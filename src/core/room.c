/* SPDX-License-Identifier: Apache-2.0 */
/* room.c: see room.h. */
#include "core/room.h"

#include <errno.h>
#include <sys/statvfs.h>

#define STEP (8u << 20)
#define KEPT (UINT64_C(1) << 30)
#define MIB  (1u << 20)

int room_check(int fd, uint64_t n, struct cell_error *err)
{
	struct statvfs st;

	if (fstatvfs(fd, &st) < 0)
		return 0;
	uint64_t block = st.f_frsize ? st.f_frsize : st.f_bsize;
	uint64_t kept = st.f_blocks / 20 * block, left = st.f_bavail * block;
	if (kept > KEPT)
		kept = KEPT;
	if (left >= kept && left - kept >= n)
		return 0;
	int r = cell_fail(err, CELL_ENOSPACE, ENOSPC,
		"%llu MiB are left on the host's file system, of which %llu stay free",
		(unsigned long long)(left / MIB), (unsigned long long)(kept / MIB));
	return cell_error_hint(err, r, "make room there, or take less out of the cell");
}

int room_take(struct room *r, uint64_t n, struct cell_error *err)
{
	r->unlooked += n;
	if (r->unlooked < STEP)
		return 0;
	r->unlooked = 0;
	return room_check(r->fd, 0, err);
}
