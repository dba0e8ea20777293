/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/jail/settings.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

const char *jail_settings_root = "";

static FILE *open_file(const char *path)
{
	char full[512];
	int n = snprintf(full, sizeof full, "%s%s", jail_settings_root, path);

	return n > 0 && (size_t)n < sizeof full ? fopen(full, "re") : NULL;
}

long jail_setting(const char *path, long otherwise)
{
	char text[32];
	auto_file FILE *f = open_file(path);

	return f && fgets(text, sizeof text, f) ? strtol(text, NULL, 10) : otherwise;
}

bool jail_has(const char *path)
{
	char full[512];
	int n = snprintf(full, sizeof full, "%s%s", jail_settings_root, path);

	return n > 0 && (size_t)n < sizeof full && access(full, F_OK) == 0;
}

bool jail_has_line(const char *path, const char *begin)
{
	char line[1024];
	auto_file FILE *f = open_file(path);

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, begin, strlen(begin)))
			return true;
	return false;
}

/* Does a mount of this type have these words among what follows its type? */
static bool has_mount(const char *type, const char *option)
{
	char line[4096];
	auto_file FILE *f = open_file("/proc/self/mountinfo");

	while (f && fgets(line, sizeof line, f)) {
		const char *p = strstr(line, " - ");

		if (p && !strncmp(p + 3, type, strlen(type)) && p[3 + strlen(type)] == ' ' &&
			(!option || strstr(p, option)))
			return true;
	}
	return false;
}

enum jail_cgroups jail_cgroups(void)
{
	bool has_v1 = has_mount("cgroup", "memory") || has_mount("cgroup", "pids") ||
		      has_mount("cgroup", "cpu");

	if (has_mount("cgroup2", NULL))
		return has_v1 ? JAIL_CGROUPS_HYBRID : JAIL_CGROUPS_V2;
	return has_v1 ? JAIL_CGROUPS_V1 : JAIL_CGROUPS_NONE;
}

bool jail_cgroups_are_read_only(void)
{
	char line[4096];
	bool is_any = false;
	auto_file FILE *f = open_file("/proc/self/mountinfo");

	while (f && fgets(line, sizeof line, f)) {
		char options[256], super[1024];
		const char *p = strstr(line, " - cgroup");

		if (!p || sscanf(line, "%*s %*s %*s %*s %*s %255s", options) != 1 ||
			sscanf(p, " - %*s %*s %1023s", super) != 1)
			continue;
		if (strncmp(options, "ro", 2) != 0 && strncmp(super, "ro", 2) != 0)
			return false;
		is_any = true;
	}
	return is_any;
}

const char *jail_fix_unified(void)
{
	return jail_has("/run/systemd/system")
		       ? "add systemd.unified_cgroup_hierarchy=1 to the kernel's command line and "
			 "boot"
		       : "add cgroup_no_v1=all to the kernel's command line, boot, and `mount -t "
			 "cgroup2 "
			 "none /sys/fs/cgroup`";
}

/* What systemd hands to users by itself is memory and pids. */
#define DELEGATE                                                         \
	"as root: mkdir -p /etc/systemd/system/user@.service.d; printf " \
	"'[Service]\\nDelegate=cpu cpuset io memory pids\\n' "           \
	">/etc/systemd/system/user@.service.d/cell.conf; systemctl daemon-reload"

const char *jail_fix_limits(bool is_rootful, bool is_usual)
{
	if (jail_cgroups_are_read_only())
		return "mount -o remount,rw /sys/fs/cgroup; in a container: start it with "
		       "--cgroupns=private "
		       "-v /sys/fs/cgroup:/sys/fs/cgroup:rw";
	if (jail_cgroups() == JAIL_CGROUPS_NONE)
		return "as root: mount -t cgroup2 none /sys/fs/cgroup";
	if (is_rootful)
		return "boot with that controller: no cgroup_disable= on the kernel's command line";
	if (jail_cgroups() != JAIL_CGROUPS_V2)
		return "run as root: version 1 of cgroups cannot be delegated to users "
		       "(Delegate= needs version 2 alone)";
	if (!jail_has("/run/systemd/system"))
		return "as root: make a group for the user below /sys/fs/cgroup, chown it and its "
		       "cgroup.* files, and put the shell into it";
	return is_usual ? "systemd-run --user --scope -p Delegate=yes cell ..." : DELEGATE;
}
