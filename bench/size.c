/* SPDX-License-Identifier: Apache-2.0 */
/* size.c: what a cell weighs: the guest's size and the memory of an idle one. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "bench.h"
#include "core/guest_process.h"

static int take_pid(const struct cell_platform *p, void *user)
{
	*(int64_t *)user = p->guest_pid;
	return 0;
}

size_t bench_size(struct bench *b, struct bench_row *ret)
{
	struct cell_spec spec = {.backend = "local", .workspace = b->workspace};
	struct cell_error err = {0};
	struct cell *c = NULL;
	int64_t pid = 0;

	if (cell_open(&spec, &c, &err) < 0 || cell_platform(c, take_pid, &pid, &err) < 0)
		bench_die_err("open a cell", &err);
	ret[0] = (struct bench_row){.what = "size of the guest",
		.unit = "KiB",
		.ours = (double)(cell_guest_blob_end - cell_guest_blob) / 1024,
		.budget = 450}; /* half of it are the drivers of interpreters */
	ret[1] = (struct bench_row){.what = "idle cell, proportional memory (Pss)",
		.unit = "KiB",
		.ours = bench_process_kib(pid, "Pss:"),
		.budget = 1024};
	ret[2] = (struct bench_row){.what = "idle cell, private memory",
		.unit = "KiB",
		.ours = bench_process_kib(pid, "Private_"),
		.budget = 1024};
	if (cell_close(c, &err) < 0)
		bench_die_err("close a cell", &err);
	return 3;
}
