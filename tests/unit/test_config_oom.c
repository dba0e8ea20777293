/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_config_oom.c: every allocation on the way from YAML to spec and dump fails once, each in turn.
 * Nothing may crash or leak; the call says -ENOMEM. Linked with --wrap for the allocating functions, so
 * that libyaml's and jansson's fail too.
 */
#include "config_helper.h"
#include "core/env.h"

static long countdown = -1; /* the allocation that fails; -1: none */
static bool has_failed;

static bool is_time(void)
{
	if (countdown < 0 || countdown-- > 0)
		return false;
	has_failed = true;
	countdown = -1;
	return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);
char *__real_strdup(const char *s);
char *__real_strndup(const char *s, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t n, size_t size);
char *__wrap_strdup(const char *s);
char *__wrap_strndup(const char *s, size_t n);

void *__wrap_malloc(size_t n)
{
	return is_time() ? NULL : __real_malloc(n);
}
void *__wrap_calloc(size_t n, size_t size)
{
	return is_time() ? NULL : __real_calloc(n, size);
}
void *__wrap_realloc(void *p, size_t n)
{
	return is_time() ? NULL : __real_realloc(p, n);
}
void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
	return is_time() ? NULL : __real_reallocarray(p, n, size);
}
char *__wrap_strdup(const char *s)
{
	return is_time() ? NULL : __real_strdup(s);
}
char *__wrap_strndup(const char *s, size_t n)
{
	return is_time() ? NULL : __real_strndup(s, n);
}

static const char text[] = "run_mode: aws_ecs\n"
			   "volumes: ['/a:/b:ro', {src: '/c:d', dst: /e}, './x:/y']\n"
			   "env: {A: 'true', SECRET: x, C: null}\n"
			   "labels: [a=b, a=c]\n"
			   "sandbox: {cpu: 1024, memory: 2048, subnets: [subnet-a], network: {allow: [a.org]}}\n"
			   "needs: [pty]\n"
			   "timeout: 90\n";

static int everything(struct cell_error *err)
{
	struct cell_config *cfg = NULL;
	const struct cell_spec *spec;
	char *out = NULL;
	char variable[] = "CELL_LABELS=k=v,l=w", list[] = "CELL_NEEDS=[pty, files]";
	char *variables[] = {variable, list, NULL};
	static const char *const extra[] = {"A=b", "C=d", NULL};
	char **env = NULL;

	int r = cell_config_load_text("f", text, sizeof text - 1, &cfg, err);
	if (r == 0)
		r = config_read_variables(cfg, variables, err);
	if (r == 0)
		r = cell_config_set(cfg, "env", "A=2", "--env", err);
	if (r == 0)
		r = cell_config_set(cfg, "mounts", "/q:/y", "--mount", err);
	if (r == 0)
		r = cell_config_spec(cfg, &spec, err);
	for (int i = 0; r == 0 && i < 4; i++) {
		r = cell_config_dump(cfg, i & 1 ? CELL_CONFIG_JSON : CELL_CONFIG_YAML, i & 2, &out, err);
		if (r == 0)
			free(out);
	}
	if (r == 0)
		r = cell_env_compose(CELL_ENV_ALL, environ, extra, &env, err);
	cell_env_free(r == 0 ? env : NULL);
	cell_config_free(cfg);
	return r;
}

TEST(a_failing_allocation_is_an_error_and_nothing_more)
{
	struct cell_error err = {0};
	long n = 0;

	CHECK_(everything(&err) == 0, "%s", err.msg);
	for (;; n++) {
		countdown = n;
		has_failed = false;
		memset(&err, 0, sizeof err);
		int r = everything(&err);
		countdown = -1;
		if (!has_failed)
			break;
		CHECK_(r == -ENOMEM, "allocation %ld: %d, %s", n, r, err.msg);
		ASSERT_NUM(err.code, CELL_ENOSPACE);
	}
	CHECK_(n > 300, "only %ld allocations were tried", n);
}
