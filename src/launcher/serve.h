/* SPDX-License-Identifier: Apache-2.0 */
/* serve.h: the launcher's loop. */
#pragma once
#include "launcher/fail.h"

/* Answer requests on `socket_fd` until it ends; then end every cell that is not to be kept. `broken`
 * (its step is not NONE) is what keeps this machine from making cells at all. Does not return. */
__attribute__((noreturn)) void serve(int socket_fd, const struct failure *broken);
