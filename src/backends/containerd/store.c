/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "backends/containerd/ctd.h"
#include "base/error.h"
#include "core/process.h"
#include "net/protobuf.h"

#define LEASE_S 3600

static int no_memory(struct cell_error *err)
{
	return cell_fail_errno(err, ENOMEM, "ask containerd");
}

/* ---- content ---- */

/* ReadContentResponse: the bytes are field 2, in as many messages as it likes. */
static int join(const struct buf *answer, struct buf *ret)
{
	struct pb_reader r = pb_read(answer->data, answer->len);
	struct pb_field f;

	while (pb_next(&r, &f))
		if (f.number == 2 && buf_add(ret, f.data, f.size) < 0)
			return -ENOBUFS;
	return r.is_broken ? -EPROTO : 0;
}

static int add_digest(struct buf *b, unsigned field, const char *hex)
{
	char digest[CTD_DIGEST];

	(void)snprintf(digest, sizeof digest, "sha256:%s", hex);
	return pb_add_str(b, field, digest);
}

int ctd_content(struct ctd *d, const char *hex, struct buf *ret, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(200), answer = BUF_INIT(CTD_TEXT_MAX);
	struct digest have;
	char text[DIGEST_HEX + 1];

	if (add_digest(&request, 1, hex) < 0)
		return no_memory(err);
	int r = ctd_call(d, "content.v1.Content/Read", &request, &answer, "read the image", err);
	if (r < 0)
		return r;
	if (join(&answer, ret) < 0)
		return cell_fail(err, CELL_EPROTOCOL, 0, "read the image: not all of it came");
	digest_init(&have);
	digest_add(&have, ret->data, ret->len);
	digest_hex(&have, text);
	if (strcmp(text, hex) != 0)
		return cell_error_hint(err,
			cell_fail(err, CELL_EPROTOCOL, 0,
				"containerd gave sha256:%.12s... for sha256:%.12s...", text, hex),
			"its store is damaged: remove the image and pull it again");
	return 0;
}

bool ctd_has_content(struct ctd *d, const char *hex)
{
	auto_buf struct buf request = BUF_INIT(200);

	return add_digest(&request, 1, hex) == 0 &&
	       ctd_call(d, "content.v1.Content/Info", &request, NULL, "look for it", NULL) == 0;
}

int ctd_add_labels(struct buf *b, unsigned field, const struct ctd_label *labels)
{
	int r = 0;

	for (; r == 0 && labels && labels->key; labels++)
		r = pb_add_pair(b, field, labels->key, labels->value);
	return r;
}

int ctd_label_content(struct ctd *d, const char *hex, const struct ctd_label *label,
	struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(4096), info = BUF_INIT(2048), mask = BUF_INIT(1024);
	const struct ctd_label labels[] = {*label, {0}};
	char path[400];

	(void)snprintf(path, sizeof path, "labels.%s", label->key);
	if (add_digest(&info, 1, hex) < 0 || ctd_add_labels(&info, 5, labels) < 0 ||
		pb_add_str(&mask, 1, path) < 0 || pb_add_message(&request, 1, &info) < 0 ||
		pb_add_message(&request, 2, &mask) < 0)
		return no_memory(err);
	return ctd_call(d, "content.v1.Content/Update", &request, NULL, "label the image", err);
}

/* ---- snapshots ---- */

int ctd_prepare(struct ctd *d, const char *key, const char *parent, const struct ctd_label *labels,
	struct buf *ret, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(16384);

	if (pb_add_str(&request, 1, d->snapshotter) < 0 || pb_add_str(&request, 2, key) < 0 ||
		pb_add_str(&request, 3, parent) < 0 || ctd_add_labels(&request, 4, labels) < 0)
		return no_memory(err);
	return ctd_try(d, "snapshots.v1.Snapshots/Prepare", &request, ret,
		"make a snapshot of the image", -ENOENT, err);
}

int ctd_remove_snapshot(struct ctd *d, const char *key, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(1024);

	if (pb_add_str(&request, 1, d->snapshotter) < 0 || pb_add_str(&request, 2, key) < 0)
		return no_memory(err);
	int r = ctd_try(d, "snapshots.v1.Snapshots/Remove", &request, NULL, "remove the snapshot",
		-ENOENT, err);
	return r == -ENOENT ? 0 : r;
}

/* ---- leases ---- */

int ctd_lease(struct ctd *d, struct cell_error *err)
{
	auto_buf struct buf request = BUF_INIT(1024);
	char id[sizeof d->lease], expires[40], owner[48];
	time_t end_s = time(NULL) + LEASE_S;
	struct tm t;
	uint64_t number;

	if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
		return cell_fail_errno(err, errno, "choose a name");
	(void)snprintf(id, sizeof id, "cell-%016" PRIx64, number);
	(void)gmtime_r(&end_s, &t);
	(void)strftime(expires, sizeof expires, "%Y-%m-%dT%H:%M:%SZ", &t);
	(void)snprintf(owner, sizeof owner, "%d %" PRIu64, getpid(),
		(uint64_t)cell_process_start_time(getpid()));
	const struct ctd_label labels[] = {{"containerd.io/gc.expire", expires},
		{CONTAINER_LABEL_STATE, d->state}, {CTD_LABEL_OWNER, owner}, {0}};
	if (pb_add_str(&request, 1, id) < 0 || ctd_add_labels(&request, 3, labels) < 0)
		return no_memory(err);
	int r = ctd_call(d, "leases.v1.Leases/Create", &request, NULL, "take a lease", err);
	if (r == 0)
		memcpy(d->lease, id, sizeof id);
	return r;
}

void ctd_lease_end(struct ctd *d)
{
	auto_buf struct buf request = BUF_INIT(200);
	int r = pb_add_str(&request, 1, d->lease);

	d->lease[0] = '\0';
	if (r == 0) /* else it ends by itself */
		(void)ctd_call(d, "leases.v1.Leases/Delete", &request, NULL, "end a lease", NULL);
}
