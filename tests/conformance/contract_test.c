/* SPDX-License-Identifier: Apache-2.0 */
/* contract_test.c: a back end promises, and what it does not promise is refused, by name. */
#include <errno.h>

#include "suite.h"

static int count_info(const struct cell_info *i, void *user)
{
	(void)i;
	(*(int *)user)++;
	return 0;
}

/* Open; the refusal must name the capability, be typed, and leave nothing. */
static void must_refuse(const struct cell_spec *spec, enum cell_cap cap)
{
	struct cell *c = NULL;
	int n = 0;

	FAILS(NOT_SUPPORTED, cell_open(spec, &c, &E));
	ASSERT_HAS(E.msg, cell_cap_name(cap));
	ASSERT(E.hint[0] != '\0');
	ASSERT(c == NULL);
	OK(cell_list(count_info, &n, &E));
	ASSERT_INT(n, 0);
}

TEST(the_back_end_introduces_itself)
{
	ASSERT(s->info.name && s->info.name[0]);
	ASSERT(s->info.summary && s->info.summary[0]);
	ASSERT(s->info.wall && s->info.wall[0]);
	ASSERT(s->info.tier >= 0 && s->info.tier <= 4);
	ASSERT(s->info.is_built);
	ASSERT_INT(s->info.caps & ~s->info.declared, 0);
}

TEST(what_is_missing_here_has_a_reason_and_a_fix)
{
	cell_caps missing = s->info.declared & ~s->info.caps;

	for (int cap = 0; cap < CELL_CAP_COUNT; cap++) {
		bool is_told = false;
		for (size_t i = 0; i < s->info.n_lacks; i++) {
			const struct cell_lack *l = &s->info.lacks[i];
			if ((int)l->cap != cap)
				continue;
			ASSERT(l->reason[0] && l->fix[0]);
			is_told = true;
		}
		if (missing >> cap & 1 && !is_told)
			DIE("%s is missing here and nobody says why", cell_cap_name(cap));
	}
}

TEST(every_capability_is_promised_or_refused)
{
	for (int cap = 0; cap < CELL_CAP_COUNT; cap++) {
		struct cell_spec spec = suite_spec(s);
		const char *const needs[] = {cell_cap_name(cap), NULL};
		spec.needs = needs;
		if (s->caps & CELL_CAP_BIT(cap)) {
			auto_cell struct cell *c = open_spec(&spec);
			ASSERT(cell_supports(c, cap));
		} else {
			must_refuse(&spec, cap);
		}
	}
}

TEST(an_unknown_capability_is_refused)
{
	struct cell_spec spec = suite_spec(s);
	struct cell *c = NULL;

	spec.needs = ARGV("telepathy");
	FAILS(INVALID | NOT_FOUND, cell_open(&spec, &c, &E));
	ASSERT_HAS(E.msg, "telepathy");
}

TEST(a_stronger_tier_than_it_has_is_refused)
{
	struct cell_spec spec = suite_spec(s);
	struct cell *c = NULL;

	for (int tier = 1; tier <= 4; tier++) {
		spec.tier = tier;
		if (tier <= s->info.tier) {
			c = open_spec(&spec);
			OK(cell_close(c, &E));
			continue;
		}
		FAILS(NOT_SUPPORTED, cell_open(&spec, &c, &E));
		ASSERT_HAS(E.msg, "tier");
	}
	spec.tier = 5;
	FAILS(INVALID | NOT_SUPPORTED, cell_open(&spec, &c, &E));
}

TEST(parts_of_a_spec_that_are_not_promised_are_refused_by_name)
{
	struct cell_mount mount = {.source = "/tmp", .target = "/mnt", .is_read_only = true};
	struct cell_spec all[11];
	const enum cell_cap caps[] = {CELL_CAP_IMAGE, CELL_CAP_MOUNTS, CELL_CAP_NET_NONE,
		CELL_CAP_NET_ALLOW, CELL_CAP_NET_OPEN, CELL_CAP_GPU, CELL_CAP_DEDICATED,
		CELL_CAP_DEFAULT_USER, CELL_CAP_SYSCALL_FILTER, CELL_CAP_SCRATCH_DISK,
		CELL_CAP_SCRATCH_MEMORY};
	size_t n = sizeof(caps) / sizeof(*caps);

	for (size_t i = 0; i < n; i++)
		all[i] = suite_spec(s);
	all[0].image = "debian:12";
	all[1].mounts = &mount;
	all[1].n_mounts = 1;
	all[2].network = CELL_NETWORK_NONE;
	all[3].network = CELL_NETWORK_ALLOW;
	all[3].network_allow = ARGV("example.org");
	all[4].network = CELL_NETWORK_OPEN;
	all[5].gpus = 1;
	all[6].resources = CELL_RESOURCES_DEDICATED;
	all[7].user = "nobody";
	all[8].seccomp = "strict";
	all[9].scratch = CELL_SCRATCH_DISK;
	all[10].scratch = CELL_SCRATCH_MEMORY;
	for (size_t i = 0; i < n; i++)
		if (!(s->caps & CELL_CAP_BIT(caps[i])))
			must_refuse(&all[i], caps[i]);
}

TEST(a_root_tree_that_is_not_promised_is_refused_by_name)
{
	struct cell_spec spec = suite_spec(s);

	if (s->caps & (NEEDS(ROOT_DIR) | NEEDS(ROOT_TAR)))
		SKIP("this back end takes root trees");
	spec.root = s->dir;
	must_refuse(&spec, CELL_CAP_ROOT_DIR);
}

TEST_NEEDS(a_root_tree_hides_the_files_of_the_host, NEEDS(ROOT_DIR) | NEEDS(HIDE_FILES))
{
	auto_cell struct cell *c = open_cell(s);
	char path[256], line[1200];

	snprintf(path, sizeof(path), "%s/host-secret", s->dir);
	host_store(path, "x", 1);
	snprintf(line, sizeof(line), "cat %s; cat /proc/1/root%s; cat ../../../../../..%s", path,
		path, path);
	auto_result struct cell_result r = sh(c, line);
	ASSERT(r.exit.exit_code != 0);
	ASSERT_STR(r.out, "");
	auto_result struct cell_result os = sh(c, "cat /etc/os-release");
	ASSERT_HAS(os.out, "Conformance root tree");
}

/* The tree is made of hard links, whose number other tests change: that is tar's exit status 1. */
static void make_archive(struct suite *s, void *path)
{
	execlp("sh", "sh", "-c", "tar -C \"$1\" -cf \"$2\" . 2>&1; [ $? -le 1 ]", "sh", s->root,
		path, NULL);
	DIE("run tar: %s", strerror(errno));
}

TEST_NEEDS(a_root_tree_may_be_an_archive, NEEDS(ROOT_DIR) | NEEDS(ROOT_TAR))
{
	char path[256], mark[256];
	struct cell_spec spec = suite_spec(s);
	struct cell *broken = NULL;

	snprintf(path, sizeof(path), "%s/root.tar", s->dir);
	must_succeed(other_process(make_archive, s, path));
	spec.root = path;
	auto_cell struct cell *c = open_spec(&spec);
	auto_result struct cell_result r = sh(c, "cat /etc/os-release; echo x > /mark");
	ASSERT_HAS(r.out, "Conformance root tree");
	ASSERT_INT(r.exit.exit_code, 0);
	snprintf(mark, sizeof(mark), "%s/mark", s->root);
	ASSERT(access(mark, F_OK) < 0); /* each cell has a copy of its own */
	host_store(path, "\x1f\x8b no tar", 9);
	FAILS(NOT_SUPPORTED | INVALID, cell_open(&spec, &broken, &E));
	if (E.code == CELL_ENOTSUP) /* it does not take compressed ones, good or bad */
		ASSERT_HAS(E.hint, "gunzip");
	host_store(path, "neither", 7);
	FAILS(INVALID, cell_open(&spec, &broken, &E));
}

TEST(a_refusal_names_the_back_end_and_who_could)
{
	struct cell_spec spec = suite_spec(s);
	struct cell *c = NULL;

	if (s->caps & NEEDS(SNAPSHOT))
		SKIP("this back end has snapshots");
	spec.needs = ARGV("snapshot");
	FAILS(NOT_SUPPORTED, cell_open(&spec, &c, &E));
	ASSERT_STR(E.backend, s->backend);
	ASSERT_HAS(E.msg, s->backend);
}

TEST_NEEDS(without_promise_a_terminal_is_refused, 0)
{
	if (s->caps & NEEDS(PTY))
		SKIP("this back end has terminals");
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec *x = NULL;
	struct cell_exec_opts o = {.shell = "true", .flags = CELL_EXEC_TTY};
	FAILS(NOT_SUPPORTED, cell_exec_start(c, &o, &x, &E));
	ASSERT_HAS(E.msg, "pty");
}

TEST(without_promise_another_user_is_refused)
{
	if (s->caps & NEEDS(USER))
		SKIP("this back end has users");
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec *x = NULL;
	struct cell_exec_opts o = {.shell = "true", .user = "nobody"};
	FAILS(NOT_SUPPORTED, cell_exec_start(c, &o, &x, &E));
	ASSERT_HAS(E.msg, "user");
}

TEST(without_promise_a_background_command_is_refused)
{
	if (s->caps & NEEDS(BACKGROUND))
		SKIP("this back end has background commands");
	auto_cell struct cell *c = open_cell(s);
	struct cell_exec *x = NULL;
	struct cell_exec_opts o = {.shell = "true", .flags = CELL_EXEC_DETACH};
	FAILS(NOT_SUPPORTED, cell_exec_start(c, &o, &x, &E));
	ASSERT_HAS(E.msg, "background");
}

TEST(without_promise_a_name_is_refused)
{
	if (s->caps & NEEDS(NAMED))
		SKIP("this back end has named cells");
	struct cell_spec spec = suite_spec(s);
	spec.name = "name";
	must_refuse(&spec, CELL_CAP_NAMED);
}

TEST(an_unknown_back_end_is_not_found_and_the_nearest_is_named)
{
	struct cell_spec spec = {0};
	struct cell_backend_info info;
	struct cell *c = NULL;

	spec.backend = "subproces";
	FAILS(NOT_FOUND, cell_open(&spec, &c, &E));
	ASSERT_HAS(E.msg, "subproces");
	ASSERT_HAS(E.hint, "subprocess");
	FAILS(NOT_FOUND, cell_backend_probe("subproces", &info, &E));
}

TEST(capabilities_have_names_that_find_them)
{
	for (int cap = 0; cap < CELL_CAP_COUNT; cap++) {
		ASSERT(cell_cap_name(cap) && cell_cap_meaning(cap));
		ASSERT_INT(cell_cap_find(cell_cap_name(cap)), cap);
	}
	ASSERT(cell_cap_name(CELL_CAP_COUNT) == NULL);
	ASSERT_INT(cell_cap_find("telepathy"), -1);
}

TEST(an_error_may_be_asked_for_without_a_place_for_it)
{
	struct cell_spec spec = suite_spec(s);
	struct cell *c = NULL;

	spec.needs = ARGV("telepathy");
	ASSERT(cell_open(&spec, &c, NULL) < 0);
	ASSERT(cell_reopen("never", &c, NULL) < 0);
	auto_cell struct cell *good = open_cell(s);
	ASSERT(cell_file_exists(good, "../x", NULL) < 0);
}
