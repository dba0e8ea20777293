/* SPDX-License-Identifier: Apache-2.0 */
/* npm_list.c: see npm_list.h. */
#include "core/deps/npm_list.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "core/deps/npm.h"
#include "core/image/digest.h"

#define WISHES_MAX 4096

static bool is_of(const char *wish, const char *name)
{
	size_t n = strlen(name);

	return !strncmp(wish, name, n) && (!wish[n] || wish[n] == '@');
}

int npm_list_add(json_t *wishes, const char *text, struct cell_error *err)
{
	char name[NPM_NAME_MAX], range[512];
	int r = npm_wish_parse(text, name, range, sizeof range, err);

	if (r < 0)
		return r;
	for (size_t i = json_array_size(wishes); i-- > 0;)
		if (is_of(json_string_value(json_array_get(wishes, i)), name))
			(void)json_array_remove(wishes, i);
	if (json_array_size(wishes) >= WISHES_MAX)
		return cell_fail(err, CELL_ELIMIT, 0, "more than %d packages are asked for",
			WISHES_MAX);
	return json_array_append_new(wishes, json_string(text)) < 0
		       ? cell_fail(err, CELL_EINVAL, 0, "'%.100s' is no UTF-8", text)
		       : 0;
}

int npm_list_drop(json_t *wishes, const json_t *packages, const char *name, struct cell_error *err)
{
	const char *at;
	json_t *p;

	for (size_t i = json_array_size(wishes); i-- > 0;)
		if (is_of(json_string_value(json_array_get(wishes, i)), name)) {
			(void)json_array_remove(wishes, i);
			return 0;
		}
	json_object_foreach ((json_t *)(uintptr_t)packages, at, p)
		if (!strcmp(json_string_value(json_object_get(p, "name")), name))
			return cell_error_hint(err,
				cell_fail(err, CELL_EBUSY, 0,
					"'%.100s' is needed by another package", name),
				"remove that first");
	return cell_fail(err, CELL_ENOTFOUND, 0, "the package '%.100s' is not installed", name);
}

static int take_line(char *line, unsigned number, json_t *wishes, json_t **locked, bool *is_plain,
	struct cell_error *err)
{
	char name[NPM_NAME_MAX], range[512], hash[DIGEST_HEX + 1] = "", *save = NULL;
	bool is_needed = false;
	const char *wish = strtok_r(line, " \t\r", &save);

	if (!wish || *wish == '#')
		return 0;
	for (const char *word; (word = strtok_r(NULL, " \t\r", &save)) && *word != '#';) {
		if (!strcmp(word, "--needed"))
			is_needed = true;
		else if (!strncmp(word, "--hash=sha256:", 14) && digest_is_hex(word + 14))
			(void)snprintf(hash, sizeof hash, "%s", word + 14);
		else
			return cell_fail(err, CELL_EINVAL, 0,
				"list of packages, line %u: what is '%.100s'?", number, word);
	}
	int r = npm_wish_parse(wish, name, range, sizeof range, err);
	if (r == 0 && !is_needed)
		r = npm_list_add(wishes, wish, err);
	*is_plain |= !*hash;
	if (r == 0 && *hash) {
		if (!*locked)
			*locked = json_object();
		if (!json_object_get(*locked, name))
			(void)json_object_set_new(*locked, name, json_object());
		if (json_object_set_new(json_object_get(*locked, name), range, json_string(hash)) <
			0)
			r = cell_fail_errno(err, ENOMEM, "read the list of packages");
	}
	return r < 0 ? cell_error_prefix(err, r, "list of packages, line %u", number) : 0;
}

int npm_list_read(const char *text, json_t *wishes, json_t **locked, struct cell_error *err)
{
	bool is_plain = false;
	unsigned number = 0;
	int r = 0;

	while (r == 0 && *text) {
		size_t n = strcspn(text, "\n");
		auto_free char *line = strndup(text, n);
		if (!line)
			return cell_fail_errno(err, ENOMEM, "read the list of packages");
		r = take_line(line, ++number, wishes, locked, &is_plain, err);
		text += n + (text[n] == '\n');
	}
	if (r == 0 && *locked && is_plain)
		r = cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0,
				"list of packages: one has no hash, but others have"),
			"give every package one: `cell deps lock` makes such a list");
	return r;
}

int npm_list_write(const json_t *packages, struct buf *ret)
{
	int r = buf_addz(ret, "# made by `cell deps lock --lang javascript`\n");
	const char *at;
	json_t *p;

	json_object_foreach ((json_t *)(uintptr_t)packages, at, p)
		if (r == 0)
			r = buf_addf(ret, "%s@%s%s --hash=sha256:%s\n",
				json_string_value(json_object_get(p, "name")),
				json_string_value(json_object_get(p, "version")),
				json_is_true(json_object_get(p, "requested")) ? "" : " --needed",
				json_string_value(json_object_get(p, "hash")));
	return r;
}
