/* SPDX-License-Identifier: Apache-2.0 */
/* cell audit: read and check the audit log. Never writes to it. */
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/cells.h"
#include "cli/ledger.h"
#include "cli/output.h"
#include "cli/remote/ledger.h"
#include "cli/signals.h"
#include "cli/spec.h"

#define FOLLOW_MS 250

/* Where the log is: --dir and --key, or the server's. */
struct log {
	struct cell_config *cfg;
	struct place place;
	const char *dir, *key;
};

static void log_done(struct log *l)
{
	place_done(&l->place);
	cell_config_free(l->cfg);
}

static int log_find(const struct cli *cli, const struct cli_args *args, struct log *l,
	struct cell_error *err)
{
	l->dir = cli_args_value(args, "dir");
	if (l->dir || cells->server)
		return 0;
	int r = cli_place_find(cli, false, &l->cfg, &l->place, err);
	l->dir = l->place.audit_dir;
	l->key = l->place.audit_key;
	return r;
}

static int read_filter(const struct cli_args *args, struct audit_filter *f, struct cell_error *err)
{
	f->tenant = cli_args_value(args, "tenant");
	f->actor = cli_args_value(args, "actor");
	f->session = cli_args_value(args, "session");
	f->backend = cli_args_value(args, "backend");
	f->exec = cli_args_value(args, "exec");
	f->request_id = cli_args_value(args, "request-id");
	f->trace = cli_args_value(args, "trace");
	f->action = cli_args_value(args, "action");
	f->kind = cli_args_value(args, "kind");
	f->effect = cli_args_value(args, "effect");
	int r = cli_time_option(args, "since", &f->since_ns, err);
	return r < 0 ? r : cli_time_option(args, "until", &f->until_ns, err);
}

/* Of a directory, or of the server. */
static int walk(const struct log *l, const struct audit_filter *f, audit_record_fn fn, void *user,
	struct cell_error *err)
{
	return l->dir ? audit_query(l->dir, f, fn, user, err)
		      : remote_audit_query(f, fn, user, err);
}

struct output {
	const struct cli *cli;
	enum {
		PEOPLE,
		LINES,
		OCSF
	} form;
	FILE *to;
	uint64_t last_seq, n;
};

static void say(const char *before, json_t *record, const char *name)
{
	const char *text = json_string_value(json_object_get(record, name));

	if (text) {
		(void)printf(" %s", before);
		cli_print_name(text);
	}
}

/* One line: when, what, who, where, how it ended. */
static void print_for_people(json_t *record)
{
	json_t *decision = json_object_get(record, "decision"),
	       *outcome = json_object_get(record, "outcome");
	const char *time = json_string_value(json_object_get(record, "time"));
	char when[24];

	(void)snprintf(when, sizeof when, "%s", time ? time : "");
	(void)printf("%6" JSON_INTEGER_FORMAT " ",
		json_integer_value(json_object_get(record, "seq")));
	cli_print_name(when);
	(void)putchar('Z');
	say("", record, "kind");
	say("", record, "action");
	say("tenant=", record, "tenant");
	say("actor=", record, "actor");
	say("session=", record, "session");
	say("backend=", record, "backend");
	say("exec=", record, "exec");
	say("request=", record, "request_id");
	say("", decision, "effect");
	say("by ", decision, "rule");
	say("-> ", outcome, "code");
	json_t *code = json_object_get(outcome, "exit_code");
	if (json_is_integer(code))
		(void)printf(" exit=%" JSON_INTEGER_FORMAT, json_integer_value(code));
	(void)putchar('\n');
}

static int print_record(json_t *record, const char *line, size_t len, void *user)
{
	struct output *o = user;

	o->last_seq = (uint64_t)json_integer_value(json_object_get(record, "seq"));
	o->n++;
	if (o->form == PEOPLE) {
		print_for_people(record);
	} else if (o->form == LINES &&
		   !isatty(fileno(o->to))) { /* byte for byte: it may be verified */
		(void)fwrite(line, 1, len, o->to);
		(void)fputc('\n', o->to);
	} else {
		json_t *event = o->form == LINES ? json_incref(record) : audit_to_ocsf(record);
		auto_free char *text = cli_json_text(event, JSON_COMPACT, fileno(o->to));
		json_decref(event);
		if (!text)
			return -ENOMEM;
		(void)fprintf(o->to, "%s\n", text);
	}
	if (ferror(o->to))
		return -EPIPE;
	return cli_signals_stop() ? -EINTR : 0;
}

/* How a walk that ended with r ends the program. */
static int end(const struct cli *cli, int r, const struct cell_error *err)
{
	if (cli_signals_stop())
		return CLI_EXIT_SIGNAL + cli_signals_stop();
	if (r == -EPIPE)
		return CLI_EXIT_SIGNAL + SIGPIPE;
	return r < 0 ? cli_fail(cli, err) : cli_flush(cli);
}

static int tail(struct cli *cli, const struct cli_args *args)
{
	auto_(log_done) struct log l = {0};
	struct audit_filter f = {0};
	struct output o = {.cli = cli, .form = cli->is_json ? LINES : PEOPLE, .to = stdout};
	struct cell_error err = {0};

	if (cli_args_count(args, 0, 0, &err) < 0 || read_filter(args, &f, &err) < 0 ||
		cli_args_number(args, "lines", 10, &f.last, &err) < 0 ||
		log_find(cli, args, &l, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_catch();
	int r = 0;
	if (f.last)
		r = walk(&l, &f, print_record, &o, &err);
	f.last = 0;
	/* From the end, also when nothing was shown. */
	struct audit_verdict v;
	if (r == 0 && !o.last_seq && cli_args_has(args, "follow") && l.dir &&
		audit_verify(l.dir, NULL, true, &v, NULL) == 0)
		o.last_seq = v.last_seq;
	while (r == 0 && cli_args_has(args, "follow") && !cli_signals_stop()) {
		(void)fflush(stdout);
		struct pollfd wait = {.fd = cli_signals_fd(), .events = POLLIN};
		(void)poll(&wait, 1, FOLLOW_MS);
		while (cli_signals_next())
			continue;
		f.after_seq = o.last_seq;
		r = walk(&l, &f, print_record, &o, &err);
	}
	return end(cli, r, &err);
}

static int collect(json_t *record, const char *line, size_t len, void *user)
{
	(void)line;
	(void)len;
	return json_array_append(user, record) < 0 ? -ENOMEM : cli_signals_stop() ? -EINTR : 0;
}

static int query(struct cli *cli, const struct cli_args *args)
{
	auto_(log_done) struct log l = {0};
	struct audit_filter f = {0};
	struct output o = {.cli = cli, .to = stdout};
	struct cell_error err = {0};

	if (cli_args_count(args, 0, 0, &err) < 0 || read_filter(args, &f, &err) < 0 ||
		cli_args_number(args, "limit", 1000, &f.limit, &err) < 0 ||
		cli_args_number(args, "after", 0, &f.after_seq, &err) < 0 ||
		log_find(cli, args, &l, &err) < 0)
		return cli_fail(cli, &err);
	cli_signals_catch();
	if (!cli->is_json)
		return end(cli, walk(&l, &f, print_record, &o, &err), &err);
	json_t *list = json_array();
	int r = walk(&l, &f, collect, list, &err);
	if (r == 0)
		return cli_print_json(cli, json_pack("{s:o}", "records", list));
	json_decref(list);
	return end(cli, r, &err);
}

static int export(struct cli *cli, const struct cli_args *args)
{
	auto_(log_done) struct log l = {0};
	struct audit_filter f = {0};
	const char *form = cli_args_value(args, "format"), *path = cli_args_value(args, "output");
	struct output o = {.cli = cli, .form = LINES, .to = stdout};
	struct cell_error err = {0};

	if (form && strcmp(form, "jsonl") != 0) {
		if (strcmp(form, "ocsf") != 0) {
			cell_fail(&err, CELL_EINVAL, 0, "--format: there is no format '%.40s'",
				form);
			cell_error_hint(&err, 0, "jsonl or ocsf");
			return cli_fail(cli, &err);
		}
		o.form = OCSF;
	}
	if (cli_args_count(args, 0, 0, &err) < 0 || read_filter(args, &f, &err) < 0 ||
		cli_args_number(args, "after", 0, &f.after_seq, &err) < 0 ||
		log_find(cli, args, &l, &err) < 0)
		return cli_fail(cli, &err);
	auto_file FILE *file = path ? fopen(path, "we") : NULL;
	if (path && !file) {
		cell_fail_errno(&err, errno, "writing '%s'", path);
		return cli_fail(cli, &err);
	}
	o.to = file ? file : stdout;
	cli_signals_catch();
	int r = walk(&l, &f, print_record, &o, &err);
	if (r == 0 && file && fflush(file) != 0)
		r = cell_fail_errno(&err, errno, "writing '%s'", path);
	else if (r == -EPIPE && file)
		r = cell_fail_errno(&err, ENOSPC, "writing '%s'", path);
	if (r < 0 && file && !cli_signals_stop())
		return cli_fail(cli, &err);
	return end(cli, r, &err);
}

static int verdict_json(const struct cli *cli, const struct audit_verdict *v)
{
	json_t *o = json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "valid", !*v->reason,
		"records", (json_int_t)v->records, "files", (json_int_t)v->files, "first_seq",
		(json_int_t)v->first_seq, "last_seq", (json_int_t)v->last_seq, "gaps",
		(json_int_t)v->gaps, "repairs", (json_int_t)v->repairs, "head_checked",
		(int)v->is_head_known);

	if (*v->reason)
		json_object_set_new(o, "problem",
			json_pack("{s:s, s:s, s:I, s:I}", "reason", v->reason, "file", v->file,
				"line", (json_int_t)v->line, "seq", (json_int_t)v->seq));
	int r = cli_print_json(cli, o);
	return r ? r : *v->reason ? CLI_EXIT_NO : CLI_EXIT_OK;
}

static int verify(struct cli *cli, const struct cli_args *args)
{
	auto_(log_done) struct log l = {0};
	struct audit_verdict v = {0};
	struct cell_error err = {0};

	if (cli_args_count(args, 0, 0, &err) < 0 || log_find(cli, args, &l, &err) < 0)
		return cli_fail(cli, &err);
	if (!l.dir) {
		cell_fail(&err, CELL_ENOTSUP, 0,
			"audit verify: a server cannot be asked whether its own log was changed");
		cell_error_hint(&err, 0,
			"run it on the server's machine, or on a copy: --dir DIR --key FILE");
		return cli_fail(cli, &err);
	}
	const char *key = cli_args_value(args, "key");
	key = cli_args_has(args, "no-key") ? NULL : key ? key : l.key;
	if (!key && !cli_args_has(args, "no-key")) {
		cell_fail(&err, CELL_EINVAL, 0, "--dir names a log, but not its key");
		cell_error_hint(&err, 0,
			"add --key FILE, or --no-key to check only how records are linked");
		return cli_fail(cli, &err);
	}
	if (audit_verify(l.dir, key, cli_args_has(args, "allow-gaps"), &v, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->is_json)
		return verdict_json(cli, &v);
	if (*v.reason) {
		if (v.line)
			(void)printf("%s:%" PRIu64 ": ", v.file, v.line);
		else if (*v.file)
			(void)printf("%s: ", v.file);
		if (v.seq)
			(void)printf("record %" PRIu64 ": ", v.seq);
		(void)printf("%s\n", v.reason);
		int r = cli_flush(cli);
		return r ? r : CLI_EXIT_NO;
	}
	if (!cli->is_quiet) {
		(void)printf("ok: %" PRIu64 " records in %" PRIu64 " files, %" PRIu64
			     " to %" PRIu64,
			v.records, v.files, v.first_seq, v.last_seq);
		if (v.repairs)
			(void)printf(", %" PRIu64 " torn ends put aside", v.repairs);
		if (v.gaps)
			(void)printf(", %" PRIu64 " gaps allowed", v.gaps);
		(void)printf("%s\n", v.is_head_known ? "" : "; the end was not checked: no key");
	}
	return cli_flush(cli);
}

static const struct cli_option filter_options[] = {
	{"session", 0, "ID", "only of this session"},
	{"tenant", 0, "NAME", "only of this tenant"},
	{"actor", 0, "ID", "only by this token"},
	{"action", 0, "PATTERN", "only such actions: exec.*, file.write"},
	{"backend", 0, "NAME", "only on this back end", .kind = CLI_BACKEND},
	{"exec", 0, "ID", "only of this command"},
	{"request-id", 0, "ID", "only of this request"},
	{"trace", 0, "ID", "only of this trace"},
	{"kind", 0, "KIND", "intent or result", .kind = CLI_CHOICE, .choices = "intent result"},
	{"effect", 0, "EFFECT", "only where the policy said so", .kind = CLI_CHOICE,
		.choices = "allow deny ask"},
	{"since", 0, "TIME", "from then on: 15m, 7d, 2026-01-31T13:05:59Z"},
	{"until", 0, "TIME", "up to then"},
	{"dir", 0, "DIR", "another directory than the server's, a copy for example",
		.kind = CLI_DIRECTORY},
	{0},
};

static const struct cli_option tail_options[] = {
	{"follow", 'f', NULL, "go on with what is added, until interrupted"},
	{"lines", 'n', "N", "how many to begin with (default: 10)"},
	{0},
};
static const struct cli_verb tail_verb = {
	.name = "tail",
	.of = "audit",
	.usage = "[OPTION...]",
	.summary = "the last records",
	.about = "Shows the last records, one line each; with --json as they stand in the log.",
	.examples = "cell audit tail -f\n"
		    "cell audit tail -n 50 --tenant acme",
	.groups = {tail_options, filter_options},
	.head = CLI_NO_COMMAND,
	.run = tail,
};

static const struct cli_option query_options[] = {
	{"limit", 0, "N", "at most so many (default: 1000; 0: all)"},
	{"after", 0, "SEQ", "only behind this record, to go on where a query ended"},
	{0},
};
static const struct cli_verb query_verb = {
	.name = "query",
	.of = "audit",
	.usage = "[OPTION...]",
	.summary = "records that match",
	.about = "Shows the records that match every option given, oldest first. With --json one "
		 "object with "
		 "a list of them.",
	.examples = "cell audit query --session s-1 --action 'exec.*' --since 24h\n"
		    "cell audit query --effect deny --json",
	.groups = {query_options, filter_options},
	.head = CLI_NO_COMMAND,
	.run = query,
};

static const struct cli_option export_options[] = {
	{"format", 0, "FORMAT", "jsonl (default): the lines of the log; ocsf: OCSF 1.3 events",
		.kind = CLI_CHOICE, .choices = "jsonl ocsf"},
	{"output", 'o', "FILE", "write to a file", .kind = CLI_FILE},
	{"after", 0, "SEQ", "only behind this record"},
	{0},
};
static const struct cli_verb export_verb = {
	.name = "export",
	.of = "audit",
	.usage = "[OPTION...]",
	.summary = "records for another system",
	.about = "Writes the records that match, one JSON object a line.",
	.examples = "cell audit export --format ocsf --since 24h --output events.jsonl\n"
		    "cell audit export --after 1000",
	.groups = {export_options, filter_options},
	.head = CLI_NO_COMMAND,
	.run = export,
};

static const struct cli_option verify_options[] = {
	{"dir", 0, "DIR", "another directory than the server's, a copy for example",
		.kind = CLI_DIRECTORY},
	{"key", 0, "FILE", "the key of that log", .kind = CLI_FILE},
	{"no-key", 0, NULL, "check only how records are linked, not the beginning and the end"},
	{"allow-gaps", 0, NULL,
		"losses that the server recorded itself, after a power cut, are fine"},
	{0},
};
static const struct cli_verb verify_verb = {
	.name = "verify",
	.of = "audit",
	.usage = "[OPTION...]",
	.summary = "was the log changed?",
	.about = "Reads the whole log and says whether each record is as it was written and none "
		 "is missing. "
		 "If not, names the file, the line and the number of the first record that is "
		 "wrong, and exits "
		 "with 1. May run beside the server.",
	.examples = "cell audit verify\n"
		    "cell audit verify --dir /backup/audit --key /root/audit.key",
	.groups = {verify_options},
	.head = CLI_NO_COMMAND,
	.run = verify,
};

static const struct cli_verb *const verbs[] = {
	&tail_verb, &query_verb, &export_verb, &verify_verb, NULL};

const struct cli_verb cli_verb_audit = {
	.name = "audit",
	.usage = "VERB [OPTION...]",
	.summary = "read and check what happened",
	.about = "The server records everything that is done in any cell, and every call to "
		 "itself, once before "
		 "and once after. Records are linked by hashes: 'cell audit verify' tells whether "
		 "any was "
		 "changed or removed.",
	.examples = "cell audit tail -f\n"
		    "cell audit verify",
	.operands = {CLI_VERB},
	.head = CLI_NO_COMMAND,
	.verbs = verbs,
};
