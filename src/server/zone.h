/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zone.h: local time of a place, from the TZif files of /usr/share/zoneinfo (RFC 8536, versions 1
 * to 4), without libc's TZ: any number of zones at once, from any thread. Immutable once made.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/error.h"

#define ZONE_FILE_MAX (256u * 1024)

struct zone;
/* "Europe/Berlin", "UTC". $TZDIR, else /usr/share/zoneinfo; UTC needs no file. CELL_ENOTFOUND,
 * CELL_EINVAL. */
int zone_open(const char *name, struct zone **ret, struct cell_error *err);
/* From the bytes of a file. -EINVAL when it is none. */
int zone_parse(const void *bytes, size_t len, struct zone **ret);
void zone_free(struct zone *z);
void zone_freep(struct zone **z);
#define auto_zone auto_(zone_freep)

/* Seconds east of UTC at this moment. */
int32_t zone_offset(const struct zone *z, int64_t unix_s);
/* The moments at which the clock there shows local_s (seconds since 1970 as if local time were
 * UTC): 1 mostly; 2, earlier first, when the clock was put back over it; 0 when it was put
 * forward over it, and then ret[0] is the moment of the change. */
int zone_moments(const struct zone *z, int64_t local_s, int64_t ret[2]);
