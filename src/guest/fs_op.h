/* SPDX-License-Identifier: Apache-2.0 */
/* fs_op.h: what the file operations share, and the operations themselves. Only fs*.c look in here.
 */
#pragma once
#include <limits.h>
#include <sys/stat.h>

#include "cell/file.h"

#include "base/beneath.h"
#include "base/treewalk.h"
#include "guest/fs.h"

#define FS_DEFAULT_LIMIT 1000

/* The request's path as one relative to the workspace: "." when the field is absent. */
struct fs_path {
	char text[BENEATH_PATH_MAX + 1];
};
/* `verb` begins every message: "read", "list" ... */
int fs_get_path(const struct fs_call *call, unsigned tag, const char *verb, struct fs_path *ret,
	struct cell_error *err);
uint64_t fs_get_u64(const struct fs_call *call, unsigned tag, uint64_t otherwise);
/* A request's text without NUL of 1..max bytes; caller frees. -EINVAL with err otherwise. */
int fs_get_text(const struct fs_call *call, unsigned tag, size_t max, const char *verb,
	const char *what, char **ret, struct cell_error *err);

/* Say that `verb` failed on `path` with negative errno r; -EXDEV is "leaves the workspace". */
int fs_fail(struct cell_error *err, int r, const char *verb, const char *path);

/* A directory of the workspace, O_PATH. Links below the workspace are followed. */
int fs_open_dir(const struct fs_call *call, const char *verb, const char *path,
	struct cell_error *err);

/* A regular file, links below the workspace followed, with the directory it truly is in. Nothing
 * but a regular file is ever opened. */
struct fs_file {
	int dir_fd;
	char name[NAME_MAX + 1];
	int fd;
	struct stat st;
};
#define FS_FILE_INIT                   \
	{                              \
		.dir_fd = -1, .fd = -1 \
	}
int fs_file_open(const struct fs_call *call, const char *verb, const char *path, int flags,
	struct fs_file *ret, struct cell_error *err);
void fs_file_done(struct fs_file *f);
/* 0 when it is a regular file, else the error for it. */
int fs_check_regular(const struct stat *st, const char *verb, const char *path,
	struct cell_error *err);

/* The fields of one file. The link's target is read from name in dir_fd. path NULL: none. */
int fs_put_file(struct buf *b, const char *path, const struct stat *st, int dir_fd,
	const char *name);

/* Records on their way out, gathered to save system calls. */
struct fs_out {
	int fd;
	struct buf waiting;
};
#define FS_OUT_INIT(out_fd)                                              \
	{                                                                \
		.fd = (out_fd), .waiting = BUF_INIT(2 * WIRE_MAX_RECORD) \
	}
int fs_out_record(struct fs_out *o, const struct buf *record);
int fs_out_flush(struct fs_out *o);
void fs_out_done(struct fs_out *o);

/* What a walk's failure to go into a directory means: 0 when it is passed over (no permission,
 * gone), else a negative errno with err set. */
int fs_walk_failed(const struct treewalk_entry *e, const char *verb, struct cell_error *err);
void fs_walk_freep(struct treewalk **w);

int fs_stat(struct fs_call *call, struct cell_error *err);
int fs_read(struct fs_call *call, struct cell_error *err);
int fs_write(struct fs_call *call, struct cell_error *err);
int fs_mkdir(struct fs_call *call, struct cell_error *err);
int fs_remove(struct fs_call *call, struct cell_error *err);
int fs_move(struct fs_call *call, struct cell_error *err);
int fs_list(struct fs_call *call, struct cell_error *err);
int fs_glob(struct fs_call *call, struct cell_error *err);
int fs_grep(struct fs_call *call, struct cell_error *err);
int fs_edit(struct fs_call *call, struct cell_error *err);
int fs_tar(struct fs_call *call, struct cell_error *err);
int fs_untar(struct fs_call *call, struct cell_error *err);
int fs_watch(struct fs_call *call, struct cell_error *err);
/* port.c */
int fs_connect(struct fs_call *call, struct cell_error *err);
int fs_ports(struct fs_call *call, struct cell_error *err);
