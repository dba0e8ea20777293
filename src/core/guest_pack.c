/* SPDX-License-Identifier: Apache-2.0 */
#include "core/guest_pack.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/tar.h"
#include "core/guest_process.h"

static int append(const void *p, size_t n, void *user)
{
	return buf_add(user, p, n);
}

static int add_file(struct tar_writer *w, const char *name, unsigned mode, const void *p,
	size_t size)
{
	struct tar_entry e = {
		.type = TAR_FILE, .name = name, .link = "", .size = size, .mode = mode};
	int r = tar_write_entry(w, &e);

	return r < 0 ? r : tar_write_data(w, p, size);
}

int guest_pack(const char *user, const struct sock_fprog *filter, struct buf *ret)
{
	struct tar_writer w = {.fn = append, .user = ret};
	unsigned uid = 0, gid = 0;
	bool is_known = sscanf(user, "%u:%u", &uid, &gid) >= 1;
	struct tar_entry run = {.type = TAR_DIRECTORY,
		.name = "run",
		.link = "",
		.mode = is_known ? 0700 : 01777,
		.uid = uid,
		.gid = gid};
	int r = add_file(&w, "guest", 0555, cell_guest_blob,
		(size_t)((uintptr_t)cell_guest_blob_end - (uintptr_t)cell_guest_blob));

	if (r == 0)
		r = add_file(&w, "filter", 0444, filter->filter,
			filter->len * sizeof *filter->filter);
	if (r == 0)
		r = tar_write_entry(&w, &run);
	return r == 0 ? tar_write_end(&w) : r;
}

int guest_pack_directories(const char *const *names, struct buf *ret)
{
	struct tar_writer w = {.fn = append, .user = ret};
	int r = 0;

	for (; r == 0 && *names; names++) {
		struct tar_entry e = {
			.type = TAR_DIRECTORY, .name = *names, .link = "", .mode = 01777};
		r = tar_write_entry(&w, &e);
	}
	return r == 0 ? tar_write_end(&w) : r;
}
