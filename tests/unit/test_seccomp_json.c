/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles in Docker's format: one with every feature, and what must be refused. */
#include <errno.h>
#include <linux/audit.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/bpf_run.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/syscalls.h"
#include "core/seccomp_file.h"
#include "core/seccomp_json.h"
#include "test.h"

#define ALLOW  SECCOMP_RET_ALLOW
#define ERR(e) (SECCOMP_RET_ERRNO | (e))

static uint32_t ask(const struct sock_fprog *p, const char *name, uint64_t a, uint64_t b,
	uint64_t c, uint64_t d)
{
	struct seccomp_data data = {.arch = SYSCALL_ARCH_NATIVE, .args = {a, b, c, d}};

	data.nr = syscall_number(SYSCALL_ARCH_NATIVE, name);
	CHECK_(data.nr >= 0, "%s", name);
	return bpf_run(p, &data);
}
#define ASK1(p, name, a) ask(p, name, a, 0, 0, 0)
#define ASK(p, name)	 ASK1(p, name, 0)

static struct sock_fprog load_file(const char *name)
{
	auto_buf struct buf path = BUF_INIT(4096), text = BUF_INIT(SECCOMP_JSON_MAX_BYTES);
	struct sock_fprog p = {0};
	struct cell_error err = {0};
	char chunk[4096];
	size_t n;

	ASSERT_OK(buf_addf(&path, CELL_SOURCE_ROOT "/tests/data/%s", name));
	auto_file FILE *f = fopen(buf_str(&path), "re");
	CHECK_(f, "cannot open %s", buf_str(&path));
	while ((n = fread(chunk, 1, sizeof chunk, f)) > 0)
		ASSERT_OK(buf_add(&text, chunk, n));
	int r = seccomp_from_json(buf_str(&text), text.len, &p, &err);
	CHECK_(r == 0, "%s", err.msg);
	ASSERT(bpf_is_sound(&p));
	return p;
}

TEST(a_profile_with_every_feature_means_what_it_says)
{
	struct sock_fprog p = load_file("seccomp/every-feature.json");
	uint64_t high = 1ull << 32;

	ASSERT(ASK(&p, "read") == ALLOW && ASK(&p, "getpid") == ALLOW);
	ASSERT(ASK(&p, "openat") == ERR(EPERM));
	ASSERT(ASK1(&p, "personality", 8) == ALLOW && ASK1(&p, "personality", 0xffffffff) == ALLOW);
	ASSERT(ASK1(&p, "personality", 9) == ERR(EPERM));
	ASSERT(ASK1(&p, "clone", SIGCHLD) == ALLOW);
	ASSERT(ASK1(&p, "clone", 0x10000000) == ERR(EPERM));
	ASSERT(ASK(&p, "mount") == ERR(EPERM));
	ASSERT(ASK(&p, "clone3") == ERR(ENOSYS));
	ASSERT(ASK(&p, "ptrace") == ALLOW);
	ASSERT(ASK(&p, "process_vm_readv") == ERR(EPERM));
	ASSERT(ASK(&p, "process_vm_writev") == ERR(EPERM));
	ASSERT(ASK(&p, "sync") == ALLOW);
	ASSERT(ASK(&p, "syncfs") == ERR(EPERM) && ASK(&p, "fsync") == ERR(EPERM));
	ASSERT(ask(&p, "lseek", 0, high, 1, 0) == ALLOW);
	ASSERT(ask(&p, "lseek", 0, high, 2, 0) == ERR(EPERM));
	ASSERT(ask(&p, "lseek", 0, high - 1, 1, 0) == ERR(EPERM));
	ASSERT(ask(&p, "pread64", 0, 0, 0, high) == ALLOW);
	ASSERT(ask(&p, "pread64", 0, 0, 0, high + 1) == ERR(EPERM));
	ASSERT(ASK(&p, "kill") == SECCOMP_RET_KILL_PROCESS);
	ASSERT(ASK(&p, "tkill") == SECCOMP_RET_KILL_THREAD);
	ASSERT(ASK(&p, "uname") == SECCOMP_RET_LOG);
	ASSERT(ASK(&p, "reboot") == SECCOMP_RET_TRAP);
	ASSERT(ASK(&p, "vhangup") == (SECCOMP_RET_TRACE | 7));
	free(p.filter);
}

TEST(a_rule_without_conditions_wins_and_one_like_the_default_is_passed_over)
{
	struct sock_fprog p = load_file("seccomp/every-feature.json");

	ASSERT(ask(&p, "ioctl", 0, 21522, 0, 0) == ALLOW);
	ASSERT(ASK1(&p, "dup", 5) == ALLOW && ASK1(&p, "dup", 9) == ERR(EPERM));
	free(p.filter);
}

TEST(a_high_bit_does_not_walk_around_a_rule_on_an_int)
{
	struct sock_fprog p = load_file("seccomp/every-feature.json");
	uint64_t high = 1ull << 32;

	ASSERT(ASK1(&p, "socket", AF_UNIX) == ALLOW && ASK1(&p, "socket", 41) == ALLOW);
	ASSERT(ASK1(&p, "socket", AF_ALG) == ERR(EPERM));
	ASSERT(ASK1(&p, "socket", high | AF_ALG) == ERR(EPERM));
	ASSERT(ASK1(&p, "socket", high | AF_UNIX) == ALLOW);
	ASSERT(ASK1(&p, "clone", high | 0x10000000) == ERR(EPERM));
	ASSERT(ASK1(&p, "personality", UINT64_MAX) == ALLOW);
	free(p.filter);
}

TEST(calls_newer_than_the_profile_do_not_exist_and_other_architectures_kill)
{
	struct sock_fprog p = load_file("seccomp/every-feature.json");
	struct seccomp_data d = {.arch = SYSCALL_ARCH_NATIVE, .nr = 453};

	ASSERT(bpf_run(&p, &d) == ERR(ENOSYS));
	d.nr = 451; /* older than fchmodat2, which it names */
	ASSERT(bpf_run(&p, &d) == ERR(EPERM));
	d.nr = 9999;
	ASSERT(bpf_run(&p, &d) == ERR(ENOSYS));
	d.arch = AUDIT_ARCH_I386;
	d.nr = 1;
	ASSERT(bpf_run(&p, &d) == SECCOMP_RET_KILL_PROCESS);
	free(p.filter);
}

TEST(a_list_of_what_is_denied_leaves_the_rest_open)
{
	static const char text[] = "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": ["
				   "{\"name\": \"ptrace\", \"action\": \"SCMP_ACT_ERRNO\"}]}";
	struct sock_fprog p = {0};
	struct seccomp_data d = {.arch = SYSCALL_ARCH_NATIVE, .nr = 9999};

	ASSERT_OK(seccomp_from_json(text, strlen(text), &p, NULL));
	ASSERT(ASK(&p, "ptrace") == ERR(EPERM) && ASK(&p, "mount") == ALLOW);
	ASSERT(bpf_run(&p, &d) == ALLOW);
	free(p.filter);
}

TEST(the_kernel_obeys_a_loaded_profile)
{
	static const char text[] =
		"{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [{\"name\": \"getsid\", "
		"\"action\": \"SCMP_ACT_ERRNO\", \"errnoRet\": 99}]}";
	struct sock_fprog p = {0};

	ASSERT_OK(seccomp_from_json(text, strlen(text), &p, NULL));
	ASSERT(syscall(SYS_getsid, 0) > 0);
	ASSERT(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	ASSERT(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &p) == 0);
	ASSERT(syscall(SYS_getsid, 0) == -1 && errno == 99);
	free(p.filter);
}

#define RULE(r) "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": [" r "]}"
static const struct {
	const char *text, *message;
} bad_profiles[] = {
	{"", "line 1, column 0"},
	{"{\n\"defaultAction\": }", "line 2, column"},
	{"{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"defaultAction\": \"SCMP_ACT_KILL\"}",
		"duplicate"},
	{"[]", "must be an object"},
	{"{}", "'defaultAction' is missing"},
	{"{\"defaultAction\": 1}", "'defaultAction' must be a string"},
	{"{\"defaultAction\": \"SCMP_ACT_NOTIFY\"}", "'SCMP_ACT_NOTIFY' is no action"},
	{"{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"defaultErrnoRet\": 4096}", "from 0 to 4095"},
	{"{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscals\": []}", "'syscals' is no key"},
	{"{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"listenerPath\": \"/x\"}", "cannot be honoured"},
	{"{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"flags\": [\"X\"]}", "cannot be honoured"},
	{"{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"architectures\": [\"SCMP_ARCH_S390X\"]}",
		"for other machines"},
	{"{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": {}}", "'syscalls' must be a list"},
	{RULE("1"), "syscalls[0]: must be an object"},
	{RULE("{\"action\": \"SCMP_ACT_ERRNO\"}"), "syscalls[0]: one of 'names' and 'name'"},
	{RULE("{\"name\": \"read\"}"), "syscalls[0]: 'action' is missing"},
	{RULE("{\"names\": [\"read\", \"prtace\"], \"action\": \"SCMP_ACT_ERRNO\"}"),
		"syscalls[0].names[1]: 'prtace' is no system call"},
	{RULE("{\"names\": [1], \"action\": \"SCMP_ACT_ERRNO\"}"), "syscalls[0].names[0]"},
	{RULE("{\"name\": \"read\", \"action\": \"SCMP_ACT_ERRNO\", \"args\": [{\"index\": 6, "
	      "\"op\": "
	      "\"SCMP_CMP_EQ\"}]}"),
		"syscalls[0].args[0]: 'index' must be from 0 to 5"},
	{RULE("{\"name\": \"read\", \"action\": \"SCMP_ACT_ERRNO\", \"args\": [{\"index\": 0, "
	      "\"op\": "
	      "\"SCMP_CMP_IS\"}]}"),
		"syscalls[0].args[0]: op: 'SCMP_CMP_IS' is no comparison"},
	{RULE("{\"name\": \"read\", \"action\": \"SCMP_ACT_ERRNO\", \"args\": [{\"index\": 0, "
	      "\"value\": -1.5, \"op\": \"SCMP_CMP_EQ\"}]}"),
		"'value' must be a whole number"},
	{RULE("{\"name\": \"socket\", \"action\": \"SCMP_ACT_ERRNO\", \"args\": [{\"index\": 0, "
	      "\"value\": 4294967334, \"op\": \"SCMP_CMP_EQ\"}]}"),
		"has 32 bits"},
	{RULE("{\"name\": \"read\", \"action\": \"SCMP_ACT_ERRNO\", \"includes\": {\"minKernel\": "
	      "\"new\"}}"),
		"'new' is no version"},
	{RULE("{\"name\": \"read\", \"action\": \"SCMP_ACT_ERRNO\", \"includes\": {\"cap\": []}}"),
		"'cap' is no key"},
};

TEST(what_cannot_be_meant_is_refused_with_its_place)
{
	for (size_t i = 0; i < sizeof bad_profiles / sizeof *bad_profiles; i++) {
		struct sock_fprog p = {0};
		struct cell_error err = {0};
		int r = seccomp_from_json(bad_profiles[i].text, strlen(bad_profiles[i].text), &p,
			&err);
		CHECK_(r < 0 && !p.filter, "accepted: %s", bad_profiles[i].text);
		CHECK_(strstr(err.msg, bad_profiles[i].message), "%s: '%s'", bad_profiles[i].text,
			err.msg);
	}
}

TEST(an_unknown_name_that_would_be_allowed_is_passed_over)
{
	static const char text[] =
		"{\"defaultAction\": \"SCMP_ACT_ERRNO\", \"syscalls\": [{\"names\": "
		"[\"nosuchcall\", \"read\"], \"action\": \"SCMP_ACT_ALLOW\"}]}";
	struct sock_fprog p = {0};

	ASSERT_OK(seccomp_from_json(text, strlen(text), &p, NULL));
	ASSERT(ASK(&p, "read") == ALLOW);
	free(p.filter);
}

TEST(a_profile_too_large_for_the_kernel_is_refused)
{
	auto_buf struct buf b = BUF_INIT(SECCOMP_JSON_MAX_BYTES);
	struct sock_fprog p = {0};
	struct cell_error err = {0};

	ASSERT_OK(buf_addz(&b, "{\"defaultAction\": \"SCMP_ACT_ALLOW\", \"syscalls\": ["));
	for (unsigned i = 0; i < 3000; i++)
		ASSERT_OK(buf_addf(&b,
			"%s{\"name\": \"%s\", \"action\": \"SCMP_ACT_ERRNO\", \"args\": "
			"[{\"index\": 0, "
			"\"value\": %u, \"op\": \"SCMP_CMP_EQ\"}]}",
			i ? "," : "", syscall_name(SYSCALL_ARCH_NATIVE, i % 60 + 20), i));
	ASSERT_OK(buf_addz(&b, "]}"));
	ASSERT(seccomp_from_json(buf_str(&b), b.len, &p, &err) < 0);
	ASSERT(err.code == CELL_ELIMIT && !p.filter);
	ASSERT(seccomp_from_json(buf_str(&b), SECCOMP_JSON_MAX_BYTES + 1, &p, &err) < 0);
}

/* ---- files ---- */

static const char *write_profile(const char *text)
{
	static char path[] = "/tmp/cell-test-profile-XXXXXX";
	int fd = mkstemp(path);

	ASSERT(fd >= 0);
	ASSERT_EQ(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	return path;
}

TEST(a_profile_of_a_file_is_compiled_or_handed_on)
{
	const char *path = write_profile("{ \"defaultAction\": \"SCMP_ACT_ALLOW\" }\n");
	struct sock_fprog program = {0};
	auto_free char *text = NULL;

	ASSERT_OK(seccomp_file_compile(path, &program, NULL));
	ASSERT_EQ(ASK(&program, "read"), ALLOW);
	ASSERT_OK(seccomp_file_text(path, &text, NULL));
	ASSERT_STR(text, "{\"defaultAction\":\"SCMP_ACT_ALLOW\"}");
	free(program.filter);
	ASSERT_OK(unlink(path));
}

TEST(a_profile_that_no_guest_can_live_under_is_refused)
{
	const char *path = write_profile("{\"defaultAction\": \"SCMP_ACT_ERRNO\"}");
	struct sock_fprog program = {0};
	struct cell_error err = {0};

	ASSERT(seccomp_file_compile(path, &program, &err) < 0);
	ASSERT(strstr(err.msg, "'read'") && strstr(err.msg, path) && !program.filter);
	ASSERT_OK(unlink(path));
}

TEST(what_is_no_file_or_no_profile_is_told_by_its_name)
{
	const char *path = write_profile("{\n\"a\": 1, \"a\": 2}");
	struct sock_fprog program = {0};
	struct cell_error err = {0};
	char *text = NULL;

	ASSERT_EQ(seccomp_file_text(path, &text, &err), -EINVAL);
	ASSERT(strstr(err.msg, path) && strstr(err.msg, "line 2") && *err.hint && !text);
	ASSERT_EQ(seccomp_file_compile("/dev/zero", &program, &err), -EINVAL);
	ASSERT(strstr(err.msg, "no file"));
	ASSERT_EQ(seccomp_file_text("/not/there", &text, &err), -ENOENT);
	ASSERT(strstr(err.msg, "seccomp profile '/not/there'") && *err.hint);
	ASSERT_OK(unlink(path));
}
