/* SPDX-License-Identifier: Apache-2.0 */
/* test_container.c: what a cell in a container is, whoever makes the container. */
#include <errno.h>
#include <stdlib.h>

#include "backends/bundle/bundle.h"
#include "base/tar.h"
#include "core/container.h"
#include "core/guest_pack.h"
#include "core/guest_process.h"
#include "core/making.h"
#include "test.h"

static char *line_of(const struct container_guest *g)
{
	static char line[1000];
	json_t *args = container_guest_args(g);
	const json_t *word;
	size_t i;

	*line = '\0';
	json_array_foreach (args, i, word)
		(void)snprintf(line + strlen(line), sizeof line - strlen(line), "%s%s",
			i ? " " : "", json_string_value(word));
	json_decref(args);
	return line;
}

#define USUAL " --workspace /workspace --home /home/cell --tmp /tmp"

TEST(a_guest_is_told_how_it_is_reached)
{
	const struct cell_limits none = {0};
	struct container_guest g = {.limits = &none, .reach = CONTAINER_CALLS};

	ASSERT_STR(line_of(&g), "/.cell/guest --filter /.cell/filter --call /.cell/sock" USUAL);
	g.reach = CONTAINER_HAS_IT;
	ASSERT_STR(line_of(&g), "/.cell/guest --filter /.cell/filter --fd 0" USUAL);
	g.reach = CONTAINER_LISTENS;
	ASSERT_STR(line_of(&g),
		"/.cell/guest --filter /.cell/filter --listen /.cell/run/sock" USUAL);
	g.reach = CONTAINER_LISTENS_ONCE;
	g.sees_cgroup = g.has_hold_fd = true;
	g.alone_as = "7:8";
	ASSERT_STR(line_of(&g), "/.cell/guest --alone-as 7:8 --filter /.cell/filter --listen-once "
				"/.cell/run/sock" USUAL " --oom-cgroup /sys/fs/cgroup --hold-fd 3");
}

TEST(limits_of_processes_come_with_the_lease_or_the_command_line)
{
	const struct cell_limits l = {.files = 64,
		.file_size_bytes = 1000,
		.process_memory_bytes = 2000,
		.cpu_time_s = 3,
		.pids = 9};
	struct container_guest g = {.limits = &l, .reach = CONTAINER_CALLS};

	ASSERT(!strstr(line_of(&g), "--rlimit"));
	g.has_nproc = true;
	ASSERT(strstr(line_of(&g), " --rlimit nproc=9"));
	g.has_nproc = false;
	g.reach = CONTAINER_LISTENS;
	ASSERT(strstr(line_of(&g),
		" --rlimit nofile=64 --rlimit fsize=1000 --rlimit as=2000 --rlimit cpu=3"));
	ASSERT(!strstr(line_of(&g), "nproc"));
}

TEST(scratch_space_shares_a_limit_of_the_disk)
{
	struct cell_spec spec = {.limits = {.disk_bytes = 8u << 20}};
	struct container_scratch s[3];

	ASSERT(container_is_read_only(&spec));
	ASSERT_EQ(container_scratch(&spec, s), 3);
	ASSERT_STR(s[2].path, "/workspace");
	ASSERT_EQ(s[0].bytes + s[1].bytes + s[2].bytes, 8u << 20);
	ASSERT_EQ(s[2].inodes, (4u << 20) / 4096 + 64);
	spec.workspace = "/host";
	ASSERT_EQ(container_scratch(&spec, s), 2);
	ASSERT_EQ(s[0].bytes + s[1].bytes, 8u << 20);
	spec.scratch = CELL_SCRATCH_DISK; /* the disk has the limit, memory its usual size */
	ASSERT(!container_is_read_only(&spec));
	ASSERT_EQ(container_scratch(&spec, s), 2);
	ASSERT_EQ(s[0].bytes, 1u << 30);
	spec = (struct cell_spec){.limits = {.disk_bytes = 1}};
	ASSERT_EQ(container_scratch(&spec, s), 3);
	ASSERT_EQ(s[0].bytes, 4096);
}

static int take_mount(void *user, const struct cell_mount *m, const char *source,
	const struct stat *st, struct cell_error *err)
{
	(void)err;
	(void)snprintf(user, 200, "%s %s %d", source, m->target, S_ISDIR(st->st_mode));
	return 0;
}

TEST(mounts_have_their_real_source_and_no_devices)
{
	struct cell_mount m = {.source = "/proc/../usr/.", .target = "/there"};
	struct cell_spec spec = {.mounts = &m, .n_mounts = 1};
	struct cell_error err;
	char taken[200] = "";

	ASSERT_OK(container_mounts(NULL, &spec, take_mount, taken, &err));
	ASSERT_STR(taken, "/usr /there 1");
	m.source = "/dev/null";
	ASSERT(container_mounts(NULL, &spec, take_mount, taken, &err) < 0);
	ASSERT(strstr(err.msg, "device") && *err.hint);
	m.source = "/usr/..";
	ASSERT(container_mounts(NULL, &spec, take_mount, taken, &err) < 0);
	ASSERT(strstr(err.msg, "whole root") && *err.hint);
	m.source = "/not/there";
	ASSERT(container_mounts(NULL, &spec, take_mount, taken, &err) < 0);
	ASSERT_EQ(err.code, CELL_ENOTFOUND);
}

TEST(too_little_memory_for_a_container_is_told)
{
	struct cell_error err;
	struct cell_limits l = {0};

	ASSERT_OK(container_check_memory(&l, &err));
	l.memory_bytes = 6u << 20;
	ASSERT_OK(container_check_memory(&l, &err));
	l.memory_bytes--;
	ASSERT(container_check_memory(&l, &err) < 0);
	ASSERT(strstr(err.msg, "hold no container") && strstr(err.hint, "6m"));
}

static int hear_wall(const struct cell_wall *w, void *user)
{
	char *text = user;

	(void)snprintf(text + strlen(text), 1000 - strlen(text), "%s%s ", w->name,
		w->is_weak ? " (weak)" : "");
	ASSERT(*w->how);
	return 0;
}

TEST(walls_are_told_with_what_differs)
{
	struct container_walls w = {.maker = "engine", .how = "one"};
	char text[1000] = "";

	ASSERT_OK(container_walls_tell(&w, hear_wall, text));
	ASSERT_STR(text, "engine ids privileges processes syscalls network limits disk ");
	w.kernel = w.files = "own";
	w.is_unlimited = true;
	*text = '\0';
	ASSERT_OK(container_walls_tell(&w, hear_wall, text));
	ASSERT_STR(text, "engine kernel ids privileges processes syscalls files network limits "
			 "(weak) disk ");
}

TEST(a_cell_is_who_its_workspace_belongs_to)
{
	struct cell_spec spec = {0};
	struct cell_error err;
	uid_t uid;
	gid_t gid;

	ASSERT_OK(container_owner(&spec, &uid, &gid, &err));
	ASSERT_EQ(uid, CONTAINER_UID);
	ASSERT_EQ(gid, CONTAINER_UID);
	spec.workspace = "/usr";
	ASSERT_OK(container_owner(&spec, &uid, &gid, &err));
	ASSERT_EQ(uid, 0);
	ASSERT_EQ(gid, 0);
	spec.workspace = "/not/there";
	ASSERT(container_owner(&spec, &uid, &gid, &err) < 0);
	ASSERT(strstr(err.msg, "/not/there"));
}

/* ---- without memory ---- */

static unsigned allocations, last_allocation;

static void *allocate(size_t size)
{
	return last_allocation && ++allocations >= last_allocation ? NULL : malloc(size);
}

/* Every allocation fails in turn, with all that come after it. */
TEST(a_bundle_is_described_whole_or_not_at_all)
{
	struct cell_mount mount = {.source = "/usr", .target = "/there", .is_read_only = true};
	struct cell_spec spec = {.mounts = &mount,
		.n_mounts = 1,
		.limits = {.memory_bytes = 64u << 20, .cpu_millis = 500, .pids = 9}};
	const struct bundle b = {.spec = &spec,
		.root = "root",
		.door = "/door",
		.is_alone = true,
		.has_cgroups = true,
		.has_pids = true,
		.group = "/g"};
	json_t *want = NULL, *have = NULL;

	json_set_alloc_funcs(allocate, free);
	ASSERT_OK(bundle_config(&b, &want, NULL));
	for (unsigned n = 1; !have; n++) {
		allocations = 0;
		last_allocation = n;
		int r = bundle_config(&b, &have, NULL);
		last_allocation = 0;
		ASSERT(r == 0 || r == -ENOMEM);
		ASSERT_EQ(r == 0, have != NULL);
		ASSERT(n < 10000);
	}
	ASSERT(json_equal(want, have));
	json_decref(want);
	json_decref(have);
}

/* One alone fails: whatever was made of the others must not pass for the whole. */
static void *allocate_but_one(size_t size)
{
	return ++allocations == last_allocation ? NULL : malloc(size);
}

TEST(a_part_that_is_missing_is_missed)
{
	struct cell_spec spec = {
		.limits = {.memory_bytes = 64u << 20, .cpu_millis = 500, .pids = 9}};
	const struct bundle b = {.spec = &spec,
		.root = "root",
		.door = "/door",
		.has_cgroups = true,
		.has_pids = true,
		.group = "/g"};
	json_t *want = NULL;
	unsigned n = 0;

	ASSERT_OK(bundle_config(&b, &want, NULL));
	json_set_alloc_funcs(allocate_but_one, free);
	do {
		json_t *have = NULL;
		allocations = 0;
		last_allocation = ++n;
		int r = bundle_config(&b, &have, NULL);
		ASSERT(r == -ENOMEM || (r == 0 && json_equal(want, have)));
		json_decref(have);
	} while (allocations >= n); /* until there are not so many */
	ASSERT(n > 100);
	json_decref(want);
}

/* ---- the archive for places that see no files of ours ---- */

struct source {
	const struct buf *b;
	size_t at;
};

static ssize_t give(void *p, size_t n, void *user)
{
	struct source *s = user;
	size_t left = s->b->len - s->at, k = n < left ? n : left;

	memcpy(p, s->b->data + s->at, k);
	s->at += k;
	return (ssize_t)k;
}

static void list(const struct buf *archive, char *ret, size_t size)
{
	struct source s = {archive, 0};
	struct tar_reader r = TAR_READER_INIT(give, &s);
	struct tar_entry e;
	char data[8192];

	*ret = '\0';
	while (tar_read_entry(&r, &e) > 0) {
		(void)snprintf(ret + strlen(ret), size - strlen(ret), "%c %s %o %u:%u %llu\n",
			e.type, e.name, e.mode, (unsigned)e.uid, (unsigned)e.gid,
			(unsigned long long)e.size);
		while (tar_read_data(&r, data, sizeof data) > 0)
			;
	}
	tar_reader_done(&r);
}

TEST(the_guest_is_packed_with_its_filter_and_a_place_to_listen)
{
	struct sock_filter code[2] = {{0}};
	struct sock_fprog program = {.len = 2, .filter = code};
	auto_buf struct buf archive = BUF_INIT(GUEST_PACK_MAX);
	char have[400], want[400];

	ASSERT_OK(guest_pack("12:34", &program, &archive));
	list(&archive, have, sizeof have);
	(void)snprintf(want, sizeof want, "0 guest 555 0:0 %zu\n0 filter 444 0:0 16\n%s",
		(size_t)(cell_guest_blob_end - cell_guest_blob), "5 run 700 12:34 0\n");
	ASSERT_STR(have, want);
	buf_reset(&archive);
	ASSERT_OK(guest_pack("somebody", &program,
		&archive)); /* who that is, is the place's to know */
	list(&archive, have, sizeof have);
	ASSERT(strstr(have, "5 run 1777 0:0 0\n"));
}

TEST(directories_are_packed_open)
{
	static const char *const names[] = {"workspace", "home/cell", NULL};
	auto_buf struct buf archive = BUF_INIT(65536);
	char have[400];

	ASSERT_OK(guest_pack_directories(names, &archive));
	list(&archive, have, sizeof have);
	ASSERT_STR(have, "5 workspace 1777 0:0 0\n5 home/cell 1777 0:0 0\n");
}

/* ---- what is told of a pull ---- */

static int hear(const struct cell_making *m, void *user)
{
	*(struct cell_making *)user = *m;
	return m->layers > 1;
}

TEST(layers_are_added_up_and_who_is_told_may_stop_it)
{
	struct cell_making heard = {0};
	struct cell_spec spec = {.image = "i", .making = hear, .making_user = &heard};
	struct making m = {.spec = &spec};
	struct making_layer *l = making_layer(&m, "a");

	l->bytes = 3;
	l->total = 10;
	making_tell(&m, "a", "Downloading");
	ASSERT_EQ(heard.bytes, 3);
	ASSERT_EQ(heard.total_bytes, 10);
	ASSERT_EQ(m.stopped, 0);
	making_layer(&m, "b")->total = 5;
	ASSERT(making_layer(&m, "a") == m.layers); /* the same again */
	making_layer(&m, "a")->is_done = true;
	making_tell(&m, "b", "Waiting");
	ASSERT_EQ(heard.total_bytes, 15);
	ASSERT_EQ(heard.layers, 2);
	ASSERT_EQ(heard.layers_done, 1);
	ASSERT_EQ(m.stopped, 1);
	heard.layers = 0;
	making_tell(&m, "b", "Waiting");
	ASSERT_EQ(heard.layers, 0); /* not again */
	making_done(&m);
	ASSERT_EQ(m.stopped, 1);
}
