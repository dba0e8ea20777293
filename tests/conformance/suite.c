/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suite.c: runs every test for every back end and says what came of it, as TAP and as a table.
 *
 * Each test has a supervisor process. It is a child subreaper, so whatever a test leaves running
 * ends up as its child, whoever started it: "nothing is left" is checked by looking, not by asking.
 */
#include "suite.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MAX_BACKENDS 32
#define RC_SKIP	     77

extern const struct suite_test __start_conformance[], __stop_conformance[];

struct outcome {
	pid_t pid; /* of the supervisor while it runs */
	char log[96];
	int rc; /* 0, RC_SKIP, anything else is a failure; -1 not run yet */
};

static struct suite_test *tests;
static size_t n_tests;
#define MAX_GROUPS 16
static const char *filter, *left_out_group, *only_groups[MAX_GROUPS];
static size_t n_only_groups; /* 0: all */
static const char *left_out_backend;
#define MAX_KNOWN 16
static const char *known
	[MAX_KNOWN]; /* "NAME=REASON": a test, or a group of them, that this place cannot pass */
static size_t n_known;
static const char *label;	/* what this run's back end is called, NULL: by its name */
static uid_t owner = (uid_t)-1; /* of the workspaces; -1: us */

#define NOBODY 65534

static int by_place(const void *a, const void *b)
{
	const struct suite_test *x = a, *y = b;
	int d = strcmp(x->file, y->file);

	return d ? d : x->line - y->line;
}

/* The group of a test is its file: big for big_test.c. Its first bytes, so many. */
static const char *group_of(const struct suite_test *t, int *ret_len)
{
	const char *slash = strrchr(t->file, '/'), *name = slash ? slash + 1 : t->file;

	*ret_len = (int)(strlen(name) - strlen("_test.c"));
	return name;
}

static bool is_in_group(const struct suite_test *t, const char *group)
{
	int n;
	const char *name = group_of(t, &n);

	return (size_t)n == strlen(group) && !strncmp(name, group, (size_t)n);
}

static bool is_wanted(const struct suite_test *t)
{
	bool is_picked = !n_only_groups;

	for (size_t i = 0; i < n_only_groups; i++)
		is_picked |= is_in_group(t, only_groups[i]);
	if (!is_picked)
		return false;
	if (left_out_group && is_in_group(t, left_out_group))
		return false;
	return !filter || strstr(t->name, filter) || strstr(t->file, filter);
}

/* Why it is not tried; NULL: it is. */
static const char *known_reason(const struct suite_test *t)
{
	for (size_t i = 0; i < n_known; i++) {
		char name[120];
		size_t n = strcspn(known[i], "=");

		snprintf(name, sizeof(name), "%.*s", (int)n, known[i]);
		if (!strcmp(t->name, name) || is_in_group(t, name))
			return known[i][n] ? known[i] + n + 1 : "";
	}
	return NULL;
}

static void find_tests(void)
{
	size_t all = (size_t)(__stop_conformance - __start_conformance);

	tests = calloc(all + 1, sizeof(*tests));
	if (!tests)
		abort();
	for (size_t i = 0; i < all; i++)
		if (is_wanted(&__start_conformance[i]))
			tests[n_tests++] = __start_conformance[i];
	qsort(tests, n_tests, sizeof(*tests), by_place);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path) < 0 ? 1 : 0;
}

/* Mount points below dir: told, and detached, so that removing the tree cannot reach through. */
static int detach_mounts(const char *dir)
{
	int found = 0;
	FILE *f = fopen("/proc/self/mounts", "re");
	char line[8192];
	size_t n = strlen(dir);

	while (f && fgets(line, sizeof(line), f)) {
		char *at = strchr(line, ' '), *end = at ? strchr(at + 1, ' ') : NULL;
		if (!end || strncmp(at + 1, dir, n) != 0 || (at[1 + n] != '/' && at[1 + n] != ' '))
			continue;
		*end = '\0';
		fprintf(stderr, "# left behind: a mount at '%s'\n", at + 1);
		found++;
		if (umount2(at + 1, MNT_DETACH) < 0)
			_exit(3);
	}
	if (f)
		(void)fclose(f);
	return found;
}

static void remove_tree(const char *dir)
{
	(void)detach_mounts(dir);
	(void)nftw(dir, remove_entry, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static int say_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	if (ftw->level > 0)
		fprintf(stderr, "# left behind: %s\n", path);
	return ftw->level > 0;
}

/* 1 when the directory exists and has something in it, which is told. */
static int is_littered(const char *dir)
{
	return access(dir, F_OK) == 0 && nftw(dir, say_entry, 32, FTW_PHYS) == 1;
}

static void tell_children(void)
{
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char path[300], text[1024], what[512] = "";
		int ppid = 0, fd;
		ssize_t n;

		if (e->d_name[0] < '1' || e->d_name[0] > '9')
			continue;
		snprintf(path, sizeof(path), "/proc/%s/stat", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
		if (fd >= 0)
			close(fd);
		if (n <= 0)
			continue;
		text[n] = '\0';
		char *after = strrchr(text, ')');
		if (!after || sscanf(after, ") %*c %d", &ppid) != 1 || ppid != getpid())
			continue;
		snprintf(path, sizeof(path), "/proc/%s/cmdline", e->d_name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? 0 : read(fd, what, sizeof(what) - 1);
		if (fd >= 0)
			close(fd);
		for (ssize_t i = 0; i + 1 < n; i++)
			if (!what[i])
				what[i] = ' ';
		fprintf(stderr, "# left behind: process %s: %s\n", e->d_name, what);
		kill((pid_t)strtol(e->d_name, NULL, 10), SIGKILL);
	}
	if (d)
		closedir(d);
}

/* Wait until every process of the test is gone. How many rounds of killing it took. */
static int wait_for_silence(int patience_ms)
{
	long long end = now_ms() + patience_ms;
	int rounds = 0;

	for (;;) {
		pid_t pid = waitpid(-1, NULL, WNOHANG);
		if (pid < 0 && errno == ECHILD)
			return rounds;
		if (pid > 0)
			continue;
		if (now_ms() > end) {
			tell_children();
			if (++rounds > 200)
				_exit(4);
			usleep(20 * 1000);
			continue;
		}
		usleep(2000);
	}
}

static void prepare(struct suite *s, size_t number)
{
	static const char *const vars[][2] = {{"CELL_STATE_DIR", "state"}, {"HOME", "home"},
		{"TMPDIR", "tmp"}, {"XDG_RUNTIME_DIR", "run"}};
	char path[256];

	snprintf(s->dir, sizeof(s->dir), "%s/%zu", s->base, number);
	if (mkdir(s->dir, 0755) < 0)
		DIE("mkdir '%s': %s", s->dir, strerror(errno));
	for (size_t i = 0; i < sizeof(vars) / sizeof(*vars); i++) {
		snprintf(path, sizeof(path), "%s/%s", s->dir, vars[i][1]);
		mkdir(path, 0700);
		setenv(vars[i][0], path, 1);
	}
	unsetenv("XDG_STATE_HOME");
	unsetenv("XDG_CONFIG_HOME");
	if (s->caps & NEEDS(WORKSPACE)) {
		snprintf(s->workspace, sizeof(s->workspace), "%s/ws", s->dir);
		mkdir(s->workspace, 0755);
		if (owner != (uid_t)-1 && chown(s->workspace, owner, owner) < 0)
			DIE("chown '%s': %s", s->workspace, strerror(errno));
	}
	if (s->caps & NEEDS(ROOT_DIR)) {
		snprintf(s->root, sizeof(s->root), "%s/root", s->dir);
		snprintf(path, sizeof(path), "%s/root", s->base);
		if (root_clone(path, s->root) < 0)
			DIE("clone the root tree: %s", strerror(errno));
	}
}

/* Wait for the test, reaping what it orphans meanwhile as init would. */
static int wait_limited(pid_t pid)
{
	long long limit_s = getenv("CELL_TEST_BIG") ? 3600 : patience(150),
		  end = now_ms() + limit_s * 1000;
	bool is_killed = false;
	int st = 0;

	for (;;) {
		pid_t ended = waitpid(-1, &st, WNOHANG);
		if (ended == pid)
			break;
		if (ended > 0)
			continue;
		if (now_ms() > end && !is_killed) {
			fprintf(stderr, "# still running after %lld s: killed\n", limit_s);
			kill(pid, SIGKILL);
			is_killed = true;
		}
		usleep(3000);
	}
	if (WIFSIGNALED(st))
		fprintf(stderr, "# ended by signal %d\n", WTERMSIG(st));
	return WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
}

static int supervise(struct suite *s, const struct suite_test *t, size_t number)
{
	static const char *const must_be_empty[] = {"state/cells", "home", "tmp", "run"};
	int rc, litter = 0;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prepare(s, number);
	fflush(NULL);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		t->fn(s);
		exit(0);
	}
	rc = wait_limited(pid);
	/* A test that failed did not get to its own clean-up: that is no news. */
	litter += wait_for_silence(rc ? 500 : (int)patience(8000));
	for (size_t i = 0; !rc && i < sizeof(must_be_empty) / sizeof(*must_be_empty); i++) {
		char path[160];
		snprintf(path, sizeof(path), "%s/%s", s->dir, must_be_empty[i]);
		litter += is_littered(path);
	}
	litter += detach_mounts(s->dir);
	remove_tree(s->dir);
	return rc ? rc : litter ? 5 : 0;
}

static void start(struct suite *s, const struct suite_test *t, size_t number, struct outcome *o)
{
	cell_caps lacking = t->needs & ~s->caps;

	snprintf(o->log, sizeof(o->log), "%s/%zu.log", s->base, number);
	int fd = open(o->log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		DIE("open '%s': %s", o->log, strerror(errno));
	const char *reason = known_reason(t);
	if (lacking || reason) {
		if (lacking)
			dprintf(fd, "# skip: the back end does not promise %s\n",
				cell_cap_name((enum cell_cap)__builtin_ctzll(lacking)));
		else
			dprintf(fd, "# skip: %s\n", reason);
		close(fd);
		o->rc = RC_SKIP;
		return;
	}
	fflush(NULL);
	o->pid = fork();
	if (o->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fd, 1);
		dup2(fd, 2);
		_exit(supervise(s, t, number));
	}
	close(fd);
}

/* The line of TAP, then what the test said, as comments. */
static void print_outcome(size_t number, const char *backend, const struct suite_test *t,
	struct outcome *o)
{
	char line[1024], reason[512] = "no reason given";
	FILE *f = fopen(o->log, "re");
	const char *group;
	int group_len;

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "# skip: ", 8))
			snprintf(reason, sizeof(reason), "%.*s", (int)strcspn(line + 8, "\n"),
				line + 8);
	/* tools/lib/conformance.py makes its table of this */
	group = group_of(t, &group_len);
	printf("%s %zu - %s: %.*s: %s", o->rc && o->rc != RC_SKIP ? "not ok" : "ok", number,
		backend, group_len, group, t->name);
	if (o->rc == RC_SKIP)
		printf(" # SKIP %s", reason);
	printf("\n");
	if (f)
		rewind(f);
	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, "# skip: ", 8) != 0)
			printf("%s%s%s", line[0] == '#' ? "" : "# ", line,
				strchr(line, '\n') ? "" : "\n");
	if (f)
		(void)fclose(f);
	(void)unlink(o->log);
	fflush(stdout);
}

static const char *name_of(const struct suite *s)
{
	return label ? label : s->backend;
}

static void print_table(struct suite *suites, size_t n, const struct outcome *all)
{
	const char *file = "";

	printf("#\n# %-64s", "");
	for (size_t b = 0; b < n; b++)
		printf(" %-12s", name_of(&suites[b]));
	printf("\n");
	for (size_t i = 0; i < n_tests; i++) {
		if (strcmp(file, tests[i].file) != 0) {
			const char *slash = strrchr(tests[i].file, '/');
			file = tests[i].file;
			printf("# %s\n", slash ? slash + 1 : file);
		}
		printf("#   %-62.62s", tests[i].name);
		for (size_t b = 0; b < n; b++) {
			int rc = all[b * n_tests + i].rc;
			printf(" %-12s", rc == 0 ? "yes" : rc == RC_SKIP ? "-" : "FAILS");
		}
		printf("\n");
	}
}

static int run_all(struct suite *suites, size_t n, size_t jobs)
{
	size_t total = n * n_tests, next = 0, running = 0, printed = 0;
	size_t passed = 0, failed = 0, skipped = 0;
	struct outcome *all = calloc(total + 1, sizeof(*all));

	if (!all)
		abort();
	printf("1..%zu\n", total);
	while (printed < total) {
		while (next < total && running < jobs) {
			start(&suites[next / n_tests], &tests[next % n_tests], next + 1,
				&all[next]);
			running += all[next].pid > 0;
			next++;
		}
		int st = 0;
		pid_t pid = running ? waitpid(-1, &st, 0) : 0;
		for (size_t i = 0; pid > 0 && i < next; i++) {
			if (all[i].pid != pid)
				continue;
			all[i].pid = 0;
			all[i].rc = WIFEXITED(st) ? WEXITSTATUS(st) : 128 + WTERMSIG(st);
			running--;
		}
		for (; printed < next && !all[printed].pid; printed++)
			print_outcome(printed + 1, name_of(&suites[printed / n_tests]),
				&tests[printed % n_tests], &all[printed]);
	}
	for (size_t i = 0; i < total; i++) {
		passed += all[i].rc == 0;
		skipped += all[i].rc == RC_SKIP;
	}
	failed = total - passed - skipped;
	print_table(suites, n, all);
	printf("# %zu passed, %zu failed, %zu skipped\n", passed, failed, skipped);
	free(all);
	return failed ? 1 : 0;
}

/* Beside this program, unless CELL_PROBE says where. */
static void find_probe(char *ret, size_t size)
{
	const char *given = getenv("CELL_PROBE");
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);

	if (given) {
		snprintf(ret, size, "%s", given);
	} else if (n > 0) {
		exe[n] = '\0';
		snprintf(ret, size, "%s/probe", dirname(exe));
	}
	if (access(ret, X_OK) < 0) {
		fprintf(stderr,
			"no helper program '%s': build tests/conformance/probe, or set "
			"CELL_PROBE\n",
			ret);
		exit(2);
	}
}

static bool add_backend(struct suite *s, const struct cell_backend_info *info)
{
	s->info = *info;
	s->caps = info->caps;
	if (!info->is_usable) {
		printf("# %s: left out: %s%s%s\n", name_of(s), info->reason,
			info->fix[0] ? "; what would help: " : "", info->fix);
		return false;
	}
	if (!(s->caps & NEEDS(EXEC))) {
		printf("# %s: left out: it does not promise exec (%s)\n", s->backend,
			info->summary);
		return false;
	}
	if ((s->caps & NEEDS(IMAGE)) && !(s->caps & NEEDS(ROOT_DIR))) {
		s->image = getenv("CELL_TEST_IMAGE");
		if (!s->image) {
			printf("# %s: left out: it wants an image, named by CELL_TEST_IMAGE; the "
			       "suite `engines` has one\n",
				name_of(s));
			return false;
		}
	}
	return true;
}

static size_t choose(struct suite *suites, const char *const *names, size_t n_names)
{
	static struct cell_backend_info infos[MAX_BACKENDS];
	size_t n = 0, found;

	for (size_t i = 0; i < n_names; i++) {
		suites[n].backend = names[i];
		if (cell_backend_probe(names[i], &infos[0], &E) < 0) {
			fprintf(stderr, "%s (%s)\n", E.msg, E.hint);
			exit(2);
		}
		n += add_backend(&suites[n], &infos[0]);
	}
	if (n_names)
		return n;
	found = cell_backends_probe(infos, MAX_BACKENDS);
	for (size_t i = 0; i < found; i++) {
		suites[n].backend = infos[i].name;
		if (left_out_backend && !strcmp(left_out_backend, infos[i].name)) {
			printf("# %s: left out: by --except; the suite `engines` runs it\n",
				infos[i].name);
			continue;
		}
		n += add_backend(&suites[n], &infos[i]);
	}
	return n;
}

static void make_base(struct suite *suites, size_t n)
{
	char base[64] = "/tmp/cc-XXXXXX", root[80], why[256] = "";
	bool has_root = false;

	/* Not TMPDIR: a socket's path must fit in 108 bytes. World-readable: some commands run as
	 * nobody. */
	if (!mkdtemp(base) || chmod(base, 0755) < 0)
		DIE("mkdtemp '%s': %s", base, strerror(errno));
	snprintf(root, sizeof(root), "%s/root", base);
	for (size_t b = 0; b < n; b++) {
		snprintf(suites[b].base, sizeof(suites[b].base), "%s", base);
		has_root |= (suites[b].caps & NEEDS(ROOT_DIR)) != 0;
	}
	if (has_root && root_build(root, why, sizeof(why)) < 0) {
		remove_tree(base);
		DIE("build a root tree: %s", why);
	}
}

static void become_nobody(void)
{
	if (geteuid() != 0) {
		printf("1..0 # SKIP only root can become another user\n");
		exit(0);
	}
	/* dumpable: as a program that was started by that user is */
	if (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 ||
		setresuid(NOBODY, NOBODY, NOBODY) < 0 || prctl(PR_SET_DUMPABLE, 1) < 0)
		DIE("become an ordinary user: %s", strerror(errno));
}

static void usage(FILE *f)
{
	fprintf(f, "usage: conformance [--backend NAME]... [--jobs N] [--list]\n"
		   "                   [--group NAME]... [--without NAME] [--label TEXT]\n"
		   "                   [--user] [--owner UID] [--except BACKEND]\n"
		   "                   [--known NAME=REASON]... [PART OF A NAME]\n"
		   "--user: as an ordinary user. --owner: whose workspaces are, for root.\n"
		   "Without --backend: every back end that is usable here and runs commands.\n"
		   "A group is a file: --group big is what is in big_test.c.\n"
		   "--known: a test or group that cannot pass there: skipped, with the reason.\n"
		   "CELL_TEST_BIG=1 adds the transfers of 2 and 10 GiB.\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"backend", required_argument, NULL, 'b'},
		{"group", required_argument, NULL, 'g'}, {"without", required_argument, NULL, 'w'},
		{"jobs", required_argument, NULL, 'j'}, {"list", no_argument, NULL, 'l'},
		{"label", required_argument, NULL, 'L'}, {"user", no_argument, NULL, 'u'},
		{"owner", required_argument, NULL, 'o'}, {"except", required_argument, NULL, 'x'},
		{"known", required_argument, NULL, 'k'}, {"help", no_argument, NULL, 'h'}, {0}};
	static struct suite suites[MAX_BACKENDS];
	const char *names[MAX_BACKENDS];
	size_t n_names = 0, n, jobs = 3;
	bool is_list = false, is_user = false;
	int o;

	while ((o = getopt_long(argc, argv, "b:g:w:j:lh", options, NULL)) != -1) {
		if (o == 'b' && n_names < MAX_BACKENDS)
			names[n_names++] = optarg;
		else if (o == 'j')
			jobs = strtoul(optarg, NULL, 10);
		else if (o == 'g' && n_only_groups < MAX_GROUPS)
			only_groups[n_only_groups++] = optarg;
		else if (o == 'w')
			left_out_group = optarg;
		else if (o == 'l')
			is_list = true;
		else if (o == 'x')
			left_out_backend = optarg;
		else if (o == 'k' && n_known < MAX_KNOWN)
			known[n_known++] = optarg;
		else if (o == 'L')
			label = optarg;
		else if (o == 'u')
			is_user = true;
		else if (o == 'o')
			owner = (uid_t)strtoul(optarg, NULL, 10);
		else
			return usage(o == 'h' ? stdout : stderr), o == 'h' ? 0 : 2;
	}
	filter = argv[optind];
	find_tests();
	for (size_t i = 0; is_list && i < n_tests; i++)
		printf("%s\n", tests[i].name);
	if (is_list)
		return 0;
	(void)setvbuf(stdout, NULL, _IOLBF, 0);
	if (is_user)
		become_nobody();
	n = choose(suites, names, n_names);
	if (!n || !n_tests) {
		printf("1..0 # SKIP nothing to run\n");
		return n_tests ? RC_SKIP : 2;
	}
	for (size_t b = 0; b < n; b++)
		find_probe(suites[b].probe, sizeof(suites[b].probe));
	signal(SIGPIPE, SIG_DFL);
	make_base(suites, n);
	int rc = run_all(suites, n, jobs ? jobs : 1);
	remove_tree(suites[0].base);
	free(tests);
	return rc;
}
