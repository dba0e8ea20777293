/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.c: other programs that make a place, run `true` in it and remove it, and `cell run` as such a
 * program. bubblewrap is given every wall it has that a jail has too: all namespaces, the same read-only
 * programs, private directories, covered files of /proc, no capabilities, no nested user namespaces, the very
 * same system call filter. It has no cgroup, keyring, Landlock and rlimits to set.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "bench.h"

static char filter_path[128], bundle[128], runc_state[128], crun_state[128], cell_path[4300];

static void keep_last_line(int fd, char why[200])
{
	char text[4096];
	ssize_t n = read(fd, text, sizeof text - 1);

	while (n > 0 && text[n - 1] == '\n')
		n--;
	text[n > 0 ? n : 0] = '\0';
	const char *line = strrchr(text, '\n');
	(void)snprintf(why, 200, "%s", line ? line + 1 : text);
}

double bench_spawn(const char *const *argv, int pass_fd, char *why)
{
	int said[2] = {-1, -1}, status = 0;

	if (why && pipe2(said, O_CLOEXEC) < 0)
		bench_die("no pipe");
	uint64_t start = bench_now_ns();
	pid_t pid = vfork();
	if (pid == 0) {
		if (pass_fd >= 0)
			(void)dup2(pass_fd, 9);
		if (why) {
			(void)dup2(said[1], 1);
			(void)dup2(said[1], 2);
		}
		execvp(argv[0], (char *const *)(uintptr_t)argv);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bench_die("cannot start %s", argv[0]);
	double took = (double)(bench_now_ns() - start) / 1e6;
	if (why) {
		close(said[1]);
		keep_last_line(said[0], why);
		if (status && !*why)
			(void)snprintf(why, 200, "exit %d",
				WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
		close(said[0]);
	}
	return status == 0 ? took : -1;
}

static bool is_in_path(const char *name)
{
	char path[4096];
	const char *p = getenv("PATH");

	for (; p && *p; p += strcspn(p, ":"), p += *p == ':') {
		(void)snprintf(path, sizeof path, "%.*s/%s", (int)strcspn(p, ":"), p, name);
		if (access(path, X_OK) == 0)
			return true;
	}
	bench_note("%s: skipped, it is not installed", name);
	return false;
}

/* ---- cell run ---- */

static bool prepare_cell(struct bench *b)
{
	(void)snprintf(cell_path, sizeof cell_path, "%s/../cell", b->programs);
	return access(cell_path, X_OK) == 0;
}

static double run_cell(char *why)
{
	const char *const argv[] = {cell_path, "run", "--backend", "jail", "--", BENCH_TRUE, NULL};

	return bench_spawn(argv, -1, why);
}

/* ---- bubblewrap ---- */

static bool prepare_bwrap(struct bench *b)
{
	char floor[4200];

	(void)snprintf(filter_path, sizeof filter_path, "%s/filter", b->scratch);
	auto_fd int fd = open(filter_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	const char *const argv[] = {bench_program(b, "floor-jail", floor), "--filter", "9", NULL};
	return is_in_path("bwrap") && fd >= 0 && bench_spawn(argv, fd, NULL) > 0;
}

#define BWRAP                                                                                      \
	"bwrap", "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--uid", \
		"1000", "--gid", "1000", "--hostname", "cell", "--ro-bind", "/usr", "/usr",        \
		"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink",       \
		"usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",      \
		"--tmpfs", "/home/cell", "--dir", "/workspace", "--chdir", "/workspace",           \
		"--cap-drop", "ALL"

static double run_bwrap(char *why)
{
	static const char *const files[] = {"interrupts", "softirqs", "diskstats", "kallsyms",
		"cmdline", "keys", "key-users", "locks", NULL};
	static const char *const directories[] = {"acpi", "bus", "driver", "fs", "irq", NULL};
	static const char *const always[] = {BWRAP, "--disable-userns", "--ro-bind",
		"/etc/alternatives", "/etc/alternatives", "--ro-bind", "/etc/ssl/certs",
		"/etc/ssl/certs", "--tmpfs", "/workspace", "--seccomp", "9"};
	static char paths[16][32];
	static const char *argv[160];
	size_t n = 0, n_paths = 0;

	if (!argv[0]) {
		for (; n < sizeof always / sizeof *always; n++)
			argv[n] = always[n];
		for (int i = 0; i < 2; i++)
			for (const char *const *name = i ? directories : files; *name; name++) {
				char *path = paths[n_paths++];
				(void)snprintf(path, sizeof paths[0], "/proc/%s", *name);
				if (access(path, F_OK) < 0)
					continue;
				argv[n++] = i ? "--tmpfs" : "--ro-bind";
				if (!i)
					argv[n++] = "/dev/null";
				argv[n++] = path;
			}
		argv[n++] = "--remount-ro";
		argv[n++] = "/";
		argv[n] = BENCH_TRUE;
	}
	auto_fd int fd = open(filter_path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -1 : bench_spawn(argv, fd, why);
}

static bool prepare_plain_bwrap(struct bench *b)
{
	(void)b;
	return is_in_path("bwrap");
}

static double run_plain_bwrap(char *why)
{
	static const char *const argv[] = {BWRAP, BENCH_TRUE, NULL};

	return bench_spawn(argv, -1, why);
}

/* ---- OCI runtimes ---- */

/* What `runc spec` gives, with the host's programs as the root and nothing to talk to. */
static const char config[] =
	"{\"ociVersion\":\"1.0.2\",\"process\":{\"terminal\":false,\"user\":{\"uid\":1000,\"gid\":"
	"1000},"
	"\"args\":[\"" BENCH_TRUE "\"],\"env\":[\"PATH=/usr/bin\"],\"cwd\":\"/\","
	"\"capabilities\":{\"bounding\":[],\"effective\":[],\"permitted\":[],\"ambient\":[]},"
	"\"noNewPrivileges\":true},\"root\":{\"path\":\"rootfs\",\"readonly\":true},"
	"\"hostname\":\"cell\",\"mounts\":["
	"{\"destination\":\"/proc\",\"type\":\"proc\",\"source\":\"proc\"},"
	"{\"destination\":\"/dev\",\"type\":\"tmpfs\",\"source\":\"tmpfs\",\"options\":[\"nosuid\","
	"\"mode=755\",\"size=65536k\"]},"
	"{\"destination\":\"/dev/"
	"pts\",\"type\":\"devpts\",\"source\":\"devpts\",\"options\":[\"nosuid\","
	"\"noexec\",\"newinstance\",\"ptmxmode=0666\",\"mode=0620\"]},"
	"{\"destination\":\"/dev/"
	"shm\",\"type\":\"tmpfs\",\"source\":\"shm\",\"options\":[\"nosuid\","
	"\"noexec\",\"nodev\",\"mode=1777\",\"size=65536k\"]},"
	"{\"destination\":\"/tmp\",\"type\":\"tmpfs\",\"source\":\"tmpfs\",\"options\":[\"nosuid\","
	"\"nodev\",\"mode=1777\"]},"
	"{\"destination\":\"/usr\",\"type\":\"bind\",\"source\":\"/"
	"usr\",\"options\":[\"rbind\",\"ro\"]}],"
	"\"linux\":{\"namespaces\":[{\"type\":\"pid\"},{\"type\":\"network\"},{\"type\":\"ipc\"},"
	"{\"type\":\"uts\"},{\"type\":\"mount\"}],\"maskedPaths\":[\"/proc/kcore\",\"/proc/keys\","
	"\"/proc/timer_list\",\"/proc/sched_debug\",\"/proc/acpi\"],"
	"\"readonlyPaths\":[\"/proc/bus\",\"/proc/fs\",\"/proc/irq\",\"/proc/sys\"]}}";

static bool prepare_bundle(const struct bench *b, const char *name, char state[128])
{
	static const char *const directories[] = {
		"", "/rootfs", "/rootfs/usr", "/rootfs/proc", "/rootfs/dev", "/rootfs/tmp", NULL};
	static const char *const links[] = {"lib", "lib64", "bin", NULL};
	char path[256], target[32];

	if (!is_in_path(name))
		return false;
	if (geteuid() != 0) {
		bench_note("%s: skipped, this comparison needs root", name);
		return false;
	}
	(void)snprintf(state, 128, "%s/%s-state", b->scratch, name);
	(void)snprintf(bundle, sizeof bundle, "%s/bundle", b->scratch);
	for (size_t i = 0; directories[i]; i++) {
		(void)snprintf(path, sizeof path, "%s%s", bundle, directories[i]);
		(void)mkdir(path, 0755);
	}
	for (size_t i = 0; links[i]; i++) {
		(void)snprintf(path, sizeof path, "%s/rootfs/%s", bundle, links[i]);
		(void)snprintf(target, sizeof target, "usr/%s", links[i]);
		(void)!symlink(target, path);
	}
	(void)snprintf(path, sizeof path, "%s/config.json", bundle);
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	return fd >= 0 && write(fd, config, strlen(config)) == (ssize_t)strlen(config);
}

static double run_oci(const char *program, const char *state, char *why)
{
	char id[48];
	const char *const argv[] = {program, "--root", state, "run", "--bundle", bundle, id, NULL};

	(void)snprintf(id, sizeof id, "cell-bench-%d", (int)getpid());
	return bench_spawn(argv, -1, why);
}

static bool prepare_runc(struct bench *b)
{
	return prepare_bundle(b, "runc", runc_state);
}

static double run_runc(char *why)
{
	return run_oci("runc", runc_state, why);
}

static bool prepare_crun(struct bench *b)
{
	return prepare_bundle(b, "crun", crun_state);
}

static double run_crun(char *why)
{
	return run_oci("crun", crun_state, why);
}

/* ---- docker ---- */

#define DOCKER_IMAGE "busybox"

static bool prepare_docker(struct bench *b)
{
	static const char *const ask[] = {"docker", "image", "inspect", DOCKER_IMAGE, NULL};
	char why[200];

	(void)b;
	if (!is_in_path("docker"))
		return false;
	if (bench_spawn(ask, -1, why) > 0)
		return true;
	bench_note("docker: skipped, it has no image " DOCKER_IMAGE " ready: %s", why);
	return false;
}

static double run_docker(char *why)
{
	static const char *const argv[] = {"docker", "run", "--rm", "--network", "none",
		"--read-only", "--cap-drop", "ALL", DOCKER_IMAGE, "true", NULL};

	return bench_spawn(argv, -1, why);
}

const struct bench_peer bench_peers[BENCH_PEERS] = {
	{"cell run", prepare_cell, run_cell},
	{"bubblewrap, the same walls", prepare_bwrap, run_bwrap},
	{"bubblewrap, namespaces alone", prepare_plain_bwrap, run_plain_bwrap},
	{"runc", prepare_runc, run_runc},
	{"crun", prepare_crun, run_crun},
	{"docker run", prepare_docker, run_docker},
};
