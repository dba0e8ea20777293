/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tags.h: the interpreter of a cell as far as choosing packages goes, and whether a wheel is for it: the file name
 * says so (PEP 425, 600, 656). Pure.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "core/deps/requirement.h"

struct interpreter {
	char path[512];		 /* in the cell */
	char version[32];	 /* "3.11.2" */
	char short_version[16];	 /* "3.11" */
	char implementation[32]; /* "cpython" */
	char machine[32];	 /* "x86_64" */
	char libc[16];		 /* "glibc", "musl" or "" */
	unsigned major, minor;	 /* of Python */
	unsigned libc_major, libc_minor;
	char release[128]; /* of the kernel */
	bool is_32bit;
};

/* From lines of KEY=VALUE that the interpreter itself printed: foreign text. False: it makes no sense. */
bool interpreter_parse(const char *text, struct interpreter *ret);
/* The program that prints them, for `python3 -I -S -c`. */
extern const char interpreter_script[];
void interpreter_markers(const struct interpreter *i, struct marker_env *ret);

struct wheel_name {
	char name[REQUIREMENT_NAME_MAX]; /* normal form */
	char version[128];
	char build[64];
	char python[256], abi[256], platform[512]; /* each may have several, with dots */
};
/* "numpy-1.26.0-cp311-cp311-manylinux_2_17_x86_64.whl". False when it is no wheel's name. */
bool wheel_name_parse(const char *filename, struct wheel_name *ret);
/* How well it fits: 0 not at all, more is better. */
unsigned wheel_fitness(const struct wheel_name *w, const struct interpreter *i);
