/* SPDX-License-Identifier: Apache-2.0 */
/*
 * test_guest_storm.c: many clients at once, honest and hostile, do random things to one guest with real
 * commands. What must hold: the guest never crashes (sanitizers watch), every frame it sends is well formed,
 * bytes of known output are the right ones at the right offset, honest clients are never dropped, it still
 * answers afterwards, and when it has gone nothing is left running.
 *
 *	STORM_ROUNDS=N  how many guests to try (8)
 *	STORM_SEED=N    where to begin; printed when a round fails
 */
#include "guest_host.h"

#define MAX_CLIENTS 12
#define MAX_FLOWS   64
#define STEPS	    250

enum manners {
	HONEST, /* reads and acknowledges everything */
	LAZY,	/* acknowledges now and then */
	SILENT, /* reads, never acknowledges */
	DEAF,	/* does not read */
	N_MANNERS
};

/* What is known of a stream's stdout: the byte at offset o is pattern[o % 8]. */
struct flow {
	uint32_t stream;
	bool is_pattern;
	bool is_contiguous;
	bool is_exec;
	uint64_t total; /* bytes to come, when it is not disturbed; UINT64_MAX: not known */
	uint64_t next;	/* of stdout */
	uint64_t in;	/* sent to its stdin */
	uint64_t in_acked;
	bool has_stdin;
	bool is_echo;
};

struct player {
	struct client c;
	enum manners manners;
	bool is_evil; /* it has broken a rule: anything but a crash may happen to it */
	struct flow flows[MAX_FLOWS];
	size_t n_flows;
};

static const char pattern[] = "0123456\n";
static struct player players[MAX_CLIENTS];
static size_t n_players;
static struct host host;
static uint64_t state;
static unsigned n_commands;
static bool is_short_of_fds;
static uint32_t ending; /* 0 and 2 in peace, 1 by SIGKILL */

static uint32_t rnd(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 16) % below;
}

/* ---- what they do ---- */

static struct flow *add_flow(struct player *p, uint32_t stream)
{
	if (p->n_flows == MAX_FLOWS) { /* forget one: its frames are then only checked for form */
		p->flows[rnd(MAX_FLOWS)] = p->flows[MAX_FLOWS - 1];
		p->n_flows--;
	}
	struct flow *f = &p->flows[p->n_flows++];

	*f = (struct flow){.stream = stream, .total = UINT64_MAX};
	return f;
}

static struct flow *any_flow(struct player *p)
{
	return p->n_flows ? &p->flows[rnd((uint32_t)p->n_flows)] : NULL;
}

static void drop_player(size_t i)
{
	client_close(&players[i].c);
	players[i] = players[--n_players];
}

static void join(void)
{
	struct player *p = &players[n_players];

	if (n_players == MAX_CLIENTS || (host.only_fd >= 0 && n_players))
		return;
	memset(p, 0, sizeof *p);
	if (!client_open(&p->c, &host)) {
		client_close(&p->c);
		return;
	}
	p->manners = rnd(3) ? HONEST : (enum manners)rnd(N_MANNERS);
	p->c.keep = rnd(2) ? 1 : rnd(1u << 21);
	p->c.window = rnd(2) ? 0 : rnd(WIRE_MAX_WINDOW);
	n_players++;
}

static uint32_t some_size(void)
{
	static const uint32_t sizes[] = {0, 1, 7, 8, 4095, 4096, 16384, 65535, 65536, 65537, 131072,
		262143, 262144, 262145, 524288, 1u << 20, (1u << 20) + 4096, 5u << 20};

	return rnd(3) ? sizes[rnd(sizeof sizes / sizeof *sizes)] : rnd(3u << 20);
}

static void run_pattern(struct player *p)
{
	char script[128], id[32];
	uint32_t n = some_size();

	(void)snprintf(id, sizeof id, "p%u", n_commands++);
	(void)snprintf(script, sizeof script, "yes 0123456 | head -c %u", n);
	struct flow *f = add_flow(p, client_shell(&p->c, script, id, 0, 0));
	f->is_pattern = f->is_contiguous = f->is_exec = true;
	f->total = n;
}

static void run_echo(struct player *p)
{
	char id[32];

	(void)snprintf(id, sizeof id, "p%u", n_commands++);
	struct flow *f = add_flow(p, client_shell(&p->c, "exec cat", id, CELL_EXEC_STDIN, 0));
	f->is_pattern = f->is_contiguous = f->is_exec = f->has_stdin = f->is_echo = true;
}

static void run_other(struct player *p)
{
	static const char *const scripts[] = {
		"true",
		"exit 3",
		"echo out; echo err >&2",
		"yes & yes >&2 & sleep 0.1; kill %1 %2",
		"exec >&- 2>&-; sleep 0.1",
		"exec <&-; sleep 0.1; echo x",
		"sleep 60",
		"sleep 60 & echo left",
		"(setsid sleep 60 &)",
		"(setsid sh -c 'sleep 60; :' &) ; sleep 0.05; kill -9 $PPID",
		"kill -9 $PPID; sleep 60",
		"kill -TERM $PPID; sleep 60",
		"kill -STOP $$",
		"trap '' TERM INT HUP; sleep 60; :",
		"kill -9 0",
		"cat </proc/self/fd/1 >/dev/null & yes | head -c 300000; kill $!",
		"dd if=/dev/zero bs=65536 count=20 2>/dev/null",
		"for i in 1 2 3 4 5 6 7 8; do echo $i; echo $i >&2; done",
		"printf ''",
		"stty -a; cat",
		"nothing-of-this-name",
		"while :; do (sleep 0.01 &); done",
	};
	uint64_t flags = 0, timeout = 0;
	char id[32];

	(void)snprintf(id, sizeof id, "q%u", n_commands++);
	for (int bit = 0; bit < 4; bit++)
		flags |= rnd(4) == 0 ? UINT64_C(1) << bit : 0;
	if (rnd(8) == 0)
		flags |= WIRE_EXEC_QUIET;
	if (rnd(3) == 0)
		timeout = 1 + rnd(200);
	const char *script = scripts[rnd(sizeof scripts / sizeof *scripts)];
	/* who kills the keeper in the moment the guest is killed has no watcher left; only a back end with a
	 * wall around its processes can end that one */
	if (ending == 1 && strstr(script, "-9 $PPID"))
		script = "kill -TERM $PPID; sleep 60";
	if (strstr(script, "while :")) /* nobody else would end it */
		timeout = 1 + rnd(200);
	struct flow *f =
		add_flow(p, client_shell(&p->c, script, rnd(4) ? id : NULL, flags, timeout));
	f->has_stdin = flags & (CELL_EXEC_STDIN | CELL_EXEC_TTY);
}

static void attach(struct player *p)
{
	auto_buf struct buf b = BUF_INIT(1024);
	char id[32];
	bool is_pattern = rnd(2);
	uint64_t flags = rnd(8);

	(void)snprintf(id, sizeof id, "%c%u", is_pattern ? 'p' : 'q', rnd(n_commands + 1));
	(void)wire_put_str(&b, WIRE_T_ID, id);
	(void)wire_put_u64(&b, WIRE_T_FLAGS, flags);
	(void)wire_put_u64(&b, WIRE_T_OUT_OFFSET, rnd(2) ? 0 : some_size());
	(void)wire_put_u64(&b, WIRE_T_WINDOW, rnd(2) ? 0 : rnd(1u << 20));
	struct flow *f = add_flow(p, client_request(&p->c, WIRE_OP_ATTACH, &b));
	f->is_pattern = is_pattern && !(flags & 4);
}

static void signal_one(struct player *p)
{
	static const int signals[] = {0, SIGTERM, SIGKILL, SIGSTOP, SIGCONT, SIGHUP, 64, 200, -1};
	auto_buf struct buf b = BUF_INIT(1024);
	char id[32];

	(void)snprintf(id, sizeof id, "%c%u", rnd(4) ? 'q' : 'p', rnd(n_commands + 1));
	(void)wire_put_str(&b, WIRE_T_ID, id);
	(void)wire_put_u64(&b, WIRE_T_SIGNAL,
		(uint64_t)(int64_t)signals[rnd(sizeof signals / sizeof *signals)]);
	(void)wire_put_u64(&b, WIRE_T_TREE, rnd(2));
	(void)client_request(&p->c, WIRE_OP_SIGNAL, &b);
}

static void file_operation(struct player *p)
{
	static const uint16_t ops[] = {WIRE_OP_STAT, WIRE_OP_READ, WIRE_OP_WRITE, WIRE_OP_MKDIR,
		WIRE_OP_REMOVE, WIRE_OP_MOVE, WIRE_OP_LIST, WIRE_OP_GLOB, WIRE_OP_GREP,
		WIRE_OP_EDIT, WIRE_OP_TAR, WIRE_OP_UNTAR, WIRE_OP_WATCH, WIRE_OP_WATCH + 1, 0};
	static const char *const names[] = {".", "a", "b", "a/b", "../x", "f", "/etc/passwd"};
	auto_buf struct buf b = BUF_INIT(1024);
	uint16_t op = ops[rnd(sizeof ops / sizeof *ops)];

	(void)wire_put_str(&b, WIRE_T_PATH, names[rnd(sizeof names / sizeof *names)]);
	(void)wire_put_str(&b, WIRE_T_TARGET, names[rnd(sizeof names / sizeof *names)]);
	(void)wire_put_str(&b, WIRE_T_PATTERN, "*");
	(void)wire_put_str(&b, WIRE_T_OLD, "0");
	(void)wire_put_str(&b, WIRE_T_NEW, "1");
	(void)wire_put_u64(&b, WIRE_T_FLAGS, rnd(4));
	struct flow *f = add_flow(p, client_request(&p->c, op, &b));
	f->has_stdin = true;
}

/* Some of the pattern for a stream's stdin, within its window unless the player is evil. */
static void feed(struct player *p)
{
	static uint8_t block[WIRE_MAX_DATA];
	struct flow *f = any_flow(p);
	size_t n = 1 + rnd(rnd(2) ? 100 : 100000);

	if (!f || !f->has_stdin)
		return;
	if (n > WIRE_STDIN_WINDOW - (f->in - f->in_acked))
		n = (size_t)(WIRE_STDIN_WINDOW - (f->in - f->in_acked));
	for (size_t i = 0; i < n; i++)
		block[i] = (uint8_t)pattern[(f->in + i) % 8];
	(void)client_send_u64(&p->c, WIRE_DATA, WIRE_CHAN_IN, f->stream, f->in, block, n);
	f->in += n;
}

static void end_stdin(struct player *p)
{
	struct flow *f = any_flow(p);

	if (!f || !f->has_stdin)
		return;
	(void)client_send_u64(&p->c, WIRE_EOF, WIRE_CHAN_IN, f->stream, f->in, NULL, 0);
	f->has_stdin = false;
	if (f->is_echo)
		f->total = f->in;
}

static void cancel(struct player *p)
{
	struct flow *f = any_flow(p);

	if (!f)
		return;
	(void)client_send(&p->c, WIRE_CANCEL, 0, f->stream, NULL, 0, NULL, 0);
	*f = p->flows[--p->n_flows];
}

static void control(struct player *p)
{
	auto_buf struct buf b = BUF_INIT(256);
	const struct flow *f = any_flow(p);
	uint8_t head[2];

	if (!f)
		return;
	wire_u16_put(head, (uint16_t)(WIRE_CTL_RESIZE + rnd(2)));
	(void)wire_put_u64(&b, WIRE_T_ROWS, rnd(70000));
	(void)wire_put_u64(&b, WIRE_T_COLS, rnd(70000));
	(void)client_send(&p->c, WIRE_CONTROL, 0, f->stream, head, 2, b.data, b.len);
}

static void misbehave(struct player *p)
{
	const struct flow *f = any_flow(p);
	uint32_t stream = f ? f->stream : 1;
	uint8_t junk[64];

	p->is_evil = true;
	for (size_t i = 0; i < sizeof junk; i++)
		junk[i] = (uint8_t)rnd(256);
	switch (rnd(8)) {
	case 0:
		(void)client_send_raw(&p->c, junk, sizeof junk);
		break;
	case 1: /* acknowledges what never came */
		(void)client_send_u64(&p->c, WIRE_ACK, WIRE_CHAN_OUT, stream, UINT64_MAX, NULL, 0);
		break;
	case 2: /* leaves a gap */
		(void)client_send_u64(&p->c, WIRE_DATA, WIRE_CHAN_IN, stream, 1u << 30, junk, 8);
		break;
	case 3: /* opens a stream twice */
		p->c.last_stream = stream - 1;
		(void)client_request(&p->c, WIRE_OP_PS, NULL);
		break;
	case 4:
		(void)client_send(&p->c, WIRE_END, 0, stream, junk, 8, NULL, 0);
		break;
	case 5: /* fields that are none */
		(void)client_send(&p->c, WIRE_REQUEST, 0, ++p->c.last_stream, junk, sizeof junk,
			NULL, 0);
		break;
	case 6: /* half a frame, and then nothing */
		(void)client_send_raw(&p->c, "\020\0\0\0\002\0", 6);
		break;
	default:
		for (uint32_t i = 0; i < WIRE_MAX_STREAMS + 10; i++) {
			if (!client_send_u64(&p->c, WIRE_ACK, WIRE_CHAN_OUT, ++p->c.last_stream, 0,
				    NULL, 0))
				break;
		}
	}
}

static void act(size_t i)
{
	struct player *p = &players[i];
	uint32_t what = rnd(100);

	if (what < 12)
		run_pattern(p);
	else if (what < 20)
		run_echo(p);
	else if (what < 34)
		run_other(p);
	else if (what < 44)
		attach(p);
	else if (what < 50)
		signal_one(p);
	else if (what < 60)
		file_operation(p);
	else if (what < 76)
		feed(p);
	else if (what < 82)
		end_stdin(p);
	else if (what < 90)
		cancel(p);
	else if (what < 92)
		control(p);
	else if (what < 94)
		(void)client_request(&p->c, rnd(2) ? WIRE_OP_PS : WIRE_OP_INFO, NULL);
	else if (what < 96 && host.only_fd < 0)
		misbehave(p);
	else if (what < 98 && host.only_fd < 0)
		drop_player(i);
	else
		(void)client_send(&p->c, WIRE_PING, 0, 0, "12345678", 8, NULL, 0);
}

/* ---- what comes back ---- */

static struct flow *find_flow(struct player *p, uint32_t stream)
{
	for (size_t i = 0; i < p->n_flows; i++) {
		if (p->flows[i].stream == stream)
			return &p->flows[i];
	}
	return NULL;
}

static void check_data(struct player *p, struct flow *f, const struct wire_header *h,
	const uint8_t *data)
{
	uint64_t offset = wire_u64_get(data);
	size_t n = h->len - 8;

	if (h->chan == WIRE_CHAN_OUT && f->is_pattern) {
		for (size_t i = 0; i < n; i++)
			CHECK_(data[8 + i] == (uint8_t)pattern[(offset + i) % 8],
				"wrong byte at %llu", (unsigned long long)(offset + i));
		if (f->is_contiguous)
			ASSERT_EQ(offset, f->next);
	}
	if (h->chan == WIRE_CHAN_OUT)
		f->next = offset + n;
	if (p->manners == HONEST || (p->manners == LAZY && rnd(3) == 0))
		(void)client_send_u64(&p->c, WIRE_ACK, h->chan, h->stream, offset + n, NULL, 0);
}

static void check_end(struct player *p, struct flow *f, const struct wire_header *h,
	const uint8_t *data)
{
	uint64_t code = wire_find_u64(data, h->len, WIRE_T_CODE, UINT64_MAX);

	ASSERT(code != UINT64_MAX);
	if (f->is_exec && code == CELL_OK &&
		wire_find_u64(data, h->len, WIRE_T_EXIT_CODE, 1) == 0) {
		ASSERT_EQ(wire_find_u64(data, h->len, WIRE_T_OUT_OFFSET, 0), f->next);
		if (f->total != UINT64_MAX)
			ASSERT_EQ(f->next, f->total);
	}
	*f = p->flows[--p->n_flows];
}

/* False when it is gone. */
static bool listen_to(struct player *p)
{
	struct wire_header h;
	const uint8_t *data;
	int r = 0;

	if (p->manners == DEAF)
		return true;
	for (int i = 0; i < 50 && (r = client_next(&p->c, 0, &h, &data)) > 0; i++) {
		struct flow *f = h.stream ? find_flow(p, h.stream) : NULL;

		if (h.type == WIRE_GOAWAY) {
			auto_free char *why = wire_find_str(data, h.len, WIRE_T_MESSAGE, 300);

			CHECK_(p->is_evil || is_short_of_fds, "sent away: %s", why ? why : "");
			return false;
		}
		if (f && h.type == WIRE_DATA)
			check_data(p, f, &h, data);
		else if (f && h.type == WIRE_END)
			check_end(p, f, &h, data);
		else if (f && h.type == WIRE_ACK)
			f->in_acked = wire_u64_get(data);
	}
	if (r < 0)
		CHECK_(p->is_evil || is_short_of_fds, "an honest client was dropped");
	return r >= 0;
}

static void listen_to_all(void)
{
	for (size_t i = n_players; i-- > 0;) {
		if (!listen_to(&players[i]))
			drop_player(i);
	}
}

/* ---- rounds ---- */

static void still_answers(void)
{
	struct client c;
	auto_answer struct answer a;

	if (!client_open(&c, &host))
		CHECK_(false, "the guest takes no clients any more");
	bool is_answered = client_finish(&c, client_request(&c, WIRE_OP_INFO, NULL), &a);
	CHECK_(is_answered || is_short_of_fds, "the guest does not answer any more");
	client_close(&c);
}

static void end_round(void)
{
	int want = 0;

	if (host.only_fd >= 0 && ending == 0) {
		if (!n_players)
			close(host.only_fd);
	} else if (ending < 2) {
		want = ending ? SIGKILL : 0;
		ASSERT(kill(host.pid, ending ? SIGKILL : SIGTERM) == 0);
	} else {
		ASSERT(kill(host.pid, SIGTERM) == 0);
	}
	if (want == SIGKILL || host.only_fd >= 0) {
		while (n_players)
			drop_player(n_players - 1);
	}
	int status = host_wait(&host);
	CHECK_(status == want, "the guest ended with status %d, not %d", status, want);
	while (n_players)
		drop_player(n_players - 1);
}

static void one_round(void)
{
	bool is_listening = rnd(3) != 0;

	is_short_of_fds = is_listening && rnd(5) == 0;
	host = (struct host){.nofile = is_short_of_fds ? 40 + rnd(60) : 0};
	n_players = n_commands = 0;
	ending = rnd(3);
	host_start(&host, is_listening);
	for (int step = 0; step < STEPS; step++) {
		if (!n_players || rnd(10) == 0)
			join();
		if (n_players)
			act(rnd((uint32_t)n_players));
		listen_to_all();
		if (rnd(4) == 0)
			(void)usleep(rnd(3000));
		int status;
		CHECK_(waitpid(host.pid, &status, WNOHANG) == 0, "the guest died: status %d",
			status);
	}
	if (is_listening)
		still_answers();
	end_round();
}

TEST_SLOW(a_storm_of_clients_does_not_harm_the_guest, 3600)
{
	const char *rounds = getenv("STORM_ROUNDS"), *seed = getenv("STORM_SEED");
	uint64_t first = seed ? strtoull(seed, NULL, 10) : host_now_ms();
	unsigned long n = rounds ? strtoul(rounds, NULL, 10) : 8;

	for (unsigned long i = 0; i < n; i++) {
		state = (first + i) * UINT64_C(0x9e3779b97f4a7c15) + 1;
		(void)fprintf(stderr, "STORM_SEED=%llu\n", (unsigned long long)(first + i));
		one_round();
	}
}
