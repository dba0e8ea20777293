/* SPDX-License-Identifier: Apache-2.0 */
/*
 * null.c: a back end that accepts everything and runs nothing. Copy this folder to start a new one: each
 * slot says what a real one does there.
 */
#include <sys/socket.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/backend.h"
#include "wire/wire.h"

/* Private to one handle, zeroed: what must outlive this process goes into notes instead. */
struct null_state {
	int peer_fd; /* the end a guest would have, plus one: 0 is none */
};

/* Look, do not touch: is the engine there, may we use it? cell_probe_refuse() when not;
 * cell_probe_lack() for each single thing that this machine does not have. */
static void null_probe(struct cell_probe *p)
{
	(void)p;
}

/* Make the place, put the guest in it. Note whatever destroy needs to find it again, and
 * cell_note_save() before making what a crash would leave behind. */
static int null_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	(void)spec;
	return cell_note_set(c, "place", "nowhere", err);
}

/* The first frame of a guest. */
static int say_hello(int fd)
{
	auto_buf struct buf fields = BUF_INIT(256);
	uint8_t header[WIRE_HEADER_SIZE];
	int r = wire_put_u64(&fields, WIRE_T_MAGIC, WIRE_MAGIC);

	if (!r)
		r = wire_put_u64(&fields, WIRE_T_VERSION, WIRE_VERSION);
	if (!r)
		r = wire_put_str(&fields, WIRE_T_SOFTWARE, "null");
	if (!r)
		r = wire_put_str(&fields, WIRE_T_BOOT_ID, "null");
	if (!r)
		r = wire_put_u64(&fields, WIRE_T_WINDOW, WIRE_DEFAULT_WINDOW);
	if (r < 0)
		return r;
	wire_header_put(header,
		&(struct wire_header){.len = (uint32_t)fields.len, .type = WIRE_HELLO});
	if (send(fd, header, sizeof header, MSG_NOSIGNAL) < 0 ||
		send(fd, fields.data, fields.len, MSG_NOSIGNAL) < 0)
		return -errno;
	return 0;
}

static void null_detach(struct cell *c)
{
	struct null_state *st = cell_state(c);

	if (st->peer_fd)
		close(st->peer_fd - 1);
	st->peer_fd = 0;
}

/* Connect to the guest. Here nobody is at the other end: it says hello and hangs up, so that the cell opens. */
static int null_open_guest(struct cell *c, struct cell_error *err)
{
	struct null_state *st = cell_state(c);
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return cell_fail_errno(err, errno, "make a socket pair");
	null_detach(c);
	st->peer_fd = pair[1] + 1;
	int r = say_hello(pair[1]);
	if (r < 0 || shutdown(pair[1], SHUT_WR) < 0) {
		close(pair[0]);
		return cell_fail_errno(err, r < 0 ? -r : errno, "say hello for nobody");
	}
	return pair[0];
}

/* End and remove everything, from the notes alone, and again when it was done before. */
static int null_destroy(struct cell *c, struct cell_error *err)
{
	(void)c, (void)err;
	return 0;
}

static bool null_is_alive(struct cell *c)
{
	(void)c;
	return true;
}

const struct cell_backend cell_backend_null = {
	.name = "null",
	.summary = "accepts everything, runs nothing (template and tests)",
	.wall = "Nothing runs, so nothing is kept apart.",
	.tier = 0,
	.strength = 0,
	/* every wall and limit is accepted, there is nobody to keep in; but nothing runs */
	.caps = ~(CELL_CAP_BIT(CELL_CAP_EXEC) | CELL_CAP_BIT(CELL_CAP_PTY) |
		  CELL_CAP_BIT(CELL_CAP_FILES) | CELL_CAP_BIT(CELL_CAP_WATCH) |
		  CELL_CAP_BIT(CELL_CAP_PORTS) | CELL_CAP_BIT(CELL_CAP_BACKGROUND) |
		  CELL_CAP_BIT(CELL_CAP_PAUSE) | CELL_CAP_BIT(CELL_CAP_SNAPSHOT)),
	.state_size = sizeof(struct null_state),
	.probe = null_probe,
	.create = null_create,
	.open_guest = null_open_guest,
	.destroy = null_destroy,
	.is_alive = null_is_alive,
	.detach = null_detach,
};
