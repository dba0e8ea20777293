/* SPDX-License-Identifier: Apache-2.0 */
/* text_json.h: foreign text as a JSON string. */
#pragma once
#include <jansson.h>

/* A text that may be anything. Of one that is no UTF-8 (it may have been cut in the middle of a letter) or longer than 1 KiB, what is not
 * ASCII becomes '?', and the rest is cut off. A new reference. */
json_t *text_json(const char *s);
