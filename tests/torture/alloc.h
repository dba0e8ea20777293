/* SPDX-License-Identifier: Apache-2.0 */
/*
 * alloc.h: allocations that fail on demand. The linker's --wrap puts these in the way of every call the
 * program and its static libraries make; what libc allocates inside itself is not reached.
 */
#pragma once
#include <stdbool.h>

/* From now on allocations are counted, and the nth (from 1) fails: that one only, or that one and
 * all after it. 0 counts and fails none. */
void torture_arm(unsigned long nth, bool is_lasting);
/* Allocations work again. Returns how many were asked for since torture_arm(). */
unsigned long torture_disarm(void);
