/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/platform.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/user.h"
#include "wire/wire.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static size_t read_text(const char *path, char *ret, size_t size)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, ret, size - 1);

	ret[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/* PRETTY_NAME of os-release, without its quotes. */
static void os_version(char *ret, size_t size)
{
	char text[4096];

	ret[0] = '\0';
	if (!read_text("/etc/os-release", text, sizeof text))
		(void)read_text("/usr/lib/os-release", text, sizeof text);
	char *p = strstr(text, "PRETTY_NAME=");
	if (!p)
		return;
	p += strlen("PRETTY_NAME=");
	char *end = strchrnul(p, '\n');
	if (*p == '"' || *p == '\'') {
		p++;
		if (end > p)
			end--;
	}
	(void)snprintf(ret, size, "%.*s", (int)(end - p), p);
}

static uint64_t resident_bytes(void)
{
	char text[128], *end;

	if (!read_text("/proc/self/statm", text, sizeof text))
		return 0;
	(void)strtoull(text, &end, 10);
	return strtoull(end, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static unsigned cpu_count(void)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof set, &set) < 0)
		return 1;
	return (unsigned)CPU_COUNT(&set);
}

void platform_put(struct buf *b)
{
	struct utsname un = {0};
	struct sysinfo si = {0};
	struct user me;
	char version[256];

	(void)uname(&un);
	(void)sysinfo(&si);
	(void)user_resolve(NULL, &me, NULL);
	os_version(version, sizeof version);
	(void)wire_put_str(b, WIRE_T_OS, un.sysname);
	(void)wire_put_str(b, WIRE_T_OS_VERSION, version);
	(void)wire_put_str(b, WIRE_T_KERNEL, un.release);
	(void)wire_put_str(b, WIRE_T_ARCH, un.machine);
	(void)wire_put_str(b, WIRE_T_HOSTNAME, un.nodename);
	(void)wire_put_str(b, WIRE_T_USER, me.name);
	(void)wire_put_u64(b, WIRE_T_UID, me.uid);
	(void)wire_put_u64(b, WIRE_T_CPUS, cpu_count());
	(void)wire_put_u64(b, WIRE_T_MEMORY, (uint64_t)si.totalram * si.mem_unit);
	(void)wire_put_str(b, WIRE_T_SOFTWARE, "cell-guest " CELL_VERSION);
	(void)wire_put_u64(b, WIRE_T_PID, (uint64_t)getpid());
	(void)wire_put_u64(b, WIRE_T_RSS, resident_bytes());
}

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

void platform_find_tool(const char *path, const char *name, char *ret, size_t ret_size)
{
	ret[0] = '\0';
	if (!*name || strchr(name, '/'))
		return;
	for (const char *p = path && *path ? path : DEFAULT_PATH; p;) {
		const char *end = strchrnul(p, ':');
		int n = snprintf(ret, ret_size, "%.*s/%s", (int)(end - p), p, name);

		if (n > 0 && (size_t)n < ret_size && is_program(ret))
			return;
		p = *end ? end + 1 : NULL;
	}
	ret[0] = '\0';
}
