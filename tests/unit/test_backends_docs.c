/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_backends_docs.c: the tables of docs/backends.md are made from the back ends themselves (CELL_UPDATE_DOCS=1 writes
 * them): what each is, and what it promises at best.
 */
#include <string.h>

#include "base/buf.h"
#include "config_helper.h"
#include "core/advice.h"
#include "core/backend.h"

#define PAGE CELL_SOURCE_ROOT "/docs/backends.md"

static bool is_told(const struct cell_backend *b)
{
	return !b->is_wrapper && b->tier > 0;
}

static void add_list(struct buf *out)
{
	ASSERT_OK(buf_addz(out, "| back end | tier | what it is | what it keeps apart | needs | "
				"take it for | not for "
				"|\n|---|---|---|---|---|---|---|\n"));
	for (size_t i = 0; cell_backends[i]; i++) {
		const struct cell_backend *b = cell_backends[i];

		if (!is_told(b))
			continue;
		const struct cell_advice *a = cell_advice_on(b->name);
		CHECK_(*a->needs && *a->take_for && *a->not_for, "%s: no word in core/advice.c",
			b->name);
		ASSERT_OK(buf_addf(out,
			"| [%s](../src/backends/%s/README.md) | %d | %s | %s | %s | %s | %s |\n",
			b->name, b->name, b->tier, b->summary, b->wall, a->needs, a->take_for,
			a->not_for));
	}
}

static void add_promises(struct buf *out)
{
	ASSERT_OK(buf_addz(out, "| capability |"));
	for (size_t i = 0; cell_backends[i]; i++)
		if (is_told(cell_backends[i]))
			ASSERT_OK(buf_addf(out, " %s |", cell_backends[i]->name));
	ASSERT_OK(buf_addz(out, " meaning |\n|---|"));
	for (size_t i = 0; cell_backends[i]; i++)
		if (is_told(cell_backends[i]))
			ASSERT_OK(buf_addz(out, "---|"));
	ASSERT_OK(buf_addz(out, "---|\n"));
	for (int cap = 0; cap < CELL_CAP_COUNT; cap++) {
		ASSERT_OK(buf_addf(out, "| `%s` |", cell_cap_name((enum cell_cap)cap)));
		for (size_t i = 0; cell_backends[i]; i++)
			if (is_told(cell_backends[i]))
				ASSERT_OK(buf_addz(out, cell_backends[i]->caps & CELL_CAP_BIT(cap)
								? " yes |"
								: " |"));
		ASSERT_OK(buf_addf(out, " %s |\n", cell_cap_meaning((enum cell_cap)cap)));
	}
}

static void replace(struct buf *page, const char *name, void (*add)(struct buf *out))
{
	char begin[64], end[64];
	struct buf out = BUF_INIT(1 << 20);

	(void)snprintf(begin, sizeof begin, "<!-- %s: made from the back ends -->\n", name);
	(void)snprintf(end, sizeof end, "<!-- end of %s -->", name);
	const char *text = buf_str(page), *from = strstr(text, begin), *to = strstr(text, end);
	CHECK_(from && to && from < to, "the page has no place for %s", name);
	from += strlen(begin);
	ASSERT_OK(buf_add(&out, text, (size_t)(from - text)));
	add(&out);
	ASSERT_OK(buf_addz(&out, to));
	buf_done(page);
	*page = out;
}

TEST(the_tables_of_the_page_are_those_of_the_back_ends)
{
	struct buf page = BUF_INIT(1 << 20);
	char *text = read_whole(PAGE);

	ASSERT_OK(buf_addz(&page, text));
	replace(&page, "list", add_list);
	replace(&page, "promises", add_promises);
	if (getenv("CELL_UPDATE_DOCS"))
		write_whole(PAGE, buf_str(&page));
	else
		CHECK_(!strcmp(text, buf_str(&page)),
			"the tables of docs/backends.md are old: run this with CELL_UPDATE_DOCS=1");
	free(text);
	buf_done(&page);
}
