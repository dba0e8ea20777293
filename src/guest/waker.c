/* SPDX-License-Identifier: Apache-2.0 */
/* waker.c: see waker.h. */
#include "guest/waker.h"

#include <stddef.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

uint64_t waker_now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void on_timer(struct source *s, uint32_t events)
{
	struct waker *w = (struct waker *)((char *)s - offsetof(struct waker, source));
	uint64_t n;

	(void)events;
	(void)!read(s->fd, &n, sizeof n);
	w->armed_ns = 0;
	w->fn(waker_now_ns());
}

static void open_timer(struct waker *w)
{
	w->source =
		(struct source){.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK),
			.events = EPOLLIN,
			.fn = on_timer};
	if (w->source.fd >= 0 && loop_add(&w->source) < 0) {
		close(w->source.fd);
		w->source.fd = -1;
	}
}

void waker_set(struct waker *w, uint64_t at_ns)
{
	const struct itimerspec when = {.it_value = {.tv_sec = (time_t)(at_ns / 1000000000u),
						.tv_nsec = (long)(at_ns % 1000000000u)}};

	if (w->source.fd < 0)
		open_timer(w);
	if (w->source.fd < 0 || (w->armed_ns && w->armed_ns <= at_ns))
		return;
	if (timerfd_settime(w->source.fd, TFD_TIMER_ABSTIME, &when, NULL) == 0)
		w->armed_ns = at_ns;
}
