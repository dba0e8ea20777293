/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/resource.h>
#include <time.h>

#include "scratch.h"
#include "server/audit.h"
#include "server/audit_file.h"

#define DIR_ scratch_path("audit")
#define KEY_ scratch_path("audit.key")

static struct audit *open_log(uint64_t file_bytes, uint64_t keep_bytes)
{
	struct audit *a = NULL;
	struct cell_error err = {0};
	struct audit_settings s = {.dir = DIR_,
		.key_path = KEY_,
		.sync = AUDIT_SYNC_NEVER,
		.file_bytes = file_bytes,
		.keep_bytes = keep_bytes};

	CHECK_(audit_open(&s, &a, &err) == 0, "%s (%s)", err.msg, err.hint);
	return a;
}

static void put(struct audit *a, const char *action, const char *session)
{
	struct cell_error err = {0};
	json_t *details = json_pack("{s:[s,s]}", "argv", "echo", "hello");
	struct audit_event e = {.kind = AUDIT_INTENT,
		.action = action,
		.tenant = "acme",
		.session = session,
		.request_id = "r1",
		.effect = "allow",
		.rule = "default",
		.details = details};

	CHECK_(audit_write(a, &e, NULL, &err) == 0, "%s", err.msg);
	json_decref(details);
}

/* n records in a log that is closed again. */
static void make(int n, uint64_t file_bytes)
{
	scratch_make();
	struct audit *a = open_log(file_bytes, 0);

	for (int i = 0; i < n; i++)
		put(a, i % 2 ? "exec.start" : "file.write", i % 3 ? "s1" : "s2");
	audit_free(a);
}

static struct audit_verdict verify(bool allow_gaps)
{
	struct audit_verdict v;
	struct cell_error err = {0};

	CHECK_(audit_verify(DIR_, KEY_, allow_gaps, &v, &err) == 0, "%s", err.msg);
	return v;
}

static const char *file_at(uint64_t first)
{
	char name[AUDIT_NAME_MAX];

	return scratch_path("audit/%s", audit_file_name(first, name));
}

static char *load(const char *path, size_t *ret_len)
{
	static char text[1 << 20];
	int fd = open(path, O_RDONLY);
	CHECK_(fd >= 0, "%s", path);
	ssize_t n = read(fd, text, sizeof text - 1);
	ASSERT(n >= 0);
	close(fd);
	text[n] = '\0';
	*ret_len = (size_t)n;
	return text;
}

static size_t load_into(char *copy, const char *path)
{
	size_t len;
	char *text = load(path, &len);

	memcpy(copy, text, len + 1);
	return len;
}

static void store(const char *path, const char *text, size_t len)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);
	ASSERT(fd >= 0 && write(fd, text, len) == (ssize_t)len);
	close(fd);
}

static char *line_at(char *text, int n)
{
	while (n--)
		text = strchr(text, '\n') + 1;
	return text;
}

TEST(a_log_that_nobody_touched_verifies)
{
	make(20, 0);
	struct audit_verdict v = verify(false);

	ASSERT_STR(v.reason, "");
	ASSERT_EQ(v.records, 20);
	ASSERT_EQ(v.last_seq, 20);
	ASSERT(v.is_head_known);
}

TEST(the_chain_goes_on_over_files_and_restarts)
{
	make(20, 2000);
	struct audit *a = open_log(2000, 0);
	put(a, "exec.start", "s1");
	audit_free(a);
	struct audit_verdict v = verify(false);
	ASSERT_STR(v.reason, "");
	ASSERT_EQ(v.last_seq, 21);
	CHECK_(v.files > 3, "only %llu files", (unsigned long long)v.files);
}

TEST(a_record_is_json_with_the_hash_over_its_own_bytes)
{
	size_t len;
	make(1, 0);
	char *text = load(file_at(1), &len);
	json_t *record = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	char hash[AUDIT_HASH_TEXT];

	ASSERT(record);
	char *at = strstr(text, ",\"hash\":\"");
	audit_hash(text, (size_t)(at - text), hash);
	ASSERT_STR(json_string_value(json_object_get(record, "hash")), hash);
	ASSERT_STR(json_string_value(json_object_get(record, "prev")), AUDIT_NO_HASH);
	ASSERT_STR(json_string_value(json_object_get(record, "action")), "file.write");
	ASSERT_STR(json_string_value(json_object_get(json_object_get(record, "decision"), "rule")),
		"default");
	ASSERT_EQ(strlen(json_string_value(json_object_get(record, "time"))), 30);
	json_decref(record);
}

/* Changing any one byte of the log is found, and the record is named. */
TEST(changing_any_byte_of_a_record_is_found)
{
	size_t len;
	make(4, 0);
	static char copy[1 << 16];
	char *text = load(file_at(1), &len);
	memcpy(copy, text, len);
	unsigned long tried = 0;

	for (size_t i = 0; i < len; i++) {
		uint64_t line = 1;
		for (size_t k = 0; k < i; k++)
			line += copy[k] == '\n';
		copy[i] ^= 1;
		store(file_at(1), copy, len);
		copy[i] ^= 1;
		struct audit_verdict v = verify(false);
		/* The very last newline is the beginning of a torn record: the head says what is
		 * missing. */
		CHECK_(*v.reason, "byte %zu of line %llu: not found", i, (unsigned long long)line);
		if (i + 1 < len)
			CHECK_(v.line == line, "byte %zu: line %llu, not %llu (%s)", i,
				(unsigned long long)line, (unsigned long long)v.line, v.reason);
		tried++;
	}
	ASSERT(tried > 500);
	store(file_at(1), copy, len);
	ASSERT_STR(verify(false).reason, "");
}

TEST(a_record_taken_out_put_twice_or_moved_is_found)
{
	size_t len;
	make(6, 0);
	static char copy[1 << 16], other[1 << 16];
	len = load_into(copy, file_at(1));
	char *l2 = line_at(copy, 2), *l3 = line_at(copy, 3), *l4 = line_at(copy, 4);

	/* taken out */
	size_t head = (size_t)(l2 - copy);
	memcpy(other, copy, head);
	memcpy(other + head, l3, len - (size_t)(l3 - copy));
	store(file_at(1), other, len - (size_t)(l3 - l2));
	struct audit_verdict v = verify(false);
	ASSERT_HAS(v.reason, "record 3 is missing");
	ASSERT_EQ(v.line, 3);
	ASSERT_EQ(v.seq, 3);
	/* twice */
	size_t upto = (size_t)(l3 - copy);
	memcpy(other, copy, upto);
	memcpy(other + upto, l2, len - head);
	store(file_at(1), other, upto + len - head);
	v = verify(false);
	ASSERT_HAS(v.reason, "should stand here");
	ASSERT_EQ(v.line, 4);
	/* two exchanged */
	size_t n2 = (size_t)(l3 - l2), n3 = (size_t)(l4 - l3);
	memcpy(other, copy, len);
	memcpy(other + head, l3, n3);
	memcpy(other + head + n3, l2, n2);
	store(file_at(1), other, len);
	ASSERT_EQ(verify(false).line, 3);
	store(file_at(1), copy, len);
	ASSERT_STR(verify(false).reason, "");
}

TEST(cutting_off_the_end_is_found)
{
	make(6, 0);
	static char copy[1 << 16];
	(void)load_into(copy, file_at(1));
	char *l4 = line_at(copy, 4);

	store(file_at(1), copy, (size_t)(l4 - copy));
	struct audit_verdict v = verify(false);
	ASSERT_HAS(v.reason, "records 5 to 6 are missing at the end");
	ASSERT_EQ(v.seq, 5);
	/* A server that takes it up does not make it good. */
	struct audit *a = open_log(0, 0);
	put(a, "exec.start", "s1");
	audit_free(a);
	v = verify(false);
	ASSERT_HAS(v.reason, "the last records are gone");
	ASSERT_EQ(v.seq, 5);
	v = verify(true);
	ASSERT_STR(v.reason, "");
	ASSERT_EQ(v.gaps, 1);
	ASSERT_EQ(v.last_seq, 8);
}

TEST(removing_a_file_at_either_end_or_all_of_them_is_found)
{
	make(30, 2000);
	uint64_t *files;
	size_t n;
	int dir = scratch_open(DIR_);
	ASSERT_OK(audit_files(dir, &files, &n));
	ASSERT(n >= 4);
	ASSERT_OK(rename(file_at(files[0]), scratch_path("away")));
	ASSERT_HAS(verify(false).reason, "no anchor says why");
	ASSERT_OK(rename(scratch_path("away"), file_at(files[0])));
	ASSERT_OK(rename(file_at(files[1]), scratch_path("away")));
	ASSERT_HAS(verify(false).reason, "is missing");
	ASSERT_OK(rename(scratch_path("away"), file_at(files[1])));
	ASSERT_OK(rename(file_at(files[n - 1]), scratch_path("away")));
	ASSERT_HAS(verify(false).reason, "missing at the end");
	ASSERT_OK(rename(scratch_path("away"), file_at(files[n - 1])));
	ASSERT_STR(verify(false).reason, "");
	for (size_t i = 0; i < n; i++)
		ASSERT_OK(unlink(file_at(files[i])));
	ASSERT_HAS(verify(false).reason, "missing at the end");
	ASSERT_OK(unlink(scratch_path("audit/audit.head")));
	ASSERT_HAS(verify(false).reason, "the head is missing");
	/* Nor does a server that begins anew hide it. */
	audit_free(open_log(0, 0));
	ASSERT_HAS(verify(false).reason, "the server found on its start");
	free(files);
	close(dir);
}

/* Whoever can write the files can compute hashes, but not the head. */
TEST(a_chain_that_was_computed_anew_is_not_the_servers)
{
	make(3, 0);
	static char copy[1 << 16], head[AUDIT_MARK_MAX];
	size_t len = load_into(copy, file_at(1));
	char *l2 = line_at(copy, 2);
	struct audit_line l;
	char hash[AUDIT_HASH_TEXT];
	size_t n = strcspn(l2, "\n"), head_len;

	memcpy(head, load(scratch_path("audit/audit.head"), &head_len), sizeof head);
	*strstr(l2, "acme") = 'X';
	ASSERT_OK(audit_line_parse(l2, n, &l));
	audit_hash(l2, l.hashed, hash);
	memcpy(l2 + n - 66, hash, 64);
	store(file_at(1), copy, len);
	struct audit_verdict v = verify(false);
	ASSERT_HAS(v.reason, "not the one the server wrote");
	ASSERT_EQ(v.seq, 3);
	/* Nor can it be made: */
	static char forged[AUDIT_MARK_MAX];
	memcpy(forged, head, sizeof forged);
	memcpy(strchr(forged, ' ') + 1, hash, 64);
	store(scratch_path("audit/audit.head"), forged, sizeof forged);
	ASSERT_HAS(verify(false).reason, "the head is missing or was not written");
	/* Without the key only the links count, and those are right: the control. */
	struct cell_error err = {0};
	ASSERT_OK(audit_verify(DIR_, NULL, false, &v, &err));
	ASSERT_STR(v.reason, "");
	ASSERT(!v.is_head_known);
}

TEST(records_put_behind_the_head_are_found)
{
	size_t len;
	make(4, 0);
	static char head[AUDIT_MARK_MAX];
	memcpy(head, load(scratch_path("audit/audit.head"), &len), sizeof head);
	struct audit *a = open_log(0, 0);
	put(a, "exec.start", "s1");
	put(a, "exec.start", "s1");
	audit_free(a);
	store(scratch_path("audit/audit.head"), head, sizeof head);
	struct audit_verdict v = verify(false);
	ASSERT_HAS(v.reason, "records from 5 on were not written by the server");
}

TEST(one_record_behind_the_head_is_a_crash_and_fine)
{
	size_t len;
	make(4, 0);
	static char head[AUDIT_MARK_MAX];
	memcpy(head, load(scratch_path("audit/audit.head"), &len), sizeof head);
	struct audit *a = open_log(0, 0);
	put(a, "exec.start", "s1");
	audit_free(a);
	store(scratch_path("audit/audit.head"), head, sizeof head);
	ASSERT_STR(verify(false).reason, "");
	a = open_log(0, 0);
	put(a, "exec.start", "s1");
	audit_free(a);
	struct audit_verdict v = verify(false);
	ASSERT_STR(v.reason, "");
	ASSERT_EQ(v.gaps, 0);
}

TEST(a_torn_last_line_is_put_aside_and_told_not_called_tampering)
{
	make(3, 0);
	int fd = open(file_at(1), O_WRONLY | O_APPEND);
	ASSERT(write(fd, "{\"seq\":4,\"time\":\"20", 19) == 19);
	close(fd);
	ASSERT_STR(verify(false).reason, "");
	audit_free(open_log(0, 0));
	struct audit_verdict v = verify(false);
	ASSERT_STR(v.reason, "");
	ASSERT_EQ(v.repairs, 1);
	ASSERT_EQ(v.last_seq, 4);
	int torn = 0;
	DIR *d = opendir(DIR_);
	for (struct dirent *e; (e = readdir(d));)
		torn += !strncmp(e->d_name, "torn-", 5);
	closedir(d);
	ASSERT_EQ(torn, 1);
}

TEST(an_empty_file_of_a_crash_is_made_again)
{
	make(3, 0);
	store(file_at(4), "", 0);
	struct audit *a = open_log(0, 0);
	put(a, "exec.start", "s1");
	audit_free(a);
	ASSERT_STR(verify(false).reason, "");
}

TEST(retention_removes_whole_files_and_leaves_an_anchor)
{
	make(60, 2000);
	struct audit *a = open_log(2000, 6000);
	struct cell_error err = {0};

	ASSERT_OK(audit_tick(a, &err));
	put(a, "exec.start", "s1");
	audit_free(a);
	struct audit_verdict v = verify(false);
	ASSERT_STR(v.reason, "");
	ASSERT(v.first_seq > 1);
	ASSERT_EQ(v.last_seq, 62);
	/* One file more than retention took is missing: found. */
	ASSERT_OK(unlink(file_at(v.first_seq)));
	ASSERT_HAS(verify(false).reason, "missing at the beginning");
}

TEST(an_anchor_that_was_moved_is_found)
{
	make(60, 2000);
	struct audit *a = open_log(2000, 6000);
	struct cell_error err = {0};
	size_t len;

	ASSERT_OK(audit_tick(a, &err));
	audit_free(a);
	char *text = load(scratch_path("audit/audit.anchor"), &len);
	text[0] ^= 1;
	store(scratch_path("audit/audit.anchor"), text, len);
	ASSERT_HAS(verify(false).reason, "the anchor was not written by this server");
}

TEST(two_writers_never_share_a_log)
{
	make(1, 0);
	struct audit *a = open_log(0, 0), *b = NULL;
	struct cell_error err = {0};
	struct audit_settings s = {.dir = DIR_, .key_path = KEY_};

	ASSERT_ERR(audit_open(&s, &b, &err), -EBUSY);
	ASSERT_EQ(err.code, CELL_EBUSY);
	audit_free(a);
	ASSERT_OK(audit_open(&s, &b, &err));
	audit_free(b);
}

TEST(a_log_without_its_key_or_with_one_others_may_read_is_refused)
{
	make(1, 0);
	struct audit *a = NULL;
	struct cell_error err = {0};
	struct audit_settings s = {.dir = DIR_, .key_path = KEY_};

	ASSERT_OK(chmod(KEY_, 0644));
	ASSERT(audit_open(&s, &a, &err) < 0);
	ASSERT_EQ(err.code, CELL_EDENIED);
	ASSERT_OK(unlink(KEY_));
	ASSERT(audit_open(&s, &a, &err) < 0);
	ASSERT_HAS(err.msg, "its key");
}

TEST(a_writer_killed_at_any_moment_leaves_a_log_that_verifies)
{
	scratch_make();
	for (int round = 0; round < 12; round++) {
		pid_t pid = fork();
		ASSERT(pid >= 0);
		if (pid == 0) {
			struct audit *a = open_log(3000, 9000);
			for (;;) {
				put(a, "exec.start", "s1");
				(void)audit_tick(a, NULL);
			}
		}
		struct timespec some = {.tv_nsec = 3000000 + round * 1700000};
		(void)nanosleep(&some, NULL);
		ASSERT_OK(kill(pid, SIGKILL));
		int status;
		ASSERT_EQ(waitpid(pid, &status, 0), pid);
		struct stat st;
		if (stat(DIR_, &st) < 0 || stat(KEY_, &st) < 0)
			continue;
		struct audit_verdict v = verify(false);
		CHECK_(!*v.reason, "round %d: %s:%llu %s", round, v.file,
			(unsigned long long)v.line, v.reason);
	}
	audit_free(open_log(3000, 9000));
	ASSERT_STR(verify(false).reason, "");
}

TEST(verifying_beside_a_writer_finds_nothing_wrong)
{
	scratch_make();
	audit_free(open_log(0, 0));
	pid_t pid = fork();
	ASSERT(pid >= 0);
	if (pid == 0) {
		struct audit *a = open_log(20000, 90000);
		for (;;) {
			put(a, "exec.start", "s1");
			(void)audit_tick(a, NULL);
		}
	}
	for (int i = 0; i < 60; i++) {
		struct audit_verdict v = verify(false);
		if (*v.reason)
			(void)kill(pid, SIGKILL);
		CHECK_(!*v.reason, "round %d: %s:%llu %s", i, v.file, (unsigned long long)v.line,
			v.reason);
	}
	ASSERT_OK(kill(pid, SIGKILL));
	ASSERT_EQ(waitpid(pid, NULL, 0), pid);
}

TEST(a_full_disk_is_an_error_and_the_next_record_follows_the_last)
{
	make(3, 0);
	struct audit *a = open_log(0, 0);
	struct rlimit old, tight;
	struct stat st;
	struct cell_error err = {0};
	struct audit_event e = {.action = "exec.start"};

	ASSERT_OK(stat(file_at(1), &st));
	ASSERT_OK(getrlimit(RLIMIT_FSIZE, &old));
	(void)signal(SIGXFSZ, SIG_IGN);
	tight = old;
	tight.rlim_cur = (rlim_t)st.st_size + 40; /* in the middle of a record */
	ASSERT_OK(setrlimit(RLIMIT_FSIZE, &tight));
	ASSERT(audit_write(a, &e, NULL, &err) < 0);
	ASSERT(err.code != CELL_OK);
	ASSERT_OK(setrlimit(RLIMIT_FSIZE, &old));
	ASSERT_OK(audit_write(a, &e, NULL, &err));
	audit_free(a);
	struct audit_verdict v = verify(false);
	ASSERT_STR(v.reason, "");
	ASSERT_EQ(v.last_seq, 4);
}

TEST(details_too_long_are_cut_and_say_so)
{
	make(0, 0);
	struct audit *a = open_log(0, 0);
	struct cell_error err = {0};
	size_t len;
	char *big = malloc(AUDIT_RECORD_MAX * 2);
	memset(big, 'x', AUDIT_RECORD_MAX * 2 - 1);
	big[AUDIT_RECORD_MAX * 2 - 1] = '\0';
	json_t *details = json_pack("{s:s}", "text", big);
	struct audit_event e = {.action = "exec.start", .session = "s\xff\xfe", .details = details};

	ASSERT_OK(audit_write(a, &e, NULL, &err));
	json_decref(details);
	free(big);
	audit_free(a);
	ASSERT_STR(verify(false).reason, "");
	char *text = load(file_at(1), &len);
	ASSERT_HAS(text, "\"cut\":true");
	ASSERT_HAS(text, "\"session\":\"s\?\?\"");
}

static int count(json_t *record, const char *line, size_t len, void *user)
{
	ASSERT(json_is_object(record) && line[0] == '{' && line[len - 1] == '}');
	++*(int *)user;
	return 0;
}

static int found(const struct audit_filter *f)
{
	int n = 0;
	struct cell_error err = {0};

	CHECK_(audit_query(DIR_, f, count, &n, &err) == 0, "%s", err.msg);
	return n;
}

TEST(a_query_finds_what_matches_over_all_files)
{
	make(30, 2000);
	ASSERT_EQ(found(&(struct audit_filter){0}), 30);
	ASSERT_EQ(found(&(struct audit_filter){.action = "exec.*"}), 15);
	ASSERT_EQ(found(&(struct audit_filter){.session = "s2"}), 10);
	ASSERT_EQ(found(&(struct audit_filter){.session = "s2", .action = "exec.start"}), 5);
	ASSERT_EQ(found(&(struct audit_filter){.after_seq = 25}), 5);
	ASSERT_EQ(found(&(struct audit_filter){.limit = 7}), 7);
	ASSERT_EQ(found(&(struct audit_filter){.last = 3}), 3);
	ASSERT_EQ(found(&(struct audit_filter){.tenant = "other"}), 0);
	ASSERT_EQ(found(&(struct audit_filter){.effect = "allow", .kind = "intent"}), 30);
	ASSERT_EQ(found(&(struct audit_filter){.since_ns = 1}), 30);
	ASSERT_EQ(found(&(struct audit_filter){.until_ns = 1}), 0);
	ASSERT_EQ(found(&(struct audit_filter){.request_id = "r1", .last = 100}), 30);
}

/* What OCSF 1.3 requires of an event of each class. */
static void has_shape(const char *action, int class, int activity, const char *const *needs)
{
	json_t *record = json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:{s:[s,s], s:s}, s:s}",
		"seq", 1, "time", "2026-01-31T13:05:59.123456789Z", "kind", "result", "action",
		action, "actor", "abc", "session", "s1", "exec", "e1", "details", "argv", "ls",
		"-l", "path", "a/b.txt", "hash", "00ff");
	json_t *e = audit_to_ocsf(record);

	ASSERT(e);
	ASSERT_EQ(json_integer_value(json_object_get(e, "class_uid")), class);
	ASSERT_EQ(json_integer_value(json_object_get(e, "category_uid")), class / 1000);
	ASSERT_EQ(json_integer_value(json_object_get(e, "activity_id")), activity);
	ASSERT_EQ(json_integer_value(json_object_get(e, "type_uid")), class * 100 + activity);
	ASSERT_EQ(json_integer_value(json_object_get(e, "time")), 1769864759123);
	ASSERT_EQ(json_integer_value(json_object_get(e, "status_id")), 1);
	ASSERT(json_integer_value(json_object_get(e, "severity_id")) > 0);
	json_t *metadata = json_object_get(e, "metadata");
	ASSERT(json_is_string(json_object_get(metadata, "version")));
	ASSERT_STR(json_string_value(json_object_get(json_object_get(metadata, "product"),
			   "vendor_name")),
		"Cell");
	for (; *needs; needs++)
		CHECK_(json_object_get(e, *needs), "%s has no %s", action, *needs);
	json_decref(e);
	json_decref(record);
}

TEST(every_class_of_ocsf_has_what_it_requires)
{
	static const char *const process[] = {"actor", "device", "process", NULL};
	static const char *const file[] = {"actor", "device", "file", NULL};
	static const char *const api[] = {"actor", "api", "src_endpoint", NULL};
	static const char *const login[] = {"user", NULL};

	has_shape("exec.start", 1007, 1, process);
	has_shape("exec.signal", 1007, 99, process);
	has_shape("file.write", 1001, 3, file);
	has_shape("file.read", 1001, 2, file);
	has_shape("session.create", 6003, 1, api);
	has_shape("token.revoke", 6003, 4, api);
	has_shape("something.else", 6003, 99, api);
	has_shape("auth.refused", 3002, 1, login);
}
