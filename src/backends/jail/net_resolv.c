/* SPDX-License-Identifier: Apache-2.0 */
/*
 * net_resolv.c: whom an open cell asks for names. The host's resolvers, where a cell can reach them: a
 * private one (the router at home, the provider's) is opened for port 53 and nothing else. A resolver
 * on the host itself (127.0.0.53) it cannot reach; then it asks whom systemd-resolved asks, or pasta
 * passes its queries on.
 *
 * Names are a channel: whoever resolves may learn what is asked for, and answer. With an open network
 * that is no news.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backends/jail/net.h"
#include "base/cleanup.h"
#include "core/destination.h"

#define RESOLVERS_MAX 3 /* more are not asked by anybody (resolv.conf(5)) */
#define FILE_MAX      16384

struct choice {
	size_t n;
	bool is_own; /* there were some, all on the host itself */
	char search[256], options[256];
};

static int read_text(const char *path, char *ret, size_t size)
{
	auto_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : read(fd, ret, size - 1);

	ret[n > 0 ? n : 0] = '\0';
	return n < 0 ? -1 : 0;
}

static void add_line(struct jail_net *net, const char *key, const char *value)
{
	size_t n = strlen(net->resolv);

	(void)snprintf(net->resolv + n, sizeof net->resolv - n, "%s %s\n", key, value);
}

/* Open its port 53, and write it down. */
static int use(const struct launcher_rule *address, const char *text, struct launcher_request *rq,
	struct jail_net *net, struct cell_error *err)
{
	struct launcher_rule r = *address;

	r.kind = LAUNCHER_RULE_NAMED;
	r.port = 53;
	add_line(net, "nameserver", text);
	return launcher_rule_problem(&r) ? 0 : jail_net_add(rq, &r, err);
}

static bool parse(const char *text, struct launcher_rule *ret)
{
	struct cell_destination d;

	if (!cell_destination_is_address(text) || cell_destination_parse(text, &d) < 0)
		return false;
	*ret = (struct launcher_rule){.family = d.family, .prefix = d.prefix};
	memcpy(ret->addr, d.addr, sizeof ret->addr);
	return true;
}

static void keep(char ret[256], const char *value)
{
	for (const char *p = value; *p; p++)
		if ((unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f)
			return;
	(void)snprintf(ret, 256, "%s", value);
}

/* Every resolver of a resolv.conf that a cell can reach. */
static int take(char *text, struct launcher_request *rq, struct jail_net *net, struct choice *c,
	struct cell_error *err)
{
	char *rest = text;
	int r = 0;

	for (char *line; r == 0 && (line = strsep(&rest, "\n"));) {
		struct launcher_rule address;
		char *key = strsep(&line, " \t");

		if (!line)
			continue;
		line += strspn(line, " \t");
		if (!strcmp(key, "search") || !strcmp(key, "domain")) {
			keep(c->search, line);
		} else if (!strcmp(key, "options")) {
			keep(c->options, line);
		} else if (!strcmp(key, "nameserver")) {
			line[strcspn(line, " \t#;")] = '\0';
			if (!parse(line, &address)) /* with a zone: link-local, out of reach */
				continue;
			c->is_own |= jail_net_is_own(rq, &address);
			if (jail_net_is_own(rq, &address) || c->n == RESOLVERS_MAX)
				continue;
			r = use(&address, line, rq, net, err);
			c->n++;
		}
	}
	return r;
}

static int use_named(const char *const *names, struct launcher_request *rq, struct jail_net *net,
	struct cell_error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && names[i]; i++) {
		struct launcher_rule address;

		if (!parse(names[i], &address)) {
			r = cell_fail(err, CELL_EINVAL, 0, "network.dns: '%s'", names[i]);
			return cell_error_hint(err, r, "give an address, such as 9.9.9.9");
		}
		if (jail_net_is_own(rq, &address)) {
			r = cell_fail(err, CELL_EDENIED, 0,
				"network.dns: '%s' is an address of the host itself", names[i]);
			return cell_error_hint(err, r,
				"cells cannot reach the host: give a resolver elsewhere");
		}
		r = use(&address, names[i], rq, net, err);
	}
	return r;
}

int jail_net_resolvers(const struct cell_spec *spec, struct launcher_request *rq,
	struct jail_net *net, struct cell_error *err)
{
	static const char *const files[] = {
		"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf", NULL};
	char text[FILE_MAX];
	struct choice c = {0};
	int r = 0;

	(void)snprintf(net->resolv, sizeof net->resolv, "# made by Cell\n");
	if (spec->network_dns && *spec->network_dns)
		return use_named(spec->network_dns, rq, net, err);
	for (size_t i = 0; r == 0 && !c.n && files[i]; i++)
		if (read_text(files[i], text, sizeof text) == 0)
			r = take(text, rq, net, &c, err);
	if (r == 0 && !c.n && c.is_own) {
		struct launcher_rule address;

		if (net->is_rootful) {
			r = cell_fail(err, CELL_ENOTSUP, 0,
				"open the network: the host's resolver listens on the host itself, "
				"where a cell cannot reach it");
			return cell_error_hint(err, r,
				"name one: --dns ADDRESS (network.dns), or run Cell without root");
		}
		net->forwards_dns = true;
		if (parse(JAIL_NET_RESOLVER, &address))
			r = use(&address, JAIL_NET_RESOLVER, rq, net, err);
	}
	if (c.search[0])
		add_line(net, "search", c.search);
	if (c.options[0])
		add_line(net, "options", c.options);
	return r;
}
