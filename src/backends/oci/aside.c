/* SPDX-License-Identifier: Apache-2.0 */
/* aside.c: something short that is done while the caller goes on. */
#include <limits.h>
#include <signal.h>
#include <unistd.h>

#include "backends/oci/oci.h"

#define STACK_BYTES (64u * 1024 + PTHREAD_STACK_MIN)

bool oci_aside(struct oci_aside *a, void *(*fn)(void *arg), void *arg)
{
	pthread_attr_t attr;
	sigset_t all, before;

	a->runs = false;
	if (pthread_attr_init(&attr) != 0)
		return false;
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	(void)sigfillset(&all); /* the caller's signals are for its own threads */
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	a->runs = pthread_create(&a->thread, &attr, fn, arg) == 0;
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	(void)pthread_attr_destroy(&attr);
	a->owner = getpid();
	return a->runs;
}

void oci_aside_done(struct oci_aside *a)
{
	if (a->runs && a->owner == getpid())
		(void)pthread_join(a->thread, NULL);
	a->runs = false;
}
