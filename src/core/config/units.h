/* SPDX-License-Identifier: Apache-2.0 */
/*
 * units.h: sizes, durations, CPUs and switches as people write them, and back. No floating point:
 * what is written is what is meant. Each returns 0, -EINVAL (not of that form) or -ERANGE.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "512m", "1g", "1.5GiB", "1024". Suffixes b k m g t, with or without "b" or "ib", any case, are
 * powers of 1024 as in Docker. A plain number is multiplied by bare_unit (1: bytes). */
int parse_bytes(const char *text, uint64_t bare_unit, uint64_t *ret);
/* "500ms", "1s", "2m", "1h30m", "1d"; a plain number is seconds, "none" is 0. To milliseconds; what
 * is not zero is at least 1. */
int parse_duration(const char *text, uint64_t *ret_ms);
/* "2", "0.5", "500m" (thousandths, as in Kubernetes). To thousandths of a CPU. */
int parse_cpus(const char *text, uint64_t *ret_millis);
/* true yes on 1, false no off 0, any case. */
int parse_bool(const char *text, bool *ret);
/* "0.000012": at most nine digits behind the point. To billionths. */
int parse_price(const char *text, uint64_t *ret_billionths);
/* Decimal digits only. */
int parse_uint(const char *text, uint64_t *ret);

#define UNIT_TEXT_MAX 32
/* The shortest text that parses back to the same value. Each returns buf. */
const char *format_bytes(uint64_t bytes, char buf[UNIT_TEXT_MAX]);
const char *format_duration(uint64_t ms, char buf[UNIT_TEXT_MAX]);
const char *format_cpus(uint64_t millis, char buf[UNIT_TEXT_MAX]);
const char *format_price(uint64_t billionths, char buf[UNIT_TEXT_MAX]);
