/* SPDX-License-Identifier: Apache-2.0 */
/* help.c: what the tests share: opening cells, running and talking, looking at processes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <time.h>

#include "suite.h"

struct cell_error E;

void suite_die(const char *file, int line, const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "# %s:%d: ", file, line);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	fflush(NULL);
	_exit(1);
}

void suite_skip(const char *fmt, ...)
{
	va_list ap;

	printf("# skip: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	printf("\n");
	fflush(NULL);
	_exit(77);
}

void suite_check_failure(const char *file, int line, const char *what, unsigned codes, long long r)
{
	if (r >= 0)
		suite_die(file, line, "%s = %lld, though it should fail", what, r);
	if (E.code <= CELL_OK || E.code >= CELL_CODE_COUNT || !(codes & 1u << E.code))
		suite_die(file, line, "%s: wrong kind of error: %s: %s", what,
			cell_code_name(E.code), E.msg);
	if (!E.msg[0])
		suite_die(file, line, "%s: an error that says nothing", what);
}

long long now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

long long patience(long long ms)
{
	const char *factor = getenv("CELL_TEST_FACTOR");
	long n = factor ? strtol(factor, NULL, 10) : 1;

	return ms * (n > 1 ? n : 1);
}

struct cell_spec suite_spec(const struct suite *s)
{
	return (struct cell_spec){
		.backend = s->backend,
		.workspace = s->workspace[0] ? s->workspace : NULL,
		.root = s->root[0] ? s->root : NULL,
		.image = s->image,
	};
}

struct cell *open_spec(const struct cell_spec *spec)
{
	struct cell *c = NULL;

	OK(cell_open(spec, &c, &E));
	ASSERT(c != NULL);
	return c;
}

struct cell_spec programs_spec(const struct suite *s)
{
	struct cell_spec spec = suite_spec(s);
	const char *image = getenv("CELL_TEST_PYTHON_IMAGE");

	spec.root = NULL;
	if (image && (s->caps & NEEDS(IMAGE)))
		spec.image = image;
	return spec;
}

struct cell *open_programs(const struct suite *s, const char *name)
{
	struct cell_spec spec = programs_spec(s);
	struct cell *c = NULL;

	spec.name = name;
	if (spec.image)
		return open_spec(&spec);
	if (cell_open(&spec, &c, &E) == 0)
		return c;
	spec = suite_spec(s);
	spec.name = name;
	return open_spec(&spec);
}

void put_probe(const struct suite *s, struct cell *c)
{
	size_t n = 0;
	auto_free char *p = host_load(s->probe, &n);

	ASSERT(p != NULL);
	OK(cell_file_store(c, "probe", 0755, 0, p, n, &E));
}

struct cell *open_cell(const struct suite *s)
{
	struct cell_spec spec = suite_spec(s);
	struct cell *c = open_spec(&spec);

	put_probe(s, c);
	return c;
}

struct cell *open_named(const struct suite *s, const char *name)
{
	struct cell_spec spec = suite_spec(s);

	spec.name = name;
	struct cell *c = open_spec(&spec);
	put_probe(s, c);
	return c;
}

void close_cell(struct cell **c)
{
	if (*c)
		OK(cell_close(*c, &E));
	*c = NULL;
}

void free_exec(struct cell_exec **x)
{
	cell_exec_free(*x);
	*x = NULL;
}

void free_ptr(void *p)
{
	free(*(void **)p);
}

struct cell_result run_opts(struct cell *c, const struct cell_exec_opts *o, const void *input,
	size_t input_len)
{
	struct cell_result r = {0};

	OK(cell_run(c, o, input, input_len, &r, &E));
	ASSERT(r.out && r.err);
	return r;
}

struct cell_result sh(struct cell *c, const char *line)
{
	return run_opts(c, &(struct cell_exec_opts){.shell = line}, NULL, 0);
}

void talk_start(struct talk *t, struct cell *c, const struct cell_exec_opts *o)
{
	*t = (struct talk){0};
	OK(cell_exec_start(c, o, &t->x, &E));
}

void talk_attach(struct talk *t, struct cell *c, const char *id, const struct cell_attach_opts *o)
{
	*t = (struct talk){.next_out = o ? o->out_offset : 0, .next_err = o ? o->err_offset : 0};
	OK(cell_exec_attach(c, id, o ? o : &(struct cell_attach_opts){0}, &t->x, &E));
}

static void keep(char **text, size_t *len, uint64_t *next, const struct cell_event *e)
{
	if (e->offset != *next)
		DIE("stream %d: got offset %llu, want %llu", e->stream,
			(unsigned long long)e->offset, (unsigned long long)*next);
	*text = realloc(*text, *len + e->len + 1);
	ASSERT(*text);
	memcpy(*text + *len, e->data, e->len);
	*len += e->len;
	(*text)[*len] = '\0';
	*next += e->len;
}

/* Take one event. False when nothing came within the time. */
static bool talk_step(struct talk *t, int timeout_ms)
{
	struct cell_event e = {0};

	OK(cell_exec_next(t->x, timeout_ms, &e, &E));
	switch (e.type) {
	case CELL_EVENT_NONE:
		return false;
	case CELL_EVENT_STDOUT:
		ASSERT_INT(e.stream, 1);
		keep(&t->out, &t->out_len, &t->next_out, &e);
		break;
	case CELL_EVENT_STDERR:
		ASSERT_INT(e.stream, 2);
		keep(&t->err, &t->err_len, &t->next_err, &e);
		break;
	case CELL_EVENT_GAP:
		if (e.stream == 2) {
			t->next_err = e.offset;
		} else {
			t->next_out = e.offset;
			t->out_gap = e.offset;
		}
		break;
	case CELL_EVENT_EXIT:
		t->exit = e.exit;
		t->has_exit = t->is_over = true;
		break;
	case CELL_EVENT_END:
		t->is_over = true;
		break;
	default:
		DIE("an event of unknown type %d", e.type);
	}
	return true;
}

void talk_expect(struct talk *t, const char *needle)
{
	long long end = now_ms() + patience(30000);

	for (;;) {
		char *at = t->out ? strstr(t->out + t->seen, needle) : NULL;
		if (at) {
			t->seen = (size_t)(at - t->out) + strlen(needle);
			return;
		}
		if (t->is_over)
			DIE("it ended without saying '%s': '%s', '%s'", needle,
				t->out ? t->out + t->seen : "", t->err ? t->err : "");
		if (!talk_step(t, 1000) && now_ms() > end)
			DIE("it never said '%s': '%s'", needle, t->out ? t->out + t->seen : "");
	}
}

void talk_send(struct talk *t, const char *text)
{
	ASSERT_INT(OK(cell_exec_write(t->x, text, strlen(text), -1, &E)), strlen(text));
}

struct cell_exit talk_end(struct talk *t)
{
	long long end = now_ms() + patience(60000);

	while (!t->is_over)
		if (!talk_step(t, 1000) && now_ms() > end)
			DIE("it never ended; so far: '%.200s'", t->out ? t->out : "");
	if (!t->out)
		t->out = strdup("");
	if (!t->err)
		t->err = strdup("");
	return t->exit;
}

void talk_done(struct talk *t)
{
	cell_exec_free(t->x);
	free(t->out);
	free(t->err);
	*t = (struct talk){0};
}

uint8_t gen_byte(uint64_t i)
{
	return (uint8_t)(i * 31 + (i >> 8) * 7 + (i >> 16));
}

uint64_t hash_add(uint64_t h, const void *p, size_t n)
{
	const uint8_t *at = p;

	while (n--)
		h = (h ^ *at++) * UINT64_C(0x100000001b3);
	return h;
}

uint64_t gen_hash(uint64_t n)
{
	uint64_t h = HASH_START;

	for (uint64_t i = 0; i < n; i++) {
		uint8_t b = gen_byte(i);
		h = hash_add(h, &b, 1);
	}
	return h;
}

static ssize_t read_small(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n;
}

static pid_t parent_of(pid_t pid, char *ret_state)
{
	char path[64], text[1024];
	int ppid = -1;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	if (read_small(path, text, sizeof(text)) <= 0)
		return -1;
	char *after = strrchr(text, ')');
	if (!after || sscanf(after, ") %c %d", ret_state, &ppid) != 2)
		return -1;
	return ppid;
}

static bool is_ours(pid_t pid, pid_t top)
{
	char state;

	for (int depth = 0; pid > 1 && depth < 64; depth++) {
		if (pid == top)
			return true;
		pid = parent_of(pid, &state);
	}
	return false;
}

struct census take_census(const char *marker)
{
	struct census r = {0};
	pid_t top = getppid();
	DIR *d = opendir("/proc");
	struct dirent *e;

	ASSERT(d != NULL);
	while ((e = readdir(d))) {
		pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
		char state = '?', path[64], text[8192];
		if (pid <= 0 || pid == top)
			continue;
		pid_t parent = parent_of(pid, &state);
		/* an orphan that the supervisor is about to reap is gone already */
		if (parent < 0 || !is_ours(pid, top) || (state == 'Z' && parent == top))
			continue;
		/* one for each process that made cells of the jail; ends with it */
		snprintf(path, sizeof(path), "/proc/%d/comm", pid);
		if (read_small(path, text, sizeof(text)) > 0 && !strncmp(text, "cell-launcher", 13))
			continue;
		r.processes++;
		r.zombies += state == 'Z';
		uint64_t rss = status_bytes(pid, "VmHWM:");
		if (rss > r.max_rss_bytes)
			r.max_rss_bytes = rss;
		snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
		ssize_t n = read_small(path, text, sizeof(text));
		if (marker && n > 0 && memmem(text, (size_t)n, marker, strlen(marker)))
			r.execs_with_marker++;
	}
	closedir(d);
	return r;
}

unsigned count_on_host(const char *marker)
{
	unsigned found = 0;
	DIR *d = opendir("/proc");
	struct dirent *e;

	ASSERT(d != NULL);
	while ((e = readdir(d))) {
		char path[300], text[8192];

		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		ssize_t n = read_small(path, text, sizeof(text));
		found += n > 0 && memmem(text, (size_t)n, marker, strlen(marker));
	}
	closedir(d);
	return found;
}

const char *mark(const struct suite *s, const char *word)
{
	static char text[4][160];
	static unsigned next;
	char *t = text[next++ % 4];

	/* "/tmp/cc-x7Qz2a/12" -> "mark:word:cc-x7Qz2a/12:" */
	snprintf(t, sizeof(text[0]), "mark:%s:%s:", word, s->dir + strlen("/tmp/"));
	return t;
}

unsigned count_marked(struct cell *c, const char *marker)
{
	auto_result struct cell_result r = RUN(c, "./probe", "count", marker);

	ASSERT_INT(r.exit.exit_code, 0);
	return take_census(marker).execs_with_marker + (unsigned)strtoul(r.out, NULL, 10);
}

uint64_t status_bytes(int64_t pid, const char *key)
{
	char path[64], text[8192];

	snprintf(path, sizeof(path), "/proc/%lld/status", (long long)pid);
	if (read_small(path, text, sizeof(text)) <= 0)
		return 0;
	const char *at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : 0;
}

unsigned count_fds(int64_t pid)
{
	char path[64];
	unsigned n = 0;

	snprintf(path, sizeof(path), "/proc/%lld/fd", (long long)pid);
	DIR *d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static int note_facts(const struct cell_platform *p, void *user)
{
	struct guest_facts *f = user;

	snprintf(f->workspace, sizeof(f->workspace), "%s", p->workspace);
	f->pid = p->guest_pid;
	f->rss_bytes = p->guest_rss_bytes;
	f->running = p->execs_running;
	f->clients = p->clients;
	f->uid = p->uid;
	return 0;
}

struct guest_facts ask_guest(struct cell *c)
{
	struct guest_facts f = {0};

	OK(cell_platform(c, note_facts, &f, &E));
	return f;
}

struct wanted_exec {
	const char *id;
	struct cell_exec_info *ret;
	bool is_found;
};

static int note_exec(const struct cell_exec_info *info, void *user)
{
	struct wanted_exec *w = user;

	if (strcmp(info->id, w->id) != 0)
		return 0;
	*w->ret = *info;
	w->ret->id = w->ret->command = w->ret->label = "";
	w->is_found = true;
	return 0;
}

bool find_exec(struct cell *c, const char *id, struct cell_exec_info *ret)
{
	struct wanted_exec w = {id, ret, false};

	OK(cell_ps(c, note_exec, &w, &E));
	return w.is_found;
}

void store_bytes(struct cell *c, const char *path, const void *p, size_t n)
{
	OK(cell_file_store(c, path, 0, 0, p, n, &E));
}

void store(struct cell *c, const char *path, const char *text)
{
	store_bytes(c, path, text, strlen(text));
}

char *load(struct cell *c, const char *path)
{
	char *text = NULL;
	size_t n = 0;

	OK(cell_file_load(c, path, 64u << 20, &text, &n, &E));
	ASSERT(text && text[n] == '\0');
	return text;
}

bool exists(struct cell *c, const char *path)
{
	return OK(cell_file_exists(c, path, &E)) == 1;
}

void host_store(const char *path, const void *p, size_t n)
{
	FILE *f = fopen(path, "we");

	if (!f || fwrite(p, 1, n, f) != n || fclose(f) != 0)
		DIE("write '%s': %s", path, strerror(errno));
}

char *host_load(const char *path, size_t *ret_len)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t len = 0, n = 0;

	while (f) {
		char *more = realloc(text, len + 65537);
		ASSERT(more);
		text = more;
		n = fread(text + len, 1, 65536, f);
		len += n;
		text[len] = '\0';
		if (n == 0)
			break;
	}
	if (f)
		(void)fclose(f);
	if (ret_len)
		*ret_len = len;
	return text;
}

pid_t other_process(void (*fn)(struct suite *s, void *arg), struct suite *s, void *arg)
{
	fflush(NULL);
	pid_t pid = fork();

	ASSERT(pid >= 0);
	if (pid == 0) {
		fn(s, arg);
		fflush(NULL);
		_exit(0);
	}
	return pid;
}

void must_succeed(pid_t pid)
{
	int st = 0;

	ASSERT_INT(waitpid(pid, &st, 0), pid);
	if (!WIFEXITED(st) || WEXITSTATUS(st) != 0)
		DIE("the other process failed: status %#x", st);
}
