/* SPDX-License-Identifier: Apache-2.0 */
/* fs_list.c: the entries below a directory. Directories that may not be read are listed, not
 * entered. */
#include <errno.h>

#include "base/cleanup.h"
#include "guest/fs_op.h"

int fs_list(struct fs_call *call, struct cell_error *err)
{
	auto_(fs_walk_freep) struct treewalk *w = NULL;
	auto_(fs_out_done) struct fs_out out = FS_OUT_INIT(call->out_fd);
	auto_buf struct buf record = BUF_INIT(WIRE_MAX_RECORD);
	struct fs_path path;
	struct treewalk_entry e;
	uint64_t depth = fs_get_u64(call, WIRE_T_DEPTH, 0);

	int r = fs_get_path(call, WIRE_T_PATH, "list", &path, err);
	if (r < 0)
		return r;
	auto_fd int dir = fs_open_dir(call, "list", path.text, err);
	if (dir < 0)
		return dir;
	r = treewalk_new(dir, depth > UINT32_MAX ? 0 : (unsigned)depth, 0, &w);
	if (r < 0)
		return fs_fail(err, r, "list", path.text);
	while ((r = treewalk_next(w, &e)) > 0) {
		if (e.type == TREEWALK_FAILED) {
			r = fs_walk_failed(&e, "list", err);
			if (r < 0)
				return r;
			continue;
		}
		buf_reset(&record);
		r = fs_put_file(&record, e.path, &e.st, e.dir_fd, e.name);
		if (r == 0)
			r = fs_out_record(&out, &record);
		if (r < 0)
			break;
	}
	if (r == 0)
		r = fs_out_flush(&out);
	return r < 0 ? fs_fail(err, r, "list", path.text) : 0;
}
