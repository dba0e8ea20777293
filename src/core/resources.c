/* SPDX-License-Identifier: Apache-2.0 */
/* resources.c: see resources.h. The same for every back end: what it then cannot enforce is refused by
 * the contract like any limit. */
#include "core/resources.h"

#define LIMITED_MEMORY	   (UINT64_C(512) << 20)
#define LIMITED_PIDS	   256u
#define DEFAULT_CPU_MILLIS 1000u

static void set_u32(uint32_t *field, uint32_t value)
{
	if (!*field)
		*field = value;
}

int cell_resources_complete(struct cell_spec *spec, struct cell_error *err)
{
	struct cell_limits *l = &spec->limits;

	switch (spec->resources) {
	case CELL_RESOURCES_LIMITED:
		if (!l->memory_bytes)
			l->memory_bytes = LIMITED_MEMORY;
		set_u32(&l->cpu_millis, DEFAULT_CPU_MILLIS);
		set_u32(&l->pids, LIMITED_PIDS);
		return 0;
	case CELL_RESOURCES_BURSTABLE:
		set_u32(&l->cpu_millis, DEFAULT_CPU_MILLIS);
		return 0;
	case CELL_RESOURCES_DEDICATED:
		set_u32(&l->cpu_millis, DEFAULT_CPU_MILLIS);
		if (l->cpu_millis % 1000) {
			int r = cell_fail(err, CELL_EINVAL, 0,
				"resources: dedicated: limits.cpus is %u.%03u, but CPUs are given "
				"whole",
				l->cpu_millis / 1000, l->cpu_millis % 1000);
			return cell_error_hint(err, r, "ask for 1, 2, ... or for burstable");
		}
		return 0;
	default:
		return 0;
	}
}

const char *cell_resources_name(enum cell_resource_model model)
{
	static const char *const names[] = {[CELL_RESOURCES_DEFAULT] = "",
		[CELL_RESOURCES_SHARED] = "shared",
		[CELL_RESOURCES_LIMITED] = "limited",
		[CELL_RESOURCES_BURSTABLE] = "burstable",
		[CELL_RESOURCES_DEDICATED] = "dedicated"};

	return (unsigned)model < sizeof names / sizeof *names ? names[model] : "";
}
