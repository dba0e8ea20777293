/* SPDX-License-Identifier: Apache-2.0 */
/* test_contract.c: ask for walls, get walls, or get an error. */
#include <errno.h>

#include "core/contract.h"
#include "scratch.h"

static const char *const domains[] = {"example.org", NULL};
static const char *const snapshot[] = {"snapshot", NULL};
static const char *const slip[] = {"snapshto", NULL};
static const struct cell_mount mounts[] = {{"/a", "/b", true}};

/* Every way of asking, and the capability it must need. */
static const struct {
	struct cell_spec spec;
	enum cell_cap cap;
	const char *key;
} asks[] = {
	{{.name = "x"}, CELL_CAP_NAMED, "name: x"},
	{{.image = "python:3.12"}, CELL_CAP_IMAGE, "image: python:3.12"},
	{{.root = "/usr"}, CELL_CAP_ROOT_DIR, "root: /usr"},
	{{.root = "/proc/self/exe"}, CELL_CAP_ROOT_TAR, "root: /proc/self/exe"},
	{{.workspace = "/tmp"}, CELL_CAP_WORKSPACE, "workspace: /tmp"},
	{{.mounts = mounts, .n_mounts = 1}, CELL_CAP_MOUNTS, "mounts: /a -> /b"},
	{{.user = "nobody"}, CELL_CAP_DEFAULT_USER, "user: nobody"},
	{{.runtime = "runsc"}, CELL_CAP_RUNTIME, "runtime: runsc"},
	{{.pull = CELL_PULL_ALWAYS}, CELL_CAP_PULL, "pull: always"},
	{{.network_name = "backend"}, CELL_CAP_NET_NAMED, "network.name: backend"},
	{{.timeout_ms = 5000}, CELL_CAP_KILL_TREE, "timeout: 5000ms"},
	{{.limits.memory_bytes = 512u << 20}, CELL_CAP_LIMIT_MEMORY, "limits.memory: 512m"},
	{{.limits.cpu_millis = 1500}, CELL_CAP_LIMIT_CPUS, "limits.cpus: 1.500"},
	{{.limits.pids = 10}, CELL_CAP_LIMIT_PIDS, "limits.pids: 10"},
	{{.limits.disk_bytes = 1}, CELL_CAP_LIMIT_DISK, "limits.disk: 1"},
	{{.limits.inodes = 7}, CELL_CAP_LIMIT_INODES, "limits.inodes: 7"},
	{{.limits.files = 64}, CELL_CAP_LIMIT_FILES, "limits.files: 64"},
	{{.limits.file_size_bytes = 3u << 30}, CELL_CAP_LIMIT_FILE_SIZE, "limits.file_size: 3g"},
	{{.limits.process_memory_bytes = 1024}, CELL_CAP_LIMIT_PROCESS_MEMORY,
		"limits.process_memory: 1k"},
	{{.limits.cpu_time_s = 9}, CELL_CAP_LIMIT_CPU_TIME, "limits.cpu_time: 9s"},
	{{.limits.io_weight = 50}, CELL_CAP_LIMIT_IO, "limits.io: 50"},
	{{.resources = CELL_RESOURCES_DEDICATED}, CELL_CAP_DEDICATED, "resources: dedicated"},
	{{.resources = CELL_RESOURCES_BURSTABLE}, CELL_CAP_LIMIT_CPUS, "resources: burstable"},
	{{.resources = CELL_RESOURCES_DEDICATED, .limits.memory_bytes = 1u << 30},
		CELL_CAP_RESERVED_MEMORY, "resources: dedicated, with limits.memory"},
	{{.scratch = CELL_SCRATCH_MEMORY}, CELL_CAP_SCRATCH_MEMORY, "scratch: memory"},
	{{.scratch = CELL_SCRATCH_DISK}, CELL_CAP_SCRATCH_DISK, "scratch: disk"},
	{{.seccomp = "strict"}, CELL_CAP_SYSCALL_FILTER, "seccomp: strict"},
	{{.network = CELL_NETWORK_NONE}, CELL_CAP_NET_NONE, "network: none"},
	{{.network = CELL_NETWORK_ALLOW, .network_allow = domains}, CELL_CAP_NET_ALLOW,
		"network.allow: example.org"},
	{{.network_allow = domains}, CELL_CAP_NET_ALLOW, "network.allow: example.org"},
	{{.network = CELL_NETWORK_OPEN}, CELL_CAP_NET_OPEN, "network: open"},
	{{.network = CELL_NETWORK_OPEN, .network_private = domains}, CELL_CAP_NET_PRIVATE,
		"network.private: example.org"},
	{{.network = CELL_NETWORK_OPEN, .network_dns = domains}, CELL_CAP_NET_PRIVATE,
		"network.dns: example.org"},
	{{.gpus = 2}, CELL_CAP_GPU, "gpus: 2"},
	{{.name = "x", .lifecycle = CELL_LIFECYCLE_PERSISTENT}, CELL_CAP_NAMED, "name: x"},
	{{.needs = snapshot}, CELL_CAP_SNAPSHOT, "needs: snapshot"},
};

TEST(everything_a_spec_can_ask_for_needs_its_capability)
{
	for (size_t i = 0; i < sizeof asks / sizeof *asks; i++) {
		struct cell_needs needs;
		const struct cell_need *found = NULL;

		ASSERT_OK(cell_contract_needs(&asks[i].spec, &needs, NULL));
		for (size_t k = 0; k < needs.n; k++)
			if (needs.list[k].cap == asks[i].cap)
				found = &needs.list[k];
		CHECK_(found, "%s asks for nothing", asks[i].key);
		ASSERT_STR(found->key, asks[i].key);
		ASSERT(!found->may_degrade);
	}
}

TEST(an_empty_spec_needs_nothing)
{
	struct cell_needs needs;

	ASSERT_OK(cell_contract_needs(&(struct cell_spec){0}, &needs, NULL));
	ASSERT_EQ(needs.n, 0);
}

static int choose(const struct cell_spec *spec, cell_caps *degraded, struct cell_error *err)
{
	const struct cell_backend *chain[CELL_CHAIN_MAX] = {0};
	struct cell_probe probe;

	return cell_contract_choose(spec, chain, &probe, degraded, err);
}

TEST(what_a_backend_lacks_is_refused_by_name_with_key_and_holders)
{
	struct cell_spec spec = {.backend = "local", .limits.memory_bytes = 512u << 20};
	struct cell_error err = {0};
	cell_caps degraded = 0;

	ASSERT_ERR(choose(&spec, &degraded, &err), -EOPNOTSUPP);
	ASSERT_EQ(err.code, CELL_ENOTSUP);
	ASSERT_HAS(err.msg, "'local'");
	ASSERT_HAS(err.msg, "limits.memory");
	ASSERT_HAS(err.msg, "limits.memory: 512m");
	ASSERT_HAS(err.hint, "not in this build: ");
	ASSERT_STR(err.backend, "local");
}

TEST(a_usable_backend_that_has_it_is_named)
{
	struct cell_spec spec = {.backend = "local", .limits.files = 64};
	struct cell_error err = {0};
	cell_caps degraded = 0;

	ASSERT_ERR(choose(&spec, &degraded, &err), -EOPNOTSUPP);
	ASSERT_HAS(err.hint, "usable here: subprocess");
	ASSERT(!strstr(err.hint, "null"));
	spec.backend = "subprocess";
	ASSERT_OK(choose(&spec, &degraded, &err));
}

TEST(several_missing_things_are_all_named)
{
	struct cell_spec spec = {.backend = "local",
		.limits = {.memory_bytes = 1 << 20, .pids = 4},
		.network = CELL_NETWORK_NONE};
	struct cell_error err = {0};
	cell_caps degraded = 0;

	ASSERT_ERR(choose(&spec, &degraded, &err), -EOPNOTSUPP);
	ASSERT_HAS(err.msg, "limits.memory");
	ASSERT_HAS(err.msg, "limits.pids");
	ASSERT_HAS(err.msg, "network.none");
}

TEST(best_effort_limits_are_reported_and_walls_are_not_negotiable)
{
	struct cell_spec spec = {.backend = "subprocess",
		.limits = {.memory_bytes = 1 << 20, .files = 8, .is_best_effort = true}};
	struct cell_error err = {0};
	cell_caps degraded = 0;

	ASSERT_OK(choose(&spec, &degraded, &err));
	ASSERT_EQ(degraded, CELL_CAP_BIT(CELL_CAP_LIMIT_MEMORY));
	spec.network = CELL_NETWORK_NONE;
	ASSERT_ERR(choose(&spec, &degraded, &err), -EOPNOTSUPP);
	ASSERT_HAS(err.msg, "network.none");
}

TEST(a_limit_asked_for_outright_is_not_best_effort)
{
	struct cell_spec spec = {.backend = "subprocess",
		.limits = {.memory_bytes = 1 << 20, .is_best_effort = true},
		.needs = (const char *const[]){"limits.memory", NULL}};
	cell_caps degraded = 0;

	ASSERT_ERR(choose(&spec, &degraded, NULL), -EOPNOTSUPP);
}

TEST(a_tier_above_the_backends_is_refused)
{
	struct cell_spec spec = {.backend = "subprocess", .tier = 3};
	struct cell_error err = {0};
	cell_caps degraded = 0;

	ASSERT_ERR(choose(&spec, &degraded, &err), -EOPNOTSUPP);
	ASSERT_HAS(err.msg, "tier: 3");
	ASSERT_HAS(err.hint, "firecracker");
	ASSERT(!strstr(err.hint, "docker"));
	spec.tier = 1;
	ASSERT_OK(choose(&spec, &degraded, &err));
	spec.backend = "null";
	ASSERT_ERR(choose(&spec, &degraded, &err), -EOPNOTSUPP);
}

TEST(the_default_is_the_strongest_and_never_a_weaker_one)
{
	const struct cell_backend *chain[CELL_CHAIN_MAX] = {0};
	struct cell_probe probe;
	struct cell_error err = {0};
	cell_caps degraded = 0;

	int r = cell_contract_choose(&(struct cell_spec){0}, chain, &probe, &degraded, &err);
	ASSERT_STR(chain[0]->name, "jail");
	if (r < 0) { /* it does not hold here, and nothing weaker takes its place */
		ASSERT_ERR(r, -EOPNOTSUPP);
		ASSERT_HAS(err.msg, "'jail', the default, is not usable here");
		ASSERT_HAS(err.hint, "--backend subprocess");
		return;
	}
	ASSERT_ERR(choose(&(struct cell_spec){.gpus = 1}, &degraded, &err), -EOPNOTSUPP);
	ASSERT_HAS(err.msg, "the strongest here");
	ASSERT_HAS(err.hint, "docker");
}

TEST(values_that_mean_nothing_are_refused)
{
	static const struct cell_spec bad[] = {
		{.tier = 5},
		{.tier = -1},
		{.limits.io_weight = 10001},
		{.root = "/dev/null"},
		{.needs = slip},
		{.lifecycle = CELL_LIFECYCLE_PERSISTENT},
		{.lifecycle = CELL_LIFECYCLE_EPHEMERAL, .name = "x"},
	};
	struct cell_error err = {0};
	cell_caps degraded = 0;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		ASSERT_ERR(choose(&bad[i], &degraded, &err), -EINVAL);
		ASSERT(err.hint[0]);
	}
	ASSERT_ERR(choose(&(struct cell_spec){.root = "/nonexistent"}, &degraded, &err), -ENOENT);
	ASSERT_ERR(choose(&bad[4], &degraded, &err), -EINVAL);
	ASSERT_HAS(err.hint, "snapshot");
	ASSERT_ERR(choose(&(struct cell_spec){.lifecycle = CELL_LIFECYCLE_SCHEDULED}, &degraded,
			   &err),
		-EOPNOTSUPP);
}

TEST(a_backend_that_is_not_usable_says_why)
{
	struct cell_error err = {0};
	cell_caps degraded = 0;

	if (geteuid() != 0)
		SKIP("drops root to see chroot refused");
	ASSERT_OK(choose(&(struct cell_spec){.backend = "chroot"}, &degraded, &err));
	ASSERT(setresuid(65534, 65534, 65534) == 0);
	ASSERT_ERR(choose(&(struct cell_spec){.backend = "chroot"}, &degraded, &err), -EOPNOTSUPP);
	ASSERT_HAS(err.msg, "root");
	ASSERT(err.hint[0]);
	ASSERT_ERR(choose(&(struct cell_spec){.backend = "local", .user = "daemon"}, &degraded,
			   &err),
		-EOPNOTSUPP);
	ASSERT_HAS(err.msg, "only root");
	ASSERT_HAS(err.hint, "run as root");
}
