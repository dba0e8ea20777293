/* SPDX-License-Identifier: Apache-2.0 */
/*
 * privilege.c: see privilege.h. What parses requests from a network must hold nothing worth taking: a hole in it is then a hole into
 * an account without rights, which can ask the launcher for cells and for nothing else.
 */
#include "server/privilege.h"

#include <errno.h>
#include <ftw.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/caps.h"

#include "base/capsets.h"
#include "base/cleanup.h"
#include "core/store.h"

struct account {
	uid_t uid;
	gid_t gid;
	char name[64]; /* "" when it has none */
};

static int unknown(const char *user, struct cell_error *err)
{
	int r = cell_fail(err, CELL_EINVAL, 0, "server.user: there is no user '%.64s'", user);

	return cell_error_hint(err, r, "useradd --system --home-dir /var/lib/cell cell");
}

static int find_account(const char *user, struct account *ret, struct cell_error *err)
{
	char *end = NULL;
	const struct passwd *pw = getpwnam(user);

	*ret = (struct account){0};
	if (!pw && *user >= '0' && *user <= '9') {
		errno = 0;
		unsigned long uid = strtoul(user, &end, 10), gid = uid;
		if (*end == ':' && end[1] >= '0' && end[1] <= '9')
			gid = strtoul(end + 1, &end, 10);
		if (errno || *end || uid > UINT32_MAX - 1 || gid > UINT32_MAX - 1)
			return unknown(user, err);
		ret->uid = (uid_t)uid;
		ret->gid = (gid_t)gid;
		pw = getpwuid(ret->uid);
		if (pw && !strchr(user, ':'))
			ret->gid = pw->pw_gid;
	} else if (pw) {
		ret->uid = pw->pw_uid;
		ret->gid = pw->pw_gid;
	} else {
		return unknown(user, err);
	}
	if (pw)
		(void)snprintf(ret->name, sizeof ret->name, "%s", pw->pw_name);
	if (ret->uid != 0)
		return 0;
	int r = cell_fail(err, CELL_EINVAL, 0, "server.user: '%.64s' is root", user);
	return cell_error_hint(err, r, "name an ordinary user, or leave it out to stay root");
}

/* ---- the state directory ---- */

static const struct account *receiver; /* for nftw(), which takes no argument; one thread, once */

/* Root's own only: what belongs to a cell's user in there stays that user's. */
static int give_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)type;
	(void)at;
	return st->st_uid == 0 && lchown(path, receiver->uid, receiver->gid) < 0 ? -1 : 0;
}

/* A directory of root's, which nobody else can write to, so that no path in it can be exchanged meanwhile. */
static int give_tree(const char *path, const struct account *a)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	struct stat st;

	if (stat(path, &st) == 0 && st.st_uid == a->uid)
		return 0; /* by an earlier start */
	int r = cell_store_open(&store, true,
		NULL); /* made where missing; refused when others may write to it */
	if (r < 0)
		return r;
	receiver = a;
	return nftw(path, give_one, 32, FTW_PHYS | FTW_MOUNT) < 0 ? -errno : 0;
}

static int give_state(const struct account *a, struct cell_error *err)
{
	auto_free char *path = NULL;
	int r = cell_store_path(&path, err);

	if (r < 0)
		return r;
	r = give_tree(path, a);
	/* from now on it is named: the usual place of that user is another */
	if (r == 0 && setenv("CELL_STATE_DIR", path, 1) < 0)
		r = -errno;
	if (r < 0) {
		(void)cell_fail(err, CELL_EDENIED, -r,
			"give the state directory '%.150s' to user %u", path, (unsigned)a->uid);
		(void)cell_error_hint(err, 0,
			"chown -R %u:%u '%.120s', or set CELL_STATE_DIR to another one",
			(unsigned)a->uid, (unsigned)a->gid, path);
	}
	return r;
}

/* ---- for good ---- */

static int become(const struct account *a)
{
	/* the bounding set first: emptying it needs the capability that is lost with the uid */
	int r = capsets_drop_bounding();

	if (r < 0)
		return r;
	if ((a->name[0] ? initgroups(a->name, a->gid) : setgroups(0, NULL)) < 0 ||
		setresgid(a->gid, a->gid, a->gid) < 0 || setresuid(a->uid, a->uid, a->uid) < 0)
		return -errno;
	r = capsets_drop_own();
	if (r < 0)
		return r;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	/* what was asked for is looked at, not believed */
	return setuid(0) == 0 || setgid(0) == 0 ? -EPERM : 0;
}

int privilege_drop(const char *user, struct cell_error *err)
{
	struct account a;
	struct cell_backend_info jail;
	struct rlimit files = {1 << 20, 1 << 20};
	int r = find_account(user, &a, err);

	if (r < 0 || geteuid() == a.uid)
		return r;
	if (geteuid() != 0) {
		r = cell_fail(err, CELL_EDENIED, 0,
			"server.user: only root can become user '%.64s'", user);
		return cell_error_hint(err, r, "start the server as root, or as that user");
	}
	r = give_state(&a, err);
	if (r < 0)
		return r;
	(void)setrlimit(RLIMIT_NOFILE, &files);
	/* looking what a jail can do here starts the launcher, which stays as it is. A machine without jails says so when one is asked for. */
	(void)cell_backend_probe("jail", &jail, NULL);
	r = become(&a);
	return r < 0 ? cell_fail_errno(err, -r, "become user '%.64s'", user) : 0;
}
