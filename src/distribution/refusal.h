/* SPDX-License-Identifier: Apache-2.0 */
/* refusal.h: why a registry gave no image, told by its words: whoever asked it, an engine or we, it is these that are passed on. */
#pragma once
#include "base/error.h"

/* For cell_error_known(). */
extern const struct cell_known_words refusal_words[];
