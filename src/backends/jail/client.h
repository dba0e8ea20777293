/* SPDX-License-Identifier: Apache-2.0 */
/* client.h: this process's launcher: started when first needed, one for all cells and threads, gone
 * with us. */
#pragma once
#include "base/error.h"
#include "launcher/request.h"

/* What the launcher said when it was asked what can be had here. -1..: it could not be started, or
 * can do nothing here: then *err and, if it got that far, *ret->step say why. Asked once. */
int jail_client_hello(struct launcher_reply *ret, struct cell_error *err);
/* Send a request; its control_fd is filled in here. The other end, owned by the caller, is returned. */
int jail_client_send(struct launcher_request *rq, struct cell_error *err);
/* The next answer on a control socket. timeout_ms -1: wait. -ETIMEDOUT; -ECONNRESET when the launcher
 * died. *ret_fd (may be NULL): the fd that came with it, or -1. */
int jail_client_receive(int control_fd, int timeout_ms, struct launcher_reply *ret, int *ret_fd,
	struct cell_error *err);

/* The launcher's user namespace, which owns every cell's network without root; an fd. */
int jail_client_userns(struct cell_error *err);
/* Its program, to be started under another name. */
int jail_client_image(struct cell_error *err);

/* ---- explain.c ---- */

/* Turn FAILED into an error with what would help. Returns the negative errno. */
int jail_explain(const struct launcher_reply *r, struct cell_error *err);
/* Why, and the one thing to do about it; each at most 240 bytes. */
void jail_explain_parts(const struct launcher_reply *r, char reason[240], char fix[240]);
