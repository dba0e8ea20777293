/* SPDX-License-Identifier: Apache-2.0 */
/* units.h: numbers, sizes and times as people write and read them. Pure. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* Each gives 0, or -EINVAL when the text is no such thing, or -ERANGE when it does not fit. */
int cli_parse_number(const char *text, uint64_t *ret);
int cli_parse_size(const char *text, uint64_t *ret); /* 10, 64k, 1.5M, 2GiB: powers of 1024 */
int cli_parse_duration_ms(const char *text, uint64_t *ret); /* 500ms, 1.5s, 1h30m; plain: s */

#define CLI_UNIT_MAX 24 /* bytes of any text below, with the NUL */

/* "0 B", "1023 B", "1.5 KiB", "12 MiB" */
const char *cli_format_size(char out[CLI_UNIT_MAX], uint64_t bytes);
/* How long ago or how long it takes, in one unit: "12s", "3m", "5h", "9d" */
const char *cli_format_age(char out[CLI_UNIT_MAX], uint64_t seconds);
/* "2026-01-31 13:05:59", local time */
const char *cli_format_time(char out[CLI_UNIT_MAX], uint64_t unix_ms);
/* "2026-01-31T13:05:59.123Z" needs one byte more than the others */
const char *cli_format_rfc3339(char *out, size_t size, uint64_t unix_ms);
