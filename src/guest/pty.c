/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/pty.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"

#ifndef TIOCGPTPEER
#define TIOCGPTPEER _IO('T', 0x41)
#endif

int pty_resize(int master, uint16_t rows, uint16_t cols)
{
	const struct winsize ws = {.ws_row = rows, .ws_col = cols};

	return ioctl(master, TIOCSWINSZ, &ws) < 0 ? -errno : 0;
}

int pty_open(uint16_t rows, uint16_t cols, uid_t owner, int *ret_master, int *ret_slave)
{
	int unlock = 0;
	auto_fd int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (master < 0)
		master = open("/dev/pts/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (master < 0 || ioctl(master, TIOCSPTLCK, &unlock) < 0)
		return -errno;
	/* the peer by fd, not by name: /dev/pts may be another instance, or hidden */
	auto_fd int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (slave < 0) {
		char name[32];
		unsigned number;

		if (ioctl(master, TIOCGPTN, &number) < 0)
			return -errno;
		(void)snprintf(name, sizeof name, "/dev/pts/%u", number);
		slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
		if (slave < 0)
			return -errno;
	}
	(void)fchown(slave, owner, (gid_t)-1); /* only root may, and only root needs to */
	if (rows && cols)
		(void)pty_resize(master, rows, cols);
	*ret_master = steal_fd(master);
	*ret_slave = steal_fd(slave);
	return 0;
}
