/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `cell code`: languages, pictures, notebooks, history. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/code/history.h"
#include "cli/code/notebook.h"
#include "cli/code/picture.h"
#include "core/code_language.h"
#include "scratch.h"
#include "test.h"

static struct cell_error E;

TEST(a_language_has_many_names)
{
	ASSERT_STR(code_language("py"), "python");
	ASSERT_STR(code_language("Bash"), "shell");
	ASSERT_STR(code_language("node"), "javascript");
	ASSERT_STR(code_language("sqlite3"), "sql");
	ASSERT_STR(code_language("cobol"), "cobol");
	ASSERT_STR(code_language(""), "");
}

static const char *guess(const char *path, const char *text)
{
	const char *l = code_language_guess(path, text, strlen(text));

	return l ? l : "";
}

TEST(a_file_tells_its_language_by_name_or_first_line)
{
	ASSERT_STR(guess("a/b.py", ""), "python");
	ASSERT_STR(guess("b.tar.SQL", ""), "sql");
	ASSERT_STR(guess("a.py/script", ""), "");
	ASSERT_STR(guess("x", "#!/usr/bin/python3.11 -u\n"), "python");
	ASSERT_STR(guess(NULL, "#! /usr/bin/env -S node --x\n1"), "javascript");
	ASSERT_STR(guess(NULL, "#!/bin/sh"), "shell");
	ASSERT_STR(guess(NULL, "#!"), "");
	ASSERT_STR(guess(NULL, "#!/usr/bin/env"), "");
	ASSERT_STR(guess(NULL, "#!/usr/bin/perl\n#!/bin/sh"), "");
}

static int decode(const char *text, struct buf *b)
{
	buf_reset(b);
	return picture_decode(text, b);
}

TEST(base64_is_read_strictly)
{
	struct buf b = BUF_INIT(1000);

	ASSERT_OK(decode("aGVsbG8=", &b));
	ASSERT_STR(buf_str(&b), "hello");
	ASSERT_OK(decode("aGVs\nbG8h\n", &b));
	ASSERT_STR(buf_str(&b), "hello!");
	ASSERT_OK(decode("aGU", &b));
	ASSERT_STR(buf_str(&b), "he");
	ASSERT_OK(decode("", &b));
	ASSERT_ERR(decode("aGVs\x1b", &b), -EINVAL);
	ASSERT_ERR(decode("a", &b), -EINVAL);
	ASSERT_ERR(decode("aGV=sbG8", &b), -EINVAL);
	ASSERT_ERR(decode("aGVsbG8===", &b), -EINVAL);
	buf_done(&b);
}

TEST(only_what_is_a_picture_is_shown_as_one)
{
	struct buf png = BUF_INIT(100000), text = BUF_INIT(100), out = BUF_INIT(1000000);

	ASSERT_OK(buf_add(&png, "\x89PNG\r\n", 6));
	for (int i = 0; i < 5000; i++)
		ASSERT_OK(buf_addc(&png, (char)i));
	ASSERT_OK(buf_addz(&text, "\x1b]0;title\a"));
	ASSERT_ERR(picture_sequence(PICTURE_KITTY, "image/png", &text, &out), -ENOTSUP);
	ASSERT_ERR(picture_sequence(PICTURE_KITTY, "image/jpeg", &png, &out), -ENOTSUP);
	ASSERT_ERR(picture_sequence(PICTURE_FILE, "image/png", &png, &out), -ENOTSUP);
	ASSERT_EQ(out.len, 0);
	ASSERT_OK(picture_sequence(PICTURE_KITTY, "image/png", &png, &out));
	ASSERT_HAS(buf_str(&out), "\x1b_Ga=T,f=100,q=2,m=1;iVBORw");
	ASSERT_HAS(buf_str(&out), "\x1b\\\x1b_Gm=0;");
	buf_reset(&out);
	ASSERT_OK(picture_sequence(PICTURE_ITERM, "image/png", &png, &out));
	ASSERT_HAS(buf_str(&out), "\x1b]1337;File=inline=1;size=5006:iVBORw");
	buf_done(&png);
	buf_done(&text);
	buf_done(&out);
}

static int parse(const char *text, struct notebook *nb)
{
	return notebook_parse(text, strlen(text), "x.ipynb", nb, &E);
}

static int add(struct notebook_outputs *o, enum cell_code_event_type type, const char *data)
{
	return notebook_add(o,
		&(struct cell_code_event){.type = type, .data = data, .len = strlen(data)});
}

#define ONE_CELL                                                                       \
	"{\"nbformat\":4,\"nbformat_minor\":2,\"metadata\":{\"kernelspec\":{\"name\":" \
	"\"python3\"}},\"cells\":[{\"cell_type\":\"code\",\"source\":[\"a\\n\",\"b\"]}]}"

TEST(what_is_no_notebook_is_refused)
{
	struct notebook nb;

	ASSERT(parse("", &nb) < 0);
	ASSERT(parse("[]", &nb) < 0);
	ASSERT(parse("{\"nbformat\":3,\"cells\":[]}", &nb) < 0);
	ASSERT(parse("{\"nbformat\":4}", &nb) < 0);
	ASSERT(parse("{\"nbformat\":4,\"cells\":[1]}", &nb) < 0);
	ASSERT(parse("{\"nbformat\":4,\"cells\":[{\"cell_type\":\"code\"}]}", &nb) < 0);
	ASSERT_HAS(E.msg, "no source");
}

TEST(outputs_are_gathered_as_notebooks_keep_them)
{
	struct notebook nb;
	struct notebook_outputs o;

	ASSERT_OK(parse(ONE_CELL, &nb));
	ASSERT_STR(notebook_language(&nb), "python");
	json_t *cell = json_array_get(nb.cells, 0);
	char *source = notebook_source(cell);
	ASSERT_STR(source, "a\nb");
	free(source);
	ASSERT(json_is_string(json_object_get(cell, "id")));
	notebook_begin(&nb, cell, &o);
	ASSERT_OK(add(&o, CELL_CODE_STDOUT, "gone"));
	ASSERT_OK(add(&o, CELL_CODE_CLEAR, "{\"wait\":true}"));
	ASSERT_OK(add(&o, CELL_CODE_STDOUT, "one\ntw"));
	ASSERT_OK(add(&o, CELL_CODE_STDOUT, "o\n\xff"));
	ASSERT_OK(add(&o, CELL_CODE_DISPLAY, "{\"data\":{\"a/b\":\"x\"},\"id\":\"7\"}"));
	ASSERT_OK(add(&o, CELL_CODE_DISPLAY,
		"{\"data\":{\"a/b\":\"y\"},\"id\":\"7\",\"update\":true}"));
	ASSERT_OK(add(&o, CELL_CODE_RESULT, "{\"data\":{\"text/plain\":\"1\"}}"));
	ASSERT_OK(add(&o, CELL_CODE_ERROR, "{\"name\":\"E\",\"message\":\"m\"}"));
	notebook_end(&o, 3);
	ASSERT(o.has_error);
	char *text = json_dumps(json_object_get(cell, "outputs"), JSON_COMPACT);
	ASSERT_STR(text,
		"[{\"output_type\":\"stream\",\"name\":\"stdout\",\"text\":[\"one\\n\",\"two\\n\","
		"\"\xef\xbf\xbd\"]},{\"output_type\":\"display_data\",\"data\":{\"a/b\":\"y\"},"
		"\"metadata\":{}},{\"output_type\":\"execute_result\",\"data\":{\"text/"
		"plain\":\"1\"},"
		"\"metadata\":{},\"execution_count\":3},{\"output_type\":\"error\",\"ename\":\"E\","
		"\"evalue\":\"m\",\"traceback\":[]}]");
	free(text);
	notebook_done(&nb);
}

TEST(history_keeps_what_was_typed_line_by_line)
{
	struct history h;
	char where[512];

	(void)snprintf(where, sizeof where, "%s", scratch_make());
	ASSERT_OK(setenv("XDG_STATE_HOME", where, 1));
	history_open(&h, "python");
	ASSERT(!history_older(&h, ""));
	history_add(&h, "one");
	history_add(&h, "one");
	history_add(&h, "  \n");
	history_add(&h, "two\\\nlines");
	history_close(&h);
	history_open(&h, "python");
	ASSERT_EQ(h.n, 2);
	ASSERT_STR(history_older(&h, "draft"), "two\\\nlines");
	ASSERT_STR(history_older(&h, "two"), "one");
	ASSERT(!history_older(&h, "one"));
	ASSERT_STR(history_newer(&h), "two\\\nlines");
	ASSERT_STR(history_newer(&h), "draft");
	ASSERT(!history_newer(&h));
	ASSERT_EQ(history_search(&h, "on", SIZE_MAX), 0);
	ASSERT_EQ(history_search(&h, "none", SIZE_MAX), SIZE_MAX);
	history_close(&h);
}
