/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/oci/oci.h"
#include "base/cleanup.h"
#include "base/closefds.h"
#include "base/error.h"

#define ARGS_MAX 24

static char *find_program(const char *name)
{
	const char *given = getenv("PATH");
	const char *paths[] = {given ? given : "", "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin"};
	char path[512];

	if (strchr(name, '/'))
		return access(name, X_OK) == 0 ? strdup(name) : NULL;
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

int oci_runtime_find(const char *name, char **ret, struct cell_error *err)
{
	static const char *const known[] = {"runc", "crun"};
	char *found = name ? find_program(name) : NULL;

	for (size_t i = 0; !name && !found && i < sizeof known / sizeof *known; i++)
		found = find_program(known[i]);
	if (!found) {
		int r = cell_fail(err, CELL_ENOTSUP, ENOENT, "no OCI runtime '%s'",
			name ? name : "runc or crun");
		return cell_error_hint(err, r,
			"install it (apt-get install runc), or give its path");
	}
	*ret = found;
	return 0;
}

/* Only what may be called between fork and exec. */
static void become(const struct oci_call *call, const char *const *argv, int report_fd)
{
	static const char *const env[] = {
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", NULL};
	int null = open("/dev/null", O_RDWR);
	int r = null < 0 ? -errno : 0;

	if (r == 0 && (dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0))
		r = -errno;
	if (r == 0 && call->enter)
		r = call->enter(call->user);
	/* 3 may be the report's own: it moves out of the way first */
	int report = r == 0 ? fcntl(report_fd, F_DUPFD_CLOEXEC, 10) : report_fd;
	if (r == 0 && call->pass_fd >= 0 &&
		(call->pass_fd == 3 ? fcntl(3, F_SETFD, 0) : dup2(call->pass_fd, 3)) < 0)
		r = -errno;
	if (r == 0) {
		execve(call->program, (char *const *)(uintptr_t)argv,
			(char *const *)(uintptr_t)env);
		r = -errno;
	}
	(void)!write(report, &r, sizeof r);
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

int oci_runtime_call(const struct oci_call *call, char *said, size_t size, struct cell_error *err)
{
	char log[4200], state[4200];
	const char *argv[ARGS_MAX] = {
		call->program, "--log", log, "--log-format", "json", "--root", state};
	size_t n = 7;
	int report[2], status = 0, early = 0;
	pid_t pid;

	said[0] = '\0';
	(void)snprintf(log, sizeof log, "%s/oci.log", call->directory);
	(void)snprintf(state, sizeof state, "%s/oci", call->directory);
	for (size_t i = 0; call->args[i] && n + 1 < ARGS_MAX; i++)
		argv[n++] = call->args[i];
	(void)unlink(log);
	if (pipe2(report, O_CLOEXEC) < 0)
		return cell_fail_errno(err, errno, "run '%s'", call->program);
	pid = fork();
	if (pid == 0)
		become(call, argv, report[1]);
	close(report[1]);
	if (pid < 0) {
		close(report[0]);
		return cell_fail_errno(err, errno, "run '%s'", call->program);
	}
	if (read(report[0], &early, sizeof early) != (ssize_t)sizeof early)
		early = 0;
	close(report[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (early < 0)
		return cell_fail_errno(err, -early, "prepare the container for '%s'",
			call->program);
	if (status == 0)
		return 0;
	last_words(log, said, size);
	return cell_fail(err, CELL_EBACKEND, 0, "'%s %s': %s", call->program, call->args[0],
		*said ? said : "failed and said nothing");
}
