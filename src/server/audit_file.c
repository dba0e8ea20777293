/* SPDX-License-Identifier: Apache-2.0 */
/* audit_file.c: see audit_file.h. */
#include "server/audit_file.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "server/hash.h"

#define HASH_HEX  64
#define NAME_FORM "audit-%020" PRIu64 ".jsonl"
/* ,"prev":"...","hash":"..."} */
#define TAIL_LEN (9 + HASH_HEX + 10 + HASH_HEX + 2)

void audit_hash(const void *p, size_t n, char out[AUDIT_HASH_TEXT])
{
	uint8_t digest[HASH_BYTES];

	hash_sha256(p, n, digest);
	hash_hex(digest, sizeof digest, out);
}

static bool is_hex(const char *p)
{
	for (size_t i = 0; i < HASH_HEX; i++)
		if (!isdigit((unsigned char)p[i]) && !(p[i] >= 'a' && p[i] <= 'f'))
			return false;
	return true;
}

static const char *take(const char *p, const char *word)
{
	size_t n = strlen(word);

	return memcmp(p, word, n) ? NULL : p + n;
}

int audit_line_parse(const char *line, size_t len, struct audit_line *ret)
{
	static const char begin[] = "{\"seq\":";
	const char *p = line + sizeof begin - 1;
	unsigned digits = 0;

	if (len < sizeof begin + 2 + TAIL_LEN || memcmp(line, begin, sizeof begin - 1) != 0)
		return -EINVAL;
	ret->seq = 0;
	for (; isdigit((unsigned char)*p) && digits < 19; p++, digits++)
		ret->seq = ret->seq * 10 + (uint64_t)(*p - '0');
	if (!digits || *p != ',' || !ret->seq)
		return -EINVAL;
	const char *tail = take(line + len - TAIL_LEN, ",\"prev\":\"");
	if (!tail || !is_hex(tail))
		return -EINVAL;
	ret->prev = tail;
	tail += HASH_HEX;
	ret->hashed = (size_t)(tail + 1 - line);
	tail = take(tail, "\",\"hash\":\"");
	if (!tail || !is_hex(tail) || memcmp(tail + HASH_HEX, "\"}", 2) != 0)
		return -EINVAL;
	ret->hash = tail;
	return 0;
}

const char *audit_file_name(uint64_t first_seq, char out[AUDIT_NAME_MAX])
{
	(void)snprintf(out, AUDIT_NAME_MAX, NAME_FORM, first_seq);
	return out;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static bool seq_of_name(const char *name, uint64_t *ret)
{
	char again[AUDIT_NAME_MAX];
	char *end;

	if (strncmp(name, "audit-", 6) != 0 || !isdigit((unsigned char)name[6]))
		return false;
	errno = 0;
	*ret = strtoull(name + 6, &end, 10);
	return !errno && *ret && !strcmp(audit_file_name(*ret, again), name);
}

int audit_files(int dir_fd, uint64_t **ret, size_t *ret_n)
{
	auto_free uint64_t *list = NULL;
	size_t n = 0, cap = 0;
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_dir DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *d;

	if (!dir) {
		int saved = errno;
		if (fd >= 0)
			close(fd);
		return -saved;
	}
	while (errno = 0, (d = readdir(dir))) {
		uint64_t seq;
		if (!seq_of_name(d->d_name, &seq))
			continue;
		if (n == cap) {
			cap = cap ? cap * 2 : 16;
			uint64_t *more = reallocarray(list, cap, sizeof *list);
			if (!more)
				return -ENOMEM;
			list = more;
		}
		list[n++] = seq;
	}
	if (errno)
		return -errno;
	if (n)
		qsort(list, n, sizeof *list, by_number);
	*ret = steal_ptr(list);
	*ret_n = n;
	return 0;
}

void audit_boot(char out[AUDIT_BOOT_MAX])
{
	auto_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, out, AUDIT_BOOT_MAX - 1) : 0;

	out[n > 0 ? n : 0] = '\0';
	for (char *p = out; *p; p++)
		if (!isalnum((unsigned char)*p) && *p != '-')
			*p = '\0';
}

/* The name is part of what is authenticated: a head is no anchor. */
static void mark_mac(const char *name, const char *text, size_t n,
	const uint8_t key[AUDIT_KEY_BYTES], char out[AUDIT_HASH_TEXT])
{
	uint8_t mac[HASH_BYTES];
	char all[AUDIT_MARK_MAX + 32];

	int total = snprintf(all, sizeof all, "%s:%.*s", name, (int)n, text);
	hash_hmac(key, AUDIT_KEY_BYTES, all, (size_t)total, mac);
	hash_hex(mac, sizeof mac, out);
}

void audit_mark_format(const struct audit_mark *m, const char *name,
	const uint8_t key[AUDIT_KEY_BYTES], char out[AUDIT_MARK_MAX + 1])
{
	char mac[AUDIT_HASH_TEXT];
	int n = snprintf(out, AUDIT_MARK_MAX + 1, "%" PRIu64 " %s %s", m->seq, m->hash,
		*m->boot ? m->boot : "-");

	mark_mac(name, out, (size_t)n, key, mac);
	n += snprintf(out + n, AUDIT_MARK_MAX + 1 - (size_t)n, " %s", mac);
	memset(out + n, ' ', (size_t)(AUDIT_MARK_MAX - n));
	out[AUDIT_MARK_MAX - 1] = '\n';
	out[AUDIT_MARK_MAX] = '\0';
}

static int mark_parse(const char *text, const char *name, const uint8_t key[AUDIT_KEY_BYTES],
	struct audit_mark *ret)
{
	char mac[AUDIT_HASH_TEXT + 1], want[AUDIT_HASH_TEXT];
	int n = 0;

	*ret = (struct audit_mark){0};
	if (sscanf(text, "%20" SCNu64 " %64[0-9a-f] %39[-a-z0-9]%n %64[0-9a-f]", &ret->seq,
		    ret->hash, ret->boot, &n, mac) != 4 ||
		strlen(ret->hash) != HASH_HEX || strlen(mac) != HASH_HEX)
		return -EBADMSG;
	mark_mac(name, text, (size_t)n, key, want);
	if (!hash_is_equal(mac, want, HASH_HEX))
		return -EBADMSG;
	if (!strcmp(ret->boot, "-"))
		ret->boot[0] = '\0';
	return 0;
}

int audit_mark_read(int dir_fd, const char *name, const uint8_t key[AUDIT_KEY_BYTES],
	struct audit_mark *ret)
{
	char text[AUDIT_MARK_MAX + 1];
	auto_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return -errno;
	ssize_t n = pread(fd, text, AUDIT_MARK_MAX, 0);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	return mark_parse(text, name, key, ret);
}

int audit_key_read(const char *path, uint8_t ret[AUDIT_KEY_BYTES])
{
	char text[2 * AUDIT_KEY_BYTES + 2] = "";
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	ssize_t n = read(fd, text, sizeof text - 1);
	if (n < 0)
		return -errno;
	bool is_key = n >= 2 * AUDIT_KEY_BYTES && is_hex(text);
	for (size_t i = 0; is_key && i < AUDIT_KEY_BYTES; i++) {
		char pair[3] = {text[2 * i], text[2 * i + 1], 0};
		ret[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	explicit_bzero(text, sizeof text);
	return is_key ? 0 : -EBADMSG;
}

#define READER_CAP (AUDIT_RECORD_MAX + 65536)

void audit_reader_done(struct audit_reader *r)
{
	free(r->data);
	r->data = NULL;
}

/* More bytes behind `end`; 0 at the end of the file. */
static ssize_t reader_fill(struct audit_reader *r)
{
	ssize_t n;

	if (!r->data) {
		r->data = malloc(READER_CAP);
		if (!r->data)
			return -ENOMEM;
		r->cap = READER_CAP;
	}
	if (r->begin) {
		memmove(r->data, r->data + r->begin, r->end - r->begin);
		r->end -= r->begin;
		r->begin = 0;
	}
	if (r->end == r->cap)
		return -EFBIG;
	do
		n = read(r->fd, r->data + r->end, r->cap - r->end);
	while (n < 0 && errno == EINTR);
	if (n > 0)
		r->end += (size_t)n;
	return n < 0 ? -errno : n;
}

int audit_reader_next(struct audit_reader *r, const char **ret, size_t *ret_len)
{
	size_t looked = 0;

	for (;;) {
		const char *from = r->data ? r->data + r->begin : NULL;
		const char *end =
			from ? memchr(from + looked, '\n', r->end - r->begin - looked) : NULL;
		if (end) {
			*ret = from;
			*ret_len = (size_t)(end - from);
			r->begin += *ret_len + 1;
			r->line++;
			return 1;
		}
		looked = r->end - r->begin;
		ssize_t n = reader_fill(r);
		if (n < 0)
			return (int)n;
		if (n == 0) {
			r->is_cut = r->end > r->begin;
			*ret = r->data + r->begin;
			*ret_len = r->end - r->begin;
			return 0;
		}
	}
}
