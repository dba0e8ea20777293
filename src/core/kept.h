/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kept.h: what a service said of itself, kept for a little while, since asking again takes longer than what it is asked for: seconds in
 * this process, a minute for the next one. On disk only what a unix socket of this machine said, and good for that very socket: a service that
 * was started anew may say something else, and of one elsewhere nobody could tell.
 */
#pragma once
#include <jansson.h>

/* url: where it is, "unix:/path" or another. The caller's; NULL: nothing is kept, or it is old. */
json_t *kept_load(const char *url);
void kept_save(const char *url, const json_t *said);
