/* SPDX-License-Identifier: Apache-2.0 */
/*
 * podman.c: the back end `podman`: containers by Podman's service, which speaks Docker's API (backends/engine). Here is
 * what differs: where it listens. What it answers differently is handled where the answers are read,
 * by engine->is_libpod.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/engine/engine.h"
#include "base/error.h"

/* CONTAINER_HOST, as the `podman` program has it; root's socket; the user's own. */
static int podman_locate(struct net_endpoint *ret, struct cell_error *err)
{
	const char *host = getenv("CONTAINER_HOST"), *run = getenv("XDG_RUNTIME_DIR");
	int n;

	if (host && *host && strncmp(host, "unix://", 7) != 0) {
		int r = cell_fail(err, CELL_ENOTSUP, 0, "Podman's address '%.120s'", host);
		return cell_error_hint(err, r,
			"unix:// is understood; for ssh:// forward the socket: ssh -L "
			"/tmp/podman.sock:/run/podman/podman.sock HOST");
	}
	if (host && *host)
		n = snprintf(ret->url, sizeof ret->url, "unix:%s", host + 7);
	else if (geteuid() == 0)
		n = snprintf(ret->url, sizeof ret->url, "unix:/run/podman/podman.sock");
	else if (run && *run)
		n = snprintf(ret->url, sizeof ret->url, "unix:%s/podman/podman.sock", run);
	else
		n = snprintf(ret->url, sizeof ret->url, "unix:/run/user/%u/podman/podman.sock",
			geteuid());
	return n > 0 && (size_t)n < sizeof ret->url
		       ? 0
		       : cell_fail(err, CELL_EINVAL, ENAMETOOLONG, "the path of Podman's socket");
}

static const struct engine_kind podman = {
	.container = {&engine_calls},
	.name = "podman",
	.title = "Podman",
	.fix = "start its service: systemctl --user start podman.socket (without --user as root), "
	       "or say where it is: CONTAINER_HOST",
	.denied = "be root, or a member of the group that owns the socket (usually 'podman'): that "
		  "is "
		  "as good as root",
	.locate = podman_locate,
};

const struct cell_backend cell_backend_podman = {
	.name = "podman",
	.summary = "a fresh container by Podman, rootless too",
	.wall = "Namespaces, no capabilities, a syscall filter and limits, made by Podman on the "
		"kernel "
		"it shares with all containers. Rootless, the container's root is an ordinary "
		"user.",
	.kind = &podman,
	ENGINE_TABLE,
};
