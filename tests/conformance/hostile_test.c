/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hostile_test.c: clients that break the protocol are dropped and nobody else notices. Speaks to
 * the guest's socket by hand; for cells whose directory has one.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "suite.h"
#include "wire/wire.h"

static int note_dir(const struct cell_info *i, void *user)
{
	snprintf(user, 4096, "%s", i->directory);
	return 0;
}

static void find_socket(const char *name, struct sockaddr_un *sa)
{
	char dir[4096] = "";

	OK(cell_inspect(name, note_dir, dir, &E));
	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (snprintf(sa->sun_path, sizeof(sa->sun_path), "%s/sock", dir) >=
			(int)sizeof(sa->sun_path) ||
		access(sa->sun_path, F_OK) < 0)
		SKIP("the guest of this back end has no socket of its own");
}

static int dial(const struct sockaddr_un *sa)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ASSERT(fd >= 0);
	for (int i = 0; connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0; i++) {
		ASSERT(errno == EAGAIN || errno == EINTR);
		ASSERT(i < 500);
		usleep(10000);
	}
	return fd;
}

/* The peer closes: by EOF or reset, perhaps after some last words. */
static void must_be_dropped(int fd, const char *why)
{
	char bytes[4096];
	struct pollfd p = {.fd = fd, .events = POLLIN};
	ssize_t n;

	do {
		if (poll(&p, 1, 20000) != 1)
			DIE("%s: the guest keeps the connection", why);
		n = recv(fd, bytes, sizeof(bytes), 0);
	} while (n > 0);
	close(fd);
}

static size_t put_header(uint8_t *out, uint32_t len, uint8_t type, uint8_t chan, uint16_t flags,
	uint32_t stream)
{
	const uint8_t h[WIRE_HEADER_SIZE] = {(uint8_t)len, (uint8_t)(len >> 8),
		(uint8_t)(len >> 16), (uint8_t)(len >> 24), type, chan, (uint8_t)flags,
		(uint8_t)(flags >> 8), (uint8_t)stream, (uint8_t)(stream >> 8),
		(uint8_t)(stream >> 16), (uint8_t)(stream >> 24)};

	memcpy(out, h, sizeof(h));
	return sizeof(h);
}

static size_t put_u64(uint8_t *out, unsigned tag, uint64_t v)
{
	out[0] = (uint8_t)tag;
	out[1] = (uint8_t)(tag >> 8);
	out[2] = 8;
	out[3] = out[4] = out[5] = 0;
	for (int i = 0; i < 8; i++)
		out[6 + i] = (uint8_t)(v >> (8 * i));
	return 14;
}

static size_t put_hello(uint8_t *out, uint64_t magic, uint64_t version)
{
	size_t n = WIRE_HEADER_SIZE;

	n += put_u64(out + n, WIRE_T_MAGIC, magic);
	n += put_u64(out + n, WIRE_T_VERSION, version);
	n += put_u64(out + n, WIRE_T_WINDOW, 65536);
	put_header(out, (uint32_t)(n - WIRE_HEADER_SIZE), WIRE_HELLO, 0, 0, 0);
	return n;
}

static void send_bytes(int fd, const void *p, size_t n)
{
	ASSERT_INT(send(fd, p, n, MSG_NOSIGNAL), n);
}

TEST_NEEDS(garbage_gets_a_client_dropped_and_harms_nobody, NEEDS(NAMED))
{
	struct cell *c = open_named(s, "hostile");
	struct sockaddr_un sa;
	uint8_t m[4096];

	find_socket("hostile", &sa);
	int fd = dial(&sa);
	send_bytes(fd, "GET / HTTP/1.1\r\nHost: cell\r\n\r\n", 30);
	must_be_dropped(fd, "HTTP");
	fd = dial(&sa);
	memset(m, 0xff, sizeof(m));
	send_bytes(fd, m, sizeof(m));
	must_be_dropped(fd, "0xff");
	fd = dial(&sa);
	put_header(m, 0xfffffff0u, WIRE_HELLO, 0, 0, 0);
	send_bytes(fd, m, WIRE_HEADER_SIZE);
	must_be_dropped(fd, "a huge frame");
	fd = dial(&sa);
	put_header(m, 0, WIRE_PING, 0, 0, 0);
	send_bytes(fd, m, WIRE_HEADER_SIZE);
	must_be_dropped(fd, "no hello first");
	fd = dial(&sa);
	send_bytes(fd, m, put_hello(m, 12345, WIRE_VERSION));
	must_be_dropped(fd, "the wrong magic");
	fd = dial(&sa);
	send_bytes(fd, m, put_hello(m, WIRE_MAGIC, 0));
	must_be_dropped(fd, "version 0");
	auto_result struct cell_result r = sh(c, "echo unharmed");
	ASSERT_STR(r.out, "unharmed\n");
	WAIT_FOR(ask_guest(c).clients == 1);
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(frames_out_of_place_get_a_client_dropped, NEEDS(NAMED))
{
	static const struct {
		const char *why;
		uint32_t len;
		uint8_t type, chan;
		uint16_t flags;
		uint32_t stream;
	} bad[] = {
		{"unknown type", 0, WIRE_TYPE_COUNT, 0, 0, 1},
		{"type 0", 0, 0, 0, 0, 1},
		{"unknown channel", 8, WIRE_DATA, WIRE_CHAN_COUNT, 0, 1},
		{"unknown flag", 2, WIRE_REQUEST, 0, 0x8000, 1},
		{"request on stream 0", 2, WIRE_REQUEST, 0, 0, 0},
		{"too long", WIRE_MAX_PAYLOAD + 1, WIRE_DATA, 0, 0, 1},
		{"a second hello", 0, WIRE_HELLO, 0, 0, 0},
		{"what only guests send", 0, WIRE_END, 0, 0, 1},
	};
	struct cell *c = open_named(s, "frames");
	struct sockaddr_un sa;

	find_socket("frames", &sa);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		uint8_t m[256] = {0};
		size_t n = put_hello(m, WIRE_MAGIC, WIRE_VERSION);
		n += put_header(m + n, bad[i].len, bad[i].type, bad[i].chan, bad[i].flags,
			bad[i].stream);
		if (bad[i].len < 64)
			n += bad[i].len;
		int fd = dial(&sa);
		send_bytes(fd, m, n);
		must_be_dropped(fd, bad[i].why);
	}
	auto_result struct cell_result r = sh(c, "echo unharmed");
	ASSERT_STR(r.out, "unharmed\n");
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(random_bytes_after_a_good_hello_harm_nobody, NEEDS(NAMED))
{
	struct cell *c = open_named(s, "noise");
	struct sockaddr_un sa;
	unsigned seed = 12345;

	find_socket("noise", &sa);
	for (int i = 0; i < 200; i++) {
		uint8_t m[2048];
		size_t n = put_hello(m, WIRE_MAGIC, WIRE_VERSION);
		size_t end = n + 40 + (size_t)i * 9;
		while (n < end) { /* half of them with a header that is nearly right */
			if (i % 2) {
				seed = seed * 1103515245 + 12345;
				n += put_header(m + n, seed >> 16 & 31, 1 + (seed >> 8) % 12,
					(uint8_t)(seed & 1), 0, seed >> 4 & 3);
			}
			for (int k = 0; k < 16 && n < sizeof(m) - 32; k++) {
				seed = seed * 1103515245 + 12345;
				m[n++] = (uint8_t)(seed >> 16);
			}
			if (n >= sizeof(m) - 64)
				break;
		}
		int fd = dial(&sa);
		(void)send(fd, m, n, MSG_NOSIGNAL);
		close(fd);
	}
	WAIT_FOR(ask_guest(c).clients == 1);
	auto_result struct cell_result r = sh(c, "echo unharmed");
	ASSERT_STR(r.out, "unharmed\n");
	ASSERT(ask_guest(c).rss_bytes < 16u << 20);
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(clients_that_say_nothing_do_not_lock_others_out, NEEDS(NAMED))
{
	enum {
		N = 40
	};
	struct cell *c = open_named(s, "silent"), *other = NULL;
	struct sockaddr_un sa;
	int fds[N];

	find_socket("silent", &sa);
	for (int i = 0; i < N; i++)
		fds[i] = dial(&sa);
	send_bytes(fds[0], "\x01", 1); /* half a header */
	OK(cell_reopen("silent", &other, &E));
	auto_result struct cell_result r = sh(other, "echo here");
	ASSERT_STR(r.out, "here\n");
	OK(cell_close(other, &E));
	for (int i = 0; i < N; i++)
		close(fds[i]);
	WAIT_FOR(ask_guest(c).clients == 1);
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(too_many_clients_are_refused_and_the_first_stay, NEEDS(NAMED))
{
	enum {
		N = WIRE_MAX_CLIENTS + 20
	};
	struct cell *c = open_named(s, "crowd"), *other = NULL;
	struct sockaddr_un sa;
	int fds[N];

	find_socket("crowd", &sa);
	for (int i = 0; i < N; i++) {
		uint8_t m[256];
		fds[i] = dial(&sa);
		(void)send(fds[i], m, put_hello(m, WIRE_MAGIC, WIRE_VERSION), MSG_NOSIGNAL);
	}
	auto_result struct cell_result r = sh(c, "echo still served");
	ASSERT_STR(r.out, "still served\n");
	for (int i = 0; i < N; i++)
		close(fds[i]);
	WAIT_FOR(ask_guest(c).clients == 1);
	OK(cell_reopen("crowd", &other, &E));
	OK(cell_close(other, &E));
	OK(cell_destroy(c, &E));
}

TEST_NEEDS(the_socket_is_for_its_owner_only, NEEDS(NAMED))
{
	struct cell *c = open_named(s, "private");
	struct sockaddr_un sa;

	find_socket("private", &sa);
	if (geteuid() != 0)
		SKIP("only root can become another user to try");
	pid_t pid = fork();
	if (pid == 0) {
		if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
			_exit(2);
		int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
		_exit(connect(fd, (const struct sockaddr *)&sa, sizeof(sa)) < 0 ? 0 : 1);
	}
	must_succeed(pid);
	close(dial(&sa));
	OK(cell_destroy(c, &E));
}
