/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c: see settings.h. */
#include "server/settings.h"

#include "server/audit.h"

const struct node *setting(const struct cell_config *cfg, const char *path)
{
	const struct node *n = cfg ? config_value(cfg->values, path) : NULL;

	return n && n->kind != NODE_NULL ? n : NULL;
}

const char *setting_text(const struct cell_config *cfg, const char *path, const char *otherwise)
{
	const struct node *n = setting(cfg, path);

	return n && n->text ? n->text : otherwise;
}

uint64_t setting_number(const struct cell_config *cfg, const char *path, uint64_t otherwise)
{
	const struct node *n = setting(cfg, path);

	return n ? n->number : otherwise;
}

bool setting_bool(const struct cell_config *cfg, const char *path, bool otherwise)
{
	const struct node *n = setting(cfg, path);

	return n ? n->number != 0 : otherwise;
}

const char **setting_list(const struct cell_config *cfg, const char *path)
{
	const struct node *n = setting(cfg, path);
	size_t count = n && n->kind == NODE_LIST ? n->n_items : 0;
	const char **list = calloc(count + 1, sizeof *list);

	for (size_t i = 0; list && i < count; i++)
		list[i] = n->items[i]->text;
	return list;
}

void audit_settings_read(const struct cell_config *cfg, struct audit_settings *ret)
{
	ret->sync = (enum audit_sync)setting_number(cfg, "server.audit.sync", AUDIT_SYNC_SECOND);
	ret->file_bytes = setting_number(cfg, "server.audit.file_size", 0);
	ret->file_age_s = setting_number(cfg, "server.audit.file_age", 0) / 1000;
	ret->keep_bytes = setting_number(cfg, "server.audit.keep_size", 0);
	ret->keep_age_s = setting_number(cfg, "server.audit.keep_age", 0) / 1000;
}

int audit_redact_read(const struct cell_config *cfg, struct redact **ret, struct cell_error *err)
{
	const struct node *n = setting(cfg, "server.audit.redact");

	*ret = NULL;
	if (!n)
		return 0;
	auto_free const char **patterns = setting_list(cfg, "server.audit.redact");
	if (!patterns)
		return config_no_memory(err);
	int r = redact_new(patterns, ret, err);
	return r < 0 ? cell_error_prefix(err, r, "%s", WHERE(n)) : 0;
}
