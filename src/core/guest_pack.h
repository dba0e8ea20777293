/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_pack.h: for places that see no file of this machine, and take a tar archive instead: an engine elsewhere, a pod, a host at
 * the end of an SSH connection.
 */
#pragma once
#include <linux/filter.h>

#include "base/buf.h"

#define GUEST_PACK_MAX (16u << 20)

/* What a guest's directory has: guest, filter, and run/, where it listens. user: who it is going to be, "uid:gid"; a name is the
 * place's to explain: then whoever is in there may listen. */
int guest_pack(const char *user, const struct sock_fprog *filter, struct buf *ret);
/* Directories in which everybody may write; names end with NULL. */
int guest_pack_directories(const char *const *names, struct buf *ret);
