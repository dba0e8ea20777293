/* SPDX-License-Identifier: Apache-2.0 */
/* wheel_path.c: see wheel_path.h. */
#include "core/deps/wheel_path.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

#define PATH_BYTES_MAX 1000
#define DEPTH_MAX      64

static int refuse(struct cell_error *err, const char *path, const char *why)
{
	return cell_fail(err, CELL_EDENIED, 0, "the wheel is refused: '%.200s' %s", path, why);
}

int wheel_check_path(const char *path, struct cell_error *err)
{
	unsigned depth = 0;

	if (!*path || *path == '/')
		return refuse(err, path, "is no relative path");
	if (strlen(path) > PATH_BYTES_MAX)
		return refuse(err, path, "is too long");
	for (const char *p = path; *p; p++)
		if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '\\')
			return refuse(err, path, "has a backslash or a control byte in it");
	for (const char *p = path; *p;) {
		size_t n = strcspn(p, "/");
		if (!n || (n == 1 && *p == '.'))
			return refuse(err, path, "has an empty name in it");
		if (n == 2 && p[0] == '.' && p[1] == '.')
			return refuse(err, path, "leads out of the environment");
		if (n > 255 || ++depth > DEPTH_MAX)
			return refuse(err, path, "is too long or too deep");
		p += n;
		if (*p == '/' && !*++p)
			return refuse(err, path, "ends with a slash");
	}
	return 0;
}

/* Files by which an environment is one are ours alone. */
static bool is_reserved(const char *place)
{
	static const char *const names[] = {"data/pyvenv.cfg", "data/lib", "data/lib64",
		"data/current", "data/refuse", "data/node_modules", NULL};

	for (size_t i = 0; names[i]; i++)
		if (!strcmp(place, names[i]))
			return true;
	return !strncmp(place, "lib/_cell", 9) || !strncmp(place, "data/bin/", 9) ||
	       !strncmp(place, "data/lib/", 9) || !strncmp(place, "data/lib64/", 11) ||
	       !strncmp(place, "data/refuse/", 12) || !strncmp(place, "data/node_modules/", 18);
}

int wheel_place(const char *path, const char *data_dir, const char *name, char *ret, size_t size,
	struct cell_error *err)
{
	static const struct {
		const char *from, *to;
	} schemes[] = {{"purelib/", "lib/"}, {"platlib/", "lib/"}, {"scripts/", "bin/"},
		{"data/", "data/"}, {"headers/", NULL}};
	const char *rest = path;
	char include[200], to_place[200];
	const char *to = "lib/";
	int r = wheel_check_path(path, err);

	if (r < 0)
		return r;
	if (!strncmp(path, data_dir, strlen(data_dir))) {
		rest = path + strlen(data_dir);
		to = NULL;
		for (size_t i = 0; !to && i < sizeof schemes / sizeof *schemes; i++) {
			size_t n = strlen(schemes[i].from);
			if (strncmp(rest, schemes[i].from, n) != 0)
				continue;
			rest += n;
			(void)snprintf(include, sizeof include, "include/%s/", name);
			(void)snprintf(to_place, sizeof to_place, "%s",
				schemes[i].to ? schemes[i].to : include);
			to = to_place;
		}
		if (!to)
			return refuse(err, path, "belongs to no known part of an environment");
		if (!strcmp(to, "bin/") && strchr(rest, '/'))
			return refuse(err, path, "is no script: there is a directory in its name");
	}
	int n = snprintf(ret, size, "%s%s", to, rest);
	if (n < 0 || (size_t)n >= size)
		return refuse(err, path, "is too long");
	if (is_reserved(ret))
		return refuse(err, path, "would replace a part of the environment itself");
	return 0;
}
