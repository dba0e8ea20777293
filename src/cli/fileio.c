/* SPDX-License-Identifier: Apache-2.0 */
/* fileio.c: our own descriptors as sources and targets of file transfers. */
#include "cli/fileio.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli/signals.h"

/* Wait until fd is ready. -EINTR when a signal asked us to stop. */
static int wait_ready(int fd, short events)
{
	struct pollfd fds[] = {
		{.fd = fd, .events = events}, {.fd = cli_signals_fd(), .events = POLLIN}};

	while (!cli_signals_stop()) {
		(void)poll(fds, 2, -1);
		if (fds[0].revents)
			return 0;
		while (cli_signals_next())
			;
	}
	return -EINTR;
}

ssize_t cli_fd_source(void *p, size_t n, void *user)
{
	struct cli_fd_source *s = user;
	ssize_t got;

	if (s->text) {
		size_t left = s->text_len - (size_t)s->bytes;
		n = n < left ? n : left;
		memcpy(p, s->text + s->bytes, n);
		s->bytes += n;
		return (ssize_t)n;
	}
	do {
		if (wait_ready(s->fd, POLLIN) < 0)
			return -EINTR;
		got = read(s->fd, p, n);
	} while (got < 0 && (errno == EINTR || errno == EAGAIN));
	if (got < 0) {
		s->sys_errno = errno;
		return -errno;
	}
	s->bytes += (uint64_t)got;
	if (s->on_bytes && s->on_bytes(s->bytes, s->user))
		return -EINTR;
	return got;
}

static int drain(struct cli_fd_target *t)
{
	while (cli_sink_is_full(&t->sink)) {
		int r = wait_ready(t->sink.fd, POLLOUT);
		if (r < 0)
			return r;
		r = cli_sink_flush(&t->sink, &t->error);
		if (r < 0)
			return r;
	}
	return t->sink.is_broken ? -EPIPE : 0;
}

int cli_fd_target(const void *p, size_t n, void *user)
{
	struct cli_fd_target *t = user;
	int r = cli_sink_put(&t->sink, p, n, &t->error);

	if (r == 0)
		r = drain(t);
	t->bytes += n;
	if (r == 0 && t->on_bytes)
		r = t->on_bytes(t->bytes, t->user);
	return r;
}

int cli_fd_target_end(struct cli_fd_target *t, int r, struct cell_error *err)
{
	if (r == 0)
		r = cli_sink_finish(&t->sink, &t->error);
	if (r == 0)
		r = drain(t);
	if (r < 0 && t->sink.is_broken)
		r = -EPIPE;
	if (r < 0 && t->error.code)
		*err = t->error;
	cli_sink_done(&t->sink);
	return r;
}
