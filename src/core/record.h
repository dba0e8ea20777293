/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h: cell.json, what a cell's directory says about it. Written whole, by rename, so that a
 * reader sees the old one or the new one. Mode 0600: it holds the environment given by the user.
 */
#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "cell/caps.h"

#include "base/error.h"

#define CELL_RECORD_VERSION 1
#define CELL_RECORD_MAX	    (16u * 1024 * 1024)

/* Write to `cell.json` in dir_fd. is_durable: it survives a power cut. */
int cell_record_save(int dir_fd, json_t *record, bool is_durable, struct cell_error *err);
/* Read it; *ret is the caller's. -ENOENT (err untouched) when there is none; -EBADMSG when it
 * cannot be understood, and err says what is wrong with it. */
int cell_record_load(int dir_fd, json_t **ret, struct cell_error *err);

/* Strings in a record are bytes: what is not UTF-8 is kept all the same. NULL when absent. */
const char *cell_record_str(const json_t *record, const char *key);
int cell_record_set_str(json_t *record, const char *key, const char *value); /* NULL: nothing */
int64_t cell_record_int(const json_t *record, const char *key, int64_t otherwise);
int cell_record_set_int(json_t *record, const char *key, int64_t value);
/* NULL-terminated lists; get allocates the list and its strings, free with cell_record_list_free.
 */
int cell_record_set_list(json_t *record, const char *key, const char *const *list);
int cell_record_list(const json_t *record, const char *key, char ***ret);
void cell_record_list_free(char ***list);
int cell_record_set_caps(json_t *record, const char *key, cell_caps caps);
cell_caps cell_record_caps(const json_t *record,
	const char *key); /* words not known are passed over */
