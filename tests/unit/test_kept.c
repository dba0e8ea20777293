/* SPDX-License-Identifier: Apache-2.0 */
/* What a service said of itself, kept for the next process: only what we have written ourselves is believed. */
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "core/kept.h"
#include "core/store.h"
#include "scratch.h"

static char url[200];
static char kept[300]; /* path of the file */

static void save(void)
{
	json_t *info = json_pack("{s:s}", "Name", "it");

	kept_save(url, info);
	json_decref(info);
}

/* A service's socket, and what another process kept of it. */
static void keep_one(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct cell_store store = CELL_STORE_INIT;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	scratch_make();
	ASSERT_OK(cell_store_open(&store, true, NULL));
	cell_store_done(&store);
	(void)snprintf(a.sun_path, sizeof a.sun_path, "%s", scratch_path("sock"));
	ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
	(void)snprintf(url, sizeof url, "unix:%s", a.sun_path);
	pid_t pid = fork();
	if (pid == 0) {
		save();
		_exit(0);
	}
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
	DIR *dir = opendir(scratch_path("state"));
	ASSERT(dir);
	for (struct dirent *e; (e = readdir(dir));)
		if (!strncmp(e->d_name, "engine-", 7))
			(void)snprintf(kept, sizeof kept, "%s",
				scratch_path("state/%s", e->d_name));
	(void)closedir(dir);
	ASSERT(kept[0]);
}

static bool is_known(void)
{
	json_t *info = kept_load(url);
	const char *name = json_string_value(json_object_get(info, "Name"));
	bool is = name && !strcmp(name, "it");

	json_decref(info);
	return is;
}

TEST(what_was_kept_is_found_again)
{
	keep_one();
	ASSERT(is_known());
}

TEST(a_fifo_in_its_place_makes_nobody_wait)
{
	keep_one();
	ASSERT(unlink(kept) == 0 && mkfifo(kept, 0600) == 0);
	ASSERT(!is_known());
}

TEST(a_link_or_a_directory_in_its_place_is_not_followed)
{
	keep_one();
	ASSERT(rename(kept, scratch_path("moved")) == 0 &&
		symlink(scratch_path("moved"), kept) == 0);
	ASSERT(!is_known());
	ASSERT(unlink(kept) == 0 && mkdir(kept, 0700) == 0);
	ASSERT(!is_known());
}

TEST(a_file_of_somebody_else_is_not_believed)
{
	if (geteuid() != 0)
		SKIP("only root can give files away");
	keep_one();
	ASSERT(chown(kept, 12345, 12345) == 0);
	ASSERT(!is_known());
}

TEST(a_socket_that_was_made_anew_is_another)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	keep_one();
	(void)snprintf(a.sun_path, sizeof a.sun_path, "%s", scratch_path("sock"));
	ASSERT(unlink(a.sun_path) == 0);
	ASSERT(fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof a) == 0);
	ASSERT(!is_known());
}

TEST(this_process_knows_also_what_is_elsewhere)
{
	scratch_make();
	(void)snprintf(url, sizeof url, "https://there");
	ASSERT(!is_known());
	save();
	ASSERT(is_known());
	(void)snprintf(url, sizeof url, "https://elsewhere");
	ASSERT(!is_known());
}
