/* SPDX-License-Identifier: Apache-2.0 */
/* pool.c: a bounded queue of blocking calls and the threads that make them. Threads are started as
 * they are needed and stay. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "net/loop_internal.h"

struct job {
	struct net_post post; /* first: the post of its done function */
	struct job *next;
	void (*work)(void *arg);
	void (*done)(void *arg);
	void *arg;
};

struct net_pool {
	struct net_loop *loop;
	pthread_t *threads;
	char name[16];
	pthread_mutex_t lock; /* guards what is below */
	pthread_cond_t has_work;
	struct job *jobs, **jobs_tail;
	unsigned n_threads, max_threads, n_busy, n_queued, max_queued;
	uint64_t n_accepted, n_refused;
	bool is_ending;
};

static void job_done(struct net_post *p)
{
	struct job j = *(struct job *)p;

	free(p);
	if (j.done)
		j.done(j.arg);
}

static void *thread_main(void *arg)
{
	struct net_pool *p = arg;

	(void)pthread_setname_np(pthread_self(), p->name);
	pthread_mutex_lock(&p->lock);
	for (;;) {
		while (!p->jobs && !p->is_ending)
			pthread_cond_wait(&p->has_work, &p->lock);
		struct job *j = p->jobs;
		if (!j)
			break;
		p->jobs = j->next;
		if (!p->jobs)
			p->jobs_tail = &p->jobs;
		p->n_queued--;
		p->n_busy++;
		pthread_mutex_unlock(&p->lock);
		j->work(j->arg);
		net_loop_post_node(p->loop, &j->post);
		pthread_mutex_lock(&p->lock);
		p->n_busy--;
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int net_pool_new(struct net_loop *l, const char *name, unsigned workers, unsigned queue,
	struct net_pool **ret, struct cell_error *err)
{
	struct net_pool *p = calloc(1, sizeof *p);

	if (!p || !(p->threads = calloc(workers ? workers : 1, sizeof *p->threads))) {
		free(p);
		return cell_fail_errno(err, ENOMEM, "make a pool of %u threads", workers);
	}
	p->loop = l;
	p->max_threads = workers ? workers : 1;
	p->max_queued = queue;
	p->jobs_tail = &p->jobs;
	(void)snprintf(p->name, sizeof p->name, "%s", name);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->has_work, NULL);
	*ret = p;
	return 0;
}

void net_pool_free(struct net_pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->is_ending = true;
	pthread_cond_broadcast(&p->has_work);
	unsigned n = p->n_threads;
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < n; i++)
		(void)pthread_join(p->threads[i], NULL);
	pthread_cond_destroy(&p->has_work);
	pthread_mutex_destroy(&p->lock);
	free(p->threads);
	free(p);
}

/* With the lock held. Signals are the loop's business: a thread that took one would run its handler
 * in the middle of a system call of ours. */
static int start_thread(struct net_pool *p)
{
	sigset_t all, old;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &old);
	int r = pthread_create(&p->threads[p->n_threads], NULL, thread_main, p);
	(void)pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (r == 0)
		p->n_threads++;
	return -r;
}

/* With the lock held: is there room for one more? -errno if not. */
static int admit(struct net_pool *p)
{
	unsigned idle = p->n_threads - p->n_busy;

	if (p->n_queued >= p->max_queued + idle && p->n_threads == p->max_threads)
		return -EBUSY;
	if (p->n_queued >= idle && p->n_threads < p->max_threads && start_thread(p) < 0 &&
		p->n_threads == 0)
		return -EAGAIN;
	return p->n_queued < p->max_queued + p->n_threads - p->n_busy ? 0 : -EBUSY;
}

int net_pool_work(struct net_pool *p, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
	struct job *j = malloc(sizeof *j);

	if (!j)
		return -ENOMEM;
	*j = (struct job){.post.fn = job_done, .work = work, .done = done, .arg = arg};
	pthread_mutex_lock(&p->lock);
	int r = admit(p);
	if (r == 0) {
		*p->jobs_tail = j;
		p->jobs_tail = &j->next;
		p->n_queued++;
		p->n_accepted++;
		pthread_cond_signal(&p->has_work);
	} else {
		p->n_refused++;
	}
	pthread_mutex_unlock(&p->lock);
	if (r < 0)
		free(j);
	return r;
}

int net_work(struct net_loop *l, void (*work)(void *arg), void (*done)(void *arg), void *arg)
{
	return net_pool_work(l->pool, work, done, arg);
}

void net_pool_stats(struct net_pool *p, struct net_pool_stats *ret)
{
	pthread_mutex_lock(&p->lock);
	*ret = (struct net_pool_stats){.workers = p->max_threads,
		.busy = p->n_busy,
		.queued = p->n_queued,
		.queue_max = p->max_queued,
		.accepted = p->n_accepted,
		.refused = p->n_refused};
	pthread_mutex_unlock(&p->lock);
}
