/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cell.h: the C API of Cell. Include this; it brings the rest.
 *
 *	struct cell_error err = {0};
 *	struct cell *c;
 *	if (cell_open(&(struct cell_spec){.backend = "subprocess"}, &c, &err) < 0) ...
 *	struct cell_result r;
 *	cell_run(c, &(struct cell_exec_opts){.shell = "echo hello"}, NULL, 0, &r, &err);
 *	fwrite(r.out, 1, r.out_len, stdout);
 *	cell_result_done(&r);
 *	cell_close(c, &err);
 *
 * Threads: a struct cell and what comes from it is used by one thread at a time; different cells
 * are independent. The library never logs, never exits, installs no signal handlers.
 */
#ifndef CELL_CELL_H
#define CELL_CELL_H

#include <cell/caps.h>
#include <cell/code.h>
#include <cell/error.h>
#include <cell/exec.h>
#include <cell/file.h>
#include <cell/port.h>
#include <cell/snapshot.h>
#include <cell/spec.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct cell;

#define CELL_NAME_MAX \
	64 /* bytes, with the NUL: a-z 0-9 . _ -, beginning with a letter or digit \
			  */

/* "0.1.0" */
const char *cell_version(void);

/* Make a cell. With a name it outlives this process (reopen it by name); without one it is gone
 * when closed or when this process dies. */
int cell_open(const struct cell_spec *spec, struct cell **ret, struct cell_error *err);
/* Have n cells of this kind made ahead, as long as this process lives: a cell_open() of the same kind takes one, with its
 * interpreters (spec->warm) ready, and another is made when nobody waits. Name, workspace, environment and most limits may
 * differ from the spec's; what cannot come later (image, mounts, network, filter, scratch space) may not. One kind at a
 * time: another call changes it. CELL_ENOTSUP where cells of this kind cannot be made ahead. */
int cell_shelf_fill(const struct cell_spec *spec, unsigned n, struct cell_error *err);
/* Connect to a named cell made earlier, here or elsewhere on this machine. CELL_ENOTFOUND;
 * CELL_EGONE when it was there but its guest has died (it is cleaned up then). */
int cell_reopen(const char *name, struct cell **ret, struct cell_error *err);
/* Let go. An ephemeral cell is destroyed, a named one stays. Takes NULL. */
int cell_close(struct cell *c, struct cell_error *err);
/* Destroy, named or not, and free the handle. */
int cell_destroy(struct cell *c, struct cell_error *err);
/* By name, whatever state it is in. */
int cell_remove(const char *name, struct cell_error *err);

/* Let everything in a cell stand still, and go on. By name, since such a cell answers nobody: reopening it is CELL_EBUSY.
 * Nothing to do when it is so already. Deadlines run on: what is overdue ends when the cell goes on. CELL_ENOTSUP
 * where the back end does not promise CELL_CAP_PAUSE. */
int cell_pause(const char *name, struct cell_error *err);
int cell_resume(const char *name, struct cell_error *err);

/* What a cell uses now; 0 where nobody can tell. */
struct cell_stats {
	uint64_t cpu_ns; /* since it began */
	uint64_t memory_bytes, memory_limit_bytes;
	uint32_t processes;
	uint64_t net_in_bytes, net_out_bytes;
	uint64_t disk_read_bytes, disk_written_bytes;
};
/* Counted by what makes the cell where it can, of a paused one too; else as its guest sees it. */
int cell_stats(const char *name, struct cell_stats *ret, struct cell_error *err);

const char *cell_name(const struct cell *c); /* for an ephemeral cell, its id */
const char *cell_backend_of(const struct cell *c);
/* What the cell's back end promised when it was made. */
bool cell_supports(const struct cell *c, enum cell_cap cap);
/* Limits asked for with best effort that are not enforced; 0 when all are. */
cell_caps cell_degraded(const struct cell *c);

/* For an event loop: wait until readable (or writable when cell_poll_events() says POLLOUT), then
 * call cell_exec_next(x, 0, ...). Reading the fd yourself breaks the connection. */
int cell_poll_fd(const struct cell *c);
short cell_poll_events(const struct cell *c);
/* When the fd is ready and no command is under way: CELL_EGONE tells that the guest is gone. */
int cell_poll(struct cell *c, struct cell_error *err);

enum cell_state {
	CELL_STATE_CREATING = 1,
	CELL_STATE_READY,
	CELL_STATE_DEAD,   /* its guest has died; the next command cleans it up */
	CELL_STATE_BROKEN, /* its record cannot be read */
	CELL_STATE_PAUSED, /* everything in it stands still: cell_resume() */
};

/* Strings are valid during the callback. */
struct cell_info {
	const char *name;
	const char *backend;
	enum cell_state state;
	const char *workspace;
	bool is_ephemeral;
	int64_t guest_pid;
	uint64_t created_unix_ms;
	const char *const *labels; /* NULL-terminated */
	const char *directory;	   /* where its record, socket and spool are */
	/* as the spec named them; "" when it did not */
	const char *resources, *scratch, *seccomp;
	/* of the image it was made from, "" when that says nothing: its id, its name with digest in the
	 * registry it was fetched from, and what it would run as whom; for information only */
	const char *image, *image_digest, *image_entrypoint, *image_cmd, *image_user;
};
typedef int (*cell_info_fn)(const struct cell_info *info, void *user);
/* All cells of this user's state directory. Clean-up of dead ones is cell_prune()'s. */
int cell_list(cell_info_fn fn, void *user, struct cell_error *err);
/* One. */
int cell_inspect(const char *name, cell_info_fn fn, void *user, struct cell_error *err);
/* Remove what crashed processes left: dead cells, half-made ones, ephemeral ones without owner. fn
 * (may be NULL) is told each. Returns how many. */
int cell_prune(cell_info_fn fn, void *user, struct cell_error *err);

/* What the cell is, as its guest sees it. Strings are valid during the callback. */
struct cell_platform {
	const char *os;		/* "Linux" */
	const char *os_version; /* "Debian GNU/Linux 12 (bookworm)" */
	const char *kernel;	/* release */
	const char *arch;
	const char *hostname;
	const char *workspace; /* as the cell sees it */
	const char *user;
	uint32_t uid;
	uint32_t cpus;
	uint64_t memory_bytes;
	const char *guest_version;
	int64_t guest_pid;
	uint64_t guest_rss_bytes;
	uint32_t execs_running, clients;
	/* Of the whole cell, where its guest can tell (in a pid namespace of its own); else processes is 0. */
	uint64_t cpu_ns;	    /* since it began */
	uint64_t used_memory_bytes; /* resident, now; shared pages count for each process */
	uint32_t processes;
};
typedef int (*cell_platform_fn)(const struct cell_platform *p, void *user);
int cell_platform(struct cell *c, cell_platform_fn fn, void *user, struct cell_error *err);
/* Where each program is in the cell's PATH: path is "" when it is not there. */
typedef int (*cell_tool_fn)(const char *name, const char *path, void *user);
int cell_tools(struct cell *c, const char *const *names, cell_tool_fn fn, void *user,
	struct cell_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
