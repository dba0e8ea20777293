/* SPDX-License-Identifier: Apache-2.0 */
/* cell.h promises that different cells are independent: threads make and use their own at once. The
 * library makes no threads itself. */
#include <pthread.h>

#include "cell/cell.h"

#include "scratch.h"
#include "test.h"

#define N_THREADS 6
#define N_CELLS	  4

static void *use_cells(void *user)
{
	const char *backend = user;

	for (int i = 0; i < N_CELLS; i++) {
		struct cell *c;
		struct cell_result r;

		ASSERT_OK(cell_open(&(struct cell_spec){.backend = backend}, &c, NULL));
		ASSERT_OK(cell_run(c, &(struct cell_exec_opts){.shell = "echo hi"}, NULL, 0, &r,
			NULL));
		ASSERT_STR(r.out, "hi\n");
		cell_result_done(&r);
		ASSERT_OK(cell_close(c, NULL));
	}
	return NULL;
}

static void use_from_threads(char *backend)
{
	pthread_t threads[N_THREADS];

	scratch_make();
	for (int i = 0; i < N_THREADS; i++)
		ASSERT_EQ(pthread_create(&threads[i], NULL, use_cells, backend), 0);
	for (int i = 0; i < N_THREADS; i++)
		ASSERT_EQ(pthread_join(threads[i], NULL), 0);
}

TEST(threads_use_subprocess_cells_of_their_own)
{
	char backend[] = "subprocess";

	use_from_threads(backend);
}

TEST(threads_use_jails_of_their_own)
{
	struct cell_backend_info info;
	char backend[] = "jail";

	if (cell_backend_probe(backend, &info, NULL) < 0 || !info.is_usable)
		SKIP("the jail does not hold here");
	use_from_threads(backend);
}
