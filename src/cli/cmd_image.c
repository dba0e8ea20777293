/* SPDX-License-Identifier: Apache-2.0 */
/* cell image: the images of this machine: what cells with --image are made of. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/args.h"
#include "cli/image_build.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/units.h"
#include "core/image/image.h"
#include "distribution/pull.h"

/* ---- ls ---- */

static json_t *image_json(const struct cell_image_info *i)
{
	json_t *names = json_array();

	for (char **n = i->names; n && *n; n++)
		json_array_append_new(names, json_string(*n));
	return json_pack("{s:s, s:o, s:I, s:I}", "digest", i->digest, "names", names, "layers",
		(json_int_t)i->n_layers, "bytes", (json_int_t)i->bytes);
}

static void add_rows(struct cli_table *t, const struct cell_image_info *i)
{
	char size[CLI_UNIT_MAX];
	static const char *const none[] = {"-", NULL};

	for (const char *const *n = i->names && i->names[0] ? (const char *const *)i->names : none;
		*n; n++) {
		cli_table_add(t, *n);
		cli_table_addf(t, "%.19s", i->digest);
		cli_table_addf(t, "%zu", i->n_layers);
		cli_table_add(t, cli_format_size(size, i->bytes));
	}
}

static int ls(struct cli *cli, const struct cli_args *args)
{
	static const char *const titles[] = {"NAME", "DIGEST", "LAYERS", "SIZE", NULL};
	struct cell_image_info *list = NULL;
	struct cell_error err = {0};
	struct cli_table t;
	size_t n = 0;

	if (cli_args_count(args, 0, 0, &err) < 0 || cell_image_list(&list, &n, &err) < 0)
		return cli_fail(cli, &err);
	json_t *all = json_array();
	cli_table_init(&t, titles);
	for (size_t i = 0; i < n; i++) {
		if (cli->is_json)
			json_array_append_new(all, image_json(&list[i]));
		else if (cli->is_quiet)
			(void)puts(list[i].digest);
		else
			add_rows(&t, &list[i]);
	}
	cell_image_list_free(list, n);
	if (cli->is_json) {
		cli_table_done(&t);
		return cli_print_json(cli, json_pack("{s:o}", "images", all));
	}
	json_decref(all);
	if (cli->is_quiet)
		cli_table_done(&t);
	else
		cli_table_print(&t, cli);
	return cli_flush(cli);
}

static const struct cli_verb ls_verb = {
	.name = "ls",
	.of = "image",
	.usage = "[OPTION...]",
	.summary = "list images",
	.about = "Lists the images in the store of this machine, each name on a line of its own. "
		 "Layers that "
		 "images share are kept once and counted for each. With --quiet only the digests.",
	.examples = "cell image ls\ncell image ls --json",
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = ls,
};

/* ---- pull ---- */

static bool is_stopped(void *arg)
{
	(void)arg;
	return cli_signals_stop() != 0;
}

static void show(void *arg, uint64_t bytes, uint64_t total)
{
	struct cli_progress *p = arg;

	p->total = total;
	cli_progress_update(p, bytes);
}

static int say_pulled(const struct cli *cli, const char *reference, const struct pulled *p)
{
	char size[CLI_UNIT_MAX];

	if (cli->is_json) {
		char manifest[DIGEST_HEX + 8];

		(void)snprintf(manifest, sizeof manifest, "sha256:%s", p->manifest);
		return cli_print_json(cli,
			json_pack("{s:s, s:s, s:s, s:I, s:I, s:I}", "name", reference, "manifest",
				manifest, "digest", p->image, "layers", (json_int_t)p->n_layers,
				"fetched", (json_int_t)p->n_fetched, "bytes",
				(json_int_t)p->bytes));
	}
	(void)puts(p->image);
	cli_note(cli, "%s: %zu of %zu layers fetched, %s; to pin it: @sha256:%s", reference,
		p->n_fetched, p->n_layers, cli_format_size(size, p->bytes), p->manifest);
	return cli_flush(cli);
}

static int pull(struct cli *cli, const struct cli_args *args)
{
	struct cli_progress bar;
	struct pulled p;
	struct cell_error err = {0};
	struct pull_options o = {
		.registry = {.is_insecure = cli_args_has(args, "insecure"),
			.ca_file = cli->ca_file,
			.is_cancelled = is_stopped},
		.progress = show,
		.arg = &bar,
	};

	if (cli_args_count(args, 1, 1, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_catch();
	cli_progress_init(&bar, cli, args->operands[0], 0);
	int r = image_pull(args->operands[0], &o, &p, &err);
	cli_progress_end(&bar);
	if (r < 0 && cli_signals_stop())
		return CLI_EXIT_SIGNAL + cli_signals_stop();
	return r < 0 ? cli_fail(cli, &err) : say_pulled(cli, args->operands[0], &p);
}

static const struct cli_option pull_options[] = {
	{"insecure", 0, NULL,
		"speak plain HTTP to it, which anybody on the way can read and change; a registry "
		"on this "
		"machine needs no such permission"},
	{0},
};

static const struct cli_verb pull_verb = {
	.name = "pull",
	.of = "image",
	.usage = "[OPTION...] REFERENCE",
	.summary = "fetch an image from a registry",
	.about = "Fetches the image for this machine's architecture and keeps it under the name "
		 "given, so that "
		 "'cell run --image REFERENCE' finds it. Every part is checked against its digest; "
		 "layers that "
		 "are here already are not fetched. REFERENCE is written as for Docker: "
		 "python:3.11, "
		 "ghcr.io/owner/name:tag, host:5000/name@sha256:...\n\n"
		 "Credentials come from where `docker login` and `podman login` keep them: "
		 "$REGISTRY_AUTH_FILE, "
		 "~/.docker/config.json ($DOCKER_CONFIG), containers/auth.json, and the helper "
		 "programs these "
		 "name. --ca names the certificates to trust instead of the system's.",
	.examples = "cell image pull debian:12-slim\n"
		    "cell image pull registry.example:5000/team/base@sha256:0123...",
	.groups = {pull_options},
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = pull,
};

/* ---- import ---- */

static int import(struct cli *cli, const struct cli_args *args)
{
	char digest[CELL_IMAGE_DIGEST_CAP];
	const char *name = cli_args_value(args, "name");
	struct cell_error err = {0};

	if (cli_args_count(args, 1, 1, &err) < 0 ||
		cell_image_import(args->operands[0], name, NULL, digest, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->is_json)
		return cli_print_json(cli,
			json_pack("{s:s, s:s*}", "digest", digest, "name", name));
	(void)puts(digest);
	return cli_flush(cli);
}

static const struct cli_option import_options[] = {
	{"name", 'n', "NAME", "what to call it: tools/python:3.12"},
	{0},
};

static const struct cli_verb import_verb = {
	.name = "import",
	.of = "image",
	.usage = "[OPTION...] PATH",
	.summary = "take an image from a file or directory",
	.about = "PATH is a tarball of a root file system, an OCI image layout (directory or "
		 "tarball) or what "
		 "'docker save' writes; gzip and zstd are understood. It is unpacked into the "
		 "store, every digest "
		 "checked; no path, link or device in it can reach anything outside.",
	.examples = "docker save python:3.11 > p.tar; cell image import -n python:3.11 p.tar\n"
		    "cell image import --name base rootfs.tar.zst",
	.groups = {import_options},
	.operands = {CLI_FILE},
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = import,
};

/* ---- build ---- */

static int build(struct cli *cli, const struct cli_args *args)
{
	struct cell_error err = {0};
	const struct image_build b = {
		.recipe = args->n_operands ? args->operands[0] : NULL,
		.name = cli_args_value(args, "name"),
		.mirror = cli_args_value(args, "mirror"),
		.output = cli_args_value(args, "output"),
	};
	char digest[CELL_IMAGE_DIGEST_CAP] = "";

	if (cli_args_count(args, 1, 1, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_catch();
	int r = image_build(cli, &b, digest, &err);
	if (r < 0 && cli_signals_stop())
		return CLI_EXIT_SIGNAL + cli_signals_stop();
	if (r < 0)
		return cli_fail(cli, &err);
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:s}", "digest", digest));
	(void)puts(digest);
	return cli_flush(cli);
}

static const struct cli_option build_options[] = {
	{"name", 'n', "NAME", "what to call it (default: the recipe's name)"},
	{"mirror", 0, "URL",
		"the Debian archive to take packages from (default: this machine's own)"},
	{"output", 'o', "FILE",
		"write the image as an OCI layout tarball as well, for other programs",
		.kind = CLI_FILE},
	{0},
};

static const struct cli_verb build_verb = {
	.name = "build",
	.of = "image",
	.usage = "[OPTION...] RECIPE",
	.summary = "make an image from Debian packages",
	.about = "RECIPE is a YAML file, or a directory with recipe.yaml in it: a suite, packages, "
		 "environment. "
		 "The image is made with debootstrap, without Docker; the same packages give the "
		 "same "
		 "digest. Needs root and the package debootstrap.",
	.examples =
		"sudo cell image build images/base\n"
		"sudo cell image build --output base.tar images/base && docker load -i base.tar",
	.groups = {build_options},
	.operands = {CLI_FILE},
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = build,
};

/* ---- rm, prune, verify ---- */

static int each(struct cli *cli, const struct cli_args *args,
	int (*fn)(const char *ref, struct cell_error *err), const char *done)
{
	struct cell_error err = {0};
	json_t *list = json_array();
	int r = cli_args_count(args, 1, CLI_MANY, &err);

	for (size_t i = 0; r == 0 && i < args->n_operands; i++) {
		r = fn(args->operands[i], &err);
		if (r == 0)
			json_array_append_new(list, json_string(args->operands[i]));
		if (r == 0 && !cli->is_json && !cli->is_quiet)
			(void)printf("%s\n", args->operands[i]);
	}
	if (r < 0) {
		json_decref(list);
		return cli_fail(cli, &err);
	}
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:o}", done, list));
	json_decref(list);
	return cli_flush(cli);
}

static int rm(struct cli *cli, const struct cli_args *args)
{
	return each(cli, args, cell_image_remove, "removed");
}

static int verify(struct cli *cli, const struct cli_args *args)
{
	return each(cli, args, cell_image_verify, "verified");
}

static int prune(struct cli *cli, const struct cli_args *args)
{
	struct cell_error err = {0};
	uint64_t bytes = 0;
	char size[CLI_UNIT_MAX];

	if (cli_args_count(args, 0, 0, &err) < 0 || cell_image_prune(&bytes, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:I}", "bytes", (json_int_t)bytes));
	if (!cli->is_quiet)
		(void)printf("%s freed\n", cli_format_size(size, bytes));
	return cli_flush(cli);
}

static const struct cli_verb rm_verb = {
	.name = "rm",
	.of = "image",
	.usage = "NAME|DIGEST...",
	.summary = "remove images",
	.about =
		"A name is taken away, and the image with it when it has no other; a digest takes "
		"all its names "
		"along. An image that a cell uses stays. Its layers stay until 'cell image prune'.",
	.examples = "cell image rm python:3.11",
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = rm,
};

static const struct cli_verb prune_verb = {
	.name = "prune",
	.of = "image",
	.usage = "",
	.summary = "free what no image needs",
	.about = "Removes layers that no image has, and what interrupted imports left.",
	.examples = "cell image prune",
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = prune,
};

static const struct cli_verb verify_verb = {
	.name = "verify",
	.of = "image",
	.usage = "NAME|DIGEST...",
	.summary = "check that images are what was unpacked",
	.about = "Reads every file of every layer and compares it with what was written down when "
		 "it was "
		 "unpacked: content, names, modes, owners. The first layer that differs is named.",
	.examples = "cell image verify python:3.11",
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.run = verify,
};

static const struct cli_verb *const verbs[] = {
	&ls_verb, &pull_verb, &build_verb, &import_verb, &rm_verb, &prune_verb, &verify_verb, NULL};

const struct cli_verb cli_verb_image = {
	.name = "image",
	.usage = "VERB [OPTION...]",
	.summary = "fetch, build, list and remove images",
	.about = "An image is what a cell's root file system is made of. Images are kept unpacked, "
		 "by digest, in "
		 "one store ($CELL_IMAGE_DIR, or images/ in the state directory) that all back "
		 "ends which can use them share.",
	.examples = "cell image pull python:3.11-slim\n"
		    "cell run --image python:3.11-slim -- python3 -V",
	.operands = {CLI_VERB},
	.head = CLI_NO_COMMAND,
	.is_here = true,
	.verbs = verbs,
};
