/* SPDX-License-Identifier: Apache-2.0 */
/* test_net_json_call.c: a call to a service that speaks JSON, and what its answers say. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "net/json_call.h"
#include "test.h"

static struct json_reply read_body(const char *text)
{
	struct json_reply r = {.http = {.status = 500, .body = BUF_INIT(4096)}};

	ASSERT_OK(buf_addz(&r.http.body, text));
	json_reply_read(&r);
	return r;
}

TEST(a_message_is_found_where_services_put_it)
{
	static const struct {
		const char *body, *said;
		bool has_message;
	} all[] = {{"{\"message\": \"a\"}", "a", true}, {"{\"error\": \"b\"}", "b", true},
		{"{\"error\": {\"message\": \"c\"}}", "c", true},
		{"{\"errors\": [{\"code\": \"X\", \"message\": \"d\"}]}", "d", true},
		{"{\"message\": \"two\\nlines\\u001b[0m\\n\"}", "two lines [0m", true},
		{"<html>\nno JSON\n", "<html> no JSON", false},
		{"{\"message\": 1}", "{\"message\": 1}", false},
		{"{\"message\": \"a\", \"message\": \"b\"}",
			"{\"message\": \"a\", \"message\": \"b\"}", false},
		{"", "", false}};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct json_reply r = read_body(all[i].body);

		ASSERT_STR(r.said, all[i].said);
		ASSERT_EQ(r.has_message, all[i].has_message);
		json_reply_done(&r);
	}
}

TEST(a_status_has_a_meaning)
{
	struct json_reply r = {.http = {.status = 404}};

	ASSERT_EQ(json_reply_code(&r), CELL_ENOTFOUND);
	r.http.status = 401;
	ASSERT_EQ(json_reply_code(&r), CELL_EDENIED);
	r.http.status = 503;
	ASSERT_EQ(json_reply_code(&r), CELL_EBACKEND);
}

/* A server for one request, in a process of its own. */
struct server {
	char dir[40];
	struct sockaddr_un a;
	struct http_client *client;
	pid_t pid;
};

static void begin(struct server *s, void (*serve)(int fd))
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char url[150];

	*s = (struct server){.dir = "/tmp/cell-test-XXXXXX", .a = {.sun_family = AF_UNIX}};
	ASSERT(mkdtemp(s->dir));
	(void)snprintf(s->a.sun_path, sizeof s->a.sun_path, "%s/sock", s->dir);
	(void)snprintf(url, sizeof url, "unix:%s", s->a.sun_path);
	ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&s->a, sizeof s->a) == 0 &&
		listen(fd, 1) == 0);
	s->pid = fork();
	if (s->pid == 0) {
		serve(accept(fd, NULL, NULL));
		_exit(0);
	}
	close(fd);
	ASSERT_OK(http_client_new(url, NULL, &s->client, NULL));
}

static void end(struct server *s)
{
	http_client_free(s->client);
	ASSERT_EQ(waitpid(s->pid, NULL, 0), s->pid);
	ASSERT_OK(unlink(s->a.sun_path) | rmdir(s->dir));
}

/* A request up to its last words, which may come in pieces. */
static void read_until(int c, const char *last, char *ret, size_t size)
{
	size_t n = 0;

	do {
		ssize_t more = read(c, ret + n, size - 1 - n);
		ASSERT(more > 0);
		n += (size_t)more;
		ret[n] = '\0';
	} while (!strstr(ret, last));
}

/* Answers with what it was sent, as JSON. */
static void echo(int c)
{
	char text[2000], answer[2400];

	read_until(c, "}", text, sizeof text);
	const char *body = strstr(text, "\r\n\r\n");
	bool has_type = strstr(text, "Content-Type: application/json\r\n") &&
			strstr(text, "X-More: yes\r\n");

	ASSERT(body);
	int len = snprintf(answer, sizeof answer, "{\"got\":%s,\"typed\":%s}", body + 4,
		has_type ? "true" : "false");
	ASSERT(dprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len, answer) > 0);
}

TEST(json_goes_out_and_comes_back)
{
	static const struct http_field headers[] = {{"X-More", "yes"}, {0}};
	const struct http_call call = {.method = "POST", .target = "/x", .headers = headers};
	struct cell_error err = {0};
	struct json_reply reply;
	struct server s;

	begin(&s, echo);
	json_t *body = json_pack("{s:i}", "n", 7);
	CHECK_(json_call(s.client, &call, body, &reply, &err) == 0, "%s", err.msg);
	ASSERT_EQ(reply.http.status, 200);
	ASSERT(json_equal(json_object_get(reply.json, "got"), body));
	ASSERT(json_is_true(json_object_get(reply.json, "typed")));
	json_reply_done(&reply);
	json_decref(body);
	end(&s);
}

/* Two requests on one connection: one is refused. */
static void refuse_and_give(int c)
{
	static const char *const answers[] = {
		"HTTP/1.1 404 Not Found\r\nContent-Length: 18\r\n\r\n{\"message\":\"none\"}",
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbytes"};
	char text[2000];

	for (size_t i = 0; i < 2; i++) {
		read_until(c, "\r\n\r\n", text, sizeof text);
		ASSERT_EQ(write(c, answers[i], strlen(answers[i])), (ssize_t)strlen(answers[i]));
	}
}

static int collect(void *arg, const void *p, size_t n)
{
	return buf_add(arg, p, n);
}

TEST(a_sink_gets_what_was_asked_for_and_no_refusal)
{
	struct buf taken = BUF_INIT(100);
	const struct http_call call = {.target = "/x", .sink = collect, .arg = &taken};
	struct json_reply reply;
	struct server s;

	begin(&s, refuse_and_give);
	ASSERT_OK(json_call(s.client, &call, NULL, &reply, NULL));
	ASSERT_EQ(reply.http.status, 404);
	ASSERT_STR(reply.said, "none");
	ASSERT_EQ(taken.len, 0);
	json_reply_done(&reply);
	ASSERT_OK(json_call(s.client, &call, NULL, &reply, NULL));
	ASSERT_EQ(reply.http.status, 200);
	ASSERT_STR(buf_str(&taken), "bytes");
	ASSERT(!reply.json && !*reply.said);
	json_reply_done(&reply);
	buf_done(&taken);
	end(&s);
}
