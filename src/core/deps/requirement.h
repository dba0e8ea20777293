/* SPDX-License-Identifier: Apache-2.0 */
/* requirement.h: what a package asks for: `name[extra]>=1.2; python_version < "3.11"` (PEP 508). Pure. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "cell/error.h"

#define REQUIREMENT_NAME_MAX 128
#define REQUIREMENT_TEXT_MAX 4096

struct requirement {
	char name[REQUIREMENT_NAME_MAX]; /* normal form: lower case, single dashes */
	char extras[512];		 /* normal form, separated by commas; "" for none */
	char specifiers[1024];		 /* "" for any version */
	char marker[2048];		 /* "" for always */
};

/* The interpreter's answers to markers. */
struct marker_env {
	const char *python_version, *python_full_version, *implementation_name,
		*implementation_version, *platform_python_implementation, *os_name, *sys_platform,
		*platform_system, *platform_machine, *platform_release, *platform_version;
};

int requirement_parse(const char *text, struct requirement *ret, struct cell_error *err);
/* Does the marker hold, for one of these extras (separated by commas) or for none? A marker that cannot be read is an
 * error. */
int marker_holds(const char *marker, const struct marker_env *env, const char *extras, bool *ret,
	struct cell_error *err);

/* "Foo.Bar_baz" is "foo-bar-baz". False when it is no name, or too long. */
bool package_normalize(const char *name, size_t len, char ret[REQUIREMENT_NAME_MAX]);
/* Is the word in a list separated by commas? */
bool is_in_list(const char *list, const char *word);
