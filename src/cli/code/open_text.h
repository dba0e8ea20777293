/* SPDX-License-Identifier: Apache-2.0 */
/* open_text.h: is the code typed so far to be gone on with? A guess that reads no grammar: brackets, quotes, a colon at the end. Pure. */
#pragma once
#include <stdbool.h>

struct open_text {
	bool is_open;	   /* more is needed: the return key begins a new line */
	unsigned n_indent; /* blanks by which the next line is indented further */
};

/* language: "python", "javascript", "shell", "sql". In Python a block is ended by an empty line. */
struct open_text open_text_look(const char *language, const char *text);
