/* SPDX-License-Identifier: Apache-2.0 */
/* cpus.c: see cpus.h. The file is an array of slot numbers, each one more than it is (0: free), so that
 * no crash can leave half an entry; it is changed under its own flock. */
#include "launcher/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "launcher/launcher.h"

#define NAME "cpus"

void cpus_add(struct cpus *c, unsigned cpu)
{
	if (cpu < CPUS_MAX)
		c->bits[cpu / 64] |= UINT64_C(1) << cpu % 64;
}

bool cpus_has(const struct cpus *c, unsigned cpu)
{
	return cpu < CPUS_MAX && (c->bits[cpu / 64] & UINT64_C(1) << cpu % 64);
}

unsigned cpus_count(const struct cpus *c)
{
	unsigned n = 0;

	for (size_t i = 0; i < CPUS_MAX / 64; i++)
		n += (unsigned)__builtin_popcountll(c->bits[i]);
	return n;
}

bool cpus_is_empty(const struct cpus *c)
{
	return cpus_count(c) == 0;
}

void cpus_parse(const char *text, struct cpus *ret)
{
	memset(ret, 0, sizeof *ret);
	for (const char *p = text; *p >= '0' && *p <= '9';) {
		char *end;
		unsigned long first = strtoul(p, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (last >= CPUS_MAX || last < first)
			return;
		for (unsigned long cpu = first; cpu <= last; cpu++)
			cpus_add(ret, (unsigned)cpu);
		if (*end != ',')
			return;
		p = end + 1;
	}
}

void cpus_format(const struct cpus *c, char *ret, size_t size)
{
	size_t n = 0;

	ret[0] = '\0';
	for (unsigned cpu = 0; cpu < CPUS_MAX; cpu++) {
		unsigned last = cpu;

		if (!cpus_has(c, cpu))
			continue;
		while (cpus_has(c, last + 1))
			last++;
		int len = snprintf(ret + n, size - n, last > cpu ? "%s%u-%u" : "%s%u", n ? "," : "",
			cpu, last);
		if (len < 0 || (size_t)len >= size - n)
			return;
		n += (size_t)len;
		cpu = last;
	}
}

/* The file, locked; -1 with errno, ENOENT when nobody ever had a CPU. */
static int open_claims(bool is_made, uint32_t claims[CPUS_MAX])
{
	auto_fd int fd =
		host.slots_fd < 0
			? -1
			: openat(host.slots_fd, NAME,
				  O_RDWR | O_CLOEXEC | O_NOFOLLOW | (is_made ? O_CREAT : 0), 0600);

	memset(claims, 0, CPUS_MAX * sizeof *claims);
	if (fd < 0)
		return -1;
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return -1;
	if (pread(fd, claims, CPUS_MAX * sizeof *claims, 0) < 0)
		return -1;
	return steal_fd(fd);
}

static void set_claim(int fd, uint32_t claims[CPUS_MAX], unsigned cpu, uint32_t value)
{
	claims[cpu] = value;
	(void)!pwrite(fd, &value, sizeof value, (off_t)(cpu * sizeof value));
}

/* With the file locked. */
static bool forget_dead(int fd, uint32_t claims[CPUS_MAX])
{
	bool had = false;

	for (unsigned cpu = 0; cpu < CPUS_MAX; cpu++)
		if (claims[cpu] && !slot_is_alive(claims[cpu] - 1)) {
			set_claim(fd, claims, cpu, 0);
			had = true;
		}
	return had;
}

int cpus_claim(const struct cpus *all, unsigned n, uint32_t slot, struct cpus *ret,
	struct failure *f)
{
	uint32_t claims[CPUS_MAX];
	unsigned n_free = 0;
	auto_fd int fd = open_claims(true, claims);

	memset(ret, 0, sizeof *ret);
	if (fd < 0)
		return fail(f, LAUNCHER_STEP_CPUS, "open the list of", "CPUs");
	(void)forget_dead(fd, claims);
	for (unsigned cpu = 0; cpu < CPUS_MAX; cpu++)
		n_free += cpus_has(all, cpu) && !claims[cpu];
	if (n_free < n + 1)
		return fail_with(f, LAUNCHER_STEP_CPUS, EAGAIN,
			"too few are free: one is left to all others", NULL);
	/* the last ones: the host's own interrupts and daemons prefer the first */
	for (unsigned cpu = CPUS_MAX; n && cpu-- > 0;) {
		if (!cpus_has(all, cpu) || claims[cpu])
			continue;
		set_claim(fd, claims, cpu, slot + 1);
		cpus_add(ret, cpu);
		n--;
	}
	return 0;
}

bool cpus_release(uint32_t slot)
{
	uint32_t claims[CPUS_MAX];
	bool had = false;
	auto_fd int fd = open_claims(false, claims);

	for (unsigned cpu = 0; fd >= 0 && cpu < CPUS_MAX; cpu++)
		if (claims[cpu] == slot + 1) {
			set_claim(fd, claims, cpu, 0);
			had = true;
		}
	return had;
}

bool cpus_sweep(void)
{
	uint32_t claims[CPUS_MAX];
	auto_fd int fd = open_claims(false, claims);

	return fd >= 0 && forget_dead(fd, claims);
}

bool cpus_left(const struct cpus *all, struct cpus *ret)
{
	uint32_t claims[CPUS_MAX];
	bool is_any = false;
	auto_fd int fd = open_claims(false, claims);

	*ret = *all;
	for (unsigned cpu = 0; fd >= 0 && cpu < CPUS_MAX; cpu++)
		if (claims[cpu] && cpus_has(ret, cpu)) {
			ret->bits[cpu / 64] &= ~(UINT64_C(1) << cpu % 64);
			is_any = true;
		}
	return is_any;
}

bool cpus_is_claimed_by(uint32_t slot)
{
	uint32_t claims[CPUS_MAX];
	auto_fd int fd = open_claims(false, claims);

	for (unsigned cpu = 0; fd >= 0 && cpu < CPUS_MAX; cpu++)
		if (claims[cpu] == slot + 1)
			return true;
	return false;
}

bool cpus_is_any_claimed(void)
{
	uint32_t claims[CPUS_MAX];
	auto_fd int fd = open_claims(false, claims);

	for (unsigned cpu = 0; fd >= 0 && cpu < CPUS_MAX; cpu++)
		if (claims[cpu])
			return true;
	return false;
}
