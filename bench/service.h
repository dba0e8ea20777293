/* SPDX-License-Identifier: Apache-2.0 */
/* service.h: a `cell serve` of our own for measurements, and asking it. Each ends the program when something goes wrong. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bench.h"

#define SERVICE_TEXT 65536 /* room for an answer */

struct service {
	char program[4200], state[128], log[160], token[128];
	pid_t pid;
	uint16_t port;
};

/* A state directory and a token for it; the server is started by service_start. */
void service_make(const struct bench *b, struct service *s);
/* Milliseconds until it listens, which is when everything is taken over. */
double service_start(struct service *s);
void service_end(struct service *s, int sig);

/* A connection. */
int service_join(const struct service *s);
/* The bytes of a request; how many. */
size_t service_request(const struct service *s, char *text, size_t max, const char *method,
	const char *path, const char *accept, const char *body);
void service_put(int fd, const char *text, size_t n);
/* One whole answer with a length; its status. */
int service_answer(int fd, char *text, size_t max);
/* Both. `text` has room for SERVICE_TEXT. */
int service_ask(const struct service *s, int fd, const char *method, const char *path,
	const char *body, char *text);
void service_session(const struct service *s, int fd, char id[64]);
