/* SPDX-License-Identifier: Apache-2.0 */
/* wheel.c: see wheel.h. */
#include "core/deps/wheel.h"

#include <ctype.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fdcopy.h"
#include "core/deps/tags.h"
#include "core/deps/version.h"
#include "core/deps/wheel_path.h"
#include "core/deps/zip.h"
#include "core/image/digest.h"

#define METADATA_MAX   (4u << 20)
#define RECORD_MAX     (64u << 20)
#define REQUIRES_MAX   2000
#define PLACE_MAX      1280
#define B64_SHA256_LEN 43

struct record_line {
	char *path;
	char hash[B64_SHA256_LEN + 1]; /* "" for none */
	bool is_seen;
};

struct wheel {
	struct zip zip;
	struct wheel_name name;
	char info_dir[512], data_dir[512]; /* with their slash */
	struct record_line *records;
	size_t n_records;
	char *record_text;
	json_t *manifest, *files;
};

static void wheel_done(struct wheel *w)
{
	zip_done(&w->zip);
	free(w->records);
	free(w->record_text);
	json_decref(w->manifest);
}

static int refuse(struct cell_error *err, const char *why)
{
	return cell_fail(err, CELL_EINVAL, 0, "the wheel is refused: %s", why);
}

static int refuse_file(struct cell_error *err, const char *path, const char *why)
{
	return cell_fail(err, CELL_EINVAL, 0, "the wheel is refused: '%.200s' %s", path, why);
}

/* The one directory NAME-VERSION.dist-info. */
static int find_info(struct wheel *w, struct cell_error *err)
{
	for (size_t i = 0; i < w->zip.n; i++) {
		const char *name = w->zip.entries[i].name;
		size_t n = strcspn(name, "/");
		if (n < 10 || name[n] != '/' || strncmp(name + n - 10, ".dist-info", 10) != 0)
			continue;
		if (n + 2 > sizeof w->info_dir)
			return refuse(err, "a name in it is too long");
		if (*w->info_dir && (strncmp(w->info_dir, name, n + 1) != 0 || w->info_dir[n + 1]))
			return refuse(err, "it has two .dist-info directories");
		(void)snprintf(w->info_dir, sizeof w->info_dir, "%.*s", (int)(n + 1), name);
	}
	if (!*w->info_dir)
		return refuse(err, "it has no .dist-info directory, so it is no wheel");
	size_t stem = strlen(w->info_dir) - 11;
	char normal[REQUIREMENT_NAME_MAX];
	const char *dash = memchr(w->info_dir, '-', stem);
	if (!dash || !package_normalize(w->info_dir, (size_t)(dash - w->info_dir), normal) ||
		strcmp(normal, w->name.name) != 0)
		return refuse(err,
			"its .dist-info directory is of another package than its file name");
	(void)snprintf(w->data_dir, sizeof w->data_dir, "%.*s.data/", (int)stem, w->info_dir);
	return 0;
}

static int load(struct wheel *w, const char *name, size_t max, bool is_optional, char **ret,
	struct cell_error *err)
{
	char path[640];
	size_t len = 0;

	(void)snprintf(path, sizeof path, "%s%s", w->info_dir, name);
	const struct zip_entry *e = zip_find(&w->zip, path);
	if (!e)
		return is_optional ? 0 : refuse_file(err, path, "is missing");
	int r = zip_load(&w->zip, e, max, ret, &len, err);
	if (r == 0 && strlen(*ret) != len)
		r = refuse_file(err, path, "has a NUL in it");
	return r;
}

/* ---- METADATA and WHEEL ---- */

/* The header's value at *p when that line has this name; folded lines are joined. */
static int header(const char *p, const char *name, struct buf *ret)
{
	size_t n = strlen(name);

	if (strncasecmp(p, name, n) != 0 || p[n] != ':')
		return 0;
	p += n + 1;
	buf_reset(ret);
	for (;;) {
		p += strspn(p, " \t");
		size_t len = strcspn(p, "\r\n");
		if (buf_add(ret, p, len) < 0)
			return -1;
		p += len;
		p += *p == '\r';
		p += *p == '\n';
		if (*p != ' ' && *p != '\t')
			return 1;
		if (buf_addc(ret, ' ') < 0)
			return -1;
	}
}

static const char *next_line(const char *p)
{
	p += strcspn(p, "\n");
	return p + (*p == '\n');
}

static bool is_end_of_headers(const char *p)
{
	return !*p || *p == '\n' || (*p == '\r' && p[1] == '\n');
}

static int check_identity(struct wheel *w, const char *key, const char *value,
	struct cell_error *err)
{
	char normal[REQUIREMENT_NAME_MAX];
	struct version mine, theirs;

	if (!strcmp(key, "Name"))
		return package_normalize(value, strlen(value), normal) &&
				       !strcmp(normal, w->name.name)
			       ? 0
			       : refuse(err,
					 "its METADATA names another package than its file name");
	if (!version_parse(w->name.version, &mine) || !version_parse(value, &theirs) ||
		version_compare(&mine, &theirs) != 0)
		return refuse(err, "its METADATA has another version than its file name");
	return 0;
}

static int read_metadata(struct wheel *w, struct cell_error *err)
{
	auto_buf struct buf value = BUF_INIT(65536);
	auto_free char *text = NULL;
	json_t *requires = json_object_get(w->manifest, "requires");
	bool has_name = false, has_version = false;
	int r = load(w, "METADATA", METADATA_MAX, false, &text, err);

	if (r < 0)
		return r;
	for (const char *p = text; !is_end_of_headers(p); p = next_line(p)) {
		int k;
		if ((k = header(p, "Name", &value)) > 0) {
			has_name = true;
			r = check_identity(w, "Name", buf_str(&value), err);
		} else if (k == 0 && (k = header(p, "Version", &value)) > 0) {
			has_version = true;
			r = check_identity(w, "Version", buf_str(&value), err);
		} else if (k == 0 && (k = header(p, "Requires-Python", &value)) > 0) {
			if (!specifiers_are_valid(buf_str(&value)))
				r = refuse(err, "its Requires-Python cannot be read");
			else if (json_object_set_new(w->manifest, "requires_python",
					 json_string(buf_str(&value))) < 0)
				r = refuse(err, "its METADATA is no text");
		} else if (k == 0 && (k = header(p, "Requires-Dist", &value)) > 0) {
			struct requirement q;
			if (json_array_size(requires) >= REQUIRES_MAX)
				r = refuse(err, "it asks for too many other packages");
			else
				r = requirement_parse(buf_str(&value), &q, err);
			if (r == 0 &&
				json_array_append_new(requires, json_string(buf_str(&value))) < 0)
				r = refuse(err, "its METADATA is no text");
		}
		if (r == 0 && k < 0)
			r = refuse(err, "a line of its METADATA is too long");
		if (r < 0)
			return r;
	}
	return has_name && has_version ? 0 : refuse(err, "its METADATA has no name or no version");
}

static int check_format(struct wheel *w, struct cell_error *err)
{
	auto_buf struct buf value = BUF_INIT(65536);
	auto_free char *text = NULL;
	int r = load(w, "WHEEL", METADATA_MAX, false, &text, err);

	if (r < 0)
		return r;
	for (const char *p = text; !is_end_of_headers(p); p = next_line(p))
		if (header(p, "Wheel-Version", &value) > 0)
			return !strncmp(buf_str(&value), "1.", 2)
				       ? 0
				       : refuse(err, "its format is newer than what is known here "
						     "(1.x)");
	return refuse(err, "it does not say which format it has");
}

/* ---- RECORD ---- */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct record_line *)a)->path, ((const struct record_line *)b)->path);
}

/* One field of a CSV line, unquoted in place; *p moves on behind its comma. */
static char *field(char **p)
{
	char *start = *p, *out = *p, *in = *p;

	if (*in == '"') {
		for (in++; *in; in++) {
			if (*in == '"' && *++in != '"')
				break;
			*out++ = *in;
		}
		in += strcspn(in, ",");
	} else {
		in += strcspn(in, ",");
		out = in;
	}
	*p = *in ? in + 1 : in;
	*out = '\0';
	return start;
}

static int read_record(struct wheel *w, struct cell_error *err)
{
	size_t lines = 1;
	int r = load(w, "RECORD", RECORD_MAX, false, &w->record_text, err);

	if (r < 0)
		return r;
	for (const char *p = w->record_text; *p; p++)
		lines += *p == '\n';
	w->records = calloc(lines, sizeof *w->records);
	if (!w->records)
		return cell_fail_errno(err, ENOMEM, "read the wheel's RECORD");
	for (char *p = w->record_text; *p;) {
		size_t len = strcspn(p, "\n");
		char *line = p;
		p += len + (p[len] == '\n');
		line[len] = '\0';
		if (len && line[len - 1] == '\r')
			line[--len] = '\0';
		if (!len)
			continue;
		struct record_line *e = &w->records[w->n_records++];
		e->path = field(&line);
		const char *hash = field(&line);
		if (!strncmp(hash, "sha256=", 7) && strlen(hash) - 7 >= B64_SHA256_LEN)
			(void)snprintf(e->hash, sizeof e->hash, "%.43s", hash + 7);
		else if (*hash)
			return refuse_file(err, e->path, "has a hash in RECORD that is no SHA-256");
	}
	qsort(w->records, w->n_records, sizeof *w->records, by_path);
	for (size_t i = 1; i < w->n_records; i++)
		if (!strcmp(w->records[i].path, w->records[i - 1].path))
			return refuse_file(err, w->records[i].path, "stands twice in RECORD");
	return 0;
}

static struct record_line *record_of(struct wheel *w, const char *path)
{
	struct record_line key = {.path = (char *)(uintptr_t)path};

	return bsearch(&key, w->records, w->n_records, sizeof key, by_path);
}

static void to_base64(const char hex[DIGEST_HEX + 1], char ret[B64_SHA256_LEN + 1])
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	unsigned bits = 0, n_bits = 0;
	size_t n = 0;

	for (size_t i = 0; i < DIGEST_HEX; i++) {
		unsigned d = isdigit((unsigned char)hex[i]) ? (unsigned)(hex[i] - '0')
							    : (unsigned)(hex[i] - 'a' + 10);
		bits = bits << 4 | d;
		n_bits += 4;
		if (n_bits >= 6) {
			n_bits -= 6;
			ret[n++] = letters[bits >> n_bits & 63];
		}
	}
	ret[n++] = letters[bits << (6 - n_bits) & 63];
	ret[n] = '\0';
}

/* ---- files ---- */

struct writing {
	int fd;
	struct digest digest;
};

static int write_piece(const void *p, size_t n, void *user)
{
	struct writing *w = user;

	digest_add(&w->digest, p, n);
	return fd_write_all(w->fd, p, n);
}

static int make_parents(int dir_fd, const char *path)
{
	char part[PLACE_MAX];

	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		(void)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
		if (mkdirat(dir_fd, part, 0755) < 0 && errno != EEXIST)
			return -errno;
	}
	return 0;
}

static bool is_signature(const struct wheel *w, const char *path)
{
	size_t n = strlen(w->info_dir);

	return !strncmp(path, w->info_dir, n) &&
	       (!strcmp(path + n, "RECORD") || !strcmp(path + n, "RECORD.jws") ||
		       !strcmp(path + n, "RECORD.p7s"));
}

static int check_record(struct wheel *w, const char *path, const char hex[DIGEST_HEX + 1],
	struct cell_error *err)
{
	struct record_line *line = record_of(w, path);
	char hash[B64_SHA256_LEN + 1];

	if (line)
		line->is_seen = true;
	if (is_signature(w, path))
		return 0;
	if (!line)
		return refuse_file(err, path, "is not in RECORD");
	to_base64(hex, hash);
	if (!*line->hash)
		return refuse_file(err, path, "has no hash in RECORD");
	return strcmp(line->hash, hash)
		       ? refuse_file(err, path, "is not what RECORD says: the hashes differ")
		       : 0;
}

static int unpack_file(struct wheel *w, const struct zip_entry *e, int dir_fd,
	struct cell_error *err)
{
	char place[PLACE_MAX], hex[DIGEST_HEX + 1];
	struct writing out = {.fd = -1};
	int r = wheel_place(e->name, w->data_dir, w->name.name, place, sizeof place, err);

	if (r == 0 && !strncmp(place, "bin/", 4))
		r = wheel_check_script_name(place + 4, err);
	if (r == 0 && (r = make_parents(dir_fd, place)) < 0)
		r = -r == ENOTDIR
			    ? refuse_file(err, e->name, "is in a directory that is also a file")
			    : cell_fail_errno(err, -r, "unpack '%.200s'", e->name);
	if (r < 0)
		return r;
	bool is_executable = e->is_executable || !strncmp(place, "bin/", 4);
	auto_fd int fd = openat(dir_fd, place, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
		is_executable ? 0555 : 0444);
	if (fd < 0 && (errno == EEXIST || errno == EISDIR))
		return refuse_file(err, e->name, "is there twice");
	if (fd < 0 && errno == ENOTDIR)
		return refuse_file(err, e->name, "is in a directory that is also a file");
	if (fd < 0)
		return cell_fail_errno(err, errno, "unpack '%.200s'", e->name);
	out.fd = fd;
	digest_init(&out.digest);
	r = zip_read(&w->zip, e, write_piece, &out, err);
	if (r < 0)
		return err && err->code ? r : cell_fail_errno(err, -r, "unpack '%.200s'", e->name);
	/* the umask has no say in what a cell may read */
	if (fchmod(fd, is_executable ? 0555 : 0444) < 0)
		return cell_fail_errno(err, errno, "unpack '%.200s'", e->name);
	digest_hex(&out.digest, hex);
	r = check_record(w, e->name, hex, err);
	if (r == 0 && json_array_append_new(w->files,
			      json_pack("[s, I]", place, (json_int_t)e->size)) < 0)
		r = refuse_file(err, e->name, "has a name that is no UTF-8");
	return r;
}

static int unpack_all(struct wheel *w, int dir_fd, struct cell_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < w->zip.n; i++)
		if (!w->zip.entries[i].is_directory)
			r = unpack_file(w, &w->zip.entries[i], dir_fd, err);
	for (size_t i = 0; r == 0 && i < w->n_records; i++)
		if (!w->records[i].is_seen && !is_signature(w, w->records[i].path))
			r = refuse_file(err, w->records[i].path,
				"stands in RECORD but is not there");
	return r;
}

/* ---- entry points ---- */

int wheel_check_script_name(const char *name, struct cell_error *err)
{
	static const char *const ours[] = {"activate", "python", "pyvenv.cfg", NULL};
	size_t n = strlen(name);

	if (!n || n > 200 ||
		strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
			     "0123456789._+-") != n ||
		*name == '.' || *name == '-')
		return cell_fail(err, CELL_EDENIED, 0,
			"the wheel is refused: '%.200s' is no name for a script", name);
	for (size_t i = 0; ours[i]; i++)
		if (!strncasecmp(name, ours[i], strlen(ours[i])) &&
			(!name[strlen(ours[i])] ||
				!isalpha((unsigned char)name[strlen(ours[i])])) &&
			!strchr(name, '-') && !strchr(name, '_'))
			return cell_fail(err, CELL_EDENIED, 0,
				"the wheel is refused: a script '%.200s' would take the "
				"interpreter's "
				"place",
				name);
	return 0;
}

/* a.b.c, of letters, digits and underscores: it is written into a script. */
static bool is_dotted(const char *s, size_t n)
{
	bool is_start = true;

	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];
		if (c == '.' ? is_start : !(isalpha(c) || c == '_' || (!is_start && isdigit(c))))
			return false;
		is_start = c == '.';
	}
	return n && !is_start;
}

static char *trim(char *s)
{
	size_t n;

	s += strspn(s, " \t\r");
	n = strlen(s);
	while (n && strchr(" \t\r", s[n - 1]))
		s[--n] = '\0';
	return s;
}

static int take_entry_point(struct wheel *w, char *line, struct cell_error *err)
{
	char *equals = strchr(line, '=');

	if (!equals)
		return refuse_file(err, line, "is no entry point");
	*equals = '\0';
	char *name = trim(line), *value = trim(equals + 1);
	value[strcspn(value, "[")] = '\0'; /* extras that it wants */
	value = trim(value);
	char *colon = strchr(value, ':');
	const char *attribute = colon ? trim(colon + 1) : "";
	size_t n = colon ? (size_t)(colon - value) : strlen(value);
	while (n && strchr(" \t", value[n - 1]))
		n--;
	if (!colon || n > 400 || strlen(attribute) > 400 || !is_dotted(value, n) ||
		!is_dotted(attribute, strlen(attribute)))
		return refuse_file(err, name, "is a script that names no function");
	int r = wheel_check_script_name(name, err);
	if (r == 0 && json_array_append_new(json_object_get(w->manifest, "entry_points"),
			      json_pack("[s, s%, s]", name, value, n, attribute)) < 0)
		r = cell_fail_errno(err, ENOMEM, "read the wheel's entry points");
	return r;
}

static int read_entry_points(struct wheel *w, struct cell_error *err)
{
	auto_free char *text = NULL;
	bool is_wanted = false;
	int r = load(w, "entry_points.txt", METADATA_MAX, true, &text, err);

	for (char *p = text, *next; r == 0 && p && *p; p = next) {
		size_t len = strcspn(p, "\n");
		next = p + len + (p[len] == '\n');
		p[len] = '\0';
		char *line = trim(p);
		if (*line == '[')
			is_wanted = !strcmp(line, "[console_scripts]") ||
				    !strcmp(line, "[gui_scripts]");
		else if (is_wanted && *line && *line != '#' && *line != ';')
			r = take_entry_point(w, line, err);
	}
	return r;
}

int wheel_unpack(int fd, const char *filename, int dir_fd, json_t **ret, struct cell_error *err)
{
	auto_(wheel_done) struct wheel w = {.zip = ZIP_INIT};

	if (!wheel_name_parse(filename, &w.name))
		return cell_error_hint(err,
			cell_fail(err, CELL_EINVAL, 0, "'%.200s' is not the name of a wheel",
				filename),
			"a wheel is called NAME-VERSION-PYTHON-ABI-PLATFORM.whl");
	w.files = json_array();
	w.manifest = json_pack("{s:i, s:s, s:s, s:s, s:s, s:[], s:s, s:o, s:[]}", "format",
		WHEEL_FORMAT, "kind", "wheel", "name", w.name.name, "version", w.name.version,
		"filename", filename, "requires", "requires_python", "", "files", w.files,
		"entry_points");
	if (!w.manifest)
		return cell_fail_errno(err, ENOMEM, "unpack the wheel");
	if (err)
		err->code = CELL_OK;
	int r = zip_open(&w.zip, fd, err);
	if (r == 0)
		r = find_info(&w, err);
	if (r == 0)
		r = check_format(&w, err);
	if (r == 0)
		r = read_metadata(&w, err);
	if (r == 0)
		r = read_record(&w, err);
	if (r == 0)
		r = read_entry_points(&w, err);
	if (r == 0)
		r = unpack_all(&w, dir_fd, err);
	if (r < 0)
		return cell_error_prefix(err, r, "%.160s", filename);
	*ret = json_incref(w.manifest);
	return 0;
}
