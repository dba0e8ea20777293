/* SPDX-License-Identifier: Apache-2.0 */
/*
 * audit_export.c: records as OCSF 1.3 events, for what collects security events. The whole record
 * goes along under `unmapped`, so that nothing is lost on the way; metadata.uid is its hash.
 */
#include <string.h>

#include "server/audit.h"
#include "server/clock.h"

#define OCSF_VERSION "1.3.0"

enum class {
	FILE_ACTIVITY = 1001,
	PROCESS_ACTIVITY = 1007,
	AUTHENTICATION = 3002,
	API_ACTIVITY = 6003,
};

/* By the beginning of the action; the first that fits. */
static const struct mapping {
	const char *action;
	enum class class;
	int activity;
	const char *name;
} mappings[] = {
	{"exec.start", PROCESS_ACTIVITY, 1, "Launch"},
	{"exec.", PROCESS_ACTIVITY, 99, "Other"},
	{"code.", PROCESS_ACTIVITY, 1, "Launch"},
	{"file.read", FILE_ACTIVITY, 2, "Read"},
	{"file.write", FILE_ACTIVITY, 3, "Update"},
	{"file.append", FILE_ACTIVITY, 3, "Update"},
	{"file.edit", FILE_ACTIVITY, 3, "Update"},
	{"file.mkdir", FILE_ACTIVITY, 1, "Create"},
	{"file.delete", FILE_ACTIVITY, 4, "Delete"},
	{"file.remove", FILE_ACTIVITY, 4, "Delete"},
	{"file.move", FILE_ACTIVITY, 5, "Rename"},
	{"file.stat", FILE_ACTIVITY, 8, "Get Attributes"},
	{"file.list", FILE_ACTIVITY, 8, "Get Attributes"},
	{"file.", FILE_ACTIVITY, 99, "Other"},
	{"auth.", AUTHENTICATION, 1, "Logon"},
	{"", API_ACTIVITY, 99, "Other"},
};

/* The second half of an action says what an API call does. */
static const struct {
	const char *verb;
	int activity;
	const char *name;
} verbs[] = {
	{".create", 1, "Create"},
	{".get", 2, "Read"},
	{".list", 2, "Read"},
	{".query", 2, "Read"},
	{".read", 2, "Read"},
	{".export", 2, "Read"},
	{".update", 3, "Update"},
	{".delete", 4, "Delete"},
	{".revoke", 4, "Delete"},
};

static struct mapping mapping_of(const char *action)
{
	struct mapping m = mappings[0];

	for (size_t i = 0; i < sizeof mappings / sizeof mappings[0]; i++) {
		m = mappings[i];
		if (!strncmp(action, m.action, strlen(m.action)))
			break;
	}
	for (size_t i = 0; m.class == API_ACTIVITY && i < sizeof verbs / sizeof verbs[0]; i++) {
		size_t n = strlen(action), len = strlen(verbs[i].verb);
		if (n > len && !strcmp(action + n - len, verbs[i].verb)) {
			m.activity = verbs[i].activity;
			m.name = verbs[i].name;
		}
	}
	return m;
}

static const char *text(json_t *o, const char *name, const char *otherwise)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s ? s : otherwise;
}

static bool is_denied(json_t *record)
{
	const char *effect = text(json_object_get(record, "decision"), "effect", "allow");

	return strcmp(effect, "allow") != 0;
}

static bool is_failed(json_t *record)
{
	const char *code = text(json_object_get(record, "outcome"), "code", "ok");

	return strcmp(code, "ok") != 0 ||
	       json_is_true(json_object_get(json_object_get(record, "usage"), "error"));
}

static json_t *actor_of(json_t *record)
{
	return json_pack("{s:{s:s, s:i, s:{s:s}}}", "user", "uid", text(record, "actor", "unknown"),
		"type_id", 0, "org", "uid", text(record, "tenant", "unknown"));
}

/* The machine the cell is on, as far as the record knows. */
static json_t *device_of(json_t *record)
{
	return json_pack("{s:i, s:s, s:s}", "type_id", 6, "uid", text(record, "session", "host"),
		"name", text(record, "backend", "host"));
}

static json_t *process_of(json_t *record)
{
	json_t *details = json_object_get(record, "details");
	json_t *argv = json_object_get(details, "argv"), *shell = json_object_get(details, "shell");
	auto_buf struct buf line = BUF_INIT(AUDIT_RECORD_MAX);
	json_t *word;
	size_t i;

	if (json_is_string(shell))
		(void)buf_addz(&line, json_string_value(shell));
	json_array_foreach (argv, i, word) {
		if (json_is_string(word))
			(void)buf_addf(&line, "%s%s", i ? " " : "", json_string_value(word));
	}
	const char *name = json_string_value(json_array_get(argv, 0));
	return json_pack("{s:s, s:s*, s:s}", "uid", text(record, "exec", "unknown"), "name", name,
		"cmd_line", buf_str(&line));
}

static json_t *file_of(json_t *record)
{
	const char *path = text(json_object_get(record, "details"), "path", "unknown");
	const char *slash = strrchr(path, '/');

	return json_pack("{s:s, s:s, s:i}", "path", path, "name",
		slash && slash[1] ? slash + 1 : path, "type_id", 0);
}

static int add_class(json_t *e, json_t *record, const struct mapping *m)
{
	int r = 0;

	if (m->class != AUTHENTICATION)
		r = json_object_set_new(e, "actor", actor_of(record));
	switch (m->class) {
	case PROCESS_ACTIVITY:
		r |= json_object_set_new(e, "device", device_of(record));
		r |= json_object_set_new(e, "process", process_of(record));
		break;
	case FILE_ACTIVITY:
		r |= json_object_set_new(e, "device", device_of(record));
		r |= json_object_set_new(e, "file", file_of(record));
		break;
	case AUTHENTICATION:
		r |= json_object_set_new(e, "user",
			json_pack("{s:s, s:i}", "uid", text(record, "actor", "unknown"), "type_id",
				0));
		r |= json_object_set_new(e, "service", json_pack("{s:s}", "name", "cell"));
		break;
	case API_ACTIVITY:
		r |= json_object_set_new(e, "api",
			json_pack("{s:s, s:{s:s*}}", "operation", text(record, "action", "unknown"),
				"request", "uid", text(record, "request_id", "unknown")));
		r |= json_object_set_new(e, "src_endpoint",
			json_pack("{s:s}", "uid",
				text(json_object_get(record, "details"), "peer", "unknown")));
		break;
	}
	return r;
}

json_t *audit_to_ocsf(json_t *record)
{
	struct mapping m = mapping_of(text(record, "action", ""));
	bool is_intent = !strcmp(text(record, "kind", "result"), "intent");
	bool is_bad = is_denied(record) || is_failed(record);
	int status = is_intent && !is_denied(record) ? 0 : is_bad ? 2 : 1;
	int64_t ns = 0;

	(void)clock_parse(text(record, "time", ""), &ns);
	json_t *e = json_pack("{s:i, s:s, s:i, s:i, s:i, s:i, s:I, s:i, s:s, s:s}", "activity_id",
		m.activity, "activity_name", m.name, "category_uid", (int)m.class / 1000,
		"class_uid", (int)m.class, "type_uid", (int)m.class * 100 + m.activity,
		"severity_id", is_denied(record) ? 3 : 1, "time", (json_int_t)(ns / NS_PER_MS),
		"status_id", status, "status",
		status == 0   ? "Unknown"
		: status == 1 ? "Success"
			      : "Failure",
		"message", text(record, "action", ""));
	if (!e)
		return NULL;
	json_t *metadata = json_pack("{s:s, s:s, s:s*, s:{s:s, s:s, s:s}}", "version", OCSF_VERSION,
		"uid", text(record, "hash", "unknown"), "correlation_uid",
		json_string_value(json_object_get(record, "request_id")), "product", "name", "Cell",
		"vendor_name", "Cell", "version", CELL_VERSION);
	int r = json_object_set_new(e, "metadata", metadata);
	r |= json_object_set(e, "unmapped", record);
	r |= add_class(e, record, &m);
	if (r == 0)
		return e;
	json_decref(e);
	return NULL;
}
