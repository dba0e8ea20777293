/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of verbs and options hold together: help, man pages and completion rest on them. */
#include <ctype.h>

#include "cell/config.h"

#include "cli/args.h"
#include "cli/help.h"
#include "test.h"

#define HELP_COLUMNS 80

static void each_verb(const struct cli_verb *const *verbs, void (*fn)(const struct cli_verb *v))
{
	for (; verbs && *verbs; verbs++) {
		fn(*verbs);
		each_verb((*verbs)->verbs, fn);
	}
}

struct seen {
	const struct cli_verb *verb;
	const char *names[128];
	size_t n;
	char letters[128];
};

static int check_option(const struct cli_option *o, void *user)
{
	struct seen *s = user;
	size_t len = strlen(o->help);

	for (size_t i = 0; i < s->n; i++)
		CHECK_(strcmp(s->names[i], o->name), "%s has --%s twice", s->verb->name, o->name);
	s->names[s->n++] = o->name;
	if (o->letter) {
		CHECK_(!strchr(s->letters, o->letter), "%s has -%c twice", s->verb->name,
			o->letter);
		s->letters[strlen(s->letters)] = o->letter;
	}
	for (const char *p = o->name; *p; p++)
		ASSERT(islower((unsigned char)*p) || *p == '-');
	CHECK_(len && o->help[len - 1] != '.', "help of --%s ends with a full stop", o->name);
	CHECK_(!o->choices || ((o->kind == CLI_CHOICE || o->kind == CLI_FILE) && o->arg),
		"choices of --%s", o->name);
	CHECK_(o->kind != CLI_CHOICE || o->choices, "--%s has no choices", o->name);
	CHECK_(!o->key || o->arg || o->fixed, "--%s sets %s to nothing", o->name, o->key);
	return 0;
}

static void check_verb(const struct cli_verb *v)
{
	struct seen s = {.verb = v};
	char title[CLI_TITLE_MAX];

	ASSERT(v->name && v->usage && v->summary && v->about);
	CHECK_(v->examples || v->is_hidden, "%s has no example", v->name);
	CHECK_(!v->run == !!v->verbs, "%s has both or neither", v->name);
	cli_verb_title(v, title);
	ASSERT(strlen(title) < CLI_TITLE_MAX - 1);
	cli_options_each(v, check_option, &s);
	for (const struct cli_verb *const *inner = v->verbs; inner && *inner; inner++)
		ASSERT_STR((*inner)->of, v->name);
}

TEST(every_verb_is_complete_and_has_no_option_twice)
{
	each_verb(cli_verbs, check_verb);
}

static void check_example(const struct cli_verb *v)
{
	for (const char *line = v->examples; line && *line;
		line += strcspn(line, "\n") + (strchr(line, '\n') != NULL))
		CHECK_(strcspn(line, "\n") + 2 <= HELP_COLUMNS, "example of %s is too wide",
			v->name);
}

TEST(no_example_is_wider_than_the_page)
{
	each_verb(cli_verbs, check_example);
}

static void check_help(const struct cli_verb *v)
{
	struct cli cli = {.verbs = cli_verbs};
	char line[512], *found;
	FILE *f = tmpfile();
	int saved;

	ASSERT(f);
	fflush(stdout);
	saved = dup(STDOUT_FILENO);
	dup2(fileno(f), STDOUT_FILENO);
	ASSERT(cli_help_verb(&cli, v) == 0);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	rewind(f);
	while (fgets(line, sizeof(line), f)) {
		found = strchr(line, '\n');
		ASSERT(found);
		CHECK_(found - line <= HELP_COLUMNS, "help of %s is too wide: %s", v->name, line);
	}
	fclose(f);
}

TEST(no_help_is_wider_than_the_page)
{
	each_verb(cli_verbs, check_help);
}

/* A value each key takes. */
static const char *value_for(const struct cli_option *o)
{
	static char word[64];
	static const struct {
		const char *name, *value;
	} values[] = {{"backend", "local"}, {"name", "web"}, {"mount", "/tmp:/data:ro"},
		{"env", "A=1"}, {"timeout", "1s"}, {"memory", "512m"}, {"disk", "1g"},
		{"file-size", "1g"}, {"process-memory", "1g"}, {"cpu-time", "10"}, {"label", "a=b"},
		{"allow", "example.org"}, {"need", "exec"}, {"limits", "true"},
		{"net-private", "10.1.2.0/24:443"}, {"dns", "9.9.9.9"}};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		if (!strcmp(values[i].name, o->name))
			return values[i].value;
	if (o->fixed)
		return o->fixed;
	if (o->choices) {
		snprintf(word, sizeof(word), "%.*s", (int)strcspn(o->choices, " "), o->choices);
		return word;
	}
	return "4";
}

TEST(every_option_of_a_cell_sets_a_key_the_configuration_knows)
{
	struct cell_config_args how = {.no_files = true, .no_env = true};
	struct cell_error err = {0};

	for (const struct cli_option *o = cli_spec_options; o->name; o++) {
		struct cell_config *cfg = NULL;
		ASSERT_OK(cell_config_load(&how, &cfg, &err));
		ASSERT(o->key);
		CHECK_(cell_config_set(cfg, o->key, value_for(o), o->name, &err) == 0, "--%s: %s",
			o->name, err.msg);
		cell_config_free(cfg);
	}
}

TEST(verbs_are_found_and_mistyped_ones_are_hinted_at)
{
	const struct cli_verb *v = NULL;
	struct cell_error err = {0};

	ASSERT_OK(cli_verb_find(cli_verbs, NULL, "exec", &v, &err));
	ASSERT(v == &cli_verb_exec);
	ASSERT(cli_verb_find(cli_verbs, NULL, "exce", &v, &err) < 0);
	ASSERT(strstr(err.hint, "'cell exec'"));
	ASSERT(cli_verb_find(cli_verb_file.verbs, &cli_verb_file, "raed", &v, &err) < 0);
	ASSERT(strstr(err.hint, "'cell file read'"));
	ASSERT(cli_verb_find(NULL, &cli_verb_run, "x", &v, &err) < 0);
}
