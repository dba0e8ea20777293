/* SPDX-License-Identifier: Apache-2.0 */
/* cell token: who may use the server. Works on the server's database, whether it runs or not; with --server on a
 * server elsewhere. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cells.h"
#include "cli/ledger.h"
#include "cli/output.h"
#include "cli/remote/ledger.h"
#include "cli/spec.h"
#include "cli/units.h"
#include "core/config/units.h"
#include "server/clock.h"
#include "server/outbox.h"
#include "server/settings.h"
#include "server/token.h"

struct office {
	struct cell_config *cfg;
	struct place place;
	struct db *db;
};

static void office_done(struct office *o)
{
	db_free(o->db);
	place_done(&o->place);
	cell_config_free(o->cfg);
}

static int office_open(const struct cli *cli, bool is_made, struct office *o,
	struct cell_error *err)
{
	if (cells->server) /* it has its own, and writes it down itself */
		return 0;
	int r = cli_place_find(cli, is_made, &o->cfg, &o->place, err);

	if (r == 0 && !is_made && access(o->place.db, F_OK) < 0)
		r = cell_error_hint(err,
			cell_fail(err, CELL_ENOTFOUND, ENOENT, "there are no tokens: no '%s'",
				o->place.db),
			"`cell token create` makes the first; --state-dir says where to look");
	if (r == 0)
		r = db_open(o->place.db, &o->db, err);
	if (r == 0)
		r = db_migrate(o->db, &tenant_module, err);
	if (r == 0)
		r = db_migrate(o->db, &token_module, err);
	return r < 0 ? r : db_migrate(o->db, &outbox_module, err);
}

/* A server that runs writes it down; otherwise we do. */
static void write_down(const struct cli *cli, struct office *o)
{
	struct audit_settings s = {.dir = o->place.audit_dir, .key_path = o->place.audit_key};
	struct audit *a = NULL;
	struct redact *redact = NULL;
	struct cell_error err = {0};

	if (cells->server)
		return;
	audit_settings_read(o->cfg, &s);
	int r = audit_redact_read(o->cfg, &redact, &err);
	s.redact = redact;
	if (r == 0)
		r = audit_open(&s, &a, &err);
	if (r == 0)
		r = outbox_drain(o->db, a, &err);
	if (r < 0 && r != -EBUSY)
		cli_note(cli, "not in the audit log yet: %s", err.msg);
	audit_free(a);
	redact_free(redact);
}

static int record(struct office *o, enum audit_kind kind, const char *action, const char *tenant,
	json_t *details, json_t *outcome, struct cell_error *err)
{
	char actor[64];
	struct audit_event e = {.kind = kind,
		.action = action,
		.tenant = tenant,
		.actor = actor,
		.details = details,
		.outcome = outcome};

	(void)snprintf(actor, sizeof actor, "uid:%u", (unsigned)getuid());
	int r = cells->server ? 0 : outbox_put(o->db, &e, err);
	json_decref(details);
	json_decref(outcome);
	return r;
}

static json_t *outcome_of(int r, const struct cell_error *err)
{
	return json_pack("{s:s}", "code", r < 0 ? cell_code_name(err->code) : "ok");
}

static void set_time(json_t *o, const char *name, int64_t ns)
{
	char text[CLOCK_TEXT_MAX];

	cli_json_string(o, name, ns ? clock_text(ns, text) : NULL);
}

static const char *state_of(const struct token *t)
{
	return t->revoked_ns					   ? "revoked"
	       : t->expires_ns && t->expires_ns <= clock_unix_ns() ? "expired"
								   : "valid";
}

static json_t *token_json(const struct token *t)
{
	json_t *o = json_object();

	cli_json_string(o, "id", t->id);
	cli_json_string(o, "tenant", t->tenant);
	cli_json_string(o, "role", token_role_name(t->role));
	cli_json_string(o, "label", t->label);
	cli_json_string(o, "state", state_of(t));
	set_time(o, "created", t->created_ns);
	set_time(o, "expires", t->expires_ns);
	set_time(o, "revoked", t->revoked_ns);
	set_time(o, "last_used", t->last_used_ns);
	return o;
}

static int read_spec(const struct cli_args *args, int64_t now_ns, struct token_spec *spec,
	struct cell_error *err)
{
	const char *role = cli_args_value(args, "role");
	const char *expires = cli_args_value(args, "expires");
	int place = role ? token_role_find(role) : (int)TOKEN_USER;
	uint64_t ms;

	if (place < 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "--role: there is no role '%.40s'", role),
			"admin, user or read-only");
	spec->tenant = cli_args_value(args, "tenant");
	spec->label = cli_args_value(args, "label");
	spec->role = (enum token_role)place;
	if (!expires || clock_parse(expires, &spec->expires_ns) == 0)
		return 0;
	if (parse_duration(expires, &ms) < 0 || !ms || ms > (uint64_t)(INT64_MAX / NS_PER_MS / 2))
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "--expires: '%.40s' is no time", expires),
			"write 30d, 12h or 2026-12-31");
	spec->expires_ns = now_ns + (int64_t)ms * NS_PER_MS;
	return 0;
}

static int create(struct cli *cli, const struct cli_args *args)
{
	auto_(office_done) struct office o = {0};
	struct token_spec spec = {0};
	struct token t = {0};
	char text[TOKEN_TEXT_MAX] = "";
	struct cell_error err = {0};
	int64_t now_ns = clock_unix_ns();

	int r = cli_args_count(args, 0, 0, &err);
	if (r == 0)
		r = read_spec(args, now_ns, &spec, &err);
	if (r == 0)
		r = office_open(cli, true, &o, &err);
	const char *tenant = spec.tenant ? spec.tenant : TENANT_DEFAULT;
	if (r == 0)
		r = record(&o, AUDIT_INTENT, "token.create", tenant,
			json_pack("{s:s, s:s*}", "role", token_role_name(spec.role), "label",
				spec.label),
			NULL, &err);
	if (r < 0)
		return cli_fail(cli, &err);
	r = cells->server ? remote_token_create(&spec, now_ns, &t, text, &err)
			  : token_create(o.db, &spec, now_ns, &t, text, &err);
	struct cell_error later = {0};
	int told = record(&o, AUDIT_RESULT, "token.create", tenant, json_pack("{s:s}", "id", t.id),
		outcome_of(r, &err), &later);
	write_down(cli, &o);
	if (r < 0 || told < 0)
		return cli_fail(cli, r < 0 ? &err : &later);
	if (cli->is_json) {
		json_t *j = token_json(&t);
		cli_json_string(j, "token", text);
		r = cli_print_json(cli, j);
	} else {
		cli_print_line(text);
		r = cli_flush(cli);
		cli_note(cli, "this is the only time it is shown; the id is %s", t.id);
	}
	explicit_bzero(text, sizeof text);
	return r;
}

struct listing {
	const struct cli *cli;
	struct cli_table table;
	json_t *list;
	bool is_all;
};

static void add_age(struct cli_table *t, int64_t ns)
{
	char text[CLI_UNIT_MAX];
	int64_t now_ns = clock_unix_ns();

	cli_table_add(t,
		ns ? cli_format_age(text, ns < now_ns ? (uint64_t)(now_ns - ns) / NS_PER_S : 0)
		   : "never");
}

static int add(const struct token *t, void *user)
{
	struct listing *l = user;
	const char *state = state_of(t);
	char text[CLOCK_TEXT_MAX];

	if (!l->is_all && strcmp(state, "valid") != 0)
		return 0;
	if (l->cli->is_json) {
		json_array_append_new(l->list, token_json(t));
	} else if (l->cli->is_quiet) {
		cli_print_line(t->id);
	} else {
		cli_table_add(&l->table, t->id);
		cli_table_add(&l->table, t->tenant);
		cli_table_add(&l->table, token_role_name(t->role));
		cli_table_add_styled(&l->table, strcmp(state, "valid") ? CLI_WARN : CLI_GOOD,
			state);
		add_age(&l->table, t->created_ns);
		add_age(&l->table, t->last_used_ns);
		cli_table_addf(&l->table, "%.10s",
			t->expires_ns ? clock_text(t->expires_ns, text) : "never");
		cli_table_add(&l->table, t->label);
	}
	return 0;
}

static int ls(struct cli *cli, const struct cli_args *args)
{
	static const char *const titles[] = {
		"ID", "TENANT", "ROLE", "STATE", "AGE", "USED", "EXPIRES", "LABEL", NULL};
	auto_(office_done) struct office o = {0};
	struct listing l = {.cli = cli, .is_all = cli_args_has(args, "all")};
	struct cell_error err = {0};

	if (cli_args_count(args, 0, 0, &err) < 0 || office_open(cli, false, &o, &err) < 0)
		return cli_fail(cli, &err);
	cli_table_init(&l.table, titles);
	l.list = json_array();
	const char *tenant = cli_args_value(args, "tenant");
	int r = cells->server ? remote_token_each(tenant, add, &l, &err)
			      : token_each(o.db, tenant, add, &l, &err);
	if (r < 0) {
		cli_table_done(&l.table);
		json_decref(l.list);
		return cli_fail(cli, &err);
	}
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:o}", "tokens", l.list));
	json_decref(l.list);
	if (!cli->is_quiet)
		cli_table_print(&l.table, cli);
	return cli_flush(cli);
}

/* An id, or the whole token by mistake: its id is in it. */
static const char *id_of(const char *word, char out[TOKEN_ID_LEN + 1])
{
	if (strncmp(word, TOKEN_PREFIX, sizeof TOKEN_PREFIX - 1) != 0)
		return word;
	(void)snprintf(out, TOKEN_ID_LEN + 1, "%s", word + sizeof TOKEN_PREFIX - 1);
	return out;
}

static int revoke_tokens(struct cli *cli, const struct cli_args *args)
{
	auto_(office_done) struct office o = {0};
	struct cell_error err = {0}, later = {0};

	if (cli_args_count(args, 1, CLI_MANY, &err) < 0 || office_open(cli, false, &o, &err) < 0)
		return cli_fail(cli, &err);
	json_t *list = json_array();
	int r = 0;
	for (size_t i = 0; r == 0 && i < args->n_operands; i++) {
		char buf[TOKEN_ID_LEN + 1];
		const char *id = id_of(args->operands[i], buf);
		r = record(&o, AUDIT_INTENT, "token.revoke", NULL, json_pack("{s:s}", "id", id),
			NULL, &err);
		if (r == 0)
			r = cells->server ? remote_token_revoke(id, &err)
					  : token_revoke(o.db, id, clock_unix_ns(), &err);
		(void)record(&o, AUDIT_RESULT, "token.revoke", NULL, json_pack("{s:s}", "id", id),
			outcome_of(r, &err), &later);
		if (r == 0)
			json_array_append_new(list, json_string(id));
	}
	write_down(cli, &o);
	if (r < 0) {
		json_decref(list);
		return cli_fail(cli, &err);
	}
	if (cli->is_json)
		return cli_print_json(cli, json_pack("{s:o}", "revoked", list));
	json_decref(list);
	return cli_flush(cli);
}

static const struct cli_option create_options[] = {
	{"tenant", 0, "NAME",
		"whose it is (default: default); made when there is none of that name"},
	{"role", 0, "ROLE", "admin, user (default) or read-only", .kind = CLI_CHOICE,
		.choices = "admin user read-only"},
	{"label", 0, "TEXT", "what it is for"},
	{"expires", 0, "TIME", "when it ends: 30d, 12h, 2026-12-31 (default: never)"},
	{0},
};

static const struct cli_verb create_verb = {
	.name = "create",
	.of = "token",
	.usage = "[OPTION...]",
	.summary = "make a token and print it once",
	.about = "Prints a new token on standard output. Only a hash of it is kept, so it cannot "
		 "be shown "
		 "again. A running server takes it at once.",
	.examples = "cell token create --tenant acme --label ci --expires 90d\n"
		    "cell token create --role admin --json",
	.groups = {create_options},
	.head = CLI_NO_COMMAND,
	.run = create,
};

static const struct cli_option ls_options[] = {
	{"tenant", 0, "NAME", "only those of this tenant"},
	{"all", 'a', NULL, "revoked and expired ones too"},
	{0},
};

static const struct cli_verb ls_verb = {
	.name = "ls",
	.of = "token",
	.usage = "[OPTION...]",
	.summary = "list tokens",
	.about = "Lists the tokens that are valid; their secrets are not known to anybody but "
		 "their owners. "
		 "With --quiet only the ids.",
	.examples = "cell token ls\n"
		    "cell token ls --all --tenant acme",
	.groups = {ls_options},
	.head = CLI_NO_COMMAND,
	.run = ls,
};

static const struct cli_verb revoke_verb = {
	.name = "revoke",
	.of = "token",
	.usage = "ID...",
	.summary = "make tokens invalid",
	.about = "From now on the server refuses these tokens, a running one too. ID is what 'cell "
		 "token ls' "
		 "shows.",
	.examples = "cell token revoke k3jx2mdq5tya",
	.head = CLI_NO_COMMAND,
	.run = revoke_tokens,
};

static const struct cli_verb *const verbs[] = {&create_verb, &ls_verb, &revoke_verb, NULL};

const struct cli_verb cli_verb_token = {
	.name = "token",
	.usage = "VERB [OPTION...]",
	.summary = "make, list and revoke tokens of the server",
	.about = "A token says who calls the server: it belongs to a tenant, which sees only its "
		 "own sessions, "
		 "and has a role: read-only looks, user also runs and changes, admin also manages "
		 "tokens and "
		 "sees every tenant.",
	.examples = "cell token create --tenant acme\n"
		    "cell token ls",
	.operands = {CLI_VERB},
	.head = CLI_NO_COMMAND,
	.verbs = verbs,
};
