/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advice.c: what each back end needs, when to take it and when not, for `cell backends`, the API and docs/backends.md. In one place, since it is
 * said with a view to the others, which a back end knows nothing of.
 */
#include "core/advice.h"

#include <string.h>

static const struct cell_advice all[] = {
	{"local", "nothing", "your own code, as fast as can be",
		"code you have not read: it can do whatever you can"},
	{"subprocess", "nothing",
		"your own code that may run away: limits for each process, a HOME of its own",
		"code of others, limits for all processes together"},
	{"chroot", "root; a root tree",
		"builds and tests in the tree of another distribution, of code you trust",
		"code of others: as root it gets out"},
	{"jail", "Linux 5.4, images 5.11; user namespaces, or root",
		"code of agents and of others: the strongest walls without a virtual machine, "
		"in milliseconds, no daemon",
		"code that must not even meet the machine's kernel"},
	{"docker", "a Docker Engine that answers, here or elsewhere; an image",
		"teams that have it: images of registries, engines on other machines, runsc or "
		"kata as runtime",
		"starts in milliseconds; machines where its users must not be root; open networks "
		"that must not reach private addresses"},
	{"podman", "Podman 4 or later with its service; an image",
		"the same without a daemon of root's: rootless containers",
		"starts in milliseconds; engines on other machines"},
	{"oci", "an OCI runtime: runc, crun or runsc; an image of Cell's store, or a root tree",
		"containers without a daemon, with root or without, by the runtime you trust or "
		"audit; with runsc a kernel of its own where there is no virtual machine",
		"starts in milliseconds; a network: it has none"},
	{"containerd", "containerd that answers; an image",
		"machines that have containerd and no Docker",
		"starts in milliseconds; engines on other machines"},
};

const struct cell_advice *cell_advice_on(const char *backend)
{
	static const struct cell_advice none = {"", "", "", ""};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(all[i].backend, backend))
			return &all[i];
	return &none;
}
