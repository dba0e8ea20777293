/* SPDX-License-Identifier: Apache-2.0 */
/* The small grammars of Python packages: versions, requirements, markers, wheel names, lists, index pages. */
#include <jansson.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "core/deps/npm.h"
#include "core/deps/npm_list.h"
#include "core/deps/page.h"
#include "core/deps/reqfile.h"
#include "core/deps/semver.h"
#include "core/deps/tags.h"
#include "core/deps/version.h"
#include "core/deps/wheel.h"
#include "core/deps/wheel_path.h"
#include "test.h"

static int order(const char *a, const char *b)
{
	struct version x, y;

	CHECK_(version_parse(a, &x), "'%s' is no version", a);
	CHECK_(version_parse(b, &y), "'%s' is no version", b);
	return version_compare(&x, &y);
}

TEST(versions_have_the_order_of_pep_440)
{
	static const char *const sorted[] = {"0.9", "1.0.dev1", "1.0a1.dev2", "1.0a1", "1.0a2",
		"1.0b1", "1.0rc1", "1.0", "1.0+abc", "1.0+abc.5", "1.0+5", "1.0.post1.dev3",
		"1.0.post1", "1.0.1", "1.1", "1.10", "2!0.1"};
	const size_t n = sizeof sorted / sizeof *sorted;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++)
			CHECK_(order(sorted[i], sorted[k]) == (i > k) - (i < k), "%s and %s",
				sorted[i], sorted[k]);
}

TEST(spellings_of_one_version_are_equal)
{
	static const char *const same[][2] = {{"1.0", "1"}, {"1.0.0", "1.0"},
		{"1.0alpha1", "1.0a1"}, {"1.0-1", "1.0.post1"}, {"1.0_rc_2", "1.0c2"},
		{"v1.2", "1.2"}, {"1.0.REV4", "1.0.post4"}, {"1.0+ubuntu-1", "1.0+Ubuntu.1"},
		{" 1.5 ", "1.5"}, {"1.0preview3", "1.0rc3"}};

	for (size_t i = 0; i < sizeof same / sizeof *same; i++)
		CHECK_(order(same[i][0], same[i][1]) == 0, "%s and %s", same[i][0], same[i][1]);
}

TEST(what_is_no_version_is_refused)
{
	static const char *const bad[] = {"", "a", "1.x", "1..2", "1.0+", "1.0+a..b", "1.0 1", "1!",
		"-1", "99999999999999999999999", "1.0a1b2c3d4e"};
	struct version v;
	char text[VERSION_TEXT_MAX];

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_(!version_parse(bad[i], &v), "'%s' was taken", bad[i]);
	ASSERT(version_parse("1!2.3RC4.post5.dev6+L.7", &v));
	ASSERT_STR(version_text(&v, text), "1!2.3rc4.post5.dev6+l.7");
}

TEST(specifiers_allow_what_pep_440_says)
{
	static const struct {
		const char *spec, *version;
		bool does;
	} table[] = {
		{"", "1.0", true},
		{">=1.0", "1.0", true},
		{">=1.0,<2", "2.0", false},
		{">=1.0, <2", "1.9.9", true},
		{"==1.0", "1.0.0", true},
		{"==1.0", "1.0+local", true},
		{"==1.0+a", "1.0", false},
		{"==1.2.*", "1.2.9", true},
		{"==1.2.*", "1.20", false},
		{"!=1.2.*", "1.2.0", false},
		{"!=1.2.*", "1.3", true},
		{"~=1.4.2", "1.4.9", true},
		{"~=1.4.2", "1.5", false},
		{"~=1.4", "1.9", true},
		{"~=1.4", "2.0", false},
		{">1.7", "1.7.post1", false},
		{">1.7", "1.7.1", true},
		{">1.7.post1", "1.7.post2", true},
		{"<1.0", "1.0rc1", false},
		{"<1.0rc2", "1.0rc1", true},
		{"<=1.0", "1.0.post1", false},
		{"===1.0", "1.0.0", false},
		{"===1.0", "1.0", true},
		{">=1.0", "x", false},
		{"~=1", "1.2", false},
		{">=1.*", "1.2", false},
		{"=1.0", "1.0", false},
		{">1.7", "1.7+x", false},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		CHECK_(specifiers_allow(table[i].spec, table[i].version) == table[i].does,
			"'%s' and %s", table[i].spec, table[i].version);
	ASSERT(!specifiers_are_valid("1.0") && !specifiers_are_valid("~=1") &&
		specifiers_are_valid(""));
	ASSERT(specifiers_want_pre(">=1.0b1") && !specifiers_want_pre(">=1.0"));
	ASSERT(specifiers_are_exact("==1.0") && !specifiers_are_exact("==1.*") &&
		!specifiers_are_exact("==1,<2"));
}

TEST(requirements_are_taken_apart)
{
	struct requirement q;

	ASSERT_OK(requirement_parse(" Foo.Bar_baz [ Extra1 , extra_2 ] >= 1.0 , != 1.5.* ; os_name "
				    "== 'posix'",
		&q, NULL));
	ASSERT_STR(q.name, "foo-bar-baz");
	ASSERT_STR(q.extras, "extra1,extra-2");
	ASSERT_STR(q.specifiers, ">= 1.0 , != 1.5.*");
	ASSERT_STR(q.marker, "os_name == 'posix'");
	ASSERT_OK(requirement_parse("six (>=1.0)", &q, NULL));
	ASSERT_STR(q.specifiers, ">=1.0");
	ASSERT_OK(requirement_parse("six", &q, NULL));
	ASSERT_STR(q.specifiers, "");
}

TEST(what_is_no_requirement_says_so)
{
	static const char *const bad[] = {"", "-e .", "six=1", "six @ https://example.org/six.whl",
		"six[x", "six (>=1", "six >=", "../six", "six-", "six>=1 extra"};
	struct requirement q;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct cell_error err = {0};
		CHECK_(requirement_parse(bad[i], &q, &err) < 0, "'%s' was taken", bad[i]);
		ASSERT_EQ(err.code, CELL_EINVAL);
		ASSERT(strstr(err.msg, "requirement"));
	}
}

static const struct marker_env env = {.python_version = "3.11",
	.python_full_version = "3.11.2",
	.implementation_name = "cpython",
	.implementation_version = "3.11.2",
	.platform_python_implementation = "CPython",
	.os_name = "posix",
	.sys_platform = "linux",
	.platform_system = "Linux",
	.platform_machine = "x86_64",
	.platform_release = "6.1",
	.platform_version = ""};

TEST(markers_hold_or_not)
{
	static const struct {
		const char *marker, *extras;
		bool does;
	} table[] = {
		{"", "", true},
		{"python_version < '3.8'", "", false},
		{"python_version >= \"3.9\"", "", true},
		{"'3.9' <= python_version", "", true},
		{"'3.9' > python_version", "", false},
		{"sys_platform == 'win32' or os_name == 'posix'", "", true},
		{"sys_platform == 'win32' or os_name == 'nt' and os_name == 'posix'", "", false},
		{"(sys_platform == 'win32' or os_name == 'posix') and python_version > '3'", "",
			true},
		{"extra == 'test'", "", false},
		{"extra == 'test'", "doc,test", true},
		{"extra == 'Test_it'", "test-it", true},
		{"extra != 'test'", "", true},
		{"platform_machine in 'x86_64 aarch64'", "", true},
		{"platform_machine not in 'x86_64 aarch64'", "", false},
		{"python_full_version ~= '3.11.0'", "", true},
		{"platform_system == \"Linux\"", "", true},
		{"python_version == '3.1'", "", false},
		{"platform_python_implementation != 'PyPy'", "", true},
	};
	static const char *const bad[] = {"python_version", "nonsense == '1'", "os_name == 'x",
		"(os_name == 'x'", "os_name == 'x' os_name == 'y'", "os_name ~= 'x'", "and",
		"os_name = 'x'"};
	bool holds;

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		ASSERT_OK(marker_holds(table[i].marker, &env, table[i].extras, &holds, NULL));
		CHECK_(holds == table[i].does, "%s with '%s'", table[i].marker, table[i].extras);
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_(marker_holds(bad[i], &env, "", &holds, NULL) < 0, "'%s' was taken", bad[i]);
}

static const char describe[] =
	"version=3.11.2\nimplementation=cpython\nmachine=x86_64\nlibc=glibc 2.36\n"
	"release=6.1\nbits=64\npath=/usr/bin/python3.11\n";

TEST(a_wheel_is_for_an_interpreter_or_not)
{
	static const char *const fit[] = {/* best first */
		"a-1.0-cp311-cp311-linux_x86_64.whl", "a-1.0-cp311-cp311-manylinux_2_28_x86_64.whl",
		"a-1.0-cp311-cp311-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
		"a-1.0-cp311-cp311-manylinux1_x86_64.whl",
		"a-1.0-cp38-abi3-manylinux_2_17_x86_64.whl", "a-1.0-cp311-none-any.whl",
		"a-1.0-py311-none-any.whl", "a-1.0-py3-none-any.whl"};
	static const char *const unfit[] = {"a-1.0-cp312-cp312-linux_x86_64.whl",
		"a-1.0-py2-none-any.whl", "a-1.0-cp311-cp311-manylinux_2_37_x86_64.whl",
		"a-1.0-cp311-cp311-musllinux_1_1_x86_64.whl",
		"a-1.0-cp311-cp311-manylinux_2_17_aarch64.whl", "a-1.0-cp311-cp311-win_amd64.whl",
		"a-1.0-cp312-abi3-linux_x86_64.whl", "a-1.0-cp310-none-any.whl",
		"a-1.0-py312-none-any.whl", "a-1.0-pp311-pypy311_pp73-linux_x86_64.whl"};
	struct interpreter i;
	struct wheel_name w;
	unsigned last = UINT32_MAX;

	ASSERT(interpreter_parse(describe, &i));
	ASSERT_STR(i.short_version, "3.11");
	for (size_t k = 0; k < sizeof fit / sizeof *fit; k++) {
		ASSERT(wheel_name_parse(fit[k], &w));
		unsigned fitness = wheel_fitness(&w, &i);
		CHECK_(fitness && fitness < last, "%s: %u after %u", fit[k], fitness, last);
		last = fitness;
	}
	for (size_t k = 0; k < sizeof unfit / sizeof *unfit; k++) {
		ASSERT(wheel_name_parse(unfit[k], &w));
		CHECK_(!wheel_fitness(&w, &i), "%s fits", unfit[k]);
	}
	ASSERT(wheel_name_parse("Foo_Bar-1.0-1-py2.py3-none-any.whl", &w));
	ASSERT_STR(w.name, "foo-bar");
	ASSERT_STR(w.build, "1");
	ASSERT(wheel_fitness(&w, &i));
}

TEST(what_an_interpreter_says_is_not_believed_blindly)
{
	struct interpreter i;

	ASSERT(!interpreter_parse("", &i));
	ASSERT(!interpreter_parse("version=2.7.18\nimplementation=cpython\nmachine=x\npath=/a\n",
		&i));
	ASSERT(!interpreter_parse(
		"version=3.11\nimplementation=cpython\nmachine=x\npath=relative\n", &i));
	ASSERT(!interpreter_parse("version=3.11\nimplementation=cpy\033thon\nmachine=x\npath=/a\n",
		&i));
	ASSERT(interpreter_parse("version=3.11\nimplementation=cpython\nmachine=x\npath=/a\n", &i));
}

TEST(what_is_no_wheels_name_is_refused)
{
	static const char *const bad[] = {"a.whl", "a-1.0.whl", "a-1.0-py3-none-any.zip",
		"-1.0-py3-none-any.whl", "a-x-py3-none-any.whl", "a-1.0-b-py3-none-any.whl",
		"a-1.0-py3-none-any-x-y.whl", "../a-1.0-py3-none-any.whl",
		"a-1.0-py3-no/ne-any.whl"};
	struct wheel_name w;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_(!wheel_name_parse(bad[i], &w), "'%s' was taken", bad[i]);
}

TEST(a_requirements_file_is_read_whole_or_not)
{
	json_t *list = json_array(), *hashes = NULL;
	struct cell_error err = {0};
	static const char text[] =
		"\xef\xbb\xbf# a list\n\nsix == 1.16 \\\n"
		"  --hash=sha256:" /* 64 digits */
		"8ABB2F1D86890A2DFB989F9A77CFCFD3E47C2A354B01111771326F8AA26E0254 \\\r\n"
		"  --hash=sha256:"
		"0000000000000000000000000000000000000000000000000000000000000000 # two\n";

	ASSERT_OK(reqfile_read(text, list, &hashes, &err));
	ASSERT_EQ(json_array_size(list), 1);
	ASSERT_STR(json_string_value(json_array_get(list, 0)), "six == 1.16");
	ASSERT_EQ(json_array_size(json_object_get(hashes, "six")), 2);
	ASSERT_STR(json_string_value(json_array_get(json_object_get(hashes, "six"), 0)),
		"8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b01111771326f8aa26e0254");
	json_decref(hashes);
	hashes = NULL;
	ASSERT_OK(reqfile_read("a>=1 ; python_version > '3' # why\nb[x]\n", list, &hashes, &err));
	ASSERT_EQ(json_array_size(list), 3);
	ASSERT(!hashes);
	json_decref(list);
}

TEST(what_a_requirements_file_may_not_say_is_named_with_its_line)
{
	static const char *const bad[] = {"\n-r other.txt\n", "\n--index-url https://example.org\n",
		"\n-e .\n", "\ngit+https://example.org/x\n", "\n./x.whl\n",
		"\nx-1.0-py3-none-any.whl\n", "\nsix --hash=md5:00\n", "\nsix --hash=sha256:00\n",
		"\nsix --global-option=x\n", "\n=1\n"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		json_t *list = json_array(), *hashes = NULL;
		struct cell_error err = {0};
		CHECK_(reqfile_read(bad[i], list, &hashes, &err) < 0, "'%s' was taken", bad[i]);
		CHECK_(strstr(err.msg, "line 2"), "%s: %s", bad[i], err.msg);
		json_decref(list);
		json_decref(hashes);
	}
	json_t *list = json_array(), *hashes = NULL;
	struct cell_error err = {0};
	ASSERT(reqfile_read("a --hash=sha256:"
			    "0000000000000000000000000000000000000000000000000000000000000000\nb\n",
		       list, &hashes, &err) < 0);
	ASSERT(strstr(err.msg, "'b' has no hash"));
	json_decref(list);
	json_decref(hashes);
}

TEST(links_are_joined_to_their_page)
{
	static const char *const table[][3] = {
		{"https://x.org/simple/six/", "../../files/six.whl", "https://x.org/files/six.whl"},
		{"https://x.org/simple/six/", "six.whl#sha256=0",
			"https://x.org/simple/six/six.whl#sha256=0"},
		{"https://x.org/simple/six/", "/f/six.whl", "https://x.org/f/six.whl"},
		{"https://x.org/simple/six/", "//y.org/six.whl", "https://y.org/six.whl"},
		{"https://x.org/simple/six/", "http://y.org/six.whl", "http://y.org/six.whl"},
		{"https://x.org/a/", "../../../../six.whl", "https://x.org/six.whl"},
		{"https://x.org", "six.whl", "https://x.org/six.whl"},
	};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		auto_free char *url = page_join(table[i][0], table[i][1]);
		ASSERT_STR(url, table[i][2]);
	}
	ASSERT(!page_join("https://x.org/", "file:///etc/passwd"));
	ASSERT(!page_join("https://x.org/", "ftp://y.org/x"));
}

static int collect(const struct page_file *f, void *user)
{
	return buf_addf(user, "%s|%s|%.8s|%s|%d\n", f->filename, f->url, f->hash,
		f->requires_python, f->is_yanked);
}

TEST(index_pages_are_read)
{
	static const char html[] =
		"<!DOCTYPE html><!-- <a href='no.whl'>no</a> --><a "
		"href=\"../../a%2B1-1.0-py3-none-any.whl#sha256="
		"8ABB2F1D86890A2DFB989F9A77CFCFD3E47C2A354B01111771326F8AA26E0254\" "
		"data-requires-python=\"&gt;=3.8\">x</a><A HREF='b-1.0.tar.gz' data-yanked>b</A>"
		"<a href='file:///c.whl'>c</a><a name=x>d</a><a href=''>e</a>";
	static const char json[] =
		"{\"meta\": {}, \"files\": [{\"filename\": \"a.whl\", \"url\": "
		"\"https://y.org/a.whl\", \"hashes\": "
		"{\"sha256\": "
		"\"8abb2f1d86890a2dfb989f9a77cfcfd3e47c2a354b01111771326f8aa26e0254\"}, "
		"\"requires-python\": \">=3.8\", \"yanked\": \"bad\"}, {\"filename\": \"x/y.whl\", "
		"\"url\": \"z\"}, 7]}";
	auto_buf struct buf b = BUF_INIT(65536);

	ASSERT_OK(page_read(html, sizeof html - 1, "text/html", "https://x.org/simple/a/", collect,
		&b, NULL));
	ASSERT_STR(buf_str(&b), "a+1-1.0-py3-none-any.whl|https://x.org/"
				"a%2B1-1.0-py3-none-any.whl|8abb2f1d|>=3.8|0\n"
				"b-1.0.tar.gz|https://x.org/simple/a/b-1.0.tar.gz|||1\n");
	buf_reset(&b);
	ASSERT_OK(page_read(json, sizeof json - 1, "application/vnd.pypi.simple.v1+json",
		"https://x.org/simple/a/", collect, &b, NULL));
	ASSERT_STR(buf_str(&b), "a.whl|https://y.org/a.whl|8abb2f1d|>=3.8|1\n");
	ASSERT(page_read("{", 1, "application/json", "https://x.org/", collect, &b, NULL) < 0);
}

TEST(names_in_a_wheel_stay_in_the_environment)
{
	static const char *const bad[] = {"/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.",
		"a\\b", "a/", "a\nb", "", "x.data/scripts/a/b", "x.data/other/a",
		"x.data/data/bin/python3", "x.data/data/pyvenv.cfg",
		"x.data/data/lib/python3.11/site-packages/y.py", "_cell_refuse.pth",
		"x.data/data/../../x"};
	static const char *const good[][2] = {{"a/b.py", "lib/a/b.py"},
		{"x.data/purelib/c.py", "lib/c.py"}, {"x.data/platlib/c.so", "lib/c.so"},
		{"x.data/scripts/run", "bin/run"}, {"x.data/headers/h.h", "include/x/h.h"},
		{"x.data/data/share/d", "data/share/d"}, {"..a", "lib/..a"}};
	char place[256];

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_(wheel_place(bad[i], "x.data/", "x", place, sizeof place, NULL) < 0,
			"'%s' was taken", bad[i]);
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		ASSERT_OK(wheel_place(good[i][0], "x.data/", "x", place, sizeof place, NULL));
		ASSERT_STR(place, good[i][1]);
	}
}

TEST(scripts_do_not_take_the_interpreters_place)
{
	static const char *const bad[] = {"", "a/b", "..", ".x", "-x", "a b", "python", "python3",
		"python3.11", "Python", "activate", "activate.sh", "a\nb", "a'b"};
	static const char *const good[] = {
		"pip", "python-config", "normalizer", "f2py", "a.b", "pythonista", "x+y"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_(wheel_check_script_name(bad[i], NULL) < 0, "'%s' was taken", bad[i]);
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		CHECK_(wheel_check_script_name(good[i], NULL) == 0, "'%s' was refused", good[i]);
}

TEST(ranges_allow_what_npm_says)
{
	static const struct {
		const char *range, *version;
		bool does;
	} table[] = {
		{"", "1.2.3", true},
		{"*", "0.0.1", true},
		{"1.2.3", "1.2.3", true},
		{"=1.2.3", "1.2.4", false},
		{"^1.2.3", "1.9.0", true},
		{"^1.2.3", "2.0.0", false},
		{"^0.2.3", "0.2.9", true},
		{"^0.2.3", "0.3.0", false},
		{"^0.0.3", "0.0.4", false},
		{"^0.0", "0.0.9", true},
		{"^0.x", "0.9.0", true},
		{"~1.2.3", "1.2.9", true},
		{"~1.2.3", "1.3.0", false},
		{"~1", "1.9.0", true},
		{"~> 1.2", "1.2.5", true},
		{"1.2.x", "1.2.7", true},
		{"1.2.x", "1.3.0", false},
		{"1", "1.7.0", true},
		{">=1.2.0 <2", "1.9.9", true},
		{">=1.2.0 <2", "2.0.0", false},
		{"1.2.3 - 2.3", "2.3.9", true},
		{"1.2.3 - 2.3", "2.4.0", false},
		{"^1 || ^3", "3.1.0", true},
		{"^1 || ^3", "2.0.0", false},
		{">1.2", "1.2.9", false},
		{">1.2", "1.3.0", true},
		{"<=1.2", "1.2.9", true},
		{">= 1.0.0, < 3", "2.0.0", true},
		{"v1.2.3", "1.2.3", true},
		{"^1.0.0", "1.1.0-beta.1", false},
		{"^1.1.0-beta.1", "1.1.0-beta.2", true},
		{"^1.1.0-beta.1", "1.2.0-beta.2", false},
		{">=1.0.0-rc.10", "1.0.0-rc.9", false},
		{"1.2.3", "1.2.3+build", true},
		{"^1", "x", false},
	};
	static const char *const bad[] = {"latest", "1.2.3.4", "git+https://x", "^", "1.2.3 -",
		"file:../x", "1.x.y z", "^1 | ^2"};

	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		CHECK_(semver_allows(table[i].range, table[i].version) == table[i].does,
			"'%s' and %s", table[i].range, table[i].version);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_(!semver_range_is_valid(bad[i]), "'%s' was taken", bad[i]);
}

TEST(names_of_npm_packages_are_safe_as_paths)
{
	static const char *const bad[] = {"", ".", "..", "../x", "/x", "@x", "@/x", "@x/", "@../x",
		"@x/../y", "a/b", ".x", "node_modules", "a b", "a\nb", "@x/y/z", "_x"};
	static const char *const good[] = {
		"left-pad", "@types/node", "lodash.merge", "JSONStream", "@a.b/c_d", "x"};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		CHECK_(!npm_is_name(bad[i]), "'%s' was taken", bad[i]);
	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		CHECK_(npm_is_name(good[i]), "'%s' was refused", good[i]);
}

TEST(a_lock_of_npm_packages_is_read)
{
	json_t *wishes = json_array(), *locked = NULL;
	struct cell_error err = {0};

	ASSERT_OK(npm_list_read("# a lock\na@1.0.0 --hash=sha256:"
				"0000000000000000000000000000000000000000000000000000000000000000\n"
				"@s/b@2.0.0 --needed --hash=sha256:"
				"1111111111111111111111111111111111111111111111111111111111111111 "
				"# x\n",
		wishes, &locked, &err));
	ASSERT_EQ(json_array_size(wishes), 1);
	ASSERT(json_object_get(json_object_get(locked, "@s/b"), "2.0.0"));
	json_decref(locked);
	locked = NULL;
	ASSERT(npm_list_read("a@1.0.0 --hash=sha256:"
			     "0000000000000000000000000000000000000000000000000000000000000000\nb"
			     "\n",
		       wishes, &locked, &err) < 0);
	ASSERT(strstr(err.msg, "no hash"));
	json_decref(locked);
	locked = NULL;
	ASSERT(npm_list_read("a --omit=dev\n", wishes, &locked, &err) < 0);
	json_decref(wishes);
}
