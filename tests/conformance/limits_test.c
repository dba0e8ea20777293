/* SPDX-License-Identifier: Apache-2.0 */
/* limits_test.c: limits that are promised hold; those that are not are refused or reported. */
#include <signal.h>

#include "suite.h"

static struct cell *open_limited(struct suite *s, struct cell_limits limits)
{
	struct cell_spec spec = suite_spec(s);

	spec.limits = limits;
	struct cell *c = open_spec(&spec);
	put_probe(s, c);
	return c;
}

TEST_NEEDS(open_files_are_limited, NEEDS(LIMIT_FILES))
{
	auto_cell struct cell *free_cell = open_cell(s);
	auto_cell struct cell *c = open_limited(s, (struct cell_limits){.files = 40});
	auto_result struct cell_result without = RUN(free_cell, "./probe", "openmany");
	auto_result struct cell_result with = RUN(c, "./probe", "openmany");

	ASSERT(strtol(without.out, NULL, 10) > 100);
	ASSERT(strtol(with.out, NULL, 10) <= 40);
	ASSERT(strtol(with.out, NULL, 10) > 0);
}

TEST_NEEDS(the_size_of_a_file_is_limited, NEEDS(LIMIT_FILE_SIZE))
{
	auto_cell struct cell *free_cell = open_cell(s);
	auto_result struct cell_result without =
		RUN(free_cell, "./probe", "file", "big", "3000000");
	auto_cell struct cell *c =
		open_limited(s, (struct cell_limits){.file_size_bytes = 1000000});
	auto_result struct cell_result with = RUN(c, "./probe", "file", "big2", "3000000");
	auto_result struct cell_result below = RUN(c, "./probe", "file", "small", "500000");

	ASSERT_INT(without.exit.exit_code, 0);
	ASSERT(with.exit.exit_code != 0);
	ASSERT_INT(below.exit.exit_code, 0);
}

TEST_NEEDS(output_is_not_limited_by_the_size_of_files, NEEDS(LIMIT_FILE_SIZE))
{
	auto_cell struct cell *c =
		open_limited(s, (struct cell_limits){.file_size_bytes = 1000000});
	struct cell_exec_opts o = {
		.argv = ARGV("./probe", "gen", "5000000"), .max_output = 6000000};
	auto_result struct cell_result r = run_opts(c, &o, NULL, 0);

	ASSERT_INT(r.exit.exit_code, 0);
	ASSERT_INT(r.out_len, 5000000);
}

TEST_NEEDS(the_memory_of_a_process_is_limited, NEEDS(LIMIT_PROCESS_MEMORY))
{
	auto_cell struct cell *free_cell = open_cell(s);
	auto_cell struct cell *c =
		open_limited(s, (struct cell_limits){.process_memory_bytes = 64u << 20});
	auto_result struct cell_result without = RUN(free_cell, "./probe", "mem", "134217728");
	auto_result struct cell_result with = RUN(c, "./probe", "mem", "134217728");
	auto_result struct cell_result below = RUN(c, "./probe", "mem", "16777216");

	ASSERT_STR(without.out, "touched\n");
	ASSERT(with.exit.exit_code != 0);
	ASSERT(!strstr(with.out, "touched"));
	ASSERT_STR(below.out, "touched\n");
}

TEST_NEEDS(the_cpu_time_of_a_process_is_limited, NEEDS(LIMIT_CPU_TIME))
{
	auto_cell struct cell *c = open_limited(s, (struct cell_limits){.cpu_time_s = 1});
	auto_result struct cell_result over = RUN(c, "./probe", "cpu", "4000");
	auto_result struct cell_result below = RUN(c, "./probe", "cpu", "100");

	ASSERT(over.exit.signal == SIGXCPU || over.exit.signal == SIGKILL);
	ASSERT_INT(below.exit.exit_code, 0);
}

TEST_NEEDS(the_number_of_processes_is_limited, NEEDS(LIMIT_PIDS))
{
	auto_cell struct cell *free_cell = open_cell(s);
	auto_cell struct cell *c = open_limited(s, (struct cell_limits){.pids = 20});
	auto_result struct cell_result without = RUN(free_cell, "./probe", "forkmany", "60");
	auto_result struct cell_result with = RUN(c, "./probe", "forkmany", "60");

	ASSERT_STR(without.out, "60\n");
	ASSERT(strtol(with.out, NULL, 10) <= 20);
	auto_result struct cell_result after = RUN(c, "./probe", "exit", "0");
	ASSERT_INT(after.exit.exit_code, 0);
}

TEST_NEEDS(the_memory_of_the_cell_is_limited, NEEDS(LIMIT_MEMORY))
{
	auto_cell struct cell *c = open_limited(s, (struct cell_limits){.memory_bytes = 64u << 20});
	auto_result struct cell_result with = RUN(c, "./probe", "mem", "268435456");
	auto_result struct cell_result below = RUN(c, "./probe", "mem", "16777216");

	ASSERT(!strstr(with.out, "touched"));
	ASSERT(with.exit.oom);
	ASSERT_STR(below.out, "touched\n");
}

TEST_NEEDS(limits_hold_in_a_cell_found_again, NEEDS(LIMIT_FILES) | NEEDS(NAMED))
{
	struct cell_spec spec = suite_spec(s);
	struct cell *c;

	spec.name = "limited";
	spec.limits.files = 40;
	c = open_spec(&spec);
	put_probe(s, c);
	OK(cell_close(c, &E));
	OK(cell_reopen("limited", &c, &E));
	auto_result struct cell_result r = RUN(c, "./probe", "openmany");
	ASSERT(strtol(r.out, NULL, 10) <= 40);
	OK(cell_destroy(c, &E));
}

/* Each limit of a spec, and the capability behind it. */
static const struct {
	enum cell_cap cap;
	struct cell_limits limits;
} asked[] = {
	{CELL_CAP_LIMIT_MEMORY, {.memory_bytes = 1u << 30}},
	{CELL_CAP_LIMIT_CPUS, {.cpu_millis = 500}},
	{CELL_CAP_LIMIT_PIDS, {.pids = 1000}},
	{CELL_CAP_LIMIT_DISK, {.disk_bytes = 1u << 30}},
	{CELL_CAP_LIMIT_INODES, {.inodes = 1000}},
	{CELL_CAP_LIMIT_FILES, {.files = 1000}},
	{CELL_CAP_LIMIT_FILE_SIZE, {.file_size_bytes = 1u << 30}},
	{CELL_CAP_LIMIT_PROCESS_MEMORY, {.process_memory_bytes = 1u << 30}},
	{CELL_CAP_LIMIT_CPU_TIME, {.cpu_time_s = 1000}},
	{CELL_CAP_LIMIT_IO, {.io_weight = 50}},
};

TEST(a_limit_that_is_not_promised_is_refused_by_name)
{
	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
		struct cell_spec spec = suite_spec(s);
		struct cell *c = NULL;
		spec.limits = asked[i].limits;
		if (asked[i].cap == CELL_CAP_LIMIT_DISK || asked[i].cap == CELL_CAP_LIMIT_INODES)
			spec.workspace = NULL; /* that would be the host's disk */
		if (s->caps & CELL_CAP_BIT(asked[i].cap)) {
			c = open_spec(&spec);
			ASSERT_INT(cell_degraded(c), 0);
			OK(cell_close(c, &E));
			continue;
		}
		FAILS(NOT_SUPPORTED, cell_open(&spec, &c, &E));
		ASSERT_HAS(E.msg, cell_cap_name(asked[i].cap));
		ASSERT(c == NULL);
	}
}

TEST(a_limit_asked_for_with_best_effort_is_reported_when_not_enforced)
{
	for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
		struct cell_spec spec = suite_spec(s);
		spec.limits = asked[i].limits;
		spec.limits.is_best_effort = true;
		if (asked[i].cap == CELL_CAP_LIMIT_DISK || asked[i].cap == CELL_CAP_LIMIT_INODES)
			spec.workspace = NULL;
		auto_cell struct cell *c = open_spec(&spec);
		cell_caps bit = CELL_CAP_BIT(asked[i].cap);
		ASSERT_INT(cell_degraded(c), s->caps & bit ? 0 : bit);
	}
}
