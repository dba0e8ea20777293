/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oom.c: out of memory takes every command of the cell, not the one process the kernel picked: what is left
 * of a build or a database after a random kill is worth less than a clear end. The guest itself stays.
 */
#include "guest/oom.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/guest.h"

static struct source watch = {.fd = -1};
static unsigned long long kills_seen;

/* "oom_kill N" of memory.events. */
static unsigned long long count_kills(int fd)
{
	char text[512];
	ssize_t n = pread(fd, text, sizeof text - 1, 0);

	if (n <= 0)
		return kills_seen;
	text[n] = '\0';
	const char *p = strstr(text, "oom_kill ");
	return p ? strtoull(p + strlen("oom_kill "), NULL, 10) : kills_seen;
}

static void end_everything(void)
{
	for (struct job *j = job_first(); j; j = j->next) {
		if (!j->is_worker && !j->is_gone)
			j->is_oom = true;
	}
	job_kill_all();
}

static void on_eventfd(struct source *s, uint32_t events)
{
	uint64_t n;

	(void)events;
	if (read(s->fd, &n, sizeof n) == (ssize_t)sizeof n)
		end_everything();
}

static void on_events(struct source *s, uint32_t events)
{
	unsigned long long n = count_kills(s->fd);

	(void)events;
	if (n == kills_seen)
		return;
	kills_seen = n;
	end_everything();
}

int oom_watch_eventfd(int fd)
{
	watch = (struct source){.fd = fd, .events = EPOLLIN, .fn = on_eventfd};
	return loop_add(&watch);
}

int oom_watch_events(int fd)
{
	kills_seen = count_kills(fd);
	watch = (struct source){.fd = fd, .events = EPOLLPRI, .fn = on_events};
	return loop_add(&watch);
}
