/* SPDX-License-Identifier: Apache-2.0 */
/* file_call.c: requests, bytes and records of file operations; see file_call.h. The guest is not
 * trusted: what it sends is checked before it is shown to anybody. */
#include "core/file_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "core/cell.h"
#include "core/contract.h"

#define NAME_MAX_BYTES 65536u

void file_request_done(struct file_request *q)
{
	buf_done(&q->fields);
}

void file_put(struct file_request *q, unsigned tag, const void *p, size_t n)
{
	int r = wire_put(&q->fields, tag, p, n);

	if (q->status == 0)
		q->status = r;
}

void file_put_str(struct file_request *q, unsigned tag, const char *s)
{
	if (s)
		file_put(q, tag, s, strlen(s));
}

void file_put_u64(struct file_request *q, unsigned tag, uint64_t v)
{
	uint8_t bytes[8];

	wire_u64_put(bytes, v);
	file_put(q, tag, bytes, sizeof bytes);
}

static int check(const struct cell *c, uint16_t op, const struct file_request *q,
	struct cell_error *err)
{
	cell_caps needs = CELL_CAP_BIT(op == WIRE_OP_WATCH   ? CELL_CAP_WATCH
				       : op == WIRE_OP_PORTS ? CELL_CAP_PORTS
							     : CELL_CAP_FILES);

	if (q->status == -ENOBUFS)
		return cell_fail(err, CELL_EINVAL, E2BIG,
			"file operation: the request is larger than %u bytes", WIRE_MAX_MESSAGE);
	if (q->status < 0)
		return cell_fail_errno(err, -q->status, "file operation");
	if (!c->link)
		return cell_fail(err, CELL_EGONE, EPIPE,
			"file operation: there is no connection to the guest");
	return cell_contract_require(c, needs, "file operation", err);
}

int file_call(struct cell *c, uint16_t op, const struct file_request *q, struct buf *ret_end,
	struct cell_error *err)
{
	int r = check(c, op, q, err);

	return r < 0 ? r : link_call(c->link, op, &q->fields, ret_end, err);
}

int file_open(struct cell *c, uint16_t op, const struct file_request *q, struct link_stream **ret,
	struct cell_error *err)
{
	int r = check(c, op, q, err);

	return r < 0 ? r : link_request(c->link, op, &q->fields, ret, err);
}

void file_stream_freep(struct link_stream **s)
{
	link_stream_free(*s);
}

/* END: 0 with its fields, or its error. */
static int take_end(const struct link_event *ev, struct buf *ret_end, struct cell_error *err)
{
	int r = link_end_error(ev, err);

	if (r == 0 && ret_end && buf_add(ret_end, ev->p, ev->len) < 0)
		return cell_fail(err, CELL_EPROTOCOL, EPROTO,
			"file operation: the guest's answer is too long");
	return r;
}

int file_next(struct link_stream *s, int timeout_ms, const uint8_t **ret, size_t *ret_len,
	struct buf *ret_end, struct cell_error *err)
{
	for (;;) {
		struct link_event ev;
		int r = link_next(s, timeout_ms, &ev, err);

		if (r < 0)
			return r;
		switch (ev.type) {
		case LINK_NONE:
			return 2;
		case LINK_END:
			return take_end(&ev, ret_end, err);
		case LINK_DATA:
			if (ev.chan != WIRE_CHAN_OUT)
				return cell_fail(err, CELL_EPROTOCOL, EPROTO,
					"file operation: bytes on a channel it does not have");
			if (ev.len == 0)
				continue;
			*ret = ev.p;
			*ret_len = ev.len;
			return 1;
		case LINK_REPLY:
		case LINK_ROOM:
			break;
		}
	}
}

int file_receive(struct link_stream *s, cell_data_fn fn, void *user, struct buf *ret_end,
	struct cell_error *err)
{
	const uint8_t *p;
	size_t n;
	int r;

	while ((r = file_next(s, -1, &p, &n, ret_end, err)) > 0) {
		r = fn(p, n, user);
		if (r != 0)
			return r;
	}
	return r;
}

/* The operation came to its end while bytes were still to be sent. */
static int ended_early(const struct link_event *ev, struct cell_error *err)
{
	int r = link_end_error(ev, err);

	return r < 0 ? r
		     : cell_fail(err, CELL_EPROTOCOL, EPROTO,
			       "file operation: the guest ended it before all bytes were sent");
}

int file_send(struct link_stream *s, const void *p, size_t n, struct cell_error *err)
{
	for (size_t done = 0; done < n;) {
		struct link_event ev;
		ssize_t took = link_send(s, (const uint8_t *)p + done, n - done, 0, err);

		if (took < 0)
			return (int)took;
		done += (size_t)took;
		if (took > 0)
			continue;
		/* No room: wait for news of this stream, which may be that it has ended. */
		int r = link_next(s, -1, &ev, err);
		if (r < 0)
			return r;
		if (ev.type == LINK_END)
			return ended_early(&ev, err);
		if (ev.type != LINK_ROOM)
			return cell_fail(err, CELL_EPROTOCOL, EPROTO,
				"file operation: the guest sent what was not asked for");
	}
	return 0;
}

int file_finish(struct link_stream *s, struct buf *ret_end, struct cell_error *err)
{
	const uint8_t *p;
	size_t n;
	int r = link_send_eof(s, err);

	if (r == 0)
		r = file_next(s, -1, &p, &n, ret_end, err);
	if (r > 0)
		return cell_fail(err, CELL_EPROTOCOL, EPROTO,
			"file operation: the guest sent what was not asked for");
	return r;
}

static uint64_t now_ms(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* The whole records at the front of b. */
static int show_records(struct buf *b, file_record_fn fn, void *user, struct cell_error *err)
{
	size_t at = 0, len, used;
	const uint8_t *record;
	int r = 0, more = 0;

	while (r == 0 &&
		(more = wire_record_next(b->data + at, b->len - at, &record, &len, &used)) > 0) {
		r = fn(record, len, user, err);
		at += used;
	}
	if (more < 0)
		return cell_fail(err, CELL_EPROTOCOL, EPROTO,
			"file operation: the guest sent a record that is too long");
	buf_consume(b, at);
	return r;
}

int file_records(struct link_stream *s, int timeout_ms, file_record_fn fn, void *user,
	struct buf *ret_end, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(2 * (WIRE_MAX_RECORD + WIRE_MAX_DATA));
	uint64_t deadline = timeout_ms < 0 ? UINT64_MAX : now_ms() + (uint64_t)timeout_ms;

	for (;;) {
		const uint8_t *p = NULL;
		size_t n = 0;
		int left = -1;

		if (timeout_ms >= 0) {
			uint64_t now = now_ms();
			left = now < deadline ? (int)(deadline - now) : 0;
		}
		int r = file_next(s, left, &p, &n, ret_end, err);
		if (r == 0 && b.len > 0)
			return cell_fail(err, CELL_EPROTOCOL, EPROTO,
				"file operation: the guest's last record is cut short");
		if (r != 1)
			return r == 2 ? 0 : r;
		r = buf_add(&b, p, n);
		if (r < 0)
			return cell_fail_errno(err, -r, "file operation");
		r = show_records(&b, fn, user, err);
		if (r != 0)
			return r;
	}
}

int file_info_get(struct file_info *f, const uint8_t *p, size_t len, const char *path,
	struct cell_error *err)
{
	*f = (struct file_info){0};
	if (!path) {
		f->path = wire_find_str(p, len, WIRE_T_PATH, NAME_MAX_BYTES);
		path = f->path;
	}
	f->target = wire_find_str(p, len, WIRE_T_TARGET, NAME_MAX_BYTES);
	uint64_t type = wire_find_u64(p, len, WIRE_T_TYPE, 0);
	if (!path || type < CELL_FILE_REGULAR || type > CELL_FILE_OTHER) {
		file_info_done(f);
		return cell_fail(err, CELL_EPROTOCOL, EPROTO,
			"file operation: the guest described no file");
	}
	f->info = (struct cell_file_info){
		.path = path,
		.type = (enum cell_file_type)type,
		.size = wire_find_u64(p, len, WIRE_T_SIZE, 0),
		.mode = (uint32_t)wire_find_u64(p, len, WIRE_T_MODE, 0) & 07777,
		.uid = (uint32_t)wire_find_u64(p, len, WIRE_T_UID, 0),
		.gid = (uint32_t)wire_find_u64(p, len, WIRE_T_GID, 0),
		.mtime_ns = (int64_t)wire_find_u64(p, len, WIRE_T_MTIME_NS, 0),
		.target = f->target ? f->target : "",
	};
	return 0;
}

void file_info_done(struct file_info *f)
{
	free(f->path);
	free(f->target);
	f->path = f->target = NULL;
}
