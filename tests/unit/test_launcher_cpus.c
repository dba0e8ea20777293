/* SPDX-License-Identifier: Apache-2.0 */
/* test_launcher_cpus.c: lists of CPUs, and who has which. */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "launcher/cpus.h"
#include "launcher/launcher.h"
#include "test.h"

struct host host;

static char dir[64];

static void prepare(void)
{
	(void)snprintf(dir, sizeof dir, "/tmp/cell-test-cpus.XXXXXX");
	ASSERT(mkdtemp(dir));
	host.slots_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT(host.slots_fd >= 0);
}

static void clean(void)
{
	static const char *const names[] = {"1", "2", "cpus"};

	for (size_t i = 0; i < 3; i++)
		(void)unlinkat(host.slots_fd, names[i], 0);
	ASSERT_EQ(rmdir(dir), 0);
}

static const char *again(const char *text)
{
	static char out[4096];
	struct cpus c;

	cpus_parse(text, &c);
	cpus_format(&c, out, sizeof out);
	return out;
}

TEST(lists_of_cpus_are_read_and_written)
{
	ASSERT_STR(again("0-3,8,10-11\n"), "0-3,8,10-11");
	ASSERT_STR(again("5"), "5");
	ASSERT_STR(again("1,0"), "0-1");
	ASSERT_STR(again("63-65,1023"), "63-65,1023");
}

TEST(lists_that_are_none_are_empty_or_end_early)
{
	ASSERT_STR(again(""), "");
	ASSERT_STR(again("\n"), "");
	ASSERT_STR(again("x"), "");
	ASSERT_STR(again("-1"), "");
	ASSERT_STR(again("1024"), "");
	ASSERT_STR(again("3-1"), "");
	ASSERT_STR(again("0-99999999999999999999"), "");
	ASSERT_STR(again("2,,3"), "2");
}

static struct cpus four(void)
{
	struct cpus c;

	cpus_parse("0-3", &c);
	return c;
}

/* A slot is alive while somebody has its file locked. */
static int hold(const char *number)
{
	int fd = openat(host.slots_fd, number, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	ASSERT(fd >= 0 && flock(fd, LOCK_EX) == 0);
	return fd;
}

TEST(cpus_are_claimed_once_and_one_is_left)
{
	struct cpus all = four(), a, b, left;
	struct failure f = {0};

	prepare();
	ASSERT(!cpus_is_any_claimed());
	ASSERT(!cpus_left(&all, &left));
	int one = hold("1"), two = hold("2");
	ASSERT_EQ(cpus_claim(&all, 2, 1, &a, &f), 0);
	ASSERT_EQ(cpus_count(&a), 2);
	ASSERT_EQ(cpus_claim(&all, 1, 2, &b, &f), 0);
	ASSERT(!cpus_has(&a, 1) && cpus_has(&b, 1));
	ASSERT_EQ(cpus_claim(&all, 1, 2, &left, &f), -1);
	ASSERT_EQ(f.sys_errno, EAGAIN);
	ASSERT_EQ(f.step, LAUNCHER_STEP_CPUS);
	ASSERT(cpus_left(&all, &left));
	ASSERT_EQ(cpus_count(&left), 1);
	ASSERT(cpus_is_claimed_by(1) && cpus_is_claimed_by(2) && !cpus_is_claimed_by(3));
	/* the first is given back, the second's holder dies */
	ASSERT(cpus_release(1));
	ASSERT(!cpus_release(1));
	ASSERT(!cpus_sweep());
	close(two);
	ASSERT(cpus_sweep());
	ASSERT(!cpus_is_any_claimed());
	close(one);
	clean();
}

TEST(claims_of_the_dead_are_taken_over)
{
	struct cpus all = four(), a;
	struct failure f = {0};

	prepare();
	int one = hold("1");
	ASSERT_EQ(cpus_claim(&all, 3, 1, &a, &f), 0);
	close(one);
	int two = hold("2");
	ASSERT_EQ(cpus_claim(&all, 3, 2, &a, &f), 0);
	ASSERT(!cpus_is_claimed_by(1));
	close(two);
	clean();
}
