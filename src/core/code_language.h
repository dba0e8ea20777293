/* SPDX-License-Identifier: Apache-2.0 */
/* code_language.h: which language a piece of code is in. Pure. */
#pragma once
#include <stddef.h>

/* "py" -> "python", "bash" -> "shell"; a word that is not known stays: the cell says what it has. */
const char *code_language(const char *word);
/* From a file's name, else from the #! of its text; NULL: neither tells. */
const char *code_language_guess(const char *path, const char *text, size_t n);
