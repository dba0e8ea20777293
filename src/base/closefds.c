/* SPDX-License-Identifier: Apache-2.0 */
/* closefds.c: see closefds.h. */
#include "base/closefds.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define MOST	 (1u << 20) /* the kernel's own default for the highest limit */
#define AT_ONCE	 256
#define IN_CHILD __attribute__((no_sanitize("address"))) /* on stacks that ASan does not know */

struct entry { /* the kernel's struct linux_dirent64 */
	uint64_t ino;
	int64_t next;
	uint16_t size;
	uint8_t type;
	char name[];
};

/* -1: no number. */
IN_CHILD static int64_t number_of(const char *name)
{
	int64_t n = 0;

	for (; *name; name++) {
		if (*name < '0' || *name > '9' || n > MOST * 16)
			return -1;
		n = 10 * n + (*name - '0');
	}
	return n;
}

/* What is open says /proc. In rounds: closing while listing may skip some. false: it does not say. */
IN_CHILD static bool close_listed(unsigned first, unsigned last)
{
	_Alignas(struct entry) char buf[4096];
	unsigned found[AT_ONCE], n;

	do {
		int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		struct statfs fs;
		long got = -1;

		if (dir < 0)
			return false;
		/* in somebody else's root tree it may be made up */
		if (fstatfs(dir, &fs) < 0 || fs.f_type != PROC_SUPER_MAGIC) {
			close(dir);
			return false;
		}
		n = 0;
		while (n < AT_ONCE && (got = syscall(SYS_getdents64, dir, buf, sizeof buf)) > 0)
			for (long at = 0; at < got && n < AT_ONCE;) {
				const struct entry *e = (const struct entry *)(buf + at);
				int64_t fd = e->name[0] == '.' ? -1 : number_of(e->name);

				if (fd >= (int64_t)first && fd <= (int64_t)last && fd != dir)
					found[n++] = (unsigned)fd;
				at += e->size;
			}
		close(dir);
		for (unsigned i = 0; i < n; i++)
			close((int)found[i]);
		if (got < 0)
			return false;
	} while (n == AT_ONCE);
	return true;
}

/* Linux before 5.9, and containers whose filter does not know close_range: one by one. */
IN_CHILD void close_fds(unsigned first, unsigned last)
{
	struct rlimit files;

	if (syscall(SYS_close_range, first, last, 0u) == 0 || close_listed(first, last))
		return;
	unsigned end = MOST;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_max < end)
		end = (unsigned)files.rlim_max;
	for (unsigned fd = first; fd < end && fd <= last; fd++)
		close((int)fd);
}
