/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_head.c: a request's head. Servers that disagree about where a request ends are how requests are
 * smuggled past the one in front, so a head passes two readers: our own, which takes only the plainest
 * spelling (CRLF, one space, no folding, no blank before a colon), and llhttp in strict mode, which decides the
 * framing.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "net/http_internal.h"
#include "net/text.h"

#define KEPT_BYTES 8192 /* of a buffer, between requests */
#define COPY_STEP  2048

void head_done(struct http_head *h)
{
	buf_done(&h->raw);
	buf_done(&h->text);
	free(h->fields);
	h->fields = NULL;
	h->cap_fields = 0;
}

static void shrink(struct buf *b)
{
	if (b->cap > KEPT_BYTES)
		buf_done(b);
	else
		buf_reset(b);
}

void head_reset(struct http_head *h)
{
	shrink(&h->raw);
	shrink(&h->text);
	h->line = 0;
	h->n_fields = 0;
	h->method = h->raw_path = h->raw_query = h->host = NULL;
	h->n_params = 0;
	h->content_length = 0;
	h->is_http_1_0 = h->expects_continue = false;
}

static int no(const char **why, int status, const char *what)
{
	*why = what;
	return -status;
}

/* --- receiving --- */

static int add_field(struct http_head *h, const struct http_limits *l, size_t start, size_t end,
	const char **why)
{
	const char *s = (const char *)h->raw.data;
	const char *colon = memchr(s + start, ':', end - start);

	if (!colon || !net_is_token(s + start, (size_t)(colon - s) - start))
		return no(why, 400, "a header line is malformed");
	if (h->n_fields >= l->headers)
		return no(why, 431, "there are too many headers");
	if (h->n_fields == h->cap_fields) {
		unsigned cap = h->cap_fields ? h->cap_fields * 2 : 16;
		struct head_field *more = realloc(h->fields, cap * sizeof *more);
		if (!more)
			return no(why, 503, "the server is out of memory");
		h->fields = more;
		h->cap_fields = cap;
	}
	size_t value = (size_t)(colon - s) + 1;
	while (value < end && (s[value] == ' ' || s[value] == '\t'))
		value++;
	while (end > value && (s[end - 1] == ' ' || s[end - 1] == '\t'))
		end--;
	h->fields[h->n_fields++] = (struct head_field){.name = (uint32_t)start,
		.name_len = (uint32_t)(colon - s - (ptrdiff_t)start),
		.value = (uint32_t)value,
		.value_len = (uint32_t)(end - value)};
	return 0;
}

/* A line without its CRLF. 1: it was the empty one at the end. */
static int take_line(struct http_head *h, const struct http_limits *l, size_t start, size_t end,
	const char **why)
{
	const char *s = (const char *)h->raw.data;

	if (start == end)
		return start == 0 ? no(why, 400, "the request line is empty") : 1;
	if (!net_is_field_value(s + start, end - start))
		return no(why, 400, "a control character in the head");
	if (start == 0)
		return end > l->target_bytes + 32 ? no(why, 414, "the request's target is too long")
						  : 0;
	if (s[start] == ' ' || s[start] == '\t')
		return no(why, 400, "a folded header line");
	return add_field(h, l, start, end, why);
}

/* Looks at the lines that are complete. 1: the head is, and raw ends with it. */
static int scan(struct http_head *h, const struct http_limits *l, const char **why)
{
	for (;;) {
		const uint8_t *at = h->raw.data + h->line;
		const uint8_t *lf = memchr(at, '\n', h->raw.len - h->line);
		if (!lf)
			return 0;
		if (lf == at || lf[-1] != '\r')
			return no(why, 400, "a line ends without CR");
		size_t next = (size_t)(lf - h->raw.data) + 1;
		int r = take_line(h, l, h->line, next - 2, why);
		if (r < 0)
			return r;
		h->line = next;
		if (r > 0) {
			h->raw.len = next;
			return 1;
		}
	}
}

int head_take(struct http_head *h, const struct http_limits *l, const uint8_t *p, size_t n,
	size_t *ret_used, const char **why)
{
	size_t used = 0;

	h->raw.max = l->head_bytes + 1;
	while (used < n) {
		size_t old = h->raw.len, step = n - used;
		if (old == 0 && n - used >= 2 && p[used] == '\r' && p[used + 1] == '\n') {
			used += 2; /* some clients end a body with a CRLF too many */
			if (used > 4)
				return no(why, 400, "empty lines before the request");
			continue;
		}
		if (old >= l->head_bytes)
			return h->line == 0 ? no(why, 414, "the request's target is too long")
					    : no(why, 431, "the headers are too large");
		if (step > COPY_STEP)
			step = COPY_STEP;
		/* Mostly it ends in here: take no more than that of what may be the next ones'. */
		const uint8_t *end = memmem(p + used, step, "\r\n\r\n", 4);
		if (end)
			step = (size_t)(end - (p + used)) + 4;
		if (step > l->head_bytes - old)
			step = l->head_bytes - old;
		if (buf_add(&h->raw, p + used, step) < 0)
			return no(why, 503, "the server is out of memory");
		int r = scan(h, l, why);
		if (r < 0)
			return r;
		if (r > 0) {
			*ret_used = used + h->raw.len - old;
			return 1;
		}
		if (h->line == 0 && h->raw.len > l->target_bytes + 32)
			return no(why, 414, "the request's target is too long");
		used += step;
	}
	*ret_used = used;
	return 0;
}

/* --- taking apart --- */

const char *head_field(const struct http_head *h, const char *name)
{
	size_t n = strlen(name);

	for (unsigned i = 0; i < h->n_fields; i++) {
		const struct head_field *f = &h->fields[i];
		const char *s = (const char *)h->raw.data + f->name;
		if (f->name_len == n && !strncasecmp(s, name, n))
			return (const char *)h->raw.data + f->value;
	}
	return NULL;
}

/* Twice the same of these is an attempt to have two readers see two things. */
static bool is_single(const char *s, size_t n)
{
	static const char *const names[] = {"host", "content-length", "transfer-encoding",
		"authorization", "content-type", "content-encoding", "idempotency-key", "expect",
		"origin", "sec-websocket-key", "sec-websocket-version", "x-request-id",
		"traceparent"};

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strlen(names[i]) == n && !strncasecmp(s, names[i], n))
			return true;
	return false;
}

static bool has_duplicates(const struct http_head *h)
{
	const char *raw = (const char *)h->raw.data;

	for (unsigned i = 0; i < h->n_fields; i++) {
		const struct head_field *a = &h->fields[i];
		if (!is_single(raw + a->name, a->name_len))
			continue;
		for (unsigned k = i + 1; k < h->n_fields; k++) {
			const struct head_field *b = &h->fields[k];
			if (a->name_len == b->name_len &&
				!strncasecmp(raw + a->name, raw + b->name, a->name_len))
				return true;
		}
	}
	return false;
}

static void terminate_fields(struct http_head *h)
{
	for (unsigned i = 0; i < h->n_fields; i++) {
		h->raw.data[h->fields[i].name + h->fields[i].name_len] = '\0';
		h->raw.data[h->fields[i].value + h->fields[i].value_len] = '\0';
	}
}

static const char *known_method(const char *s, size_t n)
{
	static const char *const methods[] = {
		"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"};

	for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
		if (strlen(methods[i]) == n && !memcmp(s, methods[i], n))
			return methods[i];
	return NULL;
}

static bool is_authority(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!net_is_token(&s[i], 1) && !strchr(":[]", s[i]))
			return false;
	return true;
}

/* No "." or ".." between slashes, and nothing a log or a file name would choke on. */
static bool is_clean_path(const char *s)
{
	for (const char *p = s; *p; p++) {
		if ((unsigned char)*p < 0x20 || *p == 0x7f)
			return false;
		if (*p == '/' && p[1] == '.') {
			const char *q = p + 2 + (p[2] == '.');
			if (*q == '/' || *q == '\0')
				return false;
		}
	}
	return true;
}

/* Appends a decoded piece with its NUL. */
static int add_decoded(struct buf *text, const char *s, size_t n, bool is_query)
{
	int r = buf_reserve(text, n + 1);

	if (r == 0)
		r = net_decode(s, n, is_query, (char *)text->data + text->len);
	if (r < 0)
		return r;
	text->len += (size_t)r + 1;
	return 0;
}

static int decode_target(struct http_head *h, const char **why)
{
	h->text.max = 2 * h->raw.len + 4096;
	if (add_decoded(&h->text, h->raw_path, strlen(h->raw_path), false) < 0)
		return no(why, 400, "the path has a broken escape or a NUL in it");
	if (!is_clean_path((const char *)h->text.data))
		return no(why, 400, "the path has a control character or a '..' in it");
	for (const char *p = h->raw_query; *p;) {
		size_t n = strcspn(p, "&"), name = strcspn(p, "=&");
		if (n > 0) {
			const char *value = name < n ? p + name + 1 : "";
			size_t value_len = name < n ? n - name - 1 : 0;
			if (add_decoded(&h->text, p, name, true) < 0 ||
				add_decoded(&h->text, value, value_len, true) < 0)
				return no(why, 400, "the query has a broken escape or a NUL in it");
			h->n_params++;
		}
		p += n + (p[n] == '&');
	}
	return 0;
}

/* path?query, http://authority/path?query, or *. `t` is NUL-terminated and ours to cut up. */
static int parse_target(struct http_head *h, char *t, const char **why)
{
	size_t n = strlen(t);

	for (size_t i = 0; i < n; i++)
		if (t[i] <= 0x20 || t[i] >= 0x7f || t[i] == '#')
			return no(why, 400, "the target has a character that must be escaped");
	h->raw_query = "";
	if (!strcmp(t, "*")) {
		if (strcmp(h->method, "OPTIONS") != 0)
			return no(why, 400, "the target '*' is for OPTIONS");
		h->raw_path = t;
		return decode_target(h, why);
	}
	if (t[0] != '/') {
		size_t skip = !strncasecmp(t, "http://", 7)    ? 7
			      : !strncasecmp(t, "https://", 8) ? 8
							       : 0;
		size_t len = strcspn(t + skip, "/?");
		if (!skip || len == 0 || !is_authority(t + skip, len))
			return no(why, 400, "the target is no path");
		/* The authority in the target is the one that counts. Move it down to make room for a NUL. */
		memmove(t, t + skip, len);
		h->host = t;
		char *path = t + skip + len;
		t[len] = '\0';
		h->raw_path = path;
		if (*path != '/') {
			*--path = '/';
			h->raw_path = path;
		}
		t = path;
	} else {
		h->raw_path = t;
	}
	char *query = strchr(t, '?');
	if (query) {
		*query = '\0';
		h->raw_query = query + 1;
	}
	return decode_target(h, why);
}

/* METHOD SP target SP HTTP/1.x, nothing else. */
static int parse_request_line(struct http_head *h, const char **why)
{
	char *s = (char *)h->raw.data, *cr = memchr(s, '\r', h->raw.len);
	*cr = '\0';
	char *first = strchr(s, ' '), *second = first ? strchr(first + 1, ' ') : NULL;

	if (!first || !second || second == first + 1 || strchr(second + 1, ' '))
		return no(why, 400, "the request line is malformed");
	if (!strcmp(second + 1, "HTTP/1.0"))
		h->is_http_1_0 = true;
	else if (strcmp(second + 1, "HTTP/1.1") != 0)
		return no(why, strncmp(second + 1, "HTTP/", 5) ? 400 : 505,
			"only HTTP/1.1 and HTTP/1.0 are spoken here");
	h->method = known_method(s, (size_t)(first - s));
	if (!h->method)
		return no(why, net_is_token(s, (size_t)(first - s)) ? 501 : 400,
			"the method is not known");
	*first = *second = '\0';
	return parse_target(h, first + 1, why);
}

static int parse_length(const char *s, int64_t *ret)
{
	int64_t n = 0;
	size_t len = strspn(s, "0123456789");

	if (len == 0 || len > 18 || s[len])
		return -EINVAL;
	for (size_t i = 0; i < len; i++)
		n = n * 10 + (s[i] - '0');
	*ret = n;
	return 0;
}

static int parse_framing(struct http_head *h, const char **why)
{
	const char *length = head_field(h, "content-length");
	const char *coding = head_field(h, "transfer-encoding");
	const char *expect = head_field(h, "expect");
	const char *host = head_field(h, "host");

	if (length && coding)
		return no(why, 400, "both Content-Length and Transfer-Encoding");
	if (length && parse_length(length, &h->content_length) < 0)
		return no(why, 400, "Content-Length is no number");
	if (coding && (strcasecmp(coding, "chunked") != 0 || h->is_http_1_0))
		return no(why, h->is_http_1_0 ? 400 : 501,
			"the only Transfer-Encoding taken is chunked");
	if (coding)
		h->content_length = -1;
	if (expect && strcasecmp(expect, "100-continue") != 0)
		return no(why, 417, "the only Expect taken is 100-continue");
	h->expects_continue = expect && !h->is_http_1_0 && h->content_length != 0;
	if (!host && !h->is_http_1_0)
		return no(why, 400, "there is no Host header");
	if (host && !is_authority(host, strlen(host)))
		return no(why, 400, "the Host header is malformed");
	if (!h->host)
		h->host = host ? host : "";
	return 0;
}

int head_parse(struct http_head *h, llhttp_t *parser, const char **why)
{
	/* llhttp reads it first: below, NULs are put in. */
	enum llhttp_errno e = llhttp_execute(parser, (const char *)h->raw.data, h->raw.len);
	int r;

	if (has_duplicates(h))
		return no(why, 400, "a header that may be there once is there twice");
	terminate_fields(h);
	r = parse_request_line(h, why);
	if (r == 0)
		r = parse_framing(h, why);
	if (r < 0)
		return r;
	if (e != HPE_OK && e != HPE_PAUSED && e != HPE_PAUSED_UPGRADE)
		return no(why, 400, "the head is malformed");
	return 0;
}
