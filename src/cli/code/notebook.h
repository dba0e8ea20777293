/* SPDX-License-Identifier: Apache-2.0 */
/* notebook.h: notebook files (.ipynb, nbformat 4): read, their code cells given outputs, written again. Runs nothing. */
#pragma once
#include <jansson.h>

#include "cell/code.h"

#include "base/buf.h"
#include "base/error.h"

struct notebook {
	json_t *root;
	json_t *cells; /* borrowed */
	json_t *shown; /* display id -> [outputs], so that a later cell can update them */
};

/* "-": stdin. CELL_EINVAL says what is wrong with it. */
int notebook_read(const char *path, struct notebook *ret, struct cell_error *err);
int notebook_parse(const char *text, size_t n, const char *name, struct notebook *ret,
	struct cell_error *err);
void notebook_done(struct notebook *nb);
/* As a whole or not at all. "-": stdout. */
int notebook_write(const struct notebook *nb, const char *path, struct cell_error *err);

/* What its metadata says: "python", "javascript" ...; NULL: nothing. */
const char *notebook_language(const struct notebook *nb);
/* So that others know what it was run with. */
void notebook_set_language(struct notebook *nb, const char *language);

bool notebook_is_code(const json_t *cell);
bool notebook_has_tag(const json_t *cell, const char *tag);
/* Caller frees. */
char *notebook_source(const json_t *cell);
/* As if it had never run. */
void notebook_clear(json_t *cell);

/* The outputs of one cell while it runs. */
struct notebook_outputs {
	struct notebook *nb;
	json_t *cell, *list; /* borrowed */
	struct buf text;     /* of the stream that is being written */
	int stream;	     /* 1, 2; 0: none */
	bool is_clearing;
	bool has_error;
};
void notebook_begin(struct notebook *nb, json_t *cell, struct notebook_outputs *ret);
int notebook_add(struct notebook_outputs *o, const struct cell_code_event *e);
void notebook_end(struct notebook_outputs *o, uint64_t execution_count);
