/* SPDX-License-Identifier: Apache-2.0 */
/* reqfile.c: see reqfile.h. */
#include "core/deps/reqfile.h"

#include <ctype.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/image/digest.h"

#define LINE_MAX_BYTES (256u * 1024)

static int bad(struct cell_error *err, unsigned line, const char *text, const char *why,
	const char *hint)
{
	int r = cell_fail(err, CELL_EINVAL, 0, "requirements, line %u: '%.160s': %s", line, text,
		why);

	return cell_error_hint(err, r, "%s", hint);
}

static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	n = strlen(s);
	while (n && strchr(" \t\r", s[n - 1]))
		s[--n] = '\0';
	return s;
}

/* A # at the beginning, or behind a space, begins a comment. */
static void drop_comment(char *s)
{
	for (char *p = s; *p; p++)
		if (*p == '#' && (p == s || isspace((unsigned char)p[-1]))) {
			*p = '\0';
			return;
		}
}

static int add_hash(json_t **hashes, const char *name, const char *hash)
{
	if (!*hashes && !(*hashes = json_object()))
		return -ENOMEM;
	json_t *list = json_object_get(*hashes, name);
	if (!list) {
		list = json_array();
		if (json_object_set_new(*hashes, name, list) < 0)
			return -ENOMEM;
	}
	return json_array_append_new(list, json_string(hash)) < 0 ? -ENOMEM : 0;
}

static int take_line(char *s, unsigned line, json_t *requirements, json_t **hashes,
	struct cell_error *err)
{
	struct requirement q;
	char *options = NULL;

	drop_comment(s);
	s = trim(s);
	if (!*s)
		return 0;
	if (!strncmp(s, "-r", 2) || !strncmp(s, "--requirement", 13) || !strncmp(s, "-c", 2) ||
		!strncmp(s, "--constraint", 12))
		return bad(err, line, s, "other files are not read from here",
			"put all requirements into one file");
	if (*s == '-')
		return bad(err, line, s, "options are not taken from a file",
			"where packages come from is deps.index and deps.find_links of the "
			"configuration");
	if (!strncmp(s, "git+", 4) || strstr(s, "://"))
		return bad(err, line, s, "packages by URL are not taken",
			"put the wheel into a directory of deps.find_links, or add the file "
			"itself");
	if (*s == '.' || *s == '/' || (strlen(s) > 4 && !strcmp(s + strlen(s) - 4, ".whl")))
		return bad(err, line, s, "files are not taken from a list",
			"name the file itself: cell deps add CELL FILE.whl");
	for (char *p = strstr(s, " --"); p; p = options ? NULL : strstr(p + 1, " --"))
		options = p;
	if (options)
		*options++ = '\0';
	s = trim(s);
	int r = requirement_parse(s, &q, err);
	if (r < 0)
		return cell_error_prefix(err, r, "requirements, line %u", line);
	if (json_array_append_new(requirements, json_string(s)) < 0)
		return bad(err, line, s, "it is no UTF-8", "");
	while (options && *(options = options + strspn(options, " \t"))) {
		size_t n = strcspn(options, " \t");
		char *next = options + n + (options[n] != '\0');
		options[n] = '\0';
		if (strncmp(options, "--hash=sha256:", 14) != 0)
			return bad(err, line, options,
				"only --hash=sha256:... may follow a requirement", "leave it out");
		for (char *h = options + 14; *h; h++)
			*h = (char)tolower((unsigned char)*h);
		if (!digest_is_hex(options + 14))
			return bad(err, line, options, "this is no SHA-256",
				"it has 64 hex digits");
		if (add_hash(hashes, q.name, options + 14) < 0)
			return cell_fail_errno(err, ENOMEM, "read the requirements");
		options = next;
	}
	return 0;
}

int reqfile_read(const char *text, json_t *requirements, json_t **hashes, struct cell_error *err)
{
	auto_buf struct buf line = BUF_INIT(LINE_MAX_BYTES);
	unsigned number = 0, first = 0;
	size_t before = json_array_size(requirements);
	int r = 0;

	if (!strncmp(text, "\xef\xbb\xbf", 3))
		text += 3;
	while (r == 0 && *text) {
		size_t n = strcspn(text, "\n"), keep = n;
		const char *start = text;
		text += n + (text[n] == '\n');
		number++;
		first = line.len ? first : number;
		while (keep && (start[keep - 1] == '\r' || start[keep - 1] == ' '))
			keep--;
		bool goes_on = keep && start[keep - 1] == '\\';
		if (buf_add(&line, start, keep - goes_on) < 0 ||
			(goes_on && buf_addc(&line, ' ') < 0))
			return cell_fail(err, CELL_ELIMIT, 0,
				"requirements, line %u: it is too long", first);
		if (goes_on && *text)
			continue;
		r = line.len ? take_line((char *)line.data, first, requirements, hashes, err) : 0;
		buf_reset(&line);
	}
	/* pip's rule, and the only safe one: a list that names hashes must name all */
	if (r == 0 && *hashes)
		for (size_t i = before; i < json_array_size(requirements); i++) {
			struct requirement q;
			const char *s = json_string_value(json_array_get(requirements, i));
			(void)requirement_parse(s, &q, NULL);
			if (!json_object_get(*hashes, q.name))
				return cell_error_hint(err,
					cell_fail(err, CELL_EINVAL, 0,
						"requirements: '%.160s' has no hash, but others "
						"have",
						s),
					"give every package one: `cell deps lock` makes such a "
					"list");
		}
	return r;
}
