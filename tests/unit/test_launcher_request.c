/* SPDX-License-Identifier: Apache-2.0 */
#include "launcher/request.h"
#include "test.h"

static char buf[LAUNCHER_MAX_REQUEST + 16];
static int fds[LAUNCHER_MAX_FDS];
static size_t n_fds, len;

/* A request with everything in it, packed into buf and fds. */
static void pack_full(void)
{
	struct launcher_request rq = {.head = {.op = LAUNCHER_CREATE,
					      .flags = LAUNCHER_KEEP | LAUNCHER_WORKSPACE_RO,
					      .memory_bytes = 1 << 26,
					      .pids = 64,
					      .cpu_millis = 500},
		.texts = {"cell-guest:x:1.2", "host-1", "strict"},
		.control_fd = 10,
		.stream_fd = 11,
		.guest_fd = 12,
		.hold_fd = 13,
		.workspace_fd = 14,
		.filter_fd = -1,
		.scratch_fd = 15,
		.slots_fd = -1,
		.mounts = {{.fd = 20, .is_read_only = true, .target = "/data"},
			{.fd = 21, .target = "/opt/more/of it"}},
		.n_mounts = 2,
		.layers = {30, 31, 32},
		.n_layers = 3};

	len = (size_t)ASSERT_OK(launcher_pack(&rq, buf, fds, &n_fds));
}

static int parse(const char **why)
{
	static struct launcher_request rq;

	*why = "";
	return launcher_parse(buf, len, fds, n_fds, &rq, why);
}

static struct launcher_head *head(void)
{
	return (struct launcher_head *)(void *)buf;
}

TEST(what_is_packed_is_parsed)
{
	struct launcher_request rq;
	const char *why = "";

	pack_full();
	ASSERT_OK(launcher_parse(buf, len, fds, n_fds, &rq, &why));
	ASSERT_EQ(rq.control_fd, 10);
	ASSERT_EQ(rq.stream_fd, 11);
	ASSERT_EQ(rq.guest_fd, 12);
	ASSERT_EQ(rq.hold_fd, 13);
	ASSERT_EQ(rq.workspace_fd, 14);
	ASSERT_EQ(rq.filter_fd, -1);
	ASSERT_EQ(rq.scratch_fd, 15);
	ASSERT_EQ(rq.n_layers, 3);
	ASSERT_EQ(rq.layers[2], 32);
	ASSERT_EQ(rq.n_mounts, 2);
	ASSERT_EQ(rq.mounts[0].fd, 20);
	ASSERT(rq.mounts[0].is_read_only && !rq.mounts[1].is_read_only);
	ASSERT_STR(rq.mounts[1].target, "/opt/more/of it");
	ASSERT_STR(rq.texts[LAUNCHER_TEXT_TITLE], "cell-guest:x:1.2");
	ASSERT_STR(rq.texts[LAUNCHER_TEXT_HOSTNAME], "host-1");
	ASSERT_EQ(rq.head.memory_bytes, 1 << 26);
}

TEST(a_cut_message_is_refused_at_every_length)
{
	const char *why;

	pack_full();
	size_t whole = len;
	for (len = 0; len < whole; len++)
		ASSERT_ERR(parse(&why), -EPROTO);
	/* and when it says so itself */
	for (size_t cut = sizeof(struct launcher_head); cut < whole; cut++) {
		pack_full();
		head()->size = (uint32_t)cut;
		len = cut;
		ASSERT_ERR(parse(&why), -EPROTO);
	}
	pack_full();
	ASSERT_OK(parse(&why));
}

TEST(bytes_behind_the_end_are_refused)
{
	const char *why;

	pack_full();
	len += 3;
	head()->size += 3;
	ASSERT_ERR(parse(&why), -EPROTO);
	ASSERT_STR(why, "bytes behind the end");
}

#define REFUSED(change)                            \
	do {                                       \
		const char *why_;                  \
		pack_full();                       \
		change;                            \
		ASSERT_ERR(parse(&why_), -EPROTO); \
		ASSERT(*why_);                     \
	} while (0)

TEST(a_head_that_breaks_a_rule_is_refused)
{
	REFUSED(head()->magic++);
	REFUSED(head()->version++);
	REFUSED(head()->size++);
	REFUSED(head()->op = 0);
	REFUSED(head()->op = LAUNCHER_OP_COUNT);
	REFUSED(head()->op = LAUNCHER_HELLO); /* with mounts and flags */
	REFUSED(head()->n_fds++);
	REFUSED(head()->n_fds--);
	REFUSED(head()->n_mounts = 3);
	REFUSED(head()->n_mounts = LAUNCHER_MAX_MOUNTS + 1);
	REFUSED(head()->n_mounts = UINT16_MAX);
	REFUSED(head()->n_texts++);
	REFUSED(head()->flags |= 1u << 31);
	REFUSED(head()->reserved = 1);
	REFUSED(head()->n_rules = 1);
	REFUSED(head()->n_layers = 4);
	REFUSED(head()->n_layers = LAUNCHER_MAX_LAYERS + 1);
	REFUSED(head()->slot = LAUNCHER_MAX_SLOTS);
	REFUSED(head()->owner_uid = UINT32_MAX);
	REFUSED(head()->memory_bytes = UINT64_MAX);
	REFUSED(head()->cpu_millis = UINT32_MAX);
	REFUSED(head()->pids = UINT32_MAX);
	REFUSED(head()->io_weight = 10001);
	REFUSED(head()->cpu_weight = 10001);
	REFUSED(head()->reserve_bytes = UINT64_MAX);
	REFUSED((head()->flags &= ~(uint32_t)LAUNCHER_DEDICATED, head()->n_cpus = 1));
	REFUSED((head()->flags |= LAUNCHER_DEDICATED, head()->n_cpus = 0));
	REFUSED((head()->flags |= LAUNCHER_DEDICATED, head()->n_cpus = 1025));
}

static int pack_rule(struct launcher_rule r, uint32_t flags, const char *resolv)
{
	struct launcher_request rq = LAUNCHER_REQUEST_INIT(LAUNCHER_CREATE);
	const char *why;

	rq.head.flags = flags;
	rq.texts[LAUNCHER_TEXT_RESOLV] = resolv;
	rq.control_fd = 10;
	rq.stream_fd = 11;
	rq.guest_fd = 12;
	rq.rules[0] = r;
	rq.n_rules = r.family ? 1 : 0;
	len = (size_t)ASSERT_OK(launcher_pack(&rq, buf, fds, &n_fds));
	return parse(&why);
}

#define NAMED4(bits, ...)                    \
	((struct launcher_rule){.family = 4, \
		.kind = LAUNCHER_RULE_NAMED, \
		.prefix = (bits),            \
		.addr = {__VA_ARGS__}})
#define NAMED6(bits, ...)                    \
	((struct launcher_rule){.family = 6, \
		.kind = LAUNCHER_RULE_NAMED, \
		.prefix = (bits),            \
		.addr = {__VA_ARGS__}})

TEST(private_destinations_may_be_named)
{
	ASSERT_OK(pack_rule(NAMED4(24, 10, 1, 2), LAUNCHER_NET_OPEN, "nameserver 10.1.2.3\n"));
	ASSERT_OK(pack_rule(NAMED4(32, 169, 254, 169, 254), LAUNCHER_NET_OPEN, ""));
	ASSERT_OK(pack_rule(NAMED6(8, 0xfd), LAUNCHER_NET_OPEN, ""));
	ASSERT_OK(pack_rule((struct launcher_rule){.family = 4,
				    .kind = LAUNCHER_RULE_OWN,
				    .prefix = 32,
				    .addr = {127, 0, 0, 1}},
		LAUNCHER_NET_OPEN, ""));
	/* not without a network */
	ASSERT_ERR(pack_rule(NAMED4(24, 10, 1, 2), 0, ""), -EPROTO);
	ASSERT_ERR(pack_rule((struct launcher_rule){0}, 0, "nameserver 10.1.2.3\n"), -EPROTO);
}

TEST(the_hosts_loopback_can_be_named_in_no_way)
{
	const struct launcher_rule never[] = {NAMED4(32, 127, 0, 0, 1), NAMED4(8, 127),
		NAMED4(0, 0), NAMED4(1, 0), NAMED4(32, 0), NAMED4(2, 64), NAMED4(16, 169, 254),
		NAMED4(8, 169), NAMED4(31, 169, 254, 169, 254), NAMED4(4, 224),
		NAMED4(32, 255, 255, 255, 255), NAMED6(128, [15] = 1), NAMED6(128, 0), NAMED6(0, 0),
		NAMED6(1, 0), NAMED6(128, [10] = 0xff, 0xff, 127, 0, 0, 1),
		NAMED6(96, [10] = 0xff, 0xff), NAMED6(10, 0xfe, 0x80), NAMED6(8, 0xff),
		NAMED6(7, 0xfe)};

	for (size_t i = 0; i < sizeof never / sizeof *never; i++)
		CHECK_(pack_rule(never[i], LAUNCHER_NET_OPEN, "") == -EPROTO, "%zu is taken", i);
}

TEST(a_rule_that_is_malformed_is_refused)
{
	struct launcher_rule r = NAMED4(24, 10, 1, 2);

	r.prefix = 33;
	ASSERT_ERR(pack_rule(r, LAUNCHER_NET_OPEN, ""), -EPROTO);
	r = NAMED4(24, 10, 1, 2, 3);
	ASSERT_ERR(pack_rule(r, LAUNCHER_NET_OPEN, ""), -EPROTO);
	r = NAMED4(24, 10, 1, 2);
	r.family = 5;
	ASSERT_ERR(pack_rule(r, LAUNCHER_NET_OPEN, ""), -EPROTO);
	r = NAMED4(24, 10, 1, 2);
	r.kind = 3;
	ASSERT_ERR(pack_rule(r, LAUNCHER_NET_OPEN, ""), -EPROTO);
	r = NAMED4(24, 10, 1, 2);
	r.reserved2 = 1;
	ASSERT_ERR(pack_rule(r, LAUNCHER_NET_OPEN, ""), -EPROTO);
	r = NAMED4(24, 10, 1, 2);
	r.addr[15] = 1;
	ASSERT_ERR(pack_rule(r, LAUNCHER_NET_OPEN, ""), -EPROTO);
}

static int pack_held(uint16_t op, int hold_fd, int workspace_fd)
{
	struct launcher_request rq = LAUNCHER_REQUEST_INIT(op);
	const char *why;

	rq.control_fd = 10;
	rq.hold_fd = hold_fd;
	rq.workspace_fd = workspace_fd;
	len = (size_t)ASSERT_OK(launcher_pack(&rq, buf, fds, &n_fds));
	return parse(&why);
}

TEST(a_lock_comes_with_a_pause_and_with_no_other_question)
{
	ASSERT_OK(pack_held(LAUNCHER_FREEZE, 11, -1));
	ASSERT_OK(pack_held(LAUNCHER_THAW, 11, -1));
	ASSERT_OK(pack_held(LAUNCHER_RELEASE, 11, -1));
	ASSERT_OK(pack_held(LAUNCHER_FREEZE, -1, -1));
	ASSERT_OK(pack_held(LAUNCHER_PRUNE, -1, -1));
	ASSERT_ERR(pack_held(LAUNCHER_FREEZE, -1, 11), -EPROTO);
	ASSERT_ERR(pack_held(LAUNCHER_FREEZE, 11, 12), -EPROTO);
	ASSERT_ERR(pack_held(LAUNCHER_PRUNE, 11, -1), -EPROTO);
	ASSERT_ERR(pack_held(LAUNCHER_REMOVE, 11, -1), -EPROTO);
}

TEST(an_fd_is_named_exactly_once)
{
	REFUSED(head()->control_fd = LAUNCHER_NO_FD);
	REFUSED(head()->guest_fd = LAUNCHER_NO_FD);
	REFUSED(head()->workspace_fd = LAUNCHER_NO_FD);	 /* came, but nothing names it */
	REFUSED(head()->workspace_fd = head()->hold_fd); /* twice */
	REFUSED(head()->workspace_fd = head()->n_fds);	 /* did not come */
	REFUSED(head()->filter_fd = head()->control_fd);
	REFUSED(head()->slots_fd = 0);
}

TEST(texts_with_a_nul_or_an_odd_character_are_refused)
{
	pack_full();
	char *title = memmem(buf, len, "cell-guest:x", 12);
	ASSERT(title);
	size_t at = (size_t)(title - buf);
	REFUSED(buf[at + 3] = '\0');
	REFUSED(buf[at + 3] = '\n');
	REFUSED(buf[at + 16] = 'x'); /* its NUL */
	REFUSED(memcpy(memmem(buf, len, "host-1", 6), "host/1", 6));
	REFUSED(memcpy(memmem(buf, len, "strict", 6), "../etc", 6));
}

TEST(a_target_that_is_not_clean_is_refused)
{
	REFUSED(memcpy(memmem(buf, len, "/data", 5), "/../a", 5));
	REFUSED(memcpy(memmem(buf, len, "/data", 5), "//ata", 5));
	REFUSED(memcpy(memmem(buf, len, "/data", 5), "/dat/", 5));
	REFUSED(memcpy(memmem(buf, len, "/data", 5), "xdata", 5));
	REFUSED(memcpy(memmem(buf, len, "/data", 5), "/da\na", 5));
}

TEST(clean_paths_are_told_from_others)
{
	static const char *const clean[] = {"/a", "/a/b", "/...", "/.a", "/a b/c", "/\xc3\xa9"};
	static const char *const not [] = {"", "/", "a", "/a/", "//a", "/a//b", "/.", "/..",
		"/a/..", "/a/./b", "/a/../b", "/a\x01", "/\x7f"};
	char longest[300];

	for (size_t i = 0; i < sizeof clean / sizeof *clean; i++)
		ASSERT(launcher_is_clean_path(clean[i]));
	for (size_t i = 0; i < sizeof not / sizeof *not ; i++)
		ASSERT(!launcher_is_clean_path(not [i]));
	memset(longest, 'x', sizeof longest);
	longest[0] = '/';
	longest[256] = '\0';
	ASSERT(launcher_is_clean_path(longest));
	longest[256] = 'x';
	longest[257] = '\0';
	ASSERT(!launcher_is_clean_path(longest));
}

TEST(too_much_to_pack_is_said)
{
	static char text[LAUNCHER_MAX_TEXT + 2];
	struct launcher_request rq = {
		.head.op = LAUNCHER_CREATE, .control_fd = 3, .stream_fd = 4, .guest_fd = 5};

	rq.hold_fd = rq.workspace_fd = rq.filter_fd = rq.scratch_fd = rq.slots_fd = -1;
	memset(text, 'a', sizeof text - 1);
	rq.texts[LAUNCHER_TEXT_TITLE] = text;
	ASSERT_ERR(launcher_pack(&rq, buf, fds, &n_fds), -E2BIG);
	rq.texts[LAUNCHER_TEXT_TITLE] = NULL;
	ASSERT_OK(launcher_pack(&rq, buf, fds, &n_fds));
	rq.n_mounts = LAUNCHER_MAX_MOUNTS + 1;
	ASSERT_ERR(launcher_pack(&rq, buf, fds, &n_fds), -E2BIG);
	rq.n_mounts = 1;
	rq.mounts[0] = (struct launcher_mount){.fd = 7, .target = "/../x"};
	ASSERT_ERR(launcher_pack(&rq, buf, fds, &n_fds), -EINVAL);
}

TEST(every_step_has_words)
{
	for (unsigned i = 0; i < LAUNCHER_STEP_COUNT; i++)
		ASSERT(launcher_step_words(i)[0]);
	ASSERT(launcher_step_words(LAUNCHER_STEP_COUNT)[0]);
}

/* A request for cells made ahead, packed into buf and fds. */
static void pack_fill(const char *warm, int stream_fd, uint32_t flags)
{
	struct launcher_request rq = LAUNCHER_REQUEST_INIT(LAUNCHER_CREATE);

	rq.head.flags = flags;
	rq.head.slot = 3;
	rq.texts[LAUNCHER_TEXT_WARM] = warm;
	rq.control_fd = 10;
	rq.stream_fd = stream_fd;
	rq.guest_fd = 12;
	len = (size_t)ASSERT_OK(launcher_pack(&rq, buf, fds, &n_fds));
}

TEST(cells_made_ahead_need_no_stream)
{
	const char *why;

	pack_fill("python=json,decimal;shell", -1, LAUNCHER_FILL);
	ASSERT_OK(parse(&why));
	pack_fill("python", -1, 0);
	ASSERT(parse(&why) < 0);
	ASSERT_STR(why, "no stream or no guest");
	pack_fill("python\n", 11, 0);
	ASSERT(parse(&why) < 0);
	ASSERT_STR(why, "list of interpreters is not plain text");
}
