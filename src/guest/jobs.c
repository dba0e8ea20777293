/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jobs.c: the table of what runs and of what has ended lately. Every command and every piece of code goes through
 * here: nothing that is done for each of them walks over those that are only remembered.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/guest.h"

#define N_CHAINS 64

static struct job *oldest, *newest;
static struct job *chains[N_CHAINS]; /* by id; workers and interpreters' processes have none */
static size_t n_jobs, n_gone, n_hosts, n_untold;
static uint32_t last_number;
static bool is_closed; /* the guest leaves when nothing runs: nothing more may begin */

struct job *job_first(void)
{
	return oldest;
}

static struct job **chain_of(const char *id)
{
	uint32_t h = 2166136261u;

	for (; *id; id++)
		h = (h ^ (unsigned char)*id) * 16777619u;
	return &chains[h % N_CHAINS];
}

struct job *job_find(const char *id)
{
	struct job *j = *chain_of(id);

	while (j && strcmp(j->id, id) != 0)
		j = j->next_in_chain;
	return j;
}

void job_name(struct job *j, const char *id)
{
	struct job **at = chain_of(id);

	(void)snprintf(j->id, sizeof j->id, "%s", id);
	j->next_in_chain = *at;
	*at = j;
}

/* What runs is mostly new. */
struct job *job_by_minder(pid_t pid)
{
	struct job *j = newest;

	while (j && j->minder != pid)
		j = j->prev;
	return j;
}

struct job *job_by_number(uint32_t number)
{
	struct job *j = newest;

	while (j && j->number != number)
		j = j->prev;
	return j;
}

size_t job_running(void)
{
	return n_jobs - n_gone;
}

size_t job_hosts(void)
{
	return n_hosts;
}

void job_be_host(struct job *j)
{
	j->is_host = true;
	n_hosts++;
}

/* A durable one that ended while nobody was there: it waits, so it counts. */
static bool is_untold(const struct job *j)
{
	return j->is_gone && j->is_durable && !j->is_told;
}

void job_tell(struct job *j)
{
	n_untold -= is_untold(j);
	j->is_told = true;
}

void jobs_note_gone(struct job *j)
{
	if (j->is_gone)
		return;
	j->is_gone = true;
	n_gone++;
	n_hosts -= j->is_host;
	n_untold += is_untold(j);
}

/* Forget the oldest finished ones beyond what is remembered. */
static void evict(void)
{
	for (struct job *j = oldest, *next; j && n_gone > GUEST_MAX_FINISHED; j = next) {
		next = j->next;
		if (j->is_gone && !j->streams && !is_untold(j))
			job_free(j);
	}
}

static void append(struct job *j)
{
	j->prev = newest;
	if (newest)
		newest->next = j;
	else
		oldest = j;
	newest = j;
	n_jobs++;
}

void jobs_close(void)
{
	is_closed = true;
}

struct job *job_new(struct cell_error *err)
{
	evict();
	if (is_closed) {
		(void)cell_fail(err, CELL_EGONE, 0, "start: the cell is being removed");
		(void)cell_error_hint(err, 0, "make a new one when it is gone");
		return NULL;
	}
	if (job_running() + n_untold >= GUEST_MAX_JOBS) {
		(void)cell_fail(err, CELL_ELIMIT, EAGAIN,
			"start: %d commands and file operations run", GUEST_MAX_JOBS);
		(void)cell_error_hint(err, 0, "wait for some to end, or use another cell");
		return NULL;
	}
	struct job *j = calloc(1, sizeof *j);
	if (!j) {
		(void)cell_fail(err, CELL_ENOSPACE, ENOMEM, "start");
		return NULL;
	}
	j->number = ++last_number;
	j->in.fd = j->status_fd = -1;
	j->in_queue.max = WIRE_STDIN_WINDOW;
	for (int i = 0; i < 2; i++) {
		j->out[i].src.fd = -1;
		j->out[i].job = j;
		ring_init(&j->out[i].ring, RING_SMALL);
	}
	append(j);
	return j;
}

void jobs_remove(struct job *j)
{
	struct job **at = chain_of(j->id);

	while (*at && *at != j)
		at = &(*at)->next_in_chain;
	if (*at)
		*at = j->next_in_chain;
	if (j->prev)
		j->prev->next = j->next;
	else
		oldest = j->next;
	if (j->next)
		j->next->prev = j->prev;
	else
		newest = j->prev;
	n_jobs--;
	n_gone -= j->is_gone;
	n_hosts -= j->is_host && !j->is_gone;
	n_untold -= is_untold(j);
}
