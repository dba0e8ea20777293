/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_config_alloc.c: every allocation on the way from YAML to spec, dump and environment fails in its
 * turn. Each time the call says -ENOMEM, and nothing is left behind.
 */
#include "core/env.h"
#include "torture/alloc.h"
#include "unit/config_helper.h"

static const char text[] =
	"run_mode: aws_ecs\n"
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
		r = cell_config_dump(cfg, i & 1 ? CELL_CONFIG_JSON : CELL_CONFIG_YAML, i & 2, &out,
			err);
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

	torture_arm(0, false);
	int r = everything(&err);
	unsigned long count = torture_disarm();
	CHECK_(r == 0, "%s", err.msg);
	CHECK_(count > 300, "only %lu allocations", count);
	for (unsigned long n = 1; n <= count; n++) {
		memset(&err, 0, sizeof err);
		torture_arm(n, false);
		r = everything(&err);
		(void)torture_disarm();
		CHECK_(r == -ENOMEM, "allocation %lu: %d, %s", n, r, err.msg);
		ASSERT_NUM(err.code, CELL_ENOSPACE);
	}
}
