/* SPDX-License-Identifier: Apache-2.0 */
/* within.c: see within.h. */
#include "core/within.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

bool cell_path_is_within(const char *path, const char *root)
{
	size_t n = strlen(root);

	while (n > 1 && root[n - 1] == '/')
		n--;
	return !strncmp(path, root, n) && (path[n] == '/' || !path[n] || n == 1);
}

int cell_within(const struct cell_spec *spec, const char *what, const char *path, int fd,
	struct cell_error *err)
{
	char name[48], real[PATH_MAX];

	if (!spec->within)
		return 0;
	(void)snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(name, real, sizeof real - 1);
	if (n < 0)
		return cell_fail_errno(err, errno, "find out where %s '%.200s' is", what, path);
	real[n] = '\0';
	for (const char *const *root = spec->within; *root; root++) {
		auto_free char *there = realpath(*root, NULL);
		if (there && cell_path_is_within(real, there))
			return 0;
	}
	int r = cell_fail(err, CELL_EDENIED, 0,
		"%s '%.200s': it is in no directory of the host that this cell may have", what,
		path);
	return cell_error_hint(err, r, "is there a link on its way that leads out of them?");
}

static int check(const struct cell_spec *spec, const char *what, const char *path,
	struct cell_error *err)
{
	if (!path)
		return 0;
	auto_fd int fd = open(path, O_PATH | O_CLOEXEC);
	if (fd < 0)
		return cell_fail_errno(err, errno, "%s '%.200s'", what, path);
	return cell_within(spec, what, path, fd, err);
}

int cell_within_spec(const struct cell_spec *spec, struct cell_error *err)
{
	if (!spec->within)
		return 0;
	int r = check(spec, "workspace", spec->workspace, err);
	if (r == 0)
		r = check(spec, "root", spec->root, err);
	if (r == 0 && spec->image && strchr("./~", spec->image[0]))
		r = check(spec, "image", spec->image, err);
	if (r == 0 && spec->seccomp && strchr(spec->seccomp, '/'))
		r = check(spec, "seccomp", spec->seccomp, err);
	for (size_t i = 0; r == 0 && i < spec->n_mounts; i++)
		r = check(spec, "mount", spec->mounts[i].source, err);
	return r;
}
