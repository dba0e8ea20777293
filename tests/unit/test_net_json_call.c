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

/* Answers one request with what it was sent, as a text in JSON. */
static void serve_once(int fd)
{
	int c = accept(fd, NULL, NULL);
	char text[2000] = "", answer[2400];
	ssize_t n = read(c, text, sizeof text - 1);
	char *body = strstr(text, "\r\n\r\n");
	bool has_type = strstr(text, "Content-Type: application/json\r\n") &&
			strstr(text, "X-More: yes\r\n");

	ASSERT(n > 0 && body);
	int len = snprintf(answer, sizeof answer, "{\"got\":%s,\"typed\":%s}", body + 4,
		has_type ? "true" : "false");
	ASSERT(dprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len, answer) > 0);
	close(c);
	_exit(0);
}

TEST(json_goes_out_and_comes_back)
{
	static const struct http_field headers[] = {{"X-More", "yes"}, {0}};
	const struct http_call call = {.method = "POST", .target = "/x", .headers = headers};
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char dir[] = "/tmp/cell-test-XXXXXX", url[150];
	struct http_client *client = NULL;
	struct cell_error err = {0};
	struct json_reply reply;

	ASSERT(mkdtemp(dir));
	(void)snprintf(a.sun_path, sizeof a.sun_path, "%s/sock", dir);
	(void)snprintf(url, sizeof url, "unix:%s", a.sun_path);
	ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0 && listen(fd, 1) == 0);
	pid_t pid = fork();
	if (pid == 0)
		serve_once(fd);
	json_t *body = json_pack("{s:i}", "n", 7);
	ASSERT_OK(http_client_new(url, NULL, &client, &err));
	CHECK_(json_call(client, &call, body, &reply, &err) == 0, "%s", err.msg);
	ASSERT_EQ(reply.http.status, 200);
	ASSERT(json_equal(json_object_get(reply.json, "got"), body));
	ASSERT(json_is_true(json_object_get(reply.json, "typed")));
	json_reply_done(&reply);
	json_decref(body);
	http_client_free(client);
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
	ASSERT_OK(unlink(a.sun_path) | rmdir(dir));
}
