/* SPDX-License-Identifier: Apache-2.0 */
/*
 * probe.c: the program that the conformance tests run inside a cell. One static binary, many verbs,
 * so that a test says exactly what happens and needs no tool of the cell's root tree.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#define CHUNK 65536

static unsigned char chunk[CHUNK];
static const char *self; /* how this program was called */

static void say(const char *text)
{
	size_t n = strlen(text);

	if (write(1, text, n) != (ssize_t)n)
		_exit(99);
}

static int write_all(int fd, const void *p, size_t n)
{
	const char *at = p;

	while (n) {
		ssize_t w = write(fd, at, n);
		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return -1;
		at += w;
		n -= (size_t)w;
	}
	return 0;
}

static unsigned char gen_byte(uint64_t i)
{
	return (unsigned char)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

static void fill(uint64_t at, size_t n)
{
	for (size_t k = 0; k < n; k++)
		chunk[k] = gen_byte(at + k);
}

/* gen BYTES [FD]: the pattern that suite.h's gen_byte() describes. */
static int do_gen(int argc, char **argv)
{
	uint64_t total = strtoull(argv[0], NULL, 10);
	int fd = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 1;

	for (uint64_t at = 0; at < total;) {
		size_t n = total - at < CHUNK ? (size_t)(total - at) : CHUNK;
		fill(at, n);
		if (write_all(fd, chunk, n) < 0)
			return 98;
		at += n;
	}
	return 0;
}

/* both BYTES: the pattern on stdout and on stderr, in turns. */
static int do_both(int argc, char **argv)
{
	uint64_t total = strtoull(argv[0], NULL, 10);

	(void)argc;
	for (uint64_t at = 0; at < total;) {
		size_t n = total - at < 4096 ? (size_t)(total - at) : 4096;
		fill(at, n);
		if (write_all(1, chunk, n) < 0 || write_all(2, chunk, n) < 0)
			return 98;
		at += n;
	}
	return 0;
}

/* sum: how many bytes stdin has, and their FNV-1a hash. */
static int do_sum(int argc, char **argv)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325), total = 0;
	ssize_t n;

	(void)argc;
	(void)argv;
	while ((n = read(0, chunk, CHUNK)) > 0) {
		for (ssize_t k = 0; k < n; k++)
			h = (h ^ chunk[k]) * UINT64_C(0x100000001b3);
		total += (uint64_t)n;
	}
	printf("%llu %016llx\n", (unsigned long long)total, (unsigned long long)h);
	return n < 0;
}

/* serve ADDRESS: listens there, says "port N", gives every connection its bytes back, then "bye" when it sends no more. */
static int do_serve(int argc, char **argv)
{
	struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in four = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	bool is_six = strcmp(argv[0], "::1") == 0;
	struct sockaddr *a = is_six ? (struct sockaddr *)&six : (struct sockaddr *)&four;
	socklen_t len = is_six ? sizeof six : sizeof four;
	int l = socket(a->sa_family, SOCK_STREAM, 0);

	(void)argc;
	if (l < 0 || bind(l, a, len) < 0 || listen(l, 64) < 0 || getsockname(l, a, &len) < 0)
		return 97;
	printf("port %u\n", ntohs(is_six ? six.sin6_port : four.sin_port));
	fflush(stdout);
	signal(SIGCHLD, SIG_IGN);
	for (;;) {
		int s = accept(l, NULL, NULL);
		if (s < 0 || fork() != 0) {
			close(s);
			continue;
		}
		ssize_t n;
		while ((n = read(s, chunk, CHUNK)) > 0 && write_all(s, chunk, (size_t)n) == 0)
			;
		(void)write_all(s, "bye", 3);
		_exit(0);
	}
}

static int do_cat(int argc, char **argv)
{
	ssize_t n;

	(void)argc;
	(void)argv;
	while ((n = read(0, chunk, CHUNK)) > 0)
		if (write_all(1, chunk, (size_t)n) < 0)
			return 98;
	return n < 0;
}

/* endless FILE: write without end, and how much so far into FILE. */
static int do_endless(int argc, char **argv)
{
	int fd = open(argv[0], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	uint64_t total = 0;
	char text[32];

	(void)argc;
	if (fd < 0)
		return 97;
	for (;;) {
		ssize_t n = write(1, chunk, CHUNK);
		if (n < 0)
			return 98;
		total += (uint64_t)n;
		int len = snprintf(text, sizeof(text), "%020llu\n", (unsigned long long)total);
		if (pwrite(fd, text, (size_t)len, 0) != len)
			return 96;
	}
}

/* drip FILE: a line to stdout every 20 ms until FILE exists, then the line "end". */
static int do_drip(int argc, char **argv)
{
	(void)argc;
	for (unsigned i = 0; i < 3000 && access(argv[0], F_OK) < 0; i++) {
		char line[32];
		snprintf(line, sizeof(line), "line %u\n", i);
		say(line);
		usleep(20 * 1000);
	}
	say("end\n");
	return 0;
}

static int do_args(int argc, char **argv)
{
	char text[32];

	snprintf(text, sizeof(text), "%d\n", argc);
	say(text);
	for (int i = 0; i < argc; i++)
		if (write_all(1, argv[i], strlen(argv[i]) + 1) < 0)
			return 98;
	return 0;
}

static int do_argc(int argc, char **argv)
{
	(void)argv;
	printf("%d\n", argc);
	return 0;
}

static int do_env(int argc, char **argv)
{
	extern char **environ;

	(void)argc;
	(void)argv;
	for (char **e = environ; *e; e++)
		if (write_all(1, *e, strlen(*e)) < 0 || write_all(1, "\n", 1) < 0)
			return 98;
	return 0;
}

static int do_exit(int argc, char **argv)
{
	(void)argc;
	return (int)strtol(argv[0], NULL, 10);
}

/* raise N: die of it, without a core file. */
static int do_raise(int argc, char **argv)
{
	int n = (int)strtol(argv[0], NULL, 10);
	struct rlimit none = {0, 0};

	(void)argc;
	say("before\n");
	setrlimit(RLIMIT_CORE, &none);
	signal(n, SIG_DFL);
	raise(n);
	return 95;
}

/* stay SECONDS [anything]: deaf to TERM, HUP, INT, QUIT. What follows is there to be found. */
static int do_stay(int argc, char **argv)
{
	unsigned seconds = (unsigned)strtoul(argv[0], NULL, 10);

	(void)argc;
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGQUIT, SIG_IGN);
	say("ready\n");
	while (seconds)
		seconds = sleep(seconds);
	return 0;
}

/* nap SECONDS [anything]: like stay, but polite. */
static int do_nap(int argc, char **argv)
{
	(void)argc;
	say("ready\n");
	sleep((unsigned)strtoul(argv[0], NULL, 10));
	return 0;
}

static void stay_as_child(const char *mark, int ready)
{
	dup2(ready, 1);
	execl(self, self, "stay", "300", mark, (char *)NULL);
	_exit(94);
}

/* tree MARK: a plain child, one in its own session, a double-forked one in its own session, one in
 * its own process group; all deaf to TERM, as is this process. Says "ready" when all are. */
static int do_tree(int argc, char **argv)
{
	char text[64];
	int p[2];
	size_t got = 0;

	(void)argc;
	if (pipe(p) < 0)
		return 93;
	for (int kind = 0; kind < 4; kind++) {
		pid_t pid = fork();
		if (pid < 0)
			return 92;
		if (pid)
			continue;
		if (kind == 1)
			setsid();
		if (kind == 2)
			setpgid(0, 0);
		if (kind == 3) {
			setsid();
			if (fork())
				_exit(0);
			setsid();
		}
		stay_as_child(argv[0], p[1]);
	}
	close(p[1]);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	while (got < 4 * 6) {
		ssize_t n = read(p[0], text, sizeof(text));
		if (n <= 0)
			return 91;
		got += (size_t)n;
	}
	say("ready\n");
	while (1)
		pause();
}

/* hold FILE GO: exit at once and leave a child that keeps stdout, waits for the file GO, writes to
 * stdout and then says in FILE how that went. */
static int do_hold(int argc, char **argv)
{
	(void)argc;
	pid_t pid = fork();

	if (pid)
		return pid < 0;
	for (int i = 0; i < 3000 && access(argv[1], F_OK) < 0; i++)
		usleep(10 * 1000);
	ssize_t n = write(1, "late\n", 5);
	int fd = open(argv[0], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	const char *text = n == 5 ? "written" : strerror(errno);
	(void)!write(fd, text, strlen(text));
	_exit(0);
}

static int do_tty(int argc, char **argv)
{
	struct winsize w = {0};

	(void)argc;
	(void)argv;
	ioctl(0, TIOCGWINSZ, &w);
	printf("isatty %d%d%d\n", isatty(0), isatty(1), isatty(2));
	printf("size %d %d\n", w.ws_row, w.ws_col);
	printf("leader %d\n", getsid(0) == getpid());
	printf("foreground %d\n", tcgetpgrp(0) == getpgrp());
	int fd = open("/dev/tty", O_RDWR);
	printf("controlling %d\n", fd >= 0);
	return 0;
}

static volatile sig_atomic_t last_signal;

static void on_signal(int n)
{
	last_signal = n;
}

/* winch N: the size now, and again after each of N changes. */
static int do_winch(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal};
	long rounds = strtol(argv[0], NULL, 10);
	sigset_t block, old;

	(void)argc;
	sigemptyset(&block);
	sigaddset(&block, SIGWINCH);
	sigprocmask(SIG_BLOCK, &block, &old);
	sigaction(SIGWINCH, &sa, NULL);
	for (long i = 0; i <= rounds; i++) {
		struct winsize w = {0};
		char text[64];
		ioctl(0, TIOCGWINSZ, &w);
		snprintf(text, sizeof(text), "size %d %d\n", w.ws_row, w.ws_col);
		say(text);
		if (i < rounds)
			sigsuspend(&old);
	}
	return 0;
}

/* signals N: name each of the next N signals as they come. */
static int do_signals(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal};
	static const int which[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT};
	long rounds = strtol(argv[0], NULL, 10);
	sigset_t block, old;

	(void)argc;
	sigemptyset(&block);
	for (size_t i = 0; i < sizeof(which) / sizeof(*which); i++) {
		sigaddset(&block, which[i]);
		sigaction(which[i], &sa, NULL);
	}
	sigprocmask(SIG_BLOCK, &block, &old);
	say("ready\n");
	for (long i = 0; i < rounds; i++) {
		char text[32];
		sigsuspend(&old);
		snprintf(text, sizeof(text), "got %d\n", (int)last_signal);
		say(text);
	}
	return 0;
}

/* family N: a child in this process group and a grandchild in a group of its own, each says what
 * signal it gets, once; this process too. */
static int do_family(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal};
	const char *name = "parent";
	sigset_t block, old;
	int p[2];
	char c;

	(void)argc;
	(void)argv;
	if (pipe(p) < 0)
		return 93;
	sigemptyset(&block);
	sigaddset(&block, SIGUSR1);
	sigprocmask(SIG_BLOCK, &block, &old);
	sigaction(SIGUSR1, &sa, NULL);
	for (int i = 0; i < 2; i++) {
		if (fork())
			continue;
		name = i ? "stranger" : "child";
		if (i)
			setsid();
		(void)!write(p[1], "x", 1);
		goto wait;
	}
	for (int i = 0; i < 2; i++)
		if (read(p[0], &c, 1) != 1)
			return 92;
	say("ready\n");
wait:
	sigsuspend(&old);
	char text[64];
	snprintf(text, sizeof(text), "%s %d\n", name, (int)last_signal);
	say(text);
	if (!strcmp(name, "parent"))
		wait(NULL);
	return 0;
}

static int do_ids(int argc, char **argv)
{
	gid_t groups[64];

	(void)argc;
	(void)argv;
	printf("uid %d %d\ngid %d %d\ngroups %d\n", getuid(), geteuid(), getgid(), getegid(),
		getgroups(64, groups));
	return 0;
}

static int do_group(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	printf("group-leader %d\n", getpgrp() == getpid());
	return 0;
}

static int do_cwd(int argc, char **argv)
{
	char path[8192];

	(void)argc;
	(void)argv;
	if (!getcwd(path, sizeof(path)))
		return 1;
	say(path);
	return 0;
}

/* fds: every open descriptor beyond 2. */
static int do_fds(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	for (int fd = 3; fd < 4096; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("%d\n", fd);
	return 0;
}

/* sigstate: signals that are blocked or ignored from the start. */
static int do_sigstate(int argc, char **argv)
{
	sigset_t set;

	(void)argc;
	(void)argv;
	sigprocmask(SIG_BLOCK, NULL, &set);
	for (int n = 1; n < 32; n++) {
		struct sigaction sa;
		if (sigismember(&set, n) == 1)
			printf("blocked %d\n", n);
		if (sigaction(n, NULL, &sa) == 0 && sa.sa_handler == SIG_IGN)
			printf("ignored %d\n", n);
	}
	return 0;
}

/* cpu MS: use this much CPU. */
static int do_cpu(int argc, char **argv)
{
	clock_t end = (clock_t)(strtod(argv[0], NULL) / 1000 * CLOCKS_PER_SEC);
	volatile unsigned x = 0;

	(void)argc;
	while (clock() < end)
		for (int i = 0; i < 10000; i++)
			x = x + (unsigned)i;
	return 0;
}

/* mem BYTES: touch that much memory. */
static int do_mem(int argc, char **argv)
{
	size_t n = strtoull(argv[0], NULL, 10);

	(void)argc;
	char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED) {
		printf("mmap: %s\n", strerror(errno));
		return 1;
	}
	for (size_t i = 0; i < n; i += 4096)
		p[i] = (char)(i >> 12 | 1);
	say("touched\n");
	return p[n / 2] == 2;
}

/* limits: soft resource limits. */
static int do_limits(int argc, char **argv)
{
	static const struct {
		const char *name;
		int which;
	} all[] = {{"nofile", RLIMIT_NOFILE}, {"fsize", RLIMIT_FSIZE}, {"as", RLIMIT_AS},
		{"cpu", RLIMIT_CPU}, {"nproc", RLIMIT_NPROC}, {"core", RLIMIT_CORE}};

	(void)argc;
	(void)argv;
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		struct rlimit r;
		getrlimit(all[i].which, &r);
		printf("%s %llu\n", all[i].name, (unsigned long long)r.rlim_cur);
	}
	return 0;
}

/* openmany: how many descriptors can be opened. */
static int do_openmany(int argc, char **argv)
{
	int n = 0;

	(void)argc;
	(void)argv;
	while (n < 100000 && dup(0) >= 0)
		n++;
	printf("%d\n", n);
	return 0;
}

/* forkmany N: how many children can live at once. */
static int do_forkmany(int argc, char **argv)
{
	long want = strtol(argv[0], NULL, 10), n = 0;

	(void)argc;
	fflush(stdout);
	while (n < want) {
		pid_t pid = fork();
		if (pid < 0)
			break;
		if (!pid) {
			pause();
			_exit(0);
		}
		n++;
	}
	printf("%ld\n", n);
	fflush(stdout);
	signal(SIGTERM, SIG_IGN);
	kill(0, SIGTERM);
	while (wait(NULL) > 0)
		;
	return 0;
}

/* orphans N: that many grandchildren that end at once, with nobody of ours to reap them. */
static int do_orphans(int argc, char **argv)
{
	long n = strtol(argv[0], NULL, 10);

	(void)argc;
	for (long i = 0; i < n; i++) {
		pid_t pid = fork();
		if (pid < 0)
			return 92;
		if (!pid) {
			if (!fork()) {
				usleep(1000);
				_exit(0);
			}
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	return 0;
}

/* count MARK: processes whose command line holds MARK, this one aside; "none" without /proc. */
static int do_count(int argc, char **argv)
{
	DIR *d = opendir("/proc");
	struct dirent *e;
	unsigned n = 0, seen = 0;

	(void)argc;
	while (d && (e = readdir(d))) {
		char path[300], text[4096];
		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		seen++;
		if (strtol(e->d_name, NULL, 10) == getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		int fd = open(path, O_RDONLY);
		ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text));
		if (fd >= 0)
			close(fd);
		if (len > 0 && memmem(text, (size_t)len, argv[0], strlen(argv[0])))
			n++;
	}
	if (!seen)
		say("none\n");
	else
		printf("%u\n", n);
	return 0;
}

/* one: read one byte of stdin, then close it. */
static int do_one(int argc, char **argv)
{
	char c;

	(void)argc;
	(void)argv;
	if (read(0, &c, 1) != 1)
		return 1;
	close(0);
	printf("got %c\n", c);
	return 0;
}

/* swap A B: exchange the two names without end. */
static int do_swap(int argc, char **argv)
{
	(void)argc;
	say("ready\n");
	for (;;)
		if (syscall(SYS_renameat2, AT_FDCWD, argv[0], AT_FDCWD, argv[1], 2) < 0)
			return 1;
}

/* file PATH BYTES: the pattern into a file; what went wrong, if anything. */
static int do_file(int argc, char **argv)
{
	uint64_t total = strtoull(argv[1], NULL, 10);
	int fd = open(argv[0], O_WRONLY | O_CREAT | O_TRUNC, 0644);

	(void)argc;
	signal(SIGXFSZ, SIG_IGN);
	for (uint64_t at = 0; fd >= 0 && at < total;) {
		size_t n = total - at < CHUNK ? (size_t)(total - at) : CHUNK;
		fill(at, n);
		if (write_all(fd, chunk, n) < 0) {
			printf("%s\n", strerror(errno));
			return 1;
		}
		at += n;
	}
	return fd < 0;
}

/* bytes: all 256 byte values, once each. */
static int do_bytes(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	for (int i = 0; i < 256; i++)
		chunk[i] = (unsigned char)i;
	return write_all(1, chunk, 256) < 0;
}

/* mix N: N lines, to stdout and stderr in turns, each by one write. */
static int do_mix(int argc, char **argv)
{
	long n = strtol(argv[0], NULL, 10);

	(void)argc;
	for (long i = 0; i < n; i++) {
		char line[32];
		int len = snprintf(line, sizeof(line), "%ld\n", i);
		if (write_all(i % 2 ? 2 : 1, line, (size_t)len) < 0)
			return 98;
	}
	return 0;
}

/* term: say so and go when TERM comes; "ready" first, some output before. */
static int do_term(int argc, char **argv)
{
	struct sigaction sa = {.sa_handler = on_signal};

	(void)argc;
	(void)argv;
	sigaction(SIGTERM, &sa, NULL);
	say("ready\n");
	while (!last_signal)
		pause();
	say("cleaned up\n");
	return 7;
}

static const struct verb {
	const char *name;
	int (*fn)(int argc, char **argv);
	int min_args;
} verbs[] = {
	{"argc", do_argc, 0},
	{"args", do_args, 0},
	{"both", do_both, 1},
	{"bytes", do_bytes, 0},
	{"cat", do_cat, 0},
	{"count", do_count, 1},
	{"cpu", do_cpu, 1},
	{"cwd", do_cwd, 0},
	{"drip", do_drip, 1},
	{"endless", do_endless, 1},
	{"env", do_env, 0},
	{"exit", do_exit, 1},
	{"family", do_family, 0},
	{"fds", do_fds, 0},
	{"file", do_file, 2},
	{"forkmany", do_forkmany, 1},
	{"gen", do_gen, 1},
	{"group", do_group, 0},
	{"hold", do_hold, 2},
	{"ids", do_ids, 0},
	{"limits", do_limits, 0},
	{"mem", do_mem, 1},
	{"mix", do_mix, 1},
	{"nap", do_nap, 1},
	{"one", do_one, 0},
	{"openmany", do_openmany, 0},
	{"orphans", do_orphans, 1},
	{"raise", do_raise, 1},
	{"serve", do_serve, 1},
	{"signals", do_signals, 1},
	{"sigstate", do_sigstate, 0},
	{"stay", do_stay, 1},
	{"sum", do_sum, 0},
	{"swap", do_swap, 2},
	{"term", do_term, 0},
	{"tree", do_tree, 1},
	{"tty", do_tty, 0},
	{"winch", do_winch, 1},
};

int main(int argc, char **argv)
{
	self = argv[0];
	for (size_t i = 0; argc > 1 && i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(argv[1], verbs[i].name) && argc - 2 >= verbs[i].min_args)
			return verbs[i].fn(argc - 2, argv + 2);
	fprintf(stderr, "usage: probe VERB ...; verbs:");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		fprintf(stderr, " %s", verbs[i].name);
	fprintf(stderr, "\n");
	return 64;
}
