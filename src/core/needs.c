/* SPDX-License-Identifier: Apache-2.0 */
/* needs.c: from a spec to the capabilities it asks for. Nothing in a spec may be ignored: a field
 * with no line here is one the core itself serves (env, cwd, labels). What an operation in the cell
 * needs (exec, files) is asked when it is tried: cell_contract_require(). */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "core/contract.h"
#include "core/deps/place.h"
#include "core/nearest.h"

static void need(struct cell_needs *ret, enum cell_cap cap, bool may_degrade, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static void need(struct cell_needs *ret, enum cell_cap cap, bool may_degrade, const char *fmt, ...)
{
	va_list ap;

	for (size_t i = 0; i < ret->n; i++) {
		if (ret->list[i].cap == cap) {
			ret->list[i].may_degrade &= may_degrade;
			return;
		}
	}
	_Static_assert(CELL_NEEDS_MAX >= CELL_CAP_COUNT, "one need for each capability");
	struct cell_need *n = &ret->list[ret->n++];
	n->cap = cap;
	n->may_degrade = may_degrade;
	va_start(ap, fmt);
	(void)vsnprintf(n->key, sizeof n->key, fmt, ap);
	va_end(ap);
}

/* 536870912 -> "512m": as it would be written in a spec. */
static const char *size_text(uint64_t bytes, char out[32])
{
	static const char units[] = "\0kmgt";
	size_t unit = 0;

	while (unit < 4 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	(void)snprintf(out, 32, "%" PRIu64 "%.1s", bytes, &units[unit]);
	return out;
}

static void limits_needs(const struct cell_limits *l, struct cell_needs *ret)
{
	char t[32];
	bool soft = l->is_best_effort;

	if (l->memory_bytes)
		need(ret, CELL_CAP_LIMIT_MEMORY, soft, "limits.memory: %s",
			size_text(l->memory_bytes, t));
	if (l->cpu_millis)
		need(ret, CELL_CAP_LIMIT_CPUS, soft, "limits.cpus: %u.%03u", l->cpu_millis / 1000,
			l->cpu_millis % 1000);
	if (l->pids)
		need(ret, CELL_CAP_LIMIT_PIDS, soft, "limits.pids: %u", l->pids);
	if (l->disk_bytes)
		need(ret, CELL_CAP_LIMIT_DISK, soft, "limits.disk: %s",
			size_text(l->disk_bytes, t));
	if (l->inodes)
		need(ret, CELL_CAP_LIMIT_INODES, soft, "limits.inodes: %" PRIu64, l->inodes);
	if (l->files)
		need(ret, CELL_CAP_LIMIT_FILES, soft, "limits.files: %u", l->files);
	if (l->file_size_bytes)
		need(ret, CELL_CAP_LIMIT_FILE_SIZE, soft, "limits.file_size: %s",
			size_text(l->file_size_bytes, t));
	if (l->process_memory_bytes)
		need(ret, CELL_CAP_LIMIT_PROCESS_MEMORY, soft, "limits.process_memory: %s",
			size_text(l->process_memory_bytes, t));
	if (l->cpu_time_s)
		need(ret, CELL_CAP_LIMIT_CPU_TIME, soft, "limits.cpu_time: %us", l->cpu_time_s);
	if (l->io_weight)
		need(ret, CELL_CAP_LIMIT_IO, soft, "limits.io: %u", l->io_weight);
}

static int root_needs(const char *root, struct cell_needs *ret, struct cell_error *err)
{
	struct stat st;

	if (stat(root, &st) < 0) {
		int r = cell_fail_errno(err, errno, "root tree '%s'", root);
		return cell_error_hint(err, r, "root is a directory or a tar archive on this host");
	}
	if (S_ISDIR(st.st_mode)) {
		need(ret, CELL_CAP_ROOT_DIR, false, "root: %s", root);
	} else if (S_ISREG(st.st_mode)) {
		need(ret, CELL_CAP_ROOT_TAR, false, "root: %s", root);
	} else {
		int r = cell_fail(err, CELL_EINVAL, 0,
			"root tree '%s' is neither a directory nor a file", root);
		return cell_error_hint(err, r, "root is a directory or a tar archive on this host");
	}
	return 0;
}

static int words_needs(const char *const *words, struct cell_needs *ret, struct cell_error *err)
{
	for (; words && *words; words++) {
		int cap = cell_cap_find(*words);

		if (cap >= 0) {
			need(ret, (enum cell_cap)cap, false, "needs: %s", *words);
			continue;
		}
		const char *near = NULL;
		size_t best = NEAREST_START;
		for (int i = 0; i < CELL_CAP_COUNT; i++)
			near = cell_nearest(*words, cell_cap_name((enum cell_cap)i), near, &best);
		int r = cell_fail(err, CELL_EINVAL, 0,
			"needs: '%.64s' is the name of no capability", *words);
		if (near)
			return cell_error_hint(err, r, "did you mean '%s'?", near);
		return cell_error_hint(err, r, "`cell backends` lists all capabilities");
	}
	return 0;
}

static int lifecycle_needs(const struct cell_spec *spec, struct cell_needs *ret,
	struct cell_error *err)
{
	static const char *const words[] = {
		[CELL_LIFECYCLE_PERSISTENT] = "persistent",
		[CELL_LIFECYCLE_WORKSPACE] = "workspace",
		[CELL_LIFECYCLE_EPHEMERAL] = "ephemeral",
	};
	int r;

	switch (spec->lifecycle) {
	case CELL_LIFECYCLE_PERSISTENT:
	case CELL_LIFECYCLE_WORKSPACE:
		if (!spec->name) {
			r = cell_fail(err, CELL_EINVAL, 0,
				"lifecycle: %s asks for a cell that stays, but it has no name",
				words[spec->lifecycle]);
			return cell_error_hint(err, r, "give it a name, or set lifecycle: session");
		}
		need(ret, CELL_CAP_NAMED, false, "lifecycle: %s", words[spec->lifecycle]);
		return 0;
	case CELL_LIFECYCLE_EPHEMERAL:
		if (!spec->name)
			return 0;
		r = cell_fail(err, CELL_EINVAL, 0,
			"lifecycle: ephemeral is gone when closed, but the cell has the name '%s'",
			spec->name);
		return cell_error_hint(err, r, "leave the name out, or set lifecycle: session");
	case CELL_LIFECYCLE_SCHEDULED:
		r = cell_fail(err, CELL_ENOTSUP, 0,
			"lifecycle: scheduled is not available in this build");
		return cell_error_hint(err, r, "run `cell run` from cron for now");
	default:
		return 0;
	}
}

static int value_error(struct cell_error *err, const char *key, unsigned value, const char *range)
{
	int r = cell_fail(err, CELL_EINVAL, 0, "%s: %u is out of range", key, value);

	return cell_error_hint(err, r, "%s", range);
}

int cell_contract_needs(const struct cell_spec *spec, struct cell_needs *ret,
	struct cell_error *err)
{
	int r;

	ret->n = 0;
	if (spec->tier < 0 || spec->tier > 4)
		return value_error(err, "tier", (unsigned)spec->tier,
			"1 trusted, 2 container, 3 virtual machine, 4 fresh for each operation");
	if (spec->limits.io_weight > 10000)
		return value_error(err, "limits.io", spec->limits.io_weight, "1 to 10000");
	if (spec->name)
		need(ret, CELL_CAP_NAMED, false, "name: %s", spec->name);
	if (spec->image)
		need(ret, CELL_CAP_IMAGE, false, "image: %s", spec->image);
	if (spec->from)
		need(ret, CELL_CAP_SNAPSHOT, false, "from: %s", spec->from);
	if (spec->pull == CELL_PULL_ALWAYS)
		need(ret, CELL_CAP_PULL, false, "pull: always");
	if (spec->runtime)
		need(ret, CELL_CAP_RUNTIME, false, "runtime: %s", spec->runtime);
	if (spec->root && (r = root_needs(spec->root, ret, err)) < 0)
		return r;
	if (spec->workspace)
		need(ret, CELL_CAP_WORKSPACE, false, "workspace: %s", spec->workspace);
	if (spec->n_mounts)
		need(ret, CELL_CAP_MOUNTS, false, "mounts: %s -> %s", spec->mounts[0].source,
			spec->mounts[0].target);
	if (deps_are_wanted(spec))
		need(ret, CELL_CAP_EXEC, false, "deps");
	if (spec->user)
		need(ret, CELL_CAP_DEFAULT_USER, false, "user: %s", spec->user);
	if (spec->timeout_ms)
		need(ret, CELL_CAP_KILL_TREE, false, "timeout: %" PRIu64 "ms", spec->timeout_ms);
	limits_needs(&spec->limits, ret);
	if (spec->resources == CELL_RESOURCES_BURSTABLE)
		need(ret, CELL_CAP_LIMIT_CPUS, spec->limits.is_best_effort, "resources: burstable");
	if (spec->resources == CELL_RESOURCES_DEDICATED) {
		need(ret, CELL_CAP_DEDICATED, spec->limits.is_best_effort, "resources: dedicated");
		if (spec->limits.memory_bytes)
			need(ret, CELL_CAP_RESERVED_MEMORY, spec->limits.is_best_effort,
				"resources: dedicated, with limits.memory");
	}
	if (spec->scratch == CELL_SCRATCH_MEMORY)
		need(ret, CELL_CAP_SCRATCH_MEMORY, false, "scratch: memory");
	if (spec->scratch == CELL_SCRATCH_DISK)
		need(ret, CELL_CAP_SCRATCH_DISK, false, "scratch: disk");
	if (spec->seccomp)
		need(ret, CELL_CAP_SYSCALL_FILTER, false, "seccomp: %s", spec->seccomp);
	if (spec->network == CELL_NETWORK_NONE)
		need(ret, CELL_CAP_NET_NONE, false, "network: none");
	if (spec->network == CELL_NETWORK_ALLOW || (spec->network_allow && *spec->network_allow))
		need(ret, CELL_CAP_NET_ALLOW, false, "network.allow: %s",
			spec->network_allow && *spec->network_allow ? *spec->network_allow : "[]");
	if (spec->network_name) {
		need(ret, CELL_CAP_NET_NAMED, false, "network.name: %s", spec->network_name);
		if (spec->network == CELL_NETWORK_NONE || spec->network == CELL_NETWORK_ALLOW) {
			r = cell_fail(err, CELL_EINVAL, 0,
				"network.name: %s, and a mode that closes the network",
				spec->network_name);
			return cell_error_hint(err, r, "leave one of the two out");
		}
	}
	if (spec->network == CELL_NETWORK_OPEN)
		need(ret, CELL_CAP_NET_OPEN, false, "network: open");
	const char *const *exceptions = spec->network_private && *spec->network_private
						? spec->network_private
						: spec->network_dns;
	if (exceptions && *exceptions) {
		need(ret, CELL_CAP_NET_PRIVATE, false, "network.%s: %s",
			exceptions == spec->network_dns ? "dns" : "private", *exceptions);
		if (spec->network != CELL_NETWORK_OPEN) {
			r = cell_fail(err, CELL_EINVAL, 0,
				"network.private and network.dns are of use with an open network "
				"only");
			return cell_error_hint(err, r, "set network.mode: open (--network open)");
		}
	}
	if (spec->gpus)
		need(ret, CELL_CAP_GPU, false, "gpus: %u", spec->gpus);
	if ((r = lifecycle_needs(spec, ret, err)) < 0)
		return r;
	return words_needs(spec->needs, ret, err);
}
