/* SPDX-License-Identifier: Apache-2.0 */
/*
 * oom.c: out of memory takes every command of the cell, not the one process the kernel picked: what is left
 * of a build or a database after a random kill is worth less than a clear end. The guest itself stays.
 */
#include "guest/oom.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
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

void oom_look(void)
{
	if (watch.fd >= 0)
		watch.fn(&watch, 0);
}

void oom_forget_the_past(void)
{
	uint64_t n;

	if (watch.fd < 0)
		return;
	if (watch.fn ==
		on_eventfd) /* the kernel tells of each attempt to free memory, so more than once */
		(void)!read(watch.fd, &n, sizeof n);
	else
		kills_seen = count_kills(watch.fd);
}

/* A child inherits the score, and only raising it is free. So the guest's own is high for the moment of
 * a birth: back to where it was is allowed. */
static int score_fd = -1;
static char score[16], score_of_children[16];

void oom_open_score(void)
{
	score_fd = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
	ssize_t n = score_fd < 0 ? -1 : pread(score_fd, score, sizeof score - 1, 0);
	long v = n > 0 ? strtol(score, NULL, 10) + 500 : 0;

	if (n <= 0 && score_fd >= 0) {
		close(score_fd);
		score_fd = -1;
	}
	(void)snprintf(score_of_children, sizeof score_of_children, "%ld", v > 1000 ? 1000 : v);
}

void oom_raise_score(void)
{
	if (score_fd >= 0)
		(void)!pwrite(score_fd, score_of_children, strlen(score_of_children), 0);
}

void oom_restore_score(void)
{
	if (score_fd >= 0)
		(void)!pwrite(score_fd, score, strlen(score), 0);
}
