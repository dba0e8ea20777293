/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/resolv.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/mount.h"
#include "launcher/sys.h"

#define NAME "resolv.conf"

static int write_new(int dir_fd, const char *text)
{
	auto_fd int fd =
		openat(dir_fd, NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	size_t n = strlen(text);

	return fd >= 0 && write(fd, text, n) == (ssize_t)n ? 0 : -1;
}

/* In an image: in place of what it has there, often a link to where nothing is. */
static int replace(int root_fd, const char *text)
{
	if (mount_make_target(root_fd, "etc", false) < 0)
		return -1;
	auto_fd int etc = mount_open(root_fd, "etc"); /* O_PATH */
	auto_fd int dir = etc < 0 ? -1 : openat(etc, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || (unlinkat(dir, NAME, 0) < 0 && errno != ENOENT))
		return -1;
	return write_new(dir, text);
}

int resolv_place(int root_fd, int scratch_fd, const char *text, bool is_image, struct failure *f)
{
	if (is_image)
		return replace(root_fd, text) < 0
			       ? fail(f, LAUNCHER_STEP_RESOLV, "write in the image", "/etc/" NAME)
			       : 0;
	if (write_new(scratch_fd, text) < 0)
		return fail(f, LAUNCHER_STEP_RESOLV, "write", NAME);
	auto_fd int tree =
		mount_clone(scratch_fd, NAME, ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC);
	if (tree < 0 || mount_at(tree, root_fd, "etc/" NAME) < 0)
		return fail(f, LAUNCHER_STEP_RESOLV, "mount", "/etc/" NAME);
	return 0;
}
