/* SPDX-License-Identifier: Apache-2.0 */
/*
 * backend_rules.c: the names of back ends, and the units and limits that managed services impose.
 * What a back end can promise on this machine is not known here; that is its probe's.
 */
#include <ctype.h>
#include <string.h>

#include "core/backend.h"
#include "core/config/schema.h"
#include "core/nearest.h"

#define KIB UINT64_C(1024)
#define MIB (KIB * KIB)
#define GIB (MIB * KIB)

const struct backend_name backend_names[] = {
	{"auto", ""},
	{"null", ""},
	{"local", "local_directory"},
	{"subprocess", "process"},
	{"in_process", "inprocess"},
	{"chroot", ""},
	{"jail", "container"},
	{"oci", "runc crun runsc gvisor kata"},
	{"docker", ""},
	{"podman", ""},
	{"containerd", ""},
	{"firecracker", "firecracker_microvm"},
	{"qemu", "kvm qemu_kvm"},
	{"cloud-hypervisor", ""},
	{"wasm", "wasm_runtime wasmtime"},
	{"browser", "web_assembly"},
	{"ssh", ""},
	{"kubernetes", "k8s"},
	{"nomad", ""},
	{"swarm", "docker_swarm"},
	{"lambda", "aws_lambda"},
	{"ecs_fargate", "aws_ecs aws_ecs_fargate ecs fargate"},
	{"eks_fargate", "aws_eks_fargate aws_eks eks"},
	{"hybrid_aws", "aws_hybrid"},
	{"cloud_run", "google_cloud_run"},
	{"azure", "azure_container_instances aci"},
	{"codespaces", "github_codespaces"},
	{"cell", "remote"},
	{"modal", ""},
	{NULL, NULL},
};

static const struct backend_rule rules[] = {
	{"lambda", "timeout", 0, 0, 1000, 900 * 1000, "AWS Lambda ends a call after 15 minutes"},
	{"lambda", "limits.memory", MIB, 1, 128 * MIB, 10240 * MIB, "AWS Lambda's range"},
	{"lambda", "limits.disk", MIB, 1, 512 * MIB, 10240 * MIB, "AWS Lambda's range for /tmp"},
	{"ecs_fargate", "limits.cpus", 1000, 1024, 250, 16000,
		"AWS Fargate's range; a plain `cpu` is in 1024ths"},
	{"ecs_fargate", "limits.memory", MIB, 1, 512 * MIB, 120 * GIB, "AWS Fargate's range"},
	{"ecs_fargate", "limits.disk", GIB, 1, 20 * GIB, 200 * GIB, "AWS Fargate's range"},
};

const struct backend_rule *backend_rule(const char *backend, const char *path)
{
	static const char *const parts[] = {"sandbox.primary.", "sandbox.secondary."};
	char full[SCHEMA_PATH_MAX];

	for (size_t i = 0; i < 2; i++) {
		size_t n = strlen(parts[i]);
		if (!strncmp(path, parts[i], n)) {
			(void)snprintf(full, sizeof full, "%s%s",
				strcmp(path + n, "timeout") ? "limits." : "", path + n);
			path = full;
		}
	}
	for (size_t i = 0; backend && i < sizeof rules / sizeof rules[0]; i++)
		if (!strcmp(rules[i].backend, backend) && !strcmp(rules[i].path, path))
			return &rules[i];
	return NULL;
}

/* Names built in, or planned, beyond the table above: a new back end needs no row there. */
static const char *built_name(const char *name)
{
	for (size_t i = 0; cell_backends[i]; i++)
		if (!strcmp(cell_backends[i]->name, name))
			return cell_backends[i]->name;
	for (size_t i = 0; cell_backends_planned[i].name; i++)
		if (!strcmp(cell_backends_planned[i].name, name))
			return cell_backends_planned[i].name;
	return NULL;
}

/* Case does not count, nor does - against _. */
static bool is_same_word(const char *a, size_t n, const char *b)
{
	if (strlen(b) != n)
		return false;
	for (size_t i = 0; i < n; i++) {
		char x = a[i] == '-' ? '_' : (char)tolower((unsigned char)a[i]);
		char y = b[i] == '-' ? '_' : (char)tolower((unsigned char)b[i]);
		if (x != y)
			return false;
	}
	return true;
}

const char *backend_canonical(const char *name)
{
	for (const struct backend_name *b = backend_names; b->name; b++) {
		if (is_same_word(b->name, strlen(b->name), name))
			return b->name;
		for (const char *p = b->aliases; *p;) {
			size_t n = strcspn(p, " ");
			if (is_same_word(p, n, name))
				return b->name;
			p += n;
			p += strspn(p, " ");
		}
	}
	return built_name(name);
}

const char *backend_nearest(const char *name)
{
	const char *best = NULL;
	size_t distance = NEAREST_START;

	for (const struct backend_name *b = backend_names; b->name; b++)
		best = cell_nearest(name, b->name, best, &distance);
	for (size_t i = 0; cell_backends[i]; i++)
		best = cell_nearest(name, cell_backends[i]->name, best, &distance);
	return best;
}

bool backend_is_wrapper(const char *name)
{
	for (size_t i = 0; cell_backends[i]; i++)
		if (!strcmp(cell_backends[i]->name, name))
			return cell_backends[i]->is_wrapper;
	return false;
}

bool backend_is_built(const char *name)
{
	for (size_t i = 0; cell_backends[i]; i++)
		if (!strcmp(cell_backends[i]->name, name))
			return true;
	return false;
}
