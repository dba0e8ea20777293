/* SPDX-License-Identifier: Apache-2.0 */
/* info.c: questions to a guest: what runs, what the place is, which tools it has. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cell/cell.h"

#include "base/cleanup.h"
#include "base/error.h"
#include "core/cell.h"
#include "core/link.h"

/* Ask, give every REPLY to fn, and see it to its END. */
typedef int (*reply_fn)(const struct link_event *ev, void *user);

static int for_each_reply(struct cell *c, uint16_t op, const struct buf *fields, reply_fn fn,
	void *user, struct cell_error *err)
{
	struct link_stream *s;
	struct link_event ev = {0};
	int r = link_request(c->link, op, fields, &s, err);

	if (r < 0)
		return r;
	while (r == 0 && ev.type != LINK_END) {
		r = link_next(s, -1, &ev, err);
		if (r == 0 && ev.type == LINK_REPLY)
			r = fn(&ev, user);
	}
	if (r == 0)
		r = link_end_error(&ev, err);
	link_stream_free(s);
	return r;
}

static char *string_of(const struct link_event *ev, unsigned tag)
{
	char *s = wire_find_str(ev->p, ev->len, tag, 65536);

	return s ? s : strdup("");
}

static uint64_t number_of(const struct link_event *ev, unsigned tag)
{
	return wire_find_u64(ev->p, ev->len, tag, 0);
}

struct ps_call {
	cell_exec_info_fn fn;
	void *user;
};

static int on_ps(const struct link_event *ev, void *user)
{
	const struct ps_call *call = user;
	auto_free char *id = string_of(ev, WIRE_T_ID);
	auto_free char *command = string_of(ev, WIRE_T_COMMAND);
	auto_free char *label = string_of(ev, WIRE_T_LABEL);
	const struct cell_exec_info info = {
		.id = id ? id : "",
		.command = command ? command : "",
		.state = (enum cell_exec_state)number_of(ev, WIRE_T_STATE),
		.pid = (int64_t)number_of(ev, WIRE_T_PID),
		.is_tty = number_of(ev, WIRE_T_FLAGS) & CELL_EXEC_TTY,
		.is_code = number_of(ev, WIRE_T_FLAGS) & WIRE_PS_RUN,
		.started_unix_ms = number_of(ev, WIRE_T_STARTED),
		.exit =
			{
				.exit_code = (int)number_of(ev, WIRE_T_EXIT_CODE),
				.signal = (int)number_of(ev, WIRE_T_SIGNAL),
				.timed_out = number_of(ev, WIRE_T_TIMED_OUT),
				.oom = number_of(ev, WIRE_T_OOM),
				.usage =
					{
						.cpu_ns = number_of(ev, WIRE_T_CPU_NS),
						.max_rss_bytes = number_of(ev, WIRE_T_MAX_RSS),
						.wall_ns = number_of(ev, WIRE_T_WALL_NS),
					},
			},
		.out_bytes = number_of(ev, WIRE_T_OUT_OFFSET),
		.err_bytes = number_of(ev, WIRE_T_ERR_OFFSET),
		.out_oldest = number_of(ev, WIRE_T_OUT_OLDEST),
		.err_oldest = number_of(ev, WIRE_T_ERR_OLDEST),
		.label = label ? label : "",
	};

	return call->fn(&info, call->user);
}

int cell_ps(struct cell *c, cell_exec_info_fn fn, void *user, struct cell_error *err)
{
	struct ps_call call = {fn, user};

	return for_each_reply(c, WIRE_OP_PS, NULL, on_ps, &call, err);
}

int cell_platform(struct cell *c, cell_platform_fn fn, void *user, struct cell_error *err)
{
	auto_buf struct buf end = BUF_INIT(WIRE_MAX_PAYLOAD);
	int r = link_call(c->link, WIRE_OP_INFO, NULL, &end, err);

	if (r < 0)
		return r;
	const struct link_event ev = {.p = end.data, .len = end.len};
	auto_free char *os = string_of(&ev, WIRE_T_OS);
	auto_free char *os_version = string_of(&ev, WIRE_T_OS_VERSION);
	auto_free char *kernel = string_of(&ev, WIRE_T_KERNEL);
	auto_free char *arch = string_of(&ev, WIRE_T_ARCH);
	auto_free char *hostname = string_of(&ev, WIRE_T_HOSTNAME);
	auto_free char *workspace = string_of(&ev, WIRE_T_WORKSPACE);
	auto_free char *name = string_of(&ev, WIRE_T_USER);
	auto_free char *software = string_of(&ev, WIRE_T_SOFTWARE);
	if (!os || !os_version || !kernel || !arch || !hostname || !workspace || !name || !software)
		return cell_fail(err, CELL_ENOSPACE, ENOMEM, "ask the guest for its platform");
	const struct cell_platform p = {
		.os = os,
		.os_version = os_version,
		.kernel = kernel,
		.arch = arch,
		.hostname = hostname,
		.workspace = workspace,
		.user = name,
		.uid = (uint32_t)number_of(&ev, WIRE_T_UID),
		.cpus = (uint32_t)number_of(&ev, WIRE_T_CPUS),
		.memory_bytes = number_of(&ev, WIRE_T_MEMORY),
		.guest_version = software,
		.guest_pid = (int64_t)number_of(&ev, WIRE_T_PID),
		.guest_rss_bytes = number_of(&ev, WIRE_T_RSS),
		.cpu_ns = number_of(&ev, WIRE_T_CPU_NS),
		.used_memory_bytes = number_of(&ev, WIRE_T_USED_MEMORY),
		.processes = (uint32_t)number_of(&ev, WIRE_T_PROCESSES),
		.execs_running = (uint32_t)number_of(&ev, WIRE_T_RUNNING),
		.clients = (uint32_t)number_of(&ev, WIRE_T_CLIENTS),
	};
	return fn(&p, user);
}

struct tools_call {
	cell_tool_fn fn;
	void *user;
};

static int on_tool(const struct link_event *ev, void *user)
{
	const struct tools_call *call = user;
	auto_free char *name = string_of(ev, WIRE_T_NAME);
	auto_free char *path = string_of(ev, WIRE_T_PATH);

	return call->fn(name ? name : "", path ? path : "", call->user);
}

int cell_tools(struct cell *c, const char *const *names, cell_tool_fn fn, void *user,
	struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(WIRE_MAX_MESSAGE);
	struct tools_call call = {fn, user};

	for (char **v = c->env; v && *v; v++) {
		if (strncmp(*v, "PATH=", 5) == 0 && wire_put_str(&b, WIRE_T_PATH, *v + 5) < 0)
			return cell_fail(err, CELL_ENOSPACE, ENOMEM, "ask for tools");
	}
	for (; *names; names++) {
		if (wire_put_str(&b, WIRE_T_NAME, *names) < 0)
			return cell_fail(err, CELL_EINVAL, E2BIG, "ask for tools: too many names");
	}
	return for_each_reply(c, WIRE_OP_TOOLS, &b, on_tool, &call, err);
}
