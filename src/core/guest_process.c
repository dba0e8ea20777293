/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guest_process.c: starting, reaching and ending a guest that is a process of this machine.
 *
 * A guest carries the identity of its cell's directory in argv[0], so that it can be found without
 * a record of its pid: when the process that made the cell died between starting the guest and
 * writing it down, or when the record is broken.
 */
#include "core/guest_process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cleanup.h"
#include "core/cell.h"
#include "core/link.h"
#include "core/process.h"

#define SOCKET_NAME	 "sock"
#define HELLO_TIMEOUT_MS 2000
#define END_TIMEOUT_MS	 5000 /* for the guest to end what it runs: TERM, 2 s, KILL */
#define KILL_TIMEOUT_MS	 10000
#define ARGS_MAX	 64

int cell_guest_title(const struct cell *c, char ret[160], struct cell_error *err)
{
	struct stat st;

	if (fstat(c->directory_fd, &st) < 0)
		return cell_fail_errno(err, errno, "look at the directory of cell '%s'", c->name);
	(void)snprintf(ret, 160, "cell-guest:%s:%" PRIxMAX ".%" PRIxMAX, c->name,
		(uintmax_t)st.st_dev, (uintmax_t)st.st_ino);
	return 0;
}

/* Where the socket is: through our own fd when the path is too long for a socket address. */
static void socket_address(const struct cell *c, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){.sun_family = AF_UNIX};
	int n = snprintf(ret->sun_path, sizeof ret->sun_path, "%s/" SOCKET_NAME, c->directory);
	if (n < 0 || (size_t)n >= sizeof ret->sun_path)
		(void)snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/" SOCKET_NAME,
			c->directory_fd);
}

static int listen_socket(const struct cell *c, struct cell_error *err)
{
	struct sockaddr_un sa;
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	socket_address(c, &sa);
	if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) < 0 || listen(fd, 128) < 0)
		return cell_fail_errno(err, errno, "listen on the socket of cell '%s'", c->name);
	return steal_fd(fd);
}

struct arguments {
	const char *v[ARGS_MAX];
	size_t n;
};

static void arg(struct arguments *a, const char *flag, const char *value)
{
	if (!value || a->n + 3 > ARGS_MAX)
		return;
	a->v[a->n++] = flag;
	a->v[a->n++] = value;
}

/* What of our environment the guest itself may need; commands get theirs in their requests. */
static void guest_environment(const char *ret[8], char text[6][512])
{
	static const char *const names[] = {"HOME", "USER", "LOGNAME", "TMPDIR", NULL};
	size_t n = 0;

	(void)snprintf(text[n], 512,
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
	ret[n] = text[n];
	n++;
	for (size_t i = 0; names[i]; i++) {
		const char *value = getenv(names[i]);
		if (!value || strlen(value) > 480)
			continue;
		(void)snprintf(text[n], 512, "%s=%s", names[i], value);
		ret[n] = text[n];
		n++;
	}
	ret[n] = NULL;
}

static int spawn_guest(struct cell *c, const struct guest_options *o, int pass_fd,
	struct cell_error *err)
{
	struct arguments a = {0};
	char title[160], env_text[6][512];
	const char *env[8];
	int r = cell_guest_title(c, title, err);

	if (r < 0)
		return r;
	a.v[a.n++] = title;
	arg(&a, c->is_ephemeral ? "--fd" : "--listen-fd", "3");
	_Static_assert(CELL_SPAWN_FD == 3, "the guest is told the number");
	arg(&a, "--workspace", o->workspace);
	arg(&a, "--spool", o->spool);
	arg(&a, "--home", o->home);
	arg(&a, "--tmp", o->tmp);
	arg(&a, "--warm", cell_warm(c));
	for (const char *const *l = o->rlimits; l && *l; l++)
		arg(&a, "--rlimit", *l);
	guest_environment(env, env_text);

	auto_fd int image = cell_guest_image(c->directory_fd, err);
	if (image < 0)
		return image;
	struct cell_spawn s = {.image_fd = image,
		.argv = (char *const *)(uintptr_t)a.v,
		.envp = (char *const *)(uintptr_t)env,
		.pass_fd = pass_fd,
		.is_detached = !c->is_ephemeral,
		.enter = o->enter,
		.user = o->user};
	r = cell_process_spawn(&s);
	if (r < 0 && !s.has_entered && o->enter)
		return cell_fail_errno(err, -r, "prepare the place of cell '%s'", c->name);
	if (r < 0) {
		cell_fail_errno(err, -r, "start the guest of cell '%s'", c->name);
		if (r == -EACCES || r == -EPERM)
			return cell_error_hint(err, r,
				"allow memfds to be executed (sysctl vm.memfd_noexec=1 or less), "
				"or "
				"put CELL_STATE_DIR on a file system without noexec");
		if (r == -EAGAIN)
			return cell_error_hint(err, r, "the limit of processes is reached");
		return r;
	}
	c->guest.pid = s.pid;
	return 0;
}

static int start_elsewhere(struct cell *c, const struct guest_options *o, int stream_fd,
	struct cell_error *err)
{
	char title[160];
	int r = cell_guest_title(c, title, err);

	return r < 0 ? r : o->start(o->user, title, stream_fd, &c->guest.pid, &c->guest.pidfd, err);
}

int cell_guest_workspace(struct cell *c, const struct cell_spec *spec, char **ret,
	struct cell_error *err)
{
	*ret = NULL;
	if (spec->workspace) {
		*ret = strdup(spec->workspace);
	} else if (!spec->own_workspace) {
		*ret = realpath(".", NULL);
	} else if (mkdirat(c->directory_fd, "workspace", 0700) < 0 ||
		   /* commands may be another user's */
		   fchmodat(c->directory_fd, "workspace", 01777, 0) < 0 ||
		   asprintf(ret, "%s/workspace", cell_directory(c)) < 0) {
		*ret = NULL;
		return cell_fail_errno(err, errno, "make the cell's workspace");
	}
	if (!*ret)
		return cell_fail_errno(err, errno, "find the cell's workspace");
	return cell_note_set(c, "workspace", *ret, err);
}

int cell_guest_start(struct cell *c, const struct guest_options *o, struct cell_error *err)
{
	auto_fd int ours = -1;
	auto_fd int theirs = -1;
	char boot[64];

	if (c->is_ephemeral) {
		int pair[2];
		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
			return cell_fail_errno(err, errno, "make a socket pair for cell '%s'",
				c->name);
		ours = pair[0];
		theirs = pair[1];
	} else {
		theirs = listen_socket(c, err);
		if (theirs < 0)
			return theirs;
	}
	int r = o->start ? start_elsewhere(c, o, theirs, err) : spawn_guest(c, o, theirs, err);
	if (r < 0) {
		if (!c->is_ephemeral)
			(void)unlinkat(c->directory_fd, SOCKET_NAME, 0);
		return r;
	}
	uint64_t start = cell_process_start_time(c->guest.pid);
	r = cell_note_set_int(c, "guest_pid", c->guest.pid, err);
	if (!r)
		r = cell_note_set_int(c, "guest_start", (int64_t)start, err);
	if (c->is_ephemeral) {
		if (c->guest.pidfd < 0)
			c->guest.pidfd = cell_process_open(c->guest.pid, start);
		c->guest.stream_fd = steal_fd(ours);
	} else if (!r) {
		cell_process_boot_id(boot);
		r = cell_note_set(c, "guest_boot", boot, err);
		if (!r)
			r = cell_note_save(c, err);
	}
	if (r < 0)
		(void)cell_guest_stop(c, NULL);
	return r;
}

static int connect_socket(const struct cell *c)
{
	struct sockaddr_un sa;
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	socket_address(c, &sa);
	if (fd < 0)
		return -errno;
	while (connect(fd, (struct sockaddr *)&sa, sizeof sa) < 0)
		if (errno != EINTR)
			return -errno;
	return steal_fd(fd);
}

int cell_guest_connect(struct cell *c, struct cell_error *err)
{
	if (c->guest.stream_fd >= 0)
		return steal_fd(c->guest.stream_fd);
	if (c->is_ephemeral) {
		int r = cell_fail(err, CELL_EBUSY, 0,
			"cell '%s' is ephemeral and belongs to the process that made it", c->name);
		return cell_error_hint(err, r, "make a cell with a name to share it: cell create");
	}
	int fd = connect_socket(c);
	if (fd >= 0)
		return fd;
	if (fd == -ECONNREFUSED || fd == -ENOENT) {
		int r = cell_fail(err, CELL_EGONE, -fd, "reach the guest of cell '%s'", c->name);
		return cell_error_hint(err, r, "its guest has died; `cell prune` cleans up");
	}
	return cell_fail_errno(err, -fd, "reach the guest of cell '%s'", c->name);
}

/* A pidfd of the guest by what was noted; -ESRCH when it has ended. */
static int open_noted(const struct cell *c)
{
	const char *noted_boot = cell_note(c, "guest_boot");
	int64_t pid = cell_note_int(c, "guest_pid", 0);
	char boot[64];

	if (pid <= 0 || pid > INT32_MAX)
		return -ESRCH;
	cell_process_boot_id(boot);
	if (noted_boot && strcmp(noted_boot, boot) != 0)
		return -ESRCH;
	return cell_process_open((pid_t)pid, (uint64_t)cell_note_int(c, "guest_start", 0));
}

bool cell_guest_is_alive(const struct cell *c)
{
	if (c->guest.pidfd >= 0)
		return !cell_process_wait(c->guest.pidfd, 0);
	auto_fd int fd = open_noted(c);
	return fd >= 0;
}

/* Ask a listening guest to end everything. True when it said it would. */
static bool ask_to_end(const struct cell *c)
{
	struct link *l = NULL;
	struct link_stream *s = NULL;
	struct link_event ev = {0};
	struct buf none = BUF_INIT(16);
	int fd = connect_socket(c);
	bool is_done = false;

	if (fd >= 0 && link_open(fd, HELLO_TIMEOUT_MS, &l, NULL) >= 0) {
		if (link_request(l, WIRE_OP_SHUTDOWN, &none, &s, NULL) >= 0)
			is_done =
				link_next(s, END_TIMEOUT_MS, &ev, NULL) < 0 || ev.type == LINK_END;
		link_stream_free(s);
		link_free(l);
	}
	return is_done;
}

static void kill_one(int pidfd)
{
	(void)cell_process_kill(pidfd);
}

/* A guest that was killed leaves a supervisor for each command, which ends that command's tree and
 * then itself. Give them the time; what is left after it is killed. */
static void end_leftovers(const struct cell *c)
{
	const struct timespec pause = {.tv_nsec = 10 * 1000000};
	char title[160];

	if (cell_guest_title(c, title, NULL) < 0)
		return;
	for (int waited_ms = 0; waited_ms < END_TIMEOUT_MS; waited_ms += 10) {
		if (!cell_process_each(title, NULL))
			return;
		(void)nanosleep(&pause, NULL);
	}
	for (int i = 0; i < 100 && cell_process_each(title, kill_one); i++)
		(void)nanosleep(&pause, NULL);
}

bool cell_guest_kill(const struct cell *c, int timeout_ms)
{
	return c->guest.pidfd >= 0 && cell_process_kill(c->guest.pidfd) == 0 &&
	       cell_process_wait(c->guest.pidfd, timeout_ms);
}

int cell_guest_stop(struct cell *c, struct cell_error *err)
{
	/* an ephemeral guest of another process does not end before that process lets go of it */
	bool was_killed = c->is_ephemeral && c->guest.pid <= 0;

	cell_closep(&c->guest.stream_fd);
	c->guest.stream_fd = -1;
	auto_fd int pidfd = c->guest.pidfd >= 0 ? steal_fd(c->guest.pidfd) : open_noted(c);
	if (c->is_ephemeral ? pidfd < 0 : !ask_to_end(c))
		was_killed = true; /* or died: nobody can say what it left */
	if (pidfd >= 0 && !cell_process_wait(pidfd, was_killed ? 0 : END_TIMEOUT_MS)) {
		was_killed = true;
		int r = cell_process_kill(pidfd);
		if (r < 0 && r != -ESRCH)
			return cell_fail_errno(err, -r, "kill the guest of cell '%s'", c->name);
		if (!cell_process_wait(pidfd, KILL_TIMEOUT_MS)) {
			r = cell_fail(err, CELL_EBUSY, 0,
				"the guest of cell '%s' (pid %d) was killed but does not end",
				c->name, (int)cell_note_int(c, "guest_pid", 0));
			return cell_error_hint(err, r,
				"it hangs in the kernel, often on a network file system");
		}
	}
	if (c->guest.pid > 0)
		(void)waitpid(c->guest.pid, NULL, WNOHANG | __WALL);
	c->guest.pid = 0;
	if (was_killed)
		end_leftovers(c);
	return 0;
}
