/* SPDX-License-Identifier: Apache-2.0 */
/*
 * file.h: files of a cell's workspace.
 *
 * Paths are relative to the workspace, or absolute below it as the cell sees it. No path and no
 * symbolic link leaves the workspace: such a path is CELL_EDENIED. Names are bytes, not text. Every
 * operation runs inside the cell, by the guest, and streams with bounded memory.
 */
#ifndef CELL_FILE_H
#define CELL_FILE_H

#include <cell/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct cell;

enum cell_file_type {
	CELL_FILE_REGULAR = 1,
	CELL_FILE_DIRECTORY,
	CELL_FILE_SYMLINK,
	CELL_FILE_OTHER, /* fifo, socket, device */
};

/* Strings are valid during the callback that shows it. */
struct cell_file_info {
	const char *path; /* relative to the directory asked for */
	enum cell_file_type type;
	uint64_t size;
	uint32_t mode; /* permission bits */
	uint32_t uid, gid;
	int64_t mtime_ns;
	const char *target; /* of a symbolic link, else "" */
};

/* Bytes as they come. A non-zero return stops the transfer and is returned. */
typedef int (*cell_data_fn)(const void *p, size_t n, void *user);
/* Give up to n bytes: how many, 0 at the end, negative errno to give up (nothing is written then).
 */
typedef ssize_t (*cell_source_fn)(void *p, size_t n, void *user);
typedef int (*cell_file_fn)(const struct cell_file_info *info, void *user);

int cell_file_stat(struct cell *c, const char *path, cell_file_fn fn, void *user,
	struct cell_error *err);
/* 1 or 0; negative on error. */
int cell_file_exists(struct cell *c, const char *path, struct cell_error *err);
/* From offset, at most limit bytes (0: to the end). Returns 0. */
int cell_file_read(struct cell *c, const char *path, uint64_t offset, uint64_t limit,
	cell_data_fn fn, void *user, struct cell_error *err);
/* Whole file into memory; -EFBIG past max. *ret is NUL-terminated behind its length; caller frees.
 */
int cell_file_load(struct cell *c, const char *path, size_t max, char **ret, size_t *ret_len,
	struct cell_error *err);

enum cell_write_flags {
	CELL_WRITE_APPEND = 1 << 0,
	CELL_WRITE_EXCLUSIVE = 1 << 1, /* CELL_EEXISTS if it is there */
	CELL_WRITE_PARENTS = 1 << 2,   /* make missing directories */
};
/* Atomic: readers see the old file or the new one (append excepted). mode 0: 0644, or the old
 * file's own. *ret_size (may be NULL): size afterwards. */
int cell_file_write(struct cell *c, const char *path, uint32_t mode, uint32_t flags,
	cell_source_fn fn, void *user, uint64_t *ret_size, struct cell_error *err);
int cell_file_store(struct cell *c, const char *path, uint32_t mode, uint32_t flags, const void *p,
	size_t n, struct cell_error *err);

int cell_file_mkdir(struct cell *c, const char *path, uint32_t mode, bool parents,
	struct cell_error *err);
/* A directory needs recursive. */
int cell_file_remove(struct cell *c, const char *path, bool recursive, struct cell_error *err);
int cell_file_move(struct cell *c, const char *from, const char *to, bool replace,
	struct cell_error *err);

/* Entries below a directory, depth levels deep (1: itself only; 0: all), sorted by name within each
 * directory. */
int cell_file_list(struct cell *c, const char *path, uint32_t depth, cell_file_fn fn, void *user,
	struct cell_error *err);
/* Files below `path` (NULL: workspace) that match: `*` and `?` within a name, `**` across
 * directories, [a-z], {a,b}. Newest first. limit 0: 1000. *ret_truncated (may be NULL). */
int cell_file_glob(struct cell *c, const char *path, const char *pattern, uint32_t limit,
	cell_file_fn fn, void *user, bool *ret_truncated, struct cell_error *err);

struct cell_grep_opts {
	const char *pattern; /* POSIX extended regular expression, or */
	bool is_fixed;	     /* plain text */
	bool ignore_case;
	const char *path; /* file or directory; NULL: workspace */
	const char *glob; /* only files whose path matches, or whose name does when there is no
			     slash in it; NULL: all */
	uint32_t limit;	  /* matches; 0: 1000 */
};
struct cell_grep_match {
	const char *path;
	uint64_t line_number; /* from 1 */
	const char *line;     /* without its newline, cut at 4096 bytes */
	size_t line_len;
};
typedef int (*cell_grep_fn)(const struct cell_grep_match *m, void *user);
/* Expressions know \w \d \s \b besides POSIX, no back-references, and letters of ASCII only when
 * case is ignored. Binary files (a NUL in the first 8 KiB) are passed over. */
int cell_file_grep(struct cell *c, const struct cell_grep_opts *opts, cell_grep_fn fn, void *user,
	bool *ret_truncated, struct cell_error *err);

/* Replace text. It must occur exactly once, unless all: CELL_ENOTFOUND when it does not occur,
 * CELL_EINVAL when it occurs more than once. *ret_count (may be NULL): replacements made. */
int cell_file_edit(struct cell *c, const char *path, const void *old_text, size_t old_len,
	const void *new_text, size_t new_len, bool all, uint64_t *ret_count,
	struct cell_error *err);

/* A directory as a tar stream, out and in. In: entries stay below `path`; devices, absolute names
 * and links out are refused. */
int cell_file_tar(struct cell *c, const char *path, cell_data_fn fn, void *user,
	struct cell_error *err);
int cell_file_untar(struct cell *c, const char *path, cell_source_fn fn, void *user,
	struct cell_error *err);

/* A file or directory between host and cell, whole. progress (may be NULL) is told the bytes moved
 * so far (of a directory: of its tar stream); a non-zero return stops it and is returned.
 *
 * A file: the destination is the new file's name; when that is an existing directory or ends in a
 * slash, the file goes into it under its own name. It appears whole or not at all, replaces a file
 * that is there, and keeps its permission bits.
 * A directory: the destination becomes a copy of it; when it exists already, the entries are merged
 * into it (not put in a subdirectory), files replacing files. What was copied before a failure stays.
 * Symbolic links are copied as links; those that lead out of the directory, fifos, sockets and
 * devices are not: links out make the call fail with CELL_EDENIED after all else was copied, the
 * others are passed over. Missing parent directories of the destination are made.
 * Downloads never follow or create links out of the destination. */
typedef int (*cell_progress_fn)(uint64_t bytes, void *user);
int cell_file_upload(struct cell *c, const char *host_path, const char *path,
	cell_progress_fn progress, void *user, struct cell_error *err);
int cell_file_download(struct cell *c, const char *path, const char *host_path,
	cell_progress_fn progress, void *user, struct cell_error *err);

enum cell_watch_type {
	CELL_WATCH_CREATED = 1,
	CELL_WATCH_MODIFIED,
	CELL_WATCH_REMOVED,
	CELL_WATCH_MOVED_FROM,
	CELL_WATCH_MOVED_TO,
	CELL_WATCH_OVERFLOW, /* events were lost: look again */
	CELL_WATCH_READY,    /* the watch is in place; what happens from now on is seen */
};
struct cell_watch_event {
	enum cell_watch_type type;
	const char *path; /* relative to the directory watched */
	bool is_directory;
};
typedef int (*cell_watch_fn)(const struct cell_watch_event *e, void *user);
/* Calls fn until it returns non-zero (which is returned) or timeout_ms pass (-1: never). */
int cell_file_watch(struct cell *c, const char *path, bool recursive, int timeout_ms,
	cell_watch_fn fn, void *user, struct cell_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
