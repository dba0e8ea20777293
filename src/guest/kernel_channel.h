/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kernel_channel.h: what a driver says on its control socket, taken apart. No I/O. A message is one line of words,
 * the last of them the length of the payload that follows. Bytes come in any pieces.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHANNEL_MAX_HEAD  200u
#define CHANNEL_MAX_EVENT (64u * 1024 * 1024)
#define CHANNEL_MAX_SMALL 4096u /* payload of `ready` and `done` */

enum channel_word {
	CHANNEL_READY = 1,
	CHANNEL_DISPLAY,
	CHANNEL_RESULT,
	CHANNEL_ERROR,
	CHANNEL_CLEAR,
	CHANNEL_INPUT,
	CHANNEL_ANSWER,
	CHANNEL_MARK,
	CHANNEL_DONE,
};
enum channel_status {
	CHANNEL_OK = 1,
	CHANNEL_FAILED,
	CHANNEL_EXIT
};

struct channel {
	char head[CHANNEL_MAX_HEAD];
	size_t n;		    /* bytes of the head so far */
	enum channel_word word;	    /* 0: between messages */
	enum channel_status status; /* of `done` */
	uint64_t len;		    /* of the payload */
	uint64_t left;		    /* of it, not yet taken */
	const char *why;	    /* after -EPROTO */
};

/* Take the head of a message from p. 1: c->word and c->len are set. 0: more bytes are needed. -EPROTO: this is no
 * message, c->why says what is wrong. *ret_used bytes are done with. Only between messages. */
int channel_head(struct channel *c, const uint8_t *p, size_t n, size_t *ret_used);
/* n bytes of the payload were taken. */
void channel_took(struct channel *c, size_t n);
/* The message is done: the next may come. */
void channel_next(struct channel *c);
