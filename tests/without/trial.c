/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trial.c: one jail for each call that may be missing, and for all of them, answered with ENOSYS and with
 * EPERM, as root and as an ordinary user. The launcher must have noticed what is missing, and only that;
 * and the cell's mounts must be those of a cell that lacked nothing, flag for flag, with mounts of the
 * host below one of them. `trial WITHOUT-SYSCALLS`; needs root.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/cell.h"

#include "../scene.h"
#include "backends/jail/client.h"

#define NOBODY	  65534
#define LINES_MAX 128
#define ALL_BITS                                                              \
	(LAUNCHER_CAN_NEW_MOUNTS | LAUNCHER_CAN_IDMAP | LAUNCHER_CAN_CLONE3 | \
		LAUNCHER_CAN_CLONE_INTO | LAUNCHER_CAN_OPENAT2 | LAUNCHER_CAN_CLOSE_RANGE)
#define MOUNT_BITS (LAUNCHER_CAN_NEW_MOUNTS | LAUNCHER_CAN_IDMAP)
#define CLONE_BITS (LAUNCHER_CAN_CLONE3 | LAUNCHER_CAN_CLONE_INTO)

static const struct trial {
	const char *calls; /* without-syscalls knows the words `mounts` and `new` */
	uint32_t bits;	   /* what the launcher then must not have */
} trials[] = {
	{"open_tree", MOUNT_BITS},
	{"move_mount", MOUNT_BITS},
	{"fsopen", MOUNT_BITS},
	{"mount_setattr", MOUNT_BITS},
	{"mounts", MOUNT_BITS},
	{"clone3", CLONE_BITS},
	{"openat2", LAUNCHER_CAN_OPENAT2},
	{"close_range", LAUNCHER_CAN_CLOSE_RANGE},
	{"new", ALL_BITS},
};
#define N_TRIALS (sizeof trials / sizeof *trials)

static char scratch[64], data[96], self[4096];
static struct scene_tap tap;

struct outcome {
	int rc;
	char *text; /* "bits XXXX", then a line for each mount */
};

__attribute__((format(printf, 3, 4))) static void result(bool is_ok, const char *name,
	const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	scene_vresult(&tap, is_ok, name, NULL, fmt, ap);
	va_end(ap);
}

/* ---- in the process that lacks something ---- */

static int one_cell(const char *source)
{
	struct cell_mount mount = {.source = source, .target = "/data", .is_read_only = true};
	struct cell_spec spec = {
		.backend = "jail", .mounts = &mount, .n_mounts = 1, .timeout_ms = 20000};
	const char *argv[] = {"sh", "-c",
		"cat /proc/self/mountinfo; [ -e /data/below/deeper/mark ] || exit 8\n"
		"for d in /data /data/below /data/below/deeper '/data/below/deeper and so on' "
		"/data/stacked; do\n"
		"if touch \"$d/mark\" 2>&1; then echo \"written: $d\"; exit 9; fi; done",
		NULL};
	struct cell_exec_opts opts = {.argv = argv};
	struct launcher_reply hello;
	struct cell_result r = {0};
	struct cell_error err = {0};
	struct cell *c = NULL;

	if (jail_client_hello(&hello, &err) < 0 || cell_open(&spec, &c, &err) < 0 ||
		cell_run(c, &opts, NULL, 0, &r, &err) < 0) {
		printf("%s (%s)\n", err.msg, err.hint);
		return 1;
	}
	printf("bits %x\n%s%s", hello.can & ALL_BITS, r.out, r.err);
	int rc = r.exit.exit_code;
	cell_result_done(&r);
	(void)fflush(stdout);
	return cell_close(c, &err) < 0 ? 1 : rc;
}

/* ---- outside ---- */

/* A tree with mounts below it: one in another, a name with a space, one that hides another. */
static void make_data(void)
{
	static const char *const places[] = {
		"below", "below/deeper", "below/deeper and so on", "stacked", "stacked", NULL};
	char path[200];

	(void)snprintf(data, sizeof data, "%s/data", scratch);
	if (mkdir(data, 0755) < 0)
		scene_die(data);
	for (int i = 0; places[i]; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", data, places[i]);
		if ((mkdir(path, 0755) < 0 && errno != EEXIST) ||
			mount("none", path, "tmpfs", 0, "uid=65534,gid=65534") < 0)
			scene_die(path);
	}
	(void)snprintf(path, sizeof path, "%s/below/deeper/mark", data);
	if (mknod(path, S_IFREG | 0644, 0) < 0 || chown(data, NOBODY, NOBODY) < 0)
		scene_die(path);
}

static void remove_data(void)
{
	static const char *const places[] = {"stacked", "stacked", "below"};
	char path[200];

	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", data, places[i]);
		if (umount2(path, MNT_DETACH) < 0)
			scene_die(path);
	}
}

static char *read_all(int fd)
{
	size_t n = 0, size = 65536;
	char *text = calloc(1, size);

	if (!text)
		scene_die("calloc");
	for (ssize_t r; n + 1 < size && (r = read(fd, text + n, size - n - 1)) > 0;)
		n += (size_t)r;
	return text;
}

static struct outcome run(const char *without, const char *calls, bool is_eperm, bool is_user)
{
	const char *argv[8];
	char *const *args = (char *const *)(uintptr_t)argv; /* exec changes nothing in them */
	size_t n = 0;
	int pipes[2];

	if (calls) {
		argv[n++] = without;
		if (is_eperm)
			argv[n++] = "--eperm";
		argv[n++] = calls;
		argv[n++] = "--";
	}
	argv[n++] = self;
	argv[n++] = "--cell";
	argv[n++] = data;
	argv[n] = NULL;
	if (pipe2(pipes, O_CLOEXEC) < 0)
		scene_die("pipe");
	(void)fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		char state[128];

		(void)snprintf(state, sizeof state, "%s/state%d", scratch, is_user);
		(void)setenv("CELL_STATE_DIR", state, 1);
		if (dup2(pipes[1], 1) < 0 || dup2(pipes[1], 2) < 0)
			_exit(125);
		if (is_user && !scene_become(NOBODY))
			_exit(125);
		execv(args[0], args);
		_exit(125);
	}
	close(pipes[1]);
	struct outcome o = {.text = read_all(pipes[0])};
	close(pipes[0]);
	o.rc = scene_wait(pid);
	return o;
}

static uint32_t bits_of(const struct outcome *o)
{
	const char *word = strstr(o->text, "bits ");

	return word ? (uint32_t)strtoul(word + 5, NULL, 16) : 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* What may differ: numbers of mounts and devices, ids, and that a mount is idmapped. */
static void normalise(char *line)
{
	static const char *const ids[] = {"uid=", "gid="};
	char *rest = line, *word;

	for (int i = 0; i < 3 && rest; i++)
		rest = strchr(rest + (i > 0), ' ');
	if (rest)
		memmove(line, rest, strlen(rest) + 1);
	while ((word = strstr(line, ",idmapped")))
		memmove(word, word + 9, strlen(word + 9) + 1);
	for (size_t i = 0; i < 2; i++)
		for (word = line; (word = strstr(word, ids[i]));) {
			size_t n = strspn(word + 4, "0123456789");
			memmove(word + 4, word + 4 + n, strlen(word + 4 + n) + 1);
			word += 4;
		}
}

/* The mounts, sorted, as one text. */
static char *mounts_of(const struct outcome *o)
{
	char *lines[LINES_MAX], *copy = strdup(o->text), *ret = calloc(1, strlen(o->text) + 1);
	size_t n = 0, len = 0;

	if (!copy || !ret)
		scene_die("strdup");
	for (char *p = copy, *end; (end = strchr(p, '\n')) && n < LINES_MAX; p = end + 1) {
		*end = '\0';
		if (!strstr(p, " - ")) /* mountinfo's own */
			continue;
		normalise(p);
		/* the lower one needs no flags, as nobody reaches it; the upper one is written to */
		if (!strstr(p, " /data/stacked "))
			lines[n++] = p;
	}
	qsort(lines, n, sizeof *lines, by_text);
	for (size_t i = 0; i < n; i++)
		len += (size_t)snprintf(ret + len, strlen(o->text) + 1 - len, "%s\n", lines[i]);
	free(copy);
	return ret;
}

static void try_all(const char *without, bool is_user)
{
	struct outcome control = run(without, NULL, false, is_user);
	const char *who = is_user ? "user" : "root";
	char name[160], *wanted = mounts_of(&control);

	(void)snprintf(name, sizeof name, "%s: nothing missing", who);
	result(control.rc == 0 && strlen(wanted) > 100, name, "%d: %s", control.rc, control.text);
	for (size_t i = 0; i < 2 * N_TRIALS; i++) {
		const struct trial *t = &trials[i / 2];
		bool is_eperm = i % 2;
		struct outcome o = run(without, t->calls, is_eperm, is_user);
		char *mounts = mounts_of(&o);
		uint32_t bits = bits_of(&control) & ~t->bits;

		(void)snprintf(name, sizeof name, "%s: jail without %s (%s)", who, t->calls,
			is_eperm ? "EPERM" : "ENOSYS");
		result(o.rc == 0 && bits_of(&o) == bits && !strcmp(mounts, wanted), name,
			"exit %d, bits %x instead of %x, mounts %s: %s", o.rc, bits_of(&o), bits,
			strcmp(mounts, wanted) ? "differ" : "are the same", o.text);
		free(mounts);
		free(o.text);
	}
	free(wanted);
	free(control.text);
}

static void set_the_scene(void)
{
	char state[128];

	/* our mounts are nobody else's */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		scene_die("make a mount namespace");
	(void)snprintf(scratch, sizeof scratch, "/tmp/cell-without.XXXXXX");
	if (!mkdtemp(scratch) || chmod(scratch, 0755) < 0)
		scene_die("mkdtemp");
	for (int i = 0; i < 2; i++) {
		(void)snprintf(state, sizeof state, "%s/state%d", scratch, i);
		if (mkdir(state, 0700) < 0 || (i && chown(state, NOBODY, NOBODY) < 0))
			scene_die(state);
	}
	make_data();
}

int main(int argc, char **argv)
{
	struct cell_backend_info info;
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (argc == 3 && !strcmp(argv[1], "--cell"))
		return one_cell(argv[2]);
	if (argc != 2 || geteuid() != 0 || n <= 0) {
		printf("1..0 # SKIP %s\n", argc != 2 ? "no without-syscalls given" : "needs root");
		return 0;
	}
	if (cell_backend_probe("jail", &info, NULL) < 0 || !info.is_usable) {
		printf("1..0 # SKIP the jail does not hold here: %s\n", info.reason);
		return 0;
	}
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..%zu\n", 2 * (2 * N_TRIALS + 1));
	set_the_scene();
	try_all(argv[1], false);
	try_all(argv[1], true);
	remove_data();
	scene_remove(scratch);
	return tap.n_bad != 0;
}
