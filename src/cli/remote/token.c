/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.c: the token that a server asks for: the file of --token-file, $CELL_TOKEN, the file of $CELL_TOKEN_FILE, or the user's
 * own file. Never an argument: others on the machine see those. A file that others could read or have written is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/memory.h"
#include "cli/remote/remote.h"

#define TOKEN_MAX 4096

static int check_file(int fd, const char *path, struct cell_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return cell_fail_errno(err, errno, "read the token in '%.200s'", path);
	if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode)) {
		cell_fail(err, CELL_EINVAL, 0, "the token file '%.200s' is no file", path);
		return cell_error_hint(err, -EINVAL, "give a file with nothing but a token in it");
	}
	if (!S_ISREG(st.st_mode) || (!(st.st_mode & 077) && (st.st_uid == geteuid() || !st.st_uid)))
		return 0;
	if (st.st_mode & 077) {
		cell_fail(err, CELL_EDENIED, 0,
			"the token file '%.200s' can be used by others (mode %04o)", path,
			(unsigned)st.st_mode & 07777u);
		return cell_error_hint(err, -EACCES, "chmod 600 '%.200s'", path);
	}
	cell_fail(err, CELL_EDENIED, 0, "the token file '%.200s' belongs to somebody else", path);
	return cell_error_hint(err, -EACCES, "make a file of your own");
}

static int check_text(char *text, const char *where, struct cell_error *err)
{
	size_t n = strcspn(text, " \t\r\n");

	if (text[n + strspn(text + n, " \t\r\n")]) {
		cell_fail(err, CELL_EINVAL, 0, "%s: more than one word", where);
		return cell_error_hint(err, -EINVAL,
			"put nothing but the token there: 'cell token create' prints one");
	}
	text[n] = '\0';
	for (const char *p = text; *p; p++)
		if (*p < 0x21 || *p > 0x7e)
			return cell_error_hint(err,
				cell_fail(err, CELL_EINVAL, 0, "%s: not a token", where),
				"'cell token create' prints one");
	return 0;
}

/* is_optional: that it is not there is no error. */
static int from_file(const char *path, bool is_optional, char **ret, struct cell_error *err)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	auto_free char *where = cli_format("the token file '%.200s'", path);
	char text[TOKEN_MAX + 1];
	size_t n = 0;

	if (fd < 0 && is_optional && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd < 0) {
		int r = cell_fail_errno(err, errno, "open the token file '%.200s'", path);
		return cell_error_hint(err, r, "write the token there, readable by you alone");
	}
	int r = check_file(fd, path, err);
	if (r < 0)
		return r;
	while (n < TOKEN_MAX) {
		ssize_t got = read(fd, text + n, TOKEN_MAX - n);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return cell_fail_errno(err, errno, "read the token file '%.200s'", path);
		if (got == 0)
			break;
		n += (size_t)got;
	}
	text[n] = '\0';
	r = check_text(text, where, err);
	if (r == 0 && !*text) {
		r = cell_fail(err, CELL_EINVAL, 0, "%s: it is empty", where);
		r = cell_error_hint(err, r, "'cell token create' prints one");
	}
	if (r == 0)
		*ret = cli_strdup(text);
	explicit_bzero(text, sizeof text);
	return r;
}

static char *own_file(void)
{
	const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

	if (base && *base == '/')
		return cli_format("%s/cell/token", base);
	return home && *home == '/' ? cli_format("%s/.config/cell/token", home) : NULL;
}

int remote_token(const char *file, char **ret, struct cell_error *err)
{
	const char *text = getenv("CELL_TOKEN"), *named = getenv("CELL_TOKEN_FILE");
	auto_free char *own = own_file();
	int r = 0;

	*ret = NULL;
	if (file) {
		r = from_file(file, false, ret, err);
	} else if (text && *text) {
		*ret = cli_strdup(text);
		r = check_text(*ret, "CELL_TOKEN", err);
	} else if (named && *named) {
		r = from_file(named, false, ret, err);
	} else if (own) {
		r = from_file(own, true, ret, err);
	}
	if (r < 0) {
		free(*ret);
		*ret = NULL;
		return r;
	}
	if (!*ret)
		*ret = cli_strdup("");
	return 0;
}
