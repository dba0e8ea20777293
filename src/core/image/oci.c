/* SPDX-License-Identifier: Apache-2.0 */
/* oci.c: see oci.h. */
#include "core/image/oci.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "core/image/image.h"

#if defined(__x86_64__)
#define OUR_ARCH "amd64"
#else
#define OUR_ARCH "arm64"
#endif
#define MAX_WORDS   4096
#define MAX_ENTRIES 1024

static int bad(struct cell_error *err, const char *what)
{
	return cell_fail(err, CELL_EINVAL, 0, "read the image: %s", what);
}

static int no_memory(struct cell_error *err)
{
	return cell_fail_errno(err, ENOMEM, "read the image");
}

static int load(const char *text, size_t len, json_t **ret, struct cell_error *err)
{
	json_error_t e;

	if (len > OCI_MAX_JSON)
		return cell_fail(err, CELL_ELIMIT, 0, "read the image: its JSON has over %u bytes",
			OCI_MAX_JSON);
	*ret = json_loadb(text, len, JSON_REJECT_DUPLICATES, &e);
	if (!*ret)
		return cell_fail(err, CELL_EINVAL, 0,
			"read the image: its JSON, line %d, column %d: %.120s", e.line, e.column,
			e.text);
	return 0;
}

static const char *get_text(json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static void free_words(char **words)
{
	for (char **w = words; w && *w; w++)
		free(*w);
	free(words);
}

/* A list of strings, copied; NULL for none. */
static int get_words(json_t *o, const char *key, char ***ret, struct cell_error *err)
{
	json_t *list = json_object_get(o, key), *v;
	size_t i;

	*ret = NULL;
	if (!list || json_is_null(list))
		return 0;
	if (!json_is_array(list) || json_array_size(list) > MAX_WORDS)
		return cell_fail(err, CELL_EINVAL, 0, "read the image: '%s' is no list of strings",
			key);
	char **words = calloc(json_array_size(list) + 1, sizeof *words);
	if (!words)
		return no_memory(err);
	json_array_foreach (list, i, v) {
		words[i] = json_is_string(v) ? strdup(json_string_value(v)) : NULL;
		if (!words[i]) {
			free_words(words);
			return json_is_string(v)
				       ? no_memory(err)
				       : cell_fail(err, CELL_EINVAL, 0,
						 "read the image: '%s' is no list of strings", key);
		}
	}
	*ret = words;
	return 0;
}

static int get_word(json_t *o, const char *key, char **ret, struct cell_error *err)
{
	json_t *v = json_object_get(o, key);

	*ret = NULL;
	if (!v || json_is_null(v))
		return 0;
	if (!json_is_string(v))
		return cell_fail(err, CELL_EINVAL, 0, "read the image: '%s' is no string", key);
	if (!*json_string_value(v))
		return 0;
	*ret = strdup(json_string_value(v));
	return *ret ? 0 : no_memory(err);
}

static int get_blob(json_t *o, struct oci_blob *ret, struct cell_error *err)
{
	const char *digest = get_text(o, "digest");
	json_t *size = json_object_get(o, "size");

	if (!digest || !digest_parse(digest))
		return bad(err, "a descriptor has no SHA-256 digest");
	if (!json_is_integer(size) || json_integer_value(size) < 0)
		return bad(err, "a descriptor has no size");
	memcpy(ret->hex, digest_parse(digest), DIGEST_HEX + 1);
	ret->size = (uint64_t)json_integer_value(size);
	return 0;
}

static bool is_index_type(const char *type)
{
	return type && (strcmp(type, "application/vnd.oci.image.index.v1+json") == 0 ||
			       strstr(type, "manifest.list."));
}

/* One without a platform fits any machine; its configuration is looked at later. */
static bool does_fit(json_t *o)
{
	json_t *p = json_object_get(o, "platform");

	if (!p)
		return true;
	const char *os = get_text(p, "os"), *arch = get_text(p, "architecture");
	return os && arch && strcmp(os, "linux") == 0 && strcmp(arch, OUR_ARCH) == 0;
}

static int choose_manifest(json_t *root, struct oci_blob *ret, bool *is_index,
	struct cell_error *err)
{
	json_t *list = json_object_get(root, "manifests"), *o;
	struct oci_blob b;
	size_t i, fitting = 0;

	if (!json_is_array(list) || json_array_size(list) > MAX_ENTRIES)
		return bad(err, "its index has no list of manifests");
	json_array_foreach (list, i, o) {
		int r = get_blob(o, &b, err);
		if (r < 0)
			return r;
		if (!does_fit(o) || (fitting > 0 && strcmp(b.hex, ret->hex) == 0))
			continue;
		if (fitting++ > 0) {
			r = bad(err, "it holds more than one image");
			return cell_error_hint(err, r, "save one image to a file of its own");
		}
		*ret = b;
		*is_index = is_index_type(get_text(o, "mediaType"));
	}
	if (fitting == 0)
		return cell_fail(err, CELL_ENOTSUP, 0,
			"read the image: it has nothing for linux/" OUR_ARCH);
	return 0;
}

int oci_index_parse(const char *text, size_t len, struct oci_blob *ret, bool *is_index,
	struct cell_error *err)
{
	json_t *root;

	int r = load(text, len, &root, err);
	if (r < 0)
		return r;
	r = choose_manifest(root, ret, is_index, err);
	json_decref(root);
	return r;
}

static int read_manifest(json_t *root, struct oci_manifest *m, struct cell_error *err)
{
	json_t *layers = json_object_get(root, "layers"), *o;
	size_t i;

	int r = get_blob(json_object_get(root, "config"), &m->config, err);
	if (r < 0)
		return r;
	if (!json_is_array(layers))
		return bad(err, "its manifest has no list of layers");
	if (json_array_size(layers) > CELL_IMAGE_MAX_LAYERS)
		return cell_fail(err, CELL_ELIMIT, 0, "read the image: it has over %u layers",
			CELL_IMAGE_MAX_LAYERS);
	m->layers = calloc(json_array_size(layers) + 1, sizeof *m->layers);
	if (!m->layers)
		return no_memory(err);
	json_array_foreach (layers, i, o) {
		r = get_blob(o, &m->layers[i], err);
		if (r < 0)
			return r;
		m->n_layers++;
	}
	return 0;
}

int oci_manifest_parse(const char *text, size_t len, struct oci_manifest *ret,
	struct cell_error *err)
{
	struct oci_manifest m = {0};
	json_t *root;

	int r = load(text, len, &root, err);
	if (r < 0)
		return r;
	r = read_manifest(root, &m, err);
	json_decref(root);
	if (r < 0) {
		oci_manifest_done(&m);
		return r;
	}
	*ret = m;
	return 0;
}

void oci_manifest_done(struct oci_manifest *m)
{
	free(m->layers);
	*m = (struct oci_manifest){0};
}

int docker_manifest_parse(const char *text, size_t len, struct docker_manifest *ret,
	struct cell_error *err)
{
	struct docker_manifest m = {0};
	json_t *root;

	int r = load(text, len, &root, err);
	if (r < 0)
		return r;
	json_t *first = json_array_get(root, 0);
	if (!json_is_object(first)) {
		r = bad(err, "its manifest.json lists no image");
	} else if (json_array_size(root) > 1) {
		r = bad(err, "it holds more than one image");
		r = cell_error_hint(err, r, "save one image to a file of its own");
	} else {
		r = get_word(first, "Config", &m.config, err);
		if (r == 0)
			r = get_words(first, "Layers", &m.layers, err);
		if (r == 0 && (!m.config || !m.layers))
			r = bad(err, "its manifest.json names no configuration or no layers");
	}
	json_decref(root);
	while (m.layers && m.layers[m.n_layers])
		m.n_layers++;
	if (r == 0 && m.n_layers > CELL_IMAGE_MAX_LAYERS)
		r = cell_fail(err, CELL_ELIMIT, 0, "read the image: it has over %u layers",
			CELL_IMAGE_MAX_LAYERS);
	if (r < 0)
		docker_manifest_done(&m);
	else
		*ret = m;
	return r;
}

void docker_manifest_done(struct docker_manifest *m)
{
	free(m->config);
	free_words(m->layers);
	*m = (struct docker_manifest){0};
}

/* is_plain: bare hex digits, as in our records. */
static int get_layers(json_t *list, bool is_plain, struct oci_config *c, struct cell_error *err)
{
	json_t *v;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) > CELL_IMAGE_MAX_LAYERS)
		return bad(err, "its configuration has no fitting list of layers");
	c->layers = calloc(json_array_size(list) + 1, sizeof *c->layers);
	if (!c->layers)
		return no_memory(err);
	json_array_foreach (list, i, v) {
		const char *s = json_string_value(v);
		const char *hex = !s		     ? NULL
				  : !is_plain	     ? digest_parse(s)
				  : digest_is_hex(s) ? s
						     : NULL;
		if (!hex)
			return bad(err, "a layer in its configuration has no SHA-256 digest");
		memcpy(c->layers[c->n_layers++], hex, DIGEST_HEX + 1);
	}
	return 0;
}

static int get_settings(json_t *o, const char *const keys[5], struct oci_config *c,
	struct cell_error *err)
{
	int r = get_words(o, keys[0], &c->env, err);

	if (r == 0)
		r = get_words(o, keys[1], &c->entrypoint, err);
	if (r == 0)
		r = get_words(o, keys[2], &c->cmd, err);
	if (r == 0)
		r = get_word(o, keys[3], &c->cwd, err);
	return r < 0 ? r : get_word(o, keys[4], &c->user, err);
}

static int check_platform(json_t *root, struct cell_error *err)
{
	const char *os = get_text(root, "os"), *arch = get_text(root, "architecture");

	if ((os && strcmp(os, "linux") != 0) || (arch && strcmp(arch, OUR_ARCH) != 0))
		return cell_fail(err, CELL_ENOTSUP, 0,
			"read the image: it is for '%.32s/%.32s', this is linux/" OUR_ARCH,
			os ? os : "?", arch ? arch : "?");
	return 0;
}

int oci_settings_read(json_t *config, struct oci_config *ret, struct cell_error *err)
{
	static const char *const keys[] = {"Env", "Entrypoint", "Cmd", "WorkingDir", "User"};
	struct oci_config c = {0};
	int r = get_settings(config, keys, &c, err);

	if (r < 0)
		oci_config_done(&c);
	else
		*ret = c;
	return r;
}

int oci_config_parse(const char *text, size_t len, struct oci_config *ret, struct cell_error *err)
{
	struct oci_config c = {0};
	json_t *root;

	int r = load(text, len, &root, err);
	if (r < 0)
		return r;
	r = check_platform(root, err);
	if (r == 0)
		r = oci_settings_read(json_object_get(root, "config"), &c, err);
	if (r == 0)
		r = get_layers(json_object_get(json_object_get(root, "rootfs"), "diff_ids"), false,
			&c, err);
	json_decref(root);
	if (r < 0)
		oci_config_done(&c);
	else
		*ret = c;
	return r;
}

void oci_config_done(struct oci_config *c)
{
	free_words(c->env);
	free_words(c->entrypoint);
	free_words(c->cmd);
	free(c->cwd);
	free(c->user);
	free(c->layers);
	*c = (struct oci_config){0};
}

static const char *const record_keys[] = {"env", "entrypoint", "cmd", "cwd", "user"};

static json_t *to_list(char *const *words)
{
	json_t *list = words ? json_array() : json_null();

	for (; words && *words && list; words++) {
		if (json_array_append_new(list, json_string(*words)) < 0) {
			json_decref(list);
			return NULL;
		}
	}
	return list;
}

int image_record_write(const struct oci_config *c, char **ret, struct cell_error *err)
{
	json_t *layers = json_array();
	bool is_bad = !layers;

	for (size_t i = 0; i < c->n_layers; i++)
		is_bad |= json_array_append_new(layers, json_string(c->layers[i])) < 0;
	json_t *root = json_pack("{s:o?, s:o?, s:o?, s:o?, s:s?, s:s?, s:b}", "layers", layers,
		"env", to_list(c->env), "entrypoint", to_list(c->entrypoint), "cmd",
		to_list(c->cmd), "cwd", c->cwd, "user", c->user, "user_xattr", c->is_user_xattr);
	*ret = root && !is_bad ? json_dumps(root, JSON_INDENT(1)) : NULL;
	json_decref(root);
	return *ret ? 0 : no_memory(err);
}

int image_record_parse(const char *text, size_t len, struct oci_config *ret, struct cell_error *err)
{
	struct oci_config c = {0};
	json_t *root;

	int r = load(text, len, &root, err);
	if (r < 0)
		return r;
	r = get_settings(root, record_keys, &c, err);
	if (r == 0)
		r = get_layers(json_object_get(root, "layers"), true, &c, err);
	c.is_user_xattr = json_is_true(json_object_get(root, "user_xattr"));
	json_decref(root);
	if (r < 0)
		oci_config_done(&c);
	else
		*ret = c;
	return r;
}
