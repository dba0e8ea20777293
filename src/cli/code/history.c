/* SPDX-License-Identifier: Apache-2.0 */
/* history.c: see history.h. */
#include "cli/code/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/memory.h"

#define ENTRY_MAX (1u << 20)
#define FILE_MAX  (4u << 20) /* read from its end */

static char *unescape(const char *p, size_t n)
{
	char *out = cli_calloc(n + 1, 1);
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\\' && i + 1 < n) {
			i++;
			out[len++] = p[i] == 'n' ? '\n' : p[i];
		} else {
			out[len++] = p[i];
		}
	}
	return out;
}

static void escape(const char *text, struct buf *out)
{
	for (; *text; text++) {
		if (*text == '\n' || *text == '\\')
			(void)buf_addf(out, "\\%c", *text == '\n' ? 'n' : '\\');
		else
			(void)buf_addc(out, *text);
	}
	(void)buf_addc(out, '\n');
}

static void keep(struct history *h, char *entry)
{
	if (h->n == HISTORY_MAX) {
		free(h->entries[0]);
		memmove(h->entries, h->entries + 1, (h->n - 1) * sizeof *h->entries);
		h->n--;
	}
	h->entries = cli_realloc(h->entries, h->n + 1, sizeof *h->entries);
	h->entries[h->n++] = entry;
	h->at = h->n;
}

/* Every directory on the way, for this user alone. */
static int make_parents(char *path)
{
	for (char *p = path + 1; (p = strchr(p, '/')); p++) {
		*p = 0;
		int r = mkdir(path, 0700);
		*p = '/';
		if (r < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static char *path_of(const char *language)
{
	const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");

	if (state && *state == '/')
		return cli_format("%s/cell/history-%s", state, language);
	if (home && *home == '/')
		return cli_format("%s/.local/state/cell/history-%s", home, language);
	return NULL;
}

static void read_all(struct history *h)
{
	auto_fd int fd = h->path ? open(h->path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;
	auto_buf struct buf b = BUF_INIT(FILE_MAX);
	struct stat st;
	char piece[16384];
	ssize_t n;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	if (st.st_size > (off_t)FILE_MAX)
		(void)lseek(fd, -(off_t)FILE_MAX, SEEK_END);
	while ((n = read(fd, piece, sizeof piece)) > 0 && buf_add(&b, piece, (size_t)n) == 0)
		;
	const char *p = buf_str(&b);
	if (st.st_size > (off_t)FILE_MAX && strchr(p, '\n'))
		p = strchr(p, '\n') + 1;
	for (const char *nl; (nl = strchr(p, '\n')); p = nl + 1)
		if (nl > p)
			keep(h, unescape(p, (size_t)(nl - p)));
}

void history_open(struct history *h, const char *language)
{
	*h = (struct history){.path = path_of(language)};
	read_all(h);
}

void history_close(struct history *h)
{
	for (size_t i = 0; i < h->n; i++)
		free(h->entries[i]);
	free(h->entries);
	free(h->path);
	free(h->draft);
	*h = (struct history){0};
}

void history_add(struct history *h, const char *text)
{
	auto_buf struct buf line = BUF_INIT(2 * ENTRY_MAX);
	auto_fd int fd = -1;

	h->at = h->n;
	if (!text[strspn(text, " \t\n")] || strlen(text) > ENTRY_MAX / 2 ||
		(h->n && !strcmp(h->entries[h->n - 1], text)))
		return;
	keep(h, cli_strdup(text));
	if (!h->path || make_parents(h->path) < 0)
		return;
	/* one write, so that two of us at once do not mix their lines */
	escape(text, &line);
	fd = open(h->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd >= 0 && write(fd, line.data, line.len) < 0)
		return;
}

const char *history_older(struct history *h, const char *now)
{
	if (!h->at)
		return NULL;
	if (h->at == h->n) {
		free(h->draft);
		h->draft = cli_strdup(now);
	}
	return h->entries[--h->at];
}

const char *history_newer(struct history *h)
{
	if (h->at >= h->n)
		return NULL;
	h->at++;
	return h->at == h->n ? (h->draft ? h->draft : "") : h->entries[h->at];
}

size_t history_search(const struct history *h, const char *text, size_t from)
{
	for (size_t i = from < h->n ? from : h->n; i-- > 0;)
		if (strstr(h->entries[i], text))
			return i;
	return SIZE_MAX;
}
