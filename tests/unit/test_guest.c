/* SPDX-License-Identifier: Apache-2.0 */
/* test_guest.c: the whole guest, natively, in situations that its client library never makes. */
#include "guest_host.h"

static bool wait_for_file(const char *dir, const char *name)
{
	char path[128];
	struct stat st;

	(void)snprintf(path, sizeof path, "%s/%s", dir, name);
	for (int i = 0; i < HOST_PATIENCE_MS / 10; i++) {
		if (stat(path, &st) == 0 && st.st_size > 0)
			return true;
		(void)usleep(10000);
	}
	return false;
}

static pid_t pid_in_file(const char *dir, const char *name)
{
	char path[128], text[32] = "";

	(void)snprintf(path, sizeof path, "%s/%s", dir, name);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ASSERT(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
	return (pid_t)strtol(text, NULL, 10);
}

static bool is_gone(pid_t pid)
{
	for (int i = 0; i < HOST_PATIENCE_MS / 10; i++) {
		if (kill(pid, 0) < 0 && errno == ESRCH)
			return true;
		(void)usleep(10000);
	}
	return false;
}

/* Bytes sent straight from the pipe move the ring's head; what comes after must still fit. dd writes each
 * block at once, so the guest finds it whole: four go straight, the last is too small for that. */
TEST(output_with_a_pause_before_the_end_of_the_ring_is_whole)
{
	static const size_t fourth[] = {65535, 65536, 60000, 20000};

	for (size_t i = 0; i < sizeof fourth / sizeof *fourth; i++) {
		struct host h = {0};
		struct client c;
		auto_answer struct answer a;
		char script[300];
		size_t before = 3 * 65536 + fourth[i];

		host_start(&h, false);
		ASSERT(client_open(&c, &h));
		c.keep = 1; /* as little as can be: then pipes are spliced */
		(void)snprintf(script, sizeof script,
			"yes 0123456 | head -c 65536 >f; b() { dd if=f bs=$1 count=1 status=none; "
			"sleep 0.1; }; b 65536; b 65536; b 65536; b %zu; echo hello; sleep 0.1; "
			"b 15000",
			fourth[i]);
		ASSERT(client_finish(&c, client_shell(&c, script, "x", 0, 0), &a));
		ASSERT_EQ(answer_u64(&a, WIRE_T_EXIT_CODE), 0);
		ASSERT_EQ(answer_u64(&a, WIRE_T_OUT_OFFSET), before + 15006);
		ASSERT_EQ(a.out.len, before + 15006);
		ASSERT(memcmp(a.out.data + before, "hello\n0123456\n", 14) == 0);
		client_close(&c);
		ASSERT_EQ(host_wait(&h), 0);
	}
}

TEST(a_watch_does_not_keep_the_stdin_of_others_open)
{
	struct host h = {0};
	struct client c;
	auto_answer struct answer a;
	auto_buf struct buf b = BUF_INIT(256);
	struct wire_header f;
	const uint8_t *p;

	host_start(&h, true);
	ASSERT(client_open(&c, &h));
	uint32_t cat = client_shell(&c, "cat", "x", CELL_EXEC_STDIN, 0);
	(void)wire_put_str(&b, WIRE_T_PATH, "write");
	uint32_t upload = client_request(&c, WIRE_OP_WRITE, &b);
	buf_reset(&b);
	(void)wire_put_str(&b, WIRE_T_PATH, ".");
	(void)client_request(&c, WIRE_OP_WATCH, &b);
	/* answered when the watch has been forked: one loop, in order */
	(void)client_send(&c, WIRE_PING, 0, 0, NULL, 0, NULL, 0);
	do {
		ASSERT_EQ(client_next(&c, HOST_PATIENCE_MS, &f, &p), 1);
	} while (f.type != WIRE_PONG);
	ASSERT(client_send_u64(&c, WIRE_DATA, WIRE_CHAN_IN, upload, 0, "hi", 2));
	ASSERT(client_send_u64(&c, WIRE_EOF, WIRE_CHAN_IN, upload, 2, NULL, 0));
	ASSERT(client_finish(&c, upload, &a));
	ASSERT_EQ(answer_u64(&a, WIRE_T_CODE), 0);
	answer_done(&a);
	ASSERT(client_send_u64(&c, WIRE_EOF, WIRE_CHAN_IN, cat, 0, NULL, 0));
	ASSERT(client_finish(&c, cat, &a));
	ASSERT_EQ(answer_u64(&a, WIRE_T_EXIT_CODE), 0);
	client_close(&c);
	host_stop(&h);
}

TEST(a_command_that_kills_its_keeper_leaves_nothing_running)
{
	struct host h = {0};
	struct client c;
	auto_answer struct answer a;

	host_start(&h, true);
	ASSERT(client_open(&c, &h));
	uint32_t s = client_shell(&c,
		"(setsid sh -c 'sh -c \"echo \\$\\$ >far; sleep 600; :\"; :' &); "
		"(setsid sh -c 'echo $$ >near; exec sleep 600' &); "
		"while [ ! -s far ] || [ ! -s near ]; do sleep 0.01; done; "
		"kill -9 $PPID; sleep 600",
		"x", 0, 0);
	ASSERT(client_finish(&c, s, &a));
	ASSERT_EQ(answer_u64(&a, WIRE_T_SIGNAL), SIGKILL);
	ASSERT(is_gone(pid_in_file(h.dir, "near")));
	ASSERT(is_gone(pid_in_file(h.dir, "far")));
	answer_done(&a);
	/* and the others of the cell are not touched */
	ASSERT(client_finish(&c, client_shell(&c, "echo still", "y", 0, 0), &a));
	ASSERT_STR(buf_str(&a.out), "still\n");
	client_close(&c);
	host_stop(&h);
}

TEST(other_commands_survive_when_one_kills_its_keeper)
{
	struct host h = {0};
	struct client c;
	auto_answer struct answer a, b;

	host_start(&h, true);
	ASSERT(client_open(&c, &h));
	uint32_t cat = client_shell(&c, "echo $$ >cat; exec cat", "x", CELL_EXEC_STDIN, 0);
	ASSERT(wait_for_file(h.dir, "cat"));
	ASSERT(client_finish(&c, client_shell(&c, "kill -9 $PPID; sleep 600", "y", 0, 0), &a));
	ASSERT(client_send_u64(&c, WIRE_DATA, WIRE_CHAN_IN, cat, 0, "alive", 5));
	ASSERT(client_send_u64(&c, WIRE_EOF, WIRE_CHAN_IN, cat, 5, NULL, 0));
	ASSERT(client_finish(&c, cat, &b));
	ASSERT_STR(buf_str(&b.out), "alive");
	answer_done(&b);
	client_close(&c);
	host_stop(&h);
}

TEST(a_killed_guest_takes_every_descendant_with_it)
{
	struct host h = {0};
	struct client c;

	host_start(&h, true);
	ASSERT(client_open(&c, &h));
	(void)client_shell(&c,
		"(setsid sh -c 'trap \"\" TERM HUP; echo $$ >far; sleep 600; :' &); "
		"trap '' TERM; sleep 600; :",
		"x", 0, 0);
	ASSERT(wait_for_file(h.dir, "far"));
	ASSERT(kill(h.pid, SIGKILL) == 0);
	ASSERT_EQ(host_wait(&h), SIGKILL);
	client_close(&c);
}

TEST(a_full_queue_of_signals_does_not_keep_the_guest_from_leaving)
{
	struct host h = {.sigpending_none = 1};
	struct client c;

	host_start(&h, false);
	ASSERT(client_open(&c, &h));
	(void)client_shell(&c, "echo $$ >it; exec sleep 600", "x", 0, 0);
	ASSERT(wait_for_file(h.dir, "it"));
	client_close(&c);
	ASSERT_EQ(host_wait(&h), 0);
}

TEST(a_guest_that_leaves_begins_nothing_more)
{
	struct host h = {0};
	struct client c;
	auto_answer struct answer told, refused;

	host_start(&h, true);
	ASSERT(client_open(&c, &h));
	(void)client_shell(&c, "echo $$ >it; exec sleep 600", "x", 0, 0);
	ASSERT(wait_for_file(h.dir, "it"));
	/* both are there before the first command is dead */
	ASSERT(kill(h.pid, SIGSTOP) == 0);
	uint32_t leave = client_request(&c, WIRE_OP_SHUTDOWN, NULL);
	uint32_t late = client_shell(&c, "exec sleep 600", "y", 0, 0);
	ASSERT(kill(h.pid, SIGCONT) == 0);
	ASSERT(client_finish(&c, late, &refused));
	ASSERT_EQ(answer_u64(&refused, WIRE_T_CODE), CELL_EGONE);
	ASSERT(client_finish(&c, leave, &told));
	ASSERT_EQ(answer_u64(&told, WIRE_T_CODE), CELL_OK);
	client_close(&c);
	ASSERT_EQ(host_wait(&h), 0);
}

static uint64_t cpu_ms_of(pid_t pid)
{
	char path[64], text[600];
	unsigned long user = 0, sys = 0;

	(void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	ASSERT(n > 0);
	text[n] = '\0';
	char *p = strrchr(text, ')');
	ASSERT(p);
	p += 2;
	for (int field = 3; field < 14; field++)
		p = strchr(p, ' ') + 1;
	user = strtoul(p, &p, 10);
	sys = strtoul(p, NULL, 10);
	return (user + sys) * 1000u / (unsigned long)sysconf(_SC_CLK_TCK);
}

TEST(a_guest_without_fds_sends_clients_away_and_does_not_spin)
{
	struct host h = {.nofile = 24};
	struct client c[40];
	int n_refused = 0;

	host_start(&h, true);
	for (int i = 0; i < 40; i++)
		(void)client_open(&c[i], &h);
	for (int i = 0; i < 40; i++) {
		struct wire_header f;
		const uint8_t *p;

		ASSERT_EQ(client_next(&c[i], HOST_PATIENCE_MS, &f, &p), 1);
		if (f.type == WIRE_GOAWAY) {
			ASSERT_EQ(wire_find_u64(p, f.len, WIRE_T_CODE, 0), CELL_ELIMIT);
			n_refused++;
		} else {
			ASSERT_EQ(f.type, WIRE_HELLO);
		}
	}
	ASSERT(n_refused > 10 && n_refused < 40);
	uint64_t before = cpu_ms_of(h.pid);
	(void)usleep(500000);
	ASSERT(cpu_ms_of(h.pid) - before < 250);
	for (int i = 0; i < 40; i++)
		client_close(&c[i]);
	(void)usleep(100000);
	host_stop(&h);
}

TEST(the_257th_client_is_told_why_it_is_sent_away)
{
	static struct client c[WIRE_MAX_CLIENTS + 1];
	struct host h = {0};
	struct wire_header f;
	const uint8_t *p;

	host_start(&h, true);
	for (size_t i = 0; i < WIRE_MAX_CLIENTS; i++) {
		ASSERT(client_open(&c[i], &h));
		ASSERT_EQ(client_next(&c[i], HOST_PATIENCE_MS, &f, &p), 1);
		ASSERT_EQ(f.type, WIRE_HELLO);
	}
	(void)client_open(&c[WIRE_MAX_CLIENTS], &h);
	ASSERT_EQ(client_next(&c[WIRE_MAX_CLIENTS], HOST_PATIENCE_MS, &f, &p), 1);
	ASSERT_EQ(f.type, WIRE_GOAWAY);
	ASSERT_EQ(wire_find_u64(p, f.len, WIRE_T_CODE, 0), CELL_ELIMIT);
	for (size_t i = 0; i <= WIRE_MAX_CLIENTS; i++)
		client_close(&c[i]);
	(void)usleep(100000);
	host_stop(&h);
}

/* Past a soft limit of 1,024 fds there is room for commands, and commands do not see the guest's own. */
TEST(commands_keep_the_limit_of_open_files_the_guest_was_started_with)
{
	struct host h = {0};
	struct client c;
	auto_answer struct answer a;
	struct rlimit was;
	char want[32];

	ASSERT(getrlimit(RLIMIT_NOFILE, &was) == 0);
	was.rlim_cur = was.rlim_max < 512 ? was.rlim_max : 512;
	ASSERT(setrlimit(RLIMIT_NOFILE, &was) == 0);
	host_start(&h, true);
	ASSERT(client_open(&c, &h));
	ASSERT(client_finish(&c, client_shell(&c, "ulimit -n", "x", 0, 0), &a));
	(void)snprintf(want, sizeof want, "%llu\n", (unsigned long long)was.rlim_cur);
	ASSERT_STR(buf_str(&a.out), want);
	client_close(&c);
	host_stop(&h);
}

static void make_file(const char *dir, const char *name)
{
	char path[128];

	(void)snprintf(path, sizeof path, "%s/%s", dir, name);
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	ASSERT(fd >= 0);
}

/* The guest has promised a frame of bytes that are in the pipe; the socket is full; the command takes them
 * back. */
TEST(a_command_that_reads_its_own_stdout_does_not_hang_its_reader)
{
	struct host h = {0};
	struct client c;
	auto_answer struct answer a;

	host_start(&h, false);
	ASSERT(client_open(&c, &h));
	c.keep = 1;
	c.window = WIRE_MAX_WINDOW; /* more than the socket takes */
	uint32_t s = client_shell(&c,
		"dd if=/dev/zero bs=65536 count=50 status=none & while [ ! -e go ]; do sleep 0.01; "
		"done; "
		"timeout 1 cat </proc/self/fd/1 >/dev/null; wait",
		"x", 0, 15000);
	(void)usleep(300000);
	make_file(h.dir, "go");
	(void)usleep(300000);
	ASSERT(client_finish(&c, s, &a));
	ASSERT_EQ(answer_u64(&a, WIRE_T_TIMED_OUT), 0);
	client_close(&c);
	ASSERT_EQ(host_wait(&h), 0);
}

TEST(a_user_name_that_cannot_be_read_runs_nothing)
{
	struct host h = {0};
	struct client c;
	auto_answer struct answer a;
	auto_buf struct buf b = BUF_INIT(1024);
	char name[66];

	memset(name, 'u', 65);
	name[65] = '\0';
	host_start(&h, true);
	ASSERT(client_open(&c, &h));
	(void)wire_put_str(&b, WIRE_T_SHELL, "echo ran");
	(void)wire_put_str(&b, WIRE_T_USER, name);
	ASSERT(client_finish(&c, client_request(&c, WIRE_OP_EXEC, &b), &a));
	ASSERT_EQ(answer_u64(&a, WIRE_T_CODE), CELL_EINVAL);
	ASSERT_EQ(a.out.len, 0);
	client_close(&c);
	host_stop(&h);
}
