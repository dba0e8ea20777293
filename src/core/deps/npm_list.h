/* SPDX-License-Identifier: Apache-2.0 */
/* npm_list.h: lists of JavaScript packages: what is asked for, and the lock. A line is NAME@RANGE, or of a lock NAME@VERSION --hash=sha256:HEX, with --needed when
 * only another package needs it. Pure. */
#pragma once
#include <jansson.h>

#include "cell/error.h"

#include "base/buf.h"

/* A later wish for a package replaces an earlier one. */
int npm_list_add(json_t *wishes, const char *text, struct cell_error *err);
/* packages: {at: {name...}}. CELL_ENOTFOUND when it is not there, CELL_EBUSY when only another needs it. */
int npm_list_drop(json_t *wishes, const json_t *packages, const char *name, struct cell_error *err);
/* *locked: {name: {version: hash}}, made when there are hashes; then every line must have one. */
int npm_list_read(const char *text, json_t *wishes, json_t **locked, struct cell_error *err);
int npm_list_write(const json_t *packages, struct buf *ret);
