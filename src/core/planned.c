/* SPDX-License-Identifier: Apache-2.0 */
/*
 * planned.c: back ends Cell knows by name that are not in this build, and what they are to promise.
 * It serves two answers: "not available in this build" and "who has this capability". An entry
 * moves out when its back end moves in.
 */
#include "core/backend.h"

#define COMMANDS                                                                         \
	(CAP(EXEC) | CAP(PTY) | CAP(FILES) | CAP(WATCH) | CAP(BACKGROUND) | CAP(NAMED) | \
		CAP(USER) | CAP(DEFAULT_USER) | CAP(KILL_TREE))
#define WALLS (CAP(PRIVATE_HOME) | CAP(HIDE_FILES) | CAP(HIDE_PROCESSES))
#define RLIMITS \
	(CAP(LIMIT_FILES) | CAP(LIMIT_FILE_SIZE) | CAP(LIMIT_PROCESS_MEMORY) | CAP(LIMIT_CPU_TIME))
#define CGROUP	   (CAP(LIMIT_MEMORY) | CAP(LIMIT_CPUS) | CAP(LIMIT_PIDS))
#define NETWORK	   (CAP(NET_NONE) | CAP(NET_ALLOW) | CAP(NET_OPEN) | CAP(NET_PRIVATE) | CAP(SECRETS))
#define HOST_FILES (CAP(WORKSPACE) | CAP(MOUNTS))

#define VM                                                                                     \
	(COMMANDS | WALLS | RLIMITS | CGROUP | NETWORK | CAP(WORKSPACE) | CAP(OWN_KERNEL) |    \
		CAP(ROOT_DIR) | CAP(ROOT_TAR) | CAP(IMAGE) | CAP(LIMIT_DISK) | CAP(LIMIT_IO) | \
		CAP(DEDICATED) | CAP(PAUSE) | CAP(SNAPSHOT) | CAP(FORK))
#define POD                                                                                   \
	(COMMANDS | WALLS | RLIMITS | CAP(LIMIT_MEMORY) | CAP(LIMIT_CPUS) | CAP(LIMIT_DISK) | \
		CAP(IMAGE) | NETWORK | CAP(SYSCALL_FILTER) | CAP(DEDICATED) | CAP(GPU))
#define CLOUD                                                                                 \
	(COMMANDS | WALLS | RLIMITS | CAP(LIMIT_MEMORY) | CAP(LIMIT_CPUS) | CAP(LIMIT_DISK) | \
		CAP(IMAGE) | CAP(NET_OPEN) | CAP(OWN_KERNEL))

const struct cell_backend_planned cell_backends_planned[] = {
	{"in_process", "code in the caller's own process, nothing in between",
		CAP(EXEC) | CAP(FILES) | CAP(WORKSPACE), 0,
		"a C library has no interpreter in its process to run code in; an SDK has its "
		"caller's. The "
		"nearest is subprocess: a process of its own, no wall"},
	{"firecracker", "a Firecracker microVM", VM, 3},
	{"qemu", "a QEMU virtual machine, with KVM or emulated", VM | CAP(GPU), 3},
	{"cloud-hypervisor", "a Cloud Hypervisor virtual machine", VM, 3},
	{"wasm", "a WebAssembly module under wasmtime, capability I/O",
		CAP(EXEC) | CAP(FILES) | CAP(WORKSPACE) | CAP(MOUNTS) | CAP(KILL_TREE) |
			CAP(HIDE_FILES) | CAP(HIDE_PROCESSES) | CAP(SYSCALL_FILTER) |
			CAP(LIMIT_MEMORY) | CAP(LIMIT_CPU_TIME) | CAP(NET_NONE),
		2},
	{"browser", "the same interface in a Web Worker, no server",
		CAP(EXEC) | CAP(FILES) | CAP(HIDE_FILES) | CAP(HIDE_PROCESSES) | CAP(NET_NONE), 2},
	{"ssh", "an existing host over ssh",
		(COMMANDS & ~CAP(WATCH)) | CAP(PRIVATE_HOME) | RLIMITS | CAP(NET_OPEN), 1},
	{"kubernetes", "a pod or Job for each session", POD, 2},
	{"nomad", "an allocation of a Nomad cluster", POD & ~CAP(DEDICATED), 2},
	{"swarm", "a service task of a Docker swarm", POD & ~CAP(LIMIT_DISK), 2},
	{"lambda", "AWS Lambda: stateless operations, 15 minutes, 10 GB",
		CAP(EXEC) | CAP(FILES) | CAP(KILL_TREE) | WALLS | CAP(IMAGE) | CAP(LIMIT_MEMORY) |
			CAP(LIMIT_DISK) | CAP(NET_OPEN) | CAP(OWN_KERNEL),
		3},
	{"ecs_fargate", "an AWS ECS task on Fargate", CLOUD, 3},
	{"eks_fargate", "a pod on AWS EKS with Fargate", CLOUD, 3},
	{"hybrid_aws", "AWS Lambda and Fargate, by operation", CLOUD, 3},
	{"cloud_run", "Google Cloud Run", CLOUD, 3},
	{"azure", "Azure Container Instances", CLOUD | CAP(GPU), 3},
	{"codespaces", "a GitHub codespace", CLOUD, 3},
	{"cell", "a cell of another Cell server", COMMANDS | WALLS | CAP(NET_OPEN), 1},
	{"modal", "a cloud VM by Modal for each session", CLOUD | CAP(GPU), 3},
	{NULL},
};
