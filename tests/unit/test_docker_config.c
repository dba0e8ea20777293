/* SPDX-License-Identifier: Apache-2.0 */
/* test_docker_config.c: which engine the `docker` program would speak to, and where its files are. */
#include <errno.h>
#include <stdlib.h>

#include "distribution/docker_config.h"
#include "scratch.h"

#define AWAY "378ce56a9d146d5174c89d1c0353d7f8e2244e89bb83935a5b1bdcf5e74b4e7f" /* sha256("away") */

static void begin(void)
{
	static const char *const names[] = {"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG",
		"DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"};

	scratch_make();
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		ASSERT_OK(unsetenv(names[i]));
	ASSERT_OK(setenv("HOME", scratch_path("home"), 1));
}

static const char *url_of(const char *host, const char *verify)
{
	static struct net_endpoint e;
	struct cell_error err = {0};

	e = (struct net_endpoint){0};
	ASSERT_OK(setenv("DOCKER_HOST", host, 1));
	ASSERT_OK(verify ? setenv("DOCKER_TLS_VERIFY", verify, 1) : unsetenv("DOCKER_TLS_VERIFY"));
	CHECK_(docker_config_engine(&e, &err) == 0, "%s: %s", host, err.msg);
	return e.url;
}

TEST(its_files_are_where_it_was_told_or_at_home)
{
	char path[300], want[300];

	begin();
	(void)snprintf(want, sizeof want, "%s/.docker/x", scratch_path("home"));
	ASSERT_OK(docker_config_path("x", path, sizeof path));
	ASSERT_STR(path, want);
	ASSERT_OK(setenv("DOCKER_CONFIG", "/there", 1));
	ASSERT_OK(docker_config_path("x", path, sizeof path));
	ASSERT_STR(path, "/there/x");
	ASSERT_EQ(docker_config_path("x", path, 4), -ENAMETOOLONG);
	ASSERT_OK(unsetenv("DOCKER_CONFIG") | unsetenv("HOME"));
	ASSERT_EQ(docker_config_path("x", path, sizeof path), -ENOENT);
}

TEST(addresses_are_read_as_they_are_written_for_docker)
{
	begin();
	ASSERT_STR(url_of("unix:///a/b.sock", NULL), "unix:/a/b.sock");
	ASSERT_STR(url_of("tcp://h:1", NULL), "http://h:1");
	ASSERT_STR(url_of("tcp://h", NULL), "http://h:2375");
	ASSERT_STR(url_of("tcp://h", "1"), "https://h:2376");
	ASSERT_STR(url_of("https://h:3", NULL), "https://h:3");
}

TEST(an_address_of_another_kind_is_refused_with_what_to_do)
{
	struct net_endpoint e = {0};
	struct cell_error err = {0};

	begin();
	ASSERT_OK(setenv("DOCKER_HOST", "ssh://there", 1));
	ASSERT(docker_config_engine(&e, &err) < 0);
	ASSERT_EQ(err.code, CELL_ENOTSUP);
	ASSERT(strstr(err.msg, "ssh://there") && strstr(err.hint, "forward"));
}

TEST(without_a_word_it_is_the_usual_socket)
{
	struct net_endpoint e = {0};

	begin();
	ASSERT_OK(docker_config_engine(&e, NULL));
	ASSERT_STR(e.url, "unix:/var/run/docker.sock");
	ASSERT(!*e.cert_dir && !e.is_insecure);
}

static void make_context(void)
{
	static const char *const dirs[] = {"home", "home/.docker", "home/.docker/contexts",
		"home/.docker/contexts/meta", "home/.docker/contexts/meta/" AWAY,
		"home/.docker/contexts/tls", "home/.docker/contexts/tls/" AWAY};

	for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
		ASSERT_OK(mkdir(scratch_path("%s", dirs[i]), 0700));
	scratch_write(scratch_path("home/.docker/contexts/meta/" AWAY "/meta.json"),
		"{\"Endpoints\": {\"docker\": {\"Host\": \"tcp://h\"}}}");
	scratch_write(scratch_path("home/.docker/config.json"), "{\"currentContext\": \"away\"}");
}

TEST(a_context_says_where_and_with_which_certificates)
{
	struct net_endpoint e = {0};

	begin();
	make_context();
	ASSERT_OK(docker_config_engine(&e, NULL));
	ASSERT_STR(e.url, "http://h:2375");
	ASSERT(!*e.cert_dir);
	ASSERT_OK(mkdir(scratch_path("home/.docker/contexts/tls/" AWAY "/docker"), 0700));
	ASSERT_OK(docker_config_engine(&e, NULL));
	ASSERT_STR(e.url, "https://h:2376");
	ASSERT_STR(e.cert_dir, scratch_path("home/.docker/contexts/tls/" AWAY "/docker"));
	ASSERT_OK(setenv("DOCKER_CONTEXT", "default", 1)); /* which is none */
	ASSERT_OK(docker_config_engine(&e, NULL));
	ASSERT_STR(e.url, "unix:/var/run/docker.sock");
}

TEST(a_context_that_is_not_there_is_told)
{
	struct net_endpoint e = {0};
	struct cell_error err = {0};

	begin();
	ASSERT_OK(setenv("DOCKER_CONTEXT", "nobody", 1));
	ASSERT(docker_config_engine(&e, &err) < 0);
	ASSERT_EQ(err.code, CELL_ENOTFOUND);
	ASSERT(strstr(err.msg, "nobody") && strstr(err.hint, "docker context ls"));
}
