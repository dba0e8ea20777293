/* SPDX-License-Identifier: Apache-2.0 */
/* reply.h: answering a client. */
#pragma once
#include "launcher/fail.h"
#include "launcher/request.h"

/* One message, with an fd when attach_fd >= 0. A client that does not read loses its answer. */
int reply_send(int fd, const struct launcher_reply *r, int attach_fd);
/* The same for whoever may be gone already (fd -1): fills in what every answer has. */
void reply_answer(int fd, struct launcher_reply *r);
void reply_failure(int fd, const struct failure *f);
