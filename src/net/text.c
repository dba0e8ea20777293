/* SPDX-License-Identifier: Apache-2.0 */
#include "net/text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/error.h"

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int net_decode(const char *src, size_t n, bool plus_is_space, char *dst)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		char c = src[i];
		if (c == '%') {
			int high = i + 1 < n ? hex_digit(src[i + 1]) : -1;
			int low = i + 2 < n ? hex_digit(src[i + 2]) : -1;
			if (high < 0 || low < 0)
				return -EINVAL;
			c = (char)(high << 4 | low);
			i += 2;
		} else if (c == '+' && plus_is_space) {
			c = ' ';
		}
		if (c == '\0')
			return -EINVAL;
		dst[k++] = c;
	}
	dst[k] = '\0';
	return (int)k;
}

static bool is_alnum(unsigned char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

int net_encode(struct buf *b, const char *s, size_t n, bool keep_slash)
{
	static const char digits[] = "0123456789ABCDEF";
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		unsigned char c = (unsigned char)s[i];
		if (is_alnum(c) || (c && strchr("-._~", c)) || (c == '/' && keep_slash))
			r = buf_addc(b, (char)c);
		else
			r = buf_add(b, (char[]){'%', digits[c >> 4], digits[c & 15]}, 3);
	}
	return r;
}

static bool is_token_char(unsigned char c)
{
	return is_alnum(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

bool net_is_token(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!is_token_char((unsigned char)s[i]))
			return false;
	return n > 0;
}

bool net_is_field_value(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];
		if ((c < 0x20 && c != '\t') || c == 0x7f)
			return false;
	}
	return true;
}

/* The next element of a comma list, without blanks around it; *p is behind it. False at the end. */
static bool next_element(const char **p, const char **ret, size_t *ret_n)
{
	const char *s = *p + strspn(*p, " \t,");
	size_t n = strcspn(s, ",");

	*p = s + n;
	while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t'))
		n--;
	*ret = s;
	*ret_n = n;
	return n > 0;
}

/* The element's first word, before any ";". */
static size_t word_len(const char *s, size_t n)
{
	const char *end = memchr(s, ';', n);
	size_t k = end ? (size_t)(end - s) : n;

	while (k > 0 && (s[k - 1] == ' ' || s[k - 1] == '\t'))
		k--;
	return k;
}

bool net_list_has(const char *list, const char *token)
{
	const char *s;
	size_t n, want = strlen(token);

	while (list && next_element(&list, &s, &n))
		if (word_len(s, n) == want && !strncasecmp(s, token, want))
			return true;
	return false;
}

/* q=0, q=0.0, q=0.000 */
static bool is_refused(const char *s, size_t n)
{
	const char *p = memchr(s, ';', n), *end = s + n;

	while (p && p < end) {
		p++;
		while (p < end && (*p == ' ' || *p == '\t'))
			p++;
		if (end - p >= 3 && (p[0] == 'q' || p[0] == 'Q') && p[1] == '=') {
			for (p += 2; p < end && (*p == '0' || *p == '.'); p++)
				continue;
			return p == end || *p == ' ' || *p == ';' || *p == '\t';
		}
		p = memchr(p, ';', (size_t)(end - p));
	}
	return false;
}

bool net_accepts_gzip(const char *list)
{
	const char *s;
	size_t n;
	bool is_any = false;

	while (list && next_element(&list, &s, &n)) {
		size_t k = word_len(s, n);
		if ((k == 4 && !strncasecmp(s, "gzip", 4)) ||
			(k == 6 && !strncasecmp(s, "x-gzip", 6)))
			return !is_refused(s, n);
		if (k == 1 && s[0] == '*')
			is_any = !is_refused(s, n);
	}
	return is_any;
}

bool net_is_compressible(const char *type)
{
	static const char *const types[] = {"application/json", "application/javascript",
		"application/xml", "application/yaml", "application/x-yaml", "application/x-ndjson",
		"application/openapi+yaml", "image/svg+xml"};

	if (!type)
		return false;
	size_t n = strcspn(type, "; \t");
	if (n > 5 && !strncasecmp(type, "text/", 5))
		return n != 17 || strncasecmp(type, "text/event-stream", 17) != 0;
	if (n > 5 && (!strncasecmp(type + n - 5, "+json", 5)))
		return true;
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (strlen(types[i]) == n && !strncasecmp(type, types[i], n))
			return true;
	return false;
}

/* --- URLs --- */

static int bad_url(struct cell_error *err, const char *s, const char *what)
{
	return cell_error_hint(err, cell_fail(err, CELL_EINVAL, 0, "'%s': %s", s, what),
		"give it as http://HOST:PORT, https://HOST or unix:/PATH");
}

static int parse_unix(const char *s, const char *path, struct net_url *ret, struct cell_error *err)
{
	if (!strncmp(path, "//", 2))
		path += 2;
	if (path[0] != '/')
		return bad_url(err, s, "the path of a unix socket begins with '/'");
	if (strlen(path) > 107)
		return bad_url(err, s, "the path of a unix socket has at most 107 bytes");
	ret->scheme = NET_UNIX;
	(void)snprintf(ret->host, sizeof ret->host, "%s", path);
	(void)snprintf(ret->authority, sizeof ret->authority, "localhost");
	(void)snprintf(ret->path, sizeof ret->path, "/");
	return 0;
}

static int parse_port(const char *p, size_t n, unsigned *ret)
{
	unsigned port = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9' || port > 6553)
			return -EINVAL;
		port = port * 10 + (unsigned)(p[i] - '0');
	}
	if (n == 0 || port == 0 || port > 65535)
		return -EINVAL;
	*ret = port;
	return 0;
}

static bool is_host(const char *s, size_t n, bool is_v6)
{
	for (size_t i = 0; i < n; i++)
		if (!is_alnum((unsigned char)s[i]) && !strchr(is_v6 ? ":.%" : ".-_", s[i]))
			return false;
	return n > 0 && n < 256;
}

/* host[:port], [v6][:port] */
static int parse_authority(const char *s, const char *a, size_t n, struct net_url *ret,
	struct cell_error *err)
{
	const char *host = a, *end = a + n, *rest;
	bool is_v6 = n > 0 && a[0] == '[';

	if (is_v6) {
		host++;
		rest = memchr(a, ']', n);
		if (!rest)
			return bad_url(err, s, "a '[' without its ']'");
	} else {
		rest = memchr(a, ':', n);
		rest = rest ? rest : end;
	}
	size_t host_len = (size_t)(rest - host);
	if (!is_host(host, host_len, is_v6))
		return bad_url(err, s, "there is no proper host name in it");
	memcpy(ret->host, host, host_len);
	ret->host[host_len] = '\0';
	rest += is_v6;
	if (rest < end &&
		(*rest != ':' || parse_port(rest + 1, (size_t)(end - rest - 1), &ret->port) < 0))
		return bad_url(err, s, "its port is no number from 1 to 65535");
	(void)snprintf(ret->authority, sizeof ret->authority, "%.*s", (int)n, a);
	return 0;
}

int net_url_parse(const char *s, struct net_url *ret, struct cell_error *err)
{
	static const struct {
		const char *prefix;
		enum net_scheme scheme;
		unsigned port;
	} schemes[] = {{"http://", NET_HTTP, 80}, {"https://", NET_HTTPS, 443},
		{"ws://", NET_HTTP, 80}, {"wss://", NET_HTTPS, 443}};
	const char *a = NULL;

	*ret = (struct net_url){.scheme = NET_HTTP};
	if (!strncasecmp(s, "unix:", 5))
		return parse_unix(s, s + 5, ret, err);
	for (size_t i = 0; i < sizeof schemes / sizeof schemes[0] && !a; i++) {
		size_t n = strlen(schemes[i].prefix);
		if (!strncasecmp(s, schemes[i].prefix, n)) {
			a = s + n;
			ret->scheme = schemes[i].scheme;
			ret->port = schemes[i].port;
		}
	}
	if (!a)
		return bad_url(err, s, "it has no scheme we know");
	size_t n = strcspn(a, "/?#");
	if (memchr(a, '@', n))
		return bad_url(err, s, "a user name in it would end up in logs");
	const char *path = a + n;
	size_t path_len = strlen(path);
	if (path_len >= sizeof ret->path - 1 || !net_is_field_value(path, path_len) ||
		strpbrk(path, "# "))
		return bad_url(err, s, "its path is too long, or has a blank or '#' in it");
	while (path_len > 1 && path[path_len - 1] == '/' && !strchr(path, '?'))
		path_len--;
	(void)snprintf(ret->path, sizeof ret->path, "%s%.*s", path[0] == '/' ? "" : "/",
		(int)path_len, path);
	return parse_authority(s, a, n, ret, err);
}

/* --- words of HTTP --- */

void net_http_date(int64_t seconds, char ret[30])
{
	static const char days[] = "SunMonTueWedThuFriSat";
	static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
	time_t t = (time_t)seconds;
	struct tm tm;

	(void)gmtime_r(&t, &tm);
	/* Not strftime: its names follow the locale. */
	(void)snprintf(ret, 30, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT", days + tm.tm_wday * 3L,
		tm.tm_mday % 100, months + tm.tm_mon * 3L, (tm.tm_year + 1900) % 10000,
		tm.tm_hour % 100, tm.tm_min % 100, tm.tm_sec % 100);
}

const char *net_status_text(int status)
{
	switch (status) {
	case 100:
		return "Continue";
	case 101:
		return "Switching Protocols";
	case 200:
		return "OK";
	case 201:
		return "Created";
	case 202:
		return "Accepted";
	case 204:
		return "No Content";
	case 206:
		return "Partial Content";
	case 304:
		return "Not Modified";
	case 400:
		return "Bad Request";
	case 401:
		return "Unauthorized";
	case 403:
		return "Forbidden";
	case 404:
		return "Not Found";
	case 405:
		return "Method Not Allowed";
	case 406:
		return "Not Acceptable";
	case 408:
		return "Request Timeout";
	case 409:
		return "Conflict";
	case 410:
		return "Gone";
	case 411:
		return "Length Required";
	case 412:
		return "Precondition Failed";
	case 413:
		return "Content Too Large";
	case 414:
		return "URI Too Long";
	case 415:
		return "Unsupported Media Type";
	case 416:
		return "Range Not Satisfiable";
	case 417:
		return "Expectation Failed";
	case 422:
		return "Unprocessable Content";
	case 426:
		return "Upgrade Required";
	case 429:
		return "Too Many Requests";
	case 431:
		return "Request Header Fields Too Large";
	case 500:
		return "Internal Server Error";
	case 501:
		return "Not Implemented";
	case 502:
		return "Bad Gateway";
	case 503:
		return "Service Unavailable";
	case 504:
		return "Gateway Timeout";
	case 505:
		return "HTTP Version Not Supported";
	case 507:
		return "Insufficient Storage";
	default:
		return status < 400 ? "OK" : "Error";
	}
}
