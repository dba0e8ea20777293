/* SPDX-License-Identifier: Apache-2.0 */
/* settings.h: what of this machine's own settings decides about a jail, and the commands that change
 * them. Each command is one line for a shell. */
#pragma once
#include <stdbool.h>

/* Where /proc and /sys are looked for; tests have their own. */
extern const char *jail_settings_root;

/* The number in a file below that root; otherwise when there is none. */
long jail_setting(const char *path, long otherwise);
/* Is there such a file? */
bool jail_has(const char *path);
/* Has a file a line that begins so? */
bool jail_has_line(const char *path, const char *begin);

enum jail_cgroups {
	JAIL_CGROUPS_NONE,
	JAIL_CGROUPS_V1,
	JAIL_CGROUPS_HYBRID, /* controllers on v1, an empty v2 beside it */
	JAIL_CGROUPS_V2
};
enum jail_cgroups jail_cgroups(void);
bool jail_cgroups_are_read_only(void);

/* What brings limits to an ordinary user, and to root where they are missing. is_usual: of memory or
 * processes, which systemd hands to users unasked. */
const char *jail_fix_limits(bool is_rootful, bool is_usual);
/* Boot with cgroup v2 alone. */
const char *jail_fix_unified(void);
