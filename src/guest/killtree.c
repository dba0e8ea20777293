/* SPDX-License-Identifier: Apache-2.0 */
/*
 * killtree.c: finds descendants by walking parent links in /proc. Orphans stay in the tree because
 * every keeper is a subreaper: a double-forked daemon becomes the keeper's child, not init's.
 */
#include "guest/killtree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

struct task {
	pid_t pid, parent;
	bool is_ours;
};
struct tasks {
	struct task *list;
	size_t n, cap;
};

/* The parent of /proc/<name>; 0 when it is gone. */
static pid_t read_parent(int proc_fd, const char *name)
{
	char path[32], text[512];

	(void)snprintf(path, sizeof path, "%s/stat", name);
	auto_fd int fd = openat(proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof text - 1);
	if (n <= 0)
		return 0;
	text[n] = '\0';
	char *p = strrchr(text, ')'); /* the name before it may hold anything, also ')' */
	if (!p || strlen(p) < 5)
		return 0;
	if (p[2] == 'Z' || p[2] == 'X')
		return 0; /* a zombie is dead already */
	return (pid_t)strtol(p + 4, NULL, 10);
}

/* /proc may be another pid namespace's: its numbers would name other processes here. */
static bool is_our_proc(void)
{
	char text[24];
	ssize_t n = readlink("/proc/self", text, sizeof text - 1);

	text[n > 0 ? n : 0] = '\0';
	return strtol(text, NULL, 10) == getpid();
}

static int scan(struct tasks *t)
{
	auto_dir DIR *proc = opendir("/proc");
	struct dirent *e;

	if (!proc)
		return -errno;
	if (!is_our_proc())
		return -ENOENT;
	while ((e = readdir(proc))) {
		char *end;
		long pid = strtol(e->d_name, &end, 10);

		if (pid <= 0 || *end)
			continue;
		pid_t parent = read_parent(dirfd(proc), e->d_name);
		if (parent <= 0)
			continue;
		if (t->n == t->cap) {
			size_t cap = t->cap ? t->cap * 2 : 256;
			struct task *p = realloc(t->list, cap * sizeof *p);

			if (!p)
				return -ENOMEM;
			t->list = p;
			t->cap = cap;
		}
		t->list[t->n++] = (struct task){.pid = (pid_t)pid, .parent = parent};
	}
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct task *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

static bool is_descendant(const struct tasks *t, const struct task *task, pid_t root)
{
	if (task->parent == root)
		return true;
	/* /proc lists its pids in ascending order */
	const struct task key = {.pid = task->parent};
	const struct task *parent = bsearch(&key, t->list, t->n, sizeof key, by_pid);

	return parent && parent->is_ours;
}

/* Mark the descendants; passes repeat because a child may be listed before its parent. */
static int mark(struct tasks *t, pid_t root, bool (*is_spared)(pid_t pid))
{
	int found = 0;
	bool is_changed = true;

	while (is_changed) {
		is_changed = false;
		for (size_t i = 0; i < t->n; i++) {
			if (!t->list[i].is_ours && is_descendant(t, &t->list[i], root) &&
				!(is_spared && is_spared(t->list[i].pid))) {
				t->list[i].is_ours = is_changed = true;
				found++;
			}
		}
	}
	return found;
}

static void signal_marked(const struct tasks *t, int sig)
{
	for (size_t i = 0; i < t->n; i++) {
		if (t->list[i].is_ours)
			(void)kill(t->list[i].pid, sig);
	}
}

static int walk(pid_t root, int sig, bool (*is_spared)(pid_t pid))
{
	struct tasks t = {0};
	int r = scan(&t);

	if (r == 0)
		r = mark(&t, root, is_spared);
	if (r > 0 && sig == SIGKILL)
		signal_marked(&t, SIGSTOP);
	if (r > 0 && sig)
		signal_marked(&t, sig);
	free(t.list);
	return r;
}

int killtree(pid_t root, int sig)
{
	return walk(root, sig, NULL);
}

int killtree_but(pid_t root, int sig, bool (*is_spared)(pid_t pid))
{
	return walk(root, sig, is_spared);
}

int killtree_count(pid_t root)
{
	return walk(root, 0, NULL);
}
