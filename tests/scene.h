/* SPDX-License-Identifier: Apache-2.0 */
/* scene.h: for test programs that set a scene as root, play in it as somebody else too, and report in TAP. */
#pragma once
#include <errno.h>
#include <ftw.h>
#include <grp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct scene_tap {
	int n_done, n_bad;
};

/* One line, and what was wrong. skip NULL: none. */
__attribute__((format(printf, 5, 0))) static inline void scene_vresult(struct scene_tap *t,
	bool is_ok, const char *name, const char *skip, const char *fmt, va_list ap)
{
	printf("%s %d - %s%s%s\n", is_ok ? "ok" : "not ok", ++t->n_done, name,
		skip ? " # SKIP " : "", skip ? skip : "");
	t->n_bad += !is_ok;
	if (is_ok)
		return;
	printf("# ");
	(void)vprintf(fmt, ap);
	printf("\n");
}

__attribute__((noreturn)) static inline void scene_die(const char *what)
{
	printf("Bail out! %s: %s\n", what, strerror(errno));
	exit(1);
}

/* As a shell would say it. */
static inline int scene_wait(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static inline bool scene_become(uid_t id)
{
	return setgroups(0, NULL) == 0 && setresgid(id, id, id) == 0 &&
	       setresuid(id, id, id) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0;
}

static inline int scene_remove_entry(const char *path, const struct stat *st, int flag,
	struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static inline void scene_remove(const char *dir)
{
	(void)nftw(dir, scene_remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}
