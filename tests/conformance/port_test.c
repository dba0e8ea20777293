/* SPDX-License-Identifier: Apache-2.0 */
/* port_test.c: connections to programs that listen in the cell. The listener is `probe serve`. */
#include "suite.h"

#define NEEDS_PORTS (NEEDS(PORTS))

static unsigned start_listener(struct talk *t, struct cell *c, const char *address)
{
	talk_start(t, c, &(struct cell_exec_opts){.argv = ARGV("./probe", "serve", address)});
	talk_expect(t, "port ");
	talk_expect(t, "\n");
	return (unsigned)strtoul(strstr(t->out, "port ") + 5, NULL, 10);
}

static struct cell_conn *must_connect(struct cell *c, unsigned port)
{
	struct cell_conn *x;
	struct cell_conn_event ev;

	OK(cell_connect(c, port, &x, &E));
	OK(cell_conn_next(x, 60000, &ev, &E));
	ASSERT_INT(ev.type, CELL_CONN_OPEN);
	return x;
}

/* Sends `total` bytes of the pattern and takes what comes back until the end; how many, with their hash. */
static uint64_t exchange(struct cell_conn *x, uint64_t total, uint64_t *ret_hash)
{
	static uint8_t piece[32768];
	uint64_t sent = 0, got = 0, hash = HASH_START;
	struct cell_conn_event ev = {0};
	bool is_closed = false;

	while (ev.type != CELL_CONN_END) {
		size_t n = total - sent < sizeof piece ? (size_t)(total - sent) : sizeof piece;
		for (size_t i = 0; i < n; i++)
			piece[i] = gen_byte(sent + i);
		sent += n ? (uint64_t)OK(cell_conn_write(x, piece, n, 0, &E)) : 0;
		if (sent == total && !is_closed) {
			OK(cell_conn_close_write(x, &E));
			is_closed = true;
		}
		OK(cell_conn_next(x, is_closed ? 60000 : 1, &ev, &E));
		if (ev.type == CELL_CONN_DATA) {
			hash = hash_add(hash, ev.data, ev.len);
			got += ev.len;
		}
		ASSERT(ev.type != CELL_CONN_NONE || !is_closed);
	}
	*ret_hash = hash;
	return got;
}

TEST_NEEDS(bytes_go_to_a_port_and_come_back, NEEDS_PORTS)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t = {0};
	unsigned port = start_listener(&t, c, "127.0.0.1");
	uint64_t hash;

	for (uint64_t n = 0; n <= 3000000; n = n ? n * 1000 : 3) {
		struct cell_conn *x = must_connect(c, port);
		ASSERT_INT(exchange(x, n, &hash), n + 3);
		ASSERT(hash == hash_add(gen_hash(n), "bye", 3));
		cell_conn_free(x);
	}
}

TEST_NEEDS(a_port_of_the_other_loopback_is_found, NEEDS_PORTS)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t = {0};
	uint64_t hash;

	auto_result struct cell_result r = sh(c, "test -s /proc/net/if_inet6");
	if (r.exit.exit_code)
		SKIP("this cell has no IPv6");
	struct cell_conn *x = must_connect(c, start_listener(&t, c, "::1"));
	ASSERT_INT(exchange(x, 5000, &hash), 5003);
	cell_conn_free(x);
}

TEST_NEEDS(several_connections_and_commands_at_once, NEEDS_PORTS)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t = {0};
	unsigned port = start_listener(&t, c, "127.0.0.1");
	struct cell_conn *all[20];
	uint64_t hash;

	for (int i = 0; i < 20; i++)
		all[i] = must_connect(c, port);
	auto_result struct cell_result r = sh(c, "echo meanwhile");
	ASSERT_STR(r.out, "meanwhile\n");
	for (int i = 19; i >= 0; i--) {
		ASSERT_INT(exchange(all[i], 1000, &hash), 1003);
		cell_conn_free(all[i]);
	}
}

TEST_NEEDS(nobody_listening_is_told, NEEDS_PORTS)
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_conn_event ev;
	struct cell_conn *x;

	OK(cell_connect(c, 1, &x, &E));
	FAILS(BACKEND, cell_conn_next(x, 60000, &ev, &E));
	ASSERT_HAS(E.msg, "port 1");
	ASSERT(E.hint[0]);
	cell_conn_free(x);
	FAILS(INVALID, cell_connect(c, 0, &x, &E));
	FAILS(INVALID, cell_connect(c, 65536, &x, &E));
}

TEST_NEEDS(letting_go_closes_the_connection_in_the_cell, NEEDS_PORTS)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t = {0};
	unsigned port = start_listener(&t, c, "127.0.0.1");
	unsigned before = ask_guest(c).running;

	struct cell_conn *x = must_connect(c, port);
	ASSERT(ask_guest(c).running > before);
	cell_conn_free(x);
	WAIT_FOR(ask_guest(c).running == before);
}

struct wanted {
	unsigned port;
	bool is_found;
};

static int look(const struct cell_port *p, void *user)
{
	struct wanted *w = user;

	w->is_found |= p->port == w->port && !strcmp(p->address, "127.0.0.1");
	return 0;
}

TEST_NEEDS(what_listens_is_listed, NEEDS_PORTS)
{
	auto_cell struct cell *c = open_cell(s);
	auto_talk struct talk t = {0};
	struct wanted w = {.port = start_listener(&t, c, "127.0.0.1")};

	OK(cell_ports(c, look, &w, &E));
	ASSERT(w.is_found);
}
