/* SPDX-License-Identifier: Apache-2.0 */
/* tags.c: see tags.h. */
#include "core/deps/tags.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/deps/version.h"

/* As little as possible is imported: this runs before the first package of a session is there. */
const char interpreter_script[] =
	"import sys, os\n"
	"u = os.uname()\n"
	"v = sys.version_info\n"
	"i = sys.implementation\n"
	"libc = ''\n"
	"try:\n"
	"    libc = os.confstr('CS_GNU_LIBC_VERSION') or ''\n"
	"except (ValueError, OSError, AttributeError):\n"
	"    pass\n"
	"if not libc and any(n.startswith('ld-musl-') for n in os.listdir('/lib')):\n"
	"    libc = 'musl 1.2'\n"
	"full = '%d.%d.%d' % v[:3]\n"
	"if v[3] != 'final':\n"
	"    full += {'alpha': 'a', 'beta': 'b'}.get(v[3], 'rc') + str(v[4])\n"
	"for k, x in (('version', full), ('implementation', i.name), ('machine', u.machine),\n"
	"             ('libc', libc), ('release', u.release), ('bits', '64' if sys.maxsize > 2**32 "
	"else '32'),\n"
	"             ('path', os.path.realpath(sys.executable))):\n"
	"    print('%s=%s' % (k, x))\n";

static bool find(const char *text, const char *key, char *ret, size_t size)
{
	size_t n = strlen(key);

	for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n') {
		size_t len = strcspn(p, "\n");
		if (len <= n || strncmp(p, key, n) != 0 || p[n] != '=')
			continue;
		len -= n + 1;
		if (len >= size)
			return false;
		memcpy(ret, p + n + 1, len);
		ret[len] = '\0';
		for (size_t i = 0; i < len; i++)
			if (!isprint((unsigned char)ret[i]))
				return false;
		return true;
	}
	return false;
}

bool interpreter_parse(const char *text, struct interpreter *ret)
{
	struct version v;
	char libc[64] = "", bits[8] = "";

	memset(ret, 0, sizeof *ret);
	if (!find(text, "version", ret->version, sizeof ret->version) ||
		!version_parse(ret->version, &v) || v.n_release < 2 || v.release[0] != 3 ||
		v.release[1] > 99 ||
		!find(text, "implementation", ret->implementation, sizeof ret->implementation) ||
		!find(text, "machine", ret->machine, sizeof ret->machine) ||
		!find(text, "path", ret->path, sizeof ret->path) || ret->path[0] != '/')
		return false;
	(void)find(text, "libc", libc, sizeof libc);
	(void)find(text, "release", ret->release, sizeof ret->release);
	(void)find(text, "bits", bits, sizeof bits);
	ret->is_32bit = !strcmp(bits, "32");
	ret->major = (unsigned)v.release[0];
	ret->minor = (unsigned)v.release[1];
	(void)snprintf(ret->short_version, sizeof ret->short_version, "%u.%u", ret->major,
		ret->minor);
	char *space = strchr(libc, ' ');
	if (space) {
		char *end;
		*space = '\0';
		(void)snprintf(ret->libc, sizeof ret->libc, "%.15s", libc);
		ret->libc_major = (unsigned)strtoul(space + 1, &end, 10);
		ret->libc_minor = *end == '.' ? (unsigned)strtoul(end + 1, NULL, 10) : 0;
	}
	return true;
}

void interpreter_markers(const struct interpreter *i, struct marker_env *ret)
{
	*ret = (struct marker_env){
		.python_version = i->short_version,
		.python_full_version = i->version,
		.implementation_name = i->implementation,
		.implementation_version = i->version,
		.platform_python_implementation =
			!strcmp(i->implementation, "pypy") ? "PyPy" : "CPython",
		.os_name = "posix",
		.sys_platform = "linux",
		.platform_system = "Linux",
		.platform_machine = i->machine,
		.platform_release = i->release,
		.platform_version = "",
	};
}

/* ---- file names ---- */

static bool copy_part(char *ret, size_t size, const char *p, size_t n)
{
	if (!n || n >= size)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)p[i]) && !strchr("._+!-", p[i]))
			return false;
	memcpy(ret, p, n);
	ret[n] = '\0';
	return true;
}

bool wheel_name_parse(const char *filename, struct wheel_name *ret)
{
	const char *parts[6];
	size_t lens[6], n = 0, len = strlen(filename);
	struct version v;

	memset(ret, 0, sizeof *ret);
	if (len < 5 || strcmp(filename + len - 4, ".whl") != 0 || len > 255)
		return false;
	len -= 4;
	for (size_t at = 0; at <= len;) {
		size_t k = 0;
		while (at + k < len && filename[at + k] != '-')
			k++;
		if (n == 6)
			return false;
		parts[n] = filename + at;
		lens[n++] = k;
		at += k + 1;
	}
	if (n != 5 && n != 6)
		return false;
	if (!package_normalize(parts[0], lens[0], ret->name) ||
		!copy_part(ret->version, sizeof ret->version, parts[1], lens[1]) ||
		!version_parse(ret->version, &v) ||
		(n == 6 && (!copy_part(ret->build, sizeof ret->build, parts[2], lens[2]) ||
				   !isdigit((unsigned char)ret->build[0]))))
		return false;
	return copy_part(ret->python, sizeof ret->python, parts[n - 3], lens[n - 3]) &&
	       copy_part(ret->abi, sizeof ret->abi, parts[n - 2], lens[n - 2]) &&
	       copy_part(ret->platform, sizeof ret->platform, parts[n - 1], lens[n - 1]);
}

/* Take the next word of "cp310.cp311" into ret. */
static bool next(const char **p, char ret[64])
{
	size_t n = strcspn(*p, ".");

	if (!n || n >= 64)
		return false;
	memcpy(ret, *p, n);
	ret[n] = '\0';
	*p += n + ((*p)[n] == '.');
	return true;
}

/* "cp311" with prefix "cp": 3 and 11. */
static bool python_number(const char *tag, const char *prefix, unsigned *major, unsigned *minor)
{
	size_t n = strlen(prefix);

	if (strncmp(tag, prefix, n) != 0 || !isdigit((unsigned char)tag[n]))
		return false;
	*major = (unsigned)(tag[n] - '0');
	*minor = 0;
	if (!tag[n + 1])
		return true;
	char *end;
	*minor = (unsigned)strtoul(tag + n + 1, &end, 10);
	return !*end;
}

/* 0 none; how exact the interpreter is named. */
static unsigned python_fits(const char *tag, const char *abi, const struct interpreter *i)
{
	unsigned major, minor;
	char own[32];

	if (!strcmp(i->implementation, "cpython") && python_number(tag, "cp", &major, &minor)) {
		(void)snprintf(own, sizeof own, "cp%u%u", i->major, i->minor);
		if (major != i->major || minor > i->minor)
			return 0;
		if (!strcmp(abi, "abi3"))
			return 300 + minor;
		if (minor != i->minor)
			return 0;
		return !strcmp(abi, own) ? 500 : !strcmp(abi, "none") ? 200 : 0;
	}
	if (python_number(tag, "py", &major, &minor)) {
		if (strcmp(abi, "none") != 0 || major != i->major || minor > i->minor)
			return 0;
		return 100 + minor;
	}
	return 0;
}

/* "manylinux_2_17_x86_64": is our libc as new? */
static unsigned libc_fits(const char *tag, const struct interpreter *i)
{
	static const struct {
		const char *name;
		unsigned minor;
	} old[] = {{"manylinux1_", 5}, {"manylinux2010_", 12}, {"manylinux2014_", 17}};
	unsigned major = 0, minor = 0;
	int used = 0;
	const char *libc = "glibc";

	for (size_t k = 0; k < 3; k++)
		if (!strncmp(tag, old[k].name, strlen(old[k].name))) {
			major = 2;
			minor = old[k].minor;
			used = (int)strlen(old[k].name);
		}
	if (!used && sscanf(tag, "manylinux_%3u_%3u_%n", &major, &minor, &used) < 2)
		used = 0;
	if (!used) {
		libc = "musl";
		if (sscanf(tag, "musllinux_%3u_%3u_%n", &major, &minor, &used) < 2)
			used = 0;
	}
	if (!used || strcmp(i->libc, libc) != 0 || strcmp(tag + used, i->machine) != 0)
		return 0;
	if (major != i->libc_major || minor > i->libc_minor)
		return 0;
	return 2 + (minor < 60 ? minor : 60);
}

static unsigned platform_fits(const char *tag, const struct interpreter *i)
{
	char own[64];

	if (!strcmp(tag, "any"))
		return 1;
	if (i->is_32bit)
		return 0;
	(void)snprintf(own, sizeof own, "linux_%s", i->machine);
	if (!strcmp(tag, own))
		return 70;
	return libc_fits(tag, i);
}

unsigned wheel_fitness(const struct wheel_name *w, const struct interpreter *i)
{
	char python[64], abi[64], platform[64];
	unsigned best = 0, best_platform = 0;

	for (const char *p = w->platform; next(&p, platform);) {
		unsigned k = platform_fits(platform, i);
		best_platform = k > best_platform ? k : best_platform;
	}
	if (!best_platform)
		return 0;
	for (const char *p = w->python; next(&p, python);)
		for (const char *a = w->abi; next(&a, abi);) {
			unsigned k = python_fits(python, abi, i);
			best = k > best ? k : best;
		}
	return best ? best * 100 + best_platform : 0;
}
