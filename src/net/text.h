/* SPDX-License-Identifier: Apache-2.0 */
/* text.h: the small grammars of URLs and headers. Pure functions. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cell/error.h"

#include "base/buf.h"

/* Percent-decodes n bytes into dst (n + 1 bytes, may be src), adds a NUL. The length, or -EINVAL for a
 * broken escape or an encoded or plain NUL. plus_is_space: as in queries. */
int net_decode(const char *src, size_t n, bool plus_is_space, char *dst);

/* Appends s with everything but unreserved characters (and '/' when keep_slash) escaped. */
int net_encode(struct buf *b, const char *s, size_t n, bool keep_slash);

bool net_is_token(const char *s, size_t n);	  /* of RFC 9110: a header's name, a method */
bool net_is_field_value(const char *s, size_t n); /* no CR, LF, NUL or other control but tab */

/* Is the token in the comma-separated list, whatever its case, with or without ;parameters? */
bool net_list_has(const char *list, const char *token);

/* Does this Accept-Encoding take gzip? q=0 is a no. */
bool net_accepts_gzip(const char *accept_encoding);

/* Is a body of this type worth compressing? */
bool net_is_compressible(const char *content_type);

enum net_scheme {
	NET_HTTP,
	NET_HTTPS,
	NET_UNIX
};

struct net_url {
	enum net_scheme scheme;
	char host[256]; /* without brackets; the path of a unix socket */
	unsigned port;	/* 80 and 443 when not given; 0 for unix */
	char path
		[1024]; /* begins with '/', without a trailing one unless it is only that; may have a query */
	char authority[300]; /* for the Host header: "host:port" or "localhost" */
};

/* http://host[:port][/path], https://..., unix:/path/of/socket, unix:///path. ws and wss are taken as http and
 * https. User names in it are refused. */
int net_url_parse(const char *s, struct net_url *ret, struct cell_error *err);

/* "Sun, 06 Nov 1994 08:49:37 GMT"; ret has 30 bytes. */
void net_http_date(int64_t seconds, char ret[30]);

const char *net_status_text(int status); /* "Not Found"; never NULL */
