/* SPDX-License-Identifier: Apache-2.0 */
/*
 * main.c: the guest, the static program inside every cell. It is started by a back end with a
 * connected socket (--fd), a listening one (--listen-fd), both, or one on which either will come
 * (--wait-fd), and serves until it is told to leave, until its only connection ends, or until it is killed. Where no
 * file descriptor can be passed there are paths instead (reach.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "guest/guest.h"
#include "guest/keeper.h"
#include "guest/kernel.h"
#include "guest/oom.h"

struct guest guest = {
	.workspace = "/", .workspace_fd = -1, .spool_fd = -1, .null_fd = -1, .report_fd = -1};

static const char *warm; /* interpreters to start at once */
static bool is_leaving;
static int oom_eventfd = -1, oom_events_fd = -1;
static struct stream *leaving_stream;

static const char usage[] =
	"usage: cell-guest (--fd N | --listen-fd N | --wait-fd N)... --workspace DIR [--spool "
	"DIR]\n"
	"                  [--home DIR] [--tmp DIR] [--rlimit NAME=VALUE]...\n"
	"                  [--oom-eventfd N | --oom-events-fd N | --oom-cgroup DIR] [--warm "
	"LANGUAGES]\n"
	"       cell-guest [--alone-as UID:GID] (--call SOCKET | --listen SOCKET | --listen-once "
	"SOCKET)\n"
	"                  [--filter FILE] ...\n"
	"       cell-guest --relay SOCKET\n"
	"The program inside a cell. It is started by Cell, not by hand.\n";

__attribute__((noreturn)) static void die(const char *what, const char *name, int e)
{
	(void)fprintf(stderr, "cell-guest: %s '%s': %s\n", what, name, strerror(e));
	_exit(125);
}

static void leave(void)
{
	keeper_dismiss_all();
	reaper_end_orphans();
	if (leaving_stream) {
		auto_buf struct buf b = BUF_INIT(WIRE_MAX_REPLY);

		(void)wire_put_u64(&b, WIRE_T_CODE, CELL_OK);
		stream_end(leaving_stream, &b);
	}
	loop_stop();
}

void guest_maybe_leave(void)
{
	if (is_leaving && job_running() == 0)
		leave();
}

void guest_shutdown(struct stream *s)
{
	leaving_stream = s;
	is_leaving = true;
	jobs_close();
	kernel_stop_all();
	job_kill_all();
	guest_maybe_leave();
}

void guest_forget(const struct stream *s)
{
	if (leaving_stream == s)
		leaving_stream = NULL;
}

static const struct {
	const char *name;
	int resource;
} limits[] = {
	{"nofile", RLIMIT_NOFILE},
	{"fsize", RLIMIT_FSIZE},
	{"as", RLIMIT_AS},
	{"cpu", RLIMIT_CPU},
	{"nproc", RLIMIT_NPROC},
	{"core", RLIMIT_CORE},
	{"memlock", RLIMIT_MEMLOCK},
	{"stack", RLIMIT_STACK},
};

static void add_rlimit(const char *text)
{
	const char *eq = strchr(text, '=');
	char *end;

	for (size_t i = 0; eq && i < sizeof limits / sizeof *limits; i++) {
		size_t n = strlen(limits[i].name);

		if ((size_t)(eq - text) != n || strncmp(text, limits[i].name, n) != 0)
			continue;
		errno = 0;
		unsigned long long v = strtoull(eq + 1, &end, 10);
		if (errno || *end || end == eq + 1 || guest.n_rlimits == GUEST_MAX_RLIMITS)
			break;
		guest.rlimits[guest.n_rlimits++] =
			(struct guest_rlimit){.resource = limits[i].resource, .value = v};
		return;
	}
	die("limit", text, EINVAL);
}

static int parse_fd(const char *text)
{
	char *end;
	long v = strtol(text, &end, 10);

	if (*end || end == text || v < 0 || v > 1 << 20 || fcntl((int)v, F_GETFD) < 0)
		die("file descriptor", text, EBADF);
	(void)fcntl((int)v, F_SETFD, FD_CLOEXEC);
	return (int)v;
}

/* What reach.c gave, or the end. */
static int reached(int fd, const char *how, const char *path)
{
	if (fd < 0)
		die(how, path, -fd);
	return fd;
}

/* The count of kills in a container's own cgroup: of version 2, or 1, which has it under another name. A container
 * without either is told nothing. */
static int open_oom_events(const char *dir)
{
	static const char *const names[] = {"memory.events", "memory/memory.oom_control"};
	char path[256];
	int fd = -1;

	for (size_t i = 0; fd < 0 && i < 2; i++) {
		(void)snprintf(path, sizeof path, "%s/%s", dir, names[i]);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	return fd;
}

static int open_directory(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		die("directory", path, errno);
	return fd;
}

static void parse(int argc, char **argv, int *fd, int *listen_fd, int *wait_fd)
{
	const char *spool = NULL;

	for (int i = 1; i < argc; i++) {
		const char *name = argv[i];
		char *value = i + 1 < argc ? argv[++i] : NULL;

		if (!value) {
			(void)fputs(usage, stderr);
			_exit(125);
		}
		if (strcmp(name, "--fd") == 0)
			*fd = parse_fd(value);
		else if (strcmp(name, "--listen-fd") == 0)
			*listen_fd = parse_fd(value);
		else if (strcmp(name, "--wait-fd") == 0)
			*wait_fd = parse_fd(value);
		else if (strcmp(name, "--call") == 0)
			*wait_fd = reached(guest_call(value), "call", value);
		else if (strcmp(name, "--listen") == 0)
			*listen_fd = reached(guest_listen(value), "listen on", value);
		else if (strcmp(name, "--listen-once") == 0)
			*fd = reached(guest_first_client(value), "wait for a client on", value);
		else if (strcmp(name, "--workspace") == 0)
			guest.workspace = value;
		else if (strcmp(name, "--spool") == 0)
			spool = value;
		else if (strcmp(name, "--home") == 0)
			guest.home = value;
		else if (strcmp(name, "--tmp") == 0)
			guest.tmp = value;
		else if (strcmp(name, "--oom-eventfd") == 0)
			oom_eventfd = parse_fd(value);
		else if (strcmp(name, "--oom-events-fd") == 0)
			oom_events_fd = parse_fd(value);
		else if (strcmp(name, "--warm") == 0)
			warm = value;
		else if (strcmp(name, "--oom-cgroup") == 0)
			oom_events_fd = open_oom_events(value);
		else if (strcmp(name, "--hold-fd") == 0)
			(void)parse_fd(value); /* kept open, for nobody else to take */
		else if (strcmp(name, "--filter") == 0)
			(void)reached(guest_filter(value), "syscall filter", value);
		else if (strcmp(name, "--rlimit") == 0)
			add_rlimit(value);
		else
			die("option", name, EINVAL);
	}
	if (*wait_fd < 0) /* else it comes with the lease */
		guest.workspace_fd = open_directory(guest.workspace);
	if (spool)
		guest.spool_fd = open_directory(spool);
}

/* Fds 0-2 must exist, or a pipe could land there. */
static void open_standard_fds(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
		if (fd < 0)
			fd = open("/",
				O_PATH | O_CLOEXEC); /* a root without /dev: only keeps the slot */
	} while (fd >= 0 && fd < 3);
	guest.null_fd = fd;
}

/* A cell full of commands has several pipes for each. */
static void raise_open_files(void)
{
	if (getrlimit(RLIMIT_NOFILE, &guest.open_files) < 0)
		return;
	const struct rlimit most = {guest.open_files.rlim_max, guest.open_files.rlim_max};

	(void)setrlimit(RLIMIT_NOFILE, &most);
}

static void make_boot_id(void)
{
	uint8_t bytes[16];

	if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
		die("random bytes", "getrandom", errno);
	for (size_t i = 0; i < sizeof bytes; i++)
		(void)snprintf(guest.boot_id + 2 * i, 3, "%02x", bytes[i]);
}

/* Whatever the caller ignored is normal here. By the system call itself: the library hides signals 32 to
 * 34, which a caller may have ignored all the same. */
static void reset_signals(void)
{
	static const struct sigaction ignore = {.sa_handler = SIG_IGN};
	static const unsigned long by_default[8];

	for (long sig = 1; sig <= 64; sig++)
		(void)syscall(SYS_rt_sigaction, sig, by_default, NULL, 8L);
	(void)sigaction(SIGPIPE, &ignore, NULL);
	(void)sigaction(SIGHUP, &ignore, NULL);
	(void)sigaction(SIGINT, &ignore, NULL);
}

/* The lease brings a connected stream, or for a cell that outlives its creator a listening socket. */
static void take_lease(int wait_fd, char *argv0, int *fd, int *listen_fd)
{
	int got = guest_await_lease(wait_fd, argv0), is_listening = 0;
	socklen_t n = sizeof is_listening;

	(void)getsockopt(got, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &n);
	*(is_listening ? listen_fd : fd) = got;
	guest.has_listener = is_listening;
	guest.workspace_fd = open_directory(guest.workspace);
}

int main(int argc, char **argv)
{
	int fd = -1, listen_fd = -1, wait_fd = -1;

	if (argc == 3 && strcmp(argv[1], "--relay") == 0)
		return guest_relay(argv[2]);
	if (argc > 3 && strcmp(argv[1], "--alone-as") == 0) {
		char *ids = argv[2];

		argv[2] = argv[0];
		(void)reached(guest_be_alone(ids, argv + 2), "be alone as", ids);
	}
	reset_signals();
	open_standard_fds();
	parse(argc, argv, &fd, &listen_fd, &wait_fd);
	if (fd < 0 && listen_fd < 0 && wait_fd < 0) {
		(void)fputs(usage, stderr);
		return 125;
	}
	(void)prctl(PR_SET_NAME, "cell-guest");
	if (getpid() == 1)
		oom_open_score(); /* once not dumpable, it is no longer ours to open */
	(void)prctl(PR_SET_DUMPABLE, 0);
	if (getpid() != 1)
		(void)prctl(PR_SET_CHILD_SUBREAPER, 1);
	(void)umask(022);
	raise_open_files();
	make_boot_id();
	guest.has_listener = listen_fd >= 0;
	int r = keeper_init();
	if (r == 0)
		r = loop_init();
	if (r == 0)
		r = reaper_init();
	if (r == 0 && oom_eventfd >= 0)
		r = oom_watch_eventfd(oom_eventfd);
	if (r == 0 && oom_events_fd >= 0)
		r = oom_watch_events(oom_events_fd);
	if (r == 0)
		spare_start(warm);
	if (r == 0 && wait_fd >= 0)
		take_lease(wait_fd, argv[0], &fd, &listen_fd);
	if (r == 0 && listen_fd >= 0)
		r = conn_listen(listen_fd);
	if (r == 0 && fd >= 0)
		r = conn_start(fd, true);
	if (r == 0)
		r = loop_run();
	if (r < 0)
		die("serve", "event loop", -r);
	return 0;
}
