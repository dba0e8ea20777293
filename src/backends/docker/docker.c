/* SPDX-License-Identifier: Apache-2.0 */
/* docker.c: the back end `docker`: a fresh container of the Docker Engine for each cell. How is in backends/engine, which podman
 * shares. */
#include "backends/docker/locate.h"

static const struct engine_kind docker = {
	.name = "docker",
	.title = "Docker",
	.fix = "start it (systemctl start docker), or say where it is: DOCKER_HOST or a context",
	.locate = docker_locate,
	.auth_file = docker_auth_file,
};

static void docker_probe(struct cell_probe *p)
{
	engine_probe(&docker, p);
}

static int docker_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	return engine_create(&docker, c, spec, err);
}

static int docker_open_guest(struct cell *c, struct cell_error *err)
{
	return engine_open_guest(&docker, c, err);
}

static int docker_destroy(struct cell *c, struct cell_error *err)
{
	return engine_destroy(&docker, c, err);
}

static bool docker_is_alive(struct cell *c)
{
	return engine_is_alive(&docker, c);
}

static int docker_walls(cell_wall_fn fn, void *user)
{
	return engine_walls(&docker, fn, user);
}

const struct cell_backend cell_backend_docker = {
	.name = "docker",
	.summary = "a fresh container by the Docker Engine, here or elsewhere",
	.wall = "Namespaces, no capabilities, a syscall filter and limits, made by the engine on "
		"the "
		"kernel it shares with all containers. Whoever may use the engine is root on its "
		"machine; cells are not given its socket.",
	.tier = 2,
	.caps = ENGINE_CAPS,
	.probe = docker_probe,
	.create = docker_create,
	.open_guest = docker_open_guest,
	.destroy = docker_destroy,
	.is_alive = docker_is_alive,
	.walls = docker_walls,
};
