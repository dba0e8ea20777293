/* SPDX-License-Identifier: Apache-2.0 */
/* info.c: what an engine says of itself. It takes Docker some 10 ms to say and Podman ten times
 * that, so it is not asked for every cell. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>

#include "backends/engine/engine.h"

#define KEPT_S 10

static struct {
	pthread_mutex_t lock;
	char url[512];
	time_t when_s;
	struct engine_info info;
} kept = {.lock = PTHREAD_MUTEX_INITIALIZER};

static time_t now_s(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static void add_word(char *list, size_t size, const char *word)
{
	size_t n = strlen(list);

	(void)snprintf(list + n, size - n, "%s%s ", n ? "" : " ", word);
}

static bool is_true(const json_t *info, const char *key)
{
	return json_is_true(json_object_get(info, key));
}

/* An engine behind our own unix socket may still be in a virtual machine, or outside of the container we are in. */
static bool is_this_machine(const struct engine *e, const json_t *info)
{
	const char *name = json_text_at(info, "Name");
	const char *kernel = json_text_at(info, "KernelVersion");
	struct utsname u;

	return !strncmp(e->address.url, "unix:", 5) && uname(&u) == 0 && name && kernel &&
	       !strcmp(name, u.nodename) && !strcmp(kernel, u.release);
}

static void read_info(const struct engine *e, const json_t *info, struct engine_info *ret)
{
	const char *key;
	const json_t *value;
	size_t i;

	const char *root = json_string_value(json_object_get(info, "DockerRootDir"));

	ret->is_near = is_this_machine(e, info);
	(void)snprintf(ret->root, sizeof ret->root, "%s", root ? root : "");
	ret->has_memory = is_true(info, "MemoryLimit");
	ret->has_cpus = is_true(info, "CpuCfsQuota") || is_true(info, "CPUCfsQuota");
	ret->has_pids = is_true(info, "PidsLimit");
	json_object_foreach (json_object_get(info, "Runtimes"), key, value)
		add_word(ret->runtimes, sizeof ret->runtimes, key);
	json_array_foreach (json_object_get(info, "SecurityOptions"), i, value) {
		char word[64] = ""; /* "name=seccomp,profile=default" */
		(void)sscanf(json_string_value(value) ? json_string_value(value) : "",
			"name=%60[^,]", word);
		add_word(ret->security, sizeof ret->security, word);
	}
	/* Docker says it among the options, Podman apart */
	ret->is_rootless = strstr(ret->security, " rootless ") || is_true(info, "Rootless");
	/* in version 1 an ordinary user has no groups: Podman still says that it could limit */
	const char *version = json_text_at(info, "CgroupVersion");
	ret->has_cgroups = !ret->is_rootless || (version && !strcmp(version, "2"));
	ret->has_memory &= ret->has_cgroups;
	ret->has_cpus &= ret->has_cgroups;
	ret->has_pids &= ret->has_cgroups;
}

int engine_look(struct engine *e, struct cell_error *err)
{
	const char *forced = getenv("CELL_ENGINE_REACH"); /* "far": as if it were elsewhere */
	struct engine_info found = {0};

	(void)pthread_mutex_lock(&kept.lock);
	bool is_known = !strcmp(kept.url, e->address.url) && now_s() - kept.when_s < KEPT_S;
	if (is_known)
		found = kept.info;
	(void)pthread_mutex_unlock(&kept.lock);
	if (!is_known) {
		json_t *info = engine_info_load(e);
		bool is_new = !info;
		int r = is_new ? engine_get(e, &info, err, "/info") : 0;
		if (r < 0)
			return r == -ENOENT ? engine_is_none(e, err) : r;
		if (is_new)
			engine_info_save(e, info);
		read_info(e, info, &found);
		json_decref(info);
		(void)pthread_mutex_lock(&kept.lock);
		(void)snprintf(kept.url, sizeof kept.url, "%s", e->address.url);
		kept.when_s = now_s();
		kept.info = found;
		(void)pthread_mutex_unlock(&kept.lock);
	}
	if (forced && !strcmp(forced, "far"))
		found.is_near = false;
	(void)snprintf(found.server, sizeof found.server, "%s", e->info.server);
	e->info = found;
	return 0;
}
