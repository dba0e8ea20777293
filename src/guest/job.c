/* SPDX-License-Identifier: Apache-2.0 */
/* job.c: the channels of what runs: pipes into rings, queues into pipes. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/guest.h"
#include "guest/keeper.h"
#include "guest/kernel.h"

#define READ_CHUNK   (128u * 1024)
#define READ_ROUNDS  8 /* then others get their turn */
#define BIG_PIPE     (512 * 1024)
#define STRAIGHT_MIN 16384u

uint64_t job_oldest(const struct job *j, int i)
{
	uint64_t oldest = ring_oldest(&j->out[i].ring);

	return j->is_run && i == 0 && j->first_event > oldest ? j->first_event : oldest;
}

static void close_source(struct source *s)
{
	if (s->fd < 0)
		return;
	loop_remove(s);
	close(s->fd);
	s->fd = -1;
}

void job_free(struct job *j)
{
	jobs_remove(j);
	for (int i = 0; i < 2; i++) {
		close_source(&j->out[i].src);
		ring_done(&j->out[i].ring);
	}
	close_source(&j->in);
	if (j->status_fd >= 0)
		close(j->status_fd);
	buf_done(&j->in_queue);
	free(j);
}

/* ---- output ---- */

void job_pump(struct job *j)
{
	for (struct stream *s = j->streams, *next; s; s = next) {
		next = s->next_peer;
		stream_pump(s);
	}
}

bool job_has_holder(const struct job *j)
{
	const struct stream *s = j->streams;

	while (s && !s->is_holding)
		s = s->next_peer;
	return s;
}

uint64_t job_held(const struct job *j, int i)
{
	uint64_t hold = j->is_durable || j->is_run ? j->out[i].spooled : UINT64_MAX;

	for (const struct stream *s = j->streams; s; s = s->next_peer) {
		if (s->is_holding && s->chan[1 + i].acked < hold)
			hold = s->chan[1 + i].acked;
	}
	return hold;
}

static void end_of_output(struct job_chan *c)
{
	close_source(&c->src);
	c->is_eof = c->is_drained = true;
}

/* Most commands say nothing, or little: the ring is made when the first byte is there. All that is read
 * fits in, since it begins at the ring's start. */
static ssize_t read_first(struct job_chan *c)
{
	static uint8_t scratch[65536];
	uint8_t *p;
	ssize_t n = read(c->src.fd, scratch, sizeof scratch);

	if (n <= 0)
		return n;
	if (n == (ssize_t)sizeof scratch && !c->is_enlarged)
		(void)fcntl(c->src.fd, F_SETPIPE_SZ, BIG_PIPE);
	c->is_enlarged |= n == (ssize_t)sizeof scratch;
	if (ring_room(&c->ring, UINT64_MAX, guest.spool_fd, &p) < n) {
		errno = ENOMEM;
		return -1;
	}
	memcpy(p, scratch, (size_t)n);
	return n;
}

/* Much output for one reader that has seen all before: the pages of the pipe go straight to the socket.
 * Nothing of it is kept, so only where nobody could come back for it: for file operations, and where the
 * guest ends with its one connection. True when it was done, or must wait for the reader. */
static bool send_straight(struct job_chan *c)
{
	struct job *j = c->job;
	struct stream *s = j->streams;
	int i = (int)(c - j->out), there = 0;

	if (!s || s->next_peer || !s->is_holding || s->chan[1 + i].sent != c->ring.head ||
		!(j->is_worker || (!guest.has_listener && c->ring.size <= RING_SMALL)) ||
		j->is_tty || j->is_durable || !conn_can_splice(s->conn) ||
		ioctl(c->src.fd, FIONREAD, &there) < 0 || (size_t)there < STRAIGHT_MIN)
		return false;
	if (!c->is_enlarged && there == 65536) {
		c->is_enlarged = true;
		(void)fcntl(c->src.fd, F_SETPIPE_SZ, BIG_PIPE); /* a busy pipe: fewer switches */
	}
	uint64_t room = s->window - (s->chan[1 + i].sent - s->chan[1 + i].acked);
	size_t n = (size_t)there < WIRE_MAX_DATA ? (size_t)there : WIRE_MAX_DATA;

	if (room < STRAIGHT_MIN || conn_backlog(s->conn)) {
		loop_want(&c->src, 0); /* an ACK, or room in the socket, resumes */
		return true;
	}
	if (n > room)
		n = (size_t)room;
	if (conn_send_pipe(s, (unsigned)(1 + i), c->ring.head, c, n) < 0) {
		loop_want(&c->src, 0);
		return true;
	}
	s->chan[1 + i].sent += n;
	ring_skip(&c->ring, n);
	return true;
}

static ssize_t read_some(struct job_chan *c, uint64_t hold)
{
	uint8_t *p;

	if (!c->ring.map && c->ring.head == 0)
		return read_first(c);
	ssize_t room = ring_room(&c->ring, hold, guest.spool_fd, &p);
	if (room <= 0) {
		errno = EBUSY;
		return -1;
	}
	return read(c->src.fd, p, (size_t)room < READ_CHUNK ? (size_t)room : READ_CHUNK);
}

/* Read while there is room and something to read. */
static void read_output(struct job_chan *c)
{
	struct job *j = c->job;
	int i = (int)(c - j->out);

	for (int round = 0; round < READ_ROUNDS && c->src.fd >= 0; round++) {
		if (c->is_owed)
			return;
		if (send_straight(c)) {
			if (c->src.events == 0 || c->is_owed)
				return;
			continue;
		}
		ssize_t n = read_some(c, job_held(j, i));

		if (n < 0 && errno == EBUSY) {
			loop_want(&c->src, 0); /* a reader holds it back; its ACK resumes */
			return;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			c->is_drained = j->has_exited;
			break;
		}
		if (n <= 0) { /* a terminal says EIO when its last process is gone */
			end_of_output(c);
			break;
		}
		ring_wrote(&c->ring, (size_t)n);
		job_pump(j);
	}
	loop_want(&c->src, EPOLLIN);
}

static void on_output(struct source *s, uint32_t events)
{
	struct job_chan *c = (struct job_chan *)((char *)s - offsetof(struct job_chan, src));
	struct job *j = c->job;

	(void)events;
	read_output(c);
	job_pump(j);
}

int job_open_out(struct job *j, int i, int fd, uint64_t keep)
{
	struct job_chan *c = &j->out[i];

	ring_init(&c->ring, (size_t)keep);
	c->src = (struct source){.fd = fd, .events = EPOLLIN, .fn = on_output};
	int r = fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : loop_add(&c->src);
	if (r < 0) {
		close(fd);
		c->src.fd = -1;
	}
	return r;
}

void job_taken(struct job *j, const struct stream *s)
{
	for (int i = 0; i < 2 && s->is_holding; i++) {
		if (s->chan[1 + i].acked > j->out[i].spooled)
			j->out[i].spooled = s->chan[1 + i].acked;
	}
}

void job_resume(struct job *j)
{
	if (j->run)
		run_resume(j->run);
	for (int i = 0; i < 2; i++) {
		if (!j->out[i].is_owed) /* read at its next turn, never from in here */
			loop_want(&j->out[i].src, EPOLLIN);
	}
}

/* ---- input ---- */

static void ack_to(struct stream *s, uint64_t offset)
{
	uint8_t at[8];

	wire_u64_put(at, offset);
	(void)conn_send(s->conn, WIRE_ACK, WIRE_CHAN_IN, s->id, at, sizeof at, NULL, 0);
}

void job_ack_input(struct job *j)
{
	for (struct stream *s = j->streams; s; s = s->next_peer) {
		if (s->has_stdin)
			ack_to(s, j->in_written);
	}
}

static void close_input(struct job *j)
{
	close_source(&j->in);
	j->in_written = j->in_taken; /* nobody reads it any more: let the sender go on */
	buf_reset(&j->in_queue);
}

static void flush_input(struct job *j)
{
	bool is_progress = false;

	while (j->in.fd >= 0 && j->in_queue.len) {
		ssize_t n = write(j->in.fd, j->in_queue.data, j->in_queue.len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		is_progress = true;
		if (n < 0) {
			close_input(j);
			break;
		}
		j->in_written += (uint64_t)n;
		buf_consume(&j->in_queue, (size_t)n);
	}
	if (j->in.fd >= 0 && !j->in_queue.len && j->in_eof) {
		if (j->is_tty)
			(void)!write(j->in.fd, "\004", 1);
		close_input(j);
	}
	loop_want(&j->in, j->in_queue.len ? EPOLLOUT : 0);
	if (is_progress)
		job_ack_input(j);
}

static void on_input(struct source *s, uint32_t events)
{
	struct job *j = (struct job *)((char *)s - offsetof(struct job, in));

	if (events & (EPOLLERR | EPOLLHUP) && !(events & EPOLLOUT)) {
		close_input(j);
		job_ack_input(j);
		return;
	}
	flush_input(j);
}

int job_open_in(struct job *j, int fd)
{
	j->in = (struct source){.fd = fd, .events = 0, .fn = on_input};
	int r = fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : loop_add(&j->in);
	if (r < 0) {
		close(fd);
		j->in.fd = -1;
	}
	return r;
}

int job_input(struct job *j, struct stream *s, uint64_t offset, const uint8_t *p, size_t n)
{
	if (!s->has_stdin) { /* another client has taken over: its bytes go nowhere */
		ack_to(s, offset + n);
		return 0;
	}
	if (offset > j->in_taken)
		return -EPROTO;
	if (offset + n <= j->in_taken)
		return 0; /* sent again after a reconnect: it is here already */
	size_t known = (size_t)(j->in_taken - offset);
	p += known;
	n -= known;
	if ((j->in.fd < 0 && !j->run) || j->in_eof) {
		j->in_taken += n;
		j->in_written = j->in_taken;
		job_ack_input(j);
		return 0;
	}
	if (n > WIRE_STDIN_WINDOW - j->in_queue.len)
		return -EPROTO;
	if (buf_add(&j->in_queue, p, n) < 0)
		return -ENOMEM;
	j->in_taken += n;
	if (j->run)
		run_input(j->run);
	else
		flush_input(j);
	return 0;
}

void job_input_eof(struct job *j)
{
	j->in_eof = true;
	if (j->run)
		run_input(j->run);
	else
		flush_input(j);
}

/* ---- streams that look at it ---- */

void job_attach(struct job *j, struct stream *s)
{
	s->job = j;
	s->next_peer = j->streams;
	j->streams = s;
}

void job_detach(struct job *j, struct stream *s)
{
	struct stream **at = &j->streams;

	while (*at && *at != s)
		at = &(*at)->next_peer;
	if (*at)
		*at = s->next_peer;
	s->job = NULL;
	if (j->is_worker && !j->is_gone && j->minder > 0)
		(void)kill(j->minder,
			SIGKILL); /* before its stdin closes: an upload cut short is not whole */
	if (j->is_worker && j->is_gone && !j->streams) {
		job_free(j);
		return;
	}
	job_resume(j);
}

/* ---- the end ---- */

bool job_is_settled(const struct job *j)
{
	if (!j->has_exited || (j->exit.timed_out && !j->is_gone))
		return false;
	for (int i = 0; i < 2; i++) {
		if (j->out[i].src.fd >= 0 && !j->out[i].is_drained)
			return false;
	}
	return true;
}

static void read_rest(struct job *j)
{
	for (int i = 0; i < 2; i++) {
		if (j->out[i].src.fd >= 0)
			read_output(&j->out[i]);
	}
}

void job_exited(struct job *j)
{
	if (j->is_host) {
		host_exited(j);
		return;
	}
	read_rest(j);
	job_pump(j);
}

void job_gone(struct job *j)
{
	jobs_note_gone(j);
	close_input(j);
	read_rest(j);
	if (j->is_host)
		host_gone(j);
	else if (j->is_worker && !j->streams)
		job_free(j);
	else
		job_pump(j);
	guest_maybe_leave();
}

void job_put_state(const struct job *j, struct buf *b)
{
	int status = j->exit.status;
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);

	(void)wire_put_u64(b, WIRE_T_OUT_OFFSET, j->out[0].ring.head);
	(void)wire_put_u64(b, WIRE_T_ERR_OFFSET, j->out[1].ring.head);
	(void)wire_put_u64(b, WIRE_T_IN_OFFSET, j->in_taken);
	if (!j->has_exited)
		return;
	(void)wire_put_u64(b, WIRE_T_EXIT_CODE, (uint64_t)(j->exit.timed_out ? 124 : code));
	(void)wire_put_u64(b, WIRE_T_SIGNAL, WIFSIGNALED(status) ? (uint64_t)WTERMSIG(status) : 0);
	(void)wire_put_u64(b, WIRE_T_TIMED_OUT, j->exit.timed_out);
	(void)wire_put_u64(b, WIRE_T_OOM, j->is_oom);
	(void)wire_put_u64(b, WIRE_T_CPU_NS, j->exit.cpu_ns);
	(void)wire_put_u64(b, WIRE_T_MAX_RSS, j->exit.max_rss);
	(void)wire_put_u64(b, WIRE_T_WALL_NS, j->exit.wall_ns);
}

/* A worker's own words, or that it died without any. */
static int worker_end(struct job *j, struct buf *b)
{
	char text[WIRE_MAX_REPLY];
	ssize_t n = read(j->status_fd, text, sizeof text);

	if (n > 0)
		return buf_add(b, text, (size_t)n);
	(void)wire_put_u64(b, WIRE_T_CODE, CELL_EINTERNAL);
	return wire_put_str(b, WIRE_T_MESSAGE, "file operation: its worker process died");
}

int job_end_fields(struct job *j, struct buf *b)
{
	if (j->is_worker)
		return worker_end(j, b);
	(void)wire_put_u64(b, WIRE_T_CODE, CELL_OK);
	(void)wire_put_str(b, WIRE_T_ID, j->id);
	job_put_state(j, b);
	return 0;
}

void job_kill_all(void)
{
	for (struct job *j = job_first(); j; j = j->next) {
		if (j->is_gone || j->minder <= 0)
			continue;
		if (j->is_worker)
			(void)kill(j->minder, SIGKILL);
		else
			(void)keeper_signal(j->minder, SIGKILL, true);
	}
}
