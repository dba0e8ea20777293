/* SPDX-License-Identifier: Apache-2.0 */
/* fs_read.c: a file's bytes, from an offset, up to a limit. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "guest/fs_op.h"

int fs_read(struct fs_call *call, struct cell_error *err)
{
	auto_(fs_file_done) struct fs_file f = FS_FILE_INIT;
	struct fs_path path;
	uint64_t offset = fs_get_u64(call, WIRE_T_OFFSET, 0);
	uint64_t limit = fs_get_u64(call, WIRE_T_LIMIT, 0);

	int r = fs_get_path(call, WIRE_T_PATH, "read", &path, err);
	if (r == 0)
		r = fs_file_open(call, "read", path.text, O_RDONLY, &f, err);
	if (r < 0)
		return r;
	if (offset > INT64_MAX)
		return cell_fail(err, CELL_EINVAL, 0, "read '%.256s': the offset is too big",
			path.text);
	if (offset && lseek(f.fd, (off_t)offset, SEEK_SET) < 0) {
		/* Past what the file system can hold, so past the end. */
		return errno == EINVAL ? 0 : fs_fail(err, -errno, "read", path.text);
	}
	r = fd_copy(f.fd, call->out_fd, limit ? limit : UINT64_MAX, NULL);
	return r < 0 ? fs_fail(err, r, "read", path.text) : 0;
}
