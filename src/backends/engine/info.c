/* SPDX-License-Identifier: Apache-2.0 */
/* info.c: what an engine says of itself. It takes Docker some 10 ms to say and Podman ten times
 * that, so it is kept. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "backends/engine/engine.h"
#include "core/kept.h"

static void add_word(char *list, size_t size, const char *word)
{
	size_t n = strlen(list);

	(void)snprintf(list + n, size - n, "%s%s ", n ? "" : " ", word);
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
	const char *key, *root = json_text_at(info, "DockerRootDir");
	const json_t *value;
	size_t i;

	ret->runtimes[0] = ret->security[0] = '\0';
	ret->is_near = is_this_machine(e, info);
	(void)snprintf(ret->root, sizeof ret->root, "%s", root ? root : "");
	ret->has_memory = json_is_true_at(info, "MemoryLimit");
	ret->has_cpus =
		json_is_true_at(info, "CpuCfsQuota") || json_is_true_at(info, "CPUCfsQuota");
	ret->has_pids = json_is_true_at(info, "PidsLimit");
	json_object_foreach (json_object_get(info, "Runtimes"), key, value)
		add_word(ret->runtimes, sizeof ret->runtimes, key);
	json_array_foreach (json_object_get(info, "SecurityOptions"), i, value) {
		char word[64] = ""; /* "name=seccomp,profile=default" */
		(void)sscanf(json_string_value(value) ? json_string_value(value) : "",
			"name=%60[^,]", word);
		add_word(ret->security, sizeof ret->security, word);
	}
	/* Docker says it among the options, Podman apart */
	ret->is_rootless = strstr(ret->security, " rootless ") || json_is_true_at(info, "Rootless");
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
	json_auto_t *info = kept_load(e->address.url);

	if (!info) {
		int r = engine_get(e, &info, err, "/info");
		if (r < 0)
			return r == -ENOENT ? engine_is_none(e, err) : r;
		kept_save(e->address.url, info);
	}
	read_info(e, info, &e->info);
	if (forced && !strcmp(forced, "far"))
		e->info.is_near = false;
	return 0;
}
