/* SPDX-License-Identifier: Apache-2.0 */
/* A growing byte buffer with a mandatory maximum. Always NUL-terminated behind `len` once something
 * was added, so that text can be used as a string. */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data;
	size_t len;
	size_t cap;
	size_t max; /* bytes it may ever hold; adding more fails with -ENOBUFS */
};

#define BUF_INIT(max_bytes)        \
	{                          \
		.max = (max_bytes) \
	}

void buf_done(struct buf *b);                        /* frees; b is empty and usable again */
void buf_reset(struct buf *b);                       /* len = 0, memory kept */
int buf_reserve(struct buf *b, size_t more);         /* room for `more` bytes behind len */
int buf_add(struct buf *b, const void *p, size_t n); /* 0, -ENOBUFS or -ENOMEM */
int buf_addz(struct buf *b, const char *s);          /* a string, without its NUL */
int buf_addc(struct buf *b, char c);
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_consume(struct buf *b, size_t n); /* drop n bytes from the front */
const char *buf_str(const struct buf *b);  /* never NULL */
char *buf_steal(struct buf *b);            /* caller frees; "" when empty, NULL on OOM */

#define auto_buf __attribute__((cleanup(buf_done)))
