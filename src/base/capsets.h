/* SPDX-License-Identifier: Apache-2.0 */
/* capsets.h: giving up Linux capabilities for good. libc only; 0, or negative errno (errno is left as it was set). */
#pragma once

/* Empty the bounding set: no exec gives back what it lacks. Needs CAP_SETPCAP, so it comes before the sets below. */
int capsets_drop_bounding(void);
/* Empty all sets of this thread. */
int capsets_drop_own(void);
