/* SPDX-License-Identifier: Apache-2.0 */
/* parked.c: cells that were made before anybody asked for them. They must be like those made when asked for, to
 * the letter, and must not outlive their launcher. */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "escape.h"

#define TRIES	  30
#define PAUSE_MS  100
#define LOOK_SIZE 65536

/* Everything that tells one place from another; what must differ (numbers of mounts and devices) left out.
 * The first line is when its first process was started, in ticks. */
static const char look_around[] =
	"cut -d' ' -f22 /proc/1/stat; cd /;"
	"grep -E '^(Cap|NoNew|Seccomp|Groups|Uid|Gid)' /proc/self/status /proc/1/status;"
	"cat /proc/self/limits /proc/1/limits /proc/self/cgroup /proc/1/cgroup;"
	"cat /proc/self/oom_score_adj /proc/1/oom_score_adj /proc/sys/user/max_user_namespaces;"
	"sed 's/^[0-9]* [0-9]* [0-9:]* //; s/[ug]id=[0-9]*//g' /proc/self/mountinfo | sort;"
	"ls -a /proc/self/fd; env | sort; id; uname -n; cut -d: -f1 /proc/net/dev;"
	"stat -c '%A %u %g %n' /* /dev/* /workspace /tmp /home/* /proc/sys;"
	"df -B1 --output=size,target / /tmp /dev/shm";

static void pause_ms(long ms)
{
	const struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

	(void)nanosleep(&t, NULL);
}

/* How long it had been there when it was asked for, in ms; its looks go to ret. -1: none was had. */
static long one(const char *workspace, const struct cell_limits *limits, char *ret)
{
	struct timespec asked;
	struct cell_result r = {0};
	long age = -1;

	(void)clock_gettime(CLOCK_BOOTTIME, &asked);
	struct cell *c = escape_open(workspace, limits);
	if (c &&
		cell_run(c, &(struct cell_exec_opts){.shell = look_around}, NULL, 0, &r, NULL) ==
			0 &&
		r.exit.exit_code == 0 && r.out) {
		char *rest = NULL;
		long started = strtol(r.out, &rest, 10) * 1000 / sysconf(_SC_CLK_TCK);

		age = asked.tv_sec * 1000 + asked.tv_nsec / 1000000 - started;
		(void)snprintf(ret, LOOK_SIZE, "%s", rest);
		if (age < 0)
			age = 0;
	}
	cell_result_done(&r);
	(void)cell_close(c, NULL);
	return age;
}

static void show_difference(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	printf("# when asked: %.80s\n# ahead: %.80s\n", a, b);
}

/* Where mounts are made by the old calls no cell is made ahead. */
static const char *why_none(void)
{
	if (syscall(SYS_open_tree, -1, "x", 0) < 0 && (errno == ENOSYS || errno == EPERM))
		return "none is made ahead without the new mount calls";
	return NULL;
}

static void compare(const char *mode, const char *name, const char *workspace,
	const struct cell_limits *limits)
{
	static char fresh[LOOK_SIZE], ahead[LOOK_SIZE], now[LOOK_SIZE];

	fresh[0] = ahead[0] = '\0';
	for (int i = 0; i < TRIES && !why_none() && !(*fresh && *ahead); i++) {
		long age = one(workspace, limits, now);

		if (age >= 0 && age <= 10 && !*fresh)
			memcpy(fresh, now, sizeof now);
		else if (age >= PAUSE_MS / 2 && !*ahead)
			memcpy(ahead, now, sizeof now);
		pause_ms(PAUSE_MS);
	}
	bool is_same = *fresh && *ahead && !strcmp(fresh, ahead);
	if (*fresh && *ahead && !is_same)
		show_difference(fresh, ahead);
	escape_result(is_same || why_none(), mode, name, why_none(), "%s, %s",
		*fresh ? "one was made when asked for" : "none was made when asked for",
		*ahead ? "one ahead" : "none ahead");
}

static size_t children_of(pid_t pid, pid_t *ret, size_t max)
{
	char path[64], line[256];
	DIR *d = opendir("/proc");
	size_t n = 0;

	for (struct dirent *e; d && (e = readdir(d));) {
		int parent = 0, child = (int)strtol(e->d_name, NULL, 10);

		(void)snprintf(path, sizeof path, "/proc/%d/stat", child);
		FILE *f = child > 0 ? fopen(path, "re") : NULL;
		if (f && fgets(line, sizeof line, f) &&
			sscanf(line, "%*d (%*[^)]) %*c %d", &parent) == 1 && parent == pid &&
			n < max)
			ret[n++] = child;
		if (f)
			(void)fclose(f);
	}
	if (d)
		closedir(d);
	return n;
}

/* And wait until it is dead: who asks it in its last moment is told so, which is not what is tested here. */
static void end_launcher(pid_t pid)
{
	char path[64], line[256];

	(void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	(void)kill(pid, SIGKILL);
	for (int i = 0; i < 1000; i++) {
		FILE *f = fopen(path, "re");
		bool is_dead = !f || !fgets(line, sizeof line, f) || !strrchr(line, ')') ||
			       strchr("ZX", strrchr(line, ')')[2]);
		if (f)
			(void)fclose(f);
		if (is_dead)
			return;
		pause_ms(10);
	}
}

/* With no cell open, the launcher's only children are those that wait. */
static void kill_launcher(const char *mode, const char *workspace)
{
	pid_t launcher = 0, waiting[8];
	size_t n = 0, n_gone = 0;

	for (int i = 0; i < TRIES && !n && !why_none(); i++) {
		(void)cell_close(escape_open(workspace, NULL), NULL);
		pause_ms(PAUSE_MS);
		launcher = escape_launcher_of(getpid());
		n = launcher > 0 ? children_of(launcher, waiting, 8) : 0;
	}
	struct pollfd p[8];
	for (size_t i = 0; i < n; i++)
		p[i] = (struct pollfd){
			.fd = (int)syscall(SYS_pidfd_open, waiting[i], 0), .events = POLLIN};
	if (n)
		end_launcher(launcher);
	for (size_t i = 0; i < n; i++) {
		n_gone += p[i].fd >= 0 && poll(&p[i], 1, 10000) == 1;
		if (p[i].fd >= 0)
			close(p[i].fd);
	}
	escape_result((n > 0 && n_gone == n) || why_none(), mode,
		"cells made ahead die with their launcher", why_none(), "%zu of %zu are gone",
		n_gone, n);
	struct cell *c = escape_open(workspace, NULL);
	escape_result(c != NULL, mode, "and the next launcher makes cells", NULL, "it does not");
	(void)cell_close(c, NULL);
}

/* What it has run so far, in ticks of processor time and changes of state. */
static unsigned long activity(pid_t pid)
{
	char path[64], line[1024];
	unsigned long user = 0, kernel = 0, n = 0;

	(void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	FILE *f = fopen(path, "re");
	if (f && fgets(line, sizeof line, f) && strrchr(line, ')'))
		(void)sscanf(strrchr(line, ')'),
			") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &kernel);
	if (f)
		(void)fclose(f);
	(void)snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof line, f))
		if (strstr(line, "ctxt_switches:"))
			n += strtoul(strchr(line, ':') + 1, NULL, 10);
	if (f)
		(void)fclose(f);
	return user + kernel + n;
}

/* Cells cannot be made any more, and are asked for again and again: the launcher must not go on by itself. */
static void give_up_on_failures(const char *mode)
{
	/* enough for the launcher itself, too few for a first process to put its own aside */
	const struct rlimit few = {66, 66};
	const struct cell_spec spec = {.backend = "jail"};
	struct cell_error err = {0};
	struct cell *c = escape_open(NULL, NULL);
	int n_refused = 0;
	bool is_quiet = false;

	(void)cell_close(c, NULL);
	pid_t launcher = escape_launcher_of(getpid());
	bool is_limited = launcher > 0 && prlimit(launcher, RLIMIT_NOFILE, &few, NULL) == 0;
	for (int i = 0; i < TRIES && n_refused < 4; i++) { /* some may have been made before */
		c = NULL;
		n_refused += cell_open(&spec, &c, &err) < 0;
		(void)cell_close(c, NULL);
	}
	for (int i = 0; i < 100 && !is_quiet; i++) {
		unsigned long before = activity(launcher);

		pause_ms(PAUSE_MS);
		is_quiet = before && before == activity(launcher);
	}
	escape_result(is_limited && n_refused == 4 && is_quiet, mode,
		"what cannot be made is not made ahead again and again", NULL,
		"%d of 4 were refused (%s), the launcher %s", n_refused, err.msg,
		is_quiet ? "waits" : "does not come to rest");
	if (launcher > 0)
		end_launcher(launcher);
}

void escape_parked(const char *mode, const char *workspace)
{
	struct cell_backend_info info = {0};
	struct cell_limits limits = {.files = 100, .file_size_bytes = 1 << 20};

	/* one that has seen no request yet: its first cells are made when asked for */
	pid_t launcher = escape_launcher_of(getpid());
	if (launcher > 0)
		end_launcher(launcher);
	(void)cell_backend_probe("jail", &info, NULL);
	if (info.caps & CELL_CAP_BIT(CELL_CAP_LIMIT_MEMORY))
		limits.memory_bytes = 64 << 20;
	if (info.caps & CELL_CAP_BIT(CELL_CAP_LIMIT_PIDS))
		limits.pids = 50;
	compare(mode, "a cell made ahead is like any other", workspace, NULL);
	compare(mode, "with limits too", workspace, &limits);
	compare(mode, "and with a private workspace", NULL, NULL);
	give_up_on_failures(mode);
	kill_launcher(mode, workspace);
}
