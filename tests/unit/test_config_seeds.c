/* SPDX-License-Identifier: Apache-2.0 */
/* test_config_seeds.c: every example of the founding documents loads and means what its page says. */
#include <dirent.h>
#include <errno.h>

#include "config_helper.h"

#define MIB (1ull << 20)
#define GIB (1ull << 30)

static struct cell_config *load(const char *path)
{
	struct cell_config *cfg = NULL;
	struct cell_error err = {0};
	char full[512];

	(void)snprintf(full, sizeof full, "%s/tests/data/%s", CELL_SOURCE_ROOT, path);
	struct cell_config_args args = {.path = full, .no_files = true, .no_env = true};
	int r = cell_config_load(&args, &cfg, &err);
	CHECK_(r == 0, "%s (%s)", err.msg, err.hint);
	return cfg;
}

static void in_data(const char *path, const char *relative, const char *name)
{
	char want[512];
	(void)snprintf(want, sizeof want, "%s/tests/data/%s%s", CELL_SOURCE_ROOT, relative, name);
	ASSERT_STR(path, want);
}

/* The items of a list, joined by spaces. */
static const char *words(struct cell_config *cfg, const char *path)
{
	static char buf[400];
	const struct node *n = config_value(cfg->values, path);
	size_t len = 0;

	buf[0] = '\0';
	for (size_t i = 0; n && i < n->n_items; i++)
		len += (size_t)snprintf(buf + len, sizeof buf - len, "%s%s", i ? " " : "",
			n->items[i]->text);
	return buf;
}

TEST(no_example_is_forgotten)
{
	DIR *d = opendir(CELL_SOURCE_ROOT "/tests/data/seeds");
	int n = 0;
	char path[400];

	ASSERT(d);
	for (struct dirent *e; (e = readdir(d));) {
		if (e->d_name[0] == '.')
			continue;
		(void)snprintf(path, sizeof path, "seeds/%s", e->d_name);
		struct cell_config *cfg = load(path);
		spec_from(cfg);
		cell_config_free(cfg);
		n++;
	}
	closedir(d);
	ASSERT_NUM(n, 13);
}

TEST(local_cell)
{
	struct cell_config *cfg = load("seeds/000_local_cell_development.yaml");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->backend, "local");
	in_data(s->workspace, "seeds", "/my-project");
	cell_config_free(cfg);
}

TEST(docker_cell)
{
	struct cell_config *cfg = load("seeds/000_docker_cell_production_single_node.yaml");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->backend, "docker");
	ASSERT_STR(s->image, "cognition-agent:latest");
	ASSERT_NUM(s->n_mounts, 1);
	ASSERT_STR(s->mounts[0].source, "/mnt/data");
	ASSERT_STR(s->mounts[0].target, "/workspace");
	ASSERT(s->mounts[0].is_read_only);
	cell_config_free(cfg);
}

TEST(lambda_sandbox)
{
	struct cell_config *cfg = load("seeds/001_lambda_sandbox.yaml");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->backend, "lambda");
	ASSERT_NUM(s->timeout_ms, 15 * 60 * 1000);
	ASSERT_NUM(s->limits.memory_bytes, 10 * GIB);
	ASSERT_STR(value_text(cfg, "sandbox.runtime"), "python3.11");
	cell_config_free(cfg);
}

TEST(ecs_fargate_sandbox)
{
	struct cell_config *cfg = load("seeds/001_ecs_fargate_sandbox.yaml");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->backend, "ecs_fargate");
	ASSERT_NUM(s->limits.cpu_millis, 1000);
	ASSERT_NUM(s->limits.memory_bytes, 2 * GIB);
	ASSERT_NUM(s->limits.disk_bytes, 20 * GIB);
	cell_config_free(cfg);
}

TEST(eks_fargate_sandbox)
{
	struct cell_config *cfg = load("seeds/001_eks_fargate_sandbox.yaml");
	ASSERT_STR(spec_from(cfg)->backend, "eks_fargate");
	ASSERT_STR(value_text(cfg, "sandbox.namespace"), "cognition-workspaces");
	ASSERT_STR(value_text(cfg, "sandbox.service_account"), "cognition-runner");
	cell_config_free(cfg);
}

TEST(lambda_and_ecs_hybrid)
{
	struct cell_config *cfg = load("seeds/001_lambda_ecs_hybrid.yaml");
	ASSERT_STR(spec_from(cfg)->backend, "hybrid_aws");
	ASSERT_STR(value_text(cfg, "sandbox.primary.type"), "ecs_fargate");
	ASSERT_STR(words(cfg, "sandbox.primary.use_for"), "sessions streaming long_running");
	ASSERT_STR(value_text(cfg, "sandbox.secondary.type"), "lambda");
	ASSERT_STR(words(cfg, "sandbox.secondary.use_for"), "files git commands");
	cell_config_free(cfg);
}

TEST(wasm_sandbox)
{
	struct cell_config *cfg = load("seeds/001_webassembly_wasm_sandbox.yaml");
	ASSERT_STR(spec_from(cfg)->backend, "wasm");
	ASSERT_STR(value_text(cfg, "sandbox.runtime"), "wasmtime");
	ASSERT_STR(words(cfg, "sandbox.capabilities"), "filesystem networking");
	cell_config_free(cfg);
}

TEST(codespaces)
{
	struct cell_config *cfg = load("seeds/001_github_codespaces_integration.yaml");
	ASSERT_STR(spec_from(cfg)->backend, "codespaces");
	ASSERT_STR(value_text(cfg, "sandbox.prebuild"), "true");
	ASSERT_STR(value_text(cfg, "sandbox.dotfiles_repo"), "user/dotfiles");
	cell_config_free(cfg);
}

TEST(browser)
{
	struct cell_config *cfg = load("seeds/001_browser_based_sandbox.yaml");
	ASSERT_STR(spec_from(cfg)->backend, "browser");
	ASSERT_STR(value_text(cfg, "sandbox.compile_target"), "wasm32-wasi");
	cell_config_free(cfg);
}

TEST(minimal_local_setup)
{
	struct cell_config *cfg = load("seeds/001_minimal_local_setup.yaml");
	const struct cell_spec *s = spec_from(cfg);
	struct cell_spec rest = *s;
	ASSERT_STR(s->backend, "local");
	rest.backend = NULL;
	ASSERT(is_zero(&rest, sizeof rest));
	cell_config_free(cfg);
}

TEST(team_docker_setup)
{
	struct cell_config *cfg = load("seeds/001_team_docker_setup.yaml");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->backend, "docker");
	ASSERT_STR(s->image, "cognition/sandbox:latest");
	ASSERT_NUM(s->n_mounts, 2);
	in_data(s->mounts[0].source, "seeds", "");
	ASSERT_STR(s->mounts[0].target, "/workspace");
	ASSERT(!s->mounts[0].is_read_only);
	ASSERT_STR(s->mounts[1].source, "/var/run/docker.sock");
	ASSERT_STR(s->mounts[1].target, "/var/run/docker.sock");
	cell_config_free(cfg);
}

TEST(production_aws_setup)
{
	struct cell_config *cfg = load("seeds/001_production_aws_setup.yaml");
	ASSERT_STR(spec_from(cfg)->backend, "ecs_fargate");
	ASSERT_STR(value_text(cfg, "sandbox.cluster"), "cognition-production");
	ASSERT_STR(value_text(cfg, "sandbox.task_definition"), "cognition-sandbox");
	ASSERT_STR(words(cfg, "sandbox.subnets"), "subnet-xxx");
	ASSERT_STR(words(cfg, "sandbox.security_groups"), "sg-yyy");
	ASSERT_STR(value_text(cfg, "storage.type"), "efs");
	ASSERT_STR(value_text(cfg, "storage.file_system_id"), "fs-zzz");
	ASSERT_STR(value_text(cfg, "auto_scaling.min_tasks"), "1");
	ASSERT_STR(value_text(cfg, "auto_scaling.max_tasks"), "10");
	ASSERT_STR(value_text(cfg, "auto_scaling.target_cpu"), "70");
	cell_config_free(cfg);
}

TEST(lambda_optimized_setup)
{
	struct cell_config *cfg = load("seeds/001_lambda_optimized_setup.yaml");
	ASSERT_STR(spec_from(cfg)->backend, "hybrid_aws");
	ASSERT_STR(words(cfg, "sandbox.primary.use_for"), "sessions streaming");
	ASSERT_STR(words(cfg, "sandbox.secondary.use_for"), "files git validate");
	const struct node *f = config_value(cfg->values, "sandbox.secondary.functions");
	ASSERT_NUM(f->n_items, 3);
	ASSERT_STR(node_get(f, "git_status")->text,
		"arn:aws:lambda:region:account:function:git-status");
	cell_config_free(cfg);
}

TEST(in_process_executor)
{
	struct cell_config *cfg = load("executors/in_process.yaml");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->backend, "in_process");
	ASSERT_NUM(s->timeout_ms, 30000);
	ASSERT_STR(value_text(cfg, "allow_runtime_deps"), "true");
	cell_config_free(cfg);
}

TEST(subprocess_executor)
{
	struct cell_config *cfg = load("executors/subprocess.yaml");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->backend, "subprocess");
	ASSERT_STR(s->deps.python_version, "3.11");
	ASSERT_NUM(s->timeout_ms, 120000);
	ASSERT(!s->deps.venv_dir);
	ASSERT(s->deps.runtime);
	cell_config_free(cfg);
}

TEST(container_executor)
{
	struct cell_config *cfg = load("executors/container.yaml");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->backend, "jail");
	ASSERT_NUM(s->timeout_ms, 60000);
	ASSERT_NUM(s->limits.memory_bytes, 512 * MIB);
	ASSERT_NUM(s->limits.cpu_millis, 0);
	ASSERT_NUM(s->network, CELL_NETWORK_OPEN);
	ASSERT_STR(value_text(cfg, "auth_token"), "your-secret-token");
	ASSERT_STR(value_text(cfg, "auth_disabled"), "false");
	cell_config_free(cfg);
}
