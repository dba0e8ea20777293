/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fs_glob.c: files that match a pattern, newest first. Everything but directories is a file here.
 * No more than `limit` of them, and GLOB_MAX_BYTES of their records, are held at any time.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/globmatch.h"
#include "base/topk.h"
#include "guest/fs_op.h"

#define GLOB_MAX_BYTES (16u << 20)

struct match {
	struct topk_item item;
	int64_t mtime_ns;
	size_t len;
	uint8_t record[]; /* begins with the path */
};

static int newest_first(const struct topk_item *a, const struct topk_item *b)
{
	const struct match *x = (const struct match *)(const void *)a;
	const struct match *y = (const struct match *)(const void *)b;

	if (x->mtime_ns != y->mtime_ns)
		return x->mtime_ns > y->mtime_ns ? -1 : 1;
	int d = memcmp(x->record, y->record, x->len < y->len ? x->len : y->len);
	return d ? d : (x->len > y->len) - (x->len < y->len);
}

static void match_freep(struct globmatch **g)
{
	globmatch_free(*g);
}

static int keep(struct topk *best, const struct treewalk_entry *e)
{
	auto_buf struct buf record = BUF_INIT(WIRE_MAX_RECORD);
	int r = fs_put_file(&record, e->path, &e->st, e->dir_fd, e->name);

	if (r < 0)
		return r;
	struct match *m = malloc(sizeof *m + record.len);
	if (!m)
		return -ENOMEM;
	m->item.size = sizeof *m + record.len + 32;
	m->mtime_ns = e->st.st_mtim.tv_sec * INT64_C(1000000000) + e->st.st_mtim.tv_nsec;
	m->len = record.len;
	memcpy(m->record, record.data, record.len);
	return topk_add(best, &m->item);
}

static int send_all(struct fs_call *call, struct topk *best)
{
	auto_(fs_out_done) struct fs_out out = FS_OUT_INIT(call->out_fd);
	int r = 0;

	topk_sort(best);
	for (size_t i = 0; r == 0 && i < best->n; i++) {
		struct match *m = (struct match *)(void *)best->items[i];
		struct buf record = {.data = m->record, .len = m->len};
		r = fs_out_record(&out, &record);
	}
	return r < 0 ? r : fs_out_flush(&out);
}

int fs_glob(struct fs_call *call, struct cell_error *err)
{
	auto_(fs_walk_freep) struct treewalk *w = NULL;
	auto_(match_freep) struct globmatch *g = NULL;
	auto_(topk_done) struct topk best = {.max_bytes = GLOB_MAX_BYTES, .compare = newest_first};
	auto_free char *pattern = NULL;
	struct fs_path path;
	struct treewalk_entry e;
	bool is_truncated = false;
	uint64_t limit = fs_get_u64(call, WIRE_T_LIMIT, 0);

	int r = fs_get_path(call, WIRE_T_PATH, "glob", &path, err);
	if (r == 0)
		r = fs_get_text(call, WIRE_T_PATTERN, GLOBMATCH_MAX_PATTERN, "glob", "pattern",
			&pattern, err);
	if (r < 0)
		return r;
	best.max_items = limit ? (size_t)limit : FS_DEFAULT_LIMIT;
	r = globmatch_new(pattern, &g);
	if (r < 0)
		return cell_fail(err, CELL_EINVAL, 0,
			"glob: the pattern nests braces deeper than %d levels",
			GLOBMATCH_MAX_NESTING);
	auto_fd int dir = fs_open_dir(call, "glob in", path.text, err);
	if (dir < 0)
		return dir;
	r = treewalk_new(dir, globmatch_depth(g), TREEWALK_NO_KERNEL_FS, &w);
	while (r >= 0 && (r = treewalk_next(w, &e)) > 0) {
		if (e.type == TREEWALK_FAILED)
			is_truncated |= e.error != EACCES && e.error != ENOENT;
		else if (!S_ISDIR(e.st.st_mode) && globmatch_test(g, e.path)) {
			r = keep(&best, &e);
			is_truncated |= r > 0;
		}
	}
	if (r == 0)
		r = send_all(call, &best);
	if (r == 0)
		r = wire_put_u64(&call->reply, WIRE_T_TRUNCATED, is_truncated);
	return r < 0 ? fs_fail(err, r, "glob in", path.text) : 0;
}
