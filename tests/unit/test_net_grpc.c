/* SPDX-License-Identifier: Apache-2.0 */
/* A service that answers from a script: what it sends, byte for byte, once it has read so many bytes. Real ones are in tests/engines. */
#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/buf.h"
#include "net/grpc.h"
#include "test.h"

struct service {
	char path[108];
	int listen_fd;
	pthread_t thread;
	struct buf answer; /* sent at once */
	struct buf more;   /* sent when `after` bytes have come */
	size_t after, got;
};

static void *serve(void *arg)
{
	struct service *s = arg;
	int fd = accept(s->listen_fd, NULL, NULL);
	char piece[65536];
	bool is_sent = false;

	if (fd < 0)
		return NULL;
	(void)!write(fd, s->answer.data, s->answer.len);
	for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0;) {
		s->got += (size_t)n;
		if (!is_sent && s->got >= s->after && s->more.len) {
			(void)!write(fd, s->more.data, s->more.len);
			is_sent = true;
		}
	}
	close(fd);
	return NULL;
}

static void service_start(struct service *s)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};

	(void)snprintf(s->path, sizeof s->path, "/tmp/grpc-test-%d.sock", getpid());
	(void)snprintf(sa.sun_path, sizeof sa.sun_path, "%s", s->path);
	(void)unlink(s->path);
	s->listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ASSERT_EQ(bind(s->listen_fd, (struct sockaddr *)&sa, sizeof sa), 0);
	ASSERT_EQ(listen(s->listen_fd, 1), 0);
	ASSERT_EQ(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void service_end(struct service *s)
{
	(void)pthread_join(s->thread, NULL);
	close(s->listen_fd);
	(void)unlink(s->path);
	buf_done(&s->answer);
	buf_done(&s->more);
}

static void frame(struct buf *b, uint8_t type, uint8_t flags, uint8_t id, const void *p, size_t n)
{
	const uint8_t head[] = {
		(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, type, flags, 0, 0, 0, id};

	ASSERT_EQ(buf_add(b, head, sizeof head), 0);
	ASSERT_EQ(buf_add(b, p, n), 0);
}
#define FRAME(b, type, flags, id, text) frame(b, type, flags, id, text, sizeof(text) - 1)

#define STATUS_OK                 \
	"\x00\x0bgrpc-status\x01" \
	"0"

static int take(void *arg, const uint8_t *p, size_t n)
{
	return buf_add(arg, p, n);
}

static int call(struct service *s, const struct buf *request, struct buf *ret, char *said,
	struct cell_error *err)
{
	struct grpc *g = NULL;
	struct grpc_call c = {.method = "/a.B/C", .take = take, .arg = ret};
	int r;

	service_start(s);
	r = grpc_open(s->path, &g, err);
	ASSERT_EQ(r, 0);
	r = grpc_call(g, &c, request, said, 100, err);
	grpc_free(g);
	service_end(s);
	return r;
}

TEST(an_answer_in_pieces_is_one_message)
{
	struct service s = {.answer = BUF_INIT(4096)};
	auto_buf struct buf request = BUF_INIT(100), ret = BUF_INIT(100);
	struct cell_error err;

	ASSERT_EQ(buf_addz(&request, "hello"), 0);
	FRAME(&s.answer, 4, 0, 0, "");	       /* settings */
	FRAME(&s.answer, 6, 0, 0, "12345678"); /* a ping */
	FRAME(&s.answer, 99, 0, 0, "something new");
	FRAME(&s.answer, 1, 4, 1, "\x88"); /* 200 */
	FRAME(&s.answer, 0, 8, 1,
		"\x02"
		"\0\0\0"
		"pp"); /* padded */
	FRAME(&s.answer, 0, 0, 1,
		"\0\x05"
		"wor");
	FRAME(&s.answer, 0, 0, 1, "ld\0\0\0\0\x01!");
	FRAME(&s.answer, 1, 1, 1, "\x00\x0bgrpc-st"); /* trailers in two frames */
	FRAME(&s.answer, 9, 4, 1,
		"atus\x01"
		"0");
	ASSERT_EQ(call(&s, &request, &ret, NULL, &err), 0);
	ASSERT_STR(buf_str(&ret), "world!");
}

TEST(a_refusal_has_a_status_and_words)
{
	struct service s = {.answer = BUF_INIT(4096)};
	struct buf request = {0};
	char said[100];
	struct cell_error err;

	FRAME(&s.answer, 1, 5, 1,
		"\x88\x00\x0bgrpc-status\x01"
		"5"
		"\x00\x0cgrpc-message\x0dno%20such%0ax");
	ASSERT_EQ(call(&s, &request, NULL, said, &err), GRPC_NOT_FOUND);
	ASSERT_STR(said, "no such x");
}

/* 100,000 bytes do not fit into the first window: the rest waits for a larger one. */
TEST(no_more_is_sent_than_may_be)
{
	struct service s = {.answer = BUF_INIT(4096), .more = BUF_INIT(4096), .after = 65535};
	auto_buf struct buf request = BUF_INIT(200000);
	struct cell_error err;

	for (int i = 0; i < 100000; i++)
		ASSERT_EQ(buf_addc(&request, 'x'), 0);
	FRAME(&s.answer, 4, 0, 0, "");
	FRAME(&s.more, 8, 0, 0, "\x00\x01\x00\x00");
	FRAME(&s.more, 4, 0, 0,
		"\x00\x04\x00\x02\x00\x00"); /* windows of 128 KiB, this one's too */
	FRAME(&s.more, 1, 5, 1, "\x88" STATUS_OK);
	ASSERT_EQ(call(&s, &request, NULL, NULL, &err), 0);
	ASSERT(s.got > 65535);
}

TEST(what_breaks_the_protocol_is_told)
{
	static const struct {
		uint8_t type, flags;
		const char *p;
		size_t n;
	} bad[] = {
		{1, 4, "\xbe", 1}, /* a header of a table we have not */
		{0, 8,
			"\x09"
			"a",
			2},			 /* more padding than frame */
		{0, 0, "\x01\0\0\0\0", 5},	 /* compressed */
		{0, 0, "\0\xff\xff\xff\xff", 5}, /* 4 GiB */
		{5, 4, "\0\0\0\2", 4},		 /* a push */
		{8, 0, "\0", 1},		 /* half a window */
		{7, 0, "\0\0\0\0\0\0\0\0", 8},	 /* going away, without an answer */
		{3, 0, "\0\0\0\x08", 4},	 /* the stream is reset */
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct service s = {.answer = BUF_INIT(4096)};
		struct buf request = {0};
		struct cell_error err = {0};

		frame(&s.answer, bad[i].type, bad[i].flags, 1, bad[i].p, bad[i].n);
		ASSERT(call(&s, &request, NULL, NULL, &err) < 0);
		ASSERT(err.code == CELL_EPROTOCOL || err.code == CELL_EBACKEND);
	}
}

static int begin_with_a_name_of_its_own(struct grpc *g)
{
	char method[40];
	const struct grpc_call call = {.method = method};

	(void)snprintf(method, sizeof method, "/a.%s/Method", "Service");
	return grpc_begin(g, &call, NULL);
}

TEST(what_breaks_later_is_told_with_the_name_it_was_begun_with)
{
	struct service s = {.answer = BUF_INIT(1000)};
	struct grpc *g = NULL;
	struct cell_error err;

	ASSERT_EQ(buf_addz(&s.answer, "HTTP/1.1 400 Bad Request\r\n\r\n"), 0);
	service_start(&s);
	ASSERT_EQ(grpc_open(s.path, &g, NULL), 0);
	ASSERT_EQ(begin_with_a_name_of_its_own(g), 0);
	ASSERT_ERR(grpc_end(g, NULL, 0, &err), -EPROTO);
	ASSERT(strstr(err.msg, "'Method'"));
	grpc_free(g);
	service_end(&s);
}

TEST(nobody_who_listens_is_told)
{
	struct grpc *g = NULL;
	struct cell_error err;

	ASSERT_EQ(grpc_open("/tmp/no-such-socket-of-a-test", &g, &err), -ENOENT);
}
