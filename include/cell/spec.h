/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec.h: what a cell should be. A plain struct: zero means "not asked for". All pointers are
 * borrowed for the length of the call that takes the spec.
 *
 *	struct cell_spec spec = {.backend = "subprocess", .workspace = "./project"};
 */
#ifndef CELL_SPEC_H
#define CELL_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define CELL_NO_TIMEOUT UINT64_MAX

enum cell_network {
	CELL_NETWORK_DEFAULT = 0, /* whatever the back end gives */
	CELL_NETWORK_NONE,
	CELL_NETWORK_ALLOW, /* only the domains in network_allow */
	CELL_NETWORK_OPEN,  /* all but the host itself and private destinations */
};

/* What of the host's environment a command sees. Secrets (*_API_KEY, *_SECRET, *_TOKEN, *_PASSWORD,
 * *_CREDENTIAL and their like) never pass, whatever the policy; naming one in `env` does. */
enum cell_env_from {
	CELL_ENV_NONE = 0, /* nothing: PATH, HOME, LANG, USER are the cell's own */
	CELL_ENV_CORE,	   /* PATH, LANG, LC_*, TZ, TERM, SHELL, USER, LOGNAME, ... */
	CELL_ENV_ALL,	   /* everything but secrets */
};

enum cell_lifecycle {
	CELL_LIFECYCLE_DEFAULT = 0,
	CELL_LIFECYCLE_PERSISTENT,
	CELL_LIFECYCLE_WORKSPACE,
	CELL_LIFECYCLE_SESSION,
	CELL_LIFECYCLE_EPHEMERAL,
	CELL_LIFECYCLE_SCHEDULED,
};

enum cell_resource_model {
	CELL_RESOURCES_DEFAULT = 0,
	CELL_RESOURCES_SHARED,
	CELL_RESOURCES_LIMITED,
	CELL_RESOURCES_BURSTABLE,
	CELL_RESOURCES_DEDICATED,
};

/* When the image of a container engine is fetched from its registry. */
enum cell_pull {
	CELL_PULL_DEFAULT = 0, /* when it is missing */
	CELL_PULL_ALWAYS,
	CELL_PULL_MISSING,
	CELL_PULL_NEVER,
};

/* Where a cell writes what is neither in its workspace nor in a mount: changes to its image, /tmp,
 * its home, a private workspace. limits.disk_bytes and limits.inodes are its size. */
enum cell_scratch {
	CELL_SCRATCH_DEFAULT = 0, /* whatever the back end does */
	CELL_SCRATCH_MEMORY,
	CELL_SCRATCH_DISK,
};

struct cell_limits {
	uint64_t memory_bytes;	       /* the whole cell */
	uint32_t cpu_millis;	       /* 500 = half a CPU */
	uint32_t pids;		       /* processes and threads */
	uint64_t disk_bytes;	       /* written by the cell */
	uint64_t inodes;	       /* files and directories made by the cell */
	uint32_t files;		       /* open files per process */
	uint64_t file_size_bytes;      /* any one file */
	uint64_t process_memory_bytes; /* address space per process */
	uint32_t cpu_time_s;	       /* CPU seconds per process */
	uint32_t io_weight;	       /* 1..10000, 100 is normal */
	bool is_best_effort;	       /* take what the host can enforce and report the rest */
};

struct cell_mount {
	const char *source; /* on the host */
	const char *target; /* in the cell, absolute */
	bool is_read_only;
	bool is_ours; /* added by the library, from its own state: leave it false */
};

/* May code in the cell install packages while it runs? */
enum cell_runtime_deps {
	CELL_RUNTIME_DEPS_DEFAULT = 0,
	CELL_RUNTIME_DEPS_FORBIDDEN,
	CELL_RUNTIME_DEPS_ALLOWED,
};

/* Packages for the code of the cell (deps.h). Anything set here gives the cell an environment of its own. */
struct cell_spec_deps {
	bool is_wanted;
	enum cell_runtime_deps runtime;
	const char *python_version; /* "3.11"; NULL: python3 as it is in the cell */
	const char *
		venv_dir; /* host directory that holds the environment and keeps it; NULL: the cell's own */
	const char *const
		*preinstalled; /* requirements, there before the first command; NULL-terminated */
	const char *const *preinstalled_npm;
	const char *index; /* http(s) URL or host directory of a simple index (PEP 503, 691) */
	const char *const
		*find_links;	  /* host directories with wheels or .tgz files; NULL-terminated */
	const char *npm_registry; /* http(s) URL */
	uint64_t cache_bytes;	  /* what the packages kept for all cells may take; 0: 16 GiB */
};

/* How far the making of a cell is, where it takes long: an image that is fetched. Strings are valid during the callback. */
struct cell_making {
	const char *image;
	const char *layer;  /* the one that something happened to; "": none in particular */
	const char *status; /* in the engine's words: "Downloading" */
	uint64_t bytes, total_bytes; /* of all layers as far as they are known */
	unsigned layers_done, layers;
};
/* A non-zero return stops it: the cell is not made, and CELL_EBUSY with ECANCELED the answer. */
typedef int (*cell_making_fn)(const struct cell_making *m, void *user);

struct cell_spec {
	const char *name;    /* NULL: ephemeral, gone when closed */
	const char *backend; /* NULL: the strongest usable here */
	int tier;	     /* 0: none asked for; 1..4: refuse weaker walls */
	const char *image;   /* container image */
	const char *from;    /* a snapshot (snapshot.h) to begin with, instead of an image */
	enum cell_pull pull;
	const char *runtime;   /* OCI runtime of a container: "runsc"; NULL: the back end's own */
	const char *root;      /* root tree: directory or tar archive (chroot, jail) */
	const char *workspace; /* host directory; NULL: the current one, or the back end's own */
	bool own_workspace; /* without `workspace`: never the current directory, but a new one that
				  goes with the cell, also where the back end has no files of its own */
	const struct cell_mount *mounts;
	size_t n_mounts;
	/* Host directories, NULL-terminated: workspace, mounts and every other path of the host in this
	 * spec must be in one of them, wherever links lead, at the moment it is used; else
	 * CELL_EDENIED. For specs that others wrote. NULL: anywhere */
	const char *const *within;
	const char *const *env; /* "K=V", NULL-terminated: for every command in the cell */
	enum cell_env_from env_from;
	const char *cwd;     /* default directory of commands, relative to the workspace */
	const char *user;    /* default user of commands */
	uint64_t timeout_ms; /* default deadline of commands; 0: none */
	/* default deadline of code (code.h); 0: timeout_ms, or else what the back end has: 120 s for
	 * subprocess and local, 60 s for others; CELL_NO_TIMEOUT: none. Not of detached runs, nor of
	 * those that may ask for input */
	uint64_t code_timeout_ms;
	const char *const *languages; /* that code may be in, NULL-terminated; NULL: all */
	/* database servers that SQL may be given a connection to ("postgresql://host/name"), without user and
	 * password; "*": any. NULL-terminated; NULL: none */
	const char *const *databases;
	struct cell_limits limits;
	enum cell_resource_model resources;
	enum cell_scratch scratch;
	/* syscall filter: "default", "strict", "debug", or a JSON file in Docker's format. NULL: the
	 * back end's own */
	const char *seccomp;
	enum cell_network network;
	const char *network_name; /* a network of the container engine's, instead of a mode */
	const char *const *network_allow; /* NULL-terminated domains */
	/* With an open network: private addresses and ranges that may be reached all the same
	 * ("10.1.2.0/24", "10.1.2.3:5432", "[fd00::1]:443"), and resolvers instead of the host's;
	 * NULL-terminated */
	const char *const *network_private, *const *network_dns;
	uint32_t gpus;
	enum cell_lifecycle lifecycle;
	/* Languages (code.h) whose interpreters are started with the cell, before anybody asks, and Python modules that
	 * are imported then; NULL-terminated */
	const char *const *warm, *const *preload;
	const char *const *labels; /* "k=v", NULL-terminated */
	const char *const *needs;  /* capability words asked for outright, NULL-terminated */
	struct cell_spec_deps deps;
	cell_making_fn making; /* called on the caller's thread meanwhile; may be NULL */
	void *making_user;
};

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
