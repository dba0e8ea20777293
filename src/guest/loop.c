/* SPDX-License-Identifier: Apache-2.0 */
/* loop.c: epoll, and the one subtlety: a source may be removed while its event waits in the batch.
 */
#include "guest/loop.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

static int epoll_fd = -1;
static bool is_stopping;
static struct epoll_event batch[64];
static int batch_len, batch_at;

int loop_init(void)
{
	epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	return epoll_fd < 0 ? -errno : 0;
}

static int control(struct source *s, int op)
{
	struct epoll_event ev = {.events = s->events, .data.ptr = s};

	if (epoll_ctl(epoll_fd, op, s->fd, &ev) < 0)
		return -errno;
	s->is_added = op != EPOLL_CTL_DEL;
	return 0;
}

int loop_add(struct source *s)
{
	s->is_added = false;
	return s->events ? control(s, EPOLL_CTL_ADD) : 0;
}

void loop_want(struct source *s, uint32_t events)
{
	if (s->fd < 0 || s->events == events)
		return;
	s->events = events;
	if (events)
		(void)control(s, s->is_added ? EPOLL_CTL_MOD : EPOLL_CTL_ADD);
	else if (s->is_added)
		(void)control(s, EPOLL_CTL_DEL); /* a mask of 0 would still report hang-ups */
}

void loop_remove(struct source *s)
{
	if (s->fd >= 0 && s->is_added)
		(void)control(s, EPOLL_CTL_DEL);
	for (int i = batch_at; i < batch_len; i++) {
		if (batch[i].data.ptr == s)
			batch[i].data.ptr = NULL;
	}
}

int loop_run(void)
{
	is_stopping = false;
	while (!is_stopping) {
		batch_len = epoll_wait(epoll_fd, batch, (int)(sizeof batch / sizeof *batch), -1);
		if (batch_len < 0) {
			batch_len = 0;
			if (errno == EINTR)
				continue;
			return -errno;
		}
		for (batch_at = 0; batch_at < batch_len;) {
			struct source *s = batch[batch_at].data.ptr;
			uint32_t events = batch[batch_at].events;

			batch_at++;
			if (s)
				s->fn(s, events);
		}
	}
	return 0;
}

void loop_stop(void)
{
	is_stopping = true;
}
