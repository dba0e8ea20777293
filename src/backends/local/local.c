/* SPDX-License-Identifier: Apache-2.0 */
/* local.c: a guest beside us, bound to its workspace. Fastest and no wall at all: commands are the user's own
 * processes, with a clean environment. */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/backend.h"
#include "core/guest_process.h"

static void local_probe(struct cell_probe *p)
{
	static const char reason[] = "only root may become another user";

	if (geteuid() != 0) {
		cell_probe_lack(p, CELL_CAP_USER, reason, "run as root");
		cell_probe_lack(p, CELL_CAP_DEFAULT_USER, reason, "run as root");
	}
}

static int local_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	auto_free char *workspace = NULL;
	auto_free char *spool = NULL;

	if (mkdirat(cell_directory_fd(c), "spool", 0700) < 0 ||
		asprintf(&spool, "%s/spool", cell_directory(c)) < 0)
		return cell_fail_errno(err, errno, "make the cell's spool");
	int r = cell_guest_workspace(c, spec, &workspace, err);
	struct guest_options o = {.workspace = workspace, .spool = spool};
	return r < 0 ? r : cell_guest_start(c, &o, err);
}

const struct cell_backend cell_backend_local = {
	.name = "local",
	.summary = "processes of your own beside you, in the workspace; no wall",
	.wall = "No wall: commands can do whatever you can. They get a clean environment, and a "
		"deadline ends all of them.",
	.tier = 1,
	.strength = 10,
	.caps = CAP(EXEC) | CAP(PTY) | CAP(FILES) | CAP(WATCH) | CAP(PORTS) | CAP(BACKGROUND) |
		CAP(NAMED) | CAP(USER) | CAP(DEFAULT_USER) | CAP(WORKSPACE) | CAP(KILL_TREE) |
		CAP(NET_OPEN),
	.probe = local_probe,
	.create = local_create,
	.open_guest = cell_guest_connect,
	.destroy = cell_guest_stop,
};
