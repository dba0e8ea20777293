/* SPDX-License-Identifier: Apache-2.0 */
/* test_yaml.c: YAML text to nodes, and what is refused. */
#include "core/config/yaml.h"
#include "test.h"

static const struct source file = {.name = (char[]){"f.yaml"}};

static struct node *parse(const char *text)
{
	struct node *n = NULL;
	struct cell_error err = {0};
	int r = yaml_parse(text, strlen(text), &file, &n, &err);
	CHECK_(r == 0, "%s", err.msg);
	return n;
}

static void refuses_bytes(const char *text, size_t len, const char *msg)
{
	struct node *n = NULL;
	struct cell_error err = {0};
	int r = yaml_parse(text, len, &file, &n, &err);
	CHECK_(r < 0, "accepted: %s", text);
	ASSERT(!n);
	ASSERT_STR(err.msg, msg);
	ASSERT(err.code == CELL_EINVAL);
}

static void refuses(const char *text, const char *msg)
{
	refuses_bytes(text, strlen(text), msg);
}

TEST(nodes_know_their_place)
{
	struct node *n = parse("a: 1\nb:\n  - x\n  - c: [y, z]\n");
	ASSERT(n->kind == NODE_MAP && n->n_items == 2);
	struct node *b = node_get(n, "b");
	ASSERT(b->kind == NODE_LIST && b->key_line == 2 && b->key_column == 1);
	ASSERT(b->items[0]->line == 3 && b->items[0]->column == 5);
	struct node *c = node_get(b->items[1], "c");
	ASSERT(c->key_line == 4 && c->key_column == 5);
	ASSERT(c->items[1]->line == 4 && c->items[1]->column == 12);
	ASSERT_STR(c->items[1]->text, "z");
	node_free(n);
}

TEST(columns_count_characters_not_bytes)
{
	struct node *n = parse("{\"äöü\": x, b: y}");
	ASSERT(node_get(n, "b")->key_column == 12);
	node_free(n);
}

static void kind_is(const char *scalar, enum node_kind kind)
{
	char text[80];
	(void)snprintf(text, sizeof text, "k: %s\n", scalar);
	struct node *n = parse(text);
	CHECK_(n->items[0]->kind == kind, "%s is of kind %d", scalar, n->items[0]->kind);
	node_free(n);
}

TEST(plain_scalars_follow_the_core_schema_of_yaml_1_2)
{
	static const char *const nulls[] = {"", "~", "null", "Null", "NULL"};
	static const char *const bools[] = {"true", "True", "TRUE", "false", "False", "FALSE"};
	static const char *const ints[] = {"0", "-1", "+12", "0o17", "0xFf", "007"};
	static const char *const reals[] = {
		"1.5", "-.5", "1.", "1e3", "6.02E+23", ".inf", "-.INF", ".nan"};
	static const char *const strings[] = {"yes", "no", "on", "off", "y", "1_000", "0b1", "1:30",
		"0o8", "0xg", "1e", ".", "-", "nul", "tRue", "2001-01-01", "\"1\"", "'true'",
		"\"\"", "''"};

	for (size_t i = 0; i < sizeof nulls / sizeof *nulls; i++)
		kind_is(nulls[i], NODE_NULL);
	for (size_t i = 0; i < sizeof bools / sizeof *bools; i++)
		kind_is(bools[i], NODE_BOOL);
	for (size_t i = 0; i < sizeof ints / sizeof *ints; i++)
		kind_is(ints[i], NODE_INT);
	for (size_t i = 0; i < sizeof reals / sizeof *reals; i++)
		kind_is(reals[i], NODE_REAL);
	for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
		if (strcmp(strings[i], "-") != 0)
			kind_is(strings[i], NODE_STRING);
}

TEST(block_scalars_are_text)
{
	struct node *n = parse("a: |\n  12\nb: >-\n  true\n");
	ASSERT(n->items[0]->kind == NODE_STRING && n->items[1]->kind == NODE_STRING);
	ASSERT_STR(n->items[0]->text, "12\n");
	ASSERT_STR(n->items[1]->text, "true");
	node_free(n);
}

TEST(nothing_is_an_empty_document)
{
	ASSERT(!parse(""));
	ASSERT(!parse("# only a comment\n"));
	ASSERT(!parse("---\n...\n"));
	ASSERT(!parse("null\n"));
	ASSERT(!parse("\xef\xbb\xbf"));
}

TEST(one_document_may_be_marked)
{
	struct node *n = parse("---\na: 1\n...\n");
	ASSERT(n && n->n_items == 1);
	node_free(n);
}

TEST(what_can_surprise_is_refused_with_its_place)
{
	refuses("a: &x 1\n", "f.yaml:1:4: anchors (&name) are not supported");
	refuses("a: &x [1]\n", "f.yaml:1:4: anchors (&name) are not supported");
	refuses("a: 1\nb: *x\n", "f.yaml:2:4: aliases (*name) are not supported");
	refuses("a: !!str 1\n", "f.yaml:1:4: tags (!name) are not supported");
	refuses("a: !x {}\n", "f.yaml:1:4: tags (!name) are not supported");
	refuses("a: ! 1\n", "f.yaml:1:4: tags (!name) are not supported");
	refuses("a: 1\nb: 2\na: 3\n", "f.yaml:3:1: duplicate key 'a'");
	refuses("x:\n  a: 1\n  \"a\": 3\n", "f.yaml:3:3: duplicate key 'a'");
	refuses("a: 1\n---\nb: 2\n", "f.yaml:2:1: a second document");
	refuses("? [a]\n: 1\n", "f.yaml:1:3: a key must be text, not a list or a mapping");
	refuses("\"\": 1\n", "f.yaml:1:1: an empty key");
	refuses("a: \"x\\0y\"\n", "f.yaml:1:4: text with a NUL character in it");
}

TEST(broken_yaml_says_where)
{
	refuses("a: [1, 2\n", "f.yaml:2:1: not YAML: did not find expected ',' or ']', while "
			      "parsing a flow sequence");
	refuses("a: b: c\n",
		"f.yaml:1:5: not YAML: mapping values are not allowed in this context");
	refuses("a:\n\t- b\n", "f.yaml:2:1: not YAML: found character that cannot start any token, "
			       "while scanning for the next token");
}

TEST(bytes_that_are_not_text_are_refused)
{
	refuses_bytes("a: 1\nb\0: 2", 10, "f.yaml:2:2: a NUL byte: this is not a text file");
	refuses("a: 1\nb: \xff\n", "f.yaml:2:4: not UTF-8 text: invalid leading UTF-8 octet");
	refuses("a: \xc3(\n", "f.yaml:1:5: not UTF-8 text: invalid trailing UTF-8 octet");
	refuses("a: \x01\n", "f.yaml:1:4: not UTF-8 text: control characters are not allowed");
}

TEST(depth_has_a_limit)
{
	char text[200] = "a: ";
	memset(text + 3, '[', 31);
	memset(text + 34, ']', 31);
	struct node *n = parse(text);
	node_free(n);
	memset(text + 3, '[', 32);
	memset(text + 35, ']', 32);
	refuses(text, "f.yaml:1:35: nested too deep: 32 levels is the limit");
}

TEST(size_has_a_limit)
{
	size_t n = YAML_MAX_BYTES;
	char *text = malloc(n + 1);
	ASSERT(text);
	memset(text, '\n', n + 1);
	text[0] = 'a';
	text[1] = ':';
	struct node *root = NULL;
	struct cell_error err = {0};
	ASSERT_OK(yaml_parse(text, n, &file, &root, &err));
	node_free(root);
	refuses_bytes(text, n + 1, "f.yaml: larger than 1 MiB");
	free(text);
}

TEST(the_number_of_values_has_a_limit)
{
	size_t n = YAML_MAX_NODES * 2;
	char *text = malloc(n + 16);
	ASSERT(text);
	char *p = text;
	*p++ = '[';
	for (unsigned i = 0; i < YAML_MAX_NODES; i++) {
		*p++ = 'a';
		*p++ = ',';
	}
	*p++ = ']';
	struct node *root = NULL;
	struct cell_error err = {0};
	ASSERT(yaml_parse(text, (size_t)(p - text), &file, &root, &err) < 0);
	ASSERT(strstr(err.msg, "too many values"));
	free(text);
}

TEST(control_characters_in_a_key_are_escaped_in_messages)
{
	refuses("\"a\\eb\": 1\n\"a\\eb\": 2\n", "f.yaml:2:1: duplicate key 'a\\x1bb'");
}

TEST(a_byte_order_mark_before_the_text_is_passed_over)
{
	struct node *n = parse("\xef\xbb\xbf"
			       "a: 1\r\nb: 2\r\n");
	ASSERT(n->kind == NODE_MAP && n->n_items == 2);
	ASSERT_STR(n->items[1]->text, "2");
	ASSERT(n->items[1]->line == 2);
	node_free(n);
	refuses("a: \xef\xbb\xbf\nb: [",
		"f.yaml:3:1: not YAML: did not find expected node content, "
		"while parsing a flow node");
}
