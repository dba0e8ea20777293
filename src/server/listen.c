/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c: see listen.h. */
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/http.h"

#define SOCKET_MODE 0660

static bool is_loopback(const char *host)
{
	struct in_addr v4;

	return !strcmp(host, "localhost") || !strcmp(host, "::1") ||
	       (inet_pton(AF_INET, host, &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127);
}

static int wrong(const char *text, struct cell_error *err)
{
	int r = cell_fail(err, CELL_EINVAL, 0, "listen: '%.200s' is no address", text);

	return cell_error_hint(err, r,
		"for example 127.0.0.1:7070, [::1]:7070, *:7070 or unix:/run/cell/cell.sock");
}

int listen_parse(const char *text, struct listen_place *ret, struct cell_error *err)
{
	char *end;

	*ret = (struct listen_place){0};
	if (!strncmp(text, "unix:", 5)) {
		const char *path = text + 5;
		if (*path != '/' || strlen(path) >= sizeof ret->path)
			return wrong(text, err);
		(void)snprintf(ret->path, sizeof ret->path, "%s", path);
		ret->is_unix = ret->is_loopback = true;
		return 0;
	}
	const char *colon = strrchr(text, ':');
	if (!colon || (size_t)(colon - text) >= sizeof ret->host)
		return wrong(text, err);
	unsigned long port = strtoul(colon + 1, &end, 10);
	if (colon[1] < '0' || colon[1] > '9' || *end || port > 65535)
		return wrong(text, err);
	ret->port = (unsigned)port;
	memcpy(ret->host, text, (size_t)(colon - text));
	size_t n = strlen(ret->host);
	if (n > 2 && ret->host[0] == '[' && ret->host[n - 1] == ']') {
		memmove(ret->host, ret->host + 1, n - 2);
		ret->host[n - 2] = '\0';
	} else if (strchr(ret->host, ':')) {
		return wrong(text, err); /* an IPv6 address without brackets */
	}
	if (!strcmp(ret->host, "*"))
		ret->host[0] = '\0';
	ret->is_loopback = is_loopback(ret->host);
	return 0;
}

int listen_open(struct http_server *http, const struct listen_place *place, struct net_tls *tls,
	struct cell_error *err)
{
	if (place->is_unix)
		return http_listen_unix(http, place->path, SOCKET_MODE, err);
	return http_listen_tcp(http, place->host[0] ? place->host : NULL, place->port, tls, err);
}
