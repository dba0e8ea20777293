/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "net/http.h"
#include "net/loop.h"
#include "test.h"

static struct net_loop *loop;
static int n_called;
static atomic_int n_worked;

static void begin(unsigned workers, unsigned queue)
{
	struct net_loop_options o = {workers, queue};

	ASSERT_OK(net_loop_new(&o, &loop, NULL));
}

static void called(void *arg)
{
	n_called++;
	if (arg && n_called == *(int *)arg)
		net_loop_stop(loop);
}

static void *poster(void *arg)
{
	for (int i = 0; i < 1000; i++)
		ASSERT_OK(net_loop_post(loop, called, arg));
	return NULL;
}

TEST(posts_come_from_any_thread)
{
	pthread_t t[4];
	int want = 4000;

	begin(1, 1);
	for (int i = 0; i < 4; i++)
		ASSERT_OK(-pthread_create(&t[i], NULL, poster, &want));
	net_loop_run(loop);
	for (int i = 0; i < 4; i++)
		ASSERT_OK(-pthread_join(t[i], NULL));
	ASSERT_EQ(n_called, want);
	net_loop_free(loop);
}

static void work(void *arg)
{
	(void)arg;
	(void)usleep(1000);
	atomic_fetch_add(&n_worked, 1);
}

TEST(work_is_done_then_told)
{
	int want = 100;

	begin(4, 200);
	for (int i = 0; i < want; i++)
		ASSERT_OK(net_work(loop, work, called, &want));
	net_loop_run(loop);
	ASSERT_EQ(n_called, want);
	ASSERT_EQ(atomic_load(&n_worked), want);
	net_loop_free(loop);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void wait_at_gate(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	atomic_fetch_add(&n_worked, 1);
}

TEST(a_full_queue_refuses_and_what_was_accepted_is_finished_by_free)
{
	struct net_pool_stats s;
	int accepted = 0;

	begin(2, 3);
	pthread_mutex_lock(&gate);
	for (int i = 0; i < 20; i++) {
		int r = net_work(loop, wait_at_gate, called, NULL);
		ASSERT(r == 0 || r == -EBUSY);
		accepted += r == 0;
	}
	/* Two at work, three waiting; the threads may not have taken theirs yet. */
	ASSERT_EQ(accepted, 5);
	net_pool_stats(net_loop_pool(loop), &s);
	ASSERT_EQ(s.accepted, 5);
	ASSERT_EQ(s.refused, 15);
	pthread_mutex_unlock(&gate);
	net_loop_free(loop);
	ASSERT_EQ(atomic_load(&n_worked), accepted);
	ASSERT_EQ(n_called, accepted);
}

static struct net_timer *timer;

static void tick(void *arg)
{
	(void)arg;
	if (++n_called == 3) {
		net_timer_free(timer);
		net_loop_stop(loop);
	}
}

TEST(timers_repeat_and_may_free_themselves)
{
	begin(1, 1);
	ASSERT_OK(net_timer_new(loop, tick, NULL, &timer));
	net_timer_start(timer, 1, 1);
	net_loop_run(loop);
	ASSERT_EQ(n_called, 3);
	net_loop_free(loop);
}

static struct net_watch *watch;
static int seen;

static void on_event(void *arg, int events)
{
	(void)arg;
	seen |= events;
	ASSERT_OK(net_watch_set(watch, 0));
}

static int next_events(int wanted)
{
	seen = 0;
	ASSERT_OK(net_watch_set(watch, wanted));
	net_loop_step(loop, false);
	net_loop_step(loop, false);
	return seen;
}

TEST(descriptors_are_watched_with_changing_events)
{
	int sv[2];

	begin(1, 1);
	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	ASSERT_OK(net_watch_new(loop, sv[0], on_event, NULL, &watch, NULL));
	ASSERT(fcntl(sv[0], F_GETFL) & O_NONBLOCK);
	ASSERT_EQ(next_events(NET_READABLE), 0);
	ASSERT_EQ(next_events(NET_READABLE | NET_WRITABLE), NET_WRITABLE);
	ASSERT_EQ(next_events(NET_HANGUP), 0);
	ASSERT_EQ(write(sv[1], "x", 1), 1);
	ASSERT_EQ(next_events(NET_HANGUP), 0);
	ASSERT_EQ(next_events(NET_READABLE | NET_WRITABLE), NET_READABLE | NET_WRITABLE);
	close(sv[1]);
	ASSERT(next_events(NET_READABLE) & NET_READABLE);
	ASSERT(next_events(NET_HANGUP) & NET_HANGUP);
	net_watch_free(watch);
	close(sv[0]);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct cell_error err = {0};
	ASSERT_ERR(net_watch_new(loop, fd, on_event, NULL, &watch, &err), -EPERM);
	ASSERT(err.msg[0]);
	close(fd);
	net_loop_free(loop);
}

static void on_error_event(void *arg, int events)
{
	(void)arg;
	seen |= events;
	char c = 'x';
	if (write(net_watch_fd(watch), &c, 1) < 0 && errno == EPIPE)
		net_watch_free(watch);
}

TEST(an_error_on_a_descriptor_is_seen_by_whoever_asked_for_anything)
{
	int p[2];

	begin(1, 1);
	ASSERT_OK(pipe(p));
	ASSERT_OK(net_watch_new(loop, p[1], on_error_event, NULL, &watch, NULL));
	close(p[0]);
	ASSERT_OK(net_watch_set(watch, NET_WRITABLE));
	net_loop_step(loop, false);
	net_loop_step(loop, false);
	ASSERT(seen & NET_WRITABLE);
	close(p[1]);
	net_loop_free(loop);
}

static void on_usr1(void *arg, int signum)
{
	(void)arg;
	n_called = signum;
	net_loop_stop(loop);
}

TEST(signals_arrive_in_the_loop)
{
	struct net_signal *s;

	begin(1, 1);
	ASSERT_OK(net_signal_new(loop, SIGUSR1, on_usr1, NULL, &s, NULL));
	ASSERT_OK(raise(SIGUSR1));
	net_loop_run(loop);
	ASSERT_EQ(n_called, SIGUSR1);
	net_signal_free(s);
	net_loop_free(loop);
}

/* --- a server that is freed while a thread has an exchange --- */

static struct http_exchange *held;

static void hold(struct http_exchange *x, void *arg)
{
	(void)arg;
	held = x;
	ASSERT_OK(net_work(loop, wait_at_gate, NULL, NULL));
}

static void gone(struct http_exchange *x, void *arg)
{
	(void)x;
	(void)arg;
	n_called++;
}

TEST(an_exchange_outlives_its_server)
{
	struct http_options o = {.handler = hold};
	struct http_server *s;
	int sv[2];

	begin(1, 1);
	pthread_mutex_lock(&gate);
	ASSERT_OK(http_server_new(loop, &o, &s, NULL));
	ASSERT_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, sv));
	ASSERT_OK(http_serve_fd(s, sv[0]));
	ASSERT_EQ(write(sv[1], "GET /x HTTP/1.1\r\nHost: y\r\n\r\n", 28), 28);
	while (!held)
		net_loop_step(loop, true);
	http_on_gone(held, gone, NULL);
	http_server_free(s);
	net_loop_step(loop, false);
	net_loop_step(loop, false);
	ASSERT_EQ(n_called, 1);
	ASSERT(http_is_gone(held));
	ASSERT_STR(http_path(held), "/x");
	ASSERT_EQ(http_begin(held, 200, "text/plain", -1), -EPIPE);
	ASSERT_EQ(http_write(held, "x", 1), -EPIPE);
	http_end(held);
	pthread_mutex_unlock(&gate);
	close(sv[1]);
	net_loop_free(loop);
}
