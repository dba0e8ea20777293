/* SPDX-License-Identifier: Apache-2.0 */
/* test_config.c: keys, values, contradictions, sets and dumps. Layers are in test_config_layers.c. */
#include "config_helper.h"
#include "core/backend.h"

TEST(every_key_reaches_the_spec)
{
	struct cell_config *cfg =
		config_of("name: box-1\n"
			  "backend: subprocess\n"
			  "tier: semi_trusted\n"
			  "lifecycle: session\n"
			  "image: alpine:3\n"
			  "root: /srv/root\n"
			  "workspace: /srv/work\n"
			  "mounts: ['/a:/b', {source: '/c:d', target: /e, read_only: true}]\n"
			  "env: {A: 1, B: 'x y', C: ''}\n"
			  "env_from: core\n"
			  "cwd: sub\n"
			  "user: '1000:100'\n"
			  "timeout: 1m30s\n"
			  "limits:\n"
			  "  memory: 512m\n"
			  "  cpus: 0.5\n"
			  "  pids: 64\n"
			  "  disk: 2g\n"
			  "  files: 128\n"
			  "  file_size: 10m\n"
			  "  process_memory: 256m\n"
			  "  cpu_time: 1500ms\n"
			  "  io_weight: 50\n"
			  "  best_effort: yes\n"
			  "resources: dedicated\n"
			  "network: {mode: allow, allow: [example.org, '*.x.org:443']}\n"
			  "gpus: 2\n"
			  "labels: [team=a, k=v=w]\n"
			  "needs: [pty, limits.memory, kill-tree]\n");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->name, "box-1");
	ASSERT_STR(s->backend, "subprocess");
	ASSERT_NUM(s->tier, 2);
	ASSERT_NUM(s->lifecycle, CELL_LIFECYCLE_SESSION);
	ASSERT_STR(s->image, "alpine:3");
	ASSERT_STR(s->root, "/srv/root");
	ASSERT_STR(s->workspace, "/srv/work");
	ASSERT_NUM(s->n_mounts, 2);
	ASSERT_STR(s->mounts[1].source, "/c:d");
	ASSERT(!s->mounts[0].is_read_only && s->mounts[1].is_read_only);
	ASSERT_STR(s->env[0], "A=1");
	ASSERT_STR(s->env[1], "B=x y");
	ASSERT_STR(s->env[2], "C=");
	ASSERT(!s->env[3]);
	ASSERT_NUM(s->env_from, CELL_ENV_CORE);
	ASSERT_STR(s->cwd, "sub");
	ASSERT_STR(s->user, "1000:100");
	ASSERT_NUM(s->timeout_ms, 90000);
	ASSERT_NUM(s->limits.memory_bytes, 512 << 20);
	ASSERT_NUM(s->limits.cpu_millis, 500);
	ASSERT_NUM(s->limits.pids, 64);
	ASSERT_NUM(s->limits.disk_bytes, 2ll << 30);
	ASSERT_NUM(s->limits.files, 128);
	ASSERT_NUM(s->limits.file_size_bytes, 10 << 20);
	ASSERT_NUM(s->limits.process_memory_bytes, 256 << 20);
	ASSERT_NUM(s->limits.cpu_time_s, 2);
	ASSERT_NUM(s->limits.io_weight, 50);
	ASSERT(s->limits.is_best_effort);
	ASSERT_NUM(s->resources, CELL_RESOURCES_DEDICATED);
	ASSERT_NUM(s->network, CELL_NETWORK_ALLOW);
	ASSERT_STR(s->network_allow[0], "example.org");
	ASSERT_STR(s->network_allow[1], "*.x.org:443");
	ASSERT(!s->network_allow[2]);
	ASSERT_NUM(s->gpus, 2);
	ASSERT_STR(s->labels[1], "k=v=w");
	ASSERT_STR(s->needs[0], "pty");
	ASSERT_STR(s->needs[2], "kill-tree");
	cell_config_free(cfg);
}

TEST(an_empty_document_asks_for_nothing)
{
	struct cell_config *cfg = config_of("# nothing\n");
	ASSERT(is_zero(spec_from(cfg), sizeof(struct cell_spec)));
	cell_config_free(cfg);
	cfg = config_of("image: null\nlimits:\nenv: ~\nbackend: auto\n");
	ASSERT(is_zero(spec_from(cfg), sizeof(struct cell_spec)));
	cell_config_free(cfg);
}

TEST(an_unknown_key_has_its_place_and_the_nearest_known_one)
{
	refuses("imge: x\n", "cell.yaml:1:1: unknown key 'imge'", "did you mean 'image'?");
	refuses("backend: local\nlimits:\n  memry: 1g\n", "cell.yaml:3:3: unknown key 'memry'",
		"did you mean 'memory'?");
	refuses("sandbox:\n  subnet: [subnet-1]\n", "cell.yaml:2:3: unknown key 'subnet'",
		"did you mean 'subnets'?");
	refuses("sandbox:\n  imagee: x\n", "cell.yaml:2:3: unknown key 'imagee'",
		"did you mean 'image'?");
	refuses("sandbox: {primary: {tpe: lambda}}\n", "cell.yaml:1:21: unknown key 'tpe'",
		"did you mean 'type'?");
	refuses("pids: 3\n", "cell.yaml:1:1: unknown key 'pids'", NULL);
	refuses("io_weight: 3\n", "cell.yaml:1:1: unknown key 'io_weight'",
		"did you mean 'limits.io_weight'?");
	refuses("zzzzzzzzzzzz: 3\n", "cell.yaml:1:1: unknown key 'zzzzzzzzzzzz'",
		"docs/configuration.md lists every key");
	refuses("mounts: [{sorce: /a, target: /b}]\n", "cell.yaml:1:11: unknown key 'sorce'",
		"did you mean 'source'?");
	refuses("sandbox: {sandbox: {image: x}}\n", "cell.yaml:1:11: unknown key 'sandbox'", NULL);
	refuses("limits.memory: 1g\n", "cell.yaml:1:1: unknown key 'limits.memory'",
		"a dot does not nest here: write a: {b: ...}");
}

TEST(a_value_of_the_wrong_type_says_what_is_expected)
{
	refuses("limits: {memory: lots}\n",
		"cell.yaml:1:18: 'limits.memory' takes a size, not 'lots'",
		"for example: 512m, 1.5g or plain bytes");
	refuses("timeout: soon\n", "cell.yaml:1:10: 'timeout' takes a duration, not 'soon'", NULL);
	refuses("timeout: -1\n", "cell.yaml:1:10: 'timeout' takes a duration, not '-1'", NULL);
	refuses("limits: 5\n", "cell.yaml:1:9: 'limits' takes a mapping, not a number", NULL);
	refuses("image: [a]\n", "cell.yaml:1:8: 'image' takes text, not a list", NULL);
	refuses("image: true\n", "cell.yaml:1:8: 'image' takes text, not 'true'",
		"quote it if text is meant: \"true\"");
	refuses("image: ''\n", "cell.yaml:1:8: 'image' is empty", NULL);
	refuses("sandbox: {prebuild: maybe}\n",
		"cell.yaml:1:21: 'sandbox.prebuild' takes true or false, not 'maybe'", NULL);
	refuses("sandbox: {prebuild: 'true'}\n",
		"cell.yaml:1:21: 'sandbox.prebuild' takes true or false, not 'true'",
		"remove the quotes");
	refuses("gpus: '2'\n", "cell.yaml:1:7: 'gpus' takes a whole number, not '2'",
		"remove the quotes");
	refuses("gpus: 1.5\n", "cell.yaml:1:7: 'gpus' takes a whole number, not '1.5'", NULL);
	refuses("env: A=1\n", "cell.yaml:1:6: 'env' takes a mapping or a list of K=V, not 'A=1'",
		NULL);
	refuses("env: [A]\n", "cell.yaml:1:7: 'env': an entry of the list has no '='",
		"write NAME=value");
	refuses("env: {'A B': 1}\n", "cell.yaml:1:14: 'env': 'A B' cannot be a name", NULL);
	refuses("env: {A: [1]}\n", "cell.yaml:1:10: 'env': an entry is a list; it should be text",
		NULL);
	refuses("needs: {a: 1}\n",
		"cell.yaml:1:8: 'needs' takes a list of its words, not a mapping", NULL);
	refuses("[a]\n", "cell.yaml:1:1: the document is a list; it should be a mapping", NULL);
	refuses("just text\n", "cell.yaml:1:1: the document is text; it should be a mapping", NULL);
	refuses("image: \"a\\nb\"\n", "cell.yaml:1:8: 'image' has a control character in it", NULL);
}

TEST(numbers_have_ranges)
{
	refuses("gpus: 65\n", "cell.yaml:1:7: 'gpus' is '65'; it goes from 0 to 64", NULL);
	refuses("limits: {pids: 0}\n",
		"cell.yaml:1:16: 'limits.pids' is '0'; it goes from 1 to 4194304", NULL);
	refuses("limits: {memory: 2048}\n",
		"cell.yaml:1:18: 'limits.memory' is '2048'; the least is 1m",
		"a plain number is bytes: write '2048m' for MiB");
	refuses("limits: {memory: 99999999999999999999g}\n",
		"cell.yaml:1:18: 'limits.memory' is '99999999999999999999g', which is too large",
		NULL);
	refuses("limits: {cpus: 0}\n",
		"cell.yaml:1:16: 'limits.cpus' is '0'; it goes from 0.001 to 1000", NULL);
	refuses("limits: {io_weight: 10001}\n",
		"cell.yaml:1:21: 'limits.io_weight' is '10001'; it goes from 1 to 10000", NULL);
	refuses("tier: 5\n", "cell.yaml:1:7: 'tier' has no value '5'", NULL);
	refuses("name: Box\n",
		"cell.yaml:1:7: 'name' takes a name of a-z 0-9 . _ -, beginning with a letter or "
		"digit, "
		"at most 63 long, not 'Box'",
		NULL);
}

TEST(a_wrong_word_brings_the_nearest_right_one)
{
	refuses("env_from: coer\n", "cell.yaml:1:11: 'env_from' has no value 'coer'",
		"did you mean 'core'?");
	refuses("resources: xyzzy12345\n", "cell.yaml:1:12: 'resources' has no value 'xyzzy12345'",
		"one of: shared, limited, burstable, dedicated");
	refuses("needs: [limits.memroy]\n", "cell.yaml:1:9: 'needs' has no value 'limits.memroy'",
		"did you mean 'limits.memory'?");
	refuses("backend: dokcer\n", "cell.yaml:1:10: 'backend': no back end is called 'dokcer'",
		"did you mean 'docker'?");
	refuses("backend: trce:local\n", "cell.yaml:1:10: 'backend' has no value 'trce:local'",
		"before the colon stands a wrapper: trace:local");
}

TEST(back_ends_have_many_names)
{
	static const char *const pairs[][2] = {{"aws_ecs", "ecs_fargate"},
		{"ecs_fargate", "ecs_fargate"}, {"aws_ecs_fargate", "ecs_fargate"},
		{"aws_lambda", "lambda"}, {"k8s", "kubernetes"}, {"Docker", "docker"},
		{"cloud_hypervisor", "cloud-hypervisor"}, {"gvisor", "oci"},
		{"trace:local", "trace:local"}, {"fault:trace:container", "fault:trace:docker"},
		{"web-assembly", "browser"}};
	char text[80];

	for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		(void)snprintf(text, sizeof text, "backend: %s\n", pairs[i][0]);
		struct cell_config *cfg = config_of(text);
		ASSERT_STR(spec_from(cfg)->backend, pairs[i][1]);
		cell_config_free(cfg);
	}
}

TEST(every_back_end_name_is_one_the_registry_knows)
{
	for (const struct backend_name *b = backend_names; b->name; b++) {
		bool is_known = !strcmp(b->name, "auto") || backend_is_built(b->name);
		for (size_t i = 0; cell_backends_planned[i].name; i++)
			is_known |= !strcmp(cell_backends_planned[i].name, b->name);
		CHECK_(is_known, "'%s' is neither built nor planned", b->name);
	}
}

TEST(contradictions_are_errors)
{
	refuses("run_mode: docker\nbackend: local\n",
		"cell.yaml:2:1: 'backend' says 'local', but 'run_mode' says 'docker'",
		"keep one of them; the other stands at cell.yaml:1:11");
	refuses("run_mode: lambda\nsandbox:\n  type: aws_ecs\n",
		"cell.yaml:3:3: 'sandbox.type' says 'ecs_fargate', but 'run_mode' says 'lambda'",
		NULL);
	refuses("network: {mode: none, allow: [a.org]}\n",
		"cell.yaml:1:23: 'network.allow' contradicts 'network.mode: none': without a "
		"network "
		"nothing can be allowed",
		NULL);
	refuses("network: {mode: open, allow: [a.org]}\n",
		"cell.yaml:1:23: 'network.allow' contradicts 'network.mode: open': an open network "
		"needs no list",
		NULL);
	refuses("network: none\nnetwork_disabled: false\n",
		"cell.yaml:2:1: 'network_disabled' says 'open', but 'network' says 'none'", NULL);
	refuses("timeout: 1\ndefault_timeout: 2\n",
		"cell.yaml:2:1: 'default_timeout' says '2s', but 'timeout' says '1s'", NULL);
	refuses("mounts: ['/a:/b']\nvolumes: ['/a:/c']\n",
		"cell.yaml:2:1: 'volumes' and 'mounts' are the same key and differ", NULL);
	refuses("auth_token: x\nauth_disabled: true\n",
		"cell.yaml:1:1: 'auth_token' contradicts 'auth_disabled: true': a token is of no "
		"use "
		"without authentication",
		NULL);
	refuses("network: allow\n",
		"cell.yaml:1:10: 'network' is allow, but network.allow names nobody", NULL);
	refuses("auto_scaling: {min_tasks: 5, max_tasks: 2}\n",
		"cell.yaml:1:27: 'auto_scaling.min_tasks' is 5, more than "
		"'auto_scaling.max_tasks', "
		"which is 2",
		NULL);
	refuses("run_mode: hybrid_aws\n", "cell.yaml:1:11: 'run_mode' is hybrid_aws, but of what?",
		NULL);
	refuses("run_mode: wasm\nnetwork: none\nsandbox: {capabilities: [networking]}\n",
		"cell.yaml:3:11: 'sandbox.capabilities' contradicts 'network: none': networking "
		"needs "
		"a network",
		NULL);
	refuses("run_mode: hybrid_aws\nsandbox:\n  primary: {type: ecs, for: [files]}\n"
		"  secondary: {type: lambda, use_for: [file_ops]}\n",
		"cell.yaml:3:30: 'files' is given to both sandbox.primary and sandbox.secondary",
		NULL);
}

TEST(two_spellings_that_agree_are_fine)
{
	struct cell_config *cfg =
		config_of("run_mode: ecs_fargate\nbackend: aws_ecs\nexecutor: fargate\n"
			  "timeout: 60\ndefault_timeout: 1m\n");
	ASSERT_STR(spec_from(cfg)->backend, "ecs_fargate");
	ASSERT_NUM(spec_from(cfg)->timeout_ms, 60000);
	cell_config_free(cfg);
}

TEST(a_key_of_another_back_end_is_an_error)
{
	refuses("backend: docker\nsandbox:\n  subnets: [subnet-1]\n",
		"cell.yaml:3:3: 'sandbox.subnets' is not a key of the back end 'docker'",
		"it belongs to: ecs_fargate eks_fargate lambda");
	refuses("backend: local\nstorage: {type: efs}\n",
		"cell.yaml:2:11: 'storage.type' is not a key of the back end 'local'", NULL);
}

TEST(managed_services_have_their_own_ranges)
{
	refuses("run_mode: lambda\nsandbox: {timeout: 901}\n",
		"cell.yaml:2:20: 'sandbox.timeout' is 901s; for lambda it goes from 1s to 15m",
		"AWS Lambda ends a call after 15 minutes");
	refuses("run_mode: lambda\ntimeout: 0\n",
		"cell.yaml:2:10: 'timeout' is 0s; for lambda it goes from 1s to 15m", NULL);
	refuses("run_mode: lambda\nsandbox: {memory: 10241}\n",
		"cell.yaml:2:19: 'sandbox.memory' is 10241m; for lambda it goes from 128m to 10g",
		NULL);
	refuses("sandbox: {type: aws_ecs, cpu: 1000}\n",
		"cell.yaml:1:31: 'sandbox.cpu' is 0.977 CPUs, which AWS Fargate does not offer",
		NULL);
	refuses("sandbox: {type: aws_ecs, cpu: 256, memory: 4096}\n",
		"cell.yaml:1:44: 'sandbox.memory' is 4g; with 0.25 CPUs AWS Fargate offers 512 to "
		"2048 "
		"MiB",
		NULL);
	refuses("sandbox: {type: aws_ecs, storage: 201}\n",
		"cell.yaml:1:35: 'sandbox.storage' is 201g; for ecs_fargate it goes from 20g to "
		"200g",
		NULL);
	refuses("run_mode: hybrid_aws\nsandbox:\n  primary: {type: ecs, cpu: 1024, memory: 2048}\n"
		"  secondary: {type: lambda, timeout: 901}\n",
		"cell.yaml:4:38: 'sandbox.secondary.timeout' is 901s; for lambda it goes from 1s "
		"to 15m",
		NULL);
	refuses("sandbox: {type: aws_ecs, subnets: [net-1]}\n",
		"cell.yaml:1:36: 'sandbox.subnets' takes ids that begin with 'subnet-', not "
		"'net-1'",
		NULL);
	refuses("run_mode: codespaces\nsandbox: {dotfiles_repo: nothing}\n",
		"cell.yaml:2:26: 'sandbox.dotfiles_repo' takes owner/name or a URL, not 'nothing'",
		NULL);
}

TEST(a_plain_memory_is_bytes_where_no_service_says_otherwise)
{
	struct cell_config *cfg = config_of("run_mode: docker\nsandbox: {memory: 536870912}\n");
	ASSERT_NUM(spec_from(cfg)->limits.memory_bytes, 512 << 20);
	cell_config_free(cfg);
	cfg = config_of("run_mode: lambda\nmemory: 512m\n");
	ASSERT_NUM(spec_from(cfg)->limits.memory_bytes, 512 << 20);
	cell_config_free(cfg);
}

TEST(a_cpu_quota_is_dockers_microseconds_or_cpus)
{
	struct cell_config *cfg = config_of("cpu_quota: 50000\n");
	ASSERT_NUM(spec_from(cfg)->limits.cpu_millis, 500);
	cell_config_free(cfg);
	cfg = config_of("cpu_quota: 1.5\n");
	ASSERT_NUM(spec_from(cfg)->limits.cpu_millis, 1500);
	cell_config_free(cfg);
}

TEST(lists_have_a_limit)
{
	static char text[8000] = "needs: [";
	size_t n = strlen(text);
	for (int i = 0; i < 1024; i++)
		n += (size_t)snprintf(text + n, sizeof text - n, "%spty", i ? "," : "");
	(void)snprintf(text + n, sizeof text - n, "]");
	struct cell_config *cfg = config_of(text);
	cell_config_free(cfg);
	(void)snprintf(text + n, sizeof text - n, ",pty]");
	refuses(text, "cell.yaml:1:8: 'needs': more than 1024 entries", NULL);
}

TEST(mounts_are_checked)
{
	refuses("mounts: [data:/data]\n",
		"cell.yaml:1:10: 'mounts': 'data' is a named volume, and there are none",
		"for a directory write './data'");
	refuses("mounts: [/data]\n", "cell.yaml:1:10: 'mounts': '/data' has no target", NULL);
	refuses("mounts: ['/a:b']\n",
		"cell.yaml:1:10: 'mounts': 'b' is not an absolute path in the cell", NULL);
	refuses("mounts: ['/a:/b/../../c']\n",
		"cell.yaml:1:10: 'mounts': '/b/../../c' is not an absolute path in the cell", NULL);
	refuses("mounts: ['/a:/b:rx']\n",
		"cell.yaml:1:10: 'mounts': a mount is 'ro' or 'rw', not 'rx'", NULL);
	refuses("mounts: ['/a:/b', '/c:/b']\n", "cell.yaml:1:19: 'mounts': two mounts at '/b'",
		NULL);
	refuses("mounts: [{source: /a}]\n",
		"cell.yaml:1:10: 'mounts': a mount needs a source and a target", NULL);
	refuses("mounts: [':/b']\n",
		"cell.yaml:1:10: 'mounts': the source of a mount is empty or not text", NULL);
	ASSERT_OK(setenv("HOME", "/home/me", 1));
	struct cell_config *cfg = config_of("mounts: ['~/x:/x', '/y:/..y:rw']\n");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->mounts[0].source, "/home/me/x");
	ASSERT_STR(s->mounts[1].target, "/..y");
	cell_config_free(cfg);
}

TEST(what_this_build_cannot_honour_is_not_passed_over)
{
	refuses("backend: local\nallow_runtime_deps: false\n",
		"cell.yaml:2:1: 'allow_runtime_deps' needs control over installed packages, which "
		"this "
		"build does not have",
		"leave 'allow_runtime_deps' out");
	struct cell_config *cfg = config_of("backend: local\nallow_runtime_deps: true\n");
	spec_from(cfg);
	cell_config_free(cfg);
	cfg = config_of("backend: kubernetes\nallow_runtime_deps: false\n");
	spec_from(cfg);
	cell_config_free(cfg);
}

static void set(struct cell_config *cfg, const char *key, const char *value, const char *origin)
{
	struct cell_error err = {0};
	int r = cell_config_set(cfg, key, value, origin, &err);
	CHECK_(r == 0, "%s", err.msg);
}

TEST(flags_stand_over_everything_and_add_to_lists)
{
	struct cell_config *cfg =
		config_of("image: a\nenv: {A: 1, B: 2}\nmounts: ['/a:/x']\n"
			  "labels: {l: 1}\nneeds: [pty]\nnetwork: {allow: [a.org]}\n");
	spec_from(cfg);
	set(cfg, "image", "b", "--image");
	set(cfg, "env", "B=3,4", "--env");
	set(cfg, "env", "C=", "--env");
	set(cfg, "mounts", "/c:/x:ro", "--mount");
	set(cfg, "mounts", "/d:/y", "--mount");
	set(cfg, "needs", "files", "--need");
	set(cfg, "network.allow", "b.org", "--allow");
	set(cfg, "limits.memory", "64m", "--memory");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_STR(s->image, "b");
	ASSERT_STR(s->env[0], "A=1");
	ASSERT_STR(s->env[1], "B=3,4");
	ASSERT_STR(s->env[2], "C=");
	ASSERT_NUM(s->n_mounts, 2);
	ASSERT_STR(s->mounts[0].source, "/c");
	ASSERT(s->mounts[0].is_read_only);
	ASSERT_STR(s->needs[1], "files");
	ASSERT_STR(s->network_allow[0], "a.org");
	ASSERT_STR(s->network_allow[1], "b.org");
	ASSERT_NUM(s->limits.memory_bytes, 64 << 20);
	cell_config_free(cfg);
}

static void set_fails(struct cell_config *cfg, const char *key, const char *value, const char *msg)
{
	struct cell_error err = {0};
	ASSERT(cell_config_set(cfg, key, value, "--flag", &err) < 0);
	ASSERT_STR(err.msg, msg);
}

TEST(a_bad_flag_names_the_flag_and_changes_nothing)
{
	struct cell_config *cfg = config_of("image: a\n");
	set_fails(cfg, "limits.memory", "x", "--flag: 'limits.memory' takes a size, not 'x'");
	set_fails(cfg, "imge", "x", "--flag: unknown key 'imge'");
	set_fails(cfg, "image", "", "--flag: 'image' is empty");
	set_fails(cfg, "env", "A", "--flag: 'env': an entry of the list has no '='");
	set_fails(cfg, "limits", "x", "--flag: unknown key 'limits'");
	set_fails(cfg, "timeout", "", "--flag: 'timeout' takes a duration, not ''");
	ASSERT_STR(spec_from(cfg)->image, "a");
	cell_config_free(cfg);
}

TEST(flags_for_the_network_override_and_contradict_as_one_would_think)
{
	struct cell_error err = {0};
	const struct cell_spec *s;
	struct cell_config *cfg = config_of("network: {allow: [a.org]}\n");
	set(cfg, "network", "none", "--network");
	ASSERT_NUM(spec_from(cfg)->network, CELL_NETWORK_NONE);
	ASSERT(!spec_from(cfg)->network_allow);
	cell_config_free(cfg);

	cfg = config_of("network: none\n");
	set(cfg, "network.allow", "a.org", "--allow");
	ASSERT_NUM(spec_from(cfg)->network, CELL_NETWORK_ALLOW);
	cell_config_free(cfg);

	cfg = config_of("");
	set(cfg, "network", "none", "--network");
	set(cfg, "network.allow", "a.org", "--allow");
	ASSERT(cell_config_spec(cfg, &s, &err) < 0);
	ASSERT(strstr(err.msg, "--allow: 'network.allow' contradicts"));
	cell_config_free(cfg);

	cfg = config_of("");
	set(cfg, "network.allow", "a.org", "--allow");
	set(cfg, "network", "none", "--network");
	ASSERT(cell_config_spec(cfg, &s, &err) < 0);
	cell_config_free(cfg);
}

TEST(destinations_belong_to_an_open_network)
{
	struct cell_config *cfg = config_of("network: {mode: open, private: [10.1.2.0/24, "
					    "'[fd00::1]:443'], dns: [9.9.9.9]}\n");
	const struct cell_spec *s = spec_from(cfg);
	ASSERT_NUM(s->network, CELL_NETWORK_OPEN);
	ASSERT_STR(s->network_private[0], "10.1.2.0/24");
	ASSERT_STR(s->network_private[1], "[fd00::1]:443");
	ASSERT(!s->network_private[2]);
	ASSERT_STR(s->network_dns[0], "9.9.9.9");
	/* another mode from a stronger layer leaves nothing of them */
	set(cfg, "network", "none", "--network");
	ASSERT(!spec_from(cfg)->network_private);
	ASSERT(!spec_from(cfg)->network_dns);
	cell_config_free(cfg);

	refuses("network: {private: [10.1.2.3]}\n",
		"cell.yaml:1:20: 'network.private' is of use with an open network only",
		"set network.mode: open (--network open)");
	refuses("network: {mode: none, private: [10.1.2.3]}\n",
		"cell.yaml:1:23: 'network.private' contradicts 'network.mode: none': without a "
		"network nothing is reached",
		NULL);
	refuses("network: {mode: open, private: [10.1.2.3/24]}\n",
		"cell.yaml:1:33: 'network.private' takes an address or range such as 10.1.2.0/24, "
		"10.1.2.3:5432 or [fd00::1]:443, not '10.1.2.3/24'",
		NULL);
	refuses("network: {mode: open, dns: [example.org]}\n",
		"cell.yaml:1:29: 'network.dns' takes an address such as 192.0.2.1 or 2001:db8::1, "
		"not 'example.org'",
		NULL);
}

static char *dump(struct cell_config *cfg, enum cell_config_format format, bool with_origin)
{
	char *text = NULL;
	struct cell_error err = {0};
	ASSERT_OK(cell_config_dump(cfg, format, with_origin, &text, &err));
	return text;
}

static const char rich[] =
	"run_mode: aws_ecs\n"
	"volumes: ['/a:/b:ro', {src: '/c:d', dst: /e}]\n"
	"env: {A: 'true', PLAIN: x, 'odd-name': \"tab\\there \\\"q\\\" # \", N: '1'}\n"
	"sandbox: {cpu: 1024, memory: 2048, subnets: [subnet-a], network: none}\n"
	"timeout: 90\n";

TEST(a_dump_loads_again_to_the_same)
{
	struct cell_config *cfg = config_of(rich);
	for (int format = CELL_CONFIG_YAML; format <= CELL_CONFIG_JSON; format++) {
		char *first = dump(cfg, format, false);
		struct cell_config *again = config_of(first);
		for (size_t i = 0; i < config_keys_count; i++) {
			CHECK_(!cfg->values[i] == !again->values[i], "%s", config_keys[i].path);
			CHECK_(!cfg->values[i] || node_equal(cfg->values[i], again->values[i]),
				"%s\n%s", config_keys[i].path, first);
		}
		char *second = dump(again, format, false);
		ASSERT_STR(first, second);
		free(first);
		free(second);
		cell_config_free(again);
	}
	cell_config_free(cfg);
}

TEST(text_of_any_kind_survives_a_dump_as_yaml)
{
	const char *text =
		"env: {A: \"\\u0085 \\u2028 \\ufeff \\x7f \\U0001F600 \\e[1m\\n\", "
		"B: '- a', C: '#', D: '{', E: 'a: b', F: ' ', G: '!', \"H\\u00e9\": 'x '}\n";
	struct cell_config *cfg = config_of(text);
	char *first = dump(cfg, CELL_CONFIG_YAML, true);
	struct cell_config *again = config_of(first);
	ASSERT(node_equal(config_value(cfg->values, "env"), config_value(again->values, "env")));
	free(first);
	cell_config_free(again);
	cell_config_free(cfg);
}

TEST(a_dump_is_canonical_and_hides_secrets)
{
	struct cell_config *cfg =
		config_of("run_mode: aws_ecs\nsandbox: {cpu: 1024, memory: 2048}\n"
			  "auth_token: hush\nenv: {API_KEY: hush, A: b}\n");
	char *text = dump(cfg, CELL_CONFIG_YAML, false);
	ASSERT_STR(text, "backend: ecs_fargate\n"
			 "env:\n"
			 "  API_KEY: \"***\"\n"
			 "  A: b\n"
			 "limits:\n"
			 "  memory: 2g\n"
			 "  cpus: 1\n"
			 "auth_token: \"***\"\n");
	free(text);
	text = dump(cfg, CELL_CONFIG_JSON, true);
	ASSERT(!strstr(text, "hush"));
	ASSERT(strstr(text, "\"env.API_KEY\""));
	ASSERT(strstr(text, "cell.yaml:2:16"));
	free(text);
	cell_config_free(cfg);
}

TEST(a_dump_says_where_each_value_came_from)
{
	struct cell_config *cfg = config_of("env: {A: 1}\nlimits: {memory: 1g}\n");
	set(cfg, "env", "B=2", "--env");
	char *text = dump(cfg, CELL_CONFIG_YAML, true);
	ASSERT_STR(text, "env:\n"
			 "  A: \"1\"  # cell.yaml:1:10\n"
			 "  B: \"2\"  # --env\n"
			 "limits:\n"
			 "  memory: 1g  # cell.yaml:2:18\n");
	free(text);
	cell_config_free(cfg);
}

TEST(bytes_that_are_not_utf8_do_not_break_a_dump)
{
	struct cell_config *cfg = config_of("");
	set(cfg, "env", "A=\xff\xfe x \xed\xa0\x80", "--env");
	for (int format = CELL_CONFIG_YAML; format <= CELL_CONFIG_JSON; format++) {
		char *text = dump(cfg, format, true);
		ASSERT(strstr(text, "\xef\xbf\xbd"));
		free(text);
	}
	ASSERT_STR(spec_from(cfg)->env[0], "A=\xff\xfe x \xed\xa0\x80");
	cell_config_free(cfg);
}

TEST(a_secret_is_not_quoted_in_an_error)
{
	struct cell_config *cfg = NULL;
	struct cell_error err = {0};
	const char *text = "auth_token: [hush]\n";
	ASSERT(cell_config_load_text("f", text, strlen(text), &cfg, &err) < 0);
	ASSERT(!strstr(err.msg, "hush"));
	text = "auth_token: \"hu\\nsh\"\n";
	ASSERT(cell_config_load_text("f", text, strlen(text), &cfg, &err) < 0);
	ASSERT(!strstr(err.msg, "hu"));
}
