/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.c: the table of all keys and the table of other spellings. To add a key, add a row here and
 * run `test_config_docs` with CELL_UPDATE_DOCS=1; everything else follows.
 */
#include "cell/caps.h"
#include "cell/spec.h"

#include "core/config/schema.h"

#define MIB	 (UINT64_C(1) << 20)
#define TO(k, f) .to = SPEC_##k, .offset = offsetof(struct cell_spec, f)
#define OPERATIONS \
	"sessions|streaming|long_running|files=file_ops|git|commands=quick_commands|validate|code"
#define ECS		 "ecs_fargate"
#define LAMBDA		 "lambda"
#define KUBE		 "eks_fargate kubernetes"
#define X(n, w, m)	 "|" w
#define CAPABILITY_WORDS CELL_CAPS(X)

const struct key_type_info key_types[KEY_TYPE_COUNT] = {
	[KEY_STRING] = {"text", "text"},
	[KEY_PATH] = {"a path", "./dir, ~/dir or /dir"},
	[KEY_BOOL] = {"true or false", "true or false"},
	[KEY_INT] = {"a whole number", "10"},
	[KEY_BYTES] = {"a size", "512m, 1.5g or plain bytes"},
	[KEY_DURATION] = {"a duration", "500ms, 30s, 2m, 1h30m or plain seconds"},
	[KEY_CPUS] = {"a number of CPUs", "0.5 or 2"},
	[KEY_ENUM] = {"one of its words", "a word"},
	[KEY_BACKEND] = {"a back end", "jail or docker"},
	[KEY_STRINGS] = {"a list of texts", "[a, b]"},
	[KEY_ENUMS] = {"a list of its words", "[a, b]"},
	[KEY_PAIRS] = {"a mapping or a list of K=V", "{A: x} or [A=x]"},
	[KEY_MOUNTS] = {"a list of mounts", "[./data:/data:ro]"},
	[KEY_PRICE] = {"a price", "0.000012"},
	[KEY_RECORDS] = {"a list of mappings", "[{name: a}, {name: b}]"},
	[KEY_TABLE] = {"a mapping of names to mappings", "{a: {...}, b: {...}}"},
};

/* One half of a hybrid: sandbox.primary or sandbox.secondary. */
#define PART(p, which)                                                                       \
	{.path = p ".type",                                                                  \
		.type = KEY_BACKEND,                                                         \
		.backends = "hybrid_aws",                                                    \
		.doc = "the " which " back end of a hybrid"},                                \
		{.path = p ".use_for",                                                       \
			.type = KEY_ENUMS,                                                   \
			.values = OPERATIONS,                                                \
			.backends = "hybrid_aws",                                            \
			.doc = "the operations the " which " back end serves"},              \
		{.path = p ".functions",                                                     \
			.type = KEY_PAIRS,                                                   \
			.prefix = "arn:",                                                    \
			.backends = "hybrid_aws",                                            \
			.doc = "ARNs of the functions that serve single operations"},        \
		{.path = p ".image",                                                         \
			.type = KEY_STRING,                                                  \
			.backends = "hybrid_aws",                                            \
			.doc = "container image of the " which " back end"},                 \
		{.path = p ".runtime",                                                       \
			.type = KEY_STRING,                                                  \
			.backends = "hybrid_aws",                                            \
			.doc = "Lambda runtime of the " which " back end"},                  \
		{.path = p ".timeout",                                                       \
			.type = KEY_DURATION,                                                \
			.backends = "hybrid_aws",                                            \
			.doc = "default deadline of commands on the " which " back end"},    \
		{.path = p ".memory",                                                        \
			.type = KEY_BYTES,                                                   \
			.min = MIB,                                                          \
			.backends = "hybrid_aws",                                            \
			.is_vendor_unit = true,                                              \
			.doc = "memory of the " which " back end"},                          \
		{.path = p ".cpus",                                                          \
			.type = KEY_CPUS,                                                    \
			.min = 1,                                                            \
			.max = 1000000,                                                      \
			.backends = "hybrid_aws",                                            \
			.doc = "CPUs of the " which " back end"},                            \
		{.path = p ".disk",                                                          \
			.type = KEY_BYTES,                                                   \
			.min = 1,                                                            \
			.backends = "hybrid_aws",                                            \
			.doc = "disk of the " which " back end"},                            \
		{.path = p ".cluster",                                                       \
			.type = KEY_STRING,                                                  \
			.backends = "hybrid_aws",                                            \
			.doc = "ECS cluster of the " which " back end"},                     \
		{.path = p ".task_definition",                                               \
			.type = KEY_STRING,                                                  \
			.backends = "hybrid_aws",                                            \
			.doc = "ECS task definition of the " which " back end"},             \
		{.path = p ".subnets",                                                       \
			.type = KEY_STRINGS,                                                 \
			.prefix = "subnet-",                                                 \
			.backends = "hybrid_aws",                                            \
			.doc = "subnets of the " which " back end"},                         \
	{                                                                                    \
		.path = p ".security_groups", .type = KEY_STRINGS, .prefix = "sg-",          \
		.backends = "hybrid_aws", .doc = "security groups of the " which " back end" \
	}

/* What a tenant may have; a field of server.tenants and a key below server.quotas. */
#define QUOTAS(p)                                                                                  \
	{.path = p "cells", .type = KEY_INT, .doc = "cells that live at once"},                    \
		{.path = p "cpus", .type = KEY_CPUS, .doc = "CPUs of all cells together"},         \
		{.path = p "memory", .type = KEY_BYTES, .doc = "memory of all cells together"},    \
		{.path = p "storage",                                                              \
			.type = KEY_BYTES,                                                         \
			.doc = "bytes on disk of all cells and snapshots together"},               \
		{.path = p "snapshots", .type = KEY_INT, .doc = "saved cells that are kept"},      \
		{.path = p "streams",                                                              \
			.type = KEY_INT,                                                           \
			.doc = "streams, terminals and transfers open at once"},                   \
	{                                                                                          \
		.path = p "execs_per_minute", .type = KEY_INT, .doc = "commands begun in a minute" \
	}

static const struct config_key tenant_fields[] = {QUOTAS(""), {0}};

static const struct config_key price_fields[] = {
	{.path = "cpu_second", .type = KEY_PRICE, .doc = "of a second of one CPU"},
	{.path = "gib_second", .type = KEY_PRICE, .doc = "of a GiB of memory for a second"},
	{.path = "session", .type = KEY_PRICE, .doc = "of a session made"},
	{.path = "gib_egress", .type = KEY_PRICE, .doc = "of a GiB out of the cell"},
	{0},
};

#define EFFECTS "allow|deny|ask"

static const struct config_key rule_fields[] = {
	{.path = "name", .type = KEY_STRING, .doc = "as the audit log shall call it"},
	{.path = "effect", .type = KEY_ENUM, .values = EFFECTS, .doc = "what a match means"},
	{.path = "tenant", .type = KEY_STRINGS, .doc = "patterns"},
	{.path = "role",
		.type = KEY_ENUMS,
		.values = "admin|user|read-only=readonly",
		.doc = "of the token"},
	{.path = "backend", .type = KEY_STRINGS, .doc = "patterns"},
	{.path = "action", .type = KEY_STRINGS, .doc = "patterns: exec.*, file.write"},
	{.path = "command", .type = KEY_STRINGS, .doc = "patterns of whole command lines"},
	{.path = "command_regex", .type = KEY_STRINGS, .doc = "regular expressions"},
	{.path = "path", .type = KEY_STRINGS, .doc = "patterns of file names"},
	{.path = "language", .type = KEY_STRINGS, .doc = "patterns"},
	{.path = "labels",
		.type = KEY_PAIRS,
		.doc = "labels the session must have; * for any value"},
	{.path = "time", .type = KEY_STRING, .doc = "a span of the day: 22:00-06:00"},
	{.path = "weekdays",
		.type = KEY_ENUMS,
		.values = "sun=sunday|mon=monday|tue=tuesday|wed=wednesday|thu=thursday|fri=friday|"
			  "sat=saturday",
		.doc = "days it counts on"},
	{.path = "zone", .type = KEY_STRING, .doc = "time zone of time and weekdays; absent: UTC"},
	{.path = "reason", .type = KEY_STRING, .doc = "what the caller is told"},
	{0},
};

const struct config_key config_keys[] = {
	{.path = "name",
		.type = KEY_STRING,
		.form = TEXT_CELL_NAME,
		TO(STRING, name),
		.doc = "name of the cell; with one it outlives the process that made it"},
	{.path = "backend",
		.type = KEY_BACKEND,
		TO(STRING, backend),
		.doc = "how the cell is made; `auto` or absent: the strongest usable here"},
	{.path = "tier",
		.type = KEY_ENUM,
		.values = "1=trusted|2=semi_trusted|3=untrusted|4=maximum",
		.base = 1,
		TO(ENUM, tier),
		.doc = "refuse walls weaker than this"},
	{.path = "lifecycle",
		.type = KEY_ENUM,
		.values = "persistent|workspace|session|ephemeral|scheduled",
		.base = CELL_LIFECYCLE_PERSISTENT,
		TO(ENUM, lifecycle),
		.doc = "when the cell is made and destroyed"},
	{.path = "image", .type = KEY_STRING, TO(STRING, image), .doc = "container image"},
	{.path = "from",
		.type = KEY_STRING,
		TO(STRING, from),
		.doc = "a snapshot (`cell snapshot`) to begin with, instead of an image"},
	{.path = "pull",
		.type = KEY_ENUM,
		.values = "always|missing|never",
		.base = CELL_PULL_ALWAYS,
		TO(ENUM, pull),
		.doc = "when an engine fetches the image; absent: when it is missing"},
	{.path = "root",
		.type = KEY_PATH,
		TO(STRING, root),
		.doc = "root tree: a directory or a tar archive"},
	{.path = "workspace",
		.type = KEY_PATH,
		TO(STRING, workspace),
		.doc = "directory of the host that commands work in; absent: the current one"},
	{.path = "mounts",
		.type = KEY_MOUNTS,
		TO(MOUNTS, mounts),
		.doc = "further directories or files of the host in the cell"},
	{.path = "env", .type = KEY_PAIRS, TO(PAIRS, env), .doc = "environment of every command"},
	{.path = "env_from",
		.type = KEY_ENUM,
		.values = "none|core|all",
		.base = CELL_ENV_NONE,
		TO(ENUM, env_from),
		.doc = "what of the host's environment commands see; secrets never"},
	{.path = "cwd",
		.type = KEY_STRING,
		TO(STRING, cwd),
		.doc = "directory commands start in, relative to the workspace"},
	{.path = "user",
		.type = KEY_STRING,
		TO(STRING, user),
		.doc = "user commands run as: a name or uid[:gid] of the cell"},
	{.path = "timeout",
		.type = KEY_DURATION,
		TO(U64, timeout_ms),
		.doc = "default deadline of commands; 0 or `none`: no deadline"},

	{.path = "limits.memory",
		.type = KEY_BYTES,
		.min = MIB,
		TO(U64, limits.memory_bytes),
		.doc = "memory of the whole cell"},
	{.path = "limits.cpus",
		.type = KEY_CPUS,
		.min = 1,
		.max = 1000000,
		TO(U32, limits.cpu_millis),
		.doc = "CPUs of the whole cell"},
	{.path = "limits.pids",
		.type = KEY_INT,
		.min = 1,
		.max = 4194304,
		TO(U32, limits.pids),
		.doc = "processes and threads"},
	{.path = "limits.disk",
		.type = KEY_BYTES,
		.min = 1,
		TO(U64, limits.disk_bytes),
		.doc = "bytes the cell may write to disk"},
	{.path = "limits.inodes",
		.type = KEY_INT,
		.min = 1,
		.max = UINT64_C(1) << 32,
		TO(U64, limits.inodes),
		.doc = "files and directories the cell may make"},
	{.path = "limits.files",
		.type = KEY_INT,
		.min = 3,
		.max = 1073741824,
		TO(U32, limits.files),
		.doc = "open files of each process"},
	{.path = "limits.file_size",
		.type = KEY_BYTES,
		.min = 1,
		TO(U64, limits.file_size_bytes),
		.doc = "size of any one file written"},
	{.path = "limits.process_memory",
		.type = KEY_BYTES,
		.min = MIB,
		TO(U64, limits.process_memory_bytes),
		.doc = "address space of each process"},
	{.path = "limits.cpu_time",
		.type = KEY_DURATION,
		.min = 1,
		.max = UINT64_C(4000000000) * 1000,
		TO(SECONDS, limits.cpu_time_s),
		.doc = "CPU time of each process, in whole seconds"},
	{.path = "limits.io_weight",
		.type = KEY_INT,
		.min = 1,
		.max = 10000,
		TO(U32, limits.io_weight),
		.doc = "share of disk bandwidth; 100 is normal"},
	{.path = "limits.best_effort",
		.type = KEY_BOOL,
		TO(BOOL, limits.is_best_effort),
		.doc = "take the limits this machine can enforce, report the rest"},
	{.path = "resources",
		.type = KEY_ENUM,
		.values = "shared|limited|burstable|dedicated",
		.base = CELL_RESOURCES_SHARED,
		TO(ENUM, resources),
		.doc = "how its share of the machine is held; see resource models"},
	{.path = "scratch",
		.type = KEY_ENUM,
		.values = "memory|disk",
		.base = CELL_SCRATCH_MEMORY,
		TO(ENUM, scratch),
		.doc = "where what it writes outside of workspace and mounts is kept"},
	{.path = "seccomp",
		.type = KEY_PATH,
		.values = "default|strict|debug",
		TO(STRING, seccomp),
		.doc = "syscall filter: a built-in profile, or a file in Docker's JSON format"},
	{.path = "network.mode",
		.type = KEY_ENUM,
		.values = "none=off=false=disabled|allow|open=on=true=full",
		.base = CELL_NETWORK_NONE,
		TO(ENUM, network),
		.doc = "no network, listed domains only, or all"},
	{.path = "network.name",
		.type = KEY_STRING,
		TO(STRING, network_name),
		.doc = "a network of the container engine, instead of a mode"},
	{.path = "network.allow",
		.type = KEY_STRINGS,
		.form = TEXT_DOMAIN,
		TO(LIST, network_allow),
		.doc = "domains that may be reached; implies mode `allow`"},
	{.path = "network.private",
		.type = KEY_STRINGS,
		.form = TEXT_DESTINATION,
		TO(LIST, network_private),
		.doc = "private addresses and ranges that an open network may reach: "
		       "`10.1.2.0/24`, "
		       "`10.1.2.3:5432`, `[fd00::1]:443`"},
	{.path = "network.dns",
		.type = KEY_STRINGS,
		.form = TEXT_ADDRESS,
		TO(LIST, network_dns),
		.doc = "resolvers of an open network; absent: the host's"},
	{.path = "kernels.warm",
		.type = KEY_STRINGS,
		TO(LIST, warm),
		.doc = "languages whose interpreters are started with the cell, before anybody "
		       "asks: "
		       "`python`, `javascript`, `shell`, `sql`"},
	{.path = "kernels.preload",
		.type = KEY_STRINGS,
		TO(LIST, preload),
		.doc = "Python modules that an interpreter started ahead has imported"},
	{.path = "gpus", .type = KEY_INT, .max = 64, TO(U32, gpus), .doc = "number of GPUs"},
	{.path = "labels", .type = KEY_PAIRS, TO(PAIRS, labels), .doc = "labels of the cell"},
	{.path = "needs",
		.type = KEY_ENUMS,
		.values = "" CAPABILITY_WORDS,
		TO(LIST, needs),
		.doc = "capabilities the back end must promise"},

#include "core/config/deps_keys.inc"
	{.path = "auth_token",
		.type = KEY_STRING,
		.is_secret = true,
		.doc = "bearer token of the HTTP API"},
	{.path = "auth_disabled",
		.type = KEY_BOOL,
		.doc = "HTTP API without authentication, for local development only"},

	{.path = "storage.type",
		.type = KEY_ENUM,
		.values = "efs",
		.backends = ECS " lambda hybrid_aws",
		.doc = "shared file storage"},
	{.path = "storage.file_system_id",
		.type = KEY_STRING,
		.prefix = "fs-",
		.backends = ECS " lambda hybrid_aws",
		.doc = "id of the EFS file system"},
	{.path = "auto_scaling.min_tasks",
		.type = KEY_INT,
		.max = 100000,
		.backends = ECS " hybrid_aws",
		.doc = "tasks kept running"},
	{.path = "auto_scaling.max_tasks",
		.type = KEY_INT,
		.min = 1,
		.max = 100000,
		.backends = ECS " hybrid_aws",
		.doc = "tasks at most"},
	{.path = "auto_scaling.target_cpu",
		.type = KEY_INT,
		.min = 1,
		.max = 100,
		.backends = ECS " hybrid_aws",
		.doc = "CPU use to aim at, in percent"},

	{.path = "sandbox.runtime",
		.type = KEY_STRING,
		.backends = LAMBDA " wasm docker podman oci containerd",
		TO(STRING, runtime),
		.doc = "OCI runtime (`runsc`), Lambda runtime (`python3.11`) or wasm runtime "
		       "(`wasmtime`)"},
	{.path = "sandbox.functions",
		.type = KEY_PAIRS,
		.prefix = "arn:",
		.backends = LAMBDA,
		.doc = "ARNs of the functions that serve single operations"},
	{.path = "sandbox.cluster", .type = KEY_STRING, .backends = ECS, .doc = "ECS cluster"},
	{.path = "sandbox.task_definition",
		.type = KEY_STRING,
		.backends = ECS,
		.doc = "ECS task definition"},
	{.path = "sandbox.subnets",
		.type = KEY_STRINGS,
		.prefix = "subnet-",
		.backends = ECS " eks_fargate lambda",
		.doc = "subnets of the task"},
	{.path = "sandbox.security_groups",
		.type = KEY_STRINGS,
		.prefix = "sg-",
		.backends = ECS " eks_fargate lambda",
		.doc = "security groups of the task"},
	{.path = "sandbox.namespace",
		.type = KEY_STRING,
		.form = TEXT_LABEL,
		.backends = KUBE,
		.doc = "Kubernetes namespace"},
	{.path = "sandbox.service_account",
		.type = KEY_STRING,
		.form = TEXT_LABEL,
		.backends = KUBE,
		.doc = "Kubernetes service account"},
	{.path = "sandbox.capabilities",
		.type = KEY_ENUMS,
		.values = "filesystem|networking|clocks|random|environment|stdio",
		.backends = "wasm browser",
		.doc = "what a wasm program is given"},
	{.path = "sandbox.compile_target",
		.type = KEY_ENUM,
		.values = "wasm32-wasi=wasm32-wasip1|wasm32-wasip2|wasm32-unknown-unknown",
		.backends = "browser wasm",
		.doc = "what code is compiled to"},
	{.path = "sandbox.prebuild",
		.type = KEY_BOOL,
		.backends = "codespaces",
		.doc = "start from a prebuild"},
	{.path = "sandbox.dotfiles_repo",
		.type = KEY_STRING,
		.form = TEXT_REPO,
		.backends = "codespaces",
		.doc = "dotfiles to install: owner/name or a URL"},
	PART("sandbox.primary", "first"),
	PART("sandbox.secondary", "second"),
#include "core/config/server_keys.inc"
};

const size_t config_keys_count = sizeof config_keys / sizeof config_keys[0];
_Static_assert(sizeof config_keys / sizeof config_keys[0] <= CONFIG_KEYS_MAX,
	"raise CONFIG_KEYS_MAX");

#define PART_ALIASES(p)                                                     \
	{p ".for", p ".use_for"}, {p ".cpu", p ".cpus", ALIAS_VENDOR_UNIT}, \
		{p ".storage", p ".disk", ALIAS_VENDOR_UNIT},               \
	{                                                                   \
		p ".default_timeout", p ".timeout"                          \
	}

const struct config_alias config_aliases[] = {
	{"run_mode", "backend"},
	{"executor", "backend"},
	{"sandbox.type", "backend"},
	{"volumes", "mounts"},
	{"environment", "env"},
	{"workdir", "cwd"},
	{"working_dir", "cwd"},
	{"default_timeout", "timeout"},
	{"deps", "deps.enabled"},
	{"preinstalled", "deps.preinstalled"},
	{"deps.allow_runtime", "allow_runtime_deps"},
	{"deps.python_version", "python_version"},
	{"deps.venv_dir", "venv_dir"},
	{"deps.index_url", "deps.index"},
	{"memory", "limits.memory", ALIAS_VENDOR_UNIT},
	{"memory_limit", "limits.memory", ALIAS_VENDOR_UNIT},
	{"cpus", "limits.cpus"},
	{"cpu", "limits.cpus", ALIAS_VENDOR_UNIT},
	{"cpu_quota", "limits.cpus", ALIAS_CPU_QUOTA},
	{"pids_limit", "limits.pids"},
	{"sandbox.storage", "limits.disk", ALIAS_VENDOR_UNIT},
	{"runtime", "sandbox.runtime"},
	{"pull_policy", "pull"},
	{"network", "network.mode"},
	{"network_disabled", "network.mode", ALIAS_SWITCH, "open|none"},
	{"gpu", "gpus"},
	{"server.auth_token", "auth_token"},
	{"server.auth_disabled", "auth_disabled"},
	PART_ALIASES("sandbox.primary"),
	PART_ALIASES("sandbox.secondary"),
	{NULL},
};
