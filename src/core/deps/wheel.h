/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wheel.h: unpacking a wheel that somebody hostile may have made (PEP 427). What comes out is a tree of plain files
 * that is as RECORD says to the byte, and a manifest:
 *
 *	lib/	 goes into site-packages
 *	bin/	 scripts; a first line "#!python" is to become the environment's interpreter
 *	include/ headers
 *	data/	 goes into the environment's root
 *
 * Nothing of it is run, here or when it is installed.
 */
#pragma once
#include <jansson.h>

#include "cell/error.h"

#define WHEEL_FORMAT 2 /* of trees and manifests; others are made again */

/* fd: the wheel, which nobody else may write. filename: what it says it is, without directories. dir_fd: an empty
 * directory of ours. *ret is the manifest: {format, name, version, filename, requires, requires_python, files: [[path, size]],
 * entry_points: [[name, module, attribute]]}; the caller's. On failure the directory holds whatever it holds. */
int wheel_unpack(int fd, const char *filename, int dir_fd, json_t **ret, struct cell_error *err);

/* May a script have this name? Not one that takes the place of the interpreter or leaves its directory. */
int wheel_check_script_name(const char *name, struct cell_error *err);
