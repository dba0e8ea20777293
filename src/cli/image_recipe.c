/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/image_recipe.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "core/config/yaml.h"

static void free_words(char **words)
{
	for (char **w = words; w && *w; w++)
		free(*w);
	free(words);
}

void image_recipe_done(struct image_recipe *r)
{
	free(r->name);
	free(r->suite);
	free(r->workdir);
	free(r->packages);
	free_words(r->env);
	free_words(r->cmd);
	*r = (struct image_recipe){0};
}

static int read_file(const char *path, struct buf *b, struct cell_error *err)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return cell_error_hint(err,
			cell_fail_errno(err, errno, "open the recipe '%s'", path),
			"a recipe is a YAML file, or a directory with recipe.yaml in it");
	do {
		if (buf_reserve(b, 4096 + 1) < 0)
			return cell_fail(err, CELL_ELIMIT, 0, "the recipe '%s' is too large", path);
		n = read(fd, b->data + b->len, 4096);
		if (n < 0)
			return cell_fail_errno(err, errno, "read the recipe '%s'", path);
		b->len += (size_t)n;
	} while (n > 0);
	return 0;
}

/* ---- values ---- */

/* What goes to a shell script as a word: plain letters, or it is refused. */
static bool is_plain(const char *s, const char *others)
{
	if (!isalnum((unsigned char)*s))
		return false;
	for (; *s; s++) {
		if (!isalnum((unsigned char)*s) && !strchr(others, *s))
			return false;
	}
	return true;
}

static int take_text(const struct node *n, const char *others, char **ret, struct cell_error *err)
{
	if (!node_is_scalar(n) || !n->text || !*n->text)
		return node_fail(err, n, "'%s' is a text", n->key);
	if (others && !is_plain(n->text, others))
		return node_fail(err, n, "'%s': %s has characters that do not belong there", n->key,
			QUOTE(n->text));
	free(*ret);
	*ret = strdup(n->text);
	return *ret ? 0 : config_no_memory(err);
}

static int take_packages(const struct node *n, char **ret, struct cell_error *err)
{
	auto_buf struct buf b = BUF_INIT(65536);

	if (n->kind != NODE_LIST)
		return node_fail(err, n, "'packages' is a list of Debian packages");
	for (size_t i = 0; i < n->n_items; i++) {
		const struct node *p = n->items[i];

		if (!node_is_scalar(p) || !p->text || !is_plain(p->text, "+-.:"))
			return node_fail(err, p, "this is no name of a Debian package");
		if (buf_addf(&b, "%s%s", i ? "," : "", p->text) < 0)
			return node_fail(err, p, "too many packages");
	}
	free(*ret);
	*ret = buf_steal(&b);
	return *ret ? 0 : config_no_memory(err);
}

static int take_words(const struct node *n, char ***ret, struct cell_error *err)
{
	if (n->kind != NODE_LIST)
		return node_fail(err, n, "'%s' is a list", n->key);
	char **words = calloc(n->n_items + 1, sizeof *words);
	if (!words)
		return config_no_memory(err);
	for (size_t i = 0; i < n->n_items; i++) {
		const struct node *w = n->items[i];
		bool is_text = node_is_scalar(w) && w->text;

		words[i] = is_text ? strdup(w->text) : NULL;
		if (!words[i]) {
			free_words(words);
			return is_text ? config_no_memory(err)
				       : node_fail(err, w, "a word is expected here");
		}
	}
	free_words(*ret);
	*ret = words;
	return 0;
}

/* As in cell.yaml: a mapping. */
static int take_env(const struct node *n, char ***ret, struct cell_error *err)
{
	if (n->kind != NODE_MAP)
		return node_fail(err, n, "'env' is a mapping of names to values");
	char **words = calloc(n->n_items + 1, sizeof *words);
	int r = words ? 0 : config_no_memory(err);
	for (size_t i = 0; r == 0 && i < n->n_items; i++) {
		const struct node *v = n->items[i];

		if (!node_is_scalar(v) || !v->text || strchr(v->key, '='))
			r = node_fail(err, v, "'%s' has no value that a variable can have", v->key);
		else if (asprintf(&words[i], "%s=%s", v->key, v->text) < 0)
			words[i] = NULL, r = config_no_memory(err);
	}
	free_words(r == 0 ? *ret : words);
	if (r == 0)
		*ret = words;
	return r;
}

static int take(const struct node *n, struct image_recipe *ret, struct cell_error *err)
{
	if (!strcmp(n->key, "name"))
		return take_text(n, "._-/:", &ret->name, err);
	if (!strcmp(n->key, "suite"))
		return take_text(n, "._-", &ret->suite, err);
	if (!strcmp(n->key, "workdir"))
		return take_text(n, NULL, &ret->workdir, err);
	if (!strcmp(n->key, "packages"))
		return take_packages(n, &ret->packages, err);
	if (!strcmp(n->key, "env"))
		return take_env(n, &ret->env, err);
	if (!strcmp(n->key, "cmd"))
		return take_words(n, &ret->cmd, err);
	return cell_error_hint(err, node_fail_key(err, n, "unknown key %s", QUOTE(n->key)),
		"a recipe has name, suite, packages, env, workdir, cmd");
}

int image_recipe_read(const char *path, struct image_recipe *ret, struct cell_error *err)
{
	auto_buf struct buf text = BUF_INIT(YAML_MAX_BYTES);
	auto_free char *file = NULL;
	auto_node struct node *root = NULL;
	struct stat st;

	*ret = (struct image_recipe){0};
	bool is_dir = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
	if (asprintf(&file, "%s%s", path, is_dir ? "/recipe.yaml" : "") < 0) {
		file = NULL;
		return config_no_memory(err);
	}
	struct source source = {.kind = SOURCE_FILE, .name = file};
	int r = read_file(file, &text, err);
	if (r == 0)
		r = yaml_parse(buf_str(&text), text.len, &source, &root, err);
	if (r == 0 && (!root || root->kind != NODE_MAP))
		r = cell_fail(err, CELL_EINVAL, 0, "%s: a recipe is a mapping", file);
	for (size_t i = 0; r == 0 && i < root->n_items; i++)
		r = take(root->items[i], ret, err);
	if (r == 0 && (!ret->name || !ret->suite))
		r = cell_fail(err, CELL_EINVAL, 0, "%s: a recipe has a name and a suite", file);
	if (r < 0)
		image_recipe_done(ret);
	return r;
}
