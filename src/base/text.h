/* SPDX-License-Identifier: Apache-2.0 */
/* text.h: small questions about texts. */
#pragma once
#include <stdbool.h>
#include <string.h>

static inline bool text_begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}
