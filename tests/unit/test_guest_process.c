/* SPDX-License-Identifier: Apache-2.0 */
/* test_guest_process.c: real guests beside us (local, subprocess, chroot): who they outlive, what they hold, that
 * nothing of them is left. */
#include <errno.h>
#include <poll.h>
#include <sys/wait.h>

#include "core/guest_process.h"
#include "core/process.h"
#include "scratch.h"

/* The output of a command in the cell, valid until the next call. */
static const char *run(struct cell *c, const char *shell)
{
	static char text[8192];
	struct cell_error err = {0};
	struct cell_result r;

	int ret = cell_run(c, &(struct cell_exec_opts){.shell = shell}, NULL, 0, &r, &err);
	CHECK_(ret == 0, "%s: %s", shell, err.msg);
	(void)snprintf(text, sizeof text, "%s%s", r.out, r.err);
	cell_result_done(&r);
	return text;
}

static struct cell *open_cell(const struct cell_spec *spec)
{
	struct cell_error err = {0};
	struct cell *c = NULL;

	CHECK_(cell_open(spec, &c, &err) == 0, "%s (%s)", err.msg, err.hint);
	return c;
}

struct seen {
	pid_t pid;
	enum cell_state state;
};

static int see(const struct cell_info *info, void *user)
{
	*(struct seen *)user = (struct seen){(pid_t)info->guest_pid, info->state};
	return 0;
}

static struct seen look(const char *name)
{
	struct seen s = {0};

	ASSERT_OK(cell_inspect(name, see, &s, NULL));
	return s;
}

static void wait_until_gone(pid_t pid)
{
	for (int i = 0; i < 2000 && cell_process_start_time(pid); i++)
		(void)usleep(5000);
	ASSERT(!cell_process_start_time(pid));
}

TEST(commands_run_in_the_workspace_of_local_and_subprocess)
{
	static const char *const backends[] = {"local", "subprocess", "trace:fault:local"};

	scratch_make();
	ASSERT(setenv("CELL_TRACE", "/dev/null", 1) == 0);
	for (size_t i = 0; i < 3; i++) {
		struct cell *c = open_cell(&(struct cell_spec){
			.backend = backends[i], .workspace = scratch});
		char want[128];

		(void)snprintf(want, sizeof want, "%s\n", scratch);
		ASSERT_STR(run(c, "pwd"), want);
		ASSERT_OK(cell_close(c, NULL));
		ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
	}
}

TEST(the_current_directory_is_the_default_workspace)
{
	char want[128];

	scratch_make();
	ASSERT(chdir(scratch) == 0);
	struct cell *c = open_cell(&(struct cell_spec){.backend = "local"});
	(void)snprintf(want, sizeof want, "%s\n", scratch);
	ASSERT_STR(run(c, "pwd"), want);
	ASSERT_OK(cell_close(c, NULL));
}

TEST(a_private_home_is_there_and_removed_afterwards)
{
	char home[256];

	scratch_make();
	struct cell *c =
		open_cell(&(struct cell_spec){.backend = "subprocess", .workspace = scratch});
	(void)snprintf(home, sizeof home, "%s", run(c, "printf %s \"$HOME\""));
	ASSERT_HAS(home, scratch);
	ASSERT(access(home, F_OK) == 0);
	(void)run(c, "mkdir -p ~/a/b && echo x > ~/a/b/c && chmod 0 ~/a && echo > $TMPDIR/t");
	ASSERT_OK(cell_close(c, NULL));
	ASSERT(access(home, F_OK) < 0);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(limits_hold_for_every_command)
{
	scratch_make();
	struct cell *c = open_cell(&(struct cell_spec){.backend = "subprocess",
		.workspace = scratch,
		.limits = {.files = 33,
			.file_size_bytes = 4096,
			.process_memory_bytes = 512u << 20,
			.cpu_time_s = 7}});
	ASSERT_STR(run(c, "ulimit -n; ulimit -t; ulimit -v"), "33\n7\n524288\n");
	(void)run(c, "head -c 100000 /dev/zero > big");
	ASSERT_STR(run(c, "wc -c < big"), "4096\n");
	ASSERT_OK(cell_close(c, NULL));
}

TEST(no_descriptor_of_the_caller_reaches_a_guest)
{
	static const char *const names[] = {NULL, "named"};

	scratch_make();
	for (int i = 0; i < 2; i++) {
		int pipe_fds[2];
		struct pollfd p;

		ASSERT(pipe(pipe_fds) == 0); /* inheritable on purpose */
		struct cell *c =
			open_cell(&(struct cell_spec){.backend = "local", .name = names[i]});
		close(pipe_fds[1]);
		p = (struct pollfd){.fd = pipe_fds[0], .events = POLLIN};
		ASSERT(poll(&p, 1, 5000) == 1 && (p.revents & POLLHUP));
		ASSERT_OK(cell_destroy(c, NULL));
		close(pipe_fds[0]);
	}
}

TEST(a_caller_without_standard_descriptors_can_open_a_cell)
{
	int status;

	scratch_make();
	pid_t pid = fork();
	if (pid == 0) {
		struct cell *c;
		struct cell_result r;
		close(0);
		close(1);
		close(2);
		if (cell_open(&(struct cell_spec){.backend = "local"}, &c, NULL) < 0)
			_exit(1);
		if (cell_run(c, &(struct cell_exec_opts){.shell = "echo hello"}, NULL, 0, &r,
			    NULL) < 0)
			_exit(2);
		_exit(strcmp(r.out, "hello\n") ? 3 : cell_close(c, NULL) ? 4 : 0);
	}
	ASSERT(waitpid(pid, &status, 0) == pid);
	ASSERT_EQ(status, 0);
}

TEST(signals_blocked_or_ignored_by_the_caller_are_normal_in_a_cell)
{
	sigset_t all;

	scratch_make();
	(void)signal(SIGUSR1, SIG_IGN);
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	struct cell *c = open_cell(&(struct cell_spec){.backend = "local"});
	ASSERT_STR(run(c, "grep -E '^Sig(Blk|Ign)' /proc/self/status | tr -d '\\t'"),
		"SigBlk:0000000000000000\nSigIgn:0000000000000000\n");
	ASSERT_OK(cell_close(c, NULL));
}

TEST(an_ephemeral_guest_and_its_commands_die_with_their_owner)
{
	int ready[2], status;
	pid_t guest, command;
	char text[64] = "";

	scratch_make();
	ASSERT(pipe(ready) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct cell *c = open_cell(&(struct cell_spec){.backend = "local"});
		const char *out = run(c, "setsid sleep 300 >/dev/null 2>&1 & echo $!");
		char line[64];
		int n = snprintf(line, sizeof line, "%d %s", (int)look(cell_name(c)).pid, out);
		if (write(ready[1], line, (size_t)n) > 0)
			(void)pause();
		_exit(1);
	}
	ASSERT(read(ready[0], text, sizeof text - 1) > 0);
	ASSERT(sscanf(text, "%d %d", &guest, &command) == 2);
	ASSERT(cell_process_start_time(guest) && cell_process_start_time(command));
	ASSERT(kill(pid, SIGKILL) == 0 && waitpid(pid, &status, 0) == pid);
	wait_until_gone(guest);
	wait_until_gone(command);
	ASSERT_EQ(ASSERT_OK(cell_prune(NULL, NULL, NULL)), 1);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

static void make_named_elsewhere(const struct cell_spec *spec)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct cell *c = open_cell(spec);
		_exit(cell_close(c, NULL) ? 1 : 0);
	}
	ASSERT(waitpid(pid, &status, 0) == pid);
	ASSERT_EQ(status, 0);
}

TEST(a_named_guest_outlives_its_maker_and_ends_when_removed)
{
	struct cell *c;

	scratch_make();
	make_named_elsewhere(&(struct cell_spec){.backend = "subprocess", .name = "x"});
	struct seen s = look("x");
	ASSERT_EQ(s.state, CELL_STATE_READY);
	ASSERT(cell_process_start_time(s.pid));
	ASSERT_OK(cell_reopen("x", &c, NULL));
	ASSERT_STR(run(c, "echo hello"), "hello\n");
	ASSERT_OK(cell_close(c, NULL));
	ASSERT(cell_process_start_time(s.pid));
	ASSERT_OK(cell_remove("x", NULL));
	ASSERT(!cell_process_start_time(s.pid));
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(a_killed_guest_is_dead_gone_and_replaced)
{
	struct cell_error err = {0};
	struct cell *c;

	scratch_make();
	make_named_elsewhere(&(struct cell_spec){.backend = "local", .name = "x"});
	struct seen s = look("x");
	ASSERT_OK(cell_reopen("x", &c, NULL));
	pid_t command = (pid_t)strtol(run(c, "sleep 300 >/dev/null 2>&1 & echo $!"), NULL, 10);
	ASSERT(cell_process_start_time(command));
	ASSERT(kill(s.pid, SIGKILL) == 0);
	wait_until_gone(s.pid);
	ASSERT_OK(cell_close(c, NULL));
	ASSERT_EQ(look("x").state, CELL_STATE_DEAD);
	ASSERT(cell_reopen("x", &c, &err) < 0);
	ASSERT_EQ(err.code, CELL_EGONE);
	wait_until_gone(command);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
	make_named_elsewhere(&(struct cell_spec){.backend = "local", .name = "x"});
	ASSERT_OK(cell_remove("x", NULL));
}

TEST(a_pid_used_again_is_not_taken_for_the_guest)
{
	scratch_make();
	(void)usleep(
		100000); /* start times are ticks of 10 ms: ours must differ from the guest's */
	make_named_elsewhere(&(struct cell_spec){.backend = "local", .name = "x"});
	struct seen s = look("x");
	ASSERT(kill(s.pid, SIGKILL) == 0);
	wait_until_gone(s.pid);
	/* as if the pid were ours now */
	char text[8192] = "", *at;
	int fd = open(scratch_path("state/cells/x/cell.json"), O_RDWR | O_CLOEXEC);
	ASSERT(read(fd, text, sizeof text - 1) > 0);
	at = strstr(text, "\"guest_pid\": ");
	ASSERT(at);
	char *end = at + strcspn(at, ",\n");
	char changed[8192];
	int n = snprintf(changed, sizeof changed, "%.*s\"guest_pid\": %d%s", (int)(at - text), text,
		(int)getpid(), end);
	ASSERT(pwrite(fd, changed, (size_t)n, 0) == n && ftruncate(fd, n) == 0);
	close(fd);
	ASSERT_EQ(look("x").pid, getpid());
	ASSERT_EQ(look("x").state, CELL_STATE_DEAD);
	ASSERT_OK(cell_remove("x", NULL)); /* and we are still here */
}

TEST_SLOW(a_guest_that_hangs_is_removed_all_the_same, 90)
{
	scratch_make();
	make_named_elsewhere(&(struct cell_spec){.backend = "local", .name = "x"});
	struct seen s = look("x");
	ASSERT(kill(s.pid, SIGSTOP) == 0);
	ASSERT_OK(cell_remove("x", NULL));
	wait_until_gone(s.pid);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST_SLOW(a_guest_whose_pid_was_never_noted_is_found_and_ended, 90)
{
	static const char *const texts[] = {"garbage",
		"{\"version\": 1, \"name\": \"x\", \"backend\": \"local\", \"state\": "
		"\"creating\"}"};

	scratch_make();
	for (int i = 0; i < 2; i++) {
		make_named_elsewhere(&(struct cell_spec){.backend = "local", .name = "x"});
		struct seen s = look("x");
		scratch_write(scratch_path("state/cells/x/cell.json"), texts[i]);
		if (i == 0)
			ASSERT_OK(cell_remove("x", NULL));
		else
			ASSERT_EQ(ASSERT_OK(cell_prune(NULL, NULL, NULL)), 1);
		wait_until_gone(s.pid);
		ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
	}
}

TEST_SLOW(after_a_crash_at_any_point_no_guest_is_left, 120)
{
	static const char *const points[] = {"create:*:kill", "create:*:after=kill",
		"open_guest:*:kill", "open_guest:*:after=kill", "destroy:*:kill",
		"destroy:*:after=kill"};
	static const char *const names[] = {NULL, "x"};

	scratch_make();
	for (size_t n = 0; n < 2; n++) {
		for (size_t i = 0; i < sizeof points / sizeof *points; i++) {
			struct cell_spec spec = {.backend = "fault:subprocess", .name = names[n]};
			int status;
			pid_t pid = fork();

			if (pid == 0) {
				struct cell *c;
				(void)setenv("CELL_FAULT", points[i], 1);
				if (cell_open(&spec, &c, NULL) == 0)
					(void)cell_destroy(c, NULL);
				_exit(0);
			}
			ASSERT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
			struct seen s = {0};
			ASSERT_OK(cell_list(see, &s, NULL));
			if (cell_prune(NULL, NULL, NULL) == 0 && names[n])
				ASSERT_OK(cell_remove("x",
					NULL)); /* ready, then its remover died */
			ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
			if (s.pid)
				wait_until_gone(s.pid);
		}
	}
}

TEST(a_state_directory_with_a_very_long_path_works)
{
	char path[300];
	struct cell *c;

	scratch_make();
	int n = snprintf(path, sizeof path, "%s/", scratch);
	memset(path + n, 'l', 200);
	path[n + 200] = '\0';
	ASSERT(setenv("CELL_STATE_DIR", path, 1) == 0);
	make_named_elsewhere(&(struct cell_spec){.backend = "local", .name = "x"});
	ASSERT_OK(cell_reopen("x", &c, NULL));
	ASSERT_STR(run(c, "echo hello"), "hello\n");
	ASSERT_OK(cell_destroy(c, NULL));
}

TEST(the_image_cannot_be_written_to)
{
	int fd = ASSERT_OK(cell_guest_image(AT_FDCWD, NULL));

	ASSERT(write(fd, "x", 1) < 0);
	ASSERT(ftruncate(fd, 0) < 0);
	ASSERT(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	char magic[4];
	ASSERT(pread(fd, magic, 4, 0) == 4 && !memcmp(magic,
						      "\x7f"
						      "ELF",
						      4));
	close(fd);
}

TEST(many_cells_at_once_stay_apart)
{
	struct cell *cells[20];
	char want[16];

	scratch_make();
	for (int i = 0; i < 20; i++)
		cells[i] = open_cell(&(struct cell_spec){.backend = "local"});
	for (int i = 0; i < 20; i++) {
		char shell[32];
		(void)snprintf(shell, sizeof shell, "echo %d", i);
		(void)snprintf(want, sizeof want, "%d\n", i);
		ASSERT_STR(run(cells[i], shell), want);
	}
	for (int i = 0; i < 20; i++)
		ASSERT_OK(cell_close(cells[i], NULL));
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

/* A tree with nothing in it but links into /usr, which is mounted read-only. */
static const struct cell_mount usr[] = {{"/usr", "/usr", true}};

static struct cell_spec tree_spec(void)
{
	static const char *const links[] = {"bin", "lib", "lib64", "sbin"};
	char target[32];

	if (geteuid() != 0)
		SKIP("chroot needs root");
	ASSERT(mkdir(scratch_path("tree"), 0755) == 0);
	for (size_t i = 0; i < 4; i++) {
		(void)snprintf(target, sizeof target, "usr/%s", links[i]);
		ASSERT(symlink(target, scratch_path("tree/%s", links[i])) == 0);
	}
	scratch_write(scratch_path("tree/mark"), "in the tree");
	return (struct cell_spec){.backend = "chroot", .mounts = usr, .n_mounts = 1};
}

/* Those that have to do with this test: others come and go on a machine that is used. */
static int mounts_of_host(void)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	char *line = NULL;
	size_t cap = 0;
	int n = 0;

	ASSERT(f);
	while (getline(&line, &cap, f) > 0)
		n += strstr(line, scratch_path("%s", "")) != NULL;
	free(line);
	(void)fclose(f);
	return n;
}

TEST(chroot_shows_the_tree_and_nothing_else)
{
	scratch_make();
	struct cell_spec spec = tree_spec();
	ASSERT(mkdir(scratch_path("ws"), 0755) == 0);
	scratch_write(scratch_path("ws/f"), "of the host");
	char root[128], ws[128];
	(void)snprintf(root, sizeof root, "%s", scratch_path("tree"));
	(void)snprintf(ws, sizeof ws, "%s", scratch_path("ws"));
	spec.root = root;
	spec.workspace = ws;
	int before = mounts_of_host();
	struct cell *c = open_cell(&spec);
	ASSERT_EQ(mounts_of_host(), before);
	ASSERT_STR(run(c, "cat /mark"), "in the tree");
	ASSERT_STR(run(c, "pwd; cat f"), "/workspace\nof the host");
	ASSERT_STR(run(c, "test -e /etc/passwd || echo none"), "none\n");
	ASSERT_STR(run(c, "touch /usr/x 2>/dev/null || echo ro"), "ro\n");
	ASSERT_STR(run(c, "echo x > /dev/null && head -c 2 /dev/zero | wc -c"), "2\n");
	ASSERT_STR(run(c, "echo made > /workspace/new; cat /proc/self/mountinfo | grep -c state || "
			  ":"),
		"1\n"); /* its spool */
	ASSERT_OK(cell_close(c, NULL));
	ASSERT_EQ(mounts_of_host(), before);
	ASSERT(access(scratch_path("ws/new"), F_OK) == 0);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(chroot_leaves_nothing_mounted_after_kill_9)
{
	int status;
	char root[128];

	scratch_make();
	struct cell_spec spec = tree_spec();
	(void)snprintf(root, sizeof root, "%s", scratch_path("tree"));
	spec.root = root;
	spec.name = "x";
	int before = mounts_of_host();
	make_named_elsewhere(&spec);
	struct seen s = look("x");
	ASSERT(kill(s.pid, SIGKILL) == 0);
	wait_until_gone(s.pid);
	ASSERT_EQ(ASSERT_OK(cell_prune(NULL, NULL, NULL)), 1);
	spec.name = NULL;
	pid_t pid = fork();
	if (pid == 0) {
		(void)open_cell(&spec);
		(void)kill(getpid(), SIGKILL);
	}
	ASSERT(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	ASSERT_EQ(ASSERT_OK(cell_prune(NULL, NULL, NULL)), 1);
	ASSERT_EQ(mounts_of_host(), before);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(links_of_a_hostile_tree_do_not_reach_the_host)
{
	char root[128];

	scratch_make();
	struct cell_spec spec = tree_spec();
	ASSERT(mkdir(scratch_path("victim"), 0755) == 0);
	ASSERT(symlink(scratch_path("victim"), scratch_path("tree/workspace")) == 0);
	ASSERT(symlink("../../../../../../../../etc", scratch_path("tree/proc")) == 0);
	(void)snprintf(root, sizeof root, "%s", scratch_path("tree"));
	spec.root = root;
	int before = mounts_of_host();
	struct cell_error err = {0};
	struct cell *c;
	if (cell_open(&spec, &c, &err) == 0) {
		(void)run(c, "echo x > /workspace/f");
		ASSERT_OK(cell_close(c, NULL));
	}
	ASSERT_EQ(scratch_entries(scratch_path("victim")), 0);
	ASSERT_EQ(mounts_of_host(), before);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}

TEST(chroot_says_what_it_needs_and_what_failed)
{
	struct cell_error err = {0};
	struct cell *c;
	char root[128];

	scratch_make();
	struct cell_spec spec = tree_spec();
	ASSERT_ERR(cell_open(&spec, &c, &err), -EINVAL);
	ASSERT_HAS(err.msg, "needs a root tree");
	spec.root = "/";
	ASSERT_ERR(cell_open(&spec, &c, &err), -EINVAL);
	(void)snprintf(root, sizeof root, "%s", scratch_path("tree"));
	spec.root = root;
	spec.mounts = (const struct cell_mount[]){{"/nonexistent", "/x", false}};
	ASSERT_ERR(cell_open(&spec, &c, &err), -ENOENT);
	ASSERT_HAS(err.msg, "/nonexistent");
	spec.mounts = (const struct cell_mount[]){{"/usr", "/a/../../x", false}};
	ASSERT_ERR(cell_open(&spec, &c, &err), -EINVAL);
	ASSERT_EQ(scratch_entries(scratch_path("state/cells")), 0);
}
