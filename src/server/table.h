/* SPDX-License-Identifier: Apache-2.0 */
/* table.h: uthash that does not end the process when memory is out. After HASH_ADD ask
 * table_has(): false means that the element is not in the table and still the caller's. */
#pragma once
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#define table_has(element) ((element)->hh.tbl != NULL)
