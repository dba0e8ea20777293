/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fault.c: wraps any back end and makes its nth call fail, wait or kill this process, as CELL_FAULT says. For
 * trying what happens when a back end breaks; the calls it lets through reach the real one.
 *
 *	CELL_FAULT=create:2:ENOSPC,open_guest:1:delay=200ms,destroy:*:EIO,create:1:after=kill
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "core/backend.h"

enum slot {
	SLOT_CREATE,
	SLOT_OPEN_GUEST,
	SLOT_DESTROY,
	SLOT_IS_ALIVE,
	SLOT_DETACH,
	SLOT_SHELF,
	SLOT_PAUSE,
	SLOT_STATS,
	SLOT_SNAPSHOT,
	SLOT_FORGET,
	SLOT_COUNT
};
static const char *const slot_names[SLOT_COUNT] = {"create", "open_guest", "destroy", "is_alive",
	"detach", "shelf", "pause", "stats", "snapshot", "forget"};

static const struct {
	const char *name;
	int value;
} errnos[] = {
#define E(e)          \
	{             \
#e, e \
	}
	E(EPERM),
	E(ENOENT),
	E(EINTR),
	E(EIO),
	E(E2BIG),
	E(EAGAIN),
	E(ENOMEM),
	E(EACCES),
	E(EBUSY),
	E(EEXIST),
	E(EXDEV),
	E(ENOTDIR),
	E(EISDIR),
	E(EINVAL),
	E(ENFILE),
	E(EMFILE),
	E(EFBIG),
	E(ENOSPC),
	E(EROFS),
	E(EPIPE),
	E(ENAMETOOLONG),
	E(ENOSYS),
	E(ELOOP),
	E(EPROTO),
	E(EBADMSG),
	E(EOPNOTSUPP),
	E(ECONNRESET),
	E(ECONNREFUSED),
	E(ETIMEDOUT),
	E(EDQUOT),
#undef E
};

/* Calls of each slot in this process so far. */
static atomic_ulong calls[SLOT_COUNT];

struct rule {
	unsigned long nth; /* 0: every call */
	enum slot slot;
	int sys_errno;
	long delay_ms;
	bool is_kill;
	bool is_after; /* the real call comes first */
};

static bool is_word(const char *p, size_t len, const char *word)
{
	return strlen(word) == len && !strncmp(p, word, len);
}

static bool parse_action(const char *p, size_t len, struct rule *r)
{
	char *end;

	if (len > 6 && !strncmp(p, "after=", 6)) {
		r->is_after = true;
		p += 6;
		len -= 6;
	}
	if (is_word(p, len, "kill")) {
		r->is_kill = true;
		return true;
	}
	if (len > 6 && !strncmp(p, "delay=", 6)) {
		r->delay_ms = strtol(p + 6, &end, 10);
		size_t unit = len - (size_t)(end - p);
		if (is_word(end, unit, "s"))
			r->delay_ms *= 1000;
		else if (!is_word(end, unit, "ms"))
			return false;
		return end != p + 6 && r->delay_ms >= 0 && r->delay_ms <= 3600000;
	}
	for (size_t i = 0; i < sizeof errnos / sizeof *errnos; i++) {
		if (is_word(p, len, errnos[i].name)) {
			r->sys_errno = errnos[i].value;
			return true;
		}
	}
	return false;
}

static bool parse_rule(const char *p, size_t len, struct rule *r)
{
	const char *stop = p + len;
	const char *colon = memchr(p, ':', len);

	*r = (struct rule){.slot = SLOT_COUNT};
	for (int i = 0; colon && i < SLOT_COUNT; i++)
		if (is_word(p, (size_t)(colon - p), slot_names[i]))
			r->slot = (enum slot)i;
	if (r->slot == SLOT_COUNT)
		return false;
	p = colon + 1;
	colon = memchr(p, ':', (size_t)(stop - p));
	if (!colon)
		return false;
	if (!is_word(p, (size_t)(colon - p), "*")) {
		char *end;
		if (*p < '1' || *p > '9')
			return false;
		r->nth = strtoul(p, &end, 10);
		if (end != colon)
			return false;
	}
	return parse_action(colon + 1, (size_t)(stop - colon - 1), r);
}

static int act(const struct rule *r, unsigned long nth, struct cell_error *err)
{
	if (r->is_kill)
		(void)kill(getpid(), SIGKILL);
	if (r->delay_ms) {
		struct timespec left = {r->delay_ms / 1000, r->delay_ms % 1000 * 1000000};
		while (nanosleep(&left, &left) < 0 && errno == EINTR)
			;
	}
	if (!r->sys_errno)
		return 0;
	cell_fail_errno(err, r->sys_errno, "fault: call %lu of %s", nth, slot_names[r->slot]);
	return cell_error_hint(err, -r->sys_errno, "CELL_FAULT asked for it");
}

/* Goes through all rules, so that a slip in any of them fails the first call of a cell's life. Its end goes
 * on all the same: a slip must not leave cells behind. */
static int faults(enum slot slot, unsigned long nth, bool is_after, struct cell_error *err)
{
	const char *p = getenv("CELL_FAULT");

	while (p && *p) {
		size_t len = strcspn(p, ",");
		struct rule rule;

		if (!parse_rule(p, len, &rule) && slot > SLOT_OPEN_GUEST)
			return 0;
		if (!parse_rule(p, len, &rule)) {
			int r = cell_fail(err, CELL_EINVAL, 0, "CELL_FAULT: '%.*s' is no fault",
				(int)(len < 80 ? len : 80), p);
			return cell_error_hint(err, r,
				"slot:n:what, as in create:2:ENOSPC, open_guest:*:delay=200ms, "
				"destroy:1:kill; slots: create open_guest destroy is_alive detach "
				"shelf pause stats snapshot forget");
		}
		if (rule.slot == slot && rule.is_after == is_after &&
			(!rule.nth || rule.nth == nth)) {
			int r = act(&rule, nth, err);
			if (r < 0)
				return r;
		}
		p += len + (p[len] == ',');
	}
	return 0;
}

static unsigned long count(enum slot slot)
{
	return atomic_fetch_add(&calls[slot], 1) + 1;
}

static void fault_probe(struct cell_probe *p)
{
	(void)p;
}

static int fault_create(struct cell *c, const struct cell_spec *spec, struct cell_error *err)
{
	unsigned long nth = count(SLOT_CREATE);
	int r = faults(SLOT_CREATE, nth, false, err);

	if (!r)
		r = cell_next_create(c, spec, err);
	if (r < 0)
		return r;
	r = faults(SLOT_CREATE, nth, true, err);
	if (r < 0)
		(void)cell_next_destroy(c, NULL); /* a failed create leaves nothing */
	return r;
}

static int fault_open_guest(struct cell *c, struct cell_error *err)
{
	unsigned long nth = count(SLOT_OPEN_GUEST);
	int r = faults(SLOT_OPEN_GUEST, nth, false, err);
	int fd = r < 0 ? r : cell_next_open_guest(c, err);

	if (fd < 0)
		return fd;
	r = faults(SLOT_OPEN_GUEST, nth, true, err);
	if (r < 0)
		close(fd);
	return r < 0 ? r : fd;
}

static int fault_destroy(struct cell *c, struct cell_error *err)
{
	unsigned long nth = count(SLOT_DESTROY);
	int r = faults(SLOT_DESTROY, nth, false, err);

	if (!r)
		r = cell_next_destroy(c, err);
	return r < 0 ? r : faults(SLOT_DESTROY, nth, true, err);
}

/* A fault says "dead". */
static bool fault_is_alive(struct cell *c)
{
	unsigned long nth = count(SLOT_IS_ALIVE);

	return faults(SLOT_IS_ALIVE, nth, false, NULL) == 0 && cell_next_is_alive(c) &&
	       faults(SLOT_IS_ALIVE, nth, true, NULL) == 0;
}

static void fault_detach(struct cell *c)
{
	unsigned long nth = count(SLOT_DETACH);

	(void)faults(SLOT_DETACH, nth, false, NULL);
	cell_next_detach(c);
	(void)faults(SLOT_DETACH, nth, true, NULL);
}

/* The real call as it is, between the faults before and after it. */
#define WITH_FAULTS(slot, call, err)                                \
	({                                                          \
		unsigned long nth_ = count(slot);                   \
		int result_ = faults(slot, nth_, false, err);       \
		if (result_ == 0)                                   \
			result_ = (call);                           \
		if (result_ >= 0) {                                 \
			int after_ = faults(slot, nth_, true, err); \
			result_ = after_ < 0 ? after_ : result_;    \
		}                                                   \
		result_;                                            \
	})

static int fault_shelf(struct cell *c, const struct cell_spec *spec, unsigned n,
	struct cell_error *err)
{
	return WITH_FAULTS(SLOT_SHELF, cell_next_shelf(c, spec, n, err), err);
}

static int fault_pause(struct cell *c, bool is_on, struct cell_error *err)
{
	return WITH_FAULTS(SLOT_PAUSE, cell_next_pause(c, is_on, err), err);
}

static int fault_stats(struct cell *c, struct cell_stats *ret, struct cell_error *err)
{
	return WITH_FAULTS(SLOT_STATS, cell_next_stats(c, ret, err), err);
}

static int fault_snapshot(struct cell *c, const char *id, unsigned *ret_apart,
	struct cell_error *err)
{
	return WITH_FAULTS(SLOT_SNAPSHOT, cell_next_snapshot(c, id, ret_apart, err), err);
}

static int fault_forget(struct cell *c, const char *id, struct cell_error *err)
{
	return WITH_FAULTS(SLOT_FORGET, cell_next_forget(c, id, err), err);
}

const struct cell_backend cell_backend_fault = {
	.name = "fault",
	.summary = "wrapper: fails, delays or dies at the nth call of another back end",
	.wall = "That of the back end it wraps.",
	.caps = ~(cell_caps)0,
	.is_wrapper = true,
	.probe = fault_probe,
	.create = fault_create,
	.open_guest = fault_open_guest,
	.destroy = fault_destroy,
	.is_alive = fault_is_alive,
	.shelf = fault_shelf,
	.detach = fault_detach,
	.pause = fault_pause,
	.stats = fault_stats,
	.snapshot = fault_snapshot,
	.forget = fault_forget,
};
