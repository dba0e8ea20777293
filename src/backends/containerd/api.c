/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/containerd/ctd.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "core/silence.h"
#include "net/protobuf.h"

#define USUAL_ADDRESS "/run/containerd/containerd.sock"
#define SERVICES      "/containerd.services."
#define METHOD_MAX    120

void ctd_close(void **at)
{
	struct ctd *d = *at;

	if (d)
		grpc_free(d->rpc);
	free(d);
	*at = NULL;
}

static const char *setting(const struct cell *c, const char *note, const char *variable,
	const char *usual)
{
	const char *noted = c ? cell_note(c, note) : NULL, *given = getenv(variable);

	return noted ? noted : given && *given ? given : usual;
}

static int silent(struct ctd *d, int r, struct cell_error *err)
{
	const struct silence s = {.who = "containerd",
		.where = d->address,
		.fix = "start it (systemctl start containerd), or say where it is: "
		       "CONTAINERD_ADDRESS",
		.denied = "be root: who may use containerd's socket is as good as root"};

	d->is_broken = true;
	return silence_explain(&s, r, err);
}

int ctd_open(const void *kind, const struct cell *c, void **ret, struct cell_error *err)
{
	const char *address = setting(c, "engine", "CONTAINERD_ADDRESS", USUAL_ADDRESS);
	const char *space = setting(c, "engine_namespace", "CONTAINERD_NAMESPACE", "cell");
	const char *snapshotter = setting(c, "snapshotter", "CONTAINERD_SNAPSHOTTER", "overlayfs");
	struct ctd *d = calloc(1, sizeof *d);
	auto_ctd void *at = d;

	(void)kind;
	if (!d)
		return cell_fail_errno(err, ENOMEM, "reach containerd");
	if (!strncmp(address, "unix://", 7))
		address += 7;
	if ((size_t)snprintf(d->address, sizeof d->address, "%s", address) >= sizeof d->address ||
		(size_t)snprintf(d->space, sizeof d->space, "%s", space) >= sizeof d->space ||
		(size_t)snprintf(d->snapshotter, sizeof d->snapshotter, "%s", snapshotter) >=
			sizeof d->snapshotter)
		return cell_fail(err, CELL_EINVAL, ENAMETOOLONG,
			"where containerd is: an address or name of CONTAINERD_*");
	int r = grpc_open(d->address, &d->rpc, err);
	if (r < 0)
		return silent(d, r, err);
	*ret = steal_ptr(at);
	return 0;
}

/* What it answers goes into one buffer. */
static int take(void *arg, const uint8_t *p, size_t n)
{
	return arg ? buf_add(arg, p, n) : 0;
}

static int begin(struct ctd *d, const char *method, struct buf *ret, struct cell_error *err)
{
	char path[METHOD_MAX];
	const struct grpc_field metadata[] = {{"containerd-namespace", d->space},
		{d->lease[0] ? "containerd-lease" : NULL, d->lease}, {0}};
	struct grpc_call call = {.method = path, .metadata = metadata, .take = take, .arg = ret};

	(void)snprintf(path, sizeof path, SERVICES "%s", method);
	int r = grpc_begin(d->rpc, &call, err);
	return r < 0 ? silent(d, r, err) : 0;
}

int ctd_begin(struct ctd *d, const char *method, struct cell_error *err)
{
	return begin(d, method, NULL, err);
}

static int refused(int status, const char *doing, const char *said, struct cell_error *err)
{
	static const struct cell_known_words known[] = {
		{"no space left on device", CELL_ENOSPACE,
			"free some space where containerd keeps its data, /var/lib/containerd "
			"unless its configuration says else"},
		{0}};
	enum cell_code code = status == GRPC_NOT_FOUND	    ? CELL_ENOTFOUND
			      : status == GRPC_EXISTS	    ? CELL_EEXISTS
			      : status == GRPC_PRECONDITION ? CELL_EBUSY
			      : status == GRPC_INVALID	    ? CELL_EINVAL
			      : status == GRPC_DENIED	    ? CELL_EDENIED
							    : CELL_EBACKEND;

	int r = cell_fail(err, code, 0, "%s: containerd says: '%.280s'", doing, said);
	return cell_error_known(err, r, said, known);
}

int ctd_end(struct ctd *d, const char *doing, struct cell_error *err)
{
	char said[400];
	int r = grpc_end(d->rpc, said, sizeof said, err);

	if (r < 0)
		return silent(d, r, err);
	return r == 0 ? 0 : refused(r, doing, said, err);
}

int ctd_call(struct ctd *d, const char *method, const struct buf *request, struct buf *ret,
	const char *doing, struct cell_error *err)
{
	int r = begin(d, method, ret, err);

	if (r == 0)
		r = grpc_send(d->rpc, request, err);
	if (r < 0)
		return silent(d, r, err);
	return ctd_end(d, doing, err);
}

int ctd_try(struct ctd *d, const char *method, const struct buf *request, struct buf *ret,
	const char *doing, int expected, struct cell_error *err)
{
	struct cell_error why;
	int r = ctd_call(d, method, request, ret, doing, &why);

	if (r < 0 && r != expected && err)
		*err = why;
	return r;
}

int ctd_version(struct ctd *d, char ret[80], struct cell_error *err)
{
	const struct buf nothing = {0};
	auto_buf struct buf answer = BUF_INIT(4096);
	int r = ctd_call(d, "version.v1.Version/Version", &nothing, &answer, "ask for its version",
		err);

	if (r == 0)
		pb_find_str(answer.data, answer.len, 1, ret, 80);
	return r;
}
