/* SPDX-License-Identifier: Apache-2.0 */
/* config_helper.h: loading configurations in tests. Includes test.h. */
#pragma once
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "core/config/config.h"
#include "test.h"

#define ASSERT_NUM(a, b)                                              \
	({                                                            \
		long long a_ = (long long)(a), b_ = (long long)(b);   \
		CHECK_(a_ == b_, "%s = %lld, want %lld", #a, a_, b_); \
	})

/* The configuration that `text` describes, as a file called cell.yaml would. */
static inline struct cell_config *config_of(const char *text)
{
	struct cell_config *cfg = NULL;
	struct cell_error err = {0};
	int r = cell_config_load_text("cell.yaml", text, strlen(text), &cfg, &err);

	CHECK_(r == 0, "%s (%s)", err.msg, err.hint);
	return cfg;
}

static inline const struct cell_spec *spec_from(struct cell_config *cfg)
{
	const struct cell_spec *spec = NULL;
	struct cell_error err = {0};
	int r = cell_config_spec(cfg, &spec, &err);

	CHECK_(r == 0, "%s (%s)", err.msg, err.hint);
	return spec;
}

/* Loading or, when that works, making the spec must fail with exactly this. hint NULL: any. */
static inline void refuses(const char *text, const char *msg, const char *hint)
{
	struct cell_config *cfg = NULL;
	struct cell_error err = {0};
	const struct cell_spec *spec;
	int r = cell_config_load_text("cell.yaml", text, strlen(text), &cfg, &err);

	if (r == 0)
		r = cell_config_spec(cfg, &spec, &err);
	cell_config_free(cfg);
	CHECK_(r < 0, "accepted: %s", text);
	ASSERT_STR(err.msg, msg);
	CHECK_(!hint || !strcmp(err.hint, hint), "hint '%s', want '%s'", err.hint, hint);
	ASSERT(err.code != CELL_OK);
}

static inline bool is_zero(const void *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (((const char *)p)[i])
			return false;
	return true;
}

static inline char *read_whole(const char *path)
{
	FILE *f = fopen(path, "r");
	CHECK_(f, "open %s", path);
	char *text = calloc(1, 1 << 20);
	ASSERT(text && fread(text, 1, (1 << 20) - 1, f) > 0);
	ASSERT_OK(fclose(f));
	return text;
}

static inline void write_whole(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");
	CHECK_(f, "create %s", path);
	ASSERT(fwrite(text, 1, strlen(text), f) == strlen(text));
	ASSERT_OK(fclose(f));
}

/* The value of a key as `cell config show` would print it, one line; "" when not set. */
static inline const char *value_text(struct cell_config *cfg, const char *path)
{
	const struct node *n = config_value(cfg->values, path);
	return n && n->text ? n->text : "";
}
