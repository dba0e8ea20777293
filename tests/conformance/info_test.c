/* SPDX-License-Identifier: Apache-2.0 */
/* info_test.c: what a cell says about itself. */
#include <sys/utsname.h>

#include "suite.h"

static int check_platform(const struct cell_platform *p, void *user)
{
	struct utsname u;

	ASSERT_INT(uname(&u), 0);
	ASSERT_STR(p->os, "Linux");
	ASSERT_STR(p->arch, u.machine);
	ASSERT(p->kernel[0] && p->hostname[0] && p->guest_version[0]);
	ASSERT(p->os_version[0]);
	ASSERT(p->workspace[0] == '/');
	ASSERT(p->cpus >= 1 && p->cpus < 100000);
	ASSERT(p->memory_bytes > 16u << 20);
	ASSERT(p->guest_pid > 0);
	ASSERT(p->guest_rss_bytes > 0 && p->guest_rss_bytes < 16u << 20);
	ASSERT_INT(p->clients, 1);
	ASSERT_INT(p->execs_running, 0);
	*(int *)user += 1;
	return 0;
}

TEST(the_platform_is_told)
{
	auto_cell struct cell *c = open_cell(s);
	int calls = 0;

	OK(cell_platform(c, check_platform, &calls, &E));
	ASSERT_INT(calls, 1);
}

TEST(the_user_told_is_the_user_commands_have)
{
	auto_cell struct cell *c = open_cell(s);
	auto_result struct cell_result r = RUN(c, "./probe", "ids");
	char want[32];

	snprintf(want, sizeof(want), "uid %u ", ask_guest(c).uid);
	ASSERT_HAS(r.out, want);
}

struct tools {
	char sh[4096], none[64];
	int calls;
};

static int note_tool(const char *name, const char *path, void *user)
{
	struct tools *t = user;

	t->calls++;
	if (!strcmp(name, "sh"))
		snprintf(t->sh, sizeof(t->sh), "%s", path);
	else if (!strcmp(name, "no-such-tool"))
		snprintf(t->none, sizeof(t->none), "[%s]", path);
	return 0;
}

TEST(tools_are_found_in_the_cell_s_path)
{
	auto_cell struct cell *c = open_cell(s);
	struct tools t = {0};

	OK(cell_tools(c, ARGV("sh", "no-such-tool", "cat"), note_tool, &t, &E));
	ASSERT_INT(t.calls, 3);
	ASSERT_INT(t.sh[0], '/');
	ASSERT_STR(t.none, "[]");
	auto_result struct cell_result r = RUN(c, t.sh, "-c", "exit 4");
	ASSERT_INT(r.exit.exit_code, 4);
}

TEST(a_cell_knows_its_back_end_and_what_it_promises)
{
	auto_cell struct cell *c = open_cell(s);

	ASSERT_STR(cell_backend_of(c), s->backend);
	ASSERT(cell_name(c)[0] != '\0');
	for (int cap = 0; cap < CELL_CAP_COUNT; cap++)
		ASSERT_INT(cell_supports(c, (enum cell_cap)cap), (s->caps >> cap & 1));
	ASSERT_INT(cell_degraded(c), 0);
	ASSERT(cell_version()[0] != '\0');
}

static int note_info(const struct cell_info *i, void *user)
{
	ASSERT(i->name[0] && i->backend[0] && i->directory[0] == '/');
	ASSERT_INT(i->state, CELL_STATE_READY);
	ASSERT(i->guest_pid > 0);
	ASSERT(i->created_unix_ms > UINT64_C(1600000000000));
	snprintf(user, 256, "%s %s %d %s", i->name, i->backend, i->is_ephemeral,
		i->labels && i->labels[0] ? i->labels[0] : "");
	return 0;
}

TEST_NEEDS(inspect_and_list_tell_the_same, NEEDS(NAMED))
{
	struct cell_spec spec = suite_spec(s);
	char listed[256] = "", inspected[256] = "", want[256];

	spec.name = "told";
	spec.labels = ARGV("team=blue");
	struct cell *c = open_spec(&spec);
	OK(cell_list(note_info, listed, &E));
	OK(cell_inspect("told", note_info, inspected, &E));
	snprintf(want, sizeof(want), "told %s 0 team=blue", s->backend);
	ASSERT_STR(listed, want);
	ASSERT_STR(inspected, want);
	OK(cell_destroy(c, &E));
	FAILS(NOT_FOUND, cell_inspect("told", note_info, inspected, &E));
	listed[0] = '\0';
	OK(cell_list(note_info, listed, &E));
	ASSERT_STR(listed, "");
}
