/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that cannot be used safely, or that hide a shell. Included by every compilation
 * through the build (-include); using one is a compile error. */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Macros in some libraries and compilers; a macro cannot be poisoned without a warning. */
#undef alloca
#undef sprintf
#undef vsprintf
#undef strcpy
#undef strcat
#undef strncpy
#undef strncat
#undef stpcpy

#pragma GCC poison strcpy strcat strncpy strncat stpcpy sprintf vsprintf gets strtok system popen
#pragma GCC poison atoi atol atoll atof tmpnam tempnam mktemp alloca
