/* SPDX-License-Identifier: Apache-2.0 */
/* defaults.c: what an image says about commands run from it, laid under what the spec says: as
 * `docker run` does. What it would run itself, and as whom, is for whoever looks at the cell: commands are the caller's, and there is
 * one user. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/cell.h"
#include "core/env.h"
#include "core/record.h"

/* An image is foreign: what is no variable is passed over, as Docker does. */
static bool is_variable(const char *text)
{
	return *text && *text != '=' && strchr(text, '=');
}

static size_t count(char *const *list)
{
	size_t n = 0;

	while (list && list[n])
		n++;
	return n;
}

static int take_env(struct cell *c, const struct cell_spec *spec, char *const *env,
	struct cell_error *err)
{
	size_t n_env = count(env), n_spec = 0, n = 0;
	char **composed = NULL;

	while (spec->env && spec->env[n_spec])
		n_spec++;
	if (!n_env)
		return 0;
	auto_free const char **all = calloc(n_env + n_spec + 1, sizeof *all);
	if (!all)
		return cell_fail_errno(err, ENOMEM, "take over the image's environment");
	for (size_t i = 0; i < n_env; i++)
		if (is_variable(env[i]))
			all[n++] = env[i];
	for (size_t i = 0; i < n_spec; i++)
		all[n++] = spec->env[i];
	int r = cell_env_compose(spec->env_from, environ, all, &composed, err);
	if (r < 0)
		return r;
	cell_env_free(c->env);
	c->env = composed;
	if (cell_record_set_list(c->record, "env", (const char *const *)c->env) < 0)
		return cell_fail_errno(err, ENOMEM, "take over the image's environment");
	return 0;
}

static int take_cwd(struct cell *c, const struct cell_spec *spec, const char *cwd,
	struct cell_error *err)
{
	/* a workspace of the host was given to be worked in */
	if (spec->cwd || spec->workspace || !cwd || *cwd != '/')
		return 0;
	char *copy = strdup(cwd);
	if (!copy || cell_record_set_str(c->record, "cwd", cwd) < 0) {
		free(copy);
		return cell_fail_errno(err, ENOMEM, "take over the image's directory");
	}
	free(c->cwd);
	c->cwd = copy;
	return 0;
}

static int note_words(struct cell *c, const char *key, char *const *words, struct cell_error *err)
{
	auto_buf struct buf text = BUF_INIT(64 * 1024);

	for (size_t i = 0; words && words[i]; i++)
		if (buf_addf(&text, "%s%s", i ? " " : "", words[i]) < 0)
			break; /* told for information only */
	return text.len ? cell_note_set(c, key, buf_str(&text), err) : 0;
}

static int note(struct cell *c, const char *key, const char *text, struct cell_error *err)
{
	return text && *text ? cell_note_set(c, key, text, err) : 0;
}

int cell_take_image(struct cell *c, const struct cell_spec *spec,
	const struct cell_image_facts *image, struct cell_error *err)
{
	int r = take_env(c, spec, image->env, err);

	if (r == 0)
		r = take_cwd(c, spec, image->cwd, err);
	if (r == 0)
		r = note(c, "image", image->id, err);
	if (r == 0)
		r = note(c, "image_digest", image->digest, err);
	if (r == 0)
		r = note_words(c, "image_entrypoint", image->entrypoint, err);
	if (r == 0)
		r = note_words(c, "image_cmd", image->cmd, err);
	return r < 0 ? r : note(c, "image_user", image->user, err);
}
