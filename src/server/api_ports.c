/* SPDX-License-Identifier: Apache-2.0 */
/* api_ports.c: /v1/sessions/{session}/ports: programs that listen in a cell. */
#include <string.h>

#include "cell/cell.h"

#include "server/api.h"
#include "server/filework.h"
#include "server/port_proxy.h"
#include "server/session.h"

/* ---- what listens ---- */

static int take_port(const struct cell_port *p, void *user)
{
	return json_array_append_new(user, json_pack("{s:i, s:s, s:i}", "port", (int)p->port,
						   "address", p->address, "uid", (int)p->uid));
}

static int run_list(struct filework *w, struct cell_error *err)
{
	json_t *ports = json_array();
	int r = cell_ports(w->cell, take_port, ports, err);

	w->answer = json_pack("{s:o}", "ports", ports);
	return r;
}

static void list_done(struct filework *w)
{
	struct call *c = w->call;
	json_t *o = json_incref(w->answer);

	filework_free(w);
	call_json(c, 200, o);
}

static bool has_cell(struct call *c)
{
	if (c->session->seat)
		return true;
	call_failf(c, CELL_ENOTSUP, "use another lifecycle",
		"an ephemeral session has no cell that stays, so nothing listens there");
	return false;
}

static void list(struct call *c)
{
	if (!api_ready_session(c) || !has_cell(c))
		return;
	struct filework *w = filework_new(c);
	if (!w)
		return;
	w->run = run_list;
	w->done = list_done;
	filework_start(w);
}

/* ---- one of them ---- */

static unsigned port_of(const char *text)
{
	unsigned n = 0;

	for (; *text >= '0' && *text <= '9' && n <= 65535; text++)
		n = n * 10 + (unsigned)(*text - '0');
	return *text || n > 65535 ? 0 : n;
}

static void connect_permitted(struct call *c)
{
	struct cell_error err = {0};

	if (session_require_ready(c->session, &err) < 0)
		call_fail(c, &err);
	else if (has_cell(c))
		port_proxy(c, port_of(c->params[1]));
}

static void connect_port(struct call *c)
{
	unsigned port = port_of(c->params[1]);

	if (!api_ready_session(c) || !has_cell(c))
		return;
	if (!port) {
		call_failf(c, CELL_EINVAL, "a number from 1 to 65535", "'%.16s' is no port",
			c->params[1]);
		return;
	}
	c->details = json_pack("{s:i, s:s, s:s}", "port", (int)port, "method", http_method(c->x),
		"path", http_path(c->x));
	call_permit(c, &(struct policy_request){0}, connect_permitted);
}

const struct route api_port_routes[] = {
	{"GET", "/v1/sessions/{session}/ports", TOKEN_READ_ONLY, .handler = list},
	{"*", "/v1/sessions/{session}/ports/{port}/*", TOKEN_USER, .action = "port.connect",
		.handler = connect_port},
	{NULL},
};
