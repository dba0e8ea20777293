/* SPDX-License-Identifier: Apache-2.0 */
/*
 * request.h: what a client may ask of the launcher, and what it answers. One SEQPACKET message is
 * one request: a fixed head, tables of texts, layers, mounts and rules, then the texts. Everything of the host that a cell
 * is to see comes as a file descriptor that the client opened with its own rights: the launcher
 * opens no path a client names, so it cannot be talked into opening one for somebody who may not.
 *
 * Both ends are on one machine and from one build: native byte order, version checked. The parser
 * trusts nothing else.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAUNCHER_MAGIC	     0x6c6c6563u /* "cell" */
#define LAUNCHER_VERSION     1u
#define LAUNCHER_MAX_REQUEST (24u * 1024)
#define LAUNCHER_MAX_FDS     210u /* the kernel passes 253 at once */
#define LAUNCHER_MAX_LAYERS  128u
#define LAUNCHER_MAX_MOUNTS  64u
#define LAUNCHER_MAX_TEXT    4095u
#define LAUNCHER_MAX_RULES   192u
#define LAUNCHER_MAX_FILTER  4096u /* instructions: the kernel's own BPF_MAXINSNS */
#define LAUNCHER_NO_FD	     0xffffu
#define LAUNCHER_MAX_SLOTS   (1u << 20)
#define LAUNCHER_SOCKET_FD   3 /* where the launcher finds its socket when it starts */

enum launcher_op {
	LAUNCHER_HELLO = 1, /* what can be had here? fds: control, slots. The first request */
	LAUNCHER_CREATE,    /* make a cell */
	LAUNCHER_REMOVE,    /* end what lives in a slot and free it. fds: control */
	LAUNCHER_PRUNE,	    /* free what crashed launchers left. fds: control */
	LAUNCHER_FREEZE, /* have what lives in a slot stand still. fds: control, hold. DONE brings its cgroup.events */
	LAUNCHER_THAW,	  /* have it go on. fds: control, hold */
	LAUNCHER_RELEASE, /* have it go on at full speed: it is to end. fds: control, hold */
	LAUNCHER_OP_COUNT
};

static inline bool launcher_is_about_motion(uint16_t op)
{
	return op == LAUNCHER_FREEZE || op == LAUNCHER_THAW || op == LAUNCHER_RELEASE;
}

enum launcher_flags {
	LAUNCHER_KEEP = 1 << 0,	    /* the cell outlives launcher and client */
	LAUNCHER_NET_OPEN = 1 << 1, /* a way to the network, but for closed destinations */
	LAUNCHER_WORKSPACE_RO = 1 << 2,
	LAUNCHER_TRIAL = 1 << 3,       /* go all the way but the last step: exit instead of exec */
	LAUNCHER_BEST_EFFORT = 1 << 4, /* leave out limits that cannot be enforced */
	LAUNCHER_DEDICATED = 1 << 5,   /* CPUs of its own */
	LAUNCHER_DISK_ON_IMAGE = 1 << 6, /* scratch_fd is an ext4 image, not a directory */
	LAUNCHER_FILL = 1 << 7, /* make none now: have as many ready as `slot` says. No stream */
	LAUNCHER_FLAGS_ALL = (1 << 8) - 1
};

/* Texts of a request, in this order; a missing one is empty. */
enum launcher_text {
	LAUNCHER_TEXT_TITLE,	/* argv[0] of the guest */
	LAUNCHER_TEXT_HOSTNAME, /* at most 64 bytes, letters, digits, - and . */
	LAUNCHER_TEXT_PROFILE,	/* name of a built-in syscall filter; not with filter_fd */
	LAUNCHER_TEXT_RESOLV,	/* /etc/resolv.conf; only with NET_OPEN */
	LAUNCHER_TEXT_WARM, /* interpreters the guest starts at once: "python=json,decimal;shell" */
	LAUNCHER_TEXT_COUNT
};

/* As it is on the wire. `size` is the whole message. */
struct launcher_head {
	uint32_t magic, version, size;
	uint16_t op;
	uint16_t n_fds, n_mounts, n_texts;
	uint32_t flags;
	uint32_t slot; /* REMOVE; with FILL a number of cells */
	/* positions in the fds that came with the message, or LAUNCHER_NO_FD */
	uint16_t control_fd; /* SEQPACKET: answers, and its end is the client's end */
	uint16_t stream_fd;  /* the guest's connected stream, or its listening socket */
	uint16_t guest_fd;   /* the program to run as pid 1 */
	uint16_t
		hold_fd; /* a lock that lasts as long as the cell, e.g. on its image, or until it is frozen or thawed */
	uint16_t workspace_fd; /* none: a private one */
	uint16_t filter_fd;    /* struct sock_filter[]: a syscall filter instead of PROFILE */
	uint16_t scratch_fd;   /* empty directory, or image, for what it writes; none: memory */
	uint16_t slots_fd;     /* HELLO: directory for the locks on numbers of cells */
	uint32_t owner_uid,
		owner_gid; /* whom files in workspace and mounts belong to on the host */
	/* limits; 0: none */
	uint64_t memory_bytes, disk_bytes, inodes, file_size_bytes, process_memory_bytes;
	uint64_t reserve_bytes; /* memory that nobody else may have */
	uint32_t cpu_millis, pids, files, cpu_time_s, io_weight;
	uint32_t cpu_weight; /* instead of cpu_millis: 100 is one CPU's worth */
	uint16_t n_layers;   /* of the image, lowest first; none: the host's own programs */
	uint16_t n_cpus;     /* DEDICATED: how many */
	uint16_t n_rules;    /* only with NET_OPEN */
	uint16_t reserved;
};

enum launcher_rule_kind {
	LAUNCHER_RULE_NAMED = 1, /* open, though it is in a range that is closed */
	LAUNCHER_RULE_OWN,	 /* an address of the host: closed whatever else is said */
};

/* A destination of an open network. As it is on the wire; 24 bytes. */
struct launcher_rule {
	uint8_t family; /* 4, 6 */
	uint8_t prefix; /* bits that count; the others are zero */
	uint8_t kind;
	uint8_t reserved;
	uint16_t port; /* 0: all */
	uint16_t reserved2;
	uint8_t addr[16]; /* network order; IPv4 in the first four */
};

struct launcher_wire_mount {
	uint16_t fd;	     /* position */
	uint16_t flags;	     /* LAUNCHER_MOUNT_* */
	uint16_t target_len; /* bytes in the text part, no NUL */
	uint16_t reserved;
};
#define LAUNCHER_MOUNT_RO 1u

struct launcher_mount {
	int fd;
	bool is_read_only;
	const char *target; /* absolute, clean: no "..", no ".", no empty component */
};

/* A request after parsing. Points into the buffer it was parsed from; owns nothing. */
struct launcher_request {
	struct launcher_head head;
	const char *texts[LAUNCHER_TEXT_COUNT];
	int control_fd, stream_fd, guest_fd, hold_fd, workspace_fd, filter_fd, scratch_fd, slots_fd;
	int layers[LAUNCHER_MAX_LAYERS];
	size_t n_layers;
	struct launcher_mount mounts[LAUNCHER_MAX_MOUNTS];
	size_t n_mounts;
	struct launcher_rule rules[LAUNCHER_MAX_RULES];
	size_t n_rules;
};
#define LAUNCHER_REQUEST_INIT(what)                                                   \
	{                                                                             \
		.head.op = (what), .control_fd = -1, .stream_fd = -1, .guest_fd = -1, \
		.hold_fd = -1, .workspace_fd = -1, .filter_fd = -1, .scratch_fd = -1, \
		.slots_fd = -1                                                        \
	}

/* Check a whole message against the rules and fill *ret. `fds` are those that came with it. `buf`
 * is changed (texts get their NUL). 0, or -EPROTO with *why saying which rule was broken. Every fd
 * must be named exactly once; nothing is closed here. */
int launcher_parse(void *buf, size_t len, const int *fds, size_t n_fds,
	struct launcher_request *ret, const char **why);

/* The other direction: fds in `rq` are put into `fds` and replaced by positions. Returns the length,
 * or -E2BIG, -EINVAL. buf needs LAUNCHER_MAX_REQUEST bytes, fds LAUNCHER_MAX_FDS. */
int launcher_pack(const struct launcher_request *rq, void *buf, int *fds, size_t *n_fds);

/* Why a destination may not be named, or NULL: the host's loopback never, link-local addresses and
 * metadata only one by one. */
const char *launcher_rule_problem(const struct launcher_rule *r);

/* Is it an absolute path without "..", ".", doubled or trailing slashes, control characters? */
bool launcher_is_clean_path(const char *path);

/* ---- answers ---- */

enum launcher_answer {
	LAUNCHER_CAN = 1, /* to HELLO */
	LAUNCHER_NETWORK, /* CREATE with NET_OPEN, without root: the namespaces and the filter are
			     there, a pidfd is attached. Give it its way out, then send LAUNCHER_GO */
	LAUNCHER_READY,	  /* the guest runs; a pidfd is attached */
	LAUNCHER_FAILED,  /* nothing is left */
	LAUNCHER_EXITED,  /* pid 1 has ended by itself */
	LAUNCHER_DONE,	  /* to END, REMOVE, PRUNE: nothing is left */
};

/* What a client may send on a cell's control socket: one byte. */
#define LAUNCHER_GO  'g'
#define LAUNCHER_END 'e'

/* What was being done when it failed. X(NAME, "words") */
#define LAUNCHER_STEPS(X)                             \
	X(NONE, "nothing")                            \
	X(REQUEST, "read the request")                \
	X(USERNS, "make a user namespace")            \
	X(NAMESPACES, "make the namespaces")          \
	X(CLONE, "start the first process")           \
	X(MAP_IDS, "map user and group ids")          \
	X(SLOT, "take a slot")                        \
	X(CGROUP, "set up the cgroup")                \
	X(LIMITS, "set limits")                       \
	X(CPUS, "reserve CPUs for the cell")          \
	X(RESERVE, "reserve memory for the cell")     \
	X(STAGE, "prepare the launcher's own mounts") \
	X(TEMPLATE, "prepare the root tree")          \
	X(ROOT, "mount the root tree")                \
	X(OVERLAY, "mount an overlay over the image") \
	X(SCRATCH, "mount the private file system")   \
	X(DISK, "mount the scratch space on disk")    \
	X(PROC, "mount /proc")                        \
	X(DEV, "mount /dev")                          \
	X(WORKSPACE, "mount the workspace")           \
	X(MOUNT, "mount what the spec names")         \
	X(OWNER, "let the cell have another's files") \
	X(PIVOT, "change the root")                   \
	X(NET, "set up the network")                  \
	X(NET_FILTER, "filter the cell's network")    \
	X(NET_LINK, "make a network interface")       \
	X(NET_HOST, "translate addresses")            \
	X(NET_FORWARD, "pass the host's firewall")    \
	X(RESOLV, "write /etc/resolv.conf")           \
	X(NESTING, "forbid nested user namespaces")   \
	X(PRIVILEGES, "drop all privileges")          \
	X(LANDLOCK, "apply Landlock")                 \
	X(FILTER, "load the syscall filter")          \
	X(FDS, "hand over file descriptors")          \
	X(EXEC, "execute the guest")                  \
	X(KILL, "end the cell")                       \
	X(FREEZE, "have the cell stand still")        \
	X(LOST, "hear from the first process")

enum launcher_step {
#define X(name, words) LAUNCHER_STEP_##name,
	LAUNCHER_STEPS(X)
#undef X
	LAUNCHER_STEP_COUNT
};
const char *launcher_step_words(unsigned step);

/* What HELLO finds. */
enum launcher_can {
	LAUNCHER_CAN_MEMORY = 1 << 0,
	LAUNCHER_CAN_SWAP = 1 << 1, /* limits swap too, or there is none */
	LAUNCHER_CAN_CPU = 1 << 2,
	LAUNCHER_CAN_PIDS = 1 << 3,
	LAUNCHER_CAN_IO = 1 << 4,
	LAUNCHER_CAN_CPUSET = 1 << 5,
	LAUNCHER_CAN_CGROUP_KILL = 1 << 6,
	LAUNCHER_CAN_CLONE_INTO = 1 << 7,
	LAUNCHER_CAN_NEW_MOUNTS = 1 << 8, /* open_tree and its like */
	LAUNCHER_CAN_IDMAP = 1 << 9,
	LAUNCHER_CAN_OVERLAY = 1 << 10, /* READY of a TRIAL says so */
	LAUNCHER_CAN_OOM_EXEMPT = 1 << 11,
	LAUNCHER_IS_ROOTFUL = 1 << 12,
	LAUNCHER_CAN_FULL_PROC = 1 << 13, /* READY: else only /proc/PID */
	LAUNCHER_CAN_TIME_NS = 1 << 14,	  /* never: it would hide nothing, see ARCHITECTURE.md */
	LAUNCHER_CAN_UNIQUE_IDS = 1 << 15,
	LAUNCHER_CAN_RESERVE = 1 << 16, /* memory */
	LAUNCHER_CAN_FREEZE = 1 << 17,
	/* fallbacks keep every wall; without CLONE_INTO above a cell enters its group before it does
	 * anything, without IDMAP see LAUNCHER_STEP_OWNER */
	LAUNCHER_CAN_CLONE3 = 1 << 24,
	LAUNCHER_CAN_OPENAT2 = 1 << 25,
	LAUNCHER_CAN_CLOSE_RANGE = 1 << 26,
};

struct launcher_reply {
	uint32_t magic;
	uint16_t answer;
	uint16_t step;	   /* FAILED */
	int32_t sys_errno; /* FAILED */
	int32_t pid;	   /* READY: as seen from the client's pid namespace, or 0 */
	int32_t status;	   /* EXITED: as waitid gave it: code << 8 or signal */
	uint32_t slot;
	uint32_t can; /* CAN; READY: which limits are in force, the first six bits and RESERVE */
	uint32_t oom_kills;    /* EXITED, DONE */
	uint32_t landlock_abi; /* CAN */
	/* CAN: controllers (LAUNCHER_CAN_MEMORY ...), ids for cells, length of the default filter */
	uint32_t v1_controllers, v2_controllers, first_uid, n_uids, filter_len;
	uint32_t withheld; /* CAN: controllers that our group has and may not hand down */
	char text[200];	   /* FAILED: what exactly */
};
