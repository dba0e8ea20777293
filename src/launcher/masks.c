/* SPDX-License-Identifier: Apache-2.0 */
/*
 * masks.c: what runc and moby mask, and the rest that any user may read.
 */
#include "launcher/masks.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launcher/mount.h"
#include "launcher/stage.h"

static const char *const names[] = {
	/* hardware */
	"acpi", "asound", "bus", "driver", "fs", "irq", "scsi",
	/* when keys are pressed and packets come: a side channel */
	"interrupts", "softirqs", "diskstats", "schedstat",
	/* where things are in the kernel, and what is in its memory */
	"kallsyms", "kcore", "kmsg", "kpagecount", "kpageflags", "kpagecgroup", "vmallocinfo",
	"slabinfo", "pagetypeinfo", "timer_list", "timer_stats", "sched_debug", "latency_stats",
	"sysrq-trigger",
	/* of the whole machine */
	"cmdline", "keys", "key-users", "locks"};

#define N_MASKS (sizeof names / sizeof *names)
static struct {
	bool is_here, is_directory;
} masks[N_MASKS];

void masks_find(void)
{
	struct stat st;

	for (size_t i = 0; i < N_MASKS; i++) {
		char path[32] = "/proc/";

		(void)memcpy(path + 6, names[i], strlen(names[i]) + 1);
		if (stat(path, &st) < 0)
			continue;
		/* what only root may open is closed to a cell's user, who is nobody here */
		masks[i].is_here = S_ISDIR(st.st_mode) || (st.st_mode & 0077);
		masks[i].is_directory = S_ISDIR(st.st_mode);
	}
}

int masks_cover(int proc_fd, struct failure *f)
{
	for (size_t i = 0; i < N_MASKS; i++) {
		if (!masks[i].is_here)
			continue;
		if (mount_cover(masks[i].is_directory ? "/" STAGE_EMPTY : "/" STAGE_NOTHING,
			    proc_fd, names[i]) < 0)
			return fail(f, LAUNCHER_STEP_PROC, "cover /proc/", names[i]);
	}
	return 0;
}
