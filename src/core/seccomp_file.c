/* SPDX-License-Identifier: Apache-2.0 */
#include "core/seccomp_file.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bpf_run.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/syscalls.h"
#include "core/seccomp_json.h"

static int read_whole(const char *path, struct buf *ret, struct cell_error *err)
{
	struct stat st;
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0) {
		int r = cell_fail_errno(err, errno, "seccomp profile '%s'", path);
		return cell_error_hint(err, r,
			"name a built-in profile (default, strict, debug) or a file in Docker's "
			"JSON format");
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return cell_fail(err, CELL_EINVAL, 0, "seccomp profile '%s' is no file", path);
	for (;;) {
		int r = buf_reserve(ret, 4096);
		ssize_t n = r < 0 ? 0 : read(fd, ret->data + ret->len, ret->cap - ret->len - 1);

		if (r == -ENOMEM)
			return cell_fail_errno(err, ENOMEM, "read the seccomp profile '%s'", path);
		if (r < 0 || ret->len > SECCOMP_JSON_MAX_BYTES)
			return cell_fail(err, CELL_EINVAL, EFBIG,
				"seccomp profile '%s' has more than %u bytes", path,
				SECCOMP_JSON_MAX_BYTES);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return cell_fail_errno(err, errno, "read the seccomp profile '%s'", path);
		if (n == 0)
			return 0;
		ret->len += (size_t)n;
	}
}

/* What the program says of a call whose arguments are all 0. */
static uint32_t verdict(const struct sock_fprog *p, int nr)
{
	return bpf_run(p, &(struct seccomp_data){.nr = nr, .arch = SYSCALL_ARCH_NATIVE});
}

/* Without these the guest cannot even say that it cannot run. */
static int check_livable(const struct sock_fprog *p, const char *path, struct cell_error *err)
{
	static const char *const vital[] = {"read", "write", "close", "mmap", "munmap", "brk",
		"fcntl", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "execve", "execveat",
		"exit_group", "getpid", "openat", "pipe2", "prctl", "recvfrom", "sendto", "sendmsg",
		"socketpair", "signalfd4", "epoll_create1", "epoll_ctl", "epoll_pwait", "wait4",
		NULL};

	for (size_t i = 0; vital[i]; i++) {
		uint32_t v = verdict(p, syscall_number(SYSCALL_ARCH_NATIVE, vital[i]));

		if (v == SECCOMP_RET_ALLOW || v == SECCOMP_RET_LOG)
			continue;
		int r = cell_fail(err, CELL_EINVAL, 0,
			"seccomp profile '%s' refuses '%s', which the guest cannot do without",
			path, vital[i]);
		return cell_error_hint(err, r,
			"allow it; or begin with Docker's own profile and take away from that");
	}
	return 0;
}

int seccomp_file_compile(const char *path, struct sock_fprog *ret, struct cell_error *err)
{
	auto_buf struct buf text = BUF_INIT(SECCOMP_JSON_MAX_BYTES + 16384);
	struct sock_fprog program = {0};
	int r = read_whole(path, &text, err);

	if (r < 0)
		return r;
	r = seccomp_from_json(buf_str(&text), text.len, &program, err);
	if (r < 0)
		return cell_error_prefix(err, r, "seccomp profile '%s'", path);
	r = check_livable(&program, path, err);
	if (r < 0)
		free(program.filter);
	else
		*ret = program;
	return r;
}

int seccomp_file_text(const char *path, char **ret, struct cell_error *err)
{
	auto_buf struct buf text = BUF_INIT(SECCOMP_JSON_MAX_BYTES + 16384);
	json_error_t why;
	int r = read_whole(path, &text, err);

	if (r < 0)
		return r;
	json_t *profile =
		json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &why);
	if (!profile) {
		r = cell_fail(err, CELL_EINVAL, 0, "seccomp profile '%s': line %d: %.160s", path,
			why.line, why.text);
		return cell_error_hint(err, r, "give a profile in Docker's JSON format");
	}
	*ret = json_dumps(profile, JSON_COMPACT);
	json_decref(profile);
	return *ret ? 0 : cell_fail_errno(err, ENOMEM, "read the seccomp profile '%s'", path);
}
