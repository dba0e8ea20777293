/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c: from "which step failed with which errno" to what keeps this machine from it and the one
 * thing to do about it. Looks at the settings that are known to be in the way. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/jail/client.h"
#include "base/cleanup.h"

static long setting(const char *path, long otherwise)
{
	char text[32];
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	if (n <= 0)
		return otherwise;
	text[n] = '\0';
	return strtol(text, NULL, 10);
}

static bool is_filtered(void)
{
	char text[4096];
	auto_fd int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);

	text[n > 0 ? n : 0] = '\0';
	return strstr(text, "\nSeccomp:\t2") != NULL;
}

static void set(char *p, const char *text)
{
	(void)snprintf(p, 240, "%s", text);
}

static bool explain_userns(int e, char *reason, char *fix)
{
	if (setting("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0) {
		set(reason, "user namespaces are closed to ordinary users "
			    "(kernel.unprivileged_userns_clone=0)");
		set(fix, "as root: sysctl -w kernel.unprivileged_userns_clone=1");
	} else if (setting("/proc/sys/user/max_user_namespaces", 1) == 0 || e == ENOSPC) {
		set(reason,
			"no user namespace may be made (user.max_user_namespaces is 0 or used up)");
		set(fix, "as root: sysctl -w user.max_user_namespaces=15000");
	} else if (setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1) {
		set(reason, "AppArmor takes the capabilities of user namespaces away "
			    "(kernel.apparmor_restrict_unprivileged_userns=1)");
		set(fix, "as root: install packaging/apparmor/cell into /etc/apparmor.d and run "
			 "`apparmor_parser -r /etc/apparmor.d/cell`, or run Cell as root");
	} else if (is_filtered() && (e == EPERM || e == ENOSYS)) {
		set(reason,
			"we run under a syscall filter that forbids namespaces, as in a container");
		set(fix, "start the container with --security-opt seccomp=unconfined "
			 "--security-opt systempaths=unconfined, or let it have its own Cell on "
			 "the host");
	} else {
		return false;
	}
	return true;
}

static void explain_network(const struct launcher_reply *r, char *fix)
{
	int e = r->sys_errno;
	bool is_missing = e == ENOENT || e == EOPNOTSUPP || e == EPROTONOSUPPORT ||
			  e == EAFNOSUPPORT || e == EPFNOSUPPORT;

	if (r->step == LAUNCHER_STEP_NET_FORWARD)
		set(fix, "let cells through: iptables -I FORWARD -i cell-+ -j ACCEPT; iptables -I "
			 "FORWARD -o cell-+ -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT "
			 "(Docker: DOCKER-USER instead of FORWARD)");
	else if (e == EADDRNOTAVAIL)
		set(fix, "free a part of 198.18.0.0/15, 100.92.0.0/14 or 10.229.0.0/16 of routes");
	else if (r->step == LAUNCHER_STEP_NET_LINK && is_missing)
		set(fix, "as root: modprobe veth");
	else if (r->step == LAUNCHER_STEP_NET_HOST && is_missing)
		set(fix, "as root: modprobe -a nf_tables nft_fib_inet nft_ct nft_masq; the kernel "
			 "needs CONFIG_NF_TABLES_INET, NFT_FIB_INET, NFT_CT and NFT_MASQ");
	else if (is_missing)
		set(fix, "as root: modprobe nf_tables; the kernel needs CONFIG_NF_TABLES_INET: "
			 "without a filter no network is opened");
	else if (e == EPERM || e == EACCES)
		set(fix, "the network of this machine or container may not be changed: give it "
			 "CAP_NET_ADMIN, or use --network none");
}

void jail_explain_parts(const struct launcher_reply *r, char reason[240], char fix[240])
{
	int e = r->sys_errno;

	(void)snprintf(reason, 240, "cannot %s: %.120s: %s", launcher_step_words(r->step), r->text,
		strerror(e));
	fix[0] = '\0';
	switch (r->step) {
	case LAUNCHER_STEP_USERNS:
	case LAUNCHER_STEP_NAMESPACES:
	case LAUNCHER_STEP_STAGE:
	case LAUNCHER_STEP_CLONE:
	case LAUNCHER_STEP_MAP_IDS:
		if (!explain_userns(e, reason, fix) && (e == EPERM || e == EACCES))
			set(fix, "something outside of Cell forbids it; try as root, or look at "
				 "the kernel's log");
		break;
	case LAUNCHER_STEP_PROC:
		if (e == EPERM)
			set(fix,
				"the /proc around us is masked, as in a container: start that with "
				"--security-opt systempaths=unconfined");
		break;
	case LAUNCHER_STEP_CGROUP:
		set(fix, "run as root, or where systemd delegates controllers: "
			 "`systemd-run --user --scope -p Delegate=yes cell ...`; or use --limits "
			 "best-effort");
		break;
	case LAUNCHER_STEP_WORKSPACE:
	case LAUNCHER_STEP_MOUNT:
		if (e == EINVAL)
			set(fix, "its file system cannot be idmapped (an overlay, NFS, an old "
				 "FUSE): use one "
				 "on ext4, xfs, btrfs or tmpfs, or run Cell as the directory's "
				 "owner");
		else if (e == EROFS || e == EACCES || e == ENOENT)
			set(fix, "choose a target below a directory that the image does not have, "
				 "such as /data");
		break;
	case LAUNCHER_STEP_OVERLAY:
		set(fix, "overlays in user namespaces need Linux 5.11, idmapped ones 5.19");
		break;
	case LAUNCHER_STEP_NET_FILTER:
	case LAUNCHER_STEP_NET_HOST:
	case LAUNCHER_STEP_NET_LINK:
	case LAUNCHER_STEP_NET_FORWARD:
		explain_network(r, fix);
		break;
	case LAUNCHER_STEP_EXEC:
		if (e == EACCES)
			set(fix, "allow memfds to be executed: sysctl vm.memfd_noexec=1 or less");
		break;
	case LAUNCHER_STEP_SLOT:
		if (e == EAGAIN)
			set(fix, "destroy some cells first");
		break;
	default:
		break;
	}
}

static enum cell_code code_of(const struct launcher_reply *r)
{
	switch (r->step) {
	case LAUNCHER_STEP_REQUEST:
		return CELL_EINTERNAL;
	case LAUNCHER_STEP_SLOT:
		return r->sys_errno == EAGAIN ? CELL_ELIMIT : CELL_EBACKEND;
	case LAUNCHER_STEP_CGROUP:
	case LAUNCHER_STEP_WORKSPACE:
		return r->sys_errno == EINVAL || r->sys_errno == EOPNOTSUPP ? CELL_ENOTSUP
									    : CELL_EBACKEND;
	default:
		return r->sys_errno == ENOSPC || r->sys_errno == ENOMEM ? CELL_ENOSPACE
									: CELL_EBACKEND;
	}
}

int jail_explain(const struct launcher_reply *r, struct cell_error *err)
{
	char reason[240], fix[240];

	jail_explain_parts(r, reason, fix);
	(void)cell_fail(err, code_of(r), 0, "%s", reason);
	if (err)
		err->sys_errno = r->sys_errno;
	int ret = r->sys_errno > 0 ? -r->sys_errno : -EIO;
	return fix[0] ? cell_error_hint(err, ret, "%s", fix) : ret;
}
