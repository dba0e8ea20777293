/* SPDX-License-Identifier: Apache-2.0 */
/* page.c: see page.h. */
#include "core/deps/page.h"

#include <ctype.h>
#include <jansson.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/image/digest.h"

#define TEXT_MAX 8192

/* Percent-encoded bytes of a file name; false when what comes out is no name. */
static bool decode(const char *p, size_t n, struct buf *ret)
{
	buf_reset(ret);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)p[i];
		if (c == '%' && i + 2 < n && isxdigit((unsigned char)p[i + 1]) &&
			isxdigit((unsigned char)p[i + 2])) {
			char hex[3] = {p[i + 1], p[i + 2], 0};
			c = (unsigned char)strtoul(hex, NULL, 16);
			i += 2;
		}
		if (c < 0x20 || c == '/' || buf_addc(ret, (char)c) < 0)
			return false;
	}
	return ret->len;
}

char *page_join(const char *base, const char *link)
{
	auto_buf struct buf b = BUF_INIT(TEXT_MAX);
	const char *scheme = strstr(base, "://");
	int r;

	if (!scheme)
		return NULL;
	if (!strncmp(link, "http://", 7) || !strncmp(link, "https://", 8))
		return strlen(link) < TEXT_MAX ? strdup(link) : NULL;
	/* no other scheme, file: least of all */
	const char *colon = strchr(link, ':');
	if (colon && colon < link + strcspn(link, "/?#"))
		return NULL;
	const char *host_end = scheme + 3 + strcspn(scheme + 3, "/?#");
	if (!strncmp(link, "//", 2)) {
		r = buf_add(&b, base, (size_t)(scheme + 1 - base));
		r = r < 0 ? r : buf_addz(&b, link);
		return r < 0 ? NULL : buf_steal(&b);
	}
	const char *path_end = host_end + strcspn(host_end, "?#");
	if (*link == '/') {
		path_end = host_end;
	} else {
		while (path_end > host_end && path_end[-1] != '/')
			path_end--;
		for (; !strncmp(link, "../", 3) || !strncmp(link, "./", 2);
			link += link[1] == '.' ? 3 : 2) {
			if (link[1] != '.' || path_end - host_end < 2)
				continue;
			for (path_end--; path_end > host_end && path_end[-1] != '/'; path_end--)
				;
		}
	}
	r = buf_add(&b, base, (size_t)(path_end - base));
	if (r == 0 && path_end == host_end && *link != '/')
		r = buf_addc(&b, '/');
	r = r < 0 ? r : buf_addz(&b, link);
	return r < 0 ? NULL : buf_steal(&b);
}

/* The link's fragment may have the hash; the rest is the URL, its last name the file's. */
static int give_link(const char *base, const char *link, const char *requires_python,
	bool is_yanked, page_fn fn, void *user)
{
	auto_buf struct buf name = BUF_INIT(512);
	auto_free char *url = page_join(base, link);
	char hash[DIGEST_HEX + 1] = "";

	if (!url)
		return 0;
	char *fragment = strchr(url, '#');
	if (fragment) {
		*fragment++ = '\0';
		if (!strncmp(fragment, "sha256=", 7) && strlen(fragment + 7) >= DIGEST_HEX)
			(void)snprintf(hash, sizeof hash, "%.64s", fragment + 7);
		for (char *h = hash; *h; h++)
			*h = (char)tolower((unsigned char)*h);
	}
	size_t end = strcspn(url, "?");
	const char *start = url + end;
	while (start > url && start[-1] != '/')
		start--;
	if (!decode(start, (size_t)(url + end - start), &name))
		return 0;
	return fn(&(struct page_file){.filename = buf_str(&name),
			  .url = url,
			  .hash = digest_is_hex(hash) ? hash : "",
			  .requires_python = requires_python,
			  .is_yanked = is_yanked},
		user);
}

/* ---- HTML ---- */

static void unescape(const char *p, size_t n, struct buf *ret)
{
	static const struct {
		const char *name;
		char c;
	} entities[] = {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'},
		{"&#39;", '\''}, {"&#62;", '>'}, {"&#60;", '<'}};

	buf_reset(ret);
	for (size_t i = 0; i < n; i++) {
		char c = p[i];
		for (size_t k = 0; c == '&' && k < sizeof entities / sizeof *entities; k++) {
			size_t len = strlen(entities[k].name);
			if (n - i >= len && !strncasecmp(p + i, entities[k].name, len)) {
				c = entities[k].c;
				i += len - 1;
				break;
			}
		}
		if (buf_addc(ret, c) < 0)
			return;
	}
	(void)buf_add(ret, "", 0);
}

/* An attribute of the tag [p, end); false: it has none of that name. */
static bool attribute(const char *p, const char *end, const char *name, struct buf *ret)
{
	size_t n = strlen(name);

	while (p < end) {
		while (p < end && (isspace((unsigned char)*p) || *p == '/'))
			p++;
		const char *key = p;
		while (p < end && !isspace((unsigned char)*p) && *p != '=' && *p != '>')
			p++;
		size_t key_len = (size_t)(p - key);
		if (!key_len)
			return false;
		while (p < end && isspace((unsigned char)*p))
			p++;
		const char *value = p;
		size_t len = 0;
		if (p < end && *p == '=') {
			for (p++; p < end && isspace((unsigned char)*p); p++)
				;
			char quote = p < end && (*p == '"' || *p == '\'') ? *p++ : 0;
			value = p;
			while (p < end && (quote ? *p != quote : !isspace((unsigned char)*p)))
				p++;
			len = (size_t)(p - value);
			p += quote && p < end;
		}
		if (key_len == n && !strncasecmp(key, name, n)) {
			unescape(value, len, ret);
			return true;
		}
	}
	return false;
}

/* Where the tag that begins at p ends: quotes may have a > in them. */
static const char *tag_end(const char *p, const char *end)
{
	char quote = 0;

	for (; p < end; p++) {
		if (quote)
			quote = *p == quote ? 0 : quote;
		else if (*p == '"' || *p == '\'')
			quote = *p;
		else if (*p == '>')
			return p;
	}
	return end;
}

static int read_html(const char *p, const char *end, const char *url, page_fn fn, void *user)
{
	auto_buf struct buf href = BUF_INIT(TEXT_MAX), python = BUF_INIT(TEXT_MAX),
			    yanked = BUF_INIT(TEXT_MAX);

	while (p < end && (p = memchr(p, '<', (size_t)(end - p)))) {
		if (end - p > 4 && !memcmp(p, "<!--", 4)) {
			const char *close = memmem(p, (size_t)(end - p), "-->", 3);
			p = close ? close + 3 : end;
			continue;
		}
		const char *close = tag_end(p, end);
		if (close - p > 3 && tolower((unsigned char)p[1]) == 'a' &&
			isspace((unsigned char)p[2]) && attribute(p + 2, close, "href", &href)) {
			if (!attribute(p + 2, close, "data-requires-python", &python))
				buf_reset(&python);
			bool is_yanked = attribute(p + 2, close, "data-yanked", &yanked);
			int r = give_link(url, buf_str(&href), python.len ? buf_str(&python) : "",
				is_yanked, fn, user);
			if (r)
				return r;
		}
		p = close < end ? close + 1 : end;
	}
	return 0;
}

/* ---- JSON ---- */

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static int read_json(const char *text, size_t len, const char *url, page_fn fn, void *user,
	struct cell_error *err)
{
	json_t *page = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL), *f;
	json_t *files = json_object_get(page, "files");
	size_t i;
	int r = 0;

	if (!json_is_array(files))
		r = cell_fail(err, CELL_EPROTOCOL, 0, "the page '%.200s' is no index", url);
	json_array_foreach (files, i, f) {
		const json_t *yanked = json_object_get(f, "yanked");
		const char *hash = text_of(json_object_get(f, "hashes"), "sha256");
		auto_free char *at = page_join(url, text_of(f, "url"));
		if (r || !at || !*text_of(f, "filename") || strchr(text_of(f, "filename"), '/'))
			continue;
		at[strcspn(at, "#")] = '\0';
		r = fn(&(struct page_file){.filename = text_of(f, "filename"),
			       .url = at,
			       .hash = digest_is_hex(hash) ? hash : "",
			       .requires_python = text_of(f, "requires-python"),
			       .is_yanked = json_is_true(yanked) || json_is_string(yanked)},
			user);
	}
	json_decref(page);
	return r;
}

int page_read(const char *text, size_t len, const char *type, const char *url, page_fn fn,
	void *user, struct cell_error *err)
{
	if (strstr(type, "json"))
		return read_json(text, len, url, fn, user, err);
	return read_html(text, text + len, url, fn, user);
}
