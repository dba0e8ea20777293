/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credentials.h: a user's name and password for a registry, from where Docker and Podman keep them:
 * $REGISTRY_AUTH_FILE, $DOCKER_CONFIG/config.json, ~/.docker/config.json, the auth.json of containers-auth(5),
 * and the programs they name (docker-credential-*).
 */
#pragma once
#include "cell/error.h"

#include "base/buf.h"

struct credentials {
	char *user, *secret;  /* NULL: none are known */
	char *identity_token; /* instead of a password; NULL: none */
};

/* 0 also when there are none. A file that cannot be read or a helper that fails is an error: a pull without
 * them would fail for a reason that misleads. */
int credentials_find(const char *host, struct credentials *ret, struct cell_error *err);
void credentials_done(struct credentials *c);
/* The same in one text, as container engines take them with a pull (X-Registry-Auth): "" when there are none. It is a secret. */
int credentials_pack(const char *host, struct buf *ret, struct cell_error *err);
/* For the registry of an image. None where its name cannot be read: that is for who pulls it to refuse. */
int credentials_pack_image(const char *image, struct buf *ret, struct cell_error *err);
