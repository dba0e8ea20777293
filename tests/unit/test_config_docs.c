/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_config_docs.c: docs/configuration.md against the schema. The tables between the marks are made
 * from the schema (CELL_UPDATE_DOCS=1 writes them); every YAML block of the page is loaded.
 */
#include "base/buf.h"
#include "config_helper.h"
#include "core/config/value.h"

#define PAGE CELL_SOURCE_ROOT "/docs/configuration.md"

static void add_spellings(struct buf *out, const struct config_key *key)
{
	bool is_first = true;

	for (const struct config_alias *a = config_aliases; a->spelling; a++)
		if (!strcmp(a->path, key->path)) {
			ASSERT_OK(buf_addf(out, "%s`%s`", is_first ? "" : ", ", a->spelling));
			is_first = false;
		}
}

static void add_range(struct buf *out, const struct config_key *key)
{
	char min[VALUE_TEXT_MAX], max[VALUE_TEXT_MAX];

	if (key->max)
		ASSERT_OK(buf_addf(out, ", %s to %s", value_number_text(key->type, key->min, min),
			value_number_text(key->type, key->max, max)));
	else if (key->min > 1)
		ASSERT_OK(buf_addf(out, ", at least %s",
			value_number_text(key->type, key->min, min)));
}

static void add_words(struct buf *out, const struct config_key *key)
{
	char word[QUOTE_MAX];

	for (int i = 0; enum_word(key->values, i, word); i++)
		ASSERT_OK(buf_addf(out, "%s`%s`", i ? ", " : "", word));
}

static void add_type(struct buf *out, const struct config_key *key)
{
	if (!strcmp(key->path, "needs"))
		ASSERT_OK(buf_addz(out, "list of capabilities, as `cell backends` names them"));
	else if (key->type == KEY_ENUMS)
		ASSERT_OK(buf_addz(out, "list of "));
	else if (key->type != KEY_ENUM)
		ASSERT_OK(buf_addf(out, "%s%s", key_types[key->type].noun,
			key->values ? ", or " : ""));
	if (key->values && strcmp(key->path, "needs") != 0)
		add_words(out, key);
	add_range(out, key);
	if (key->prefix)
		ASSERT_OK(buf_addf(out, ", beginning with `%s`", key->prefix));
}

/* What a record may hold: one line each below its key. */
static void add_fields(struct buf *out, const struct config_key *key)
{
	const char *part = key->type == KEY_TABLE ? ".NAME" : "[]";

	for (const struct config_key *f = key->fields; f && f->path; f++) {
		ASSERT_OK(buf_addf(out, "| `%s%s.%s` | ", key->path, part, f->path));
		add_type(out, f);
		ASSERT_OK(buf_addf(out, " |  | %s |\n", f->doc));
	}
}

static void add_keys(struct buf *out)
{
	ASSERT_OK(buf_addz(out, "| key | value | also written | meaning |\n|---|---|---|---|\n"));
	for (size_t i = 0; i < config_keys_count; i++) {
		const struct config_key *key = &config_keys[i];
		ASSERT_OK(buf_addf(out, "| `%s` | ", key->path));
		add_type(out, key);
		ASSERT_OK(buf_addz(out, " | "));
		add_spellings(out, key);
		ASSERT_OK(buf_addf(out, " | %s", key->doc));
		if (key->backends)
			ASSERT_OK(buf_addf(out, " (only: %s)", key->backends));
		if (key->unserved)
			ASSERT_OK(buf_addf(out, " (needs %s: not in this build)", key->unserved));
		ASSERT_OK(buf_addz(out, " |\n"));
		add_fields(out, key);
	}
}

static void add_backends(struct buf *out)
{
	ASSERT_OK(buf_addz(out, "| name | also written |\n|---|---|\n"));
	for (const struct backend_name *b = backend_names; b->name; b++) {
		ASSERT_OK(buf_addf(out, "| `%s` | ", b->name));
		for (const char *p = b->aliases; *p;) {
			size_t n = strcspn(p, " ");
			ASSERT_OK(buf_addf(out, "%s`%.*s`", p == b->aliases ? "" : ", ", (int)n,
				p));
			p += n + (p[n] == ' ');
		}
		ASSERT_OK(buf_addz(out, " |\n"));
	}
}

/* Put `made` between the marks of that name. */
static void replace(struct buf *page, const char *name, const struct buf *made)
{
	char begin[64], end[64];
	struct buf out = BUF_INIT(1 << 20);

	(void)snprintf(begin, sizeof begin, "<!-- %s: made from the schema -->\n", name);
	(void)snprintf(end, sizeof end, "<!-- end of %s -->", name);
	const char *text = buf_str(page);
	const char *from = strstr(text, begin), *to = strstr(text, end);
	CHECK_(from && to && from < to, "the page has no place for %s", name);
	from += strlen(begin);
	ASSERT_OK(buf_add(&out, text, (size_t)(from - text)));
	ASSERT_OK(buf_add(&out, made->data, made->len));
	ASSERT_OK(buf_addz(&out, to));
	buf_done(page);
	*page = out;
}

TEST(the_tables_of_the_page_are_those_of_the_schema)
{
	struct buf page = BUF_INIT(1 << 20), keys = BUF_INIT(1 << 20), backends = BUF_INIT(1 << 20);
	char *text = read_whole(PAGE);

	ASSERT_OK(buf_addz(&page, text));
	add_keys(&keys);
	add_backends(&backends);
	replace(&page, "keys", &keys);
	replace(&page, "back ends", &backends);
	if (getenv("CELL_UPDATE_DOCS"))
		write_whole(PAGE, buf_str(&page));
	else
		CHECK_(!strcmp(text, buf_str(&page)), "the tables of docs/configuration.md are "
						      "old: run this with CELL_UPDATE_DOCS=1");
	free(text);
	buf_done(&page);
	buf_done(&keys);
	buf_done(&backends);
}

/* The message a block must bring, from "<!-- error: ... -->" in the line above it; "" for none. */
static void expected_error(const char *page, const char *block, char *ret, size_t size)
{
	static const char mark[] = "<!-- error: ";
	const char *line = block - 1;

	while (line > page && line[-1] != '\n')
		line--;
	ret[0] = '\0';
	if (strncmp(line, mark, sizeof mark - 1) != 0)
		return;
	line += sizeof mark - 1;
	const char *end = strstr(line, " -->");
	ASSERT(end && end < block);
	(void)snprintf(ret, size, "%.*s", (int)(end - line), line);
}

TEST(every_yaml_block_of_the_page_does_what_it_says)
{
	char *page = read_whole(PAGE);
	int loaded = 0, refused = 0;

	for (const char *p = page; (p = strstr(p, "```yaml\n"));) {
		char want[400];
		struct cell_config *cfg = NULL;
		const struct cell_spec *spec;
		struct cell_error err = {0};

		expected_error(page, p, want, sizeof want);
		p += strlen("```yaml\n");
		const char *end = strstr(p, "```");
		ASSERT(end);
		int r = cell_config_load_text("cell.yaml", p, (size_t)(end - p), &cfg, &err);
		if (r == 0)
			r = cell_config_spec(cfg, &spec, &err);
		CHECK_((r < 0) == (*want != 0), "%.*s: %s", (int)(end - p), p, err.msg);
		ASSERT_STR(err.msg, want);
		loaded += r == 0;
		refused += r < 0;
		cell_config_free(cfg);
		p = end + 3;
	}
	ASSERT(loaded >= 6 && refused >= 3);
	free(page);
}

TEST(every_type_and_key_is_described)
{
	for (size_t i = 0; i < config_keys_count; i++)
		ASSERT(config_keys[i].doc && *config_keys[i].doc);
	for (size_t i = 0; i < KEY_TYPE_COUNT; i++)
		ASSERT(key_types[i].noun && key_types[i].example);
}

TEST(every_alias_points_to_a_key_and_no_spelling_is_taken_twice)
{
	for (const struct config_alias *a = config_aliases; a->spelling; a++) {
		CHECK_(schema_index(a->path) >= 0, "%s", a->path);
		CHECK_(schema_index(a->spelling) < 0, "%s", a->spelling);
		for (const struct config_alias *b = a + 1; b->spelling; b++)
			ASSERT(strcmp(a->spelling, b->spelling) != 0);
	}
	for (size_t i = 0; i < config_keys_count; i++)
		ASSERT_NUM(schema_index(config_keys[i].path), i);
}
