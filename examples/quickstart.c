/* SPDX-License-Identifier: Apache-2.0 */
/*
 * quickstart.c: the C API in one file. It makes a cell, runs commands in it in both ways, works
 *with files, shows what an error looks like, and cleans up.
 *
 *	cc quickstart.c $(pkg-config --cflags --libs cell) -o quickstart && ./quickstart
 *
 * Every call returns 0 or more on success and a negative errno on failure; struct cell_error then
 *says what was attempted, what went wrong and, often, what would help.
 */
#include <cell/cell.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int complain(const char *what, const struct cell_error *err)
{
	fprintf(stderr, "%s: %s (%s)\n", what, err->msg, cell_code_name(err->code));
	if (err->hint[0])
		fprintf(stderr, "hint: %s\n", err->hint);
	return -1;
}

/* The short way: run to the end and collect. */
static int run_and_collect(struct cell *c)
{
	struct cell_error err = {0};
	struct cell_result r = {0};
	struct cell_exec_opts opts = {
		.shell = "echo hello from the cell; echo a complaint >&2; exit 3",
		.timeout_ms =
			10000, /* then TERM, two seconds later KILL, of everything it started */
	};

	if (cell_run(c, &opts, NULL, 0, &r, &err) < 0) {
		cell_result_done(&r);
		return complain("run", &err);
	}
	/* A command that fails is a result, not an error. */
	printf("stdout: %s", r.out);
	printf("stderr: %s", r.err);
	printf("exit code: %d\n", r.exit.exit_code);
	cell_result_done(&r);
	return 0;
}

/* The long way: start, feed its stdin, take events as they come. */
static int talk_to_a_command(struct cell *c)
{
	struct cell_error err = {0};
	struct cell_exec *x = NULL;
	struct cell_event e = {0};
	const char *const argv[] = {
		"sh", "-c", "while read -r line; do echo \"heard: $line\"; done", NULL};
	struct cell_exec_opts opts = {.argv = argv, .flags = CELL_EXEC_STDIN};

	if (cell_exec_start(c, &opts, &x, &err) < 0)
		return complain("start", &err);
	if (cell_exec_write(x, "one\ntwo\n", 8, -1, &err) < 0 ||
		cell_exec_close_stdin(x, &err) < 0) {
		cell_exec_free(x);
		return complain("write", &err);
	}
	while (e.type != CELL_EVENT_EXIT) {
		/* -1 waits. In an event loop: poll cell_poll_fd(), then call with 0. */
		if (cell_exec_next(x, -1, &e, &err) < 0) {
			cell_exec_free(x);
			return complain("next event", &err);
		}
		if (e.type == CELL_EVENT_STDOUT)
			fwrite(e.data, 1, e.len, stdout);
	}
	printf("it ended with %d after %llu ms\n", e.exit.exit_code,
		(unsigned long long)(e.exit.usage.wall_ns / 1000000));
	cell_exec_free(x);
	return 0;
}

static int print_entry(const struct cell_file_info *info, void *user)
{
	(void)user;
	printf("file: %s, %llu bytes\n", info->path, (unsigned long long)info->size);
	return 0; /* anything else would stop the listing */
}

static int work_with_files(struct cell *c)
{
	static const char text[] = "debug = true\n";
	struct cell_error err = {0};
	char *content = NULL;
	size_t len = 0;

	/* Writes are atomic: a reader sees the old file or the new one. */
	if (cell_file_store(c, "etc/app.conf", 0, CELL_WRITE_PARENTS, text, sizeof(text) - 1,
		    &err) < 0)
		return complain("write", &err);
	/* An edit must match exactly once, so that it never hits the wrong place. */
	if (cell_file_edit(c, "etc/app.conf", "true", 4, "false", 5, false, NULL, &err) < 0)
		return complain("edit", &err);
	if (cell_file_load(c, "etc/app.conf", 4096, &content, &len, &err) < 0)
		return complain("read", &err);
	printf("content: %s", content);
	free(content);
	if (cell_file_list(c, "etc", 1, print_entry, NULL, &err) < 0)
		return complain("list", &err);

	/* No path leads out of the workspace. */
	if (cell_file_load(c, "../../etc/passwd", 4096, &content, &len, &err) == 0) {
		free(content);
		return -1;
	}
	printf("refused: %s\n", cell_code_name(err.code));
	return 0;
}

int main(int argc, char **argv)
{
	struct cell_error err = {0};
	struct cell *c = NULL;
	char workspace[] = "/tmp/cell-quickstart-XXXXXX";
	int failed;

	if (!mkdtemp(workspace))
		return EXIT_FAILURE;

	/* Zero means "not asked for". What a back end cannot promise is an error, never ignored. */
	struct cell_spec spec = {
		.backend = argc > 1 ? argv[1] : NULL, /* NULL: the strongest usable here */
		.workspace = workspace,
		.env = (const char *const[]){"GREETING=hello", NULL},
	};
	if (cell_open(&spec, &c, &err) < 0) {
		complain("open", &err);
		rmdir(workspace);
		return EXIT_FAILURE;
	}
	printf("a cell of back end %s\n", cell_backend_of(c));

	failed = run_and_collect(c) < 0 || talk_to_a_command(c) < 0 || work_with_files(c) < 0;
	if (cell_file_remove(c, "etc", true, &err) < 0)
		failed = complain("remove", &err);

	/* It had no name, so closing it ends everything in it and removes everything it made. */
	if (cell_close(c, &err) < 0)
		failed = complain("close", &err);
	rmdir(workspace);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
