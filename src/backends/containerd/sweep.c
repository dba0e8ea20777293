/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c: what is ours and nobody's any more: containers whose record is gone, images of snapshots that nobody knows, leases of the dead. All of it
 * carries labels that say whose it is.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/cell.h"

#include "backends/containerd/ctd.h"
#include "core/process.h"
#include "net/protobuf.h"

/* Which field of a message its labels are. */
enum {
	LABELS_OF_LEASE = 3,
	LABELS_OF_SNAPSHOT = 6
};

/* The value of a label; "" when it has none of that name. */
static void find_label(const struct pb_field *of, unsigned labels, const char *name, char *ret,
	size_t size)
{
	struct pb_field f;
	char key[64];

	*ret = '\0';
	for (struct pb_reader r = pb_read(of->data, of->size); pb_next(&r, &f);) {
		if (f.number != labels)
			continue;
		pb_find_str(f.data, f.size, 1, key, sizeof key);
		if (!strcmp(key, name))
			pb_find_str(f.data, f.size, 2, ret, size);
	}
}

/* All of a list whose label says that they are of this state directory. */
static int list(struct ctd *d, const char *method, const char *snapshotter, const char *state_id,
	struct buf *ret)
{
	auto_buf struct buf request = BUF_INIT(1024);
	char filter[200];

	(void)snprintf(filter, sizeof filter, "labels.\"" CONTAINER_LABEL_STATE "\"==%s", state_id);
	if (pb_add_str(&request, 1, snapshotter) < 0 ||
		pb_add_str(&request, snapshotter ? 2 : 1, filter) < 0)
		return -ENOMEM;
	return ctd_call(d, method, &request, ret, "look for what is left", NULL);
}

/* The snapshot is the first that is made of a container and the last that is removed: all that can be left have one. */
void ctd_list(void *at, enum container_marked what, const char *state_id, container_marked_fn fn,
	void *user)
{
	struct ctd *d = at;
	auto_buf struct buf all = BUF_INIT(CTD_TEXT_MAX);
	char name[CTD_NAME_MAX], cell[200];
	struct pb_field f;
	int r = what == CONTAINER_IMAGES
			? list(d, "images.v1.Images/List", NULL, state_id, &all)
			: list(d, "snapshots.v1.Snapshots/List", d->snapshotter, state_id, &all);

	for (struct pb_reader one = pb_read(all.data, all.len); r == 0 && pb_next(&one, &f);) {
		if (f.number != 1)
			continue;
		pb_find_str(f.data, f.size, 1, name, sizeof name);
		find_label(&f, LABELS_OF_SNAPSHOT, CONTAINER_LABEL_NAME, cell, sizeof cell);
		fn(user, cell, name);
	}
}

void ctd_sight(char ret[32])
{
	struct stat st = {0};

	(void)stat("/proc/self/ns/mnt", &st);
	(void)snprintf(ret, 32, "%ju", (uintmax_t)st.st_ino);
}

static void sweep_lost(struct ctd *d, const struct pb_field *info)
{
	char id[200], directory[4096], where[32], here[32];
	struct stat st;

	pb_find_str(info->data, info->size, 1, id, sizeof id);
	find_label(info, LABELS_OF_SNAPSHOT, CONTAINER_LABEL_DIR, directory, sizeof directory);
	find_label(info, LABELS_OF_SNAPSHOT, CTD_LABEL_SIGHT, where, sizeof where);
	ctd_sight(here);
	if (*id && *directory == '/' && !strcmp(where, here) && stat(directory, &st) < 0 &&
		errno == ENOENT)
		(void)ctd_container_remove(d, id, false, NULL);
}

void ctd_sweep_lost(struct ctd *d)
{
	auto_buf struct buf request = BUF_INIT(1024), answer = BUF_INIT(CTD_TEXT_MAX);
	struct pb_field f;

	if (pb_add_str(&request, 1, d->snapshotter) < 0 ||
		pb_add_str(&request, 2, "labels.\"" CONTAINER_LABEL_DIR "\"") < 0 ||
		ctd_call(d, "snapshots.v1.Snapshots/List", &request, &answer,
			"look for what is left", NULL) < 0)
		return;
	for (struct pb_reader r = pb_read(answer.data, answer.len); pb_next(&r, &f);)
		if (f.number == 1)
			sweep_lost(d, &f);
}

/* Of a pull or a snapshot whose process is dead: it would end by itself, but not at once. */
static void sweep_lease(struct ctd *d, const struct pb_field *lease)
{
	auto_buf struct buf request = BUF_INIT(1024);
	char id[200], owner[48];
	int pid = 0;
	uint64_t began = 0;

	pb_find_str(lease->data, lease->size, 1, id, sizeof id);
	find_label(lease, LABELS_OF_LEASE, CTD_LABEL_OWNER, owner, sizeof owner);
	if (!*id || sscanf(owner, "%d %" SCNu64, &pid, &began) != 2 || pid <= 0 ||
		(uint64_t)cell_process_start_time(pid) == began)
		return;
	if (pb_add_str(&request, 1, id) == 0 && pb_add_uint(&request, 2, 1) == 0)
		(void)ctd_call(d, "leases.v1.Leases/Delete", &request, NULL, "end a lease", NULL);
}

int ctd_sweep(const struct cell_sweep *s, struct cell_error *err)
{
	auto_ctd void *d = NULL;
	auto_buf struct buf leases = BUF_INIT(CTD_TEXT_MAX);
	struct pb_field f;
	int n = container_sweep(s, err);

	if (ctd_open(NULL, NULL, &d, NULL) == 0 &&
		list(d, "leases.v1.Leases/List", NULL, s->state_id, &leases) == 0)
		for (struct pb_reader r = pb_read(leases.data, leases.len); pb_next(&r, &f);)
			if (f.number == 1)
				sweep_lease(d, &f);
	return n;
}
