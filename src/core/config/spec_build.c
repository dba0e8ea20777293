/* SPDX-License-Identifier: Apache-2.0 */
/* spec_build.c: from merged values to a struct cell_spec, by the offsets in the schema. */
#include <string.h>

#include "core/config/config.h"

struct spec_store {
	struct cell_spec spec;
	void **owned;
	size_t n_owned, cap_owned;
};

const struct cell_spec *spec_of(const struct spec_store *store)
{
	return &store->spec;
}

void spec_store_free(struct spec_store *store)
{
	if (!store)
		return;
	for (size_t i = 0; i < store->n_owned; i++)
		free(store->owned[i]);
	free(store->owned);
	free(store);
}

static void spec_store_freep(struct spec_store **store)
{
	spec_store_free(*store);
}

/* Zeroed memory that lives as long as the store. */
static void *take(struct spec_store *s, size_t n, size_t size)
{
	if (s->n_owned == s->cap_owned) {
		size_t cap = s->cap_owned ? s->cap_owned * 2 : 16;
		void **owned = reallocarray(s->owned, cap, sizeof(void *));
		if (!owned)
			return NULL;
		s->owned = owned;
		s->cap_owned = cap;
	}
	void *p = calloc(n ? n : 1, size);
	if (p)
		s->owned[s->n_owned++] = p;
	return p;
}

static int put_list(struct spec_store *s, const struct node *n, void *at)
{
	const char **list = take(s, n->n_items + 1, sizeof(char *));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n->n_items; i++)
		list[i] = n->items[i]->text;
	memcpy(at, &list, sizeof list);
	return 0;
}

static int put_pairs(struct spec_store *s, const struct node *n, void *at)
{
	char **list = take(s, n->n_items + 1, sizeof(char *));

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n->n_items; i++) {
		const struct node *pair = n->items[i];
		size_t size = strlen(pair->key) + strlen(pair->text) + 2;
		list[i] = take(s, size, 1);
		if (!list[i])
			return -ENOMEM;
		(void)snprintf(list[i], size, "%s=%s", pair->key, pair->text);
	}
	memcpy(at, &list, sizeof list);
	return 0;
}

static int put_mounts(struct spec_store *s, const struct node *n)
{
	struct cell_mount *mounts = take(s, n->n_items, sizeof *mounts);

	if (!mounts)
		return -ENOMEM;
	for (size_t i = 0; i < n->n_items; i++) {
		mounts[i].source = node_get(n->items[i], "source")->text;
		mounts[i].target = node_get(n->items[i], "target")->text;
		mounts[i].is_read_only = node_get(n->items[i], "read_only")->number;
	}
	s->spec.mounts = mounts;
	s->spec.n_mounts = n->n_items;
	return 0;
}

static int put(struct spec_store *s, const struct config_key *key, const struct node *n)
{
	void *at = (char *)&s->spec + key->offset;
	const char *text = n->text;
	uint32_t number = (uint32_t)n->number;

	switch (key->to) {
	case SPEC_NONE:
		return 0;
	case SPEC_STRING:
		if (key->type != KEY_BACKEND || strcmp(text, "auto") != 0)
			memcpy(at, &text, sizeof text);
		return 0;
	case SPEC_U64:
		memcpy(at, &n->number, sizeof n->number);
		return 0;
	case SPEC_SECONDS:
		number = (uint32_t)((n->number + 999) / 1000);
		memcpy(at, &number, sizeof number);
		return 0;
	case SPEC_U32:
	case SPEC_ENUM:
		memcpy(at, &number, sizeof number);
		return 0;
	case SPEC_BOOL:
		*(bool *)at = n->number;
		return 0;
	case SPEC_SWITCH:
		number = n->number ? 2 : 1;
		memcpy(at, &number, sizeof number);
		return 0;
	case SPEC_TIMEOUT:
		memcpy(at, n->number ? &n->number : &(uint64_t){CELL_NO_TIMEOUT}, sizeof n->number);
		return 0;
	case SPEC_LIST:
		return put_list(s, n, at);
	case SPEC_PAIRS:
		return put_pairs(s, n, at);
	case SPEC_MOUNTS:
		return put_mounts(s, n);
	}
	return 0;
}

/* A key nobody in this build honours must not look as if it did. A back end that is not built
 * refuses the cell as a whole, later; and what is allowed anyway (true) asks for nothing. */
static int refuse_unserved(const struct spec_store *s, struct node *const *values,
	struct cell_error *err)
{
	const char *backend = s->spec.backend;
	const char *last = backend ? strrchr(backend, ':') : NULL;

	if (backend && !backend_is_built(last ? last + 1 : backend))
		return 0;
	for (size_t i = 0; i < config_keys_count; i++) {
		const struct config_key *key = &config_keys[i];
		const struct node *n = values[i];
		if (!key->unserved || !n || (n->kind == NODE_BOOL && n->number))
			continue;
		int r = node_fail_key(err, n, "'%s' needs %s, which this build does not have",
			n->key, key->unserved);
		if (err) {
			err->code = CELL_ENOTSUP;
			err->sys_errno = EOPNOTSUPP;
		}
		(void)cell_error_hint(err, r, "leave '%s' out", n->key);
		return -EOPNOTSUPP;
	}
	return 0;
}

int spec_build(struct node *const *values, struct spec_store **ret, struct cell_error *err)
{
	auto_(spec_store_freep) struct spec_store *s = calloc(1, sizeof *s);

	if (!s)
		return config_no_memory(err);
	for (size_t i = 0; i < config_keys_count; i++)
		if (values[i] && put(s, &config_keys[i], values[i]) < 0)
			return config_no_memory(err);
	int r = refuse_unserved(s, values, err);
	if (r < 0)
		return r;
	*ret = steal_ptr(s);
	return 0;
}
