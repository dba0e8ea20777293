/* SPDX-License-Identifier: Apache-2.0 */
/* test_container_life.c: which image a cell begins with, who it is, and what is nobody's any more, with an engine that is none. */
#include <errno.h>
#include <unistd.h>

#include "base/error.h"
#include "core/container_image.h"
#include "core/container_life.h"
#include "core/silence.h"
#include "scratch.h"

/* ---- images ---- */

struct images {
	const char *has;   /* the name of the one there is */
	const char *pulls; /* the name that a pull gives it; NULL: it fails */
	char asked[200];
};

static int find(void *user, const char *name, struct cell_error *err)
{
	struct images *i = user;
	size_t at = strlen(i->asked);

	(void)err;
	(void)snprintf(i->asked + at, sizeof i->asked - at, "find %s; ", name);
	return i->has && !strcmp(i->has, name) ? 0 : -ENOENT;
}

static int pull(void *user, const struct cell_spec *spec, struct cell_error *err)
{
	struct images *i = user;
	size_t at = strlen(i->asked);

	(void)snprintf(i->asked + at, sizeof i->asked - at, "pull %s; ", spec->image);
	if (!i->pulls)
		return cell_fail(err, CELL_ENOTFOUND, 0, "no such manifest");
	i->has = i->pulls;
	return 0;
}

static int get(struct images *i, const struct cell_spec *spec, struct cell_error *err)
{
	const struct container_images of = {.backend = "some",
		.owner = "the engine",
		.fix = "pull it",
		.find = find,
		.pull = pull,
		.user = i};

	i->asked[0] = '\0';
	return container_image(spec, &of, err);
}

TEST(an_image_is_pulled_as_the_spec_says)
{
	struct cell_spec spec = {.image = "a", .pull = CELL_PULL_MISSING};
	struct images i = {.has = "a", .pulls = "a"};
	struct cell_error err = {0};

	ASSERT_OK(get(&i, &spec, &err));
	ASSERT_STR(i.asked, "find a; ");
	spec.pull = CELL_PULL_ALWAYS;
	ASSERT_OK(get(&i, &spec, &err));
	ASSERT_STR(i.asked, "pull a; find a; ");
	i.has = NULL;
	spec.pull = CELL_PULL_MISSING;
	ASSERT_OK(get(&i, &spec, &err));
	ASSERT_STR(i.asked, "find a; pull a; find a; ");
	i.has = NULL;
	spec.pull = CELL_PULL_NEVER;
	ASSERT_ERR(get(&i, &spec, &err), -ENOENT);
	ASSERT_STR(i.asked, "find a; ");
	ASSERT_STR(err.msg, "the engine has no image 'a'");
	ASSERT_STR(err.hint, "pull it");
}

TEST(a_digest_has_no_newer_image)
{
#define DIGEST "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	struct cell_spec spec = {.image = DIGEST, .pull = CELL_PULL_ALWAYS};
	struct images i = {.has = DIGEST};

	ASSERT_OK(get(&i, &spec, NULL));
	ASSERT_STR(i.asked, "find " DIGEST "; ");
}

TEST(what_a_pull_says_is_what_is_told)
{
	struct cell_spec spec = {.image = "a"};
	struct images i = {0};
	struct cell_error err = {0};

	ASSERT_ERR(get(&i, &spec, &err), -ENOENT);
	ASSERT_STR(err.msg, "no such manifest");
	i.pulls = "b";
	ASSERT_ERR(get(&i, &spec, &err), -ENOENT);
	ASSERT(strstr(err.msg, "was pulled and is not there"));
}

TEST(a_snapshot_s_image_is_never_pulled)
{
	struct cell_spec spec = {.from = "77", .image = "a", .pull = CELL_PULL_ALWAYS};
	struct images i = {.has = CONTAINER_SNAPSHOTS ":77", .pulls = "a"};
	struct cell_error err = {0};

	ASSERT_OK(get(&i, &spec, &err));
	spec.from = "78";
	ASSERT_ERR(get(&i, &spec, &err), -ENOENT);
	ASSERT(strstr(err.msg, CONTAINER_SNAPSHOTS ":78") && strstr(err.hint, "another engine"));
}

TEST(an_image_must_be_named)
{
	struct cell_spec spec = {0};
	struct images i = {0};
	struct cell_error err = {0};

	ASSERT(get(&i, &spec, &err) < 0);
	ASSERT_EQ(err.code, CELL_EINVAL);
	ASSERT(strstr(err.msg, "'some' needs an image") && *err.hint);
}

/* ---- who it is ---- */

TEST(a_rootless_engine_is_the_owner_of_what_is_its_user_s)
{
	struct cell_spec spec = {.user = "somebody"};
	struct container_plan p = {.spec = &spec};
	struct cell_error err = {0};

	ASSERT_OK(container_choose_user(&p, true, &err));
	ASSERT_STR(p.user, "somebody");
	spec.user = NULL;
	ASSERT_OK(container_choose_user(&p, true, &err));
	ASSERT_STR(p.user, "65532:65532");
	spec.workspace = "/usr";
	ASSERT_OK(container_choose_user(&p, false, &err));
	ASSERT_STR(p.user, "0:0");
	scratch_make();
	spec.workspace = scratch;
	ASSERT_OK(container_choose_user(&p, true, &err));
	ASSERT_STR(p.user, "0:0");
	if (geteuid() != 0)
		SKIP("only root can give directories away");
	ASSERT_OK(chown(scratch, 12345, 12345));
	ASSERT(container_choose_user(&p, true, &err) < 0);
	ASSERT_EQ(err.code, CELL_EDENIED);
	ASSERT(strstr(err.msg, scratch) && *err.hint);
}

/* ---- what it takes to save it ---- */

TEST(what_would_fill_a_disk_is_not_saved)
{
	struct cell_error err = {0};

	ASSERT_OK(container_check_saved(1, "/", &err));
	ASSERT_OK(container_check_saved(UINT64_C(60) << 30, NULL, &err));
	ASSERT_OK(container_check_saved(UINT64_C(60) << 30, "/not/there", &err));
	ASSERT(container_check_saved(UINT64_C(65) << 30, NULL, &err) < 0);
	ASSERT_EQ(err.code, CELL_ELIMIT);
	ASSERT(strstr(err.msg, "65 GiB"));
	ASSERT_ERR(container_check_saved(UINT64_C(60) << 30, "/proc", &err),
		-ENOSPC); /* has none */
	ASSERT(strstr(err.msg, "61440 MiB"));
}

/* ---- an engine that is silent ---- */

TEST(silence_is_told_with_what_helps)
{
	const struct silence s = {"engine", "unix:/x", "start it", "be root"};
	struct cell_error err = {0};

	ASSERT_ERR(silence_explain(&s, cell_fail_errno(&err, ENOENT, "connect"), &err),
		-ECONNREFUSED);
	ASSERT(strstr(err.msg, "no engine answers at 'unix:/x'"));
	ASSERT_STR(err.hint, "start it");
	ASSERT_ERR(silence_explain(&s, cell_fail_errno(&err, EACCES, "connect"), &err), -EACCES);
	ASSERT_STR(err.hint, "be root");
	ASSERT_ERR(silence_explain(&s, cell_fail_errno(&err, EPROTO, "read"), &err), -EPROTO);
	ASSERT(strstr(err.msg, "read"));
	ASSERT_STR(err.hint, "start it");
}

/* ---- what is nobody's ---- */

static char removed[200];

static int remember(void *e, const char *name, struct cell_error *err)
{
	size_t at = strlen(removed);

	(void)err;
	ASSERT_STR(e, "open");
	(void)snprintf(removed + at, sizeof removed - at, "%s ", name);
	return 0;
}

static int open_it(const void *kind, const struct cell *c, void **ret, struct cell_error *err)
{
	static char connection[] = "open";

	(void)kind;
	(void)err;
	ASSERT(!c);
	*ret = connection;
	return 0;
}

static void close_it(void **e)
{
	*e = NULL;
	(void)snprintf(removed + strlen(removed), 20, "closed");
}

static void list(void *e, enum container_marked what, const char *state_id, container_marked_fn fn,
	void *user)
{
	ASSERT_STR(e, "open");
	ASSERT_STR(state_id, "here");
	if (what == CONTAINER_CONTAINERS) {
		fn(user, "known", "c1");
		fn(user, "gone", "c2");
		fn(user, NULL, "c3");
		fn(user, "", "c4");
		fn(user, "gone", NULL);
	} else {
		fn(user, NULL, CONTAINER_SNAPSHOTS ":saved");
		fn(user, NULL, CONTAINER_SNAPSHOTS ":lost");
		fn(user, NULL, "somebody/else:lost");
		fn(user, NULL, NULL);
	}
}

static bool is_known(const struct cell_sweep *s, const char *name, const char *key,
	const char *note)
{
	(void)s;
	ASSERT_STR(key, "container");
	return !strcmp(name, "known") && !strcmp(note, "c1");
}

static bool is_saved(const struct cell_sweep *s, const char *id)
{
	(void)s;
	return !strcmp(id, "saved");
}

TEST(only_what_has_our_mark_and_no_record_is_swept)
{
	static const struct container_engine calls = {.open = open_it,
		.close = close_it,
		.remove = remember,
		.remove_image = remember,
		.list = list};
	static const struct container_kind kind = {&calls};
	static const struct cell_backend backend = {.name = "some", .kind = &kind};
	const struct cell_sweep s = {.backend = &backend,
		.state_id = "here",
		.is_known = is_known,
		.is_saved = is_saved};

	ASSERT_EQ(container_sweep(&s, NULL), 1);
	ASSERT_STR(removed, "c2 " CONTAINER_SNAPSHOTS ":lost closed");
}
