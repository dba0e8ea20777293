/* SPDX-License-Identifier: Apache-2.0 */
/* test_registry.c: which back ends there are, and names of chains. */
#include <errno.h>

#include "cell/cell.h"

#include "core/backend.h"
#include "core/nearest.h"
#include "test.h"

TEST(every_backend_fills_the_mandatory_slots)
{
	int n = 0;

	for (; cell_backends[n]; n++) {
		const struct cell_backend *b = cell_backends[n];

		ASSERT(b->name && b->summary && b->wall && b->probe && b->create && b->open_guest &&
			b->destroy);
		ASSERT(b->tier >= 0 && b->tier <= 4);
	}
	ASSERT(n >= 6);
}

TEST(no_name_is_used_twice)
{
	struct cell_backend_info info[64];
	size_t n = cell_backends_probe(info, 64);

	ASSERT(n > 20 && n < 64);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < i; j++)
			ASSERT(strcmp(info[i].name, info[j].name) != 0);
}

TEST(every_backend_of_the_mission_is_known)
{
	static const char *const names[] = {"local", "subprocess", "chroot", "jail", "kubernetes",
		"podman", "containerd", "oci", "firecracker", "qemu", "cloud-hypervisor", "wasm",
		"browser", "ssh", "kubernetes", "nomad", "swarm", "lambda", "ecs_fargate",
		"eks_fargate", "hybrid_aws", "cloud_run", "azure", "codespaces", "cell", "modal"};
	struct cell_backend_info info;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		ASSERT_OK(cell_backend_probe(names[i], &info, NULL));
		ASSERT_STR(info.name, names[i]);
		ASSERT(info.declared & CELL_CAP_BIT(CELL_CAP_EXEC));
		ASSERT(info.tier >= 1);
		ASSERT(info.is_usable || (info.reason[0] && info.fix[0]));
	}
}

TEST(a_chain_lists_wrappers_from_the_outside)
{
	const struct cell_backend *chain[CELL_CHAIN_MAX];

	ASSERT_OK(cell_backend_chain("fault:trace:local", chain, NULL));
	ASSERT_STR(chain[0]->name, "fault");
	ASSERT_STR(chain[1]->name, "trace");
	ASSERT_STR(chain[2]->name, "local");
	ASSERT(!chain[3]);
}

TEST(an_unknown_backend_names_the_nearest)
{
	const struct cell_backend *chain[CELL_CHAIN_MAX];
	struct cell_error err = {0};

	ASSERT_ERR(cell_backend_chain("subproces", chain, &err), -ENOENT);
	ASSERT_EQ(err.code, CELL_ENOTFOUND);
	ASSERT_HAS(err.hint, "did you mean 'subprocess'");
	ASSERT_ERR(cell_backend_chain("trace:lcoal", chain, &err), -ENOENT);
	ASSERT_HAS(err.hint, "did you mean 'local'");
	ASSERT_ERR(cell_backend_chain("zzzzzzzzzzzz", chain, &err), -ENOENT);
	ASSERT(!strstr(err.hint, "did you mean"));
	ASSERT_HAS(err.hint, "local");
}

TEST(a_planned_backend_is_not_supported_rather_than_unknown)
{
	const struct cell_backend *chain[CELL_CHAIN_MAX];
	struct cell_error err = {0};

	ASSERT_ERR(cell_backend_chain("kubernetes", chain, &err), -EOPNOTSUPP);
	ASSERT_EQ(err.code, CELL_ENOTSUP);
	ASSERT_HAS(err.msg, "not available in this build");
	ASSERT_ERR(cell_backend_chain("trace:kubernetes", chain, &err), -EOPNOTSUPP);
}

TEST(malformed_chains_are_refused)
{
	static const char *const bad[] = {"", ":", "trace", "trace:", ":local", "local:trace",
		"local:local", "trace::local", "trace:trace:trace:trace:trace:trace:trace:local"};
	const struct cell_backend *chain[CELL_CHAIN_MAX];
	struct cell_error err = {0};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		ASSERT_ERR(cell_backend_chain(bad[i], chain, &err), -EINVAL);
		ASSERT(err.hint[0]);
	}
	ASSERT_OK(cell_backend_chain("trace:trace:trace:trace:trace:trace:local", chain, &err));
}

TEST(a_name_of_any_length_is_survived)
{
	static char name[100000];
	const struct cell_backend *chain[CELL_CHAIN_MAX];
	struct cell_error err = {0};

	memset(name, 'x', sizeof name - 1);
	ASSERT_ERR(cell_backend_chain(name, chain, &err), -ENOENT);
	ASSERT_EQ(err.code, CELL_ENOTFOUND);
}

TEST(a_wrapper_promises_what_it_wraps)
{
	struct cell_backend_info plain, wrapped, wrapper;

	ASSERT_OK(cell_backend_probe("subprocess", &plain, NULL));
	ASSERT_OK(cell_backend_probe("fault:trace:subprocess", &wrapped, NULL));
	ASSERT_EQ(plain.caps, wrapped.caps);
	ASSERT_EQ(plain.tier, wrapped.tier);
	ASSERT_OK(cell_backend_probe("trace", &wrapper, NULL));
	ASSERT(!wrapper.is_usable);
	ASSERT_HAS(wrapper.fix, "trace:local");
}

TEST(a_probe_never_promises_more_than_was_declared)
{
	struct cell_backend_info info[64];
	size_t n = cell_backends_probe(info, 64);

	for (size_t i = 0; i < n; i++) {
		ASSERT_EQ(info[i].caps & ~info[i].declared, 0);
		for (size_t k = 0; k < info[i].n_lacks; k++) {
			ASSERT(!(info[i].caps & CELL_CAP_BIT(info[i].lacks[k].cap)));
			ASSERT(info[i].lacks[k].reason[0] && info[i].lacks[k].fix[0]);
		}
	}
}

TEST(nearest_takes_slips_and_leaves_strangers)
{
	size_t d = NEAREST_START;

	ASSERT_STR(cell_nearest("imge", "image", NULL, &d), "image");
	d = NEAREST_START;
	ASSERT_STR(cell_nearest("iamge", "image", NULL, &d), "image");
	d = NEAREST_START;
	ASSERT(!cell_nearest("network", "image", NULL, &d));
	ASSERT(!cell_nearest("", "image", NULL, &d));
}
