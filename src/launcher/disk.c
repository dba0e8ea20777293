/* SPDX-License-Identifier: Apache-2.0 */
/*
 * disk.c: see disk.h. The image is a file without a name that the client made and formatted. A loop
 * device holds it, the mount holds the device (autoclear), the cell's mount namespace holds the mount:
 * when the cell's last process is gone, however it went, all of that is gone and the space is free.
 *
 * The file system is our own, made a moment ago and never touched by anybody else: the cell has no way
 * to its blocks. A file system prepared by a cell is never mounted (its parser would be attacked).
 */
#include "launcher/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/loop.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/mount.h"
#include "launcher/sys.h"

#ifndef LOOP_CONFIGURE
#define LOOP_CONFIGURE 0x4C0A
struct loop_config {
	__u32 fd;
	__u32 block_size;
	struct loop_info64 info;
	__u64 reserved[8];
};
#endif
#define TRIES 64 /* others take free devices between our asking and our taking */

static int attach(int image_fd, char path[32], struct failure *f)
{
	auto_fd int control = open("/dev/loop-control", O_RDWR | O_CLOEXEC);

	if (control < 0)
		return fail(f, LAUNCHER_STEP_DISK, "open", "/dev/loop-control");
	for (int i = 0; i < TRIES; i++) {
		struct loop_config c = {.fd = (uint32_t)image_fd,
			/* direct: or each page would be in memory twice, once charged to nobody */
			.info.lo_flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO};
		int number = ioctl(control, LOOP_CTL_GET_FREE);

		if (number < 0)
			return fail(f, LAUNCHER_STEP_DISK, "find a free loop device", NULL);
		(void)snprintf(path, 32, "/dev/loop%d", number);
		auto_fd int fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return fail(f, LAUNCHER_STEP_DISK, "open", path);
		if (ioctl(fd, LOOP_CONFIGURE, &c) == 0)
			return steal_fd(fd);
		if (errno != EBUSY)
			return fail(f, LAUNCHER_STEP_DISK, "set up", path);
	}
	return fail_with(f, LAUNCHER_STEP_DISK, EBUSY, "find a free loop device", NULL);
}

int disk_mount(int image_fd, uint32_t uid, uint32_t gid, struct failure *f)
{
	char path[32];
	/* no thread of the kernel's that fills inode tables nobody will use */
	const char *const options[] = {"source", path, "noinit_itable", NULL, NULL};
	/* held until the mount holds it */
	auto_fd int loop = attach(image_fd, path, f);

	if (loop < 0)
		return -1;
	/* setuid files and device nodes are just files, as everywhere in a cell */
	auto_fd int fd = mount_new("ext4", options, ATTR_NOSUID | ATTR_NODEV | ATTR_NOATIME);
	if (fd < 0)
		return fail(f, LAUNCHER_STEP_DISK, "mount ext4 on", path);
	(void)unlinkat(fd, "lost+found", AT_REMOVEDIR);
	if (fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0)
		return fail(f, LAUNCHER_STEP_DISK, "give the scratch space to the cell", NULL);
	return steal_fd(fd);
}
