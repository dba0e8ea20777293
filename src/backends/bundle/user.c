/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "backends/bundle/bundle.h"
#include "base/cleanup.h"
#include "base/error.h"

int bundle_find_user(const char *const *layers, size_t n, const char *name, uid_t *ret_uid,
	gid_t *ret_gid, struct cell_error *err)
{
	char path[4200];

	for (size_t i = n; i-- > 0;) {
		(void)snprintf(path, sizeof path, "%s/etc/passwd", layers[i]);
		int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
		auto_file FILE *f = fd < 0 ? NULL : fdopen(fd, "re");

		for (struct passwd *pw; f && (pw = fgetpwent(f));) {
			if (strcmp(pw->pw_name, name) != 0)
				continue;
			*ret_uid = pw->pw_uid;
			*ret_gid = pw->pw_gid;
			return 0;
		}
		if (f)
			break;
	}
	int r = cell_fail(err, CELL_ENOTFOUND, ENOENT, "run as user '%.64s'", name);
	return cell_error_hint(err, r,
		"no such user in the image's /etc/passwd; a numeric uid[:gid] works too");
}
