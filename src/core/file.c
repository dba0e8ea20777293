/* SPDX-License-Identifier: Apache-2.0 */
/* file.c: one file or directory entry at a time, as include/cell/file.h promises it. Listings and
 * searches are file_list.c's, copies between host and cell file_transfer.c's. */
#include "cell/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "core/file_call.h"

#define SEND_MAX (64u * 1024)

static int stat_path(struct cell *c, const char *path, struct buf *ret, struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;

	file_put_str(&q, WIRE_T_PATH, path);
	return file_call(c, WIRE_OP_STAT, &q, ret, err);
}

int cell_file_stat(struct cell *c, const char *path, cell_file_fn fn, void *user,
	struct cell_error *err)
{
	auto_buf struct buf end = BUF_INIT(WIRE_MAX_PAYLOAD);
	struct file_info f;

	int r = stat_path(c, path, &end, err);
	if (r == 0)
		r = file_info_get(&f, end.data, end.len, path ? path : ".", err);
	if (r < 0)
		return r;
	r = fn ? fn(&f.info, user) : 0;
	file_info_done(&f);
	return r;
}

int cell_file_exists(struct cell *c, const char *path, struct cell_error *err)
{
	struct cell_error why = {0};
	int r = stat_path(c, path, NULL, &why);

	if (r == 0)
		return 1;
	if (why.code == CELL_ENOTFOUND || r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (err)
		*err = why;
	return r;
}

int cell_file_read(struct cell *c, const char *path, uint64_t offset, uint64_t limit,
	cell_data_fn fn, void *user, struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;

	file_put_str(&q, WIRE_T_PATH, path);
	file_put_u64(&q, WIRE_T_OFFSET, offset);
	file_put_u64(&q, WIRE_T_LIMIT, limit);
	int r = file_open(c, WIRE_OP_READ, &q, &s, err);
	return r < 0 ? r : file_receive(s, fn, user, NULL, err);
}

static int add_to_buf(const void *p, size_t n, void *user)
{
	return buf_add(user, p, n);
}

int cell_file_load(struct cell *c, const char *path, size_t max, char **ret, size_t *ret_len,
	struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(max);

	int r = cell_file_read(c, path, 0, 0, add_to_buf, &b, err);
	if (r == -ENOBUFS)
		return cell_fail(err, CELL_ELIMIT, EFBIG,
			"load '%.256s': it has more than %zu bytes", path, max);
	if (r == -ENOMEM)
		return cell_fail_errno(err, ENOMEM, "load '%.256s'", path);
	if (r < 0)
		return r;
	size_t len = b.len;
	*ret = buf_steal(&b);
	if (!*ret)
		return cell_fail_errno(err, ENOMEM, "load '%.256s'", path);
	if (ret_len)
		*ret_len = len;
	return 0;
}

/* Bytes from fn to the operation, until it has no more. */
static int send_source(struct link_stream *s, const char *path, cell_source_fn fn, void *user,
	struct buf *ret_end, struct cell_error *err)
{
	auto_free uint8_t *chunk = malloc(SEND_MAX);
	ssize_t n;

	if (!chunk)
		return cell_fail_errno(err, ENOMEM, "write '%.256s'", path);
	while ((n = fn(chunk, SEND_MAX, user)) > 0) {
		int r = file_send(s, chunk, (size_t)n, err);
		if (r < 0)
			return r;
	}
	if (n < 0)
		return cell_fail_errno(err, (int)-n,
			"write '%.256s': its bytes could not be had, nothing was changed", path);
	return file_finish(s, ret_end, err);
}

int cell_file_write(struct cell *c, const char *path, uint32_t mode, uint32_t flags,
	cell_source_fn fn, void *user, uint64_t *ret_size, struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;
	auto_buf struct buf end = BUF_INIT(WIRE_MAX_PAYLOAD);

	file_put_str(&q, WIRE_T_PATH, path);
	file_put_u64(&q, WIRE_T_MODE, mode);
	file_put_u64(&q, WIRE_T_FLAGS, flags);
	int r = file_open(c, WIRE_OP_WRITE, &q, &s, err);
	if (r == 0)
		r = send_source(s, path, fn, user, &end, err);
	if (r == 0 && ret_size)
		*ret_size = wire_find_u64(end.data, end.len, WIRE_T_SIZE, 0);
	return r;
}

struct memory {
	const uint8_t *p;
	size_t left;
};

static ssize_t from_memory(void *p, size_t n, void *user)
{
	struct memory *m = user;

	if (n > m->left)
		n = m->left;
	if (n)
		memcpy(p, m->p, n);
	m->p += n;
	m->left -= n;
	return (ssize_t)n;
}

int cell_file_store(struct cell *c, const char *path, uint32_t mode, uint32_t flags, const void *p,
	size_t n, struct cell_error *err)
{
	struct memory m = {.p = p, .left = n};

	return cell_file_write(c, path, mode, flags, from_memory, &m, NULL, err);
}

int cell_file_mkdir(struct cell *c, const char *path, uint32_t mode, bool parents,
	struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;

	file_put_str(&q, WIRE_T_PATH, path);
	file_put_u64(&q, WIRE_T_MODE, mode);
	file_put_u64(&q, WIRE_T_FLAGS, parents);
	return file_call(c, WIRE_OP_MKDIR, &q, NULL, err);
}

int cell_file_remove(struct cell *c, const char *path, bool recursive, struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;

	file_put_str(&q, WIRE_T_PATH, path);
	file_put_u64(&q, WIRE_T_FLAGS, recursive);
	return file_call(c, WIRE_OP_REMOVE, &q, NULL, err);
}

int cell_file_move(struct cell *c, const char *from, const char *to, bool replace,
	struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;

	file_put_str(&q, WIRE_T_PATH, from);
	file_put_str(&q, WIRE_T_TARGET, to);
	file_put_u64(&q, WIRE_T_FLAGS, replace);
	return file_call(c, WIRE_OP_MOVE, &q, NULL, err);
}

int cell_file_edit(struct cell *c, const char *path, const void *old_text, size_t old_len,
	const void *new_text, size_t new_len, bool all, uint64_t *ret_count, struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_buf struct buf end = BUF_INIT(WIRE_MAX_PAYLOAD);

	file_put_str(&q, WIRE_T_PATH, path);
	file_put(&q, WIRE_T_OLD, old_text, old_len);
	file_put(&q, WIRE_T_NEW, new_text, new_len);
	file_put_u64(&q, WIRE_T_FLAGS, all);
	int r = file_call(c, WIRE_OP_EDIT, &q, &end, err);
	if (r == 0 && ret_count)
		*ret_count = wire_find_u64(end.data, end.len, WIRE_T_COUNT, 0);
	return r;
}

int cell_file_tar(struct cell *c, const char *path, cell_data_fn fn, void *user,
	struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;

	file_put_str(&q, WIRE_T_PATH, path);
	int r = file_open(c, WIRE_OP_TAR, &q, &s, err);
	return r < 0 ? r : file_receive(s, fn, user, NULL, err);
}

int cell_file_untar(struct cell *c, const char *path, cell_source_fn fn, void *user,
	struct cell_error *err)
{
	auto_request struct file_request q = FILE_REQUEST_INIT;
	auto_stream struct link_stream *s = NULL;

	file_put_str(&q, WIRE_T_PATH, path);
	int r = file_open(c, WIRE_OP_UNTAR, &q, &s, err);
	return r < 0 ? r : send_source(s, path ? path : ".", fn, user, NULL, err);
}
