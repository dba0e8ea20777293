/* SPDX-License-Identifier: Apache-2.0 */
/* fs.c: the table of file operations, and the checks every request passes first. */
#include "guest/fs.h"

#include <errno.h>
#include <signal.h>

#include "guest/fs_op.h"

struct fs_op {
	uint16_t op;
	uint16_t flags; /* bits of FLAGS it knows */
	const char *name;
	int (*run)(struct fs_call *call, struct cell_error *err);
};

static const struct fs_op ops[] = {
	{WIRE_OP_STAT, 0, "stat", fs_stat},
	{WIRE_OP_READ, 0, "read", fs_read},
	{WIRE_OP_WRITE, CELL_WRITE_APPEND | CELL_WRITE_EXCLUSIVE | CELL_WRITE_PARENTS, "write",
		fs_write},
	{WIRE_OP_MKDIR, 1, "mkdir", fs_mkdir},
	{WIRE_OP_REMOVE, 1, "remove", fs_remove},
	{WIRE_OP_MOVE, 1, "move", fs_move},
	{WIRE_OP_LIST, 0, "list", fs_list},
	{WIRE_OP_GLOB, 0, "glob", fs_glob},
	{WIRE_OP_GREP, 3, "grep", fs_grep},
	{WIRE_OP_EDIT, 1, "edit", fs_edit},
	{WIRE_OP_TAR, WIRE_TREE_HOME, "tar", fs_tar},
	{WIRE_OP_UNTAR, WIRE_TREE_HOME | WIRE_TREE_LINKS, "untar", fs_untar},
	{WIRE_OP_WATCH, 1, "watch", fs_watch},
	{WIRE_OP_CONNECT, 0, "connect", fs_connect},
	{WIRE_OP_PORTS, 0, "ports", fs_ports},
};

static const uint16_t known_tags[] = {WIRE_T_FLAGS, WIRE_T_PATH, WIRE_T_TARGET, WIRE_T_MODE,
	WIRE_T_OFFSET, WIRE_T_LIMIT, WIRE_T_DEPTH, WIRE_T_PATTERN, WIRE_T_GLOB, WIRE_T_OLD,
	WIRE_T_NEW, WIRE_T_PORT};

static const struct fs_op *find(uint16_t op)
{
	for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
		if (ops[i].op == op)
			return &ops[i];
	}
	return NULL;
}

bool fs_has(uint16_t op)
{
	return find(op) != NULL;
}

int fs_run(struct fs_call *call, struct cell_error *err)
{
	const struct fs_op *op = find(call->op);
	unsigned tag = 0;

	if (!op)
		return cell_fail(err, CELL_ENOTSUP, 0, "file operation %u is not known", call->op);
	int r = wire_check(call->fields, call->fields_len, known_tags,
		sizeof known_tags / sizeof known_tags[0], &tag);
	if (r == -EOPNOTSUPP)
		return cell_fail(err, CELL_ENOTSUP, 0,
			"%s: the request asks for %u, not known here", op->name, tag);
	if (r < 0)
		return cell_fail(err, CELL_EPROTOCOL, 0, "%s: the request is no field list",
			op->name);
	if (fs_get_u64(call, WIRE_T_FLAGS, 0) & ~(uint64_t)op->flags)
		return cell_fail(err, CELL_ENOTSUP, 0, "%s: unknown flags %#llx", op->name,
			(unsigned long long)fs_get_u64(call, WIRE_T_FLAGS, 0));
	/* A file size limit is an error to report, not a reason to die. */
	(void)signal(SIGXFSZ, SIG_IGN);
	return op->run(call, err);
}
