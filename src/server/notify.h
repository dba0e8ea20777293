/* SPDX-License-Identifier: Apache-2.0 */
/* notify.h: telling systemd how far we are (sd_notify(3)); nothing happens without NOTIFY_SOCKET. */
#pragma once
void notify(const char *state); /* "READY=1" */
