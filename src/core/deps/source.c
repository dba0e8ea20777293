/* SPDX-License-Identifier: Apache-2.0 */
/* source.c: see source.h. */
#include "core/deps/source.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/deps/page.h"
#include "core/deps/wheel.h"

#define PAGE_MAX       (64u << 20)
#define CANDIDATES_MAX 100000
#define CHUNK	       (256u * 1024)
#define SIMPLE_ACCEPT  "application/vnd.pypi.simple.v1+json, text/html;q=0.5"

static cell_deps_fetch_fn fetch;

void cell_deps_set_fetch(cell_deps_fetch_fn fn)
{
	fetch = fn;
}

static bool is_url(const char *s)
{
	return !strncmp(s, "http://", 7) || !strncmp(s, "https://", 8);
}

int source_fetch(const char *url, const char *accept, cell_data_fn sink, void *user, char type[64],
	struct cell_error *err)
{
	type[0] = '\0';
	if (fetch)
		return fetch(url, accept, sink, user, type, err);
	int r = cell_fail(err, CELL_ENOTSUP, 0, "read '%.200s': this program opens no connections",
		url);
	return cell_error_hint(err, r,
		"use a directory as deps.index or in deps.find_links, or call "
		"cell_deps_set_fetch()");
}

int source_stopped(struct cell_error *err)
{
	(void)cell_fail(err, CELL_EBUSY, ECANCELED, "installing packages was stopped");
	return -ECANCELED;
}

int source_tell(const struct source *s, enum cell_deps_step step, const char *name, uint64_t bytes,
	uint64_t total)
{
	const struct cell_deps_progress p = {
		.step = step, .name = name, .bytes = bytes, .total = total};

	return s->progress ? s->progress(&p, s->user) : 0;
}

static void candidates_free(struct candidates *c)
{
	for (size_t i = 0; i < c->n; i++) {
		free(c->list[i].filename);
		free(c->list[i].at);
		free(c->list[i].requires_python);
	}
	free(c->list);
	free(c);
}

void source_done(struct source *s)
{
	while (s->known) {
		struct candidates *next = s->known->next;
		candidates_free(s->known);
		s->known = next;
	}
}

static struct candidates *known(struct source *s, const char *name)
{
	for (struct candidates *c = s->known; c; c = c->next)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

static struct candidates *remember(struct source *s, const char *name)
{
	struct candidates *c = calloc(1, sizeof *c);

	if (!c)
		return NULL;
	(void)snprintf(c->name, sizeof c->name, "%s", name);
	c->next = s->known;
	s->known = c;
	return c;
}

static bool is_source_archive(const char *filename)
{
	static const char *const ends[] = {".tar.gz", ".zip", ".tar.bz2", ".tgz", NULL};
	size_t n = strlen(filename);

	for (size_t i = 0; ends[i]; i++)
		if (n > strlen(ends[i]) && !strcmp(filename + n - strlen(ends[i]), ends[i]))
			return true;
	return false;
}

/* One file that somebody says is of this package. */
static int consider(struct source *s, struct candidates *c, const struct page_file *f,
	bool is_remote)
{
	struct candidate k = {.is_remote = is_remote, .is_yanked = f->is_yanked};

	if (!wheel_name_parse(f->filename, &k.wheel)) {
		c->n_source += is_source_archive(f->filename);
		return 0;
	}
	if (strcmp(k.wheel.name, c->name) != 0 || !version_parse(k.wheel.version, &k.version))
		return 0;
	k.fitness = wheel_fitness(&k.wheel, s->interpreter);
	if (!k.fitness) {
		c->n_other++;
		(void)snprintf(c->other, sizeof c->other, "%.255s", f->filename);
		return 0;
	}
	if (c->n == CANDIDATES_MAX)
		return 0;
	if (c->n == c->n_max) {
		size_t max = c->n_max ? c->n_max * 2 : 16;
		struct candidate *list = reallocarray(c->list, max, sizeof *list);
		if (!list)
			return -ENOMEM;
		c->list = list;
		c->n_max = max;
	}
	(void)snprintf(k.hash, sizeof k.hash, "%s", f->hash);
	k.filename = strdup(f->filename);
	k.at = strdup(f->url);
	k.requires_python = strdup(f->requires_python);
	if (!k.filename || !k.at || !k.requires_python) {
		free(k.filename);
		free(k.at);
		free(k.requires_python);
		return -ENOMEM;
	}
	c->list[c->n++] = k;
	return 0;
}

static int look_in_directory(struct source *s, struct candidates *c, const char *path, bool must_be,
	struct cell_error *err)
{
	auto_dir DIR *d = opendir(path);
	char full[4096];
	int r = 0;

	if (!d && !must_be && errno == ENOENT)
		return 0;
	if (!d)
		return cell_error_hint(err,
			cell_fail_errno(err, errno, "look for packages in '%.200s'", path),
			"deps.find_links names directories with wheels");
	for (struct dirent *e; r == 0 && (e = readdir(d));) {
		int n = snprintf(full, sizeof full, "%s/%s", path, e->d_name);
		if (e->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof full)
			continue;
		r = consider(s, c,
			&(struct page_file){.filename = e->d_name,
				.url = full,
				.hash = "",
				.requires_python = ""},
			false);
	}
	return r < 0 ? cell_fail_errno(err, -r, "look for packages in '%.200s'", path) : 0;
}

struct paging {
	struct source *source;
	struct candidates *candidates;
};

static int from_page(const struct page_file *f, void *user)
{
	struct paging *p = user;

	return consider(p->source, p->candidates, f, true);
}

static int to_buf(const void *p, size_t n, void *user)
{
	return buf_add(user, p, n);
}

static int ask_index(struct source *s, struct candidates *c, struct cell_error *err)
{
	auto_buf struct buf page = BUF_INIT(PAGE_MAX);
	auto_free char *url = NULL;
	struct paging p = {s, c};
	struct cell_error why = {0};
	char type[64];
	size_t n = strlen(s->index);

	while (n && s->index[n - 1] == '/')
		n--;
	if (asprintf(&url, "%.*s/%s/", (int)n, s->index, c->name) < 0) {
		url = NULL;
		return cell_fail_errno(err, ENOMEM, "ask the index");
	}
	int r = source_fetch(url, SIMPLE_ACCEPT, to_buf, &page, type, &why);
	if (r < 0 && why.code == CELL_ENOTFOUND)
		return 0;
	if (r < 0) {
		if (err)
			*err = why;
		if (!why.code)
			r = cell_fail_errno(err, -r, "read '%.200s'", url);
		return cell_error_prefix(err, r, "ask the index for '%s'", c->name);
	}
	return page_read(buf_str(&page), page.len, type, url, from_page, &p, err);
}

int source_find(struct source *s, const char *name, struct candidates **ret, struct cell_error *err)
{
	struct candidates *c = known(s, name);
	char path[4096];
	int r = 0;

	if (c) {
		*ret = c;
		return 0;
	}
	if (source_tell(s, CELL_DEPS_RESOLVE, name, 0, 0))
		return source_stopped(err);
	c = remember(s, name);
	if (!c)
		return cell_fail_errno(err, ENOMEM, "look for '%s'", name);
	for (const char *const *p = s->find_links; r == 0 && p && *p; p++)
		r = look_in_directory(s, c, *p, true, err);
	if (r == 0 && s->index && is_url(s->index)) {
		r = ask_index(s, c, err);
	} else if (r == 0 && s->index) {
		(void)snprintf(path, sizeof path, "%s/%s", s->index, name);
		r = look_in_directory(s, c, path, false, err);
	}
	*ret = c;
	return r;
}

int source_give(struct source *s, const char *filename, const char *hash, struct candidates **ret,
	struct cell_error *err)
{
	struct wheel_name w;

	if (!wheel_name_parse(filename, &w))
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "'%.200s' is not the name of a wheel",
				filename),
			"a wheel is called NAME-VERSION-PYTHON-ABI-PLATFORM.whl");
	struct candidates *c = known(s, w.name);
	if (!c && !(c = remember(s, w.name)))
		return cell_fail_errno(err, ENOMEM, "take '%.200s'", filename);
	if (c->n)
		return cell_fail(err, CELL_EINVAL, 0, "two files of the package '%s' are given",
			w.name);
	int r = consider(s, c,
		&(struct page_file){
			.filename = filename, .url = filename, .hash = hash, .requires_python = ""},
		false);
	if (r < 0)
		return cell_fail_errno(err, -r, "take '%.200s'", filename);
	if (!c->n)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0,
				"'%.200s' is not for this interpreter: Python %s on %s", filename,
				s->interpreter->short_version, s->interpreter->machine),
			"its name says which ones it is for");
	c->list[0].is_given = true;
	*ret = c;
	return 0;
}

/* ---- getting ---- */

struct fetching {
	struct deps_intake intake;
	const struct source *source;
	const char *name;
	struct cell_error *err;
};

static int to_intake(const void *p, size_t n, void *user)
{
	struct fetching *f = user;
	int r = deps_intake_add(&f->intake, p, n, f->err);

	if (r == 0 && source_tell(f->source, CELL_DEPS_FETCH, f->name, f->intake.size, 0))
		r = source_stopped(f->err);
	return r;
}

static int copy_file(int fd, struct fetching *f, struct cell_error *err)
{
	auto_free char *piece = malloc(CHUNK);
	ssize_t n;
	int r = 0;

	if (!piece)
		return cell_fail_errno(err, ENOMEM, "read a package");
	for (off_t at = 0; r == 0 && (n = pread(fd, piece, CHUNK, at)) != 0; at += n)
		r = n < 0 ? cell_fail_errno(err, errno, "read '%.200s'", f->name)
			  : to_intake(piece, (size_t)n, f);
	return r;
}

static int take(struct fetching *f, const char *filename, const char *hash, struct deps_tree *ret,
	struct cell_error *err)
{
	if (source_tell(f->source, CELL_DEPS_UNPACK, filename, f->intake.size, f->intake.size))
		return source_stopped(err);
	return deps_intake_take(&f->intake, filename, hash, wheel_unpack, ret, err);
}

static void fetching_done(struct fetching *f)
{
	deps_intake_done(&f->intake);
}

int source_get(struct source *s, struct candidate *c, struct deps_tree *ret, struct cell_error *err)
{
	auto_(fetching_done) struct fetching f = {
		.intake = DEPS_INTAKE_INIT, .source = s, .name = c->filename, .err = err};
	struct cell_error why = {0};
	auto_fd int fd = -1;
	char type[64];
	int r = 0;

	if (!c->is_remote && !c->is_given) {
		struct stat st;
		fd = open(c->at, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
		if (fd < 0 || fstat(fd, &st) < 0)
			return cell_fail_errno(err, errno, "open '%.200s'", c->at);
		if (!S_ISREG(st.st_mode))
			return cell_fail(err, CELL_EINVAL, 0, "'%.200s' is no file", c->at);
		r = deps_cache_hash(s->cache, fd, c->hash, err);
	}
	if (r < 0 || (*c->hash && deps_cache_find(s->cache, c->hash, ret)))
		return r;
	if (c->is_given)
		return cell_fail(err, CELL_EINTERNAL, 0, "'%.200s' was given and is gone",
			c->filename);
	r = deps_intake_begin(&f.intake, s->cache, err);
	if (r == 0 && !c->is_remote)
		r = copy_file(fd, &f, err);
	if (r == 0 && c->is_remote) {
		f.err = &why;
		r = source_fetch(c->at, "*/*", to_intake, &f, type, &why);
		if (r < 0 && err)
			*err = why;
		if (r < 0 && !why.code)
			r = cell_fail_errno(err, -r, "read '%.200s'", c->at);
	}
	if (r == 0)
		r = take(&f, c->filename, *c->hash ? c->hash : NULL, ret, err);
	if (r == 0)
		(void)snprintf(c->hash, sizeof c->hash, "%s", ret->hash);
	return r;
}
