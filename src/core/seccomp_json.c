/* SPDX-License-Identifier: Apache-2.0 */
/* seccomp_json.c: see seccomp_json.h. Reads the whole document before it compiles anything. */
#include "core/seccomp_json.h"

#include <errno.h>
#include <jansson.h>
#include <linux/audit.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/scfilter.h"
#include "base/syscalls.h"

#define MAX_ERRNO 4095
#define WHERE_CAP 96

#if defined(__x86_64__)
#define GO_ARCH	  "amd64"
#define SCMP_ARCH "SCMP_ARCH_X86_64"
#else
#define GO_ARCH	  "arm64"
#define SCMP_ARCH "SCMP_ARCH_AARCH64"
#endif

struct profile {
	struct scf f;
	uint32_t default_action;
	bool *is_decided; /* by number: a rule without conditions was there */
	unsigned n_named; /* one more than the highest number the profile names */
	char where[WHERE_CAP];
	struct cell_error *err;
};

struct rule {
	uint32_t action;
	struct scf_cond conds[SCF_MAX_CONDS];
	size_t n_conds;
	bool is_any; /* conditions are alternatives */
};

static int bad(struct profile *p, const char *fmt, ...) __attribute__((format(printf, 2, 3), cold));

static int bad(struct profile *p, const char *fmt, ...)
{
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(what, sizeof what, fmt, ap);
	va_end(ap);
	return cell_fail(p->err, CELL_EINVAL, 0, "read a seccomp profile: %s%s%s", p->where,
		p->where[0] ? ": " : "", what);
}

static void at(struct profile *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void at(struct profile *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(p->where, sizeof p->where, fmt, ap);
	va_end(ap);
}

static bool is_word(const char *word, const char *const *list)
{
	for (; *list; list++) {
		if (strcmp(word, *list) == 0)
			return true;
	}
	return false;
}

static int check_keys(struct profile *p, json_t *object, const char *const *known)
{
	const char *key;
	json_t *value;

	json_object_foreach (object, key, value) {
		if (!is_word(key, known))
			return bad(p, "'%.64s' is no key that is known here", key);
	}
	return 0;
}

/* The member, NULL when it is missing or null; a wrong type is an error. */
static int get(struct profile *p, json_t *object, const char *key, json_type type, json_t **ret)
{
	json_t *v = json_object_get(object, key);

	*ret = NULL;
	if (!v || json_is_null(v))
		return 0;
	if (json_typeof(v) != type)
		return bad(p, "'%s' must be %s", key,
			type == JSON_ARRAY     ? "a list"
			: type == JSON_OBJECT  ? "an object"
			: type == JSON_INTEGER ? "a whole number"
					       : "a string");
	*ret = v;
	return 0;
}

static int get_action(struct profile *p, json_t *object, const char *key, const char *errno_key,
	uint32_t *ret)
{
	static const struct {
		const char *name;
		uint32_t action;
	} actions[] = {
		{"SCMP_ACT_ALLOW", SECCOMP_RET_ALLOW},
		{"SCMP_ACT_ERRNO", SECCOMP_RET_ERRNO},
		{"SCMP_ACT_KILL", SECCOMP_RET_KILL_THREAD},
		{"SCMP_ACT_KILL_PROCESS", SECCOMP_RET_KILL_PROCESS},
		{"SCMP_ACT_KILL_THREAD", SECCOMP_RET_KILL_THREAD},
		{"SCMP_ACT_LOG", SECCOMP_RET_LOG},
		{"SCMP_ACT_TRACE", SECCOMP_RET_TRACE},
		{"SCMP_ACT_TRAP", SECCOMP_RET_TRAP},
	};
	json_t *name = NULL, *number = NULL;
	json_int_t data = EPERM;

	int r = get(p, object, key, JSON_STRING, &name);
	if (r == 0)
		r = get(p, object, errno_key, JSON_INTEGER, &number);
	if (r < 0)
		return r;
	if (!name)
		return bad(p, "'%s' is missing", key);
	if (number)
		data = json_integer_value(number);
	if (data < 0 || data > MAX_ERRNO)
		return bad(p, "'%s' must be from 0 to %d", errno_key, MAX_ERRNO);
	for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
		if (strcmp(json_string_value(name), actions[i].name) != 0)
			continue;
		*ret = actions[i].action;
		if (*ret == SECCOMP_RET_ERRNO || *ret == SECCOMP_RET_TRACE)
			*ret |= (uint32_t)data;
		return 0;
	}
	r = bad(p, "'%.64s' is no action that can be used", json_string_value(name));
	return cell_error_hint(p->err, r,
		"there are SCMP_ACT_ALLOW, _ERRNO, _KILL_PROCESS, _KILL_THREAD, _KILL, _LOG, "
		"_TRACE and _TRAP");
}

static bool does_let_through(uint32_t action)
{
	uint32_t a = action & SECCOMP_RET_ACTION_FULL;

	return a == SECCOMP_RET_ALLOW || a == SECCOMP_RET_LOG || a == SECCOMP_RET_TRACE;
}

/* ints: bit n is set when the kernel takes argument n as 32 bits or fewer. */
static bool is_int_arg(const char *name, unsigned arg)
{
	static const struct {
		const char *name;
		unsigned ints;
	} calls[] = {{"arch_prctl", 1}, {"bpf", 1}, {"clock_adjtime", 1}, {"clock_settime", 1},
		{"clone", 1}, {"epoll_ctl", 7}, {"fcntl", 3}, {"futex", 2}, {"getsockopt", 7},
		{"ioctl", 3}, {"ioprio_set", 7}, {"kcmp", 7}, {"keyctl", 1}, {"kill", 3},
		{"madvise", 4}, {"memfd_create", 2}, {"mknod", 2}, {"mknodat", 5}, {"msgctl", 3},
		{"open", 2}, {"openat", 5}, {"personality", 1}, {"prctl", 1}, {"prlimit64", 3},
		{"quotactl", 1}, {"reboot", 7}, {"sched_setscheduler", 3}, {"seccomp", 3},
		{"semctl", 7}, {"setns", 3}, {"setpriority", 7}, {"setrlimit", 1},
		{"setsockopt", 7}, {"shmctl", 3}, {"socket", 7}, {"socketpair", 7}, {"syslog", 5},
		{"tgkill", 7}, {"timerfd_create", 3}, {"tkill", 3}, {"userfaultfd", 1}};

	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		if (strcmp(name, calls[i].name) == 0)
			return calls[i].ints >> arg & 1;
	}
	return false;
}

/* JSON's numbers are signed in jansson; a value from 2^63 on is written as a negative one or not
 * at all. */
static int get_value(struct profile *p, json_t *o, const char *key, uint64_t *ret)
{
	json_t *v;
	int r = get(p, o, key, JSON_INTEGER, &v);

	*ret = v ? (uint64_t)json_integer_value(v) : 0;
	return r;
}

static int read_cond(struct profile *p, json_t *o, struct scf_cond *ret)
{
	static const char *const known[] = {"index", "value", "valueTwo", "op", NULL};
	static const char *const ops[] = {"SCMP_CMP_EQ", "SCMP_CMP_NE", "SCMP_CMP_LT",
		"SCMP_CMP_LE", "SCMP_CMP_GT", "SCMP_CMP_GE", "SCMP_CMP_MASKED_EQ"};
	json_t *index = NULL, *op = NULL;
	uint64_t value = 0, value_two = 0;

	if (!json_is_object(o))
		return bad(p, "must be an object");
	int r = check_keys(p, o, known);
	if (r == 0)
		r = get(p, o, "index", JSON_INTEGER, &index);
	if (r == 0)
		r = get(p, o, "op", JSON_STRING, &op);
	if (r == 0)
		r = get_value(p, o, "value", &value);
	if (r == 0)
		r = get_value(p, o, "valueTwo", &value_two);
	if (r < 0)
		return r;
	if (!index || json_integer_value(index) < 0 || json_integer_value(index) > 5)
		return bad(p, "'index' must be from 0 to 5");
	if (!op)
		return bad(p, "'op' is missing");
	*ret = (struct scf_cond){.arg = (uint8_t)json_integer_value(index), .value = value};
	while (ret->op <= SCF_MASKED_EQ && strcmp(json_string_value(op), ops[ret->op]) != 0)
		ret->op++;
	if (ret->op > SCF_MASKED_EQ)
		return bad(p, "op: '%.64s' is no comparison", json_string_value(op));
	if (ret->op == SCF_MASKED_EQ) {
		ret->mask = value;
		ret->value = value_two;
	}
	return 0;
}

static int read_conds(struct profile *p, size_t nth, json_t *args, struct rule *ret)
{
	unsigned seen = 0;
	size_t i;
	json_t *o;

	ret->n_conds = 0;
	ret->is_any = false;
	if (json_array_size(args) > SCF_MAX_CONDS)
		return bad(p, "'args' has more than %u conditions", SCF_MAX_CONDS);
	json_array_foreach (args, i, o) {
		at(p, "syscalls[%zu].args[%zu]", nth, i);
		int r = read_cond(p, o, &ret->conds[i]);
		if (r < 0)
			return r;
		ret->is_any |= seen >> ret->conds[i].arg & 1;
		seen |= 1u << ret->conds[i].arg;
		ret->n_conds++;
	}
	at(p, "syscalls[%zu]", nth);
	return 0;
}

/* The same value as the 32 bits the kernel looks at; a sign that was carried on is fine. */
static bool to_int(uint64_t *v)
{
	if (*v >> 32 && *v >> 31 != 0x1ffffffff)
		return false;
	*v = (uint32_t)*v;
	return true;
}

static int narrow(struct profile *p, const char *name, struct scf_cond *c)
{
	if (!is_int_arg(name, c->arg))
		return 0;
	c->is_32 = true;
	c->mask = (uint32_t)c->mask;
	if (!to_int(&c->value))
		return bad(p, "argument %u of %s has 32 bits, the value has more", c->arg, name);
	return 0;
}

static int add_rule(struct profile *p, const char *name, unsigned nr, const struct rule *rule)
{
	struct scf_cond conds[SCF_MAX_CONDS];
	int r = 0;

	if (rule->n_conds == 0) {
		if (!p->is_decided[nr])
			p->f.calls[nr].otherwise = rule->action;
		p->is_decided[nr] = true;
		return 0;
	}
	memcpy(conds, rule->conds, sizeof conds);
	for (size_t i = 0; i < rule->n_conds && r == 0; i++)
		r = narrow(p, name, &conds[i]);
	if (r == 0 && !rule->is_any)
		r = scf_add(&p->f, nr, rule->action, conds, rule->n_conds);
	for (size_t i = 0; rule->is_any && i < rule->n_conds && r == 0; i++)
		r = scf_add(&p->f, nr, rule->action, &conds[i], 1);
	if (r == -E2BIG)
		return cell_fail(p->err, CELL_ELIMIT, 0,
			"read a seccomp profile: %s: more than %u rules for %s", p->where,
			SCF_MAX_RULES, name);
	return r == -ENOMEM ? cell_fail_errno(p->err, ENOMEM, "read a seccomp profile") : r;
}

static int add_name(struct profile *p, json_t *name, const struct rule *rule, bool does_apply)
{
	if (!json_is_string(name))
		return bad(p, "a name must be a string");
	const char *s = json_string_value(name);
	int nr = syscall_number(SYSCALL_ARCH_NATIVE, s);
	if (nr == -ENOENT && does_let_through(p->default_action) &&
		!does_let_through(rule->action)) {
		int r = bad(p, "'%.64s' is no system call", s);
		return cell_error_hint(p->err, r,
			"as it stands the call it means would be allowed: correct the name");
	}
	if (nr < 0)
		return 0;
	if ((unsigned)nr + 1 > p->n_named)
		p->n_named = (unsigned)nr + 1;
	if (!does_apply || rule->action == p->default_action)
		return 0;
	return add_rule(p, s, (unsigned)nr, rule);
}

/* "4.8" */
static int read_version(struct profile *p, const char *text, unsigned ret[2])
{
	char rest;

	if (strlen(text) > 16 || sscanf(text, "%5u.%5u%c", &ret[0], &ret[1], &rest) != 2)
		return bad(p, "minKernel: '%.32s' is no version such as 4.8", text);
	return 0;
}

static bool is_kernel_at_least(const unsigned want[2])
{
	struct utsname u;
	unsigned major = 0, minor = 0;

	if (uname(&u) < 0 || sscanf(u.release, "%5u.%5u", &major, &minor) != 2)
		return false;
	return major > want[0] || (major == want[0] && minor >= want[1]);
}

struct filter {
	bool has_caps, has_arches, has_our_arch, has_kernel, has_our_kernel;
};

static int read_filter(struct profile *p, json_t *rule, const char *key, struct filter *ret)
{
	static const char *const known[] = {"caps", "arches", "minKernel", NULL};
	json_t *o, *caps = NULL, *arches = NULL, *kernel = NULL, *v;
	unsigned version[2];
	size_t i;

	*ret = (struct filter){0};
	int r = get(p, rule, key, JSON_OBJECT, &o);
	if (r < 0 || !o)
		return r;
	r = check_keys(p, o, known);
	if (r == 0)
		r = get(p, o, "caps", JSON_ARRAY, &caps);
	if (r == 0)
		r = get(p, o, "arches", JSON_ARRAY, &arches);
	if (r == 0)
		r = get(p, o, "minKernel", JSON_STRING, &kernel);
	if (r < 0)
		return r;
	json_array_foreach (caps, i, v) {
		if (!json_is_string(v))
			return bad(p, "'caps' must be a list of strings");
	}
	ret->has_caps = json_array_size(caps) > 0;
	ret->has_arches = json_array_size(arches) > 0;
	json_array_foreach (arches, i, v) {
		if (!json_is_string(v))
			return bad(p, "'arches' must be a list of strings");
		ret->has_our_arch |= strcmp(json_string_value(v), GO_ARCH) == 0;
	}
	if (kernel && *json_string_value(kernel)) {
		r = read_version(p, json_string_value(kernel), version);
		if (r < 0)
			return r;
		ret->has_kernel = true;
		ret->has_our_kernel = is_kernel_at_least(version);
	}
	return 0;
}

static int read_applies(struct profile *p, json_t *o, bool *ret)
{
	struct filter in = {0}, out = {0};
	int r = read_filter(p, o, "includes", &in);

	if (r == 0)
		r = read_filter(p, o, "excludes", &out);
	if (r < 0)
		return r;
	*ret = !in.has_caps && (!in.has_arches || in.has_our_arch) &&
	       (!in.has_kernel || in.has_our_kernel) && !out.has_our_arch && !out.has_our_kernel;
	return 0;
}

static int read_rule(struct profile *p, size_t nth, json_t *o)
{
	static const char *const known[] = {"names", "name", "action", "errnoRet", "args",
		"comment", "includes", "excludes", NULL};
	json_t *names = NULL, *name = NULL, *args = NULL, *v;
	struct rule rule = {0};
	bool does_apply = false;
	size_t i;

	at(p, "syscalls[%zu]", nth);
	if (!json_is_object(o))
		return bad(p, "must be an object");
	int r = check_keys(p, o, known);
	if (r == 0)
		r = get_action(p, o, "action", "errnoRet", &rule.action);
	if (r == 0)
		r = get(p, o, "names", JSON_ARRAY, &names);
	if (r == 0)
		r = get(p, o, "name", JSON_STRING, &name);
	if (r == 0)
		r = get(p, o, "args", JSON_ARRAY, &args);
	if (r == 0)
		r = read_conds(p, nth, args, &rule);
	if (r == 0)
		r = read_applies(p, o, &does_apply);
	if (r < 0)
		return r;
	if (!name == !names)
		return bad(p, "one of 'names' and 'name' must be given");
	if (name)
		return add_name(p, name, &rule, does_apply);
	json_array_foreach (names, i, v) {
		at(p, "syscalls[%zu].names[%zu]", nth, i);
		r = add_name(p, v, &rule, does_apply);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Either list must have our architecture, when it is there at all. */
static int check_arches(struct profile *p, json_t *root)
{
	json_t *map = NULL, *plain = NULL, *v;
	bool has_ours = false;
	size_t i;

	int r = get(p, root, "archMap", JSON_ARRAY, &map);
	if (r == 0)
		r = get(p, root, "architectures", JSON_ARRAY, &plain);
	if (r < 0)
		return r;
	json_array_foreach (map, i, v) {
		const char *s = json_string_value(json_object_get(v, "architecture"));
		if (!s)
			return bad(p, "archMap[%zu]: 'architecture' must be a string", i);
		has_ours |= strcmp(s, SCMP_ARCH) == 0;
	}
	json_array_foreach (plain, i, v) {
		if (!json_is_string(v))
			return bad(p, "architectures[%zu] must be a string", i);
		has_ours |= strcmp(json_string_value(v), SCMP_ARCH) == 0;
	}
	if (!has_ours && json_array_size(map) + json_array_size(plain) > 0)
		return cell_fail(p->err, CELL_ENOTSUP, 0,
			"read a seccomp profile: it is for other machines: %s is not in its list",
			SCMP_ARCH);
	return 0;
}

static int check_rest(struct profile *p, json_t *root)
{
	static const char *const known[] = {"defaultAction", "defaultErrnoRet", "archMap",
		"architectures", "syscalls", "flags", "listenerPath", "listenerMetadata", NULL};
	static const char *const refused[] = {"listenerPath", "listenerMetadata", "flags"};
	int r = check_keys(p, root, known);

	for (size_t i = 0; i < 3 && r == 0; i++) {
		json_t *v = json_object_get(root, refused[i]);
		if (json_array_size(v) > 0 || (json_is_string(v) && json_string_length(v) > 0))
			return cell_fail(p->err, CELL_ENOTSUP, 0,
				"read a seccomp profile: '%s' cannot be honoured", refused[i]);
	}
	return r < 0 ? r : check_arches(p, root);
}

static int compile(struct profile *p, struct sock_fprog *ret)
{
	bool is_open = does_let_through(p->default_action);

	for (unsigned nr = 0; nr < p->f.n_calls; nr++) {
		struct scf_call *c = &p->f.calls[nr];
		if (!p->is_decided[nr] && !is_open && nr >= p->n_named)
			c->otherwise = SCF_ERRNO(ENOSYS);
		if (p->is_decided[nr])
			c->n_rules = 0;
	}
	p->f.beyond_action = is_open ? p->default_action : SCF_ERRNO(ENOSYS);
	int r = scf_compile(&p->f, ret);
	if (r == -E2BIG)
		return cell_fail(p->err, CELL_ELIMIT, 0,
			"compile a seccomp profile: it would have more than %u instructions",
			SCF_MAX_INSNS);
	return r < 0 ? cell_fail_errno(p->err, -r, "compile a seccomp profile") : 0;
}

static int read_profile(struct profile *p, json_t *root, struct sock_fprog *ret)
{
	json_t *syscalls = NULL, *rule;
	size_t i;

	if (!json_is_object(root))
		return bad(p, "it must be an object");
	int r = check_rest(p, root);
	if (r == 0)
		r = get_action(p, root, "defaultAction", "defaultErrnoRet", &p->default_action);
	if (r == 0)
		r = get(p, root, "syscalls", JSON_ARRAY, &syscalls);
	if (r < 0)
		return r;
	unsigned n = syscall_count(SYSCALL_ARCH_NATIVE);
	p->is_decided = calloc(n, sizeof *p->is_decided);
	r = p->is_decided ? scf_init(&p->f, SYSCALL_ARCH_NATIVE, n, p->default_action) : -ENOMEM;
	if (r < 0)
		return cell_fail_errno(p->err, -r, "read a seccomp profile");
	json_array_foreach (syscalls, i, rule) {
		r = read_rule(p, i, rule);
		if (r < 0)
			return r;
	}
	return compile(p, ret);
}

int seccomp_from_json(const char *json_text, size_t len, struct sock_fprog *ret,
	struct cell_error *err)
{
	struct profile p = {.err = err};
	json_error_t e;

	if (len > SECCOMP_JSON_MAX_BYTES)
		return cell_fail(err, CELL_ELIMIT, 0,
			"read a seccomp profile: it has more than %u bytes",
			SECCOMP_JSON_MAX_BYTES);
	json_t *root = json_loadb(json_text, len, JSON_REJECT_DUPLICATES, &e);
	if (!root)
		return cell_fail(err, CELL_EINVAL, 0,
			"read a seccomp profile: line %d, column %d: %.160s", e.line, e.column,
			e.text);
	int r = read_profile(&p, root, ret);
	json_decref(root);
	scf_done(&p.f);
	free(p.is_decided);
	return r;
}
