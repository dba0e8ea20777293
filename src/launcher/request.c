/* SPDX-License-Identifier: Apache-2.0 */
/* request.c: see request.h. No system call is made here. */
#include "launcher/request.h"

#include <errno.h>
#include <string.h>

static const char *const step_words[] = {
#define X(name, words) words,
	LAUNCHER_STEPS(X)
#undef X
};

const char *launcher_step_words(unsigned step)
{
	return step < LAUNCHER_STEP_COUNT ? step_words[step] : "do something unknown";
}

bool launcher_is_clean_path(const char *path)
{
	if (path[0] != '/' || !path[1])
		return false;
	for (const char *p = path; *p;) {
		size_t n = strcspn(++p, "/"); /* p was at a slash */

		if (n == 0 || n > 255 || (n == 1 && p[0] == '.') ||
			(n == 2 && p[0] == '.' && p[1] == '.'))
			return false;
		for (size_t i = 0; i < n; i++)
			if ((unsigned char)p[i] < 0x20 || p[i] == 0x7f)
				return false;
		p += n;
	}
	return true;
}

static bool is_hostname(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++) {
		char c = s[i];

		if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
			    c == '-' || c == '.' || c == '_'))
			return false;
	}
	return n <= 64;
}

static bool is_word(const char *s)
{
	size_t n = strlen(s);

	for (size_t i = 0; i < n; i++)
		if (!((s[i] >= 'a' && s[i] <= 'z') || s[i] == '-'))
			return false;
	return n <= 32;
}

static bool is_printable(const char *s)
{
	for (; *s; s++)
		if ((unsigned char)*s < 0x20 || (unsigned char)*s >= 0x7f)
			return false;
	return true;
}

/* ---- destinations ---- */

static bool has_prefix(const uint8_t *addr, const uint8_t *of, unsigned bits)
{
	for (unsigned i = 0; i < bits; i++)
		if ((addr[i / 8] ^ of[i / 8]) & (0x80 >> i % 8))
			return false;
	return true;
}

/* Have the two ranges an address in common? */
static bool meets(const struct launcher_rule *r, const uint8_t *addr, unsigned bits)
{
	return has_prefix(r->addr, addr, bits < r->prefix ? bits : r->prefix);
}

const char *launcher_rule_problem(const struct launcher_rule *r)
{
	static const uint8_t zero[16], loopback4[] = {127}, local4[] = {169, 254},
				       multicast4[] = {224}, local6[] = {0xfe, 0x80},
				       multicast6[] = {0xff};

	if (r->family == 4) {
		if (meets(r, loopback4, 8) || meets(r, zero, 8))
			return "the host's loopback is never open to a cell";
		if (meets(r, multicast4, 3))
			return "multicast and reserved addresses are never open";
		if (meets(r, local4, 16) && r->prefix != 32)
			return "link-local and metadata addresses must be named one by one";
	} else {
		/* ::1, IPv4 in other words */
		if (meets(r, zero, 80))
			return "the host's loopback is never open to a cell";
		if (meets(r, local6, 10) || meets(r, multicast6, 8))
			return "link-local and multicast addresses are never open";
	}
	return NULL;
}

static bool is_rule(const struct launcher_rule *r)
{
	unsigned bits = r->family == 4 ? 32 : 128;

	if ((r->family != 4 && r->family != 6) || r->prefix > bits || r->reserved || r->reserved2 ||
		(r->kind != LAUNCHER_RULE_NAMED && r->kind != LAUNCHER_RULE_OWN))
		return false;
	for (unsigned i = r->prefix; i < 128; i++)
		if (r->addr[i / 8] & (0x80 >> i % 8))
			return false;
	return r->kind == LAUNCHER_RULE_OWN || !launcher_rule_problem(r);
}

/* Which fds have been named; each may be once. */
struct taken {
	const int *fds;
	size_t n, n_taken;
	bool is_taken[LAUNCHER_MAX_FDS];
};

static bool take(struct taken *t, uint16_t at, bool is_optional, int *ret)
{
	*ret = -1;
	if (at == LAUNCHER_NO_FD)
		return is_optional;
	if (at >= t->n || t->is_taken[at])
		return false;
	t->is_taken[at] = true;
	t->n_taken++;
	*ret = t->fds[at];
	return true;
}

static int broken(const char **why, const char *rule)
{
	*why = rule;
	return -EPROTO;
}

static const char *check_head(const struct launcher_head *h, size_t len, size_t n_fds)
{
	if (h->magic != LAUNCHER_MAGIC)
		return "wrong magic";
	if (h->version != LAUNCHER_VERSION)
		return "wrong version: the launcher is of another build";
	if (h->size != len)
		return "size differs from the message's";
	if (h->op < LAUNCHER_HELLO || h->op >= LAUNCHER_OP_COUNT)
		return "unknown operation";
	if (h->n_fds != n_fds || n_fds > LAUNCHER_MAX_FDS)
		return "number of fds differs from what came";
	if (h->n_mounts > LAUNCHER_MAX_MOUNTS)
		return "too many mounts";
	if (h->n_layers > LAUNCHER_MAX_LAYERS)
		return "too many layers";
	if (h->n_texts != LAUNCHER_TEXT_COUNT)
		return "wrong number of texts";
	if (h->flags & ~(uint32_t)LAUNCHER_FLAGS_ALL)
		return "unknown flag";
	if (h->reserved)
		return "reserved field is not zero";
	if (h->n_rules > LAUNCHER_MAX_RULES)
		return "too many rules";
	if (h->n_rules && !(h->flags & LAUNCHER_NET_OPEN))
		return "rules without a network";
	if (h->slot >= LAUNCHER_MAX_SLOTS)
		return "no such slot";
	if (h->op != LAUNCHER_CREATE && (h->n_mounts || h->n_layers || h->flags))
		return "mounts or flags without a cell to make";
	if (h->owner_uid == UINT32_MAX || h->owner_gid == UINT32_MAX)
		return "owner is no id";
	if (h->memory_bytes > INT64_MAX || h->disk_bytes > INT64_MAX || h->inodes > INT64_MAX ||
		h->file_size_bytes > INT64_MAX || h->process_memory_bytes > INT64_MAX ||
		h->reserve_bytes > INT64_MAX)
		return "limit out of range";
	if (h->cpu_millis > 10u * 1000 * 1000 || h->pids > 1u << 22 || h->files > 1u << 30 ||
		h->cpu_time_s > 1u << 30 || h->io_weight > 10000 || h->cpu_weight > 10000)
		return "limit out of range";
	if (!(h->flags & LAUNCHER_DEDICATED) != !h->n_cpus || h->n_cpus > 1024)
		return "a number of CPUs without a wish for them, or the other way round";
	return NULL;
}

static const char *take_fds(const struct launcher_head *h, struct taken *t,
	struct launcher_request *ret)
{
	bool is_create = h->op == LAUNCHER_CREATE;

	if (!take(t, h->control_fd, false, &ret->control_fd))
		return "no control socket";
	bool has_no_stream = !is_create || h->flags & (LAUNCHER_TRIAL | LAUNCHER_FILL);

	if (!take(t, h->stream_fd, has_no_stream, &ret->stream_fd) ||
		!take(t, h->guest_fd, !is_create || (h->flags & LAUNCHER_TRIAL), &ret->guest_fd))
		return "no stream or no guest";
	if (!take(t, h->hold_fd, true, &ret->hold_fd) ||
		!take(t, h->workspace_fd, true, &ret->workspace_fd) ||
		!take(t, h->filter_fd, true, &ret->filter_fd) ||
		!take(t, h->scratch_fd, true, &ret->scratch_fd) ||
		!take(t, h->slots_fd, h->op != LAUNCHER_HELLO, &ret->slots_fd))
		return "an fd is named twice or did not come";
	bool has_second =
		h->op == LAUNCHER_HELLO || (launcher_is_about_motion(h->op) && ret->hold_fd >= 0);

	if (!is_create && t->n_taken != (has_second ? 2 : 1))
		return "fds without a cell to make";
	if ((h->flags & LAUNCHER_DISK_ON_IMAGE) && ret->scratch_fd < 0)
		return "an image for scratch space, but none came";
	if (is_create && ret->slots_fd >= 0)
		return "a directory of locks again";
	return NULL;
}

int launcher_parse(void *buf, size_t len, const int *fds, size_t n_fds,
	struct launcher_request *ret, const char **why)
{
	struct taken t = {.fds = fds, .n = n_fds};
	struct launcher_head h;
	const char *rule;
	char *bytes = buf;
	uint16_t text_lens[LAUNCHER_TEXT_COUNT];

	memset(ret, 0, sizeof *ret);
	if (len < sizeof h || len > LAUNCHER_MAX_REQUEST)
		return broken(why, "message too short or too long");
	memcpy(&h, buf, sizeof h);
	ret->head = h;
	rule = check_head(&h, len, n_fds);
	if (!rule)
		rule = take_fds(&h, &t, ret);
	if (rule)
		return broken(why, rule);

	size_t at = sizeof h;
	size_t tables = sizeof text_lens + h.n_layers * sizeof(uint16_t) +
			h.n_mounts * sizeof(struct launcher_wire_mount) +
			h.n_rules * sizeof(struct launcher_rule);
	if (len - at < tables)
		return broken(why, "tables are cut off");
	memcpy(text_lens, bytes + at, sizeof text_lens);
	at += sizeof text_lens;
	for (size_t i = 0; i < h.n_layers; i++, at += sizeof(uint16_t)) {
		uint16_t position;

		memcpy(&position, bytes + at, sizeof position);
		if (!take(&t, position, false, &ret->layers[i]))
			return broken(why, "a layer's fd is named twice or did not come");
	}
	ret->n_layers = h.n_layers;
	size_t mounts_at = at;
	at += h.n_mounts * sizeof(struct launcher_wire_mount);
	for (size_t i = 0; i < h.n_rules; i++, at += sizeof ret->rules[i]) {
		memcpy(&ret->rules[i], bytes + at, sizeof ret->rules[i]);
		if (!is_rule(&ret->rules[i]))
			return broken(why, "a rule names a destination that none may");
	}
	ret->n_rules = h.n_rules;

	/* each text: its bytes and one NUL */
	for (size_t i = 0; i < LAUNCHER_TEXT_COUNT; i++) {
		size_t n = text_lens[i];

		if (n > LAUNCHER_MAX_TEXT || len - at < n + 1)
			return broken(why, "a text is cut off");
		if (memchr(bytes + at, '\0', n) || bytes[at + n])
			return broken(why, "a text has a NUL in it or none at its end");
		ret->texts[i] = bytes + at;
		at += n + 1;
	}
	if (!is_hostname(ret->texts[LAUNCHER_TEXT_HOSTNAME]))
		return broken(why, "host name with a character that none may have, or too long");
	if (!is_word(ret->texts[LAUNCHER_TEXT_PROFILE]))
		return broken(why, "bad name of a profile");
	if (!is_printable(ret->texts[LAUNCHER_TEXT_WARM]))
		return broken(why, "list of interpreters is not plain text");
	if (!is_printable(ret->texts[LAUNCHER_TEXT_TITLE]))
		return broken(why, "title is not plain text");
	if (ret->texts[LAUNCHER_TEXT_RESOLV][0] && !(h.flags & LAUNCHER_NET_OPEN))
		return broken(why, "a resolver without a network");
	if (ret->filter_fd >= 0 && ret->texts[LAUNCHER_TEXT_PROFILE][0])
		return broken(why, "a filter and a profile");

	for (size_t i = 0; i < h.n_mounts; i++) {
		struct launcher_wire_mount m;
		struct launcher_mount *out = &ret->mounts[i];

		memcpy(&m, bytes + mounts_at + i * sizeof m, sizeof m);
		if (m.flags & ~LAUNCHER_MOUNT_RO || m.reserved)
			return broken(why, "unknown flag of a mount");
		if (!take(&t, m.fd, false, &out->fd))
			return broken(why, "a mount's fd is named twice or did not come");
		size_t n = m.target_len;
		if (n > LAUNCHER_MAX_TEXT || len - at < n + 1)
			return broken(why, "a mount's target is cut off");
		if (memchr(bytes + at, '\0', n) || bytes[at + n])
			return broken(why, "a mount's target has a NUL in it or none at its end");
		out->target = bytes + at;
		out->is_read_only = m.flags & LAUNCHER_MOUNT_RO;
		if (!launcher_is_clean_path(out->target))
			return broken(why, "a mount's target is no clean absolute path");
		at += n + 1;
	}
	ret->n_mounts = h.n_mounts;
	if (at != len)
		return broken(why, "bytes behind the end");
	if (t.n_taken != n_fds)
		return broken(why, "an fd that nothing names");
	return 0;
}

/* ---- packing ---- */

static uint16_t give(int fd, int *fds, size_t *n)
{
	if (fd < 0)
		return LAUNCHER_NO_FD;
	fds[*n] = fd;
	return (uint16_t)(*n)++;
}

int launcher_pack(const struct launcher_request *rq, void *buf, int *fds, size_t *n_fds)
{
	struct launcher_head h = rq->head;
	uint16_t text_lens[LAUNCHER_TEXT_COUNT];
	char *bytes = buf;
	size_t n = 0;

	if (rq->n_mounts > LAUNCHER_MAX_MOUNTS || rq->n_layers > LAUNCHER_MAX_LAYERS ||
		rq->n_rules > LAUNCHER_MAX_RULES)
		return -E2BIG;
	_Static_assert(LAUNCHER_MAX_MOUNTS + LAUNCHER_MAX_LAYERS + 8 <= LAUNCHER_MAX_FDS,
		"room for every fd");
	h.magic = LAUNCHER_MAGIC;
	h.version = LAUNCHER_VERSION;
	h.n_mounts = (uint16_t)rq->n_mounts;
	h.n_layers = (uint16_t)rq->n_layers;
	h.n_rules = (uint16_t)rq->n_rules;
	h.n_texts = LAUNCHER_TEXT_COUNT;
	h.control_fd = give(rq->control_fd, fds, &n);
	h.stream_fd = give(rq->stream_fd, fds, &n);
	h.guest_fd = give(rq->guest_fd, fds, &n);
	h.hold_fd = give(rq->hold_fd, fds, &n);
	h.workspace_fd = give(rq->workspace_fd, fds, &n);
	h.filter_fd = give(rq->filter_fd, fds, &n);
	h.scratch_fd = give(rq->scratch_fd, fds, &n);
	h.slots_fd = give(rq->slots_fd, fds, &n);

	size_t at = sizeof h + sizeof text_lens;
	for (size_t i = 0; i < rq->n_layers; i++, at += sizeof(uint16_t)) {
		uint16_t position = give(rq->layers[i], fds, &n);

		if (rq->layers[i] < 0)
			return -EINVAL;
		memcpy(bytes + at, &position, sizeof position);
	}
	size_t mounts_at = at;
	at += rq->n_mounts * sizeof(struct launcher_wire_mount);
	memcpy(bytes + at, rq->rules, rq->n_rules * sizeof rq->rules[0]);
	at += rq->n_rules * sizeof rq->rules[0];
	for (size_t i = 0; i < LAUNCHER_TEXT_COUNT; i++) {
		const char *s = rq->texts[i] ? rq->texts[i] : "";
		size_t len = strlen(s);

		if (len > LAUNCHER_MAX_TEXT || at + len + 1 > LAUNCHER_MAX_REQUEST)
			return -E2BIG;
		text_lens[i] = (uint16_t)len;
		memcpy(bytes + at, s, len + 1);
		at += len + 1;
	}
	for (size_t i = 0; i < rq->n_mounts; i++) {
		const struct launcher_mount *m = &rq->mounts[i];
		size_t len = strlen(m->target);
		struct launcher_wire_mount w = {.fd = give(m->fd, fds, &n),
			.flags = m->is_read_only ? LAUNCHER_MOUNT_RO : 0,
			.target_len = (uint16_t)len};

		if (m->fd < 0 || !launcher_is_clean_path(m->target))
			return -EINVAL;
		if (len > LAUNCHER_MAX_TEXT || at + len + 1 > LAUNCHER_MAX_REQUEST)
			return -E2BIG;
		memcpy(bytes + mounts_at + i * sizeof w, &w, sizeof w);
		memcpy(bytes + at, m->target, len + 1);
		at += len + 1;
	}
	h.n_fds = (uint16_t)n;
	h.size = (uint32_t)at;
	memcpy(buf, &h, sizeof h);
	memcpy(bytes + sizeof h, text_lens, sizeof text_lens);
	*n_fds = n;
	return (int)at;
}
