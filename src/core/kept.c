/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kept.h"

#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/newfile.h"
#include "core/json_at.h"
#include "core/store.h"

#define MEMORY_S  10
#define DISK_S	  60
#define DISK_MAX  (256u * 1024)
#define NAME_SIZE 40

/* ---- in this process: the last one ---- */

static struct {
	pthread_mutex_t lock;
	char url[512];
	time_t when_s;
	json_t *said;
} last = {.lock = PTHREAD_MUTEX_INITIALIZER};

static time_t now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* Copies: threads share no value. */
static json_t *recall(const char *url)
{
	(void)pthread_mutex_lock(&last.lock);
	bool is_known = !strcmp(last.url, url) && now_s() - last.when_s < MEMORY_S;
	json_t *said = is_known ? json_deep_copy(last.said) : NULL;
	(void)pthread_mutex_unlock(&last.lock);
	return said;
}

static void remember(const char *url, const json_t *said)
{
	(void)pthread_mutex_lock(&last.lock);
	json_decref(last.said);
	last.said = json_deep_copy(said);
	(void)snprintf(last.url, sizeof last.url, "%s", last.said ? url : "");
	last.when_s = now_s();
	(void)pthread_mutex_unlock(&last.lock);
}

/* ---- on disk ---- */

/* Which socket it is, to the moment it was made. */
static bool socket_of(const char *url, char ret[128])
{
	struct stat st;

	if (strncmp(url, "unix:", 5) != 0 || stat(url + 5, &st) < 0)
		return false;
	(void)snprintf(ret, 128, "%ju:%ju:%jd.%09ld", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino,
		(intmax_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	return true;
}

static void name_of(const char *url, char ret[NAME_SIZE])
{
	uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a: a name for a file, no more */

	for (const char *p = url; *p; p++)
		h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
	(void)snprintf(ret, NAME_SIZE, "engine-%016" PRIx64, h);
}

static bool is_text(const json_t *j, const char *path, const char *text)
{
	const char *have = json_text_at(j, path);

	return have && !strcmp(have, text);
}

static json_t *load_file(const char *url)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	char name[NAME_SIZE], socket[128];
	struct stat st;

	if (!socket_of(url, socket) || cell_store_open(&store, false, NULL) < 0)
		return NULL;
	name_of(url, name);
	auto_fd int fd =
		openat(store.fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	time_t now = time(NULL);
	/* only what we have written: what somebody else put there may be anything, and make us wait */
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		st.st_size > DISK_MAX || st.st_mtim.tv_sec > now ||
		now - st.st_mtim.tv_sec > DISK_S)
		return NULL;
	json_t *all = json_loadfd(fd, 0, NULL);
	json_t *said = is_text(all, "socket", socket) && is_text(all, "url", url)
			       ? json_incref(json_object_get(all, "info"))
			       : NULL;
	json_decref(all);
	return said;
}

/* Where it cannot be kept, the next one asks again. */
static void save_file(const char *url, const json_t *said)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	struct newfile f = NEWFILE_INIT;
	char name[NAME_SIZE], socket[128];

	if (!socket_of(url, socket) || cell_store_open(&store, false, NULL) < 0 ||
		newfile_open(&f, store.fd) < 0)
		return;
	name_of(url, name);
	json_t *all = json_pack("{s:s, s:s, s:o}", "url", url, "socket", socket, "info",
		json_deep_copy(said));
	if (all && json_dumpfd(all, f.fd, JSON_COMPACT) == 0)
		(void)newfile_commit(&f, name, true);
	json_decref(all);
	newfile_done(&f);
}

json_t *kept_load(const char *url)
{
	json_t *said = recall(url);

	if (said)
		return said;
	said = load_file(url);
	if (said)
		remember(url, said);
	return said;
}

void kept_save(const char *url, const json_t *said)
{
	save_file(url, said);
	remember(url, said);
}
