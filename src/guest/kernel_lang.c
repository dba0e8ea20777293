/* SPDX-License-Identifier: Apache-2.0 */
/* kernel_lang.c: the languages, which programs run them, and how their drivers begin. The drivers are the files of
 * kernels/, in the guest's own image; an interpreter gets one as fd 4 and talks on fd 3. */
#include <stdio.h>
#include <string.h>

#include "guest/kernel.h"
#include "guest/platform.h"

extern const unsigned char kernel_python[], kernel_python_end[];
extern const unsigned char kernel_javascript[], kernel_javascript_end[];
extern const unsigned char kernel_shell[], kernel_shell_end[];
extern const unsigned char kernel_sql[], kernel_sql_end[];
extern const unsigned char kernel_sqlite[], kernel_sqlite_end[];

#define LIST(...) ((const char *const[]){__VA_ARGS__, NULL})

static const struct language sqlite_program;

static const struct language languages[] = {
	{
		.name = "python",
		.aliases = LIST("py", "python3"),
		.programs = LIST("python3", "python"),
		.text = kernel_python,
		.text_end = kernel_python_end,
		.flags = LIST("-c"),
		/* compiles no more than its first part: the rest when it is needed */
		.boot = "import os;T=os.pread(4,os.fstat(4).st_size,0);"
			"exec(compile(T[:T.find(b\"\\n#: part \")],\"<cell>\",\"exec\"),"
			"{\"__name__\":\"cell\",\"T\":T})",
	},
	{
		.name = "javascript",
		.aliases = LIST("js", "node", "nodejs"),
		.programs = LIST("node", "nodejs"),
		.text = kernel_javascript,
		.text_end = kernel_javascript_end,
		/* it would take code that was interrupted inside a timer for a fault of its own */
		.flags = LIST("--no-force-async-hooks-checks", "-e"),
		.boot = "(f=>{let b=Buffer.alloc(f.fstatSync(4).size);f.readSync(4,b,0,b.length,0);"
			"require('vm').runInThisContext(b.toString(),'<cell>')})(require('fs'))",
	},
	{
		.name = "shell",
		.aliases = LIST("bash", "sh"),
		.programs = LIST("bash"),
		.text = kernel_shell,
		.text_end = kernel_shell_end,
		.flags = LIST("--norc", "--noprofile"),
		.boot = "/dev/fd/4",
		.may_exec = true,
	},
	{
		.name = "sql",
		.aliases = LIST("sqlite", "sqlite3"),
		.programs = LIST("python3", "python"),
		.text = kernel_sql,
		.text_end = kernel_sql_end,
		.flags = LIST("-c"),
		.boot = "import "
			"os;exec(compile(os.pread(4,os.fstat(4).st_size,0),\"<cell>\",\"exec\"),"
			"{\"__name__\":\"cell\"})",
		.instead = &sqlite_program,
	},
};
#define N_LANGUAGES (sizeof languages / sizeof *languages)

/* SQL where there is no Python. */
static const struct language sqlite_program = {
	.name = "sql",
	.aliases = LIST("sqlite", "sqlite3"),
	.programs = LIST("bash"),
	.needs = "sqlite3",
	.text = kernel_sqlite,
	.text_end = kernel_sqlite_end,
	.flags = LIST("--norc", "--noprofile"),
	.boot = "/dev/fd/4",
};

const struct language *language_find(const char *name)
{
	if (!name || !*name)
		return &languages[0];
	for (size_t i = 0; i < N_LANGUAGES; i++) {
		if (strcmp(languages[i].name, name) == 0)
			return &languages[i];
		for (const char *const *a = languages[i].aliases; *a; a++) {
			if (strcmp(*a, name) == 0)
				return &languages[i];
		}
	}
	return NULL;
}

const struct language *language_program(const struct language *l, const char *path, char *ret,
	size_t ret_size)
{
	for (; l; l = l->instead) {
		ret[0] = '\0';
		if (l->needs)
			platform_find_tool(path, l->needs, ret, ret_size);
		if (l->needs && !ret[0])
			continue;
		ret[0] = '\0';
		for (const char *const *p = l->programs; *p && !ret[0]; p++)
			platform_find_tool(path, *p, ret, ret_size);
		if (ret[0])
			return l;
	}
	return NULL;
}

void language_list(const char *path, struct buf *ret)
{
	for (size_t i = 0; i < N_LANGUAGES; i++) {
		char where[512];

		if (language_program(&languages[i], path, where, sizeof where))
			(void)buf_addf(ret, "%s%s", ret->len ? ", " : "", languages[i].name);
	}
	if (!ret->len)
		(void)buf_addz(ret, "none");
}
