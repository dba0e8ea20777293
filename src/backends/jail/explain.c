/* SPDX-License-Identifier: Apache-2.0 */
/* explain.c: from "which step failed with which errno" to what keeps this machine from it and the one
 * thing to do about it. Looks at the settings that are known to be in the way. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/jail/client.h"
#include "backends/jail/settings.h"
#include "base/cleanup.h"

static void set(char *p, const char *text)
{
	(void)snprintf(p, 240, "%s", text);
}

static bool is_in_container(void)
{
	return jail_has("/.dockerenv") || jail_has("/run/.containerenv") ||
	       jail_has("/run/systemd/container");
}

/* A directory that is no root of a mount, or whose mount we do not see, is a chroot: there the kernel
 * allows no user namespace, as it would be a way out. */
static bool is_in_chroot(void)
{
	char line[4096], at[512];
	char path[512];
	bool is_mounted = false;

	(void)snprintf(path, sizeof path, "%s/proc/self/mountinfo", jail_settings_root);
	auto_file FILE *f = fopen(path, "re");
	if (!f)
		return false;
	while (fgets(line, sizeof line, f))
		if (sscanf(line, "%*s %*s %*s %*s %511s", at) == 1)
			is_mounted |= !strcmp(at, "/");
	return !is_mounted;
}

/* The settings that are known to be in the way of user namespaces, the surest first. */
static bool explain_userns(int e, char *reason, char *fix)
{
	if (!jail_has("/proc/self")) {
		set(reason, "/proc is not mounted here");
		set(fix, "as root: mount -t proc proc /proc");
	} else if (jail_setting("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0) {
		set(reason, "user namespaces are closed to ordinary users "
			    "(kernel.unprivileged_userns_clone=0)");
		set(fix, "as root: sysctl -w kernel.unprivileged_userns_clone=1");
	} else if (e == ENOSPC) { /* that is what it means here */
		set(reason,
			"no user namespace may be made (user.max_user_namespaces is 0 or used up)");
		set(fix, "as root: sysctl -w user.max_user_namespaces=15000");
	} else if (jail_setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1) {
		set(reason, "AppArmor takes the capabilities of user namespaces away "
			    "(kernel.apparmor_restrict_unprivileged_userns=1)");
		set(fix, "as root: install packaging/apparmor/cell into /etc/apparmor.d and run "
			 "`apparmor_parser -r /etc/apparmor.d/cell`, or run Cell as root");
	} else if (jail_has_line("/proc/self/status", "Seccomp:\t2") &&
		   (e == EPERM || e == ENOSYS || e == EACCES)) {
		set(reason,
			is_in_container()
				? "the container around us forbids namespaces by its syscall filter"
				: "we run under a syscall filter that forbids namespaces");
		set(fix, "start the container with --security-opt seccomp=unconfined "
			 "--security-opt apparmor=unconfined --security-opt "
			 "systempaths=unconfined, or use Cell on the host");
	} else if ((e == EPERM || e == EINVAL) && is_in_chroot()) {
		set(reason, "we are in a chroot, where the kernel allows no user namespace");
		set(fix, "run Cell outside of it, or enter the tree by pivot_root: `bwrap --bind "
			 "DIR / --dev /dev --proc /proc cell ...`");
	} else if (e == EINVAL || e == ENOSYS) {
		set(reason, "the kernel has no user or pid namespaces");
		set(fix, "use a kernel with CONFIG_USER_NS=y and CONFIG_PID_NS=y");
	} else if (is_in_container() && (e == EPERM || e == EACCES)) {
		set(reason, "what is around us, a container or a chroot, forbids it");
		set(fix, "start the container with --security-opt seccomp=unconfined "
			 "--security-opt apparmor=unconfined --security-opt "
			 "systempaths=unconfined, or use Cell on the host");
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
			set(fix, "something outside of Cell forbids it, perhaps SELinux: look with "
				 "`dmesg | tail`, or try as root");
		break;
	case LAUNCHER_STEP_PROC:
		if (e == EPERM) {
			set(reason, "parts of the /proc around us are covered, as in a container: "
				    "the kernel gives no cell one of its own then");
			set(fix, "start the container with --security-opt systempaths=unconfined");
		}
		break;
	case LAUNCHER_STEP_CGROUP:
		(void)snprintf(fix, 240, "%.180s; or use --limits best-effort",
			jail_fix_limits(geteuid() == 0, true));
		break;
	case LAUNCHER_STEP_WORKSPACE:
	case LAUNCHER_STEP_MOUNT:
		if (e == EINVAL)
			set(fix, "its file system cannot be idmapped (an overlay, NFS, an old "
				 "FUSE): use one "
				 "on ext4, xfs, btrfs or tmpfs, or run Cell as the directory's "
				 "owner");
		else if (e == EXDEV)
			set(fix, "`findmnt` shows it (an overlay, NFS, an old FUSE; before Linux "
				 "5.12 "
				 "also what another mount hides): unmount it, or name a directory "
				 "without it");
		else if (e == EROFS || e == EACCES || e == ENOENT)
			set(fix, "choose a target below a directory that the image does not have, "
				 "such as /data");
		break;
	case LAUNCHER_STEP_CPUS:
		if (e == EAGAIN)
			set(fix, "destroy a cell with CPUs of its own, ask for fewer (--cpus), or "
				 "use --resources burstable");
		break;
	case LAUNCHER_STEP_RESERVE:
		if (e == ENOMEM)
			set(fix, "most of the machine's memory is reserved already: ask for less "
				 "(--memory), or destroy a cell that has some");
		break;
	case LAUNCHER_STEP_DISK:
		if (e == ENOENT || e == EACCES || e == EPERM || e == ENXIO)
			set(fix, "loop devices are needed: as root `modprobe loop`, in a container "
				 "give it /dev/loop-control and /dev/loop*; or use --scratch "
				 "memory");
		else if (e == ENODEV)
			set(fix,
				"the kernel has no ext4: `modprobe ext4`, or use --scratch memory");
		break;
	case LAUNCHER_STEP_OWNER:
		set(fix, "give it to an ordinary user (chown), mount it read-only, or leave it "
			 "out: root's files can be given to a cell from Linux 5.12 on");
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
	case LAUNCHER_STEP_FREEZE:
		if (e == ENOENT)
			set(fix, "without root a cell's cgroup is below that of the session or "
				 "service that made the cell: ask from there");
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
	case LAUNCHER_STEP_CPUS:
		return r->sys_errno == EAGAIN ? CELL_ELIMIT : CELL_EBACKEND;
	case LAUNCHER_STEP_CGROUP:
	case LAUNCHER_STEP_OWNER:
	case LAUNCHER_STEP_WORKSPACE:
	case LAUNCHER_STEP_MOUNT:
		return r->sys_errno == EINVAL || r->sys_errno == EOPNOTSUPP || r->sys_errno == EXDEV
			       ? CELL_ENOTSUP
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
