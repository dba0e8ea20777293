/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c: runs a fuzzer's entry point over files, one test each, in TAP. This is how the corpora
 *are part of every test run; `make fuzz` links the same entry points with libFuzzer instead.
 *
 *	fuzz_x DIRECTORY...
 */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define REPLAY_MAX_BYTES (16u * 1024 * 1024)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int n_run, n_bad;

static int load(const char *path, struct buf *ret)
{
	auto_file FILE *f = fopen(path, "rbe");
	char chunk[4096];
	size_t n;

	if (!f)
		return -errno;
	while ((n = fread(chunk, 1, sizeof chunk, f)) > 0) {
		int r = buf_add(ret, chunk, n);
		if (r < 0)
			return r;
	}
	return ferror(f) ? -EIO : 0;
}

/* A copy of the exact size, so that a sanitizer sees the first byte read past the end. */
static int feed(const struct buf *b)
{
	uint8_t *exact = malloc(b->len ? b->len : 1);

	if (!exact)
		return 1;
	if (b->len)
		memcpy(exact, b->data, b->len);
	(void)LLVMFuzzerTestOneInput(exact, b->len);
	free(exact);
	return 0;
}

static void replay(const char *name, const char *path)
{
	auto_buf struct buf b = BUF_INIT(REPLAY_MAX_BYTES);
	int status = 0, r = load(path, &b);

	n_run++;
	(void)fflush(NULL);
	pid_t pid = r == 0 ? fork() : -1;
	if (pid == 0) {
		alarm(30);
		exit(feed(&b));
	}
	bool is_ok = pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
	printf("%s %d - survives %s\n", is_ok ? "ok" : "not ok", n_run, name);
	if (r < 0)
		printf("# cannot read %s: %s\n", path, strerror(-r));
	else if (!is_ok)
		printf("# wait status %#x with %s\n", (unsigned)status, path);
	n_bad += !is_ok;
}

static int is_input(const struct dirent *e)
{
	return e->d_name[0] != '.';
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct dirent **entries = NULL;
		int n = scandir(argv[i], &entries, is_input, alphasort);

		if (n < 0) {
			printf("Bail out! cannot list %s: %s\n", argv[i], strerror(errno));
			return 1;
		}
		for (int k = 0; k < n; k++) {
			auto_buf struct buf path = BUF_INIT(8192);

			if (buf_addf(&path, "%s/%s", argv[i], entries[k]->d_name) == 0)
				replay(entries[k]->d_name, buf_str(&path));
			free(entries[k]);
		}
		free(entries);
	}
	printf("1..%d\n", n_run);
	return n_bad || !n_run;
}
