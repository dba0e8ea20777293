/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/oci/oci.h"
#include "base/cleanup.h"
#include "base/closefds.h"
#include "base/error.h"

#define ARGS_MAX 32
#define PATHS	 "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- which ---- */

static char *find_program(const char *name)
{
	const char *given = getenv("PATH");
	const char *paths[] = {given ? given : "", PATHS};
	char path[512];

	if (strchr(name, '/'))
		return access(name, X_OK) == 0 ? realpath(name, NULL) : NULL;
	for (size_t i = 0; i < 2; i++) {
		for (const char *p = paths[i]; *p; p += *p == ':') {
			size_t n = strcspn(p, ":");
			(void)snprintf(path, sizeof path, "%.*s/%s", (int)n, p, name);
			if (n && access(path, X_OK) == 0)
				return strdup(path);
			p += n;
		}
	}
	return NULL;
}

enum oci_kind oci_runtime_kind(const char *program)
{
	const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;

	return strstr(name, "runsc") ? OCI_RUNSC : strstr(name, "crun") ? OCI_CRUN : OCI_RUNC;
}

int oci_runtime_find(const char *name, struct oci_runtime *ret, struct cell_error *err)
{
	static const char *const known[] = {"runc", "crun", "runsc"};

	if (!name)
		name = getenv("CELL_OCI_RUNTIME");
	if (name && !strcmp(name, "gvisor"))
		name = "runsc"; /* what its program is called */
	char *found = name ? find_program(name) : NULL;
	for (size_t i = 0; !name && !found && i < sizeof known / sizeof *known; i++)
		found = find_program(known[i]);
	if (!found) {
		int r = cell_fail(err, CELL_ENOTSUP, ENOENT, "no OCI runtime '%s'",
			name ? name : "runc, crun or runsc");
		return cell_error_hint(err, r,
			"install it (apt-get install runc), or give its path");
	}
	ret->program = found;
	ret->kind = oci_runtime_kind(found);
	return 0;
}

/* ---- running it ---- */

struct command {
	const char *argv[ARGS_MAX];
	char log[4200], state[4200];
	char keyring[32]; /* how the description of one of ours begins */
};

static void compose(const struct oci_call *call, struct command *ret)
{
	enum oci_kind kind = oci_runtime_kind(call->program);
	size_t n = 0;

	(void)snprintf(ret->log, sizeof ret->log, "%s/oci.log", call->directory);
	(void)snprintf(ret->state, sizeof ret->state, "%s/" OCI_STATE, call->directory);
	(void)snprintf(ret->keyring, sizeof ret->keyring, "keyring;%u;", (unsigned)geteuid());
	const char *const common[] = {
		call->program, "--log", ret->log, "--log-format", "json", "--root", ret->state};
	for (size_t i = 0; i < sizeof common / sizeof *common; i++)
		ret->argv[n++] = common[i];
	if (kind == OCI_CRUN && !call->has_cgroups)
		ret->argv[n++] = "--cgroup-manager=disabled";
	if (kind == OCI_RUNSC) {
		ret->argv[n++] = "--network=none";
		if (!call->has_cgroups)
			ret->argv[n++] = "--ignore-cgroups";
		if (geteuid() != 0)
			ret->argv[n++] = "--rootless";
	}
	for (size_t i = 0; call->args[i] && n + 1 < ARGS_MAX; i++)
		ret->argv[n++] = call->args[i];
	ret->argv[n] = NULL;
}

/* Fds as the runtime is to have them: 0 to 2, and 3 where one is passed. `keep` is moved out of their way. */
static int arrange_fds(const struct oci_call *call, int *keep)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int in = call->stdin_fd >= 0 ? call->stdin_fd : null;
	int out = call->stdout_fd >= 0 ? call->stdout_fd : null;

	*keep = fcntl(*keep, F_DUPFD_CLOEXEC, 10);
	/* as high: none may be overwritten before it is copied */
	in = fcntl(in, F_DUPFD_CLOEXEC, 10);
	out = fcntl(out, F_DUPFD_CLOEXEC, 10);
	int errors = fcntl(call->stderr_fd >= 0 ? call->stderr_fd : null, F_DUPFD_CLOEXEC, 10);
	int pass = call->pass_fd >= 0 ? fcntl(call->pass_fd, F_DUPFD_CLOEXEC, 10) : -1;
	if (null < 0 || *keep < 0 || in < 0 || out < 0 || errors < 0 ||
		(call->pass_fd >= 0 && pass < 0) || dup2(in, 0) < 0 || dup2(out, 1) < 0 ||
		dup2(errors, 2) < 0 || (pass >= 0 && dup2(pass, 3) < 0))
		return -errno;
	return 0;
}

/* An ordinary user may have few keyrings (kernel.keys.maxkeys, 200), one for each container would be that many containers, and those of the dead are counted
 * for seconds. So all have one, which is not the caller's own; no filter of a cell's lets it use any. It is found by its name, by who has the right to search: also
 * when it is somebody else's, who gave that right to all. Then a new one is taken. */
static bool share_keys(const char *ours)
{
	const unsigned rights = 0x3f1b0000; /* what a new one has, and for its user to search */
	char is[128] = "";

	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, "cell") < 0)
		return false;
	(void)syscall(SYS_keyctl, KEYCTL_SETPERM, KEY_SPEC_SESSION_KEYRING, rights);
	/* "keyring;uid;gid;rights;name" */
	long size =
		syscall(SYS_keyctl, KEYCTL_DESCRIBE, KEY_SPEC_SESSION_KEYRING, is, sizeof is - 1);
	bool is_ours = size > 0 && (size_t)size < sizeof is && !strncmp(is, ours, strlen(ours)) &&
		       strstr(is, ";3f1b0000;");
	return is_ours || syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) >= 0;
}

static void drop_word(const char **argv, const char *word)
{
	while (*argv && strcmp(*argv, word) != 0)
		argv++;
	for (; *argv; argv++)
		argv[0] = argv[1];
}

/* Only what may be called between fork and exec. */
__attribute__((noreturn)) static void become(const struct oci_call *call, struct command *cmd,
	int report_fd, pid_t parent)
{
	static const char *const env[] = {"PATH=" PATHS, NULL};
	int r = arrange_fds(call, &report_fd);

	/* before the user namespace, which has no names of others */
	if (call->shares_keys && !share_keys(cmd->keyring))
		drop_word(cmd->argv, OCI_NO_KEYRING);
	if (r == 0 && call->ids && call->ids->is_rootless)
		r = oci_ids_enter(call->ids, report_fd);
	if (r == 0 && call->enter)
		r = call->enter(call->user);
	/* a runtime without us makes what nobody knows of; after the ids, whose change would undo it */
	if (r == 0 && parent && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
		r = -ECANCELED;
	if (r == 0) {
		execve(call->program, (char *const *)(uintptr_t)cmd->argv,
			(char *const *)(uintptr_t)env);
		r = -errno;
	}
	(void)!write(report_fd, &r, sizeof r);
	_exit(127);
}

/* The last line of the log: JSON with "msg" by runc, plain text by crun. */
static void last_words(const char *path, char *said, size_t size)
{
	auto_file FILE *f = fopen(path, "re");
	char line[2048], last[2048] = "";

	while (f && fgets(line, sizeof line, f))
		if (strcspn(line, "\n") > 0)
			(void)snprintf(last, sizeof last, "%.*s", (int)strcspn(line, "\n"), line);
	json_t *j = json_loads(last, 0, NULL);
	const char *msg = json_string_value(json_object_get(j, "msg"));
	(void)snprintf(said, size, "%s", msg ? msg : last);
	json_decref(j);
}

static int early_failure(const struct oci_call *call, int e, struct cell_error *err)
{
	int r = cell_fail_errno(err, e, "prepare the container for '%s'", call->program);

	if (call->ids && call->ids->is_rootless && (e == EPERM || e == EACCES))
		return cell_error_hint(err, r,
			"a security module may keep ordinary users from mounts in a user "
			"namespace (AppArmor: kernel.apparmor_restrict_unprivileged_userns); run "
			"as root");
	if (e == EOVERFLOW)
		return cell_error_hint(err, r,
			"files of this root belong to somebody who does not exist in your user "
			"namespace: import it as yourself (cell image import), or run as root");
	if (call->ids && call->ids->is_rootless && (e == ENODEV || e == EINVAL))
		return cell_error_hint(err, r,
			"overlays in a user namespace need Linux 5.11; run as root");
	return r;
}

/* Until exec: ids that only a program with privileges can map are asked for by a byte; a number is an errno. */
static int attend(const struct oci_call *call, int fd, pid_t pid, struct cell_error *err)
{
	int early = 0;
	ssize_t n;

	for (;;) {
		do
			n = recv(fd, &early, sizeof early, 0);
		while (n < 0 && errno == EINTR);
		if (n != 1)
			break;
		int r = oci_ids_map(call->ids, pid, err);
		if (r < 0)
			return r; /* what it waits for will not come */
		(void)send(fd, "m", 1, MSG_NOSIGNAL);
	}
	return n == (ssize_t)sizeof early ? early_failure(call, -early, err) : 0;
}

struct oci_call oci_runtime_order(struct cell *c, const char *program, const char *const *args)
{
	return (struct oci_call){.program = program,
		.directory = cell_directory(c),
		.args = args,
		.stdin_fd = -1,
		.stdout_fd = -1,
		.stderr_fd = -1,
		.pass_fd = -1,
		.has_cgroups = geteuid() == 0};
}

int oci_runtime_begin(const struct oci_call *call, struct oci_running *ret, struct cell_error *err)
{
	struct command cmd;
	int pair[2];
	pid_t us = getpid();

	*ret = (struct oci_running){.call = call, .pidfd = -1};
	compose(call, &cmd);
	(void)unlink(cmd.log);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cell_fail_errno(err, errno, "run '%s'", call->program);
	ret->pid = fork();
	if (ret->pid == 0)
		become(call, &cmd, pair[1], us);
	close(pair[1]);
	int r = ret->pid < 0 ? cell_fail_errno(err, errno, "run '%s'", call->program)
			     : attend(call, pair[0], ret->pid, err);
	close(pair[0]);
	if (r < 0) {
		while (ret->pid > 0 && waitpid(ret->pid, NULL, 0) < 0 && errno == EINTR)
			;
		ret->pid = 0;
		return r;
	}
	ret->pidfd = (int)syscall(SYS_pidfd_open, ret->pid, 0);
	return 0;
}

int oci_runtime_end(struct oci_running *x, char *said, size_t size, struct cell_error *err)
{
	const struct oci_call *call = x->call;
	struct command cmd;
	int status = 0, r;

	said[0] = '\0';
	while (x->pid > 0 && waitpid(x->pid, &status, 0) < 0 && errno == EINTR)
		;
	x->pid = 0;
	cell_closep(&x->pidfd);
	if (status == 0)
		return 0;
	compose(call, &cmd);
	last_words(cmd.log, said, size);
	if (WIFSIGNALED(status))
		return cell_fail(err, CELL_EBACKEND, 0, "'%s %s' was killed by signal %d",
			call->program, call->args[0], WTERMSIG(status));
	r = cell_fail(err, CELL_EBACKEND, 0, "'%s %s': %s", call->program, call->args[0],
		*said ? said : "failed and said nothing");
	return cell_error_known(err, r, said, bundle_words);
}

int oci_runtime_call(const struct oci_call *call, char *said, size_t size, struct cell_error *err)
{
	struct oci_running x;
	int r = oci_runtime_begin(call, &x, err);

	said[0] = '\0';
	return r < 0 ? r : oci_runtime_end(&x, said, size, err);
}

int oci_runtime_stream(const struct oci_call *call, struct cell_error *err)
{
	struct command cmd;
	struct oci_call mine = *call;
	int pair[2], sync[2], status = 0;

	mine.ids = NULL; /* who has made the namespace may talk to who is in it */
	compose(call, &cmd);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return cell_fail_errno(err, errno, "run '%s'", call->program);
	auto_fd int ours = pair[0];
	auto_fd int theirs = pair[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sync) < 0)
		return cell_fail_errno(err, errno, "run '%s'", call->program);
	mine.stdin_fd = mine.stdout_fd = theirs;
	/* its parent is init: the stream may outlive whoever asked for it in this process */
	pid_t pid = fork();
	if (pid == 0) {
		pid_t inner = fork();
		if (inner == 0)
			become(&mine, &cmd, sync[1], 0);
		_exit(inner < 0 ? 1 : 0);
	}
	close(sync[1]);
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	int r = pid < 0 || status ? cell_fail_errno(err, errno, "run '%s'", call->program)
				  : attend(&mine, sync[0], 0, err);
	close(sync[0]);
	return r < 0 ? r : steal_fd(ours);
}
