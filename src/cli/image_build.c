/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image_build.c: debootstrap makes the root file system (image_build.sh), we make an OCI layout of it in the
 * store's tmp/ and import that. All that is written down is the same for the same packages: times are the archive's.
 */
#include "cli/image_build.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fdcopy.h"
#include "base/tartree.h"
#include "cli/cli.h"
#include "cli/image_recipe.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/text.h"
#include "core/image/digest.h"
#include "core/image/image.h"
#include "core/image/image_store.h"
#include "core/remove_tree.h"
#include "distribution/reference.h"

#define LAST_LINES 2000

extern char image_build_script[];

struct build {
	const struct cli *cli;
	const struct image_build *ask;
	struct image_recipe recipe;
	struct image_store store;
	char tmp[64]; /* our directory in the store's tmp/ */
	char *work;   /* its path */
	int work_fd;
	long long epoch;
	char layer[DIGEST_HEX + 1], config[DIGEST_HEX + 1], manifest[DIGEST_HEX + 1];
	struct cell_error *err;
};

static int no_memory(const struct build *b)
{
	return cell_fail_errno(b->err, ENOMEM, "build an image");
}

/* ---- the root file system ---- */

static int check_tools(const struct build *b)
{
	static const char *const places[] = {"/usr/sbin/debootstrap", "/usr/bin/debootstrap"};

	if (geteuid() != 0)
		return cell_error_hint(b->err,
			cell_fail(b->err, CELL_EDENIED, EPERM, "building an image from packages"),
			"it needs root: sudo cell image build ...; or build it elsewhere with "
			"--output, and "
			"`cell image import` it here");
	for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
		if (access(places[i], X_OK) == 0)
			return 0;
	}
	return cell_error_hint(b->err,
		cell_fail(b->err, CELL_ENOTSUP, 0, "there is no debootstrap on this machine"),
		"sudo apt-get install debootstrap");
}

/* What it says: shown with --verbose, and its end in the error. */
struct said {
	char text[LAST_LINES];
	size_t len;
	struct cli_neutral neutral;
};

/* Packages say what they like. */
static void show(struct said *s, const char *p, size_t n)
{
	auto_buf struct buf b = BUF_INIT(4 * (n + sizeof s->neutral.held));

	if (!isatty(STDERR_FILENO))
		(void)fwrite(p, 1, n, stderr);
	else if (cli_neutral_feed(&s->neutral, p, n, &b) == 0)
		(void)fwrite(buf_str(&b), 1, b.len, stderr);
}

static void note_output(const struct build *b, struct said *s, const char *p, size_t n)
{
	if (b->cli->is_verbose)
		show(s, p, n);
	if (n > sizeof s->text - 1) {
		p += n - (sizeof s->text - 1);
		n = sizeof s->text - 1;
	}
	if (s->len + n > sizeof s->text - 1) {
		size_t drop = s->len + n - (sizeof s->text - 1);

		memmove(s->text, s->text + drop, s->len - drop);
		s->len -= drop;
	}
	memcpy(s->text + s->len, p, n);
	s->len += n;
	s->text[s->len] = '\0';
}

/* The last line that says what is wrong: debootstrap's begin with "E:". */
static const char *last_line(struct said *s)
{
	while (s->len && s->text[s->len - 1] == '\n')
		s->text[--s->len] = '\0';
	const char *nl = strrchr(s->text, '\n');
	return nl ? nl + 1 : s->text;
}

static int start_script(int out, char *const env[], pid_t *ret)
{
	char unshare[] = "unshare", mount[] = "--mount", pid[] = "--pid", fork_[] = "--fork",
	     kill_child[] = "--kill-child", sh[] = "sh", c[] = "-c";
	char *const argv[] = {
		unshare, mount, pid, fork_, kill_child, sh, c, image_build_script, NULL};
	posix_spawn_file_actions_t a;
	posix_spawnattr_t attr;
	int r = posix_spawn_file_actions_init(&a);

	if (r)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (r) {
		(void)posix_spawn_file_actions_destroy(&a);
		return -r;
	}
	/* a group of its own: the terminal's Ctrl-C comes to us, and we end it */
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
	r = posix_spawn_file_actions_addopen(&a, 0, "/dev/null", O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&a, out, 1);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&a, out, 2);
	if (!r)
		r = posix_spawnp(ret, "unshare", &a, &attr, argv, env);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&a);
	return -r;
}

static void watch_script(const struct build *b, int fd, pid_t pid, struct said *said)
{
	bool is_ended = false;
	char text[4096];

	for (;;) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (cli_signals_stop() && !is_ended) {
			(void)kill(pid, SIGKILL); /* --kill-child: the rest goes with it */
			is_ended = true;
		}
		if (poll(&p, 1, 200) <= 0)
			continue;
		ssize_t n = read(fd, text, sizeof text);
		if (n <= 0)
			return;
		note_output(b, said, text, (size_t)n);
	}
}

static int run_script(const struct build *b, char *const env[])
{
	struct said said = {.len = 0};
	int out[2], status = 0;
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		return cell_fail_errno(b->err, errno, "start debootstrap");
	int r = start_script(out[1], env, &pid);
	close(out[1]);
	if (r == 0)
		watch_script(b, out[0], pid, &said);
	close(out[0]);
	while (r == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (r < 0)
		return cell_fail_errno(b->err, -r, "start debootstrap");
	if (cli_signals_stop())
		return cell_fail(b->err, CELL_EBUSY, EINTR, "building '%s'", b->recipe.name);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return 0;
	return cell_error_hint(b->err,
		cell_fail(b->err, CELL_EBACKEND, 0, "building '%s' failed: %.250s", b->recipe.name,
			last_line(&said)),
		"--verbose shows all that debootstrap says; check the recipe's packages and the "
		"archive "
		"(--mirror)");
}

static int make_tar(const struct build *b)
{
	char path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin", *env[8] = {path};
	int r = 0;

	r |= asprintf(&env[1], "WORK=%s", b->work) < 0;
	r |= asprintf(&env[2], "SUITE=%s", b->recipe.suite) < 0;
	r |= asprintf(&env[3], "MIRROR=%s", b->ask->mirror ? b->ask->mirror : "") < 0;
	r |= asprintf(&env[4], "PACKAGES=%s", b->recipe.packages ? b->recipe.packages : "") < 0;
	r |= asprintf(&env[5], "OUT=%s/layer.tar", b->work) < 0;
	r = r ? no_memory(b) : run_script(b, env);
	for (size_t i = 1; i < 6; i++)
		free(env[i]);
	return r;
}

/* ---- the layout around it ---- */

static int hash_file(const struct build *b, const char *name, char hex[DIGEST_HEX + 1],
	uint64_t *size_ret)
{
	static char piece[1 << 16];
	struct digest d;
	ssize_t n;

	auto_fd int fd = openat(b->work_fd, name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return cell_fail_errno(b->err, errno, "read '%s'", name);
	digest_init(&d);
	*size_ret = 0;
	while ((n = read(fd, piece, sizeof piece)) > 0) {
		digest_add(&d, piece, (size_t)n);
		*size_ret += (uint64_t)n;
	}
	if (n < 0)
		return cell_fail_errno(b->err, errno, "read '%s'", name);
	digest_hex(&d, hex);
	return 0;
}

/* A file of the layout, dated like everything else. */
static int put_file(const struct build *b, const char *path, const char *text)
{
	const struct timespec times[2] = {{.tv_sec = b->epoch}, {.tv_sec = b->epoch}};
	auto_fd int fd = openat(b->work_fd, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));

	if (r == 0 && futimens(fd, times) < 0)
		r = -errno;
	return r < 0 ? cell_fail_errno(b->err, -r, "write '%s'", path) : 0;
}

static int put_blob(const struct build *b, json_t *value, char hex[DIGEST_HEX + 1],
	size_t *size_ret)
{
	auto_free char *text = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	char path[DIGEST_HEX + 24];
	struct digest d;

	json_decref(value);
	if (!text)
		return no_memory(b);
	*size_ret = strlen(text);
	digest_init(&d);
	digest_add(&d, text, *size_ret);
	digest_hex(&d, hex);
	(void)snprintf(path, sizeof path, "oci/blobs/sha256/%s", hex);
	return put_file(b, path, text);
}

static json_t *words_json(char **words)
{
	json_t *list = json_array();

	for (char **w = words; w && *w; w++)
		json_array_append_new(list, json_string(*w));
	return list;
}

static json_t *config_json(const struct build *b)
{
	char created[32];
	time_t t = (time_t)b->epoch;
	struct tm tm;

	(void)strftime(created, sizeof created, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
	json_t *config = json_pack("{s:o, s:o, s:s*}", "Env", words_json(b->recipe.env), "Cmd",
		words_json(b->recipe.cmd), "WorkingDir", b->recipe.workdir);
	return json_pack("{s:s, s:s, s:s, s:o, s:{s:s, s:[s+]}, s:[{s:s, s:s}]}", "architecture",
#if defined(__x86_64__)
		"amd64",
#else
		"arm64",
#endif
		"os", "linux", "created", created, "config", config, "rootfs", "type", "layers",
		"diff_ids", "sha256:", b->layer, "history", "created", created, "created_by",
		"cell image build");
}

static json_t *descriptor(const char *type, const char *hex, uint64_t size)
{
	return json_pack("{s:s, s:s+, s:I}", "mediaType", type, "digest", "sha256:", hex, "size",
		(json_int_t)size);
}

static int put_json(const struct build *b, const char *path, json_t *value)
{
	auto_free char *text = value ? json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

	json_decref(value);
	return text ? put_file(b, path, text) : no_memory(b);
}

/* For `docker load`, which reads this file and older versions of it nothing else. */
static json_t *docker_json(const struct build *b, const char *name)
{
	const char *slash = strrchr(name, '/'), *colon = strrchr(name, ':');
	bool has_tag = colon && (!slash || colon > slash);

	return json_pack("[{s:s+, s:[s+], s:[s+]}]", "Config", "blobs/sha256/", b->config,
		"RepoTags", name, has_tag ? "" : ":latest", "Layers", "blobs/sha256/", b->layer);
}

/* Others read the layout itself: `podman load` and `ctr images import` have no name for an image without this. */
static json_t *named_descriptor(const struct build *b, const char *name, uint64_t size)
{
	json_t *d = descriptor("application/vnd.oci.image.manifest.v1+json", b->manifest, size);
	struct reference r;

	if (reference_parse(name, &r, NULL) == 0 && r.tag[0] && !r.digest[0])
		(void)json_object_set_new(d, "annotations",
			json_pack("{s:s++++, s:s}", "io.containerd.image.name", r.host, "/", r.path,
				":", r.tag, "org.opencontainers.image.ref.name", r.tag));
	return d;
}

static int make_layout(struct build *b, const char *name)
{
	static const char *const dirs[] = {"oci", "oci/blobs", "oci/blobs/sha256"};
	char path[DIGEST_HEX + 24];
	uint64_t layer_size = 0;
	size_t config_size, manifest_size;
	int r = hash_file(b, "layer.tar", b->layer, &layer_size);

	for (size_t i = 0; r == 0 && i < 3; i++) {
		if (mkdirat(b->work_fd, dirs[i], 0755) < 0)
			r = cell_fail_errno(b->err, errno, "make '%s'", dirs[i]);
	}
	(void)snprintf(path, sizeof path, "oci/blobs/sha256/%s", b->layer);
	if (r == 0 && renameat(b->work_fd, "layer.tar", b->work_fd, path) < 0)
		r = cell_fail_errno(b->err, errno, "keep the layer");
	if (r == 0)
		r = put_blob(b, config_json(b), b->config, &config_size);
	if (r == 0)
		r = put_blob(b,
			json_pack("{s:i, s:s, s:o, s:[o]}", "schemaVersion", 2, "mediaType",
				"application/vnd.oci.image.manifest.v1+json", "config",
				descriptor("application/vnd.oci.image.config.v1+json", b->config,
					config_size),
				"layers",
				descriptor("application/vnd.oci.image.layer.v1.tar", b->layer,
					layer_size)),
			b->manifest, &manifest_size);
	if (r == 0)
		r = put_json(b, "oci/index.json",
			json_pack("{s:i, s:[o]}", "schemaVersion", 2, "manifests",
				named_descriptor(b, name, manifest_size)));
	if (r == 0)
		r = put_file(b, "oci/oci-layout", "{\"imageLayoutVersion\":\"1.0.0\"}");
	return r < 0 ? r : put_json(b, "oci/manifest.json", docker_json(b, name));
}

static int write_out(const void *p, size_t n, void *user)
{
	return fd_write_all(*(const int *)user, p, n);
}

static int write_output(const struct build *b)
{
	auto_fd int dir_fd = openat(b->work_fd, "oci", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	auto_fd int fd = open(b->ask->output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (dir_fd < 0 || fd < 0)
		return cell_fail_errno(b->err, errno, "write '%s'", b->ask->output);
	struct tar_writer w = {.fn = write_out, .user = &fd};
	int r = tartree_write(dir_fd, "the image", &w, -1, b->err);
	if (r == 0 && fsync(fd) < 0)
		r = cell_fail_errno(b->err, errno, "write '%s'", b->ask->output);
	if (r < 0)
		(void)unlink(b->ask->output);
	return r;
}

/* ---- all of it ---- */

static int read_epoch(struct build *b)
{
	char text[32] = "";
	auto_fd int fd = openat(b->work_fd, "epoch", O_RDONLY | O_CLOEXEC);

	if (fd < 0 || read(fd, text, sizeof text - 1) <= 0)
		return cell_fail(b->err, CELL_EINTERNAL, 0, "the build left no date");
	b->epoch = strtoll(text, NULL, 10);
	return 0;
}

static int build_in(struct build *b, char *digest_ret)
{
	const char *name = b->ask->name ? b->ask->name : b->recipe.name;
	auto_free char *layout = NULL;

	cli_note(b->cli, "building %s from packages of %s: this takes a minute or two", name,
		b->recipe.suite);
	int r = make_tar(b);
	if (r == 0)
		r = read_epoch(b);
	if (r == 0)
		r = make_layout(b, name);
	if (r == 0 && b->ask->output)
		r = write_output(b);
	if (r == 0 && asprintf(&layout, "%s/oci", b->work) < 0) {
		layout = NULL;
		r = no_memory(b);
	}
	return r < 0 ? r : cell_image_import(layout, name, NULL, digest_ret, b->err);
}

int image_build(const struct cli *cli, const struct image_build *ask, char *digest_ret,
	struct cell_error *err)
{
	struct build b = {
		.cli = cli, .ask = ask, .store = IMAGE_STORE_INIT, .work_fd = -1, .err = err};

	int r = image_recipe_read(ask->recipe, &b.recipe, err);
	if (r == 0)
		r = check_tools(&b);
	if (r == 0)
		r = image_store_open(&b.store, IMAGE_LOCK_SHARED, err);
	if (r == 0) {
		image_store_sweep(&b.store);
		b.work_fd = image_store_tmp(&b.store, b.tmp, err);
		r = b.work_fd < 0 ? b.work_fd : 0;
	}
	if (r == 0 && asprintf(&b.work, "%s/tmp/%s", b.store.path, b.tmp) < 0) {
		b.work = NULL;
		r = no_memory(&b);
	}
	if (r == 0)
		r = build_in(&b, digest_ret);
	if (b.work_fd >= 0) {
		close(b.work_fd);
		(void)cell_remove_tree(b.store.tmp_fd, b.tmp, NULL);
	}
	free(b.work);
	image_store_done(&b.store);
	image_recipe_done(&b.recipe);
	return r;
}
