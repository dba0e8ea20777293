/* SPDX-License-Identifier: Apache-2.0 */
/* auto_X: released at the end of the scope. steal_X(): hand it on, leave nothing behind.
 * Never between fork and exec. */
#pragma once
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define auto_(fn) __attribute__((cleanup(fn)))

static inline void cell_freep(void *p)
{
	free(*(void **)p);
}

static inline void cell_closep(const int *fd)
{
	if (*fd >= 0) {
		int saved = errno;
		close(*fd);
		errno = saved;
	}
}

static inline void cell_fclosep(FILE **f)
{
	if (*f)
		(void)fclose(*f);
}

static inline void cell_closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

#define auto_free auto_(cell_freep)
#define auto_fd   auto_(cell_closep)
#define auto_file auto_(cell_fclosep)
#define auto_dir  auto_(cell_closedirp)

#define steal_ptr(p)                                  \
	({                                            \
		__typeof__(p) *pp_ = &(p), v_ = *pp_; \
		*pp_ = NULL;                          \
		v_;                                   \
	})
#define steal_fd(fd)                         \
	({                                   \
		int *pp_ = &(fd), v_ = *pp_; \
		*pp_ = -1;                   \
		v_;                          \
	})
