/* SPDX-License-Identifier: Apache-2.0 */
/* user.c: names to ids with the cell's own /etc/passwd and /etc/group. */
#include "guest/user.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void take(struct user *u, const struct passwd *pw)
{
	u->uid = pw->pw_uid;
	u->gid = pw->pw_gid;
	(void)snprintf(u->name, sizeof u->name, "%s", pw->pw_name);
	(void)snprintf(u->home, sizeof u->home, "%s", pw->pw_dir);
	(void)snprintf(u->shell, sizeof u->shell, "%s", pw->pw_shell);
	u->n_groups = USER_MAX_GROUPS;
	if (getgrouplist(pw->pw_name, pw->pw_gid, u->groups, &u->n_groups) < 0)
		u->n_groups = USER_MAX_GROUPS;
}

static bool parse_id(const char **p, unsigned *ret)
{
	char *end;

	if (**p < '0' || **p > '9')
		return false;
	errno = 0;
	unsigned long v = strtoul(*p, &end, 10);
	if (errno || v >= 0xffffffffu)
		return false;
	*p = end;
	*ret = (unsigned)v;
	return true;
}

/* "1000" or "1000:1000" */
static bool parse_ids(const char *p, unsigned *uid, unsigned *gid, bool *has_gid)
{
	*has_gid = false;
	if (!parse_id(&p, uid))
		return false;
	if (*p == ':') {
		p++;
		*has_gid = true;
		if (!parse_id(&p, gid))
			return false;
	}
	return *p == '\0';
}

/* Root of a container without capabilities is nobody else's. */
static bool may_change(void)
{
	return prctl(PR_CAPBSET_READ, CAP_SETUID) != 0 && prctl(PR_CAPBSET_READ, CAP_SETGID) != 0;
}

/* ---- the guest's own ---- */

struct stamp {
	bool is_there;
	struct stat st;
};

static struct stamp stamp_of(const char *path)
{
	struct stamp s = {0};

	s.is_there = stat(path, &s.st) == 0;
	return s;
}

static bool is_same(const struct stamp *a, const struct stamp *b)
{
	return a->is_there == b->is_there && a->st.st_dev == b->st.st_dev &&
	       a->st.st_ino == b->st.st_ino && a->st.st_size == b->st.st_size &&
	       a->st.st_ctim.tv_sec == b->st.st_ctim.tv_sec &&
	       a->st.st_ctim.tv_nsec == b->st.st_ctim.tv_nsec;
}

/* What was changed just now is not yet known for good: two writes fit in one tick of the clock. */
static bool is_settled(const char *path, const struct stamp *s)
{
	return s->st.st_ctim.tv_sec < time(NULL) - 2 || (access(path, W_OK) < 0 && errno == EROFS);
}

/* Nearly every command is for it, and reading both files takes a dozen system calls: they are read again when
 * they have changed. */
static void resolve_self(struct user *ret)
{
	static struct user known;
	static struct stamp passwd, group;
	const struct stamp p = stamp_of("/etc/passwd"), g = stamp_of("/etc/group");

	if (known.is_self && is_same(&p, &passwd) && is_same(&g, &group)) {
		*ret = known;
		return;
	}
	const struct passwd *pw = getpwuid(ret->uid);

	ret->is_self = true;
	if (pw)
		take(ret, pw);
	else
		(void)snprintf(ret->name, sizeof ret->name, "%u", ret->uid);
	known = *ret;
	known.is_self = is_settled("/etc/passwd", &p) && is_settled("/etc/group", &g);
	passwd = p;
	group = g;
}

int user_resolve(const char *spec, struct user *ret, struct cell_error *err)
{
	unsigned uid, gid;
	bool has_gid;

	*ret = (struct user){.uid = geteuid(), .gid = getegid(), .shell = "/bin/sh", .home = "/"};
	if (!spec || !*spec) {
		resolve_self(ret);
		return 0;
	}
	if (parse_ids(spec, &uid, &gid, &has_gid)) {
		const struct passwd *pw = getpwuid(uid);

		ret->uid = uid;
		ret->gid = uid;
		(void)snprintf(ret->name, sizeof ret->name, "%u", uid);
		if (pw)
			take(ret, pw);
		if (has_gid) {
			ret->gid = gid;
			ret->n_groups = 0;
		}
	} else {
		const struct passwd *pw = getpwnam(spec);

		if (!pw) {
			(void)cell_fail(err, CELL_ENOTFOUND, ENOENT, "run as user '%.64s'", spec);
			return cell_error_hint(err, -ENOENT,
				"no such user in the cell's /etc/passwd; a numeric uid[:gid] works "
				"too");
		}
		take(ret, pw);
	}
	if (geteuid() != 0 || !may_change()) {
		if (ret->uid == geteuid()) {
			ret->is_self = true;
			return 0;
		}
		(void)cell_fail(err, CELL_EDENIED, EPERM, "run as user '%.64s'", spec);
		return cell_error_hint(err, -EPERM,
			"the guest of this cell runs as uid %u and cannot become another user",
			geteuid());
	}
	ret->is_self = false;
	return 0;
}
