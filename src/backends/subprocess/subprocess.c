/* SPDX-License-Identifier: Apache-2.0 */
/* subprocess.c: as local, with limits for each process and a HOME and TMPDIR of its own in the cell's
 * directory. Still no wall: files and network of the host are there. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/backend.h"
#include "core/guest_process.h"

#define LIMITS_MAX 5

static void subprocess_probe(struct cell_probe *p)
{
	static const char reason[] = "only root may become another user";

	if (geteuid() != 0) {
		cell_probe_lack(p, CELL_CAP_USER, reason, "run as root");
		cell_probe_lack(p, CELL_CAP_DEFAULT_USER, reason, "run as root");
	}
}

struct limits {
	char text[LIMITS_MAX][48];
	const char *list[LIMITS_MAX + 1];
	size_t n;
};

/* What is asked for, or less where this process is held to less already. */
static void limit(struct limits *l, const char *name, int resource, uint64_t value)
{
	struct rlimit now;

	if (!value)
		return;
	if (getrlimit((__rlimit_resource_t)resource, &now) == 0 && now.rlim_max < value)
		value = now.rlim_max;
	(void)snprintf(l->text[l->n], sizeof l->text[0], "%s=%" PRIu64, name, value);
	l->list[l->n] = l->text[l->n];
	l->n++;
}

static int make_directory(struct cell *c, const char *name, char **ret, struct cell_error *err)
{
	if (mkdirat(cell_directory_fd(c), name, 0700) < 0)
		return cell_fail_errno(err, errno, "make the cell's %s", name);
	if (asprintf(ret, "%s/%s", cell_directory(c), name) < 0) {
		*ret = NULL;
		return cell_fail_errno(err, ENOMEM, "make the cell's %s", name);
	}
	return 0;
}

static int subprocess_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	auto_free char *workspace = NULL;
	auto_free char *spool = NULL;
	auto_free char *home = NULL;
	auto_free char *tmp = NULL;
	struct limits limits = {0};

	limit(&limits, "nofile", RLIMIT_NOFILE, spec->limits.files);
	limit(&limits, "fsize", RLIMIT_FSIZE, spec->limits.file_size_bytes);
	limit(&limits, "as", RLIMIT_AS, spec->limits.process_memory_bytes);
	limit(&limits, "cpu", RLIMIT_CPU, spec->limits.cpu_time_s);
	int r = make_directory(c, "spool", &spool, err);
	if (!r)
		r = make_directory(c, "home", &home, err);
	if (!r)
		r = make_directory(c, "tmp", &tmp, err);
	if (!r)
		r = cell_guest_workspace(c, spec, &workspace, err);
	struct guest_options o = {.workspace = workspace,
		.spool = spool,
		.home = home,
		.tmp = tmp,
		.rlimits = limits.list};
	return r < 0 ? r : cell_guest_start(c, &o, err);
}

const struct cell_backend cell_backend_subprocess = {
	.name = "subprocess",
	.summary = "own session, limits per process, private HOME and TMPDIR; no wall",
	.wall = "No wall: commands can do whatever you can, within limits for each process. HOME "
		"and "
		"TMPDIR are their own and are removed afterwards.",
	.tier = 1,
	.strength = 20,
	.caps = CAP(EXEC) | CAP(PTY) | CAP(FILES) | CAP(WATCH) | CAP(PORTS) | CAP(BACKGROUND) |
		CAP(NAMED) | CAP(USER) | CAP(DEFAULT_USER) | CAP(WORKSPACE) | CAP(PRIVATE_HOME) |
		CAP(KILL_TREE) | CAP(LIMIT_FILES) | CAP(LIMIT_FILE_SIZE) |
		CAP(LIMIT_PROCESS_MEMORY) | CAP(LIMIT_CPU_TIME) | CAP(NET_OPEN),
	.probe = subprocess_probe,
	.create = subprocess_create,
	.open_guest = cell_guest_connect,
	.destroy = cell_guest_stop,
};
