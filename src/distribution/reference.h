/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reference.h: what an image is called where it comes from: [HOST[:PORT]/]PATH[:TAG][@sha256:DIGEST], as
 * people write it for Docker. Pure.
 */
#pragma once
#include "cell/error.h"

#include "core/image/digest.h"

struct reference {
	char host[256]; /* as written, or docker.io */
	char path[256]; /* "library/python" */
	char tag[129];	/* "" when only the digest was given; "latest" without either */
	char digest[DIGEST_HEX + 1]; /* hex; "" when none was given */
};

int reference_parse(const char *text, struct reference *ret, struct cell_error *err);
/* Who answers for the host: docker.io's registry has another name. */
const char *reference_endpoint(const struct reference *r);
/* Is it this machine? Then it may be spoken to without TLS. */
bool reference_is_loopback(const struct reference *r);
/* Does it say itself which image it is, by a tag or a digest? */
bool reference_is_exact(const char *text);
