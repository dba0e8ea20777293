/* SPDX-License-Identifier: Apache-2.0 */
/* picture.c: see picture.h. */
#include "cli/code/picture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fdcopy.h"
#include "cli/memory.h"
#include "cli/text.h"

#define CHUNK	  4096 /* of base64 in one of kitty's sequences */
#define FILES_MAX 100000

static const struct {
	const char *mime, *suffix, *magic;
} types[] = {{"image/png", "png", "\x89PNG"}, {"image/jpeg", "jpg", "\xff\xd8\xff"},
	{"image/gif", "gif", "GIF8"}, {"image/webp", "webp", "RIFF"},
	{"image/svg+xml", "svg", NULL}, {"application/pdf", "pdf", "%PDF"}};
#define N_TYPES (sizeof types / sizeof types[0])

const char *const picture_types[] = {"image/png", "image/jpeg", "image/gif", "image/webp",
	"image/svg+xml", "application/pdf", NULL};

const char *picture_suffix(const char *mime)
{
	for (size_t i = 0; i < N_TYPES; i++)
		if (!strcmp(types[i].mime, mime))
			return types[i].suffix;
	return NULL;
}

bool picture_is_text(const char *mime)
{
	return !strcmp(mime, "image/svg+xml");
}

static bool is(const char *name, const char *value)
{
	const char *have = getenv(name);

	return have && !strcmp(have, value);
}

enum picture_way picture_way_here(void)
{
	/* multiplexers pass neither on */
	if (getenv("TMUX") || getenv("STY"))
		return PICTURE_FILE;
	if (getenv("KITTY_WINDOW_ID") || is("TERM", "xterm-kitty") || is("TERM", "xterm-ghostty") ||
		is("TERM_PROGRAM", "ghostty"))
		return PICTURE_KITTY;
	if (is("TERM_PROGRAM", "iTerm.app") || is("TERM_PROGRAM", "WezTerm") ||
		is("LC_TERMINAL", "iTerm2"))
		return PICTURE_ITERM;
	return PICTURE_FILE;
}

int picture_way_parse(const char *word, bool is_terminal, enum picture_way *ret)
{
	static const char *const words[] = {"file", "kitty", "iterm2", "none"};

	if (!strcmp(word, "auto")) {
		*ret = is_terminal ? picture_way_here() : PICTURE_FILE;
		return 0;
	}
	for (int i = 0; i < 4; i++) {
		if (strcmp(words[i], word) != 0)
			continue;
		*ret = (enum picture_way)i;
		return 0;
	}
	return -EINVAL;
}

static int value_of(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+'	      ? 62
	       : c == '/'	      ? 63
				      : -1;
}

int picture_decode(const char *p, struct buf *out)
{
	uint32_t bits = 0;
	unsigned n = 0, padding = 0;

	for (; *p; p++) {
		if (strchr(" \t\r\n", *p))
			continue;
		if (*p == '=') {
			padding++;
			continue;
		}
		if (padding || value_of(*p) < 0)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)value_of(*p);
		if (++n % 4 == 0) {
			uint8_t three[3] = {
				(uint8_t)(bits >> 16), (uint8_t)(bits >> 8), (uint8_t)bits};
			if (buf_add(out, three, 3) < 0)
				return -ENOMEM;
			bits = 0;
		}
	}
	unsigned rest = n % 4;
	if (rest == 1 || padding > 2 || (padding && (rest + padding) % 4))
		return -EINVAL;
	bits <<= 6 * (4 - rest);
	uint8_t last[2] = {(uint8_t)(bits >> 16), (uint8_t)(bits >> 8)};
	return rest ? buf_add(out, last, rest - 1) : 0;
}

static bool has_magic(const char *mime, const struct buf *b)
{
	for (size_t i = 0; i < N_TYPES; i++)
		if (!strcmp(types[i].mime, mime) && types[i].magic)
			return b->len > strlen(types[i].magic) &&
			       !memcmp(b->data, types[i].magic, strlen(types[i].magic));
	return false;
}

static int kitty(const struct buf *text, struct buf *out)
{
	int r = 0;

	for (size_t at = 0; r == 0 && at < text->len; at += CHUNK) {
		size_t n = text->len - at < CHUNK ? text->len - at : CHUNK;
		bool is_more = at + n < text->len;
		if (!at)
			r = buf_addf(out, "\x1b_Ga=T,f=100,q=2,m=%d;", is_more);
		else
			r = buf_addf(out, "\x1b_Gm=%d;", is_more);
		if (r == 0)
			r = buf_add(out, text->data + at, n);
		if (r == 0)
			r = buf_addz(out, "\x1b\\");
	}
	return r < 0 ? r : buf_addz(out, "\n");
}

int picture_sequence(enum picture_way way, const char *mime, const struct buf *bytes,
	struct buf *out)
{
	auto_buf struct buf text = BUF_INIT(out->max);
	int r;

	if (!has_magic(mime, bytes))
		return -ENOTSUP;
	if (way == PICTURE_KITTY && strcmp(mime, "image/png") != 0)
		return -ENOTSUP;
	if (way != PICTURE_KITTY && way != PICTURE_ITERM)
		return -ENOTSUP;
	if (!strcmp(mime, "application/pdf"))
		return -ENOTSUP;
	r = cli_base64(bytes->data, bytes->len, &text);
	if (r < 0)
		return r;
	if (way == PICTURE_KITTY)
		return kitty(&text, out);
	r = buf_addf(out, "\x1b]1337;File=inline=1;size=%zu:", bytes->len);
	if (r == 0)
		r = buf_add(out, text.data, text.len);
	return r < 0 ? r : buf_addz(out, "\a\n");
}

int picture_save(const char *directory, const char *suffix, const void *p, size_t n,
	char **ret_path, struct cell_error *err)
{
	static unsigned next = 1;
	bool is_here = !strcmp(directory, ".");

	if (!is_here && mkdir(directory, 0777) < 0 && errno != EEXIST)
		return cell_fail_errno(err, errno, "make the directory '%s'", directory);
	for (unsigned tries = 0; tries < FILES_MAX; tries++, next++) {
		auto_free char *path =
			is_here ? cli_format("picture-%u.%s", next, suffix)
				: cli_format("%s/picture-%u.%s", directory, next, suffix);
		auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
		if (fd < 0 && errno == EEXIST)
			continue;
		int r = fd < 0 ? -errno : fd_write_all(fd, p, n);
		if (r < 0) {
			if (fd >= 0)
				(void)unlink(path);
			r = cell_fail_errno(err, -r, "save a picture as '%s'", path);
			return cell_error_hint(err, r, "--output DIR says where to");
		}
		next++;
		*ret_path = steal_ptr(path);
		return 0;
	}
	return cell_fail(err, CELL_ENOSPACE, EEXIST, "save a picture in '%s': too many are there",
		directory);
}
