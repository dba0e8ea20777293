/* SPDX-License-Identifier: Apache-2.0 */
/* destination.h: addresses and ranges of a network as a spec names them: 10.1.2.0/24, 10.1.2.3:5432,
 * fd00::/8, [fd00::1]:443. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

struct cell_destination {
	uint8_t family; /* 4, 6 */
	uint8_t prefix; /* bits that count; the others are zero */
	uint16_t port;	/* 0: all */
	uint8_t addr[16];
};

/* 0, or -EINVAL: no such text, or bits of the address behind the prefix. */
int cell_destination_parse(const char *text, struct cell_destination *ret);
/* One address, without a port. */
bool cell_destination_is_address(const char *text);
