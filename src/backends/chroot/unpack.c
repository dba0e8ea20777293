/* SPDX-License-Identifier: Apache-2.0 */
/* unpack.c: reads the archive; what may come out of it is decided in base/untar.c. */
#include "backends/chroot/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/untar.h"

static ssize_t read_archive(void *p, size_t n, void *user)
{
	ssize_t got;

	do
		got = read(*(int *)user, p, n);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

/* The program that would make a tar archive of it; NULL when it is none or not compressed. */
static const char *find_decompressor(int fd)
{
	static const struct {
		const char *magic, *program;
	} known[] = {{"\x1f\x8b", "gunzip"}, {"BZh", "bunzip2"}, {"\xfd\x37zXZ", "unxz"},
		{"\x28\xb5\x2f\xfd", "unzstd"}};
	char start[8] = "";

	if (pread(fd, start, sizeof start, 0) != (ssize_t)sizeof start)
		return NULL;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!memcmp(start, known[i].magic, strlen(known[i].magic)))
			return known[i].program;
	return NULL;
}

int chroot_unpack(const char *archive, int dir_fd, struct cell_error *err)
{
	auto_fd int fd = open(archive, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	struct tar_reader in = TAR_READER_INIT(read_archive, &fd);
	struct untar_result got = {0};

	if (fd < 0)
		return cell_fail_errno(err, errno, "root tree '%s'", archive);
	const char *program = find_decompressor(fd);
	if (program) {
		int r = cell_fail(err, CELL_ENOTSUP, 0, "root tree '%s' is compressed", archive);
		return cell_error_hint(err, r, "decompress it first: %s", program);
	}
	int r = untar(&in, dir_fd, UNTAR_ROOT_TREE, 0, &got, err);
	tar_reader_done(&in);
	if (r < 0)
		return cell_error_prefix(err, r, "root tree '%s'", archive);
	if (!got.entries) {
		r = cell_fail(err, CELL_EINVAL, 0, "root tree '%s' has nothing in it", archive);
		return cell_error_hint(err, r, "make one: tar -C DIRECTORY -cf root.tar .");
	}
	return 0;
}
