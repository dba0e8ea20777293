/* SPDX-License-Identifier: Apache-2.0 */
/* cellinfo.c: cells and back ends as JSON and as words. */
#include "cli/cellinfo.h"

#include "cli/cells.h"
#include "cli/memory.h"
#include "cli/output.h"

const char *cli_state_name(enum cell_state state)
{
	switch (state) {
	case CELL_STATE_CREATING:
		return "creating";
	case CELL_STATE_READY:
		return "ready";
	case CELL_STATE_DEAD:
		return "dead";
	case CELL_STATE_BROKEN:
		return "broken";
	case CELL_STATE_PAUSED:
		return "paused";
	}
	return "unknown";
}

json_t *cli_cell_json(const struct cell_info *info)
{
	json_t *o = json_object(), *labels = json_array();
	const struct {
		const char *key, *value;
	} told[] = {{"resources", info->resources}, {"scratch", info->scratch},
		{"seccomp", info->seccomp}, {"image", info->image},
		{"image_digest", info->image_digest}, {"image_entrypoint", info->image_entrypoint},
		{"image_cmd", info->image_cmd}, {"image_user", info->image_user}};

	for (const char *const *l = info->labels; l && *l; l++)
		json_array_append_new(labels, json_string(*l));
	cli_json_string(o, "name", info->name);
	cli_json_string(o, "backend", info->backend);
	cli_json_string(o, "state", cli_state_name(info->state));
	cli_json_string(o, "workspace", info->workspace);
	json_object_set_new(o, "ephemeral", json_boolean(info->is_ephemeral));
	json_object_set_new(o, "guest_pid",
		info->guest_pid ? json_integer(info->guest_pid) : json_null());
	json_object_set_new(o, "created_unix_ms", json_integer((json_int_t)info->created_unix_ms));
	json_object_set_new(o, "labels", labels);
	cli_json_string(o, "directory", info->directory);
	for (size_t i = 0; i < sizeof told / sizeof *told; i++)
		if (*told[i].value)
			cli_json_string(o, told[i].key, told[i].value);
	return o;
}

const char *cli_backend_state(const struct cell_backend_info *info)
{
	return !info->is_built ? "not built" : info->is_usable ? "yes" : "no";
}

static const char *text_or_null(const char *s)
{
	return s && *s ? s : NULL;
}

json_t *cli_backend_json(const struct cell_backend_info *info)
{
	json_t *o = json_object(), *lacks = json_array();

	for (size_t i = 0; i < info->n_lacks && i < CELL_LACKS_MAX; i++) {
		json_t *lack = json_object();
		cli_json_string(lack, "capability", cell_cap_name(info->lacks[i].cap));
		cli_json_string(lack, "reason", info->lacks[i].reason);
		cli_json_string(lack, "fix", text_or_null(info->lacks[i].fix));
		json_array_append_new(lacks, lack);
	}
	cli_json_string(o, "name", info->name);
	cli_json_string(o, "summary", info->summary);
	cli_json_string(o, "wall", info->wall);
	cli_json_string(o, "needs", info->needs);
	cli_json_string(o, "take_for", info->take_for);
	cli_json_string(o, "not_for", info->not_for);
	json_object_set_new(o, "tier", json_integer(info->tier));
	json_object_set_new(o, "built", json_boolean(info->is_built));
	json_object_set_new(o, "usable", json_boolean(info->is_usable));
	cli_json_string(o, "reason", text_or_null(info->reason));
	cli_json_string(o, "fix", text_or_null(info->fix));
	json_object_set_new(o, "capabilities", cli_json_caps(info->is_usable ? info->caps : 0));
	json_object_set_new(o, "declared", cli_json_caps(info->declared));
	json_object_set_new(o, "lacks", lacks);
	return o;
}

int cli_backends(struct cell_backend_info **ret, size_t *ret_n, struct cell_error *err)
{
	*ret = cli_calloc(CLI_BACKENDS_MAX, sizeof(**ret));
	*ret_n = 0;
	return cells->backends(*ret, CLI_BACKENDS_MAX, ret_n, err);
}
