/* SPDX-License-Identifier: Apache-2.0 */
/* netlink.c: see netlink.h. */
#include "launcher/netlink.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"

void nl_reset(struct nl_batch *b)
{
	b->len = b->message = 0;
	b->n = 0;
	b->is_full = false;
}

/* Room for n bytes and what aligns them, zeroed; NULL and full when there is none. */
static void *room(struct nl_batch *b, size_t n)
{
	size_t whole = NLMSG_ALIGN(n);

	if (b->is_full || whole > sizeof b->bytes - b->len) {
		b->is_full = true;
		return NULL;
	}
	void *p = b->bytes + b->len;
	memset(p, 0, whole);
	b->len += whole;
	((struct nlmsghdr *)(void *)(b->bytes + b->message))->nlmsg_len =
		(uint32_t)(b->len - b->message);
	return p;
}

void nl_message(struct nl_batch *b, uint16_t type, uint16_t flags, const void *head, size_t n)
{
	size_t at = b->len;

	if (b->is_full || sizeof b->bytes - b->len < NLMSG_HDRLEN + NLMSG_ALIGN(n)) {
		b->is_full = true;
		return;
	}
	b->message = at;
	struct nlmsghdr *h = room(b, NLMSG_HDRLEN);
	h->nlmsg_type = type;
	h->nlmsg_flags = flags | NLM_F_REQUEST;
	h->nlmsg_seq = ++b->n;
	void *p = room(b, n);
	if (p && n)
		memcpy(p, head, n);
}

size_t nl_nest_with(struct nl_batch *b, uint16_t type, const void *head, size_t n)
{
	size_t at = b->len;
	struct nlattr *a = room(b, NLA_HDRLEN + n);

	if (!a)
		return at;
	a->nla_type = type;
	a->nla_len = (uint16_t)(NLA_HDRLEN + n);
	if (n)
		memcpy((char *)a + NLA_HDRLEN, head, n);
	return at;
}

void nl_put(struct nl_batch *b, uint16_t type, const void *data, size_t n)
{
	(void)nl_nest_with(b, type, data, n);
}

size_t nl_nest(struct nl_batch *b, uint16_t type)
{
	return nl_nest_with(b, type | NLA_F_NESTED, NULL, 0);
}

void nl_end(struct nl_batch *b, size_t nest)
{
	size_t n = b->len - nest;

	if (n > UINT16_MAX)
		b->is_full = true;
	if (!b->is_full)
		((struct nlattr *)(void *)(b->bytes + nest))->nla_len = (uint16_t)n;
}

void nl_put_u8(struct nl_batch *b, uint16_t type, uint8_t value)
{
	nl_put(b, type, &value, sizeof value);
}

void nl_put_u32(struct nl_batch *b, uint16_t type, uint32_t value)
{
	nl_put(b, type, &value, sizeof value);
}

void nl_put_be32(struct nl_batch *b, uint16_t type, uint32_t value)
{
	nl_put_u32(b, type, htobe32(value));
}

void nl_put_text(struct nl_batch *b, uint16_t type, const char *text)
{
	nl_put(b, type, text, strlen(text) + 1);
}

int nl_open(int protocol)
{
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
	const int on = 1, bytes = 1 << 20;

	if (fd < 0)
		return -1;
	/* words with errors, errors without a copy of the request; kernels without them do less */
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on);
	(void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof on);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	return steal_fd(fd);
}

const char *nl_find(const char *attributes, size_t n, uint16_t type, size_t *ret_n)
{
	struct nlattr a;

	for (size_t at = 0; n >= sizeof a && at <= n - sizeof a;) {
		memcpy(&a, attributes + at, sizeof a);
		if (a.nla_len < sizeof a || a.nla_len > n - at)
			break;
		if ((a.nla_type & NLA_TYPE_MASK) == type) {
			*ret_n = a.nla_len - sizeof a;
			return attributes + at + sizeof a;
		}
		at += NLA_ALIGN(a.nla_len);
	}
	return NULL;
}

static int send_batch(int fd, const struct nl_batch *b)
{
	struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (b->is_full) {
		errno = E2BIG;
		return -1;
	}
	return sendto(fd, b->bytes, b->len, 0, (struct sockaddr *)&kernel, sizeof kernel) ==
			       (ssize_t)b->len
		       ? 0
		       : -1;
}

/* NLMSG_DATA would cast const away. */
static const void *payload_of(const struct nlmsghdr *h)
{
	return (const char *)h + NLMSG_HDRLEN;
}

/* What the kernel has to say about one message. */
static int read_error(const struct nlmsghdr *h, const char *payload, size_t n, char why[80])
{
	struct nlmsgerr e;
	size_t text_n = 0;

	if (n < sizeof e)
		return -EPROTO;
	memcpy(&e, payload, sizeof e);
	const char *text = NULL;
	if (h->nlmsg_flags & NLM_F_ACK_TLVS && h->nlmsg_flags & NLM_F_CAPPED)
		text = nl_find(payload + sizeof e, n - sizeof e, NLMSGERR_ATTR_MSG, &text_n);
	if (e.error && text && why) {
		text_n = strnlen(text, text_n < 79 ? text_n : 79);
		memcpy(why, text, text_n);
		why[text_n] = '\0';
	}
	return e.error;
}

int nl_send(int fd, const struct nl_batch *b, char why[80])
{
	_Alignas(8) char answer[8192];
	bool is_heard = false;
	int error = 0;

	if (why)
		why[0] = '\0';
	if (send_batch(fd, b) < 0)
		return -1;
	for (;;) {
		ssize_t n = recv(fd, answer, sizeof answer, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		for (const struct nlmsghdr *h = (const void *)answer; NLMSG_OK(h, (size_t)n);
			h = (const void *)((const char *)h + NLMSG_ALIGN(h->nlmsg_len))) {
			size_t len = NLMSG_ALIGN(h->nlmsg_len);

			if (h->nlmsg_type == NLMSG_ERROR) {
				int e = read_error(h, payload_of(h), h->nlmsg_len - NLMSG_HDRLEN,
					error ? NULL : why);
				is_heard = true;
				error = error ? error : e;
			}
			if (len >= (size_t)n)
				break;
			n -= (ssize_t)len;
		}
	}
	if (is_heard && !error)
		return 0;
	errno = is_heard ? -error : EIO;
	return -1;
}

int nl_ask(int fd, const struct nl_batch *b,
	int (*fn)(void *user, uint16_t type, const char *payload, size_t n), void *user)
{
	static _Alignas(8) char answer[32768];
	bool is_over = false;
	int r = 0;

	if (send_batch(fd, b) < 0)
		return -1;
	while (!is_over) {
		ssize_t n = recv(fd, answer, sizeof answer, MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		for (const struct nlmsghdr *h = (const void *)answer; NLMSG_OK(h, (size_t)n);
			h = (const void *)((const char *)h + NLMSG_ALIGN(h->nlmsg_len))) {
			size_t len = NLMSG_ALIGN(h->nlmsg_len);

			if (h->nlmsg_type == NLMSG_DONE) {
				is_over = true;
			} else if (h->nlmsg_type == NLMSG_ERROR) {
				int e = read_error(h, payload_of(h), h->nlmsg_len - NLMSG_HDRLEN,
					NULL);
				errno = -e;
				return e ? -1 : r;
			} else if (r == 0) {
				r = fn(user, h->nlmsg_type, payload_of(h),
					h->nlmsg_len - NLMSG_HDRLEN);
			}
			if (len >= (size_t)n)
				break;
			n -= (ssize_t)len;
		}
	}
	return r;
}
