/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "launcher/launcher.h"
#include "test.h"

struct host host;

static char dir[64];

static void prepare(void)
{
	(void)snprintf(dir, sizeof dir, "/tmp/cell-test-slot.XXXXXX");
	ASSERT(mkdtemp(dir));
	host.slots_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ASSERT(host.slots_fd >= 0);
	host.first_uid = 1000000;
	host.n_uids = 8;
	host.cgroups.v2 = (struct cgroup_tree){-1, -1};
	for (int i = 0; i < CG_COUNT; i++)
		host.cgroups.v1[i] = (struct cgroup_tree){-1, -1};
}

static void clean(void)
{
	for (int i = 0; i < 10; i++) {
		char name[4];
		(void)snprintf(name, sizeof name, "%d", i);
		(void)unlinkat(host.slots_fd, name, 0);
	}
	ASSERT_EQ(rmdir(dir), 0);
}

TEST(two_slots_have_nothing_in_common)
{
	struct failure f = {0};

	prepare();
	struct slot *a = slot_take(&f), *b = slot_take(&f);
	ASSERT(a && b && a != b);
	ASSERT(a->number != b->number && a->uid != b->uid && a->gid != b->gid);
	ASSERT(a->uid >= host.first_uid && a->uid < host.first_uid + host.n_uids);
	slot_free(a);
	slot_free(b);
	clean();
}

TEST(a_slot_of_another_process_is_left_alone)
{
	struct failure f = {0};

	prepare();
	int held = openat(host.slots_fd, "0", O_RDONLY | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(held >= 0 && flock(held, LOCK_EX | LOCK_NB) == 0);
	struct slot *a = slot_take(&f);
	ASSERT(a);
	ASSERT_EQ(a->number, 1);
	slot_sweep();
	ASSERT_EQ(faccessat(host.slots_fd, "0", F_OK, 0), 0);
	close(held); /* its process died */
	struct slot *b = slot_take(&f);
	ASSERT(b);
	slot_sweep();
	ASSERT(faccessat(host.slots_fd, "0", F_OK, 0) < 0);
	slot_free(a);
	slot_free(b);
	clean();
}

TEST(a_lock_held_by_a_child_alone_still_holds)
{
	struct failure f = {0};
	int go[2];

	prepare();
	struct slot *a = slot_take(&f);
	ASSERT(a && pipe(go) == 0);
	pid_t pid = fork();
	if (pid == 0) {
		char c;
		close(go[1]);
		(void)!read(go[0], &c, 1);
		_exit(0);
	}
	close(a->lock_fd); /* the launcher died; the cell has it open */
	a->lock_fd = -1;
	int other = openat(host.slots_fd, "0", O_RDONLY | O_CLOEXEC);
	ASSERT(flock(other, LOCK_EX | LOCK_NB) < 0);
	close(go[0]);
	close(go[1]);
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
	ASSERT_EQ(flock(other, LOCK_EX | LOCK_NB), 0);
	close(other);
	clean();
}

TEST(a_recycled_slot_comes_back_and_a_freed_one_leaves_no_file)
{
	struct failure f = {0};

	prepare();
	struct slot *a = slot_take(&f);
	ASSERT(a);
	uint32_t n = a->number;
	slot_recycle(a);
	struct slot *b = slot_take(&f);
	ASSERT(b == a && b->number == n);
	slot_free(b);
	ASSERT_EQ(rmdir(dir), 0); /* empty */
}

TEST(when_all_ids_are_taken_it_is_said)
{
	struct failure f = {0};
	struct slot *all[8];

	prepare();
	for (int i = 0; i < 8; i++)
		ASSERT((all[i] = slot_take(&f)));
	ASSERT(!slot_take(&f));
	ASSERT_EQ(f.step, LAUNCHER_STEP_SLOT);
	ASSERT_EQ(f.sys_errno, EAGAIN);
	slot_free(all[3]);
	struct slot *again = slot_take(&f);
	ASSERT(again);
	ASSERT_EQ(again->number, 3);
	slot_free(again);
	for (int i = 0; i < 8; i++)
		if (i != 3)
			slot_free(all[i]);
	clean();
}

TEST(a_title_tells_whose_slot_it_is)
{
	struct failure f = {0};

	prepare();
	struct slot *a = slot_take(&f);
	slot_name_owner(a, "cell-guest:one:1.2");
	ASSERT(slot_is_owned_by(a->number, "cell-guest:one:1.2"));
	ASSERT(!slot_is_owned_by(a->number, "cell-guest:one:1.3"));
	ASSERT(!slot_is_owned_by(a->number, ""));
	ASSERT(!slot_is_owned_by(a->number + 1, "cell-guest:one:1.2"));
	slot_recycle(a);
	ASSERT(!slot_is_owned_by(a->number, "cell-guest:one:1.2"));
	slot_free(a);
	clean();
}

TEST(a_link_in_place_of_a_lock_is_not_followed)
{
	struct failure f = {0};

	prepare();
	ASSERT_EQ(symlinkat("/etc/passwd", host.slots_fd, "0"), 0);
	struct slot *a = slot_take(&f);
	ASSERT(!a);
	ASSERT_EQ(f.sys_errno, ELOOP);
	clean();
}

/* A group as far as killing goes: what is written into cgroup.kill stays there. */
static int make_group(void)
{
	ASSERT_EQ(mkdirat(host.slots_fd, "groups", 0700), 0);
	host.cgroups.v2.fd = openat(host.slots_fd, "groups", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	host.cgroups.has_kill = true;
	ASSERT_EQ(mkdirat(host.cgroups.v2.fd, "0", 0700), 0);
	int fd = openat(host.cgroups.v2.fd, "0/cgroup.kill", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(fd >= 0);
	return fd;
}

TEST(who_removes_a_cell_kills_under_its_name_alone)
{
	struct failure f = {0};
	char text[4];

	prepare();
	int kills = make_group();
	int held = openat(host.slots_fd, "0", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(held >= 0 && flock(held, LOCK_EX | LOCK_NB) == 0);
	/* the number has gone to another cell since it was asked whose it is */
	ASSERT_EQ(write(held, "cell-guest:new", 14), 14);
	ASSERT(!slot_adopt(0, "cell-guest:old", &f));
	ASSERT_EQ(f.step, 0);
	ASSERT_EQ(pread(kills, text, sizeof text, 0), 0);
	/* the control: under its own name it is killed */
	close(held);
	struct slot *s = slot_adopt(0, "cell-guest:new", &f);
	ASSERT(s);
	ASSERT_EQ(pread(kills, text, sizeof text, 0), 1);
	close(kills);
	ASSERT_EQ(unlinkat(host.cgroups.v2.fd, "0/cgroup.kill", 0), 0);
	slot_free(s);
	ASSERT_EQ(unlinkat(host.slots_fd, "groups", AT_REMOVEDIR), 0);
	clean();
}

TEST(a_number_that_is_taken_again_has_not_the_name_of_the_dead)
{
	struct failure f = {0};

	prepare();
	int dead = openat(host.slots_fd, "0", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT(dead >= 0 && write(dead, "cell-guest:dead", 15) == 15);
	close(dead); /* killed with its launcher: nobody has tidied up */
	ASSERT(slot_is_owned_by(0, "cell-guest:dead"));
	struct slot *s = slot_take(&f);
	ASSERT(s);
	ASSERT_EQ(s->number, 0);
	ASSERT(!slot_is_owned_by(0, "cell-guest:dead")); /* or its removal would end this one */
	slot_free(s);
	clean();
}

/* A launcher that is killed the moment it has started the process that an idmap is made with. */
static int killed_while_mapping(pid_t launcher)
{
	unsigned long child = 0;
	int status = 0, fd = -1;

	ASSERT_EQ(waitpid(launcher, &status, __WALL), launcher);
	ASSERT(WIFSTOPPED(status));
	ASSERT_EQ(ptrace(PTRACE_SETOPTIONS, launcher, 0,
			  PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK),
		0);
	ASSERT_EQ(ptrace(PTRACE_CONT, launcher, 0, 0), 0);
	ASSERT_EQ(waitpid(launcher, &status, __WALL), launcher);
	ASSERT(WIFSTOPPED(status) && status >> 16);
	ASSERT_EQ(ptrace(PTRACE_GETEVENTMSG, launcher, 0, &child), 0);
	ASSERT_EQ(waitpid((pid_t)child, &status, __WALL), (pid_t)child);
	fd = (int)syscall(SYS_pidfd_open, (pid_t)child, 0);
	ASSERT_EQ(kill(launcher, SIGKILL), 0);
	ASSERT_EQ(waitpid(launcher, &status, __WALL), launcher);
	ASSERT_EQ(ptrace(PTRACE_DETACH, (pid_t)child, 0, 0), 0);
	return fd;
}

TEST(what_an_idmap_is_made_with_does_not_outlive_the_launcher)
{
	struct failure f = {0};

	prepare();
	struct slot *s = slot_take(&f);
	ASSERT(s);
	pid_t pid = fork();
	if (pid == 0) {
		(void)ptrace(PTRACE_TRACEME, 0, 0, 0);
		(void)raise(SIGSTOP);
		_exit(slot_idmap(s, geteuid(), getegid(), &f) < 0);
	}
	struct pollfd p = {.fd = killed_while_mapping(pid), .events = POLLIN};
	ASSERT(p.fd >= 0);
	ASSERT_EQ(poll(&p, 1, 10000), 1);
	close(p.fd);
	slot_free(s);
	clean();
}
