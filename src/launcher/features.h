/* SPDX-License-Identifier: Apache-2.0 */
/* features.h: what this kernel, and whatever filter we run under, let us do. */
#pragma once

/* Fill in what `host` says of it, by trying. Mounts are tried by stage_init, where it may. */
void features_find(void);
