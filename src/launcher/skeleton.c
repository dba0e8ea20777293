/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/skeleton.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

const struct skeleton_device skeleton_devices[] = {
	{"null", 1, 3},
	{"zero", 1, 5},
	{"full", 1, 7},
	{"random", 1, 8},
	{"urandom", 1, 9},
	{"tty", 5, 0},
	{NULL, 0, 0},
};

const char *const skeleton_etc_bound[] = {
	"alternatives", /* Debian: /usr/bin/cc and many others are links into it */
	"ssl/certs", "pki", "ca-certificates/extracted",
	"crypto-policies", /* trusted authorities */
	"fonts", NULL};

static const char *const copied[] = {"ld.so.cache", "localtime", "timezone", "services",
	"protocols", "mime.types", "ssl/openssl.cnf", "debian_version",
	"matplotlibrc", /* Debian's matplotlib has a link to it, and does not start without */
	NULL};

static const struct {
	const char *name, *text;
} written[] = {
	{"etc/passwd", "root:x:0:0:root:/root:/bin/sh\n"
		       "cell:x:1000:1000:cell:/home/cell:/bin/sh\n"
		       "nobody:x:65534:65534:nobody:/:/bin/false\n"},
	{"etc/group", "root:x:0:\ncell:x:1000:\nnogroup:x:65534:\n"},
	{"etc/hosts", "127.0.0.1 localhost cell\n::1 localhost ip6-localhost ip6-loopback\n"},
	{"etc/hostname", "cell\n"},
	{"etc/host.conf", "multi on\n"},
	{"etc/nsswitch.conf", "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"
			      "services: files\nprotocols: files\n"},
	{"etc/resolv.conf", ""}, /* a cell with a network gets one mounted here */
	{"etc/shells", "/bin/sh\n/bin/bash\n"},
};

static const char *const directories[] = {"dev", "etc", "etc/ssl", "home", "home/cell", "proc",
	"root", "run", "tmp", "var", "var/cache", "var/lib", "var/log", "workspace", NULL};

static const char *const links[][2] = {
	{"/run", "var/run"},
	{"/tmp", "var/tmp"},
	{"../proc/self/mounts", "etc/mtab"},
	{"../usr/lib/os-release", "etc/os-release"},
};

static const char *const dev_links[][2] = {
	{"/proc/self/fd", "fd"},
	{"/proc/self/fd/0", "stdin"},
	{"/proc/self/fd/1", "stdout"},
	{"/proc/self/fd/2", "stderr"},
	{"pts/ptmx", "ptmx"},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

int skeleton_root(int root_fd)
{
	for (size_t i = 0; directories[i]; i++)
		if (mkdirat(root_fd, directories[i], 0755) < 0)
			return -1;
	for (size_t i = 0; i < COUNT(links); i++)
		if (symlinkat(links[i][0], root_fd, links[i][1]) < 0)
			return -1;
	return 0;
}

static int write_text(int root_fd, const char *name, const char *text)
{
	auto_fd int fd = openat(root_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

/* A file of the host's /etc, if it is a plain one of bearable size. */
static int copy(int etc_fd, int root_fd, const char *name)
{
	char part[16384];
	struct stat st;
	auto_fd int from = openat(etc_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (from < 0 || fstat(from, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > 1 << 20 ||
		!(st.st_mode & S_IROTH))
		return 0;
	auto_fd int etc = openat(root_fd, "etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	auto_fd int to = openat(etc, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (to < 0)
		return -1;
	for (ssize_t n; (n = read(from, part, sizeof part)) > 0;)
		if (write(to, part, (size_t)n) != n)
			return -1;
	return 0;
}

int skeleton_etc(int root_fd)
{
	for (size_t i = 0; i < COUNT(written); i++)
		if (write_text(root_fd, written[i].name, written[i].text) < 0)
			return -1;
	auto_fd int etc = open("/etc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; etc >= 0 && copied[i]; i++)
		if (copy(etc, root_fd, copied[i]) < 0)
			return -1;
	return 0;
}

int skeleton_dev(int dev_fd)
{
	if (mkdirat(dev_fd, "pts", 0755) < 0 || mkdirat(dev_fd, "shm", 0755) < 0)
		return -1;
	for (size_t i = 0; i < COUNT(dev_links); i++)
		if (symlinkat(dev_links[i][0], dev_fd, dev_links[i][1]) < 0)
			return -1;
	return 0;
}
