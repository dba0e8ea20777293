/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.h: what a parked guest is told when its cell begins. The launcher starts guests ahead, each sealed in
 * a cell that nobody has asked for yet; all that is left is this one message, with the client's stream
 * attached. Both ends are of one build: native byte order. A guest takes one lease in its life.
 */
#pragma once
#include <stdint.h>

#define LEASE_MAGIC	 0x6573656cu /* "lese" */
#define LEASE_TITLE_SIZE 160	     /* with its NUL; a parked guest's argv[0] is as long */

struct lease {
	uint32_t magic;
	uint32_t is_kept; /* the fd listens, and the cell outlives the launcher */
	uint32_t pids;	  /* RLIMIT_NPROC; 0: as it is */
	uint64_t files, file_size, memory, cpu_s; /* rlimits of commands; 0: none */
	char title[LEASE_TITLE_SIZE];		  /* argv[0] from now on */
};
