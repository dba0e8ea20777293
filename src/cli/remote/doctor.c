/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.c: what `cell doctor` says about a server: is it there, which version, does it take the token, as whom. */
#include "cli/doctor.h"

#include <stdio.h>
#include <string.h>

#include "cli/remote/remote.h"

static void put(struct cli_check *c, enum cli_health health, const char *name, const char *detail,
	const char *fix)
{
	*c = (struct cli_check){.name = name, .health = health};
	(void)snprintf(c->detail, sizeof c->detail, "%s", detail);
	(void)snprintf(c->fix, sizeof c->fix, "%s", fix);
}

size_t remote_doctor(struct cli_check *ret, size_t max)
{
	json_t *health = NULL, *who = NULL;
	struct cell_error err = {0};
	char text[sizeof ret->detail];
	size_t n = 0;

	if (max < 3)
		return 0;
	if (remote_call(&(struct remote_request){.target = "/healthz"}, &health, &err) < 0) {
		put(&ret[n++], CLI_HEALTH_BAD, "server", err.msg, err.hint);
		return n;
	}
	(void)snprintf(text, sizeof text, "%.200s answers", cells->server);
	put(&ret[n++], CLI_HEALTH_OK, "server", text, "");
	const char *version = remote_text(health, "version");
	bool is_same = !strcmp(version, cell_version());
	(void)snprintf(text, sizeof text, "%.40s%s%s", version, is_same ? "" : ", this program is ",
		is_same ? "" : cell_version());
	put(&ret[n++], is_same ? CLI_HEALTH_OK : CLI_HEALTH_WARN, "server version", text,
		is_same ? "" : "install the same version on both");
	json_decref(health);
	if (remote_whoami(&who, &err) < 0) {
		put(&ret[n++], CLI_HEALTH_BAD, "token", err.msg, err.hint);
		return n;
	}
	(void)snprintf(text, sizeof text, "valid: role %.20s, tenant %.64s",
		remote_text(who, "role"), remote_text(who, "tenant"));
	put(&ret[n++], CLI_HEALTH_OK, "token", text, "");
	return n;
}
