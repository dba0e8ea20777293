/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.c: reading and writing cell.json.
 *
 * JSON is UTF-8, but paths and environments are bytes. In memory our strings are those bytes; in
 * the file a byte that is not part of valid UTF-8 is written as the code point U+10FF00 + byte
 * (code points of that block that occur in the text are written byte by byte, too, so that it can
 * be undone).
 */
#include "core/record.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define RECORD_FILE "cell.json"
#define RECORD_TEMP "cell.json.new"
#define ESCAPE_BASE 0x10ff00u

/* Length of the valid UTF-8 sequence at p (which is NUL-terminated) and its code point, or 0. */
static size_t sequence(const unsigned char *p, uint32_t *ret)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
	uint32_t cp;

	if (n == 1) {
		*ret = p[0];
		return 1;
	}
	if (!n || p[0] > 0xf4)
		return 0;
	cp = p[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (p[i] & 0x3fu);
	}
	if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
		return 0;
	*ret = cp;
	return n;
}

static int escape(const char *text, struct buf *ret)
{
	const unsigned char *p = (const unsigned char *)text;
	int r = 0;

	while (*p && !r) {
		uint32_t cp = 0;
		size_t n = sequence(p, &cp);

		if (n && cp < ESCAPE_BASE) {
			r = buf_add(ret, p, n);
			p += n;
			continue;
		}
		cp = ESCAPE_BASE + *p++;
		const unsigned char out[4] = {(unsigned char)(0xf0 | cp >> 18),
			(unsigned char)(0x80 | (cp >> 12 & 0x3f)),
			(unsigned char)(0x80 | (cp >> 6 & 0x3f)),
			(unsigned char)(0x80 | (cp & 0x3f))};
		r = buf_add(ret, out, sizeof out);
	}
	return r;
}

static int unescape(const char *text, struct buf *ret)
{
	const unsigned char *p = (const unsigned char *)text;
	int r = 0;

	while (*p && !r) {
		uint32_t cp = 0;
		size_t n = sequence(p, &cp);

		if (n == 4 && cp >= ESCAPE_BASE)
			r = buf_addc(ret, (char)(cp - ESCAPE_BASE));
		else
			r = buf_add(ret, p, n ? n : 1);
		p += n ? n : 1;
	}
	return r;
}

/* A copy of v with every string converted; NULL when out of memory. */
static json_t *convert(const json_t *v, int (*fn)(const char *, struct buf *), int depth)
{
	if (depth > 16)
		return NULL;
	if (json_is_string(v)) {
		auto_buf struct buf b = BUF_INIT(4 * CELL_RECORD_MAX);
		if (fn(json_string_value(v), &b) < 0)
			return NULL;
		return json_stringn_nocheck(buf_str(&b), b.len);
	}
	if (json_is_array(v)) {
		json_t *copy = json_array();
		for (size_t i = 0; copy && i < json_array_size(v); i++) {
			if (json_array_append_new(copy,
				    convert(json_array_get(v, i), fn, depth + 1)) < 0) {
				json_decref(copy);
				return NULL;
			}
		}
		return copy;
	}
	if (json_is_object(v)) {
		json_t *copy = json_object();
		void *it = copy ? json_object_iter((json_t *)(uintptr_t)v) : NULL;
		for (; it; it = json_object_iter_next((json_t *)(uintptr_t)v, it)) {
			if (json_object_set_new_nocheck(copy, json_object_iter_key(it),
				    convert(json_object_iter_value(it), fn, depth + 1)) < 0) {
				json_decref(copy);
				return NULL;
			}
		}
		return copy;
	}
	return json_deep_copy(v);
}

static int write_all(int fd, const char *p, size_t n)
{
	while (n) {
		ssize_t k = write(fd, p, n);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		p += k;
		n -= (size_t)k;
	}
	return 0;
}

static int write_temp(int dir_fd, const char *text, bool is_durable)
{
	const size_t n = strlen(text);
	struct stat st;
	auto_fd int fd =
		openat(dir_fd, RECORD_TEMP, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	/* over what is there: emptying a file first costs more than all the rest */
	int r = write_all(fd, text, n);
	if (!r && (fstat(fd, &st) < 0 || (st.st_size > (off_t)n && ftruncate(fd, (off_t)n) < 0)))
		r = -errno;
	if (!r && is_durable && fsync(fd) < 0)
		r = -errno;
	return r;
}

static int sync_directory(int dir_fd)
{
	auto_fd int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) < 0 ? -errno : 0;
}

int cell_record_save(int dir_fd, json_t *record, bool is_durable, struct cell_error *err)
{
	json_t *escaped = convert(record, escape, 0);
	auto_free char *text =
		escaped ? json_dumps(escaped, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL;
	int r = text ? 0 : -ENOMEM;

	json_decref(escaped);
	if (!r && strlen(text) > CELL_RECORD_MAX)
		r = -E2BIG;
	if (!r)
		r = write_temp(dir_fd, text, is_durable);
	/* an ephemeral cell's two files take turns: no inode is made or freed, see store_spare.h */
	if (!r &&
		(is_durable ||
			renameat2(dir_fd, RECORD_TEMP, dir_fd, RECORD_FILE, RENAME_EXCHANGE) < 0) &&
		renameat(dir_fd, RECORD_TEMP, dir_fd, RECORD_FILE) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir_fd, RECORD_TEMP, 0);
	if (!r && is_durable)
		r = sync_directory(dir_fd);
	if (!r)
		return 0;
	cell_fail_errno(err, -r, "write the cell's record");
	if (r == -ENOSPC || r == -EDQUOT)
		return cell_error_hint(err, r,
			"free some space, or set CELL_STATE_DIR to a directory elsewhere");
	return cell_error_hint(err, r, "look at the owner and mode of the state directory");
}

static int fail_broken(struct cell_error *err, const char *why)
{
	int r = cell_fail(err, CELL_EBACKEND, 0, "its record (%s) cannot be read: %s", RECORD_FILE,
		why);

	(void)r;
	return cell_error_hint(err, -EBADMSG,
		"nothing can be done with it but removing it: cell rm");
}

static int read_text(int dir_fd, struct buf *ret)
{
	struct stat st;
	auto_fd int fd =
		openat(dir_fd, RECORD_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	int r = buf_reserve(ret, (size_t)st.st_size);
	while (!r) {
		r = buf_reserve(ret, 4096);
		ssize_t k = r ? 0 : read(fd, ret->data + ret->len, ret->cap - ret->len - 1);
		if (k < 0 && errno == EINTR)
			continue;
		if (k < 0)
			return -errno;
		if (k == 0)
			break;
		ret->len += (size_t)k;
	}
	return r;
}

int cell_record_load(int dir_fd, json_t **ret, struct cell_error *err)
{
	auto_buf struct buf text = BUF_INIT(CELL_RECORD_MAX + 8192);
	json_error_t why;
	int r = read_text(dir_fd, &text);

	if (r == -ENOENT)
		return r;
	if (r == -ENOMEM)
		return cell_fail_errno(err, -r, "read the cell's record");
	if (r < 0)
		return fail_broken(err, r == -EBADMSG ? "not a file" : strerror(-r));
	json_t *escaped = json_loadb(buf_str(&text), text.len, JSON_REJECT_DUPLICATES, &why);
	if (!escaped)
		return fail_broken(err, text.len ? why.text : "it is empty");
	json_t *record = convert(escaped, unescape, 0);
	json_decref(escaped);
	if (!record)
		return fail_broken(err, "too deep, or out of memory");
	int64_t version = cell_record_int(record, "version", -1);
	const char *problem = !json_is_object(record)	      ? "no object"
			      : version > CELL_RECORD_VERSION ? "it was written by a newer Cell"
			      : version < CELL_RECORD_VERSION ? "no version that this Cell knows"
			      : !cell_record_str(record, "backend") ? "no back end"
			      : !cell_record_str(record, "state")   ? "no state"
								    : NULL;
	if (problem) {
		json_decref(record);
		return fail_broken(err, problem);
	}
	*ret = record;
	return 0;
}

const char *cell_record_str(const json_t *record, const char *key)
{
	return json_string_value(json_object_get(record, key));
}

int cell_record_set_str(json_t *record, const char *key, const char *value)
{
	if (!value)
		return 0;
	return json_object_set_new(record, key, json_string_nocheck(value)) < 0 ? -ENOMEM : 0;
}

int64_t cell_record_int(const json_t *record, const char *key, int64_t otherwise)
{
	const json_t *v = json_object_get(record, key);

	return json_is_integer(v) ? json_integer_value(v) : otherwise;
}

int cell_record_set_int(json_t *record, const char *key, int64_t value)
{
	return json_object_set_new(record, key, json_integer(value)) < 0 ? -ENOMEM : 0;
}

int cell_record_set_list(json_t *record, const char *key, const char *const *list)
{
	json_t *a = json_array();

	for (; a && list && *list; list++) {
		if (json_array_append_new(a, json_string_nocheck(*list)) < 0) {
			json_decref(a);
			return -ENOMEM;
		}
	}
	return json_object_set_new(record, key, a) < 0 ? -ENOMEM : 0;
}

int cell_record_list(const json_t *record, const char *key, char ***ret)
{
	const json_t *a = json_object_get(record, key);
	size_t n = json_array_size(a), used = 0;
	char **list = calloc(n + 1, sizeof *list);

	if (!list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		const char *s = json_string_value(json_array_get(a, i));

		if (s && !(list[used++] = strdup(s))) {
			cell_record_list_free(&list);
			return -ENOMEM;
		}
	}
	*ret = list;
	return 0;
}

void cell_record_list_free(char ***list)
{
	for (char **s = *list; s && *s; s++)
		free(*s);
	free(*list);
	*list = NULL;
}

int cell_record_set_caps(json_t *record, const char *key, cell_caps caps)
{
	const char *words[CELL_CAP_COUNT + 1] = {0};
	size_t n = 0;

	for (int i = 0; i < CELL_CAP_COUNT; i++)
		if (caps & CELL_CAP_BIT(i))
			words[n++] = cell_cap_name((enum cell_cap)i);
	return cell_record_set_list(record, key, words);
}

cell_caps cell_record_caps(const json_t *record, const char *key)
{
	const json_t *a = json_object_get(record, key);
	cell_caps caps = 0;

	for (size_t i = 0; i < json_array_size(a); i++) {
		const char *word = json_string_value(json_array_get(a, i));
		int cap = word ? cell_cap_find(word) : -1;

		if (cap >= 0)
			caps |= CELL_CAP_BIT(cap);
	}
	return caps;
}
