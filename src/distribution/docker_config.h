/* SPDX-License-Identifier: Apache-2.0 */
/*
 * docker_config.h: what a user has told the `docker` program: where its files are (DOCKER_CONFIG, else ~/.docker), and which engine it
 * speaks to. Others keep to it, Podman and the builders too, so that one login and one context are enough.
 */
#pragma once
#include <stddef.h>

#include "net/endpoint.h"

/* One of its files. -ENOENT: there is neither DOCKER_CONFIG nor a home. */
int docker_config_path(const char *name, char *ret, size_t size);

/* The engine: DOCKER_HOST, else DOCKER_CONTEXT, else the current context of config.json, else the usual socket. */
int docker_config_engine(struct net_endpoint *ret, struct cell_error *err);
