/* SPDX-License-Identifier: Apache-2.0 */
/*
 * info_kept.c: what an engine said of itself, for the next process: Podman takes longer to say it than to make a container. Good for
 * a minute, and for the very socket that it came from: an engine that was started anew may say something else.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backends/engine/engine.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/newfile.h"
#include "core/store.h"

#define KEPT_S	  60
#define KEPT_MAX  (256u * 1024)
#define NAME_SIZE 40

/* Which socket it is, to the moment it was made. False for engines elsewhere: nobody could tell that they are the same. */
static bool socket_of(const struct engine *e, char ret[128])
{
	struct stat st;

	if (strncmp(e->address.url, "unix:", 5) != 0 || stat(e->address.url + 5, &st) < 0)
		return false;
	(void)snprintf(ret, 128, "%ju:%ju:%jd.%09ld", (uintmax_t)st.st_dev, (uintmax_t)st.st_ino,
		(intmax_t)st.st_ctim.tv_sec, st.st_ctim.tv_nsec);
	return true;
}

static void name_of(const struct engine *e, char ret[NAME_SIZE])
{
	uint64_t h = UINT64_C(14695981039346656037); /* FNV-1a: a name for a file, no more */

	for (const char *p = e->address.url; *p; p++)
		h = (h ^ (unsigned char)*p) * UINT64_C(1099511628211);
	(void)snprintf(ret, NAME_SIZE, "engine-%016" PRIx64, h);
}

json_t *engine_info_load(const struct engine *e)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	char name[NAME_SIZE], socket[128];
	struct stat st;

	if (!socket_of(e, socket) || cell_store_open(&store, false, NULL) < 0)
		return NULL;
	name_of(e, name);
	auto_fd int fd =
		openat(store.fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	time_t now = time(NULL);
	/* only what we have written: what somebody else put there may be anything, and make us wait */
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
		st.st_size > KEPT_MAX || st.st_mtim.tv_sec > now ||
		now - st.st_mtim.tv_sec > KEPT_S)
		return NULL;
	json_t *all = json_loadfd(fd, 0, NULL);
	const char *from = json_string_value(json_object_get(all, "socket"));
	const char *url = json_string_value(json_object_get(all, "url"));
	json_t *info = from && url && !strcmp(from, socket) && !strcmp(url, e->address.url)
			       ? json_incref(json_object_get(all, "info"))
			       : NULL;
	json_decref(all);
	return info;
}

/* Where it cannot be kept, the next one asks again. */
void engine_info_save(const struct engine *e, json_t *info)
{
	auto_store struct cell_store store = CELL_STORE_INIT;
	struct newfile f = NEWFILE_INIT;
	char name[NAME_SIZE], socket[128];

	if (!socket_of(e, socket) || cell_store_open(&store, false, NULL) < 0 ||
		newfile_open(&f, store.fd) < 0)
		return;
	name_of(e, name);
	json_t *all =
		json_pack("{s:s, s:s, s:O}", "url", e->address.url, "socket", socket, "info", info);
	if (all && json_dumpfd(all, f.fd, JSON_COMPACT) == 0)
		(void)newfile_commit(&f, name, true);
	json_decref(all);
	newfile_done(&f);
}
