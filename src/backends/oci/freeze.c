/* SPDX-License-Identifier: Apache-2.0 */
/*
 * freeze.c: a container that stands still. By its cgroup, as runc and crun would do it, but without starting them; gVisor's kernel is asked
 * by its own program.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cell/cell.h"

#include "backends/oci/oci.h"
#include "base/cleanup.h"
#include "base/error.h"

#define LOOK_MS	    2
#define PATIENCE_MS 10000

/* 0: there is no such file, or it takes no such thing. */
static bool put(const char *group, const char *name, const char *text)
{
	char path[4200];

	(void)snprintf(path, sizeof path, "%s/%s", group, name);
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) > 0;
}

static bool says(const char *group, const char *name, const char *text)
{
	char path[4200], line[256] = "";

	(void)snprintf(path, sizeof path, "%s/%s", group, name);
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
	line[n > 0 ? n : 0] = '\0';
	return strstr(line, text);
}

/* Group functions: false says that it has been done, and so that one of the hierarchies can. */
static bool freeze(const char *group)
{
	return !put(group, "freezer.state", "FROZEN") && !put(group, "cgroup.freeze", "1");
}

static bool thaw(const char *group)
{
	(void)put(group, "freezer.state", "THAWED");
	(void)put(group, "cgroup.freeze", "0");
	return true;
}

static bool is_unfrozen(const char *group)
{
	return !says(group, "freezer.state", "FROZEN") && !says(group, "cgroup.events", "frozen 1");
}

void oci_thaw(const struct cell *c)
{
	(void)oci_each_group_of(c, thaw);
}

static int freeze_group(const struct cell *c, struct cell_error *err)
{
	const struct timespec pause = {.tv_nsec = LOOK_MS * 1000000};

	if (oci_each_group_of(c, freeze))
		return cell_fail(err, CELL_ENOTSUP, 0, "no cgroup that can be frozen");
	for (int waited_ms = 0; oci_each_group_of(c, is_unfrozen); waited_ms += LOOK_MS) {
		if (waited_ms >= PATIENCE_MS) {
			oci_thaw(c);
			return cell_fail(err, CELL_ETIMEOUT, ETIMEDOUT,
				"a process hangs in the kernel and does not stand still");
		}
		(void)nanosleep(&pause, NULL);
	}
	return 0;
}

static int ask_gvisor(struct cell *c, const char *program, const char *id, bool is_on,
	struct cell_error *err)
{
	const char *args[] = {is_on ? "pause" : "resume", id, NULL};
	const struct oci_call call = oci_runtime_order(c, program, args);
	struct cell_error why = {0};
	char said[200];
	int r = oci_runtime_call(&call, said, sizeof said, &why);

	if (r == 0 || strstr(said, is_on ? "cannot pause" : "cannot resume"))
		return 0; /* it is so already */
	if (err)
		*err = why;
	return r;
}

int oci_pause(struct cell *c, bool is_on, struct cell_error *err)
{
	const char *id = cell_note(c, "container"), *program = cell_note(c, "runtime");

	if (!id || !program)
		return cell_fail(err, CELL_EGONE, 0, "there is no container");
	if (oci_runtime_kind(program) == OCI_RUNSC)
		return ask_gvisor(c, program, id, is_on, err);
	if (!is_on) {
		oci_thaw(c);
		return 0;
	}
	int r = cell_note_set_int(c, OCI_FROZEN, 1, err);
	if (r == 0)
		r = cell_note_save(c, err);
	return r == 0 ? freeze_group(c, err) : r;
}
