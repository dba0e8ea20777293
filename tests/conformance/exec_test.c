/* SPDX-License-Identifier: Apache-2.0 */
/* exec_test.c: starting commands, how they end, where they run and as whom. */
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>

#include "suite.h"

TEST(a_shell_line_runs)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = sh(c, "echo out; echo err >&2; exit 3");

	ASSERT_STR(r.out, "out\n");
	ASSERT_STR(r.err, "err\n");
	ASSERT_INT(r.exit.exit_code, 3);
	ASSERT_INT(r.exit.signal, 0);
	ASSERT(!r.exit.timed_out && !r.truncated && !r.exit.oom);
	ASSERT_INT(r.out_bytes, 4);
	ASSERT_INT(r.err_bytes, 4);
	ASSERT(r.id[0] != '\0');
}

TEST(argv_is_passed_untouched)
{
	static const char want[] = "7\n"
				   "\0two words\0$HOME `id` $(id)\0*\0'\"\\\0-x\nline\0\xff\xfe";
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "./probe", "args", "", "two words",
		"$HOME `id` $(id)", "*", "'\"\\", "-x\nline", "\xff\xfe");

	ASSERT_INT(r.exit.exit_code, 0);
	ASSERT_INT(r.out_len, sizeof(want));
	ASSERT(!memcmp(r.out, want, sizeof(want)));
}

TEST(a_program_is_found_in_the_path_of_the_cell)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "sh", "-c", "echo $0 $1", "zero", "one");

	ASSERT_STR(r.out, "zero one\n");
	ASSERT_INT(r.exit.exit_code, 0);
}

TEST(every_exit_code_comes_through)
{
	auto_cell struct cell *c = open_cell(s);

	for (int want = 0; want < 256; want += want < 4 || want > 120 ? 1 : 23) {
		char n[16];
		snprintf(n, sizeof(n), "%d", want);
		auto_result struct cell_result r = RUN(c, "./probe", "exit", n);
		ASSERT_INT(r.exit.exit_code, want);
		ASSERT_INT(r.exit.signal, 0);
		ASSERT(!r.exit.timed_out);
	}
}

TEST(a_command_killed_by_a_signal_exits_128_and_its_number)
{
	static const int which[] = {SIGHUP, SIGINT, SIGABRT, SIGKILL, SIGSEGV, SIGPIPE, SIGTERM};
	auto_cell struct cell *c = open_cell(s);

	for (size_t i = 0; i < sizeof(which) / sizeof(*which); i++) {
		char n[8];
		snprintf(n, sizeof(n), "%d", which[i]);
		auto_result struct cell_result r = RUN(c, "./probe", "raise", n);
		ASSERT_INT(r.exit.exit_code, 128 + which[i]);
		ASSERT_INT(r.exit.signal, which[i]);
		ASSERT_STR(r.out, "before\n");
	}
}

TEST(a_program_that_is_not_there_exits_127)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result by_path = RUN(c, "./no-such-program");
	auto_result struct cell_result by_name = RUN(c, "no-such-program-in-path");
	auto_result struct cell_result by_shell = sh(c, "no-such-program-in-path");
	auto_result struct cell_result there = RUN(c, "./probe", "exit", "0");

	ASSERT_INT(by_path.exit.exit_code, 127);
	ASSERT_INT(by_name.exit.exit_code, 127);
	ASSERT_INT(by_shell.exit.exit_code, 127);
	ASSERT_HAS(by_name.err, "no-such-program-in-path");
	ASSERT_INT(there.exit.exit_code, 0);
}

TEST(a_program_that_cannot_be_executed_exits_126)
{
	auto_cell struct cell *c = open_cell(s);

	store(c, "plain", "not a program");
	OK(cell_file_mkdir(c, "directory", 0, false, &E));
	OK(cell_file_store(c, "garbage", 0755, 0, "\x7f\x45\x4c\x46 broken", 11, &E));
	auto_result struct cell_result plain = RUN(c, "./plain");
	auto_result struct cell_result directory = RUN(c, "./directory");
	auto_result struct cell_result garbage = RUN(c, "./garbage");

	ASSERT_INT(plain.exit.exit_code, 126);
	ASSERT_HAS(plain.err, "plain");
	ASSERT_INT(directory.exit.exit_code, 126);
	/* as in the shells: one says it is no program, the next takes it for a script */
	ASSERT(garbage.exit.exit_code == 126 || garbage.exit.exit_code == 127);
}

TEST(a_script_without_its_interpreter_exits_like_in_a_shell)
{
	auto_cell struct cell *c = open_cell(s);

	OK(cell_file_store(c, "lost", 0755, 0, "#!/no/such/interpreter\n", 23, &E));
	OK(cell_file_store(c, "found", 0755, 0, "#!/bin/sh\nexit 5\n", 17, &E));
	auto_result struct cell_result lost = RUN(c, "./lost");
	auto_result struct cell_result found = RUN(c, "./found");

	ASSERT(lost.exit.exit_code == 126 || lost.exit.exit_code == 127);
	ASSERT_INT(found.exit.exit_code, 5);
}

TEST(a_command_of_nothing_is_refused)
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_result r = {0};

	FAILS(INVALID, cell_run(c, &(struct cell_exec_opts){0}, NULL, 0, &r, &E));
	cell_result_done(&r);
	FAILS(INVALID, cell_run(c, &(struct cell_exec_opts){.argv = (const char *const[]){NULL}},
			       NULL, 0, &r, &E));
	cell_result_done(&r);
	FAILS(INVALID, cell_run(c,
			       &(struct cell_exec_opts){
				       .argv = ARGV("./probe", "exit", "0"), .shell = "exit 0"},
			       NULL, 0, &r, &E));
	cell_result_done(&r);
	auto_result struct cell_result empty = sh(c, "");
	ASSERT_INT(empty.exit.exit_code, 0);
}

TEST(a_hundred_thousand_arguments_arrive)
{
	enum {
		N = 100000
	};
	auto_cell struct cell *c = open_cell(s);
	auto_free const char **argv = calloc(N + 3, sizeof(*argv));

	ASSERT(argv);
	argv[0] = "./probe";
	argv[1] = "argc";
	for (size_t i = 2; i < N + 2; i++)
		argv[i] = "abcde";
	auto_result struct cell_result r =
		run_opts(c, &(struct cell_exec_opts){.argv = argv}, NULL, 0);
	ASSERT_STR(r.out, "100000\n");
}

TEST(an_argument_too_long_for_the_kernel_is_reported_and_harms_nothing)
{
	enum {
		N = 200 * 1024
	};
	auto_cell struct cell *c = open_cell(s);
	auto_free char *big = malloc(N + 1);
	struct cell_result r = {0};

	ASSERT(big);
	memset(big, 'x', N);
	big[N] = '\0';
	E = (struct cell_error){0};
	int e = cell_run(c, &(struct cell_exec_opts){.argv = ARGV("./probe", "argc", big)}, NULL, 0,
		&r, &E);
	if (e < 0) {
		ASSERT(E.code == CELL_EINVAL || E.code == CELL_ELIMIT);
		ASSERT_HAS(E.msg, "too long");
	} else {
		ASSERT_INT(r.exit.exit_code, 126);
		ASSERT_HAS(r.err, "too long");
	}
	cell_result_done(&r);
	big[100 * 1024] = '\0';
	auto_result struct cell_result fits = RUN(c, "./probe", "argc", big);
	ASSERT_STR(fits.out, "1\n");
}

TEST(a_request_over_the_message_limit_is_refused_and_harms_nothing)
{
	enum {
		N = 6 * 1024 * 1024
	};
	auto_cell struct cell *c = open_cell(s);
	auto_free char *big = malloc(N + 1);
	struct cell_result r = {0};

	ASSERT(big);
	memset(big, 'x', N);
	big[N] = '\0';
	FAILS(INVALID | OVER_LIMIT,
		cell_run(c, &(struct cell_exec_opts){.argv = ARGV("./probe", "argc", big)}, NULL, 0,
			&r, &E));
	cell_result_done(&r);
	auto_result struct cell_result after = RUN(c, "./probe", "argc");
	ASSERT_STR(after.out, "0\n");
}

TEST(the_directory_is_the_workspace_unless_said_otherwise)
{
	auto_cell struct cell *c = open_cell(s);
	struct guest_facts f = ask_guest(c);
	auto_result struct cell_result r = RUN(c, "./probe", "cwd");

	ASSERT(f.workspace[0] == '/');
	ASSERT_STR(r.out, f.workspace);
}

TEST(the_directory_may_be_relative_or_absolute)
{
	auto_cell struct cell *c = open_cell(s);
	struct guest_facts f = ask_guest(c);
	char probe[PATH_MAX + 16], sub[PATH_MAX + 16];

	OK(cell_file_mkdir(c, "a/b c", 0, true, &E));
	snprintf(probe, sizeof(probe), "%s/probe", f.workspace);
	snprintf(sub, sizeof(sub), "%s/a/b c", f.workspace);
	auto_result struct cell_result relative = run_opts(c,
		&(struct cell_exec_opts){.argv = ARGV("../../probe", "cwd"), .cwd = "a/b c"}, NULL,
		0);
	auto_result struct cell_result absolute = run_opts(c,
		&(struct cell_exec_opts){.argv = ARGV(probe, "cwd"), .cwd = sub}, NULL, 0);
	auto_result struct cell_result top =
		run_opts(c, &(struct cell_exec_opts){.shell = "pwd", .cwd = "/"}, NULL, 0);

	ASSERT_STR(relative.out, sub);
	ASSERT_STR(absolute.out, sub);
	ASSERT_STR(top.out, "/\n");
}

TEST(a_directory_that_is_none_is_an_error_that_names_it)
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_result r = {0};

	store(c, "plain", "");
	FAILS(NOT_FOUND,
		cell_run(c, &(struct cell_exec_opts){.shell = "true", .cwd = "no/such/dir"}, NULL,
			0, &r, &E));
	ASSERT_HAS(E.msg, "no/such/dir");
	cell_result_done(&r);
	FAILS(INVALID | NOT_FOUND | DENIED,
		cell_run(c, &(struct cell_exec_opts){.shell = "true", .cwd = "plain"}, NULL, 0, &r,
			&E));
	ASSERT_HAS(E.msg, "plain");
	cell_result_done(&r);
}

TEST(the_spec_gives_the_directory_of_every_command)
{
	struct cell_spec spec = suite_spec(s);
	char want[PATH_MAX + 16];

	if (s->workspace[0]) {
		char path[PATH_MAX];
		snprintf(path, sizeof(path), "%s/deep", s->workspace);
		mkdir(path, 0755);
	} else {
		SKIP("the workspace cannot be prepared from outside");
	}
	spec.cwd = "deep";
	auto_cell struct cell *c = open_spec(&spec);
	snprintf(want, sizeof(want), "%s/deep\n", ask_guest(c).workspace);
	auto_result struct cell_result r = sh(c, "pwd");
	auto_result struct cell_result other =
		run_opts(c, &(struct cell_exec_opts){.shell = "pwd", .cwd = "/"}, NULL, 0);
	ASSERT_STR(r.out, want);
	ASSERT_STR(other.out, "/\n");
}

TEST_NEEDS(a_command_may_run_as_another_user, NEEDS(USER))
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result self = RUN(c, "./probe", "ids");
	auto_result struct cell_result named = run_opts(c,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "ids"), .user = "nobody"}, NULL,
		0);
	auto_result struct cell_result number = run_opts(c,
		&(struct cell_exec_opts){.argv = ARGV("./probe", "ids"), .user = "12345:54321"},
		NULL, 0);

	ASSERT_HAS(self.out, "uid 0 0\n");
	ASSERT_HAS(named.out, "uid 65534 65534\ngid 65534 65534\n");
	ASSERT_HAS(number.out, "uid 12345 12345\ngid 54321 54321\n");
	ASSERT(strstr(number.out, "groups 0") || strstr(number.out, "groups 1"));
}

TEST_NEEDS(another_user_cannot_come_back, NEEDS(USER))
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec_opts o = {.shell = "kill -0 $PPID || echo refused", .user = "nobody"};
	auto_result struct cell_result r = run_opts(c, &o, NULL, 0);

	ASSERT_STR(r.out, "refused\n");
}

TEST_NEEDS(the_spec_gives_the_user_of_every_command, NEEDS(DEFAULT_USER))
{
	struct cell_spec spec = suite_spec(s);

	spec.user = "nobody";
	auto_cell struct cell *c = open_spec(&spec);
	auto_result struct cell_result r = sh(c, "id -u");
	ASSERT_STR(r.out, "65534\n");
}

TEST_NEEDS(an_unknown_user_is_an_error_that_names_it, NEEDS(USER))
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_result r = {0};

	FAILS(NOT_FOUND | INVALID,
		cell_run(c, &(struct cell_exec_opts){.shell = "true", .user = "no-such-user"}, NULL,
			0, &r, &E));
	ASSERT_HAS(E.msg, "no-such-user");
	cell_result_done(&r);
}

/* Become nobody for the rest of this test; the back end is probed again as that user. */
static void drop_privileges(struct suite *s)
{
	static const char *const dirs[] = {"", "/state", "/home", "/tmp", "/run", "/ws"};

	for (size_t i = 0; geteuid() == 0 && i < sizeof(dirs) / sizeof(*dirs); i++) {
		char path[PATH_MAX];
		snprintf(path, sizeof(path), "%s%s", s->dir, dirs[i]);
		if (access(path, F_OK) == 0)
			ASSERT_INT(chown(path, 65534, 65534), 0);
	}
	if (geteuid() == 0) {
		ASSERT_INT(setgroups(0, NULL), 0);
		ASSERT_INT(setresgid(65534, 65534, 65534), 0);
		ASSERT_INT(setresuid(65534, 65534, 65534), 0);
	}
	OK(cell_backend_probe(s->backend, &s->info, &E));
	s->caps = s->info.caps;
	if (!s->info.is_usable)
		SKIP("not usable without root: %s", s->info.reason);
}

TEST(without_root_the_cell_works_and_another_user_is_an_error)
{
	struct cell_result r = {0};
	size_t n = 0;
	auto_free char *probe = host_load(s->probe, &n); /* while it can still be read */

	drop_privileges(s);
	struct cell_spec spec = suite_spec(s);
	auto_cell struct cell *c = open_spec(&spec);
	OK(cell_file_store(c, "probe", 0755, 0, probe, n, &E));
	auto_result struct cell_result self = RUN(c, "./probe", "ids");
	ASSERT_INT(self.exit.exit_code, 0);
	if (s->caps & NEEDS(USER))
		SKIP("this back end has other users without root, too");
	FAILS(NOT_SUPPORTED | DENIED,
		cell_run(c, &(struct cell_exec_opts){.shell = "true", .user = "root"}, NULL, 0, &r,
			&E));
	cell_result_done(&r);
}

TEST(a_command_has_no_descriptor_but_its_three)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "./probe", "fds");

	ASSERT_STR(r.out, "");
	ASSERT_INT(r.exit.exit_code, 0);
}

TEST(a_command_starts_with_no_signal_blocked_or_ignored)
{
	static const int ours[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGUSR1};
	sigset_t all;

	/* Whatever the caller does with its own signals is no concern of the cell's. */
	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		signal(ours[i], SIG_IGN);
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "./probe", "sigstate");

	ASSERT_STR(r.out, "");
	ASSERT_INT(r.exit.exit_code, 0);
}

TEST(a_command_leads_a_process_group_of_its_own)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "./probe", "group");

	ASSERT_STR(r.out, "group-leader 1\n");
}

TEST(an_id_given_by_the_caller_is_used_once)
{
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec_opts o = {.shell = "echo x >> ran", .id = "my-id.1"};
	auto_result struct cell_result first = run_opts(c, &o, NULL, 0);
	struct cell_result again = {0};

	ASSERT_STR(first.id, "my-id.1");
	FAILS(EXISTS, cell_run(c, &o, NULL, 0, &again, &E));
	ASSERT_HAS(E.msg, "my-id.1");
	cell_result_done(&again);
	auto_free char *ran = load(c, "ran");
	ASSERT_STR(ran, "x\n");
}

TEST(an_id_with_odd_characters_is_refused)
{
	static const char *const bad[] = {"", "-x", "--", "..", "_", "../up", "a/b", "a b",
		"new\nline", "\xff", "\xc3\xa9",
		"a-name-that-is-much-longer-than-what-fits-into-the-sixty-four-bytes-of-an-id"};
	auto_cell struct cell *c = open_cell(s);

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		struct cell_result r = {0};
		FAILS(INVALID,
			cell_run(c, &(struct cell_exec_opts){.shell = "touch ran", .id = bad[i]},
				NULL, 0, &r, &E));
		cell_result_done(&r);
	}
	ASSERT(!exists(c, "ran"));
}

TEST(ids_given_by_the_guest_differ)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result a = sh(c, "true");
	auto_result struct cell_result b = sh(c, "true");

	ASSERT(strcmp(a.id, b.id) != 0);
}
