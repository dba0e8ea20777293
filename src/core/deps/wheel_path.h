/* SPDX-License-Identifier: Apache-2.0 */
/* wheel_path.h: names in a wheel, and where they go. Pure. */
#pragma once
#include <stddef.h>

#include "cell/error.h"

/* Is it a plain relative path: no "..", no ".", no empty, absolute or overlong name, no backslash, no control byte? */
int wheel_check_path(const char *path, struct cell_error *err);
/* Where an entry of the wheel goes in the unpacked tree: "six.py" is "lib/six.py". data_dir: "six-1.0.data/". */
int wheel_place(const char *path, const char *data_dir, const char *name, char *ret, size_t size,
	struct cell_error *err);
