/* SPDX-License-Identifier: Apache-2.0 */
/* refuse.c: see refuse.h. */
#include "core/deps/refuse.h"

#include <fcntl.h>
#include <glob.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fdcopy.h"

#define REASON                                                                                   \
	"this cell may not install packages: its configuration says allow_runtime_deps: false. " \
	"Its owner can list them under deps.preinstalled."

/* What is there may be asked for; anything else is refused. */
static const char pip_init[] =
	"REASON = '" REASON "'\n"
	"__version__ = '0'\n"
	"\n\n"
	"def _installed():\n"
	"    from importlib import metadata\n"
	"    seen = {}\n"
	"    for d in metadata.distributions():\n"
	"        name = d.metadata['Name']\n"
	"        if name:\n"
	"            seen.setdefault(name.lower(), (name, d.version))\n"
	"    return [seen[k] for k in sorted(seen)]\n"
	"\n\n"
	"def main(args=None):\n"
	"    import sys\n"
	"    args = list(sys.argv[1:] if args is None else args)\n"
	"    verb = next((a for a in args if not a.startswith('-')), '')\n"
	"    if verb in ('list', 'freeze'):\n"
	"        for name, version in _installed():\n"
	"            print(name + ('==' if verb == 'freeze' else ' ') + version)\n"
	"        return 0\n"
	"    sys.stderr.write('ERROR: ' + REASON + '\\n')\n"
	"    return 1\n";
static const char pip_main[] = "import sys\nfrom pip import main\nsys.exit(main())\n";
static const char pip_internal[] = "from pip import main\n";
static const char ensurepip_init[] = "REASON = '" REASON "'\n"
				     "_PIP_VERSION = '0'\n"
				     "\n\n"
				     "def version():\n"
				     "    return _PIP_VERSION\n"
				     "\n\n"
				     "def bootstrap(*args, **kwargs):\n"
				     "    raise RuntimeError(REASON)\n";
static const char ensurepip_main[] = "import sys\n"
				     "from ensurepip import REASON\n"
				     "sys.stderr.write('ERROR: ' + REASON + '\\n')\n"
				     "sys.exit(1)\n";
static const char easy_install[] = "import sys\n"
				   "sys.stderr.write('ERROR: " REASON "\\n')\n"
				   "sys.exit(1)\n";
static const char npm_cli[] = "#!/usr/bin/env node\n"
			      "process.stderr.write('npm error: " REASON "\\n');\n"
			      "process.exit(1);\n";

static const struct {
	const char *path, *text;
} files[] = {
	{REFUSE_DIR "/pip/__init__.py", pip_init},
	{REFUSE_DIR "/pip/__main__.py", pip_main},
	{REFUSE_DIR "/pip/_internal/__init__.py", pip_internal},
	{REFUSE_DIR "/pip/_internal/cli/__init__.py", ""},
	{REFUSE_DIR "/pip/_internal/cli/main.py", pip_internal},
	{REFUSE_DIR "/ensurepip/__init__.py", ensurepip_init},
	{REFUSE_DIR "/ensurepip/__main__.py", ensurepip_main},
	{REFUSE_DIR "/easy_install.py", easy_install},
	{REFUSE_DIR "/npm/bin/npm-cli.js", npm_cli},
	{REFUSE_DIR "/npm/bin/npx-cli.js", npm_cli},
};

static const char *const directories[] = {REFUSE_DIR, REFUSE_DIR "/pip",
	REFUSE_DIR "/pip/_internal", REFUSE_DIR "/pip/_internal/cli", REFUSE_DIR "/ensurepip",
	REFUSE_DIR "/npm", REFUSE_DIR "/npm/bin"};

static int write_file(int at, const char *path, const char *text, mode_t mode,
	struct cell_error *err)
{
	/* never into a file that is there: it may be a link to one of the cache's */
	(void)unlinkat(at, path, 0);
	auto_fd int fd =
		openat(at, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	int r = fd < 0 ? -errno : fd_write_all(fd, text, strlen(text));

	if (r == 0 && fchmod(fd, mode) < 0)
		r = -errno;
	return r < 0 ? cell_fail_errno(err, -r, "write '%s'", path) : 0;
}

int refuse_make(int env_fd, struct cell_error *err)
{
	int r = 0;

	for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
		if ((mkdirat(env_fd, directories[i], 0755) < 0 && errno != EEXIST) ||
			fchmodat(env_fd, directories[i], 0755, 0) < 0)
			return cell_fail_errno(err, errno, "make '%s'", directories[i]);
	for (size_t i = 0; r == 0 && i < sizeof files / sizeof *files; i++)
		r = write_file(env_fd, files[i].path, files[i].text,
			strstr(files[i].path, "/bin/") ? 0755 : 0644, err);
	return r;
}

int refuse_programs(int bin_fd, struct cell_error *err)
{
	static const char *const python[] = {"pip", "pip3", NULL};
	static const char *const others[] = {"easy_install", "pipx", "uv", "uvx", "conda", "mamba",
		"poetry", "npm", "npx", "yarn", "pnpm", "bun", "corepack", NULL};
	char text[1024];
	int r = 0;

	for (size_t i = 0; r == 0 && python[i]; i++)
		r = write_file(bin_fd, python[i], "#!/bin/sh\nexec python3 -m pip \"$@\"\n", 0755,
			err);
	for (size_t i = 0; r == 0 && others[i]; i++) {
		(void)snprintf(text, sizeof text, "#!/bin/sh\necho '%s: %s' >&2\nexit 1\n",
			others[i], REASON);
		r = write_file(bin_fd, others[i], text, 0755, err);
	}
	return r;
}

int refuse_targets(const char *root, refuse_fn fn, void *user)
{
	static const struct {
		const char *what, *pattern;
	} places[] = {
		{"pip", "/usr/lib/python3/dist-packages/pip"},
		{"pip", "/usr/lib/python3.[0-9]*/site-packages/pip"},
		{"pip", "/usr/local/lib/python3.[0-9]*/site-packages/pip"},
		{"pip", "/usr/local/lib/python3.[0-9]*/dist-packages/pip"},
		{"ensurepip", "/usr/lib/python3.[0-9]*/ensurepip"},
		{"ensurepip", "/usr/local/lib/python3.[0-9]*/ensurepip"},
		{"npm", "/usr/share/nodejs/npm"},
		{"npm", "/usr/lib/node_modules/npm"},
		{"npm", "/usr/local/lib/node_modules/npm"},
	};
	size_t n = strlen(root);
	int r = 0;

	for (size_t i = 0; r == 0 && i < sizeof places / sizeof *places; i++) {
		char pattern[4096];
		glob_t found = {0};
		int k = snprintf(pattern, sizeof pattern, "%s%s", root, places[i].pattern);
		if (k < 0 || (size_t)k >= sizeof pattern || strpbrk(root, "*?[\\"))
			return 0;
		if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0)
			for (size_t m = 0; r == 0 && m < found.gl_pathc; m++) {
				struct stat st;
				/* a link would be followed outside of the tree */
				if (lstat(found.gl_pathv[m], &st) == 0 && S_ISDIR(st.st_mode))
					r = fn(places[i].what, found.gl_pathv[m] + n, user);
			}
		globfree(&found);
	}
	return r;
}
