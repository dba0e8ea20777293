/* SPDX-License-Identifier: Apache-2.0 */
/* keep.c: pause, resume, stats and snapshots of a server's cells. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/remote/remote.h"
#include "net/text.h"
#include "server/clock.h"

static int change(const char *name, const char *what, json_t *body, struct cell_error *err)
{
	auto_free char *target = remote_target(name, what, NULL);

	return remote_call(&(struct remote_request){.method = "POST",
				   .target = target,
				   .body = body,
				   .is_change = true},
		NULL, err);
}

int remote_pause(const char *name, struct cell_error *err)
{
	return change(name, "/pause", NULL, err);
}

int remote_resume(const char *name, struct cell_error *err)
{
	return change(name, "/resume", NULL, err);
}

int remote_snapshot(const char *cell, const char *name, struct cell_error *err)
{
	return change(cell, "/snapshots", json_pack("{s:s}", "name", name), err);
}

int remote_stats(const char *name, struct cell_stats *ret, struct cell_error *err)
{
	auto_free char *target = remote_target(name, "/stats", NULL);
	json_t *o = NULL;
	int r = remote_call(&(struct remote_request){.target = target}, &o, err);

	if (r == 0)
		*ret = (struct cell_stats){.cpu_ns = (uint64_t)remote_int(o, "cpu_us") * 1000,
			.memory_bytes = (uint64_t)remote_int(o, "memory_bytes"),
			.memory_limit_bytes = (uint64_t)remote_int(o, "memory_limit_bytes"),
			.processes = (uint32_t)remote_int(o, "processes"),
			.net_in_bytes = (uint64_t)remote_int(o, "net_in_bytes"),
			.net_out_bytes = (uint64_t)remote_int(o, "net_out_bytes"),
			.disk_read_bytes = (uint64_t)remote_int(o, "disk_read_bytes"),
			.disk_written_bytes = (uint64_t)remote_int(o, "disk_written_bytes")};
	json_decref(o);
	return r;
}

int remote_snapshot_list(cell_snapshot_fn fn, void *user, struct cell_error *err)
{
	auto_free char *target = remote_target(NULL, "/snapshots", NULL);
	json_t *all = NULL, *o;
	size_t i;
	int r = remote_call(&(struct remote_request){.target = target}, &all, err);

	json_array_foreach (json_object_get(all, "snapshots"), i, o) {
		int64_t created_ns = 0;
		(void)clock_parse(remote_text(o, "created_at"), &created_ns);
		const struct cell_snapshot_info info = {.name = remote_text(o, "name"),
			.cell = remote_text(o, "session"),
			.from = remote_text(o, "from"),
			.backend = remote_text(o, "backend"),
			.created_unix_ms = (uint64_t)created_ns / 1000000,
			.size_bytes = (uint64_t)remote_int(o, "size_bytes")};
		if (r == 0)
			r = fn(&info, user);
	}
	json_decref(all);
	return r;
}

int remote_snapshot_remove(const char *name, struct cell_error *err)
{
	struct buf path = BUF_INIT(4096);

	(void)buf_addz(&path, "/snapshots/");
	(void)net_encode(&path, name, strlen(name), false);
	auto_free char *part = buf_steal(&path);
	auto_free char *target = remote_target(NULL, part ? part : "/snapshots/", NULL);

	return remote_call(&(struct remote_request){.method = "DELETE",
				   .target = target,
				   .is_change = true},
		NULL, err);
}
