/* SPDX-License-Identifier: Apache-2.0 */
/* host_path.c: see host_path.h. */
#include "core/host_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"

char *host_last_name(const char *path)
{
	size_t end = strlen(path);

	while (end > 0 && path[end - 1] == '/')
		end--;
	size_t begin = end;
	while (begin > 0 && path[begin - 1] != '/')
		begin--;
	char *name = strndup(path + begin, end - begin);
	if (name && (!name[0] || !strcmp(name, ".") || !strcmp(name, ".."))) {
		free(name);
		name = NULL;
	}
	return name;
}

int host_make_dirs(const char *path, mode_t mode)
{
	auto_free char *copy = strdup(path);

	if (!copy)
		return -ENOMEM;
	for (char *p = copy; *p;) {
		p += strspn(p, "/");
		p += strcspn(p, "/");
		char saved = *p;
		*p = '\0';
		if (*copy && mkdir(copy, saved ? 0777 : mode) < 0 && errno != EEXIST)
			return -errno;
		*p = saved;
	}
	return 0;
}

int host_open_target(const char *path, const char *host_path, char **ret_name,
	struct cell_error *err)
{
	auto_buf struct buf dir = BUF_INIT(2 * PATH_MAX);
	size_t n = strlen(host_path);
	struct stat st;
	bool is_there = stat(host_path, &st) == 0;
	bool is_dir = is_there ? S_ISDIR(st.st_mode) : n > 0 && host_path[n - 1] == '/';

	if (is_there && !S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return cell_fail(err, CELL_EINVAL, EINVAL,
			"download to '%.256s': it is not a regular file", host_path);
	auto_free char *name = host_last_name(is_dir ? path : host_path);
	if (!name)
		return cell_fail(err, CELL_EINVAL, EINVAL,
			"download '%.150s' to '%.150s': there is no name for the file", path,
			host_path);
	size_t end = n;
	while (!is_dir && end > 0 && host_path[end - 1] == '/')
		end--;
	int r = buf_add(&dir, host_path, is_dir ? n : end - strlen(name));
	if (r == 0 && dir.len == 0)
		r = buf_addc(&dir, '.');
	if (r == 0)
		r = host_make_dirs(buf_str(&dir), 0777);
	if (r < 0)
		return cell_fail_errno(err, -r, "make the directory of '%.256s'", host_path);
	int fd = open(buf_str(&dir), O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return cell_fail_errno(err, errno, "download to '%.256s'", host_path);
	*ret_name = steal_ptr(name);
	return fd;
}
