/* SPDX-License-Identifier: Apache-2.0 */
/* client.c: see client.h. */
#include "backends/jail/client.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "core/guest_process.h"
#include "core/process.h"

#define HELLO_TIMEOUT_MS 30000
#define LEAST_FILES	 128 /* of the launcher: its own, and a first process's beside them */

static struct {
	pthread_mutex_t lock;
	int fd; /* to the launcher, -1 */
	pid_t pid;
	pid_t owner; /* who started it: a fork of us needs one of its own */
	uid_t uid;   /* and as whom */
	struct launcher_reply hello;
} launcher = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

static int refuse_foreign(const char *path, struct cell_error *err)
{
	int r = cell_fail(err, CELL_EDENIED, EPERM, "'%s' is another user's, or open to others",
		path);

	return cell_error_hint(err, r, "remove it; Cell makes it again");
}

/* One place for each user of the machine, whatever CELL_STATE_DIR says: the numbers are the machine's.
 * Not guessed from the environment, for the same reason. */
static int open_slots(struct cell_error *err)
{
	char path[64];
	struct stat st;
	uid_t uid = geteuid();

	if (uid == 0)
		(void)snprintf(path, sizeof path, "/run");
	else
		(void)snprintf(path, sizeof path, "/run/user/%u", uid);
	auto_fd int base = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (base < 0 || fstat(base, &st) < 0 || st.st_uid != uid ||
		faccessat(base, ".", W_OK, 0) < 0) {
		(void)snprintf(path, sizeof path, "/tmp/cell-%u", uid);
		if (mkdir(path, 0700) < 0 && errno != EEXIST)
			return cell_fail_errno(err, errno, "make '%s'", path);
		cell_closep(&base);
		base = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		/* in /tmp anybody may have made it, to change below us what we take for our locks */
		if (base >= 0 && fstat(base, &st) == 0 && (st.st_uid != uid || (st.st_mode & 0022)))
			return refuse_foreign(path, err);
	}
	if (base >= 0 && mkdirat(base, "cell", 0700) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "make '%s/cell'", path);
	auto_fd int fd =
		base < 0 ? -1
			 : openat(base, "cell", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "open '%s/cell'", path);
	if (st.st_uid != uid || (st.st_mode & 0022)) {
		(void)snprintf(path + strlen(path), sizeof path - strlen(path), "/cell");
		return refuse_foreign(path, err);
	}
	return steal_fd(fd);
}

/* Said here: further on it would be said by whatever happens to need the next one. */
static int check_files(struct cell_error *err)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_max >= LEAST_FILES)
		return 0;
	int r = cell_fail(err, CELL_ENOTSUP, EMFILE,
		"start the launcher: it needs %d open files, the hard limit is %llu", LEAST_FILES,
		(unsigned long long)files.rlim_max);
	return cell_error_hint(err, r, "raise it (`ulimit -Hn`, LimitNOFILE=) to 1024");
}

static int start(struct cell_error *err)
{
	static char name[] = "cell-launcher";
	char *const argv[] = {name, NULL}, *const envp[] = {NULL};
	int pair[2];

	if (launcher.fd >= 0)
		close(launcher.fd);
	if (launcher.fd >= 0 && launcher.owner == getpid())
		(void)waitpid(launcher.pid, NULL, WNOHANG | __WALL);
	launcher.fd = -1;
	launcher.hello = (struct launcher_reply){0};
	int r = check_files(err);
	if (r < 0)
		return r;
	auto_fd int slots = open_slots(err);
	if (slots < 0)
		return slots;
	auto_fd int image = cell_launcher_image(slots, err);
	if (image < 0)
		return image;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cell_fail_errno(err, errno, "make a socket pair for the launcher");
	auto_fd int theirs = pair[1];
	struct cell_spawn s = {.image_fd = image, .argv = argv, .envp = envp, .pass_fd = theirs};
	_Static_assert(CELL_SPAWN_FD == LAUNCHER_SOCKET_FD, "the launcher knows the number");
	r = cell_process_spawn(&s);
	if (r < 0) {
		close(pair[0]);
		(void)cell_fail_errno(err, -r, "start the launcher");
		return r != -EACCES ? r
				    : cell_error_hint(err, r,
					      "allow memfds to be executed: sysctl "
					      "vm.memfd_noexec=1 or less");
	}
	launcher.fd = pair[0];
	launcher.pid = s.pid;
	launcher.owner = getpid();
	launcher.uid = geteuid();
	return 0;
}

static int send_on(int fd, const struct launcher_request *rq, struct cell_error *err)
{
	char buf[LAUNCHER_MAX_REQUEST];
	int fds[LAUNCHER_MAX_FDS];
	size_t n_fds = 0;
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof fds)];
	} control;
	int len = launcher_pack(rq, buf, fds, &n_fds);

	if (len < 0)
		return cell_fail(err, CELL_EINVAL, -len,
			"ask the launcher: the request is too long or malformed");
	struct iovec iov = {.iov_base = buf, .iov_len = (size_t)len};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = CMSG_SPACE(n_fds * sizeof(int))};
	memset(&control, 0, sizeof control);
	control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(n_fds * sizeof(int)),
		.cmsg_level = SOL_SOCKET,
		.cmsg_type = SCM_RIGHTS};
	memcpy(CMSG_DATA(&control.head), fds, n_fds * sizeof(int));
	while (sendmsg(fd, &m, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static int fail_dead(struct cell_error *err)
{
	int r = cell_fail(err, CELL_EBACKEND, ECONNRESET, "the launcher died while it was asked");

	return cell_error_hint(err, r, "try again: it is started anew");
}

int jail_client_receive(int control_fd, int timeout_ms, struct launcher_reply *ret, int *ret_fd,
	struct cell_error *err)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = ret, .iov_len = sizeof *ret};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof control};
	struct pollfd p = {.fd = control_fd, .events = POLLIN};
	ssize_t n;

	if (ret_fd)
		*ret_fd = -1;
	if (timeout_ms >= 0) {
		int r = poll(&p, 1, timeout_ms);
		if (r == 0)
			return cell_fail(err, CELL_ETIMEOUT, ETIMEDOUT,
				"the launcher does not answer");
	}
	do
		n = recvmsg(control_fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		c->cmsg_len == CMSG_LEN(sizeof(int))) {
		int fd;
		memcpy(&fd, CMSG_DATA(c), sizeof fd);
		if (ret_fd)
			*ret_fd = fd;
		else
			close(fd);
	}
	if (n != (ssize_t)sizeof *ret || ret->magic != LAUNCHER_MAGIC)
		return fail_dead(err);
	ret->text[sizeof ret->text - 1] = '\0';
	return 0;
}

/* With the lock held. Starts it and asks, unless that was done. */
static int be_ready(struct cell_error *err)
{
	auto_fd int ours = -1;
	auto_fd int theirs = -1;
	int pair[2];

	if (launcher.fd >= 0 && launcher.owner == getpid() && launcher.hello.answer)
		return 0;
	/* privileges were dropped since: another launcher would be a weaker one, and know nothing of the cells there are */
	if (launcher.pid > 0 && launcher.owner == getpid() && launcher.uid != geteuid()) {
		int dead = cell_fail(err, CELL_EBACKEND, ECHILD,
			"the launcher has died, and this process may not start another");
		return cell_error_hint(err, dead, "restart the server; its cells go on meanwhile");
	}
	int r = start(err);
	if (r < 0)
		return r;
	auto_fd int slots = open_slots(err);
	if (slots < 0)
		return slots;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cell_fail_errno(err, errno, "make a socket pair for the launcher");
	ours = pair[0];
	theirs = pair[1];
	struct launcher_request rq = LAUNCHER_REQUEST_INIT(LAUNCHER_HELLO);
	rq.control_fd = theirs;
	rq.slots_fd = slots;
	r = send_on(launcher.fd, &rq, err);
	if (r == -EPIPE || r == -ECONNRESET)
		return fail_dead(err);
	if (r < 0)
		return cell_fail_errno(err, -r, "ask the launcher");
	cell_closep(&theirs);
	theirs = -1;
	return jail_client_receive(ours, HELLO_TIMEOUT_MS, &launcher.hello, NULL, err);
}

int jail_client_hello(struct launcher_reply *ret, struct cell_error *err)
{
	(void)pthread_mutex_lock(&launcher.lock);
	int r = be_ready(err);
	*ret = launcher.hello;
	(void)pthread_mutex_unlock(&launcher.lock);
	if (r == 0 && ret->answer == LAUNCHER_FAILED)
		r = jail_explain(ret, err);
	return r;
}

int jail_client_send(struct launcher_request *rq, struct cell_error *err)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return cell_fail_errno(err, errno, "make a socket pair for the launcher");
	auto_fd int ours = pair[0];
	auto_fd int theirs = pair[1];
	rq->control_fd = theirs;
	rq->slots_fd = -1;
	(void)pthread_mutex_lock(&launcher.lock);
	int r = be_ready(err);
	if (r == 0 && (r = send_on(launcher.fd, rq, err)) == -EPIPE) {
		launcher.hello.answer = 0; /* it died since: once more */
		r = be_ready(err);
		if (r == 0)
			r = send_on(launcher.fd, rq, err);
	}
	if (r == -EPIPE || r == -ECONNRESET)
		r = fail_dead(err);
	(void)pthread_mutex_unlock(&launcher.lock);
	return r < 0 ? r : steal_fd(ours);
}

int jail_client_userns(struct cell_error *err)
{
	char path[48];

	(void)pthread_mutex_lock(&launcher.lock);
	(void)snprintf(path, sizeof path, "/proc/%d/ns/user", (int)launcher.pid);
	(void)pthread_mutex_unlock(&launcher.lock);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? cell_fail_errno(err, errno, "find the launcher's user namespace") : fd;
}

int jail_client_image(struct cell_error *err)
{
	auto_fd int slots = open_slots(err);

	return slots < 0 ? slots : cell_launcher_image(slots, err);
}
