/* SPDX-License-Identifier: Apache-2.0 */
/* docker.c: the back end `docker`: a fresh container of the Docker Engine for each cell. How is in backends/engine, which podman
 * shares; which engine, in distribution/docker_config.h. */
#include "backends/engine/engine.h"
#include "distribution/docker_config.h"

static const struct engine_kind docker = {
	.container = {&engine_calls},
	.name = "docker",
	.title = "Docker",
	.fix = "start it (systemctl start docker), or say where it is: DOCKER_HOST or a context",
	.denied = "be root, or a member of the group that owns the socket (usually 'docker'): that "
		  "is "
		  "as good as root",
	.locate = docker_config_engine,
};

const struct cell_backend cell_backend_docker = {
	.name = "docker",
	.summary = "a fresh container by the Docker Engine, here or elsewhere",
	.wall = "Namespaces, no capabilities, a syscall filter and limits, made by the engine on "
		"the "
		"kernel it shares with all containers. Whoever may use the engine is root on its "
		"machine; cells are not given its socket.",
	.kind = &docker,
	ENGINE_TABLE,
};
