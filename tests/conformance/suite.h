/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suite.h: what the conformance tests are written with. A test is a function that gets a back end
 * and uses the public API only, so that it holds for every back end there will ever be.
 *
 * Each test has a process, a workspace, a state directory, HOME and TMPDIR of its own. When it is
 * over, any process, mount, temporary file or record of a cell that is still there fails it.
 */
#pragma once
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cell/cell.h"

struct suite {
	const char *backend;	       /* the word for cell_spec.backend */
	struct cell_backend_info info; /* what its probe said */
	cell_caps caps;
	char base[64];	     /* of the whole run: holds the root tree and every test's directory */
	char dir[96];	     /* of this test, on the host */
	char workspace[128]; /* host directory; "" when the back end takes none */
	char root[128];	     /* root tree for it; "" when the back end takes none */
	const char *image;   /* for back ends that know only images ($CELL_TEST_IMAGE); or NULL */
	char probe[4096];    /* the static helper program, on the host */
};

struct suite_test {
	const char *name;
	const char *file;
	int line;
	cell_caps needs;
	void (*fn)(struct suite *s);
};

#ifdef __clang__ /* ASan would pad the table */
#define SUITE_NO_ASAN __attribute__((no_sanitize("address")))
#else
#define SUITE_NO_ASAN
#endif

#define NEEDS(name) CELL_CAP_BIT(CELL_CAP_##name)

/* A test that is skipped, with the reason, where the back end does not promise all of `caps`. */
#define TEST_NEEDS(n, caps_)                                                                       \
	static void test_##n(struct suite *s);                                                     \
	static const struct suite_test test_entry_##n SUITE_NO_ASAN                                \
		__attribute__((used, retain, section("conformance"), aligned(sizeof(void *)))) = { \
			#n, __FILE__, __LINE__, NEEDS(EXEC) | (caps_), test_##n};                  \
	static void test_##n(__attribute__((unused)) struct suite *s)
#define TEST(n) TEST_NEEDS(n, 0)

/* Say where and why, and end the test as failed. */
void suite_die(const char *file, int line, const char *fmt, ...)
	__attribute__((format(printf, 3, 4), noreturn));
#define DIE(...) suite_die(__FILE__, __LINE__, __VA_ARGS__)
/* End the test as skipped. Only for what the machine or the user chose not to have. */
void suite_skip(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
#define SKIP(...) suite_skip(__VA_ARGS__)

/* The error of the last OK() or FAILS(): pass &E. */
extern struct cell_error E;

#define ASSERT(e)                                \
	do {                                     \
		if (!(e))                        \
			DIE("not true: %s", #e); \
	} while (0)
#define ASSERT_INT(a, b)                                                   \
	do {                                                               \
		long long a_ = (long long)(a), b_ = (long long)(b);        \
		if (a_ != b_)                                              \
			DIE("%s is %lld, want %lld (%s)", #a, a_, b_, #b); \
	} while (0)
#define ASSERT_STR(a, b)                                          \
	do {                                                      \
		const char *a_ = (a), *b_ = (b);                  \
		if (strcmp(a_, b_) != 0)                          \
			DIE("%s is '%s', want '%s'", #a, a_, b_); \
	} while (0)
#define ASSERT_HAS(a, b)                                               \
	do {                                                           \
		const char *a_ = (a), *b_ = (b);                       \
		if (!strstr(a_, b_))                                   \
			DIE("%s has no '%s' in it: '%s'", #a, b_, a_); \
	} while (0)

/* A call that must succeed and, as the contract says, leave the error alone. Gives its value. */
#define OK(e)                                                                                \
	({                                                                                   \
		E = (struct cell_error){0};                                                  \
		long long r_ = (long long)(e);                                               \
		if (r_ < 0)                                                                  \
			DIE("%s = %lld: %s: %s (%s)", #e, r_, cell_code_name(E.code), E.msg, \
				E.hint);                                                     \
		if (E.code != CELL_OK)                                                       \
			DIE("%s succeeded and still set the error: %s", #e, E.msg);          \
		r_;                                                                          \
	})

enum {
	INVALID = 1u << CELL_EINVAL,
	DENIED = 1u << CELL_EDENIED,
	NOT_FOUND = 1u << CELL_ENOTFOUND,
	EXISTS = 1u << CELL_EEXISTS,
	BUSY = 1u << CELL_EBUSY,
	NOT_SUPPORTED = 1u << CELL_ENOTSUP,
	BACKEND = 1u << CELL_EBACKEND,
	GONE = 1u << CELL_EGONE,
	OVER_LIMIT = 1u << CELL_ELIMIT,
	NO_SPACE = 1u << CELL_ENOSPACE,
	/* a typed error, of whatever type but our own bug */
	ANY_ERROR = ~(1u << CELL_OK | 1u << CELL_EINTERNAL),
};
/* A call that must fail with one of these codes and say why in E.msg. */
#define FAILS(codes, e)                                                             \
	({                                                                          \
		E = (struct cell_error){0};                                         \
		long long r_ = (long long)(e);                                      \
		suite_check_failure(__FILE__, __LINE__, #e, (unsigned)(codes), r_); \
	})
void suite_check_failure(const char *file, int line, const char *what, unsigned codes, long long r);

/* Poll until it is true; fails after a generous while. Not for measuring time. */
#define WAIT_FOR(e)                                             \
	do {                                                    \
		long long end_ = now_ms() + patience(20000);    \
		while (!(e)) {                                  \
			if (now_ms() > end_)                    \
				DIE("never came true: %s", #e); \
			usleep(10 * 1000);                      \
		}                                               \
	} while (0)
long long now_ms(void);
/* A time that something must be done in: longer on slow machines (CELL_TEST_FACTOR=N). */
long long patience(long long ms);

/* Opening. The spec has the back end, and the workspace and root tree where it takes them. */
struct cell_spec suite_spec(const struct suite *s);
struct cell *open_spec(const struct cell_spec *spec);
struct cell *open_cell(const struct suite *s); /* ephemeral, with probe in its workspace */
struct cell *open_named(const struct suite *s, const char *name);
/* The same with real programs in it, interpreters above all: the suite's own root tree and image have none. The host's programs
 * are a root to some; the others may be given an image for this ($CELL_TEST_PYTHON_IMAGE). */
struct cell_spec programs_spec(const struct suite *s);
struct cell *open_programs(const struct suite *s, const char *name); /* or as by suite_spec() */
void put_probe(const struct suite *s, struct cell *c);
void close_cell(struct cell **c);
#define auto_cell __attribute__((cleanup(close_cell)))
#define auto_exec __attribute__((cleanup(free_exec)))
void free_exec(struct cell_exec **x);
#define auto_result __attribute__((cleanup(cell_result_done)))
#define auto_free   __attribute__((cleanup(free_ptr)))
void free_ptr(void *p);

/* Running to the end. RUN(c, "./probe", "exit", "3"); sh() gives a line to the shell. */
#define ARGV(...)   ((const char *const[]){__VA_ARGS__, NULL})
#define RUN(c, ...) run_opts((c), &(struct cell_exec_opts){.argv = ARGV(__VA_ARGS__)}, NULL, 0)
struct cell_result run_opts(struct cell *c, const struct cell_exec_opts *o, const void *input,
	size_t input_len);
struct cell_result sh(struct cell *c, const char *line);

/* Talking to a running command: send, and wait for what it says on stdout. */
struct talk {
	struct cell_exec *x;
	char *out, *err;
	size_t out_len, err_len;
	size_t seen; /* of out, by talk_expect */
	uint64_t next_out, next_err;
	uint64_t out_gap; /* where the first gap of stdout ended; 0: none */
	bool is_over, has_exit;
	struct cell_exit exit;
};
void talk_start(struct talk *t, struct cell *c, const struct cell_exec_opts *o);
void talk_attach(struct talk *t, struct cell *c, const char *id, const struct cell_attach_opts *o);
void talk_expect(struct talk *t, const char *needle);
void talk_send(struct talk *t, const char *text);
struct cell_exit talk_end(struct talk *t); /* reads to EXIT or END */
void talk_done(struct talk *t);
#define auto_talk __attribute__((cleanup(talk_done)))

/* The bytes `probe gen` writes: byte i of the stream, and a hash of a range of it. */
uint8_t gen_byte(uint64_t i);
uint64_t hash_add(uint64_t h, const void *p, size_t n);
#define HASH_START UINT64_C(0xcbf29ce484222325)
uint64_t gen_hash(uint64_t n);

/* Processes of this test, seen from the host: descendants of its supervisor, itself aside. */
struct census {
	unsigned processes, zombies, execs_with_marker;
	uint64_t max_rss_bytes;
};
struct census take_census(const char *marker); /* marker: in the command line; may be NULL */
/* A word for a command line that no other test, run or prefix of one has. Good until the fourth call after. */
const char *mark(const struct suite *s, const char *word);
/* How many processes of this machine have the marker in their command line, whoever's children they are. */
unsigned count_on_host(const char *marker);
/* How many processes have the marker in their command line, as host and cell see it together. */
unsigned count_marked(struct cell *c, const char *marker);
/* From /proc/PID/status, in bytes; 0 when it is not there. */
uint64_t status_bytes(int64_t pid, const char *key);
unsigned count_fds(int64_t pid);

/* What the guest says of itself, strings aside. */
struct guest_facts {
	char workspace[4096];
	int64_t pid;
	uint64_t rss_bytes;
	unsigned running, clients;
	uint32_t uid;
};
struct guest_facts ask_guest(struct cell *c);
/* One line of ps. False when there is no such exec. The strings in *ret are gone. */
bool find_exec(struct cell *c, const char *id, struct cell_exec_info *ret);

/* Files in the cell, in one line. */
void store(struct cell *c, const char *path, const char *text);
void store_bytes(struct cell *c, const char *path, const void *p, size_t n);
char *load(struct cell *c, const char *path); /* caller frees */
bool exists(struct cell *c, const char *path);
/* Files on the host, below s->dir. */
void host_store(const char *path, const void *p, size_t n);
char *host_load(const char *path, size_t *ret_len); /* NULL when it is not there */

/* Run fn in a process of its own; how it ended as waitpid says. For kill -9, see lifecycle. */
pid_t other_process(void (*fn)(struct suite *s, void *arg), struct suite *s, void *arg);
void must_succeed(pid_t pid);

/* root.c: the root tree for back ends that need one, made once, cloned by hard links. */
int root_build(const char *dir, char *why, size_t why_size);
int root_clone(const char *from, const char *to);
